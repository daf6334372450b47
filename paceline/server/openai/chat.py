"""/v1/chat/completions: a conversation in, an assistant's message out, whole or in chunks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response

from paceline.conversation.parsing.events import CallArguments, CallBroken, CallStart, Content, Event, Reasoning, merge
from paceline.requests import ChatRequest
from paceline.server.common.chat_run import ChatDelta, ChatRun
from paceline.server.common.fields import read_request, thinking_options, with_effort
from paceline.server.http.openapi import body_schema, returns
from paceline.server.http.response import encode_long, start_stream, unless_disconnected
from paceline.server.openai.envelope import DONE, Envelope, failed
from paceline.server.openai.logprobs import AnswerTokens, chat_logprobs
from paceline.server.openai.objects import ChatCompletion
from paceline.server.openai.prompt_fields import echoed, prompt_facts, prompt_options, tells_of_prompt
from paceline.server.openai.sampling import (
    chat_sampling,
    choices,
    excludes_reasoning,
    reasoning_asked,
    request_fields,
    response_grammar,
    toolbox,
    verbosity_options,
    with_budget,
)
from paceline.server.openai.schema import UNSUPPORTED_IN_CHAT, ChatBody
from paceline.server.state import AppState
from paceline.types import PromptInfo, TokenLogprob


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/v1/chat/completions",
        openapi_extra=body_schema(ChatBody),
        responses=returns(ChatCompletion, streams=True),
    )
    async def create_chat_completion(request: Request) -> Response:
        body, fields = await read_request(
            state, request, ChatBody, UNSUPPORTED_IN_CHAT, streams=lambda body: bool(body.stream)
        )
        if body.stream:
            events = state.once_ready(lambda: Chat(state, body, fields).events())
            return await start_stream(request.receive, events, failed=failed, end=DONE, keep_alive=state.keep_alive)
        whole = Chat(state, body, fields).whole()
        return Response(await unless_disconnected(request.receive, whole), media_type="application/json")

    return router


class Chat:
    """One request to the endpoint."""

    def __init__(self, state: AppState, body: ChatBody, fields: dict[str, Any]) -> None:
        self.state = state
        self.body = body
        self.envelope = Envelope("chatcmpl", state.answers_as(body.model))
        effort, enabled = reasoning_asked(body, fields)
        options = thinking_options(state, effort, enabled)
        self.shows_reasoning = not excludes_reasoning(fields)
        self.answer_tokens: defaultdict[int, AnswerTokens] = defaultdict(AnswerTokens)  # by choice
        options |= prompt_options(state, body)
        self.echo = echoed(fields["messages"]) if body.echo else ""
        self.prompt: PromptInfo | None = None
        options |= verbosity_options(state, body.verbosity, "verbosity")
        request = ChatRequest(
            messages=fields["messages"],  # as the client wrote them: the template may use more than we check
            sampling=with_effort(with_budget(chat_sampling(body, state), fields), state, effort),
            n=choices(body),
            template_options={**options, **(body.chat_template_kwargs or {})},
            request_id=self.envelope.id,
            grammar=response_grammar(fields),
            **request_fields(state, body, body.user),
        )
        box = toolbox(fields.get("tools"), fields.get("tool_choice"), body.parallel_tool_calls)
        self.run = ChatRun(state, request, box)

    async def whole(self) -> bytes:
        choices: dict[int, list[ChatDelta]] = {}
        async with aclosing(self.run.deltas()) as deltas:
            async for delta in deltas:
                self.prompt = self.prompt or delta.prompt
                choices.setdefault(delta.index, []).append(delta)
        return await asyncio.to_thread(self._written, choices)  # scores of every token may be many

    def _written(self, choices: dict[int, list[ChatDelta]]) -> bytes:
        whole = [self._choice(deltas) for _, deltas in sorted(choices.items())]
        response = self.envelope.response("chat.completion", whole, self.run.counter.usage())
        return encode_long({**response, **self._prompt_facts(self.prompt)})

    async def events(self) -> AsyncGenerator[bytes, None]:
        options = self.body.stream_options
        include_usage = bool(options and options.include_usage)
        running_usage = bool(include_usage and options and options.continuous_usage_stats)
        encode = self.envelope.chunks("chat.completion.chunk", nullable_usage=include_usage)
        told = not tells_of_prompt(self.body)  # or the first chunk tells of the prompt
        held: list[dict[str, Any]] = []
        async with aclosing(self.run.deltas()) as deltas:
            async for delta in deltas:
                usage = self.run.counter.usage() if running_usage else None
                chunks = held + self._chunks(delta)
                if not told and delta.prompt is None:
                    held = chunks
                    continue
                if not told:
                    told, held = True, []
                    facts = await asyncio.to_thread(self._prompt_facts, delta.prompt)
                    yield await asyncio.to_thread(encode.long, chunks[:1], usage, facts)  # that may be long
                    chunks = chunks[1:]
                if chunks:
                    yield b"".join([encode([chunk], usage) for chunk in chunks])
        if include_usage:
            yield encode([], self.run.counter.usage())

    def _choice(self, deltas: list[ChatDelta]) -> dict[str, Any]:
        answer = merge(event for delta in deltas for event in delta.events)
        content = self.echo + answer.content
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if answer.reasoning and self.shows_reasoning:
            message["reasoning_content"] = answer.reasoning
        if answer.calls:
            message["content"] = content or None
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in answer.calls
            ]
        last = deltas[-1]
        deltas = [shown for delta in deltas for shown in self._with_tokens(delta)]
        logprobs = None
        if self.body.logprobs:
            logprobs = self._logprobs(entry for delta in deltas for entry in delta.logprobs)
        ended = {"finish_reason": last.finish_reason, "stop_reason": last.stop_reason}
        choice: dict[str, Any] = {"index": last.index, "message": message, "logprobs": logprobs, **ended}
        if self.body.return_token_ids:
            choice["token_ids"] = [token for delta in deltas for token in delta.token_ids]
        return choice

    def _chunks(self, delta: ChatDelta) -> list[dict[str, Any]]:
        if delta.accepted:
            return [_chunk(index, {"role": "assistant", "content": self.echo}) for index in range(self.run.request.n)]
        chunks = []
        for event in delta.events:
            if self.shows_reasoning or type(event) is not Reasoning:
                content = _delta(event)
                if content is not None:
                    chunks.append(_chunk(delta.index, content))
        told = self._with_tokens(delta) if self.body.logprobs or self.body.return_token_ids else []
        entries = [entry for each in told for entry in each.logprobs]
        scores = self._logprobs(entries) if self.body.logprobs and entries else None
        ids = [token for each in told for token in each.token_ids] if self.body.return_token_ids else []
        tells = scores is not None or bool(ids)
        if delta.finish_reason is not None or (tells and not chunks):
            chunks.append(_chunk(delta.index, {}))  # the end, or tokens whose text is still to come
        if scores is not None:
            chunks[0]["logprobs"] = scores
        if ids:
            chunks[0]["token_ids"] = ids
        if delta.finish_reason is not None:
            chunks[-1]["finish_reason"] = delta.finish_reason
            chunks[-1]["stop_reason"] = delta.stop_reason
        return chunks

    def _with_tokens(self, delta: ChatDelta) -> list[ChatDelta]:
        """The deltas whose tokens are told now: reasoning that is not returned shows in no token either."""
        return [delta] if self.shows_reasoning else self.answer_tokens[delta.index].of(delta)

    def _logprobs(self, entries: Iterable[TokenLogprob]) -> dict[str, Any]:
        as_ids = bool(self.body.return_tokens_as_token_ids)
        return chat_logprobs(self.state.backend.tokenizer, entries, as_ids=as_ids)

    def _prompt_facts(self, prompt: PromptInfo | None) -> dict[str, Any]:
        return {} if prompt is None else prompt_facts(self.state.backend.tokenizer, prompt, self.body)


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
