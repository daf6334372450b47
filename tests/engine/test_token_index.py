"""The longest earlier occurrence of a text's end, against the definition."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine import token_index
from paceline.engine.token_index import (
    CANDIDATES,
    FURTHEST,
    GUESSED,
    LONG,
    PAIR,
    REJOINED,
    RESYNC_DISTANCE,
    RESYNC_TOKENS,
    RUN,
    Follower,
    TokenIndex,
)

TEXTS = st.lists(st.integers(0, 3), max_size=60)


def longest(tokens: list[int], text: list[int]) -> int:
    """The length of the longest end of `text` that stands in `tokens`, not at their very end."""
    best = 0
    for end in range(RUN, len(tokens)):
        length = 0
        while length < min(end, len(text), FURTHEST) and tokens[end - 1 - length] == text[-1 - length]:
            length += 1
        best = max(best, length)
    return best if best >= PAIR else 0


@given(st.lists(st.integers(0, 2), max_size=CANDIDATES))
def test_a_match_is_the_longest_that_there_is(tokens: list[int]) -> None:
    """So short a text has no more occurrences than are compared."""
    index = TokenIndex(tokens)
    position, length = index.match(index)
    assert length == longest(tokens, tokens)
    if length:
        assert tokens[position - length : position] == tokens[-length:] and position < len(tokens)


@given(TEXTS, TEXTS)
def test_a_match_stands_where_it_says(tokens: list[int], text: list[int]) -> None:
    position, length = TokenIndex(tokens).match(TokenIndex(text))
    assert length == 0 or tokens[position - length : position] == text[-length:]
    assert (length > 0) == (longest(tokens, text) > 0)


@given(TEXTS, TEXTS)
def test_a_fork_knows_what_an_index_of_the_whole_text_knows(tokens: list[int], more: list[int]) -> None:
    base, whole = TokenIndex(tokens), TokenIndex([*tokens, *more])
    forks = [base.fork(), base.fork()]
    for fork in forks:
        fork.extend(more)
        assert fork.tokens == whole.tokens
        assert fork.match(fork) == whole.match(whole)
    assert base.tokens == tokens


@given(TEXTS, TEXTS)
def test_following_token_by_token_finds_matches_as_long_as_a_search_does(tokens: list[int], more: list[int]) -> None:
    index = TokenIndex(tokens)
    follower = Follower(index, repeats=True)
    for token in more:
        index.append(token)
        with mock.patch.object(token_index, "LONG", len(index)):  # nothing is long enough to be left
            follower.follow(index)
        _, length = index.match(index)
        assert min(follower.length, FURTHEST) >= length
        if follower.length:
            start, position = follower.position - follower.length, follower.position
            assert index.tokens[start:position] == index.tokens[-follower.length :]
            assert follower.next == follower.following(1)[0]


def test_a_text_that_repeats_goes_on_repeating() -> None:
    index = TokenIndex([5, 6, 7, 5, 6, 7, 5, 6, 7])
    follower = Follower(index, repeats=True)
    follower.position, follower.length = index.match(index)
    assert follower.following(7) == [5, 6, 7, 5, 6, 7, 5]
    assert Follower(TokenIndex()).following(4) == []


def rewrite(file: list[int], *changed: int) -> tuple[Follower, TokenIndex]:
    """A file is written again, and after its first 20 tokens something else is."""
    follower, text = Follower(TokenIndex(file)), TokenIndex()
    for token in (*file[:20], *changed):
        text.append(token)
        follower.follow(text)
    return follower, text


@pytest.mark.parametrize(
    ("changed", "next"),
    [
        pytest.param((200,), 21, id="one token for another, maybe"),
        pytest.param((200, 21), 22, id="one token for another"),
        pytest.param((200, 201, 21), 22, id="two tokens for one"),
        pytest.param((200, 201, 202, 20), 21, id="three tokens more"),
        pytest.param((23,), 21, id="three tokens fewer, or one for another"),
        pytest.param((23, 24), 25, id="three tokens fewer"),
    ],
)
def test_behind_a_change_the_text_goes_on(changed: tuple[int, ...], next: int) -> None:
    follower, _ = rewrite(list(range(100)), *changed)
    assert follower.next == next


def test_a_change_is_looked_behind_for_a_while_and_not_far_away() -> None:
    file = list(range(100))
    new = range(200, 200 + RESYNC_TOKENS)
    assert rewrite(file, *new, 21)[0].next == 22
    assert rewrite(file, *new, 300, 21)[0].next is None
    assert rewrite(file, 200, 20 + RESYNC_DISTANCE)[0].next is None


def test_what_is_found_behind_a_change_counts_as_an_occurrence_of_some_length() -> None:
    file = list(range(100))
    assert rewrite(file, 200)[0].length == GUESSED
    assert rewrite(file, 200, 21)[0].length == REJOINED
    assert rewrite(file, 200, 21, 22)[0].length == REJOINED + 1
    follower, text = rewrite(file, 200)
    follower.restart()
    text.append(21)
    follower.follow(text)
    assert follower.next is None


def test_a_short_occurrence_is_not_looked_behind() -> None:
    file = list(range(100))
    follower, text = Follower(TokenIndex(file)), TokenIndex()
    for token in (*file[20 : 20 + LONG - 1], 200, 20 + LONG):
        text.append(token)
        follower.follow(text)
    assert follower.next is None


def test_the_index_is_bounded() -> None:
    index = TokenIndex(range(token_index.MAX_INDEXED + 100))
    assert len(index) == token_index.MAX_INDEXED
    assert index.tokens[0] == 100
