"""One HTTP request's work in the engine: its deltas, merged and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from paceline.conversation.parsing.events import Event, Reasoning
from paceline.errors import EngineUnavailable, InvalidRequest, NeverFits, Refused, RequestFailed
from paceline.server.http.errors import Cancelled
from paceline.server.http.identity import current
from paceline.server.metrics import RequestTimer
from paceline.server.state import AppState
from paceline.types import Delta, RequestId

T = TypeVar("T")
MAX_CONCURRENT_PROMPTS = 64
Deltas = AsyncGenerator[tuple[int, Delta], None]  # each with the place of its prompt in the request


async def follow(
    state: AppState,
    stream: AsyncGenerator[Delta, None],
    choices: int,
    request_id: RequestId | None,
    stopped: Collection[int] = (),
) -> AsyncGenerator[Delta, None]:
    """One engine request's deltas. A failed sequence raises; closing this generator frees all of them. `stopped`: the
    choices that the caller has ended by itself."""
    context = current()
    timer = RequestTimer(state.metrics, choices, context.figures)
    refused = False
    try:
        async with aclosing(stream):
            if context.cancelled:
                raise Cancelled
            with state.requests.in_engine(context, request_id):
                async for delta in stream:
                    timer.observe(delta)
                    if delta.finish_reason == "error":
                        raise RequestFailed(delta.error or "The request failed while it ran.")
                    if delta.finish_reason == "abort":
                        if context.cancelled:
                            raise Cancelled
                        raise EngineUnavailable("The server ended this request before it was finished.")
                    yield delta
    except (InvalidRequest, EngineUnavailable, Refused) as error:
        refused = isinstance(error, Refused) or not timer.finished
        if isinstance(error, NeverFits | Refused):
            state.metrics.refused["never_fits" if isinstance(error, NeverFits) else error.cause] += 1
        raise
    finally:
        for choice in stopped:
            timer.stop(choice)
        timer.end(refused=refused)


def max_concurrent_prompts(state: AppState) -> int:
    """Prompts of one request that may be in the engine together: all requests share the bounded queue."""
    return min(MAX_CONCURRENT_PROMPTS, max(state.settings.max_queue, 1))


async def merge(streams: Sequence[AsyncGenerator[Delta, None]], together: int = MAX_CONCURRENT_PROMPTS) -> Deltas:
    """The streams' deltas as they come, so many streams at a time. The first stream that fails ends them all."""
    if len(streams) == 1:
        async with aclosing(streams[0]) as only:
            async for delta in only:
                yield 0, delta
        return
    # Bounded: what is not read waits in its stream, which counts it.
    arrivals: asyncio.Queue[tuple[int, Delta] | Exception | None] = asyncio.Queue(together)
    turn = asyncio.Semaphore(together)

    async def pump(place: int, stream: AsyncGenerator[Delta, None]) -> None:
        end: Exception | None = None
        try:
            async with turn, aclosing(stream):
                async for delta in stream:
                    await arrivals.put((place, delta))
        except Exception as error:
            end = error
        await arrivals.put(end)

    pumps = [asyncio.create_task(pump(place, stream)) for place, stream in enumerate(streams)]
    try:
        running = len(pumps)
        while running:
            arrival = await arrivals.get()
            if isinstance(arrival, Exception):
                raise arrival
            if arrival is None:
                running -= 1
            else:
                yield arrival
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


class UsageCounter:
    """A request's usage: every prompt once, and the tokens of all its choices."""

    def __init__(self) -> None:
        self._prompt: dict[int, int] = {}
        self._cached: dict[int, int] = {}
        self._kept: dict[int, int] = {}  # of prompts that were wanted sparsely; known when the first choice ends
        self._completion: dict[tuple[int, int], int] = {}
        self._accepted = self._rejected = 0  # drafted tokens; known when a choice ends
        self._reasoning = 0
        self._parsed: dict[int, int] = {}  # by choice of the only prompt: tokens whose text has come

    def add(self, place: int, delta: Delta) -> None:
        if delta.accepted is not None:
            self._prompt[place], self._cached[place] = delta.accepted.prompt_tokens, delta.accepted.cached_tokens
        choice = (place, delta.index)
        self._completion[choice] = self._completion.get(choice, 0) + len(delta.token_ids)
        if delta.prompt is not None:
            self._prompt[place] = len(delta.prompt.token_ids)
            self._find(place, delta.index, delta.prompt.cached_tokens)
        if delta.usage is not None:
            self._completion[choice] = delta.usage.completion_tokens
            self._prompt[place] = delta.usage.prompt_tokens
            self._find(place, delta.index, delta.usage.cached_tokens)
            if delta.index == 0 and delta.usage.kept_tokens is not None:
                self._kept[place] = delta.usage.kept_tokens
            self._accepted += delta.usage.accepted_tokens
            self._rejected += delta.usage.rejected_tokens

    def add_parsed(self, index: int, events: Sequence[Event]) -> None:
        """What the deltas so far of a chat's choice have become. Tokens count for the event that they end in."""
        if events:
            tokens = self._completion[0, index]
            if isinstance(events[-1], Reasoning):
                self._reasoning += tokens - self._parsed.get(index, 0)
            self._parsed[index] = tokens

    def usage(self) -> dict[str, Any]:
        prompt, completion = sum(self._prompt.values()), sum(self._completion.values())
        kept = {"specprefill_kept_tokens": sum(self._kept.values())} if self._kept else {}
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": sum(self._cached.values()), **kept},
            "completion_tokens_details": {
                "reasoning_tokens": self._reasoning,
                "accepted_prediction_tokens": self._accepted,
                "rejected_prediction_tokens": self._rejected,
            },
        }

    def _find(self, place: int, index: int, cached: int) -> None:
        if index == 0:  # later choices may find what the first of this very request computed
            self._cached[place] = cached


async def collect(
    state: AppState, streams: Sequence[AsyncGenerator[Delta, None]], read: Callable[[Delta], T | None]
) -> tuple[dict[int, T], dict[str, int]]:
    """What `read` finds in the streams, by their places, and the usage. The first stream that fails ends them all."""
    found: dict[int, T] = {}
    counter = UsageCounter()
    async with aclosing(merge(streams, max_concurrent_prompts(state))) as deltas:
        async for place, delta in deltas:
            counter.add(place, delta)
            if (value := read(delta)) is not None:
                found[place] = value
    usage = counter.usage()
    return found, {name: usage[name] for name in ("prompt_tokens", "total_tokens")}
