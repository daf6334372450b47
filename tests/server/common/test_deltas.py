from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from paceline.conversation.parsing.events import Content, Event, Reasoning
from paceline.server.common.deltas import UsageCounter, merge
from paceline.types import Delta, PromptInfo, Usage


async def deltas(text: str, closed: list[str]) -> AsyncGenerator[Delta, None]:
    try:
        for letter in text:
            await asyncio.sleep(0)
            if letter == "!":
                raise ValueError(text)
            yield Delta(text=letter)
        if text.endswith("?"):
            await asyncio.Event().wait()
    finally:
        closed.append(text)


async def test_merged_streams_keep_their_own_order() -> None:
    closed: list[str] = []
    texts = ["", "", ""]
    async for place, delta in merge([deltas(text, closed) for text in ("abc", "", "defgh")]):
        texts[place] += delta.text
    assert texts == ["abc", "", "defgh"]
    assert sorted(closed) == ["", "abc", "defgh"]


async def test_the_first_failure_closes_the_other_streams() -> None:
    closed: list[str] = []
    with pytest.raises(ValueError, match="a!"):
        async for _ in merge([deltas("a!", closed), deltas("bc?", closed)]):
            pass
    assert sorted(closed) == ["a!", "bc?"]


async def test_closing_the_merge_closes_the_streams() -> None:
    closed: list[str] = []
    merged = merge([deltas("a?", closed), deltas("b?", closed)])
    await anext(merged)
    await merged.aclose()
    assert sorted(closed) == ["a?", "b?"]


async def test_a_slow_reader_holds_back_the_streams() -> None:
    made = 0

    async def endless() -> AsyncGenerator[Delta, None]:
        nonlocal made
        while True:
            await asyncio.sleep(0)
            made += 1
            yield Delta()

    merged = merge([endless() for _ in range(3)], together=2)
    await anext(merged)
    for _ in range(100):
        await asyncio.sleep(0)
    assert made == 1 + 2 + 2  # read, waiting in the queue, and one that each of two streams holds in its hand
    await merged.aclose()


async def test_streams_that_fail_or_end_behind_a_full_queue_are_heard() -> None:
    closed: list[str] = []
    texts = ["", "", ""]
    async for place, delta in merge([deltas(text, closed) for text in ("abc", "defgh", "i")], together=1):
        texts[place] += delta.text
        await asyncio.sleep(0.001)
    assert texts == ["abc", "defgh", "i"]
    with pytest.raises(ValueError, match="ab!"):
        async for _ in merge([deltas("ab!", closed), deltas("cdefg?", closed)], together=2):
            await asyncio.sleep(0.001)
    assert sorted(closed) == ["ab!", "abc", "cdefg?", "defgh", "i"]


def test_a_counter_counts_prompts_once_and_choices_each() -> None:
    counter = UsageCounter()
    for place in (0, 1):
        for index in (0, 1, 2):
            counter.add(place, Delta(token_ids=(1, 2), index=index))
            counter.add(place, Delta(token_ids=(3,), index=index, usage=Usage(10, 3, 4, 2, 1), finish_reason="stop"))
    assert counter.usage() == {
        "prompt_tokens": 20,
        "completion_tokens": 18,
        "total_tokens": 38,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "accepted_prediction_tokens": 12,
            "rejected_prediction_tokens": 6,
        },
    }


def test_a_counter_knows_the_cached_tokens_from_the_first_delta_on() -> None:
    counter = UsageCounter()
    counter.add(0, Delta(token_ids=(1,), prompt=PromptInfo((7, 8, 9), cached_tokens=2)))
    assert counter.usage()["prompt_tokens_details"] == {"cached_tokens": 2}
    counter.add(1, Delta(token_ids=(1,), prompt=PromptInfo((7, 8), cached_tokens=1)))
    assert counter.usage()["prompt_tokens_details"] == {"cached_tokens": 3}
    counter.add(0, Delta(finish_reason="stop", usage=Usage(3, 1, 2)))
    assert counter.usage()["prompt_tokens_details"] == {"cached_tokens": 3}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_counter_tells_what_was_kept_of_each_prompt_once_and_nothing_where_nobody_wanted_fewer(
    order: tuple[int, int],
) -> None:
    counter = UsageCounter()
    counter.add(0, Delta(usage=Usage(9, 1), finish_reason="stop"))
    assert counter.usage()["prompt_tokens_details"] == {"cached_tokens": 0}
    for place in (1, 2):
        for index in order:
            usage = Usage(9, 1, kept_tokens=3 * place + index)
            counter.add(place, Delta(index=index, usage=usage, finish_reason="stop"))
    assert counter.usage()["prompt_tokens_details"] == {"cached_tokens": 0, "specprefill_kept_tokens": 3 + 6}
    assert counter.usage()["prompt_tokens"] == 27  # as long as they were written


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_a_choice_found_of_its_own_request_is_not_counted_as_cached(order: tuple[int, int]) -> None:
    counter = UsageCounter()
    for index in order:
        counter.add(0, Delta(index=index, prompt=PromptInfo((7, 8, 9), cached_tokens=2 * index)))
        counter.add(0, Delta(index=index, usage=Usage(3, 1, 2 * index), finish_reason="stop"))
    assert counter.usage()["prompt_tokens_details"] == {"cached_tokens": 0}


def test_a_counter_counts_tokens_for_the_event_that_they_end_in() -> None:
    counter = UsageCounter()
    said: list[tuple[int, list[Event]]] = [(2, [Reasoning("hm")]), (1, []), (3, [Reasoning("."), Content("So")])]
    for index in (0, 1):
        for tokens, events in said:
            counter.add(0, Delta(token_ids=(1,) * tokens, index=index))
            counter.add_parsed(index, events)
    assert counter.usage()["completion_tokens_details"]["reasoning_tokens"] == 4
