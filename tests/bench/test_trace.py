from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trace import over_http
from paceline.bench.load import Outcome
from paceline.bench.prompts import Calibration, Lengths
from paceline.bench.trace import HttpServer, Message, Plan, distinct_tokens, play
from paceline.bench.wire import Address, BenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.conftest import Reply, Serve

SMALL = Plan(requests=7, streams=2, turns=3, system=40, tools=10, message=Lengths(3, 9), answer=2)


@pytest.mark.parametrize(
    ("sequences", "count"),
    [
        ([], 0),
        ([[]], 0),
        ([[1, 2, 3]], 3),
        ([[1, 2, 3], [1, 2, 3]], 3),
        ([[1, 2, 3], [1, 2, 4, 5]], 5),
        ([[1, 2], [1, 2, 3], [2, 3], [1, 2, 3, 4]], 6),
        ([[10, 1], [9, 1], [10, 2]], 5),
    ],
)
def test_distinct_tokens_are_the_nodes_of_the_trie(sequences: list[list[int]], count: int) -> None:
    assert distinct_tokens(sequences) == count


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=12))
def test_distinct_tokens_agree_with_a_set_of_prefixes(sequences: list[list[int]]) -> None:
    prefixes = {tuple(ids[:length]) for ids in sequences for length in range(1, len(ids) + 1)}
    assert distinct_tokens(sequences) == len(prefixes)


def test_a_plan_splits_its_requests_into_conversations() -> None:
    assert [conversation.turns for conversation in SMALL.conversations()] == [3, 3, 1]


def test_conversations_share_their_opening_and_nothing_else() -> None:
    first, second, _ = SMALL.conversations()
    assert first.opening() == second.opening()
    assert first.message(0) != second.message(0)
    assert first.message(0) != first.message(1)
    assert first.message(1) == next(SMALL.conversations()).message(1)


def test_lengths_are_tokens() -> None:
    plan = Plan(system=100, tools=0, calibration=Calibration(tokens_per_word=2.0))
    [opening] = next(plan.conversations()).opening()
    assert len(opening["content"].split()) == 50


@pytest.mark.parametrize("name", ["requests", "streams", "turns", "system", "answer"])
def test_an_empty_plan_is_refused(name: str) -> None:
    nothing: dict[str, Any] = {name: 0}
    with pytest.raises(BenchError, match=name):
        replace(SMALL, **nothing)


class Words:
    """A server that computes every prompt as far as it has not seen its beginning; a word is a token."""

    label = "words"

    def __init__(self, forgets: bool = False, tells: bool = True) -> None:
        self.notes: list[str] = []
        self.forgets = forgets
        self.tells = tells
        self.seen: set[tuple[str, ...]] = set()
        self.computed = 0
        self.asked: list[list[Message]] = []

    async def calibrate(self) -> Calibration:
        return Calibration()

    def _words(self, messages: Sequence[Message]) -> list[str]:
        return [word for message in messages for word in (message["role"], *message["content"].split())]

    async def ask(self, messages: Sequence[Message], max_tokens: int) -> Outcome:
        self.asked.append(list(messages))
        words = self._words(messages)
        new = 0
        for length in range(1, len(words)):
            prefix = tuple(words[:length])
            new += self.forgets or prefix not in self.seen
            self.seen.add(prefix)
        self.computed += new
        cached = len(words) - new
        return Outcome(1.0, 2.0, None, (1.5,), len(words), max_tokens, cached, "length", text=f"said {len(words)}")

    async def prefilled(self) -> int | None:
        return self.computed if self.tells else None

    async def tokens(self, messages: Sequence[Message]) -> list[int] | None:
        return [random.Random(word).getrandbits(60) for word in self._words(messages)] if self.tells else None


async def test_a_server_that_forgets_nothing_has_the_ratio_one() -> None:
    server = Words()
    result = await play(server, SMALL)
    assert (result.run.ok, result.ratio) == (7, 1.0)
    assert result.run.prompt_tokens == sum(len(server._words(messages)) for messages in server.asked)


async def test_a_server_that_forgets_everything_computes_every_prompt() -> None:
    server = Words(forgets=True)
    result = await play(server, SMALL)
    assert result.computed == result.run.prompt_tokens - SMALL.requests  # but for the last tokens
    assert result.ratio is not None and result.ratio > 3


async def test_a_server_that_does_not_tell_is_believed_its_usage() -> None:
    known = (await play(Words(), SMALL)).ideal
    result = await play(Words(tells=False), SMALL, ideal=known)
    assert result.ideal == known
    assert result.computed is not None and known is not None
    assert result.computed == known  # the words' last tokens are cached, says their usage


async def test_a_history_grows_by_what_was_asked_and_the_scripted_answer() -> None:
    server = Words()
    await play(server, SMALL)
    longest = max(server.asked, key=len)
    assert [message["role"] for message in longest] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert all(len(message["content"].split()) == 2 for message in longest if message["role"] == "assistant")
    assert [messages for messages in server.asked if messages == longest[:4]]
    other = Words()
    await play(other, SMALL)
    assert sorted(map(str, other.asked)) == sorted(map(str, server.asked))


async def test_own_answers_go_into_the_history() -> None:
    server = Words()
    await play(server, Plan(requests=2, streams=1, turns=2, system=5, tools=0, own_answers=True))
    first, second = server.asked
    assert second[2] == {"role": "assistant", "content": f"said {len(server._words(first))}"}


async def test_a_trace_over_http_counts_what_usage_says(fake: Serve) -> None:
    server = fake(models=["a"])
    result = await over_http(Address.parse(server.url), None, SMALL, 20.0)
    assert (result.run.ok, result.computed, result.ideal) == (7, None, None)  # this one tells nothing
    bodies = [body for body in server.bodies if len(body["messages"]) > 1]
    assert len(bodies) == 7
    assert {body["max_tokens"] for body in bodies} == {2}
    assert server.most_in_flight <= 2
    assert result.run.ttft_s is not None


async def test_a_failed_turn_does_not_end_the_conversation(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        if len(reply.body["messages"]) == 4:
            await reply.answer(500, {"error": {"message": "no luck"}})
        else:
            await reply.stream()

    server = HttpServer(Address.parse(fake(script).url), "m")
    result = await play(server, SMALL)
    assert (result.run.ok, result.run.errors) == (5, {"http 500": 2})
