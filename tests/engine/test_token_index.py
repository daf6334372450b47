"""The longest earlier occurrence of a text's end, against the definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline.engine import token_index
from paceline.engine.token_index import CANDIDATES, FURTHEST, PAIR, RUN, Follower, TokenIndex

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


def test_the_index_is_bounded() -> None:
    index = TokenIndex(range(token_index.MOST_INDEXED + 100))
    assert len(index) == token_index.MOST_INDEXED
    assert index.tokens[0] == 100
