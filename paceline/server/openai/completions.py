"""/v1/completions: text or token ids to continue, one prompt or many; with echo and logprobs, to score."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response

from paceline.errors import InvalidRequest
from paceline.requests import GenerateRequest
from paceline.server.common.deltas import Collected, Deltas, Output, UsageCounter, at_a_time, collect, follow, merge
from paceline.server.common.fields import refuse_unsupported
from paceline.server.http.body import read_body
from paceline.server.http.disconnect import unless_disconnected
from paceline.server.http.encoding import encode_long
from paceline.server.http.identity import current
from paceline.server.http.openapi import described_by, gives
from paceline.server.http.sse import start_stream
from paceline.server.openai.envelope import DONE, Envelope, failed
from paceline.server.openai.logprobs import CompletionLogprobs, joined
from paceline.server.openai.objects import TextCompletion
from paceline.server.openai.sampling import choices, completion_sampling
from paceline.server.openai.schema import UNSUPPORTED_IN_COMPLETIONS, CompletionBody
from paceline.server.openai.structured import response_grammar
from paceline.server.state import AppState
from paceline.types import Delta, PromptInfo, RequestId

MAX_PROMPTS = 2048
KIND = "text_completion"  # OpenAI has one name for the response and its chunks


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/v1/completions", openapi_extra=described_by(CompletionBody), responses=gives(TextCompletion, streams=True)
    )
    async def create_completion(request: Request) -> Response:
        body, fields = await read_body(request, CompletionBody)
        refuse_unsupported(fields, UNSUPPORTED_IN_COMPLETIONS)
        state.check_ready()
        state.check_model(body.model)
        completions = Completions(state, body, fields)
        if body.stream:
            return await start_stream(request.receive, completions.events(), failed=failed, end=DONE)
        return Response(await unless_disconnected(request.receive, completions.whole()), media_type="application/json")

    return router


class Completions:
    """One request to the endpoint. Choice i of prompt p has the index p * n + i."""

    def __init__(self, state: AppState, body: CompletionBody, fields: Mapping[str, Any]) -> None:
        self.state = state
        self.body = body
        self.envelope = Envelope("cmpl", state.model_name)
        context = current()
        context.goes_by(self.envelope.id)
        self.n = choices(body)
        sampling = completion_sampling(body)
        if len(body.prompt) > MAX_PROMPTS:
            raise InvalidRequest(
                f"prompt holds {len(body.prompt)} prompts, and at most {MAX_PROMPTS} are allowed.",
                field="prompt",
            )
        prompts: Sequence[str | list[int]] = body.prompt
        grammar = response_grammar(fields)
        self.requests = [
            GenerateRequest(
                prompt,
                sampling,
                self.n,
                RequestId(f"{self.envelope.id}-{place}"),
                cache=body.cache is not False,
                cache_salt=body.cache_salt or "",
                grammar=grammar,
                tenant=context.tenant(body.user),
                priority=body.priority or 0,
            )
            for place, prompt in enumerate(prompts)
        ]

    async def whole(self) -> bytes:
        return await asyncio.to_thread(self._written, await collect(self._deltas()))  # scores may be many

    def _written(self, collected: Collected) -> bytes:
        choices = [
            self._choice(place, index, output, collected)
            for (place, index), output in sorted(collected.outputs.items())
        ]
        return encode_long(self.envelope.response(KIND, choices, collected.counter.usage()))

    async def events(self) -> AsyncGenerator[bytes, None]:
        options = self.body.stream_options
        include_usage = bool(options and options.include_usage)
        running_usage = bool(options and options.continuous_usage_stats)
        encode = self.envelope.chunks(KIND, nullable_usage=include_usage)
        counter = UsageCounter()
        prompts: dict[int, PromptInfo] = {}
        printers: dict[tuple[int, int], Printer] = {}
        async with aclosing(self._deltas()) as deltas:
            async for place, delta in deltas:
                counter.add(place, delta)
                if delta.prompt is not None:
                    prompts.setdefault(place, delta.prompt)
                printer = printers.get((place, delta.index))
                first = printer is None
                if printer is None:
                    printer = printers[place, delta.index] = self._printer(place, prompts[place])
                if first or delta.text or delta.logprobs or delta.finish_reason:
                    usage = counter.usage() if running_usage else None
                    if first and printer.echoes:  # scores of a whole prompt may be many
                        chunk = await asyncio.to_thread(self._chunk, place, delta, printer, first)
                        yield await asyncio.to_thread(encode, [chunk], usage)
                    else:
                        yield encode([self._chunk(place, delta, printer, first)], usage)
        if include_usage:
            yield encode([], counter.usage())

    def _deltas(self) -> Deltas:
        stream = self.state.backend.stream_generate
        streams = [follow(self.state, stream(asked), self.n, asked.request_id) for asked in self.requests]
        return merge(streams, at_a_time(self.state))

    def _printer(self, place: int, prompt: PromptInfo) -> Printer:
        return Printer(self.state, self.body, self.body.prompt[place], prompt)

    def _choice(self, place: int, index: int, output: Output, collected: Collected) -> dict[str, Any]:
        printer = self._printer(place, collected.prompts[place])
        whole = Delta(text=output.text, logprobs=tuple(output.logprobs))
        return {
            "index": place * self.n + index,
            **printer.printed(whole, first=True),
            "finish_reason": output.finish_reason,
            "stop_reason": output.stop_reason,
        }

    def _chunk(self, place: int, delta: Delta, printer: Printer, first: bool) -> dict[str, Any]:
        return {
            "index": place * self.n + delta.index,
            **printer.printed(delta, first=first),
            "finish_reason": delta.finish_reason,
            "stop_reason": delta.stop_reason,
        }


class Printer:
    """Text and logprobs of one choice, in front of them the prompt where it is echoed."""

    def __init__(self, state: AppState, body: CompletionBody, written: str | list[int], prompt: PromptInfo) -> None:
        tokenizer = state.backend.tokenizer
        self.prompt = prompt
        self.echo = ""
        if body.echo:
            self.echo = written if isinstance(written, str) else tokenizer.decode(written, False)
        self.echoes = bool(body.echo)
        self.lists = None
        if body.logprobs is not None:
            skipped = body.skip_special_tokens is not False
            self.lists = CompletionLogprobs(tokenizer, skip_special_tokens=skipped)

    def printed(self, delta: Delta, *, first: bool) -> dict[str, Any]:
        echoed = first and self.echoes
        text = self.echo + delta.text if echoed else delta.text
        if self.lists is None:
            return {"text": text, "logprobs": None}
        if not echoed:
            return {"text": text, "logprobs": self.lists.output(delta.logprobs)}
        scored = self.prompt.logprobs or (None,) * len(self.prompt.token_ids)
        lists = self.lists.prompt(self.echo, self.prompt.token_ids, scored)
        return {"text": text, "logprobs": joined(lists, self.lists.output(delta.logprobs))}
