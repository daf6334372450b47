"""/v1/chat/completions: a conversation in, an assistant's message out, whole or in chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response

from paceline.conversation.parsing.events import CallArguments, CallBroken, CallStart, Content, Event, Reasoning, merge
from paceline.requests import ChatRequest
from paceline.server.common.chat_run import ChatDelta, ChatRun
from paceline.server.common.fields import refuse_unsupported
from paceline.server.common.reasoning import thinking_options
from paceline.server.http.body import read_body
from paceline.server.http.disconnect import unless_disconnected
from paceline.server.http.encoding import encode_long
from paceline.server.http.identity import current
from paceline.server.http.openapi import described_by, gives
from paceline.server.http.sse import start_stream
from paceline.server.openai.envelope import DONE, Envelope, failed
from paceline.server.openai.logprobs import chat_logprobs
from paceline.server.openai.objects import ChatCompletion
from paceline.server.openai.reasoning import other_words, verbosity_options
from paceline.server.openai.sampling import chat_sampling, choices
from paceline.server.openai.schema import UNSUPPORTED_IN_CHAT, ChatBody
from paceline.server.openai.structured import response_grammar
from paceline.server.openai.tools import toolbox
from paceline.server.state import AppState
from paceline.types import TokenLogprob


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/v1/chat/completions", openapi_extra=described_by(ChatBody), responses=gives(ChatCompletion, streams=True)
    )
    async def create_chat_completion(request: Request) -> Response:
        body, fields = await read_body(request, ChatBody)
        refuse_unsupported(fields, UNSUPPORTED_IN_CHAT)
        state.check_ready()
        state.check_model(body.model)
        chat = Chat(state, body, fields)
        if body.stream:
            return await start_stream(request.receive, chat.events(), failed=failed, end=DONE)
        return Response(await unless_disconnected(request.receive, chat.whole()), media_type="application/json")

    return router


@dataclass(slots=True)
class _Output:
    """One choice as it grows, when nothing is streamed."""

    events: list[Event] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    last: ChatDelta | None = None


class Chat:
    """One request to the endpoint."""

    def __init__(self, state: AppState, body: ChatBody, fields: dict[str, Any]) -> None:
        self.state = state
        self.body = body
        self.envelope = Envelope("chatcmpl", state.model_name)
        effort, enabled = other_words(fields)
        options = thinking_options(
            state,
            effort if body.reasoning_effort is None else body.reasoning_effort,
            enabled if body.enable_thinking is None else body.enable_thinking,
        )
        options |= verbosity_options(state, body.verbosity, "verbosity")
        request = ChatRequest(
            messages=fields["messages"],  # as the client wrote them: the template may use more than we check
            sampling=chat_sampling(body, state),
            n=choices(body),
            template_options={**options, **(body.chat_template_kwargs or {})},
            request_id=self.envelope.id,
            cache=body.cache is not False,
            cache_salt=body.cache_salt or "",
            grammar=response_grammar(fields),
            tenant=current().tenant(body.user),
            priority=body.priority or 0,
        )
        box = toolbox(fields.get("tools"), fields.get("tool_choice"), body.parallel_tool_calls)
        self.run = ChatRun(state, request, box)

    async def whole(self) -> bytes:
        outputs: dict[int, _Output] = {}
        async with aclosing(self.run.deltas()) as deltas:
            async for delta in deltas:
                output = outputs.setdefault(delta.index, _Output())
                output.events += delta.events
                output.logprobs += delta.logprobs
                output.last = delta
        return await asyncio.to_thread(self._written, outputs)  # scores of every token may be many

    def _written(self, outputs: dict[int, _Output]) -> bytes:
        made = [self._choice(index, output) for index, output in sorted(outputs.items())]
        return encode_long(self.envelope.response("chat.completion", made, self.run.counter.usage()))

    async def events(self) -> AsyncGenerator[bytes, None]:
        options = self.body.stream_options
        include_usage = bool(options and options.include_usage)
        running_usage = bool(options and options.continuous_usage_stats)
        encode = self.envelope.chunks("chat.completion.chunk", nullable_usage=include_usage)
        async with aclosing(self.run.deltas()) as deltas:
            async for delta in deltas:
                usage = self.run.counter.usage() if running_usage else None
                event = b"".join(encode([chunk], usage) for chunk in self._chunks(delta))
                if event:
                    yield event
        if include_usage:
            yield encode([], self.run.counter.usage())

    def _choice(self, index: int, output: _Output) -> dict[str, Any]:
        answer = merge(output.events)
        message: dict[str, Any] = {"role": "assistant", "content": answer.content, "refusal": None}
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning
        if answer.calls:
            message["content"] = answer.content or None
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in answer.calls
            ]
        last = output.last
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(output.logprobs) if self.body.logprobs else None,
            "finish_reason": None if last is None else last.finish_reason,
            "stop_reason": None if last is None else last.stop_reason,
        }

    def _chunks(self, delta: ChatDelta) -> list[dict[str, Any]]:
        contents = [_delta(event) for event in delta.events]
        chunks = [_chunk(delta.index, content) for content in contents if content is not None]
        if delta.first:
            chunks.insert(0, _chunk(delta.index, {"role": "assistant", "content": ""}))
        scores = self._logprobs(delta.logprobs) if self.body.logprobs and delta.logprobs else None
        if delta.finish_reason is not None or (scores is not None and len(chunks) == delta.first):
            chunks.append(_chunk(delta.index, {}))  # the end, or tokens whose text is still to come
        if scores is not None:
            chunks[int(delta.first)]["logprobs"] = scores
        if delta.finish_reason is not None:
            chunks[-1]["finish_reason"] = delta.finish_reason
            chunks[-1]["stop_reason"] = delta.stop_reason
        return chunks

    def _logprobs(self, entries: Iterable[TokenLogprob]) -> dict[str, Any]:
        return chat_logprobs(self.state.backend.tokenizer, entries)


def _delta(event: Event) -> dict[str, Any] | None:
    match event:
        case Content(text) | CallBroken(_, text, False):
            return {"content": text}
        case Reasoning(text):
            return {"reasoning_content": text}
        case CallStart(index, id, name):
            function = {"name": name, "arguments": ""}
            return {"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}
        case CallArguments(index, text):
            return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
        case _:
            return None


def _chunk(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
