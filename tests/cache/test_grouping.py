from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cache.grouping import AUTO, LAYOUTS, NAMES, PADDED, ROWS, SIMILAR, SMALL, Grouping

LENGTHS = st.lists(st.integers(0, 5000), min_size=1, max_size=6)


@settings(deadline=None)
@given(group=LENGTHS, length=st.integers(0, 5000))
def test_one_row_a_group_takes_nobody_in(group: list[int], length: int) -> None:
    assert not ROWS.accepts(group, length)


@settings(deadline=None)
@given(group=LENGTHS, length=st.integers(0, 5000))
def test_the_padded_layout_takes_everybody_in(group: list[int], length: int) -> None:
    assert PADDED.accepts(group, length)


@settings(deadline=None)
@given(group=LENGTHS, length=st.integers(0, 5000))
def test_similar_rows_are_all_small_or_within_the_skew(group: list[int], length: int) -> None:
    everyone = [*group, length]
    small = all(n <= SMALL for n in everyone)
    near = all(a <= 2 * max(b, 1) for a in everyone for b in everyone)
    assert SIMILAR.accepts(group, length) == (small or near)


@settings(deadline=None)
@given(group=LENGTHS, length=st.integers(0, 5000), skew=st.sampled_from([1.0, 1.5, 2.0, 8.0, math.inf]))
def test_the_order_of_arrival_does_not_matter(group: list[int], length: int, skew: float) -> None:
    grouping = Grouping(skew)
    first, *others = group
    assert grouping.accepts(group, length) == grouping.accepts([*others, length], first)


def test_a_row_without_tokens_joins_short_rows_but_not_a_long_one() -> None:
    assert SIMILAR.accepts([SMALL], 0)
    assert not SIMILAR.accepts([SMALL + 1], 0)


def test_every_layout_has_one_name() -> None:
    assert {NAMES[grouping]: grouping for grouping in LAYOUTS.values()} == LAYOUTS


@pytest.mark.parametrize("device", ["cpu", "cuda", "metal"])
def test_every_device_tries_known_layouts_and_ends_with_one_buffer(device: str) -> None:
    """Some models can only be served from one buffer, so that layout must be among those tried."""
    assert set(AUTO[device]) <= set(LAYOUTS.values())
    assert PADDED in AUTO[device]


def test_a_row_just_twice_as_long_is_still_similar_and_the_next_is_not() -> None:
    assert SIMILAR.accepts([1000], 2000) and not SIMILAR.accepts([1000], 2001)
    assert SIMILAR.accepts([1], 512) and not SIMILAR.accepts([1], 513)
