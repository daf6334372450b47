"""Which rows share a buffer, how many slots it gets, and which slots a token sees."""

from __future__ import annotations

import itertools
import math
from unittest.mock import patch

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cache import slot_plan
from paceline.cache.layers import attention_mask, causal_mask
from paceline.cache.shape_buckets import GPU
from paceline.cache.slot_plan import (
    AUTO,
    LAYOUTS,
    MARGIN,
    NAMES,
    PADDED,
    ROWS,
    SIMILAR,
    SMALL,
    STEP,
    Change,
    Group,
    Grouping,
    Placement,
    SlotPlan,
    capacity,
)

# -- which rows share a buffer

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
    assert {NAMES[grouping.skew]: grouping for grouping in LAYOUTS.values()} == LAYOUTS


@pytest.mark.parametrize("device", ["cpu", "cuda", "metal"])
def test_every_device_tries_known_layouts_and_ends_with_one_buffer(device: str) -> None:
    """Some models can only be served from one buffer, so that layout must be among those tried."""
    assert set(AUTO[device]) <= set(LAYOUTS.values())
    assert PADDED in AUTO[device]


def test_a_row_just_twice_as_long_is_still_similar_and_the_next_is_not() -> None:
    assert SIMILAR.accepts([1000], 2000) and not SIMILAR.accepts([1000], 2001)
    assert SIMILAR.accepts([1], 512) and not SIMILAR.accepts([1], 513)


# -- how many slots a buffer gets


@pytest.mark.parametrize(
    ("need", "slots"), [(1, 256), (256, 256), (257, 512), (2047, 2048), (2049, 2304), (5000, 5120)]
)
def test_buffers_grow_in_steps(need: int, slots: int) -> None:
    assert capacity(None, need) == slots


def test_long_buffers_grow_in_eighths() -> None:
    sizes = sorted({capacity(None, need) for need in range(1, 100_000, 50)})
    assert all(STEP <= later - size <= max(STEP, later // 8 + STEP) for size, later in itertools.pairwise(sizes))


@pytest.mark.parametrize("window", [None, 24, 512, 4096])
def test_there_is_room_for_what_is_needed_and_more_need_never_gets_less(window: int | None) -> None:
    sizes = [capacity(window, need) for need in range(1, 6000)]
    assert all(size >= need for need, size in enumerate(sizes, 1))
    assert all(later >= size for size, later in itertools.pairwise(sizes))


def test_a_window_has_room_for_a_step_before_its_next_shift_and_no_more() -> None:
    assert capacity(512, 512 + MARGIN) >= 512 + MARGIN + STEP
    assert capacity(512, 512 + MARGIN) < 512 + MARGIN + 2 * STEP


def test_a_windows_buffer_has_few_sizes() -> None:
    assert {capacity(512, need) for need in range(1, 1025)} == {256, 512, 1024}
    assert {capacity(24, need) for need in range(1, 300)} == {512}
    assert (capacity(512, 512), capacity(512, 513)) == (512, 1024)


# -- the plan

# Buffers that grow by four slots, so that short scripts meet every border.
small_steps = patch.multiple(slot_plan, STEP=4, MARGIN=2)
STEPS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), max_size=12)  # width, tokens kept of it


class Slots:
    """A slot plan of one group, and the positions that its buffers would hold, row by row."""

    def __init__(self, window: int | None, rows: int) -> None:
        self.slot_plan = SlotPlan(window, [Group(0, rows, 0, [0] * rows)])
        self.lengths = [0] * rows
        self.held: list[list[int]] = [[] for _ in range(rows)]
        self.changes = 0

    @property
    def group(self) -> Group:
        return self.slot_plan.groups[0]

    def begin(self, width: int) -> None:
        before = self.group.capacity
        changes = self.slot_plan.reserve(self.lengths, width)
        self.changes += len(changes)
        assert len(changes) <= 1
        for change in changes:
            assert (change.group, change.capacity) == (0, self.group.capacity)
            if change.drop is not None:
                self.held = [held[drop:] for held, drop in zip(self.held, change.drop, strict=True)]
        assert changes or self.group.capacity == before
        for row, (length, start) in enumerate(zip(self.lengths, self.group.starts, strict=True)):
            self.held[row] = [*self.held[row][: length - start], *range(length, length + width)]

    def seen(self, width: int) -> list[list[list[int]]]:
        """For every row and new token, the positions that mask and view let it see."""
        low, high = self.slot_plan.view(self.group, self.lengths, width)
        mask = attention_mask(self.slot_plan, self.group, self.lengths, width)
        shape = (len(self.lengths), 1, width, high - low)
        if mask is None:
            assert width == 1
            allowed = np.ones(shape, dtype=bool)
        elif isinstance(mask, str):
            allowed = np.broadcast_to(np.tri(width, high - low, high - low - width, dtype=bool), shape)
        else:
            allowed = np.broadcast_to(np.array(mask), shape)
        return [
            [[self.held[row][low + slot] for slot in np.flatnonzero(allowed[row, 0, query])] for query in range(width)]
            for row in range(len(self.lengths))
        ]

    def commit(self, kept: list[int]) -> None:
        self.lengths = [n + k for n, k in zip(self.lengths, kept, strict=True)]


def visible(length: int, width: int, window: int | None) -> list[list[int]]:
    first = [0 if window is None else max(0, place - window + 1) for place in range(length, length + width)]
    return [list(range(low, length + query + 1)) for query, low in enumerate(first)]


@settings(deadline=None)
@given(
    window=st.none() | st.integers(1, 12),
    rows=st.integers(1, 4),
    steps=STEPS,
    data=st.data(),
)
@small_steps
def test_every_token_sees_exactly_its_own_rows_last_window(
    window: int | None, rows: int, steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    slots = Slots(window, rows)
    for width, most in steps:
        slots.begin(width)
        assert slots.group.capacity >= max(len(held) for held in slots.held)
        assert slots.seen(width) == [visible(length, width, window) for length in slots.lengths]
        slots.commit(data.draw(st.lists(st.integers(0, min(width, most)), min_size=rows, max_size=rows)))


@settings(deadline=None)
@given(
    window=st.none() | st.integers(1, 12), rows=st.integers(1, 4), steps=STEPS, last=st.integers(1, 9), data=st.data()
)
@small_steps
def test_the_mask_over_the_whole_buffer_lets_the_same_slots_be_seen(
    window: int | None, rows: int, steps: list[tuple[int, int]], last: int, data: st.DataObject
) -> None:
    slots = Slots(window, rows)
    for width, most in steps:
        slots.begin(width)
        slots.commit(data.draw(st.lists(st.integers(0, min(width, most)), min_size=rows, max_size=rows)))
    slots.begin(last)
    ends = [length - start for length, start in zip(slots.lengths, slots.group.starts, strict=True)]
    mask = np.array(causal_mask(0, slots.group.capacity, mx.array(ends), last, window))
    assert mask.shape == (rows, 1, last, slots.group.capacity)
    for row, length in enumerate(slots.lengths):
        seen = [[slots.held[row][slot] for slot in np.flatnonzero(query)] for query in mask[row, 0]]
        assert seen == visible(length, last, window)


@small_steps
def test_equal_rows_need_no_mask_array() -> None:
    slots = Slots(None, 3)
    slots.begin(5)
    assert attention_mask(slots.slot_plan, slots.group, slots.lengths, 5) == "causal"
    slots.commit([5, 5, 5])
    slots.begin(1)
    assert attention_mask(slots.slot_plan, slots.group, slots.lengths, 1) is None


@small_steps
def test_one_row_decodes_without_a_mask_array_however_far_its_window_has_slid() -> None:
    slots = Slots(3, 1)
    for _ in range(40):
        slots.begin(1)
        assert attention_mask(slots.slot_plan, slots.group, slots.lengths, 1) is None
        slots.commit([1])


@small_steps
def test_a_window_keeps_its_buffer_small_and_moves_it_seldom() -> None:
    slots = Slots(8, 1)
    for _ in range(400):
        slots.begin(1)
        slots.commit([1])
    assert slots.group.capacity <= 8 + 2 + 2 * 4
    assert slots.changes <= 400 / 4 + 2


@small_steps
def test_a_long_row_grows_in_ever_larger_steps() -> None:
    """Each growth copies the buffer: doubling the length must add a bounded number of them."""
    slots = Slots(None, 1)
    growths = []
    for length in (500, 1000, 2000, 4000):
        while slots.lengths[0] < length:
            slots.begin(1)
            slots.commit([1])
        growths.append(slots.changes)
    assert growths[3] - growths[2] <= 10
    assert slots.group.capacity <= 4000 * 1.2


@small_steps
def test_room_that_is_there_is_not_made_again() -> None:
    slots = Slots(None, 2)
    slots.begin(3)
    assert slots.slot_plan.reserve(slots.lengths, 3) == []


@small_steps
def test_a_window_gives_back_what_a_wide_step_needed() -> None:
    slots = Slots(8, 1)
    slots.begin(40)
    slots.commit([40])
    (change,) = slots.slot_plan.trim(slots.lengths)
    assert change.drop == [40 - (8 - 1 + 2)] and slots.group.starts == change.drop
    assert slots.group.capacity == change.capacity == slots.slot_plan.capacity(8 - 1 + 2 + 1)
    assert slots.slot_plan.trim(slots.lengths) == []


@small_steps
def test_the_next_narrow_step_of_a_window_gives_back_what_a_wide_one_needed() -> None:
    slots = Slots(8, 1)
    slots.begin(40)
    slots.commit([40])
    slots.begin(1)
    assert slots.group.capacity == slots.slot_plan.capacity(8 - 1 + 2 + 1) < 40


@small_steps
def test_what_looks_back_without_limit_has_nothing_to_give_back() -> None:
    slots = Slots(None, 1)
    slots.begin(40)
    slots.commit([40])
    assert slots.slot_plan.trim(slots.lengths) == []


def test_slots_that_only_padding_needed_are_given_back() -> None:
    plan = SlotPlan(None, [Group(0, 1, 0, [0])], GPU)
    plan.reserve([2000], 1536)  # a chunk of 1,040 tokens in its bucket
    assert plan.groups[0].capacity == 4096
    assert plan.trim([3040]) == [Change(0, None, 3072)]
    assert plan.groups[0].capacity == 3072 and plan.trim([3040]) == []


def test_a_row_takes_the_place_of_padding_or_is_inserted_with_padding_behind_it() -> None:
    values = ["a", "", "c"]
    Placement(1, 0, added=0).put(values, "b", "")
    assert values == ["a", "b", "c"]
    Placement(3, 0, added=2).put(values, "d", "")
    assert values == ["a", "b", "c", "d", ""]
    Placement(0, None).put(values, "z", "")
    assert values == ["z", "a", "b", "c", "d", ""]
