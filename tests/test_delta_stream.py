"""Deltas, from the engine's thread to event loops."""

from __future__ import annotations

import asyncio

import pytest

from paceline.delta_stream import DeltaDispatcher, DeltaStream
from paceline.errors import SlowReader
from paceline.types import Acceptance, Delta, PromptInfo, TokenLogprob, Usage

PROMPT = PromptInfo((1, 2), None, "plain", 0, "", 0.0)


def stream(most: int = 10**6) -> DeltaStream:
    return DeltaStream(DeltaDispatcher(), most, lambda: None)


async def read(stream: DeltaStream) -> list[Delta]:
    found = []
    while True:
        try:
            found.append(await asyncio.wait_for(stream.get(), 0.01))
        except TimeoutError:
            return found


async def test_what_waits_is_one_delta() -> None:
    waiting = stream()
    scores = [TokenLogprob(token, -1.0) for token in (3, 4, 5)]
    waiting.deliver(Delta("a", (3,), (scores[0],), prompt=PROMPT))
    waiting.deliver(Delta("b", (4,), (scores[1],), drafts=(1, 0)))
    waiting.deliver(Delta("c", (5,), (scores[2],), "stop", "c", usage=Usage(2, 3), drafts=(1, 1)))
    [delta] = await read(waiting)
    assert delta == Delta("abc", (3, 4, 5), tuple(scores), "stop", "c", usage=Usage(2, 3), prompt=PROMPT)
    assert delta.drafts == (1, 1)


async def test_choices_and_acceptance_stand_by_themselves() -> None:
    waiting = stream()
    waiting.deliver(Delta(accepted=Acceptance(2, 0)))
    for text in "abc":
        waiting.deliver(Delta(text, (1,)))
        waiting.deliver(Delta(text.upper(), (1,), index=1))
    accepted, *choices = await read(waiting)
    assert accepted.accepted is not None
    assert [(delta.index, delta.text) for delta in choices] == [(0, "abc"), (1, "ABC")]


@pytest.mark.parametrize("reason", ["error", "abort"])
async def test_what_came_before_a_failure_is_delivered(reason: str) -> None:
    waiting = stream()
    for text in "ab":
        waiting.deliver(Delta(text, (1,)))
    waiting.deliver(Delta(finish_reason=reason))  # type: ignore[arg-type]
    before, failure = await read(waiting)
    assert (before.text, before.finish_reason, failure.finish_reason) == ("ab", None, reason)


async def test_a_reader_that_is_too_slow_reads_of_that_alone() -> None:
    waiting = stream(3)
    for index in (0, 1, 0):
        waiting.deliver(Delta("a", (1,), index=index))
    assert (await waiting.get()).text == "aa"
    for _ in range(3):
        waiting.deliver(Delta("a", (1,)))
    [delta] = await read(waiting)
    assert isinstance(delta.refusal, SlowReader)


async def test_reading_a_long_backlog_lets_other_tasks_run() -> None:
    waiting = stream()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    for _ in range(10):
        waiting.deliver(Delta(token_ids=(1,) * 100))
        asyncio.get_running_loop().call_soon(waiting.deliver, Delta(token_ids=(1,)))
        await waiting.get()
        await waiting.get()
    beside.cancel()
    assert turns >= 9
