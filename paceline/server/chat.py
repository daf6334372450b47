"""/v1/chat/completions: a conversation in, an assistant's message out, whole or in chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from paceline.engine.request import Delta, TokenLogprob
from paceline.server.backend import Serving
from paceline.server.body import described_by, read_body
from paceline.server.calls import (
    Collected,
    Deltas,
    Output,
    Tally,
    collect,
    follow,
    merge,
    unless_disconnected,
)
from paceline.server.envelope import Envelope
from paceline.server.logprobs import chat_logprobs
from paceline.server.sampling import chat_sampling, choices
from paceline.server.schema import UNSUPPORTED_IN_CHAT, ChatBody, refuse_unsupported
from paceline.server.streaming import start_stream
from paceline.service import ChatRequest


def routes(serving: Serving) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/chat/completions", openapi_extra=described_by(ChatBody))
    async def create_chat_completion(request: Request) -> Response:
        body, fields = await read_body(request, ChatBody)
        refuse_unsupported(fields, UNSUPPORTED_IN_CHAT)
        serving.check_ready()
        serving.check_model(body.model)
        chat = Chat(serving, body, fields)
        if body.stream:
            return await start_stream(request.receive, chat.events())
        return JSONResponse(await unless_disconnected(request.receive, chat.whole()))

    return router


class Chat:
    """One request to the endpoint."""

    def __init__(self, serving: Serving, body: ChatBody, fields: dict[str, Any]) -> None:
        self.serving = serving
        self.body = body
        self.envelope = Envelope("chatcmpl", serving.model_name)
        self.request = ChatRequest(
            messages=fields["messages"],  # as the client wrote them: the template may use more than we check
            sampling=chat_sampling(body, serving),
            n=choices(body),
            template_options=body.chat_template_kwargs or {},
            request_id=self.envelope.id,
            cache=body.cache is not False,
            cache_salt=body.cache_salt or "",
        )

    async def whole(self) -> dict[str, Any]:
        collected = await collect(self._deltas())
        return self.envelope.response("chat.completion", self._choices(collected), collected.tally.usage())

    async def events(self) -> AsyncGenerator[bytes, None]:
        options = self.body.stream_options
        include_usage = bool(options and options.include_usage)
        running_usage = bool(options and options.continuous_usage_stats)
        encode = self.envelope.chunks("chat.completion.chunk", nullable_usage=include_usage)
        tally = Tally()
        introduced: set[int] = set()
        async with aclosing(self._deltas()) as deltas:
            async for place, delta in deltas:
                tally.add(place, delta)
                usage = tally.usage() if running_usage else None
                event = b""
                if delta.index not in introduced:
                    introduced.add(delta.index)
                    event = encode([_chunk(delta.index, {"role": "assistant", "content": ""})], usage)
                if delta.text or delta.logprobs or delta.finish_reason:
                    event += encode([self._delta_chunk(delta)], usage)
                if event:
                    yield event
        if include_usage:
            yield encode([], tally.usage())

    def _deltas(self) -> Deltas:
        stream = self.serving.backend.stream_chat(self.request)
        return merge([follow(self.serving, stream, self.request.n)])

    def _choices(self, collected: Collected) -> list[dict[str, Any]]:
        return [self._choice(index, output) for (_, index), output in sorted(collected.outputs.items())]

    def _choice(self, index: int, output: Output) -> dict[str, Any]:
        return {
            "index": index,
            "message": {"role": "assistant", "content": output.text, "refusal": None},
            "logprobs": self._logprobs(output.logprobs) if self.body.logprobs else None,
            "finish_reason": output.finish_reason,
            "stop_reason": output.stop_reason,
        }

    def _delta_chunk(self, delta: Delta) -> dict[str, Any]:
        chunk = _chunk(delta.index, {"content": delta.text} if delta.text else {})
        if self.body.logprobs and delta.logprobs:
            chunk["logprobs"] = self._logprobs(delta.logprobs)
        if delta.finish_reason is not None:
            chunk["finish_reason"] = delta.finish_reason
            chunk["stop_reason"] = delta.stop_reason
        return chunk

    def _logprobs(self, entries: Iterable[TokenLogprob]) -> dict[str, Any]:
        return chat_logprobs(self.serving.backend.tokenizer, entries)


def _chunk(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
