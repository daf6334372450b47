"""/v1/messages: a conversation in, an assistant's message out, as Anthropic's clients write and read them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from paceline.requests import ChatRequest
from paceline.server.anthropic.events import Blocks, StreamEvent, failed
from paceline.server.anthropic.input import conversation
from paceline.server.anthropic.schema import (
    UNSUPPORTED_IN_MESSAGES,
    AssistantMessage,
    CountBody,
    InputTokenCount,
    MessagesBody,
    check_context_management,
    grammar_of,
    sampling_of,
    template_options,
    thinking_of,
    toolbox_of,
    user_of,
)
from paceline.server.common.chat_run import ChatDelta, ChatRun
from paceline.server.common.fields import read_request
from paceline.server.http.identity import current
from paceline.server.http.openapi import body_schema, returns
from paceline.server.http.response import KeepAlive, named_events, start_stream, unless_disconnected
from paceline.server.state import AppState
from paceline.types import RequestId

PING = named_events([{"type": "ping"}])


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/v1/messages",
        openapi_extra=body_schema(MessagesBody),
        responses=returns(AssistantMessage, streams=True),
    )
    async def create_message(request: Request) -> Response:
        body, _ = await read_request(
            state, request, MessagesBody, UNSUPPORTED_IN_MESSAGES, streams=lambda body: bool(body.stream)
        )
        if body.stream:
            keep_alive = KeepAlive(state.settings.stream_keepalive_seconds, PING)
            events = state.once_ready(lambda: Message(state, body).events())
            return await start_stream(request.receive, events, failed=failed, keep_alive=keep_alive)
        return JSONResponse(await unless_disconnected(request.receive, Message(state, body).whole()))

    @router.post("/v1/messages/count_tokens", openapi_extra=body_schema(CountBody), responses=returns(InputTokenCount))
    async def count_tokens(request: Request) -> Response:
        body, _ = await read_request(state, request, CountBody, UNSUPPORTED_IN_MESSAGES, MessagesBody.model_fields)
        # In a thread: a long text would hold up every stream.
        return JSONResponse({"input_tokens": await asyncio.to_thread(counted, state, body)})

    return router


def counted(state: AppState, body: CountBody) -> int:
    """The tokens of the prompt that the same request would make."""
    check_context_management(body.context_management)
    grammar_of(body)
    parsed = conversation(body.system, body.messages, takes_images=state.backend.takes_images)
    box = toolbox_of(body.tools, body.tool_choice)
    with parsed.renaming_errors():
        return len(state.backend.render(parsed.messages, box.offered, **template_options(body, state)))


class Message:
    """One request to the endpoint."""

    def __init__(self, state: AppState, body: MessagesBody) -> None:
        self.body = body
        self.id = RequestId(f"msg_{uuid.uuid4().hex}")
        self.model = state.answers_as(body.model)
        check_context_management(body.context_management)
        self.conversation = conversation(body.system, body.messages, takes_images=state.backend.takes_images)
        box = toolbox_of(body.tools, body.tool_choice)
        self.blocks = Blocks(omitted=thinking_of(body.thinking).omitted)
        request = ChatRequest(
            messages=self.conversation.messages,
            sampling=sampling_of(body, state),
            template_options=template_options(body, state),
            request_id=self.id,
            cache=body.cache is not False,
            cache_salt=body.cache_salt or "",
            grammar=grammar_of(body),
            tenant=current().tenant(user_of(body)),
            priority=body.priority or 0,
            announce=bool(body.stream),
            lora=state.lora_of(body.model),
        )
        self.run = ChatRun(state, request, box)

    async def whole(self) -> dict[str, Any]:
        end = ChatDelta(0)
        with self.conversation.renaming_errors():
            async with aclosing(self.run.deltas()) as deltas:
                async for end in deltas:
                    self.blocks.push(end.events)
        content = self.blocks.content()
        calls = any(block["type"] == "tool_use" for block in content)
        return {**self._head(), "content": content, **self._stop(end, calls), "usage": self._usage(), **self._edits()}

    async def events(self) -> AsyncGenerator[bytes, None]:
        with self.conversation.renaming_errors():
            async with aclosing(self.run.deltas()) as deltas:
                async for delta in deltas:
                    events = self._start() if delta.accepted else []
                    events += self.blocks.push(delta.events)
                    if delta.finish_reason is not None:
                        events += [*self.blocks.finish(), self._end(delta), {"type": "message_stop"}]
                    if events:
                        yield named_events(events)

    def _head(self) -> dict[str, Any]:
        return {"id": self.id, "type": "message", "role": "assistant", "model": self.model}

    def _start(self) -> list[StreamEvent]:
        nothing: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
        message = {**self._head(), **nothing, "usage": self._usage()}
        return [{"type": "message_start", "message": message}, {"type": "ping"}]

    def _end(self, delta: ChatDelta) -> StreamEvent:
        stop = self._stop(delta, self.blocks.calls)
        return {"type": "message_delta", "delta": stop, "usage": self._usage(), **self._edits()}

    def _stop(self, end: ChatDelta, calls: bool) -> dict[str, Any]:
        if end.finish_reason == "length":
            whole = self._usage()["output_tokens"] >= self.body.max_tokens
            return {"stop_reason": "max_tokens" if whole else "model_context_window_exceeded", "stop_sequence": None}
        if isinstance(end.stop_reason, str):
            return {"stop_reason": "stop_sequence", "stop_sequence": end.stop_reason}
        return {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}

    def _usage(self) -> dict[str, Any]:
        usage = self.run.counter.usage()
        details = usage["prompt_tokens_details"]
        cached = details.pop("cached_tokens")
        return {
            "input_tokens": usage["prompt_tokens"] - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": usage["completion_tokens"],
            **details,  # ours: what was kept of the prompt
        }

    def _edits(self) -> dict[str, Any]:
        """The edits of the context that were applied: none."""
        return {} if self.body.context_management is None else {"context_management": {"applied_edits": []}}
