"""A batch of rows: the only place where lengths live.

A step is `begin(width)`, a forward pass over `layers`, `commit(kept)`. Rolling back is committing less. Rows join
from another batch (a row is prefilled in a batch of its own) and leave between any two steps. RoPE's position of a
row's next token is its length plus its delta: 0 for plain text, negative after pictures under M-RoPE.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import mlx.core as mx

from paceline.cache.grouping import Grouping
from paceline.cache.lane import STEP, Group, Lane
from paceline.cache.layers import AttentionCache, CacheGroup, LayerCache, StateCache, UnsupportedUse


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """What one layer remembers, read off the model's own cache at load."""

    kind: Literal["attention", "state", "list"]
    window: int | None = None  # attention: tokens it looks back, itself included; None: all
    size: int = 0  # state: number of arrays
    parts: tuple[LayerPlan, ...] = ()


@dataclass(slots=True)
class _Step:
    """Per-step values that all layers share, computed once. `ends` is set in a step of fixed shape only."""

    width: int
    offset: Any
    ends: dict[int | None, mx.array] | None = None
    masks: dict[tuple[int | None, int], Any] = field(default_factory=dict)
    slots: dict[tuple[int | None, int], Any] = field(default_factory=dict)


class Batch:
    """Rows of one model that step together. `rows` counts them; `lengths` are the committed tokens of each."""

    def __init__(self, plans: Sequence[LayerPlan], grouping: Grouping, rows: int = 1) -> None:
        self.grouping = grouping
        self.lengths = [0] * rows
        self.deltas = [0] * rows
        self.lanes: dict[int | None, Lane] = {}
        self.layers: list[LayerCache] = [self._layer(plan, rows) for plan in plans]
        self.flat: list[LayerCache] = [part for layer in self.layers for part in _flatten(layer)]
        self._placed: dict[int | None, tuple[Literal["new", "same"], int, int]] = {}
        self._step: _Step | None = None

    def _layer(self, plan: LayerPlan, rows: int) -> LayerCache:
        if plan.kind == "list":
            return CacheGroup(self, [self._layer(part, rows) for part in plan.parts])
        if plan.kind == "state":
            return StateCache(self, plan.size)
        lane = self.lanes.get(plan.window)
        if lane is None:
            size = 1 if self.grouping.skew == 0 else rows
            groups = [Group(first, size, 0, [0] * size) for first in range(0, rows, size)]
            lane = self.lanes[plan.window] = Lane(plan.window, groups)
        return AttentionCache(self, lane)

    @property
    def rows(self) -> int:
        return len(self.lengths)

    # -- one step

    def begin(self, width: int, positions: Any = None) -> None:
        """Open a step of `width` new tokens a row. `positions` overrides the running ones (see models/positions)."""
        self.reserve(width)
        offset = positions if positions is not None else self._offset()
        self._step = _Step(width, offset)
        for cache in self.flat:
            if isinstance(cache, StateCache):
                cache.pending = {}

    def begin_fixed(self, offset: mx.array, ends: dict[int | None, mx.array]) -> None:
        """Open a step of one token a row whose lengths are arrays and whose buffers are read whole.

        Its graph depends on shapes only, so that it can be traced once and run many times (engine/compiled). The
        caller has reserved the room. `ends` has, for each lane, the slot that each row writes next.
        """
        self._step = _Step(1, offset, ends)

    def reserve(self, width: int) -> None:
        """Make room for `width` more tokens in every row."""
        for lane in self.lanes.values():
            for change in lane.reserve(self.lengths, width):
                for cache in self._attention(lane):
                    cache.change(change)

    def ends(self, lane: Lane) -> list[int]:
        """For each row, the slot that its next token is written to."""
        starts = [start for group in lane.groups for start in group.starts]
        return [n - start for n, start in zip(self.lengths, starts, strict=True)]

    @property
    def places(self) -> list[int]:
        """For each row, the position of its next token."""
        return [n + d for n, d in zip(self.lengths, self.deltas, strict=True)]

    def commit(self, kept: Sequence[int] | None = None) -> None:
        """Close the step: row i keeps its first `kept[i]` new tokens (all of them without `kept`)."""
        step = self._open_step()
        counts = [step.width] * self.rows if kept is None else list(kept)
        if min(counts) < step.width and any(isinstance(cache, StateCache) and cache.pending for cache in self.flat):
            raise UnsupportedUse("a recurrent state cannot be rolled back: all new tokens must be kept")
        for cache in self.flat:
            cache.commit(counts)
        self.lengths = [n + k for n, k in zip(self.lengths, counts, strict=True)]
        self._step = None

    def close(self) -> None:
        """End a step that `commit` does not end: its lengths are the caller's."""
        self._step = None

    def _offset(self) -> int | mx.array:
        places = self.places
        return places[0] if len(set(places)) == 1 else mx.array(places, dtype=mx.int32)

    def _open_step(self) -> _Step:
        if self._step is None:
            raise RuntimeError("no step is open: call begin() first")
        return self._step

    # -- what the layers ask during a step

    @property
    def offset(self) -> Any:
        return self._open_step().offset

    def mask(self, lane: Lane, index: int) -> Any:
        step = self._open_step()
        key = (lane.window, index)
        if key not in step.masks:
            group = lane.groups[index]
            if step.ends is not None:
                step.masks[key] = lane.fixed_mask(group, step.ends[lane.window])
            else:
                step.masks[key] = lane.mask(group, self.lengths, step.width)
        return step.masks[key]

    def view(self, lane: Lane, index: int) -> tuple[int, int]:
        if self._open_step().ends is not None:
            return 0, lane.groups[index].capacity
        return lane.view(lane.groups[index], self.lengths, self._open_step().width)

    def slots(self, lane: Lane, index: int) -> int | mx.array:
        """Where the step's tokens are written: a slot common to the group's rows, or an index array."""
        step = self._open_step()
        key = (lane.window, index)
        if key not in step.slots:
            group = lane.groups[index]
            if step.ends is not None:
                mine = step.ends[lane.window][group.first : group.first + group.count]
                step.slots[key] = mine[:, None, None, None]
                return mine[:, None, None, None]
            rows = self.lengths[group.first : group.first + group.count]
            ends = [n - s for n, s in zip(rows, group.starts, strict=True)]
            if len(set(ends)) == 1:
                step.slots[key] = ends[0]
            else:
                step.slots[key] = (mx.array(ends)[:, None] + mx.arange(step.width))[:, None, :, None]
        slots: int | mx.array = step.slots[key]
        return slots

    def placement(self, lane: Lane) -> tuple[Literal["new", "same"], int, int]:
        return self._placed[lane.window]

    # -- membership

    def join(self, other: Batch) -> int:
        """Take in `other`'s single row (it must not be used afterwards); returns the row's place in this batch."""
        if other.rows != 1:
            raise ValueError("rows join one at a time")
        length = other.lengths[0]
        place, group_index = self._place(length)
        for window, lane in self.lanes.items():
            theirs = other.lanes[window].groups[0]
            if group_index is None:
                lane.groups.append(Group(place, 1, theirs.capacity, list(theirs.starts)))
                self._placed[window] = ("new", len(lane.groups) - 1, theirs.capacity)
            else:
                group = lane.groups[group_index]
                group.capacity = max(group.capacity, theirs.capacity)
                group.count += 1
                group.starts.append(theirs.starts[0])
                for later in lane.groups[group_index + 1 :]:
                    later.first += 1
                self._placed[window] = ("same", group_index, group.capacity)
        order = None
        if place < self.rows:
            order = mx.array([*range(place), self.rows, *range(place, self.rows)])
        for mine, new in zip(self.flat, other.flat, strict=True):
            mine.join(new, order)
        self.lengths.insert(place, length)
        self.deltas.insert(place, other.deltas[0])
        return place

    def _place(self, length: int) -> tuple[int, int | None]:
        """Where a row of `length` goes: its index in the batch, and the group it shares (None: one of its own)."""
        for lane in self.lanes.values():
            for index, group in enumerate(lane.groups):
                rows = self.lengths[group.first : group.first + group.count]
                if self.grouping.accepts(rows, length):
                    return group.first + group.count, index
            break  # every lane has the same groups
        return self.rows, None

    def keep(self, rows: Sequence[int]) -> None:
        """Let all rows leave but these (in rising order). The others' buffers are not touched."""
        if len(rows) == self.rows:
            return
        index = mx.array(list(rows), dtype=mx.int32)
        self.lengths = [self.lengths[row] for row in rows]
        self.deltas = [self.deltas[row] for row in rows]
        for lane in self.lanes.values():
            kept, groups, first = [], [], 0
            for old, group in enumerate(lane.groups):
                local = [row - group.first for row in rows if group.first <= row < group.first + group.count]
                if not local:
                    continue
                starts = [group.starts[row] for row in local]
                lengths = self.lengths[first : first + len(local)]
                capacity = _shrunk(group.capacity, max(n - s for n, s in zip(lengths, starts, strict=True)))
                kept.append((old, None if len(local) == group.count else mx.array(local), capacity))
                groups.append(Group(first, len(local), capacity, starts))
                first += len(local)
            lane.groups = groups
            for cache in self._attention(lane):
                cache.keep_groups(kept)
        for other in self.flat:
            if not isinstance(other, AttentionCache):
                other.keep(index)

    def _attention(self, lane: Lane) -> Iterator[AttentionCache]:
        for cache in self.flat:
            if isinstance(cache, AttentionCache) and cache.lane is lane:
                yield cache

    # -- memory

    def arrays(self) -> list[mx.array]:
        """All that must be evaluated so that no graph outlives a step."""
        return [array for cache in self.flat for array in cache.arrays()]

    def states(self) -> list[mx.array]:
        """Only the recurrent states: after a decode step, keys and values are evaluated with its tokens."""
        return [array for cache in self.flat if isinstance(cache, StateCache) for array in cache.arrays()]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays())


def _flatten(layer: LayerCache) -> Iterator[LayerCache]:
    if isinstance(layer, CacheGroup):
        for part in layer.parts:
            yield from _flatten(part)
    else:
        yield layer


def _shrunk(capacity: int, need: int) -> int:
    """A group gives memory back when a long row left it and most of its buffer is padding."""
    tight = (need // STEP + 1) * STEP
    return tight if capacity > 4 * tight else capacity
