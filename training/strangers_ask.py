"""Questions of a stranger, and how they are put to a model: through Paceline's HTTP routes, here or elsewhere.

A `Question` has one turn to win: its `verdict` gets the whole answer and returns why it is wrong, or "" where it is
right. The body is that of /v1/chat/completions, so a question can carry pictures, tools and a response format.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

TIMEOUT_S = 3600.0  # a batch of 16k prompts on two cores
LOCAL = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    calls: tuple[Mapping[str, str], ...] = ()  # {"name": ..., "arguments": JSON text}
    finish: str = ""
    prompt_tokens: int = 0
    error: str = ""


Verdict = Callable[[Answer], str]


@dataclass(frozen=True, slots=True)
class Question:
    figure: str  # the row of the table it counts for
    body: Mapping[str, Any]  # of /v1/chat/completions, without the model's name
    verdict: Verdict
    expected: Any = None  # for the reader of the log
    facts: Mapping[str, Any] = field(default_factory=dict)  # how it was made, for the reader of the log


@dataclass(frozen=True, slots=True)
class Judged:
    question: Question
    answer: Answer
    wrong: str  # why, or ""

    def record(self) -> dict[str, Any]:
        """One line of the log. Pictures are shortened to their size."""
        return {
            "figure": self.question.figure,
            "right": not self.wrong,
            "wrong": self.wrong,
            "expected": self.question.expected,
            "answer": self.answer.text,
            "calls": list(self.answer.calls),
            "finish": self.answer.finish,
            "prompt_tokens": self.answer.prompt_tokens,
            "facts": dict(self.question.facts),
            "body": without_pictures(self.question.body),
        }


def chat(figure: str, prompt: Any, verdict: Verdict, *, max_tokens: int = 64, **more: Any) -> Question:
    """A question with greedy sampling. `prompt` is a text, a list of content parts, or a list of messages."""
    is_messages = isinstance(prompt, list) and bool(prompt) and "role" in prompt[0]
    messages = prompt if is_messages else [{"role": "user", "content": prompt}]
    expected, facts = more.pop("expected", None), more.pop("facts", {})
    body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, **more}
    return Question(figure, body, verdict, expected, facts)


def without_pictures(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: without_pictures(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_pictures(item) for item in value]
    if isinstance(value, str) and value.startswith("data:image"):
        return f"data:image, {len(value)} characters"
    return value


class Stranger:
    """One conversation partner: a client of a server, which may run in this process."""

    def __init__(self, http: httpx.AsyncClient, together: int, keep: float | None = None) -> None:
        self._http = http
        self._seats = asyncio.Semaphore(together)
        self._more = {} if keep is None else {"specprefill": True, "specprefill_keep_pct": keep}
        self._model = ""

    async def connect(self) -> None:
        listed = (await self._http.get("/v1/models")).raise_for_status().json()
        self._model = listed["data"][0]["id"]

    async def count_tokens(self, text: str) -> int:
        answer = await self._http.post("/tokenize", json={"model": self._model, "prompt": text})
        count: int = answer.raise_for_status().json()["count"]
        return count

    async def ask(self, question: Question) -> Judged:
        async with self._seats:
            body = {"model": self._model, **question.body, **self._more}
            reply = await self._http.post("/v1/chat/completions", json=body)
        answer = read(reply)
        wrong = f"error: {answer.error}" if answer.error else question.verdict(answer)
        return Judged(question, answer, wrong)

    async def ask_all(self, questions: Sequence[Question], done: Callable[[Judged], None]) -> list[Judged]:
        """In parallel, as many at a time as there are seats. `done` hears of each as it is judged."""

        async def one(question: Question) -> Judged:
            judged = await self.ask(question)
            done(judged)
            return judged

        return list(await asyncio.gather(*map(one, questions)))


def read(reply: httpx.Response) -> Answer:
    if reply.status_code != 200:
        return Answer("", error=f"{reply.status_code} {reply.text[:300]}")
    body = reply.json()
    choice = body["choices"][0]
    message = choice["message"]
    calls = tuple(
        {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
        for call in message.get("tool_calls") or ()
    )
    text = message.get("content") or ""
    return Answer(text, calls, choice["finish_reason"] or "", body.get("usage", {}).get("prompt_tokens", 0))


@asynccontextmanager
async def stranger(target: str, *, together: int = 16, keep: float | None = None) -> AsyncIterator[Stranger]:
    """To a server's URL, or to a model (a folder or an id; "paceline-mini" is the embedded one) that is loaded here.
    `keep`: prompts are prefilled sparsely, this share of them."""
    if re.match(r"https?://", target):
        async with httpx.AsyncClient(base_url=target.rstrip("/").removesuffix("/v1"), timeout=TIMEOUT_S) as http:
            partner = Stranger(http, together, keep)
            await partner.connect()
            yield partner
        return
    from paceline.server.app import create_app
    from paceline.service import Service
    from paceline.settings import Settings

    model = None if target == "paceline-mini" else target
    draft = None if keep is None else "paceline-mini-draft"
    settings = Settings(model=model, max_num_seqs=max(together, 1), specprefill_draft_model=draft)
    app = create_app(Service(settings), settings)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1234))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=LOCAL, timeout=TIMEOUT_S) as http,
    ):
        partner = Stranger(http, together, keep)
        await partner.connect()
        yield partner


class Clock:
    """How far a run is, for the terminal."""

    def __init__(self, total: int) -> None:
        self.total, self.count, self.right, self.since = total, 0, 0, time.monotonic()

    def line(self, judged: Judged) -> str:
        self.count += 1
        self.right += not judged.wrong
        spent = time.monotonic() - self.since
        return f"{self.count}/{self.total} asked, {self.right} right, {spent:.0f} s"
