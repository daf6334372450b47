from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cache import lane as lane_module
from paceline.cache import slots as slots_module
from paceline.cache.lane import Group, Lane

STEPS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), max_size=12)  # width, tokens kept of it


@pytest.fixture(autouse=True, scope="module")
def small_steps() -> Iterator[None]:
    """Buffers that grow by four slots, so that short scripts meet every border."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots_module, "STEP", 4)
        patch.setattr(slots_module, "MARGIN", 2)
        patch.setattr(lane_module, "MARGIN", 2)
        yield


class Slots:
    """A lane of one group, and the positions that its buffers would hold, row by row."""

    def __init__(self, window: int | None, rows: int) -> None:
        self.lane = Lane(window, [Group(0, rows, 0, [0] * rows)])
        self.lengths = [0] * rows
        self.held: list[list[int]] = [[] for _ in range(rows)]
        self.changes = 0

    @property
    def group(self) -> Group:
        return self.lane.groups[0]

    def begin(self, width: int) -> None:
        before = self.group.capacity
        changes = self.lane.reserve(self.lengths, width)
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
        low, high = self.lane.view(self.group, self.lengths, width)
        mask = self.lane.mask(self.group, self.lengths, width)
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
def test_the_mask_over_the_whole_buffer_lets_the_same_slots_be_seen(
    window: int | None, rows: int, steps: list[tuple[int, int]], last: int, data: st.DataObject
) -> None:
    slots = Slots(window, rows)
    for width, most in steps:
        slots.begin(width)
        slots.commit(data.draw(st.lists(st.integers(0, min(width, most)), min_size=rows, max_size=rows)))
    slots.begin(last)
    ends = [length - start for length, start in zip(slots.lengths, slots.group.starts, strict=True)]
    mask = np.array(slots.lane.fixed_mask(slots.group, mx.array(ends), last))
    assert mask.shape == (rows, 1, last, slots.group.capacity)
    for row, length in enumerate(slots.lengths):
        seen = [[slots.held[row][slot] for slot in np.flatnonzero(query)] for query in mask[row, 0]]
        assert seen == visible(length, last, window)


def test_equal_rows_need_no_mask_array() -> None:
    slots = Slots(None, 3)
    slots.begin(5)
    assert slots.lane.mask(slots.group, slots.lengths, 5) == "causal"
    slots.commit([5, 5, 5])
    slots.begin(1)
    assert slots.lane.mask(slots.group, slots.lengths, 1) is None


def test_one_row_decodes_without_a_mask_array_however_far_its_window_has_slid() -> None:
    slots = Slots(3, 1)
    for _ in range(40):
        slots.begin(1)
        assert slots.lane.mask(slots.group, slots.lengths, 1) is None
        slots.commit([1])


def test_a_window_keeps_its_buffer_small_and_moves_it_seldom() -> None:
    slots = Slots(8, 1)
    for _ in range(400):
        slots.begin(1)
        slots.commit([1])
    assert slots.group.capacity <= 8 + 2 + 2 * 4
    assert slots.changes <= 400 / 4 + 2


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


def test_room_that_is_there_is_not_made_again() -> None:
    slots = Slots(None, 2)
    slots.begin(3)
    assert slots.lane.reserve(slots.lengths, 3) == []


def test_a_window_gives_back_what_a_wide_step_needed() -> None:
    slots = Slots(8, 1)
    slots.begin(40)
    slots.commit([40])
    (change,) = slots.lane.trim(slots.lengths)
    assert change.drop == [40 - (8 - 1 + 2)] and slots.group.starts == change.drop
    assert slots.group.capacity == change.capacity == slots.lane.capacity(8 - 1 + 2 + 1)
    assert slots.lane.trim(slots.lengths) == []


def test_the_next_narrow_step_of_a_window_gives_back_what_a_wide_one_needed() -> None:
    slots = Slots(8, 1)
    slots.begin(40)
    slots.commit([40])
    slots.begin(1)
    assert slots.group.capacity == slots.lane.capacity(8 - 1 + 2 + 1) < 40


def test_what_looks_back_without_limit_has_nothing_to_give_back() -> None:
    slots = Slots(None, 1)
    slots.begin(40)
    slots.commit([40])
    assert slots.lane.trim(slots.lengths) == []
