"""/v1/completions: text or token ids to continue, one prompt or many; with echo and logprobs, to score."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response

from paceline.errors import InvalidRequest
from paceline.requests import GenerateRequest
from paceline.server.common.deltas import UsageCounter, follow, max_concurrent_prompts, merge
from paceline.server.common.fields import read_request
from paceline.server.http.identity import current
from paceline.server.http.openapi import body_schema, returns
from paceline.server.http.response import encode_long, start_stream, unless_disconnected
from paceline.server.openai.envelope import DONE, Envelope, failed
from paceline.server.openai.logprobs import CompletionLogprobs, joined
from paceline.server.openai.objects import TextCompletion
from paceline.server.openai.prompt_fields import prompt_facts, tells_of_prompt
from paceline.server.openai.sampling import choices, completion_sampling, request_fields, response_grammar
from paceline.server.openai.schema import UNSUPPORTED_IN_COMPLETIONS, CompletionBody
from paceline.server.state import AppState
from paceline.types import Delta, PromptInfo, RequestId

MAX_PROMPTS = 2048
LONG_TEXT = 4096  # characters of a chunk that is encoded in a thread
ACCEPTED = b": accepted\n\n"  # a comment: a chunk would have to have text
KIND = "text_completion"  # OpenAI has one name for the response and its chunks


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/v1/completions",
        openapi_extra=body_schema(CompletionBody),
        responses=returns(TextCompletion, streams=True),
    )
    async def create_completion(request: Request) -> Response:
        body, fields = await read_request(
            state, request, CompletionBody, UNSUPPORTED_IN_COMPLETIONS, streams=lambda body: bool(body.stream)
        )
        if body.stream:
            events = state.once_ready(lambda: Completions(state, body, fields).events())
            return await start_stream(request.receive, events, failed=failed, end=DONE, keep_alive=state.keep_alive)
        whole = Completions(state, body, fields).whole()
        return Response(await unless_disconnected(request.receive, whole), media_type="application/json")

    return router


class Completions:
    """One request to the endpoint. Choice i of prompt p has the index p * n + i."""

    def __init__(self, state: AppState, body: CompletionBody, fields: Mapping[str, Any]) -> None:
        self.state = state
        self.body = body
        self.envelope = Envelope("cmpl", state.answers_as(body.model))
        current().add_ids(self.envelope.id)
        self.n = choices(body)
        self.counter = UsageCounter()
        sampling = completion_sampling(body, state)
        if len(body.prompt) > MAX_PROMPTS:
            raise InvalidRequest.at(
                "prompt", f"holds {len(body.prompt)} prompts, and at most {MAX_PROMPTS} are allowed."
            )
        prompts: Sequence[str | list[int]] = body.prompt
        grammar, common = response_grammar(fields), request_fields(state, body, body.user)
        self.requests = [
            GenerateRequest(
                prompt,
                sampling,
                self.n,
                RequestId(f"{self.envelope.id}-{place}"),
                grammar=grammar,
                suffix=body.suffix,
                **common,
            )
            for place, prompt in enumerate(prompts)
        ]

    def _tells(self, delta: Delta) -> bool:
        return bool(self.body.return_token_ids and delta.token_ids)

    @property
    def _is_long(self) -> bool:
        """Does the first chunk have the prompt in it?"""
        return bool(self.body.echo) or tells_of_prompt(self.body)

    async def whole(self) -> bytes:
        choices: dict[int, list[dict[str, Any]]] = {}
        async with aclosing(self._chunks()) as chunks:
            async for chunk in chunks:
                assert chunk is not None  # a stream's
                choices.setdefault(chunk["index"], []).append(chunk)
        return await asyncio.to_thread(self._written, choices)  # scores may be many

    def _written(self, choices: dict[int, list[dict[str, Any]]]) -> bytes:
        whole = [_joined(chunks) for _, chunks in sorted(choices.items())]
        return encode_long(self.envelope.response(KIND, whole, self.counter.usage()))

    async def events(self) -> AsyncGenerator[bytes, None]:
        options = self.body.stream_options
        include_usage = bool(options and options.include_usage)
        running_usage = bool(include_usage and options and options.continuous_usage_stats)
        encode = self.envelope.chunks(KIND, nullable_usage=include_usage)
        async with aclosing(self._chunks()) as chunks:
            async for chunk in chunks:
                if chunk is None:
                    yield ACCEPTED
                    continue
                usage = self.counter.usage() if running_usage else None
                told = "prompt_token_ids" in chunk or "prompt_logprobs" in chunk
                if told or len(chunk["text"]) > LONG_TEXT:  # an echoed prompt, maybe with scores
                    yield await asyncio.to_thread(encode.long, [chunk], usage)
                else:
                    yield encode([chunk], usage)
        if include_usage:
            yield encode([], self.counter.usage())

    async def _chunks(self) -> AsyncGenerator[dict[str, Any] | None, None]:
        """What the choices gain, as it comes; in front of the first chunk of each, the prompt where it is echoed.

        None, in a stream: all prompts that can be in the engine together are accepted.
        """
        stream = self.state.backend.stream_generate
        streams = [follow(self.state, stream(request), self.n, request.request_id) for request in self.requests]
        prompts: dict[int, PromptInfo] = {}
        formatters: dict[tuple[int, int], ChoiceFormatter] = {}
        together = max_concurrent_prompts(self.state)
        unaccepted = min(together, len(streams))
        async with aclosing(merge(streams, together)) as deltas:
            async for place, delta in deltas:
                self.counter.add(place, delta)
                if delta.accepted is not None:
                    unaccepted -= 1
                    if unaccepted == 0:
                        yield None
                    continue
                if delta.prompt is not None:
                    prompts.setdefault(place, delta.prompt)
                formatter = formatters.get((place, delta.index))
                if formatter is None:
                    formatter = ChoiceFormatter(self.state, self.body, self.body.prompt[place], prompts[place])
                    formatters[place, delta.index] = formatter
                    printed = (
                        await asyncio.to_thread(formatter.first, delta) if self._is_long else formatter.first(delta)
                    )
                elif delta.text or delta.logprobs or delta.finish_reason or self._tells(delta):
                    printed = formatter.next(delta)
                else:
                    continue
                ended = {"finish_reason": delta.finish_reason, "stop_reason": delta.stop_reason}
                chunk = {"index": place * self.n + delta.index, **printed, **ended}
                if self.body.return_token_ids:
                    chunk["token_ids"] = list(delta.token_ids)
                yield chunk


def _joined(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """One choice's chunks as the whole choice."""
    text = "".join(chunk["text"] for chunk in chunks)
    scored = chunks[0]["logprobs"] is not None
    scores = joined(chunk["logprobs"] for chunk in chunks) if scored else None
    choice = {**chunks[0], **chunks[-1], "text": text, "logprobs": scores}
    if "token_ids" in choice:
        choice["token_ids"] = [token for chunk in chunks for token in chunk["token_ids"]]
    return choice


class ChoiceFormatter:
    """Text and logprobs of one choice, in front of them the prompt where it is echoed."""

    def __init__(self, state: AppState, body: CompletionBody, written: str | list[int], prompt: PromptInfo) -> None:
        tokenizer = state.backend.tokenizer
        self.tokenizer, self.body = tokenizer, body
        self.prompt = prompt
        self.echo = ""
        if body.echo:
            self.echo = written if isinstance(written, str) else tokenizer.decode(written, False)
        self.echoes = bool(body.echo)
        self.lists = None
        if body.logprobs is not None:
            skipped = body.skip_special_tokens is not False
            as_ids = bool(body.return_tokens_as_token_ids)
            self.lists = CompletionLogprobs(tokenizer, skip_special_tokens=skipped, as_ids=as_ids)

    def first(self, delta: Delta) -> dict[str, Any]:
        facts = prompt_facts(self.tokenizer, self.prompt, self.body)
        if not self.echoes:
            return {**self.next(delta), **facts}
        text = self.echo + delta.text
        if self.lists is None:
            return {"text": text, "logprobs": None, **facts}
        scored = self.prompt.logprobs or (None,) * len(self.prompt.token_ids)
        most = self.body.logprobs  # prompt_logprobs may have asked for more
        scored = tuple(None if entry is None else replace(entry, top=entry.top[:most]) for entry in scored)
        prompt = self.lists.prompt(self.echo, self.prompt.token_ids, scored)
        return {"text": text, "logprobs": joined((prompt, self.lists.output(delta.logprobs))), **facts}

    def next(self, delta: Delta) -> dict[str, Any]:
        return {"text": delta.text, "logprobs": None if self.lists is None else self.lists.output(delta.logprobs)}
