"""Agents at work: conversations that share a long system prompt and grow turn by turn.

Streams take conversations from one list and play them one after another; a turn is the whole history and a new
message, as a chat client sends it. The answers in the history are scripted unless `own_answers`: so every server is
sent the same text, and a random model's answers, which a tokenizer need not read as they were written, stay out of it.

*Ideal* is every distinct token of all prompts once: what a server has to compute that forgets nothing. A prompt's last
token counts for nobody: it is always computed, as the first input of decoding. *Computed* is the server's own count
where it tells (Paceline's /v1/status), else its prompt tokens less those that its usage calls cached.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from paceline.bench.load import Outcome, Recording, read_outcome
from paceline.bench.prompts import PATHS, WORDS, Calibration, Lengths, Workload
from paceline.bench.report import Report, report
from paceline.bench.serve import find_model, probe
from paceline.bench.wire import Address, BenchError, Headers, call, exchange

Message = dict[str, str]
KNOWN = 64  # tokens of the first prompt that a server may have cached: its template's


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played. Lengths are in tokens, by the calibration."""

    requests: int = 200
    streams: int = 8
    turns: int = 10  # requests of a conversation
    system: int = 8192
    tools: int = 1024
    message: Lengths = Lengths(30, 300)
    answer: int = 16
    own_answers: bool = False
    seed: int = 0
    calibration: Calibration = Calibration()

    def __post_init__(self) -> None:
        for name in ("requests", "streams", "turns", "system", "answer"):
            if getattr(self, name) < 1:
                raise BenchError(f"The trace's {name} is {getattr(self, name)}: it has to be at least 1.")

    def conversations(self) -> Iterator[Conversation]:
        for index, begun in enumerate(range(0, self.requests, self.turns)):
            yield Conversation(self, index, min(self.turns, self.requests - begun))


@dataclass(frozen=True, slots=True)
class Conversation:
    plan: Plan
    index: int
    turns: int

    def opening(self) -> list[Message]:
        """What all conversations have in common."""
        system = self._text(self.plan.system, "system")
        tools = f"\n\nTools:\n{self._text(self.plan.tools, 'tools')}" if self.plan.tools else ""
        return [{"role": "system", "content": system + tools}]

    def message(self, turn: int) -> Message:
        """A question, then results of tools."""
        name = f"{self.index}/{turn}"
        tokens = self.plan.message.draw(random.Random(f"{self.plan.seed}/{name}/length"))
        kind = "Result: " if turn else f"Task {self.index}: "
        return {"role": "user", "content": kind + self._text(tokens, name)}

    def answer(self, turn: int) -> str:
        return self._text(self.plan.answer, f"{self.index}/{turn}/answer")

    def _text(self, tokens: int, name: str) -> str:
        words = max(1, round(tokens / self.plan.calibration.tokens_per_word))
        return " ".join(random.Random(f"{self.plan.seed}/{name}").choices(WORDS, k=words))


class Server(Protocol):
    """Whoever answers."""

    label: str
    notes: list[str]

    async def calibrate(self) -> Calibration: ...

    async def ask(self, messages: Sequence[Message], max_tokens: int) -> Outcome: ...

    async def prefilled(self) -> int | None:
        """Prompt tokens that it has computed so far; None: it does not tell."""
        ...

    async def tokens(self, messages: Sequence[Message]) -> list[int] | None:
        """The prompt as the model sees it; None: it does not tell."""
        ...


@dataclass(frozen=True, slots=True)
class TraceReport:
    run: Report
    computed: int | None
    ideal: int | None

    @property
    def ratio(self) -> float | None:
        return self.computed / self.ideal if self.computed is not None and self.ideal else None

    def figures(self) -> dict[str, Any]:
        return {"computed_tokens": self.computed, "ideal_tokens": self.ideal, "ratio": self.ratio, **asdict(self.run)}


async def play(
    server: Server, plan: Plan, *, ideal: int | None = None, finished: Callable[[], None] = lambda: None
) -> TraceReport:
    """Play the plan. `ideal` is another server's, for one that cannot tokenize."""
    conversations = plan.conversations()
    outcomes: list[Outcome] = []
    prompts: list[list[Message]] = []
    before = await server.prefilled()

    async def stream() -> None:
        for conversation in conversations:
            history = conversation.opening()
            for turn in range(conversation.turns):
                history = [*history, conversation.message(turn)]
                prompts.append(history)
                outcome = await server.ask(history, plan.answer)
                outcomes.append(outcome)
                finished()
                said = outcome.text if plan.own_answers else ""
                history = [*history, {"role": "assistant", "content": said or conversation.answer(turn)}]

    cpu, started = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(plan.streams):
            group.create_task(stream())
    recording = Recording(started, time.perf_counter(), time.process_time() - cpu, tuple(outcomes))
    after = await server.prefilled()
    run = report(recording, label=server.label, url="", model="")
    run = replace(run, notes=(*server.notes, *_notes(outcomes)))
    sequences = [ids for messages in prompts if (ids := await server.tokens(messages)) is not None]
    if len(sequences) == len(prompts):
        ideal = distinct_tokens(ids[:-1] for ids in sequences)
    computed = None
    if before is not None and after is not None:
        computed = after - before
    elif run.cached_tokens is not None:
        computed = run.prompt_tokens - run.cached_tokens
    return TraceReport(run, computed, ideal)


def distinct_tokens(sequences: Iterable[Sequence[int]]) -> int:
    """Nodes of the trie of these sequences: in order, each adds what it does not share with the one before."""
    total = 0
    before = np.zeros(0, dtype=np.int64)
    for sequence in sorted(tuple(sequence) for sequence in sequences):
        ids = np.asarray(sequence, dtype=np.int64)
        least = min(len(before), len(ids))
        differ = np.nonzero(before[:least] != ids[:least])[0]
        total += len(ids) - (int(differ[0]) if len(differ) else least)
        before = ids
    return total


def _notes(outcomes: Sequence[Outcome]) -> Iterator[str]:
    least = min((outcome.cached_tokens or 0 for outcome in outcomes), default=0)
    if least > KNOWN:
        yield f"Of every prompt the server knew at least {least} tokens, of the first one too: take a new --seed."
    silent = sum(not outcome.chunk_times for outcome in outcomes if outcome.failure is None)
    if silent:
        yield f"{silent} answers had no text, and so no time to first token."


class HttpServer:
    """Any OpenAI-compatible server."""

    def __init__(self, address: Address, model: str | None = None, label: str | None = None, timeout: float = 600.0):
        self.address = address
        self.model = model
        self.label = label or address.authority
        self.timeout = timeout
        self.notes: list[str] = []
        self.workload = Workload("")

    async def calibrate(self) -> Calibration:
        if self.model is None:
            self.model, notes = await find_model(self.address, timeout=self.timeout)
            self.notes += notes
        probed = await probe(self.address, replace(self.workload, model=self.model), timeout=self.timeout)
        self.workload = probed.workload
        self.notes += probed.notes
        return self.workload.calibration

    async def ask(self, messages: Sequence[Message], max_tokens: int) -> Outcome:
        return await self.send(self.address, messages, max_tokens)

    async def send(
        self, address: Address, messages: Sequence[Message], max_tokens: int, headers: Headers = ()
    ) -> Outcome:
        fields: dict[str, Any] = {"model": self.model, "messages": list(messages), "max_tokens": max_tokens}
        fields |= {"temperature": 0.0, "stream": True}
        if self.workload.include_usage:
            fields["stream_options"] = {"include_usage": True}
        if self.workload.ignore_eos:
            fields["ignore_eos"] = True
        body = json.dumps(fields).encode()
        return read_outcome(await exchange(address, "POST", PATHS["chat"], body, timeout=self.timeout, headers=headers))

    async def prefilled(self) -> int | None:
        status = await self._fields("GET", "/v1/status")
        count = status.get("prompt_tokens")
        return count if isinstance(count, int) else None

    async def tokens(self, messages: Sequence[Message]) -> list[int] | None:
        answer = await self._fields("POST", "/tokenize", {"model": self.model, "messages": list(messages)})
        ids = answer.get("tokens")
        return ids if isinstance(ids, list) and ids else None

    async def _fields(self, method: str, path: str, payload: Mapping[str, Any] | None = None) -> dict[str, Any]:
        reply = await call(self.address, method, path, payload, timeout=self.timeout)
        answer = reply.json() if reply.status == 200 else None
        return answer if isinstance(answer, dict) else {}
