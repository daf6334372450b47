"""/api/chat and /api/generate: an answer as lines while it is made, or whole."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from paceline.conversation.parsing.events import (
    CallArguments,
    CallBroken,
    CallEnd,
    CallStart,
    Content,
    Event,
    Reasoning,
)
from paceline.errors import InvalidRequest
from paceline.requests import ChatRequest, GenerateRequest
from paceline.server.common.chat_run import ChatDelta, ChatRun
from paceline.server.common.conversation import Conversation
from paceline.server.common.deltas import UsageCounter, follow
from paceline.server.common.tools import Toolbox, call_arguments, function_tools
from paceline.server.http.identity import current
from paceline.server.http.openapi import body_schema
from paceline.server.http.response import KeepAlive, encode_json, start_stream, unless_disconnected
from paceline.server.ollama.errors import failed
from paceline.server.ollama.input import conversation, single_turn
from paceline.server.ollama.schema import (
    LINES,
    AnswerBody,
    ChatBody,
    GenerateBody,
    Line,
    grammar_of,
    read,
    returns_lines,
    sampling_of,
    thinking_of,
)
from paceline.server.state import AppState
from paceline.types import RequestId

Fields = dict[str, Any]
Form = Callable[[str, str, list[Fields]], Fields]  # text, thoughts and calls as the endpoint writes them


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.post("/api/chat", openapi_extra=body_schema(ChatBody), responses=returns_lines(Line))
    async def chat(request: Request) -> Response:
        body, _ = await read(state, request, ChatBody)
        if not body.messages:
            return JSONResponse(loaded(state, body, as_message))
        return await sent(state, request, body, as_message, lambda: chat_answer(state, body))

    @router.post("/api/generate", openapi_extra=body_schema(GenerateBody), responses=returns_lines(Line))
    async def generate(request: Request) -> Response:
        body, _ = await read(state, request, GenerateBody)
        if not body.prompt and not body.images and not body.raw:
            return JSONResponse(loaded(state, body, as_response))
        return await sent(state, request, body, as_response, lambda: generate_answer(state, body))

    return router


async def sent(
    state: AppState, request: Request, body: AnswerBody, form: Form, answer: Callable[[], Answer]
) -> Response:
    if body.stream is not False:
        keep_alive = KeepAlive(state.settings.stream_keepalive_seconds, nothing(state.answers_as(body.model), form))
        lines = state.once_ready(lambda: answer().lines())
        return await start_stream(request.receive, lines, failed=failed, keep_alive=keep_alive, media_type=LINES)
    return JSONResponse(await unless_disconnected(request.receive, answer().whole()))


def loaded(state: AppState, body: AnswerBody, form: Form) -> Fields:
    """To nothing: Ollama loads the model then, or unloads it. Here it is always loaded."""
    reason = "unload" if body.keep_alive in (0, "0", "0s", "0m", "0h") else "load"
    return {**_head(state.answers_as(body.model)), **form("", "", []), "done_reason": reason, "done": True}


# -- requests


def chat_answer(state: AppState, body: ChatBody) -> Answer:
    box = Toolbox(function_tools([_typed(tool) for tool in body.tools] if body.tools else None))
    return Answer(state, body, as_message, _talk(state, body, conversation(body.messages or ()), box))


def generate_answer(state: AppState, body: GenerateBody) -> Answer:
    prompt = body.prompt or ""
    if body.raw or not state.backend.takes_chat:
        for name, given in (("system", body.system), ("images", body.images), ("think", body.think)):
            if given:
                raise InvalidRequest.at(name, "needs the model's template: it cannot be used with a raw prompt.")
        return Answer(state, body, as_response, _text(state, body, prompt))
    return Answer(
        state, body, as_response, _talk(state, body, single_turn(body.system, prompt, body.images), Toolbox())
    )


def _typed(tool: Any) -> Any:
    """Ollama's clients may leave the type out: there is but one."""
    return {"type": "function", **tool} if isinstance(tool, dict) else tool


Run = Callable[[UsageCounter], AsyncGenerator[ChatDelta, None]]


def _talk(state: AppState, body: AnswerBody, talk: Conversation, box: Toolbox) -> Run:
    request = ChatRequest(
        messages=talk.messages,
        sampling=sampling_of(body.options, state),
        template_options=thinking_of(body.think, state),
        request_id=_new_id(),
        grammar=grammar_of(body.format),
        tenant=current().tenant(None),
        announce=body.stream is not False,
        lora=state.lora_of(body.model),
    )

    async def deltas(counter: UsageCounter) -> AsyncGenerator[ChatDelta, None]:
        with talk.renaming_errors():
            async with aclosing(ChatRun(state, request, box, counter).deltas()) as found:
                async for delta in found:
                    yield delta

    return deltas


def _text(state: AppState, body: GenerateBody, prompt: str) -> Run:
    """The prompt as it stands, without a template: nothing in the answer is a thought or a call."""
    request = GenerateRequest(
        prompt,
        sampling_of(body.options, state),
        request_id=_new_id(),
        grammar=grammar_of(body.format),
        tenant=current().tenant(None),
        announce=body.stream is not False,
        lora=state.lora_of(body.model),
    )

    async def deltas(counter: UsageCounter) -> AsyncGenerator[ChatDelta, None]:
        stream = follow(state, state.backend.stream_generate(request), 1, request.request_id)
        async with aclosing(stream):
            async for delta in stream:
                counter.add(0, delta)
                if delta.accepted is not None:
                    yield ChatDelta(0, accepted=True)
                    continue
                events = (Content(delta.text),) if delta.text else ()
                yield ChatDelta(0, events, finish_reason=delta.finish_reason)

    return deltas


def _new_id() -> RequestId:
    id = RequestId(f"ollama-{uuid.uuid4().hex}")
    current().add_ids(id)
    return id


# -- answers


def as_message(text: str, thoughts: str, calls: list[Fields]) -> Fields:
    message: Fields = {"role": "assistant", "content": text}
    if thoughts:
        message["thinking"] = thoughts
    if calls:
        message["tool_calls"] = calls
    return {"message": message}


def as_response(text: str, thoughts: str, calls: list[Fields]) -> Fields:
    return {"response": text, **({"thinking": thoughts} if thoughts else {})}


class Answer:
    """One answer, and how long its parts took."""

    def __init__(self, state: AppState, body: AnswerBody, form: Form, run: Run) -> None:
        self.state = state
        self.model = state.answers_as(body.model)
        self.form = form
        self.run = run
        self.counter = UsageCounter()
        self.calls = Calls()
        self.began = time.perf_counter_ns()
        self.first = 0  # when the prompt was read

    async def lines(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.run(self.counter)) as deltas:
            async for delta in deltas:
                line = b""
                if delta.accepted:
                    yield nothing(self.model, self.form)
                    continue
                said, thoughts, calls = self._read(delta)
                if said or thoughts or calls:
                    line = _line(self.model, {**self.form(said, thoughts, calls), "done": False})
                if delta.finish_reason is not None:
                    line += _line(self.model, {**self.form("", "", []), **self._end(delta)})
                if line:
                    yield line

    async def whole(self) -> Fields:
        said, thoughts, calls = "", "", list[Fields]()
        end = ChatDelta(0)
        async with aclosing(self.run(self.counter)) as deltas:
            async for end in deltas:
                text, thought, more = self._read(end)
                said, thoughts, calls = said + text, thoughts + thought, calls + more
        return {**_head(self.model), **self.form(said, thoughts, calls), **self._end(end)}

    def _read(self, delta: ChatDelta) -> tuple[str, str, list[Fields]]:
        self.first = self.first or time.perf_counter_ns()
        return self.calls.read(delta.events)

    def _end(self, delta: ChatDelta) -> Fields:
        """Ollama has two reasons, and nanoseconds. Clients divide by `eval_duration`: it is never 0."""
        now, usage = time.perf_counter_ns(), self.counter.usage()
        first = self.first or now
        return {
            "done_reason": "length" if delta.finish_reason == "length" else "stop",
            "done": True,
            "total_duration": now - self.began,
            "load_duration": 0,
            "prompt_eval_count": usage["prompt_tokens"],
            "prompt_eval_duration": max(first - self.began, 1),
            "eval_count": usage["completion_tokens"],
            "eval_duration": max(now - first, 1),
        }


class Calls:
    """Collects calls: Ollama sends each whole."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[CallStart, list[str]]] = {}

    def read(self, events: Iterable[Event]) -> tuple[str, str, list[Fields]]:
        """What these events add: text, thoughts, and calls that are whole now. A broken call is text."""
        said, thoughts, calls = "", "", list[Fields]()
        for event in events:
            match event:
                case Content(text) | CallBroken(_, text):
                    said += text
                case Reasoning(text):
                    thoughts += text
                case CallStart(index):
                    self._open[index] = (event, [])
                case CallArguments(index, text):
                    self._open[index][1].append(text)
                case CallEnd(index):
                    start, pieces = self._open.pop(index)
                    arguments = call_arguments("".join(pieces))
                    if arguments is None:
                        said += "".join(pieces)
                    else:
                        function = {"index": index, "name": start.name, "arguments": arguments}
                        calls.append({"id": start.id, "function": function})
        return said, thoughts, calls


def nothing(model: str, form: Form) -> bytes:
    """A line that adds nothing: there are no comments between lines of JSON."""
    return _line(model, {**form("", "", []), "done": False})


def _line(model: str, fields: Fields) -> bytes:
    return f"{encode_json({**_head(model), **fields})}\n".encode()


def _head(model: str) -> Fields:
    return {"model": model, "created_at": now()}


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
