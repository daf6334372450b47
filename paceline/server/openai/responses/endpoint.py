"""/v1/responses: items in, items out, whole or as a stream of events, and what is kept of them for later turns."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from paceline.errors import EngineUnavailable, InvalidRequest, PacelineError, PromptTooLong
from paceline.requests import ChatRequest
from paceline.server.common.chat_run import ChatDelta, ChatRun
from paceline.server.common.fields import read_request
from paceline.server.http.body import keep_body
from paceline.server.http.errors import Cancelled, NotServed, error_object
from paceline.server.http.identity import current
from paceline.server.http.openapi import body_schema, returns
from paceline.server.http.response import named_events, start_stream, unless_disconnected
from paceline.server.openai.objects import DeletedResponse, ItemList, ResponseInputTokens, ResponseObject
from paceline.server.openai.responses import schema
from paceline.server.openai.responses.background import Background
from paceline.server.openai.responses.conversations import ConversationItems, Conversations, add_routes
from paceline.server.openai.responses.input import (
    Conversation,
    conversation,
    input_items,
    new_id,
    shortened,
    with_unique_ids,
)
from paceline.server.openai.responses.output import Event, Output, failed, failure_code
from paceline.server.openai.responses.schema import UNSUPPORTED_IN_RESPONSES, ResponsesBody
from paceline.server.openai.responses.store import AskedPage, Item, NotStored, ResponseStore, Segment, StoredResponse
from paceline.server.openai.responses.tools import Tools, tools_of
from paceline.server.openai.sampling import request_fields
from paceline.server.state import AppState
from paceline.types import RequestId

AFTER_TRUNCATION = 7 / 8  # of the context: what a conversation may fill that was too long for it
LEAVING_POLL_SECONDS = 0.01

logger = logging.getLogger("paceline.server")


@dataclass(slots=True)
class ResponsesApi:
    """What the requests to this API share."""

    state: AppState
    store: ResponseStore = field(default_factory=ResponseStore)
    running: dict[str, ResponseRun] = field(default_factory=dict)
    logged_tools: set[str] = field(default_factory=set)  # tools whose absence is in the log
    conversations: Conversations = field(default_factory=Conversations)
    background: Background = field(init=False)

    def __post_init__(self) -> None:
        self.background = Background(self.state.gate)

    def log_skipped_tools(self, types: frozenset[str]) -> None:
        if new := sorted(types - self.logged_tools):
            self.logged_tools.update(new)
            logger.info("responses: tools that this server cannot run are not offered to the model: %s", ", ".join(new))

    async def read(self, request: Request, *, can_wait: bool = False) -> tuple[ResponsesBody, dict[str, Any]]:
        """`can_wait`: where it is for a stream, the model may still be loading."""
        body, fields = await read_request(
            self.state,
            request,
            ResponsesBody,
            UNSUPPORTED_IN_RESPONSES,
            streams=lambda body: can_wait and bool(body.stream) and not body.background,
        )
        schema.check_nesting(fields)
        return body, fields

    def run(self, body: ResponsesBody, fields: Mapping[str, Any]) -> ResponseRun:
        """A request that has been read, checked."""
        previous, owner = None, current().owner
        talk = self.conversations.named(fields.get("conversation"), owner)
        if talk is not None and body.previous_response_id is not None:
            raise InvalidRequest.at("conversation", "cannot be given together with previous_response_id.")
        if body.background and body.store is False:
            raise InvalidRequest.at("background", "needs store: its response is read later.")
        if body.previous_response_id is not None:
            previous = self.store.get(body.previous_response_id, owner)
            if previous is None and self.find_running(body.previous_response_id):
                raise InvalidRequest.at("previous_response_id", "is of a response that still runs: wait for its end.")
            if previous is None:
                raise NotStored(body.previous_response_id, "previous_response_id", "previous_response_not_found")
        return ResponseRun(self, body, fields, previous, talk)

    async def left(self, response_id: str | None) -> None:
        """A response that was cancelled leaves a moment later. Then it can be gone on from."""
        while response_id is not None and (run := self.find_running(response_id)) is not None and run.cancelled:
            await asyncio.sleep(LEAVING_POLL_SECONDS)

    def find(self, response_id: str) -> ResponseRun | StoredResponse:
        """What this client may ask for: it is stored, or will be when it has run."""
        running = self.find_running(response_id)
        return running if running is not None and running.stored else self.store.find(response_id, current().owner)

    def find_running(self, response_id: str) -> ResponseRun | None:
        """This client's."""
        running = self.running.get(response_id)
        return running if running is not None and running.owner == current().owner else None


def routes(state: AppState, store: ResponseStore | None = None) -> APIRouter:
    router = APIRouter()
    api = ResponsesApi(state, ResponseStore() if store is None else store)

    @router.post(
        "/v1/responses",
        openapi_extra=body_schema(ResponsesBody),
        responses=returns(ResponseObject, streams=True),
    )
    async def create_response(request: Request) -> Response:
        body, fields = await api.read(request, can_wait=True)
        await api.left(body.previous_response_id)
        if body.stream and not body.background:
            # The events tell their own errors, and the last of them is the end.
            events = state.once_ready(lambda: api.run(body, fields).events())
            return await start_stream(request.receive, events, failed=failed, keep_alive=state.keep_alive)
        run = api.run(body, fields)
        if body.background:
            log = api.background.start(run, streamed=bool(body.stream), on_end=keep_body(request))
            api.running[run.id] = run
            if body.stream:
                return await start_stream(request.receive, log.read(), failed=failed, keep_alive=state.keep_alive)
            return JSONResponse(run.snapshot("queued"))
        return JSONResponse(await unless_disconnected(request.receive, run.whole()))

    @router.post(
        "/v1/responses/input_tokens",
        openapi_extra=body_schema(ResponsesBody),
        responses=returns(ResponseInputTokens),
    )
    async def count_input_tokens(request: Request) -> Response:
        body, fields = await api.read(request)
        await api.left(body.previous_response_id)
        run = api.run(body, fields)
        # In a thread: a long text would hold up every stream.
        count = await asyncio.to_thread(run.input_tokens)
        return JSONResponse({"object": "response.input_tokens", "input_tokens": count})

    @router.post("/v1/responses/compact", include_in_schema=False)
    async def compact_response() -> Response:
        raise NotServed("Conversations are not compacted here: ask the model for a summary, and go on from that.")

    @router.get("/v1/responses/{response_id}", responses=returns(ResponseObject))
    async def retrieve_response(
        request: Request,
        response_id: str,
        stream: bool = False,
        starting_after: Annotated[int | None, Query(ge=0)] = None,
    ) -> Response:
        found = api.find(response_id)
        if stream:
            events = api.background.log(response_id).read(0 if starting_after is None else starting_after + 1)
            return await start_stream(request.receive, events, failed=failed, keep_alive=state.keep_alive)
        return JSONResponse(found.so_far() if isinstance(found, ResponseRun) else dict(found.response))

    @router.delete("/v1/responses/{response_id}", responses=returns(DeletedResponse))
    async def delete_response(response_id: str) -> Response:
        found = api.find(response_id)
        api.background.forget(response_id)
        if isinstance(found, ResponseRun):
            found.stored = False
            found.cancel()
        else:
            api.store.delete(response_id)
        return JSONResponse({"id": response_id, "object": "response", "deleted": True})

    @router.post("/v1/responses/{response_id}/cancel", responses=returns(ResponseObject))
    async def cancel_response(response_id: str) -> Response:
        running = api.find_running(response_id)
        if running is not None:
            running.cancel()
            await api.left(response_id)  # its conversation has what was said
            return JSONResponse(running.so_far())
        kept = api.store.find(response_id, current().owner)
        if kept.response["status"] != "cancelled":
            raise InvalidRequest(f"The response {response_id} is {kept.response['status']}: nothing is left to cancel.")
        return JSONResponse(dict(kept.response))

    @router.get("/v1/responses/{response_id}/input_items", responses=returns(ItemList))
    async def list_input_items(response_id: str, page: AskedPage) -> Response:
        return page.of(api.find(response_id).input)

    add_routes(state, router, api.conversations, api.store.item)
    return router


class ResponseRun:
    """One request to create a response, while it runs."""

    def __init__(
        self,
        api: ResponsesApi,
        body: ResponsesBody,
        fields: Mapping[str, Any],
        previous: StoredResponse | None,
        talk: ConversationItems | None = None,
    ) -> None:
        self.api = api
        self.body = body
        self.id = RequestId(new_id("resp"))
        self.owner = current().owner
        self.created = int(time.time())
        self.stored = body.store is not False
        self.cancelled = False
        self.status, self.error, self.error_code = "in_progress", "", "server_error"
        self.talk = talk
        self.history = previous.segments if previous is not None else talk.segments if talk is not None else ()
        state = api.state
        self.tools: Tools = tools_of(body.tools, body.tool_choice, body.parallel_tool_calls)
        api.log_skipped_tools(self.tools.skipped_types)
        before = [item for segment in self.history for item in segment.items]
        given = input_items(body.input, partial(api.store.item, owner=self.owner))
        self.given = Segment(with_unique_ids(given, before), self.owner)
        thoughts = body.reasoning or schema.ReasoningField()
        self.conversation = conversation(
            body.instructions,
            before,
            self.given.items,
            forget=thoughts.context == "current_turn",
        )
        if not self.conversation.messages:
            raise InvalidRequest.at("input", "is missing: there is nothing to respond to.")
        self.summary = thoughts.summary or thoughts.generate_summary
        self.output = Output(
            state.backend.tokenizer,
            self.tools.called,
            logprobs=schema.wants_logprobs(body),
            summary=self.summary is not None,
            seal=schema.ENCRYPTED in schema.includes(body),
        )
        self.request = ChatRequest(
            messages=self.conversation.messages,
            sampling=schema.sampling(body, fields, state),
            template_options=schema.template_settings(body, state),
            request_id=self.id,
            grammar=schema.grammar(body, fields),
            **request_fields(state, body, body.user),
        )
        self.run = self._run(self.conversation)
        self.text_format = (fields.get("text") or {}).get("format") or {"type": "text"}

    @property
    def input(self) -> list[Item]:
        return [item for segment in (*self.history, self.given) for item in segment.items]

    def cancel(self) -> None:
        """From another connection. The sequence leaves at its next step."""
        self.cancelled = True
        self.api.state.backend.abort(self.id)

    def fail(self, error: Exception) -> None:
        """Nobody waits for its error: it is kept with the response."""
        self.status = "failed"
        self._note(error)
        self._keep()

    def _note(self, error: Exception) -> None:
        self.error, self.error_code = error_object(error)["error"]["message"], failure_code(error)

    def input_tokens(self) -> int:
        """The tokens of the prompt that this request would make."""
        try:
            render = self.api.state.backend.render
            count = len(render(self.conversation.messages, self.tools.box.offered, **self.request.template_options))
            most = self.request.truncate_prompt_tokens
            return count if most is None else min(count, most)
        except InvalidRequest as error:
            raise self.conversation.renamed(error) from None

    # -- running

    async def whole(self) -> dict[str, Any]:
        async with aclosing(self.events()) as events:
            async for _ in events:
                pass
        return self.snapshot(self.status)

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The stream's events as they come. What fails before it is accepted is raised; later failures are events."""
        output, body = self.output, self.body
        self.api.running[self.id] = self
        current().on_cancel.append(self.cancel)
        begun = False
        try:
            async with aclosing(self._deltas()) as deltas:
                async for delta in deltas:
                    if not begun:
                        begun = True
                        created = output.event("response.created", response=self.snapshot("in_progress"))
                        in_progress = output.event("response.in_progress", response=self.snapshot("in_progress"))
                        yield self._written([created, in_progress])
                    if made := output.push(delta):
                        yield self._written(made)
                    if delta.finish_reason is not None:
                        done = "incomplete" if delta.finish_reason == "length" else "completed"
                        self.status = "cancelled" if self.cancelled else done
                        break
        except Exception as error:
            given_up = self.cancelled and isinstance(error, EngineUnavailable | Cancelled)
            self.status = "cancelled" if given_up else "failed"
            if self.status == "failed" and not (begun and body.stream):
                raise
            if self.status == "failed" and not isinstance(error, PacelineError):
                logger.exception("a stream failed")
            self._note(error)
        finally:
            del self.api.running[self.id]
            if self.status == "in_progress":  # the reader is gone
                self.status = "cancelled"
                output.finish(whole=False)
                if begun:
                    self._keep()
        made = output.finish(whole=self.status == "completed")
        response = self.snapshot(self.status)
        self._keep()
        end = "incomplete" if self.status == "cancelled" else self.status
        yield self._written([*made, output.event(f"response.{end}", response=response)])

    def _written(self, events: list[Event]) -> bytes:
        """Only a stream sends them."""
        return named_events(events) if self.body.stream else b""

    async def _deltas(self) -> AsyncGenerator[ChatDelta, None]:
        """The run's deltas, with a conversation that is short enough where the client lets us shorten it."""
        attempt = 0
        while True:
            try:
                async with aclosing(self.run.deltas()) as deltas:
                    async for delta in deltas:
                        yield delta
                return
            except PromptTooLong as error:
                room = error.context_length * AFTER_TRUNCATION
                share = (error.prompt_tokens - room) / error.prompt_tokens
                shorter = shortened(self.conversation, share, 2**attempt) if self.body.truncation == "auto" else None
                if shorter is None:
                    raise self.conversation.renamed(error) from None
                attempt += 1
                self.conversation = shorter
                self.run = self._run(shorter)
            except InvalidRequest as error:
                raise self.conversation.renamed(error) from None

    def _run(self, talk: Conversation) -> ChatRun:
        return ChatRun(self.api.state, replace(self.request, messages=talk.messages), self.tools.box)

    def _keep(self) -> None:
        made = Segment(self.output.items, self.owner)
        if self.talk is not None and self.status != "failed":
            self.api.conversations.add(self.talk, self.given, made)
        if not self.stored:
            return
        kept = StoredResponse(self.snapshot(self.status), (*self.history, self.given, made), self.owner)
        if not self.api.store.put(kept):
            logger.warning("responses: %s is too large to be kept", self.id)

    # -- telling

    def so_far(self) -> dict[str, Any]:
        """While it runs. The sequence of a cancelled one leaves a moment later."""
        return self.snapshot("cancelled" if self.cancelled else "in_progress")

    def snapshot(self, status: str) -> dict[str, Any]:
        body = self.body
        error = {"code": self.error_code, "message": self.error} if status == "failed" else None
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        verbosity = body.text.verbosity if body.text else None
        effort = body.reasoning.effort if body.reasoning else None
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "background": bool(body.background),
            "conversation": None if self.talk is None else {"id": self.talk.id},
            "error": error,
            "incomplete_details": cut,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "max_tool_calls": body.max_tool_calls,
            "metadata": body.metadata or {},
            "model": self.request.lora or self.api.state.model_name,
            "output": self.output.snapshot(),
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": body.previous_response_id,
            "prompt_cache_key": body.prompt_cache_key,
            "reasoning": {"effort": effort, "summary": self.summary},
            "safety_identifier": body.safety_identifier,
            "service_tier": "default",
            "store": self.stored,
            "temperature": self.request.sampling.temperature,
            "text": {"format": self.text_format, "verbosity": verbosity or "medium"},
            "tool_choice": "auto" if body.tool_choice is None else body.tool_choice,
            "tools": list(self.tools.served),
            "top_logprobs": body.top_logprobs or 0,
            "top_p": self.request.sampling.top_p,
            "truncation": body.truncation or "disabled",
            "usage": None if status in ("queued", "in_progress") else self._usage(),
            "user": body.user,
        }

    def _usage(self) -> dict[str, Any]:
        usage = self.run.counter.usage()
        details = usage["prompt_tokens_details"]
        return {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {**details, "cache_write_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": usage["completion_tokens_details"]["reasoning_tokens"]},
            "total_tokens": usage["total_tokens"],
        }
