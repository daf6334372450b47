"""A batch of rows: the only place that holds lengths.

A step is `begin(width)`, a forward pass over `layers`, `commit()`. A step whose tokens may be rejected is tentative:
`apply_accepted(kept)` sets on the device how many tokens each row keeps, and `sync_lengths(kept)` tells the host later.
Attention rolls back by length; a state layer applies only the accepted tokens. Until the host is told, `lengths` lag
behind, and only a step of fixed shape can follow: it adds what is `unsynced` on the device.

Rows join from another batch (a row is prefilled in a batch of its own) and leave between any two steps. The position of
a row's next token is its length plus its delta: 0 for plain text, negative after images under M-RoPE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import mlx.core as mx

from paceline.cache.layers import (
    ApplyAccepted,
    AttentionCache,
    CacheGroup,
    LayerCache,
    StateCache,
    UnsupportedUse,
    attention_mask,
    causal_mask,
)
from paceline.cache.slot_plan import Change, Group, Grouping, SlotPlan

RollbackPoint = tuple[list[int], list[mx.array], list[int]]  # lengths, and what is not synced


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """What one layer remembers, read off the model's own cache at load."""

    kind: Literal["attention", "state", "list"]
    window: int | None = None  # attention: tokens it looks back, itself included; None: all
    size: int = 0  # state: number of arrays
    apply_accepted: ApplyAccepted | None = None  # state: None, if it cannot be rolled back
    records: bool = False  # state: its layer can record the state after any token of a step
    parts: tuple[LayerPlan, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a row went: its index in the batch, and the group it shares (None: one of its own)."""

    row: int
    group: int | None


@dataclass(slots=True)
class _Step:
    """Per-step values that all layers share, computed once. `ends` is set in a step of fixed shape only."""

    width: int
    offset: Any
    tentative: bool = False
    ends: dict[int | None, mx.array] | None = None
    checkpoints: tuple[int, ...] = ()
    masks: dict[tuple[int | None, int], Any] = field(default_factory=dict)
    slots: dict[tuple[int | None, int], Any] = field(default_factory=dict)


class Batch:
    """Rows of one model that step together. `rows` counts them; `lengths` are the committed tokens of each."""

    def __init__(self, plans: Sequence[LayerPlan], grouping: Grouping, rows: int = 1) -> None:
        self.grouping = grouping
        self.lengths = [0] * rows
        self.deltas = [0] * rows
        self.kept: mx.array | None = None  # tokens that each row keeps of those pending in state layers
        self.unsynced: list[mx.array] = []  # tokens each row kept, step by step, that the host has not read yet
        self._unsynced_most: list[int] = []  # the most that each of these can be
        self.slot_plans: dict[int | None, SlotPlan] = {}
        self.layers: list[LayerCache] = [self._layer(plan, rows) for plan in plans]
        self.flat: list[LayerCache] = [part for layer in self.layers for part in _flatten(layer)]
        # Called with queries, keys and scale of every layer without a window; for a batch of one group (sparse/scorer).
        self.watch: Callable[[mx.array, mx.array, float], None] | None = None
        # How far prompt tokens look back in layers without a window (models/adapter); None: to the start.
        self.near: int | None = None
        # Memory is short: buffers are copied layer by layer (see `evaluate`).
        self.low_memory = False
        self._placed: dict[int | None, tuple[Literal["new", "same"], int, int]] = {}
        self._step: _Step | None = None

    def _layer(self, plan: LayerPlan, rows: int) -> LayerCache:
        if plan.kind == "list":
            return CacheGroup(self, [self._layer(part, rows) for part in plan.parts])
        if plan.kind == "state":
            return StateCache(self, plan.size, plan.apply_accepted, records=plan.records)
        slot_plan = self.slot_plans.get(plan.window)
        if slot_plan is None:
            size = 1 if self.grouping.skew == 0 else rows
            groups = [Group(first, size, 0, [0] * size) for first in range(0, rows, size)]
            slot_plan = self.slot_plans[plan.window] = SlotPlan(plan.window, groups)
        return AttentionCache(self, slot_plan)

    @property
    def rows(self) -> int:
        return len(self.lengths)

    # -- one step

    def begin(
        self, width: int, positions: Any = None, *, tentative: bool = False, checkpoints: tuple[int, ...] = ()
    ) -> None:
        """Open a step of `width` new tokens a row. `positions` overrides the running ones (see models/positions). State
        layers record their state after each of these numbers of `checkpoints` tokens, if they can (`can_record`)."""
        if self.unsynced:
            raise RuntimeError("lengths must be synced with the host before a step like this")
        self.reserve(width)
        offset = positions if positions is not None else self._offset()
        self._open(_Step(width, offset, tentative, checkpoints=checkpoints))

    def begin_fixed(
        self, width: int, offset: mx.array, ends: dict[int | None, mx.array], *, tentative: bool = False
    ) -> None:
        """Open a step whose lengths are arrays and whose buffers are read whole.

        Its graph depends on shapes only, so that it can be traced once and run many times (engine/forward). The
        caller has reserved the room. `ends` has, for each slot plan, the slot that each row writes next.
        """
        self._open(_Step(width, offset, tentative, ends))

    def _open(self, step: _Step) -> None:
        states = [cache for cache in self.flat if isinstance(cache, StateCache)]
        if step.tentative and not all(cache.can_roll_back for cache in states):
            raise UnsupportedUse("a recurrent state cannot be rolled back: all new tokens must be kept")
        self._step = step
        for cache in states:
            cache.begin()

    @property
    def can_record(self) -> bool:
        """Can a checkpoint be cut at any token of the last step?"""
        return all(cache.records for cache in self.flat if isinstance(cache, StateCache))

    def reserve(self, width: int) -> None:
        """Make room for `width` more tokens in every row."""
        for slot_plan in self.slot_plans.values():
            for change in slot_plan.reserve(self.lengths, width + sum(self._unsynced_most)):
                self._change(slot_plan, change)

    def trim(self) -> None:
        """After a prompt was read in wide steps: free the slots that windows no longer need."""
        for slot_plan in self.slot_plans.values():
            for change in slot_plan.trim(self.lengths):
                self._change(slot_plan, change)

    def _change(self, slot_plan: SlotPlan, change: Change) -> None:
        for cache in self._attention(slot_plan):
            cache.change(change)
        if self.low_memory:
            self.evaluate()

    def evaluate(self) -> None:
        """Make the copies now, layer by layer: together with a step, the old and the new buffers of all layers would be
        in memory at the same time."""
        for cache in self.flat:
            mx.eval(list(cache.arrays()))

    def ends(self, slot_plan: SlotPlan) -> list[int]:
        """For each row, the slot that its next token is written to."""
        return [end for group in slot_plan.groups for end in group.ends(self.lengths)]

    @property
    def next_positions(self) -> list[int]:
        """For each row, the position of its next token."""
        return [n + d for n, d in zip(self.lengths, self.deltas, strict=True)]

    def commit(self) -> None:
        """Close a step: every row keeps all of its new tokens."""
        width = self._open_step().width
        self.close()
        self.advance([width] * self.rows)

    def close(self) -> None:
        """End the forward pass and commit what it wrote to the layers. The caller updates the lengths."""
        if not self._open_step().tentative:
            self.kept = None
        for cache in self.flat:
            cache.commit()
        self._step = None

    def recorded(self) -> list[mx.array]:
        """The states at checkpoints inside the last step."""
        states = (cache for cache in self.flat if isinstance(cache, StateCache))
        return [array for cache in states for arrays in cache.recorded.values() for array in arrays]

    def drop(self) -> None:
        """Discard the open step, if there is one."""
        self._step = None

    def apply_accepted(self, kept: mx.array) -> None:
        """After a tentative step was closed, on the device: row i keeps its first `kept[i]` tokens."""
        states = [cache for cache in self.flat if isinstance(cache, StateCache)]
        for cache in states:
            cache.apply_accepted(kept)
        self.kept = kept if any(cache.pending for cache in states) else None

    def advance_on_device(self, kept: mx.array, most: int) -> None:
        """Row i is longer by `kept[i]`, at most `most`; the host does not know the number before `sync_lengths`."""
        self.unsynced.append(kept)
        self._unsynced_most.append(most)

    def rollback_point(self) -> RollbackPoint:
        """The present lengths, for `roll_back`: what is written past them is overwritten later."""
        return self.lengths, list(self.unsynced), list(self._unsynced_most)

    def roll_back(self, point: RollbackPoint) -> None:
        """Back to these lengths. For batches without state layers, which cannot roll back."""
        self.lengths, self.unsynced, self._unsynced_most = point

    def sync_lengths(self, kept: Sequence[int]) -> None:
        """The host has read the oldest `unsynced` numbers."""
        del self.unsynced[0], self._unsynced_most[0]
        self.advance(kept)

    def advance(self, kept: Sequence[int]) -> None:
        """Row i is longer by `kept[i]`."""
        self.lengths = [n + k for n, k in zip(self.lengths, kept, strict=True)]

    def _offset(self) -> int | mx.array:
        positions = self.next_positions
        return positions[0] if len(set(positions)) == 1 else mx.array(positions, dtype=mx.int32)

    def _open_step(self) -> _Step:
        if self._step is None:
            raise RuntimeError("no step is open: call begin() first")
        return self._step

    # -- what the layers ask during a step

    @property
    def offset(self) -> Any:
        return self._open_step().offset

    @property
    def tentative(self) -> bool:
        return self._open_step().tentative

    @property
    def checkpoints(self) -> tuple[int, ...]:
        return self._open_step().checkpoints

    def mask(self, slot_plan: SlotPlan, index: int) -> Any:
        step = self._open_step()
        key = (slot_plan.window, index)
        if key not in step.masks:
            group, width = slot_plan.groups[index], step.width
            if step.ends is not None:
                ends = step.ends[slot_plan.window][group.rows]
                step.masks[key] = causal_mask(0, group.capacity, ends, width, slot_plan.window)
            else:
                step.masks[key] = attention_mask(slot_plan, group, self.lengths, width)
        return step.masks[key]

    def view(self, slot_plan: SlotPlan, index: int) -> tuple[int, int]:
        if self._open_step().ends is not None:
            return 0, slot_plan.groups[index].capacity
        return slot_plan.view(slot_plan.groups[index], self.lengths, self._open_step().width)

    def slots(self, slot_plan: SlotPlan, index: int) -> int | mx.array:
        """Where the step's tokens are written: a slot common to the group's rows, or an index array."""
        step = self._open_step()
        key = (slot_plan.window, index)
        if key not in step.slots:
            group = slot_plan.groups[index]
            if step.ends is not None:
                fixed = step.ends[slot_plan.window][group.rows]
                step.slots[key] = _following(fixed, step.width)
            else:
                ends = group.ends(self.lengths)
                even = len(set(ends)) == 1
                step.slots[key] = ends[0] if even else _following(mx.array(ends), step.width)
        slots: int | mx.array = step.slots[key]
        return slots

    def placement(self, slot_plan: SlotPlan) -> tuple[Literal["new", "same"], int, int]:
        return self._placed[slot_plan.window]

    # -- membership

    def join(self, other: Batch, at: Placement | None = None) -> Placement:
        """Add `other`'s single row (`other` must not be used afterwards); returns where it went.

        `at`: the place that another batch of the same rows has chosen, so that the two stay alike.
        """
        if other.rows != 1:
            raise ValueError("rows join one at a time")
        other.trim()
        length = other.lengths[0]
        at = at or self._place(length)
        for window, slot_plan in self.slot_plans.items():
            theirs = other.slot_plans[window].groups[0]
            if at.group is None:
                slot_plan.groups.append(Group(at.row, 1, theirs.capacity, list(theirs.starts)))
                self._placed[window] = ("new", len(slot_plan.groups) - 1, theirs.capacity)
            else:
                group = slot_plan.groups[at.group]
                group.capacity = max(group.capacity, theirs.capacity)
                group.count += 1
                group.starts.append(theirs.starts[0])
                for later in slot_plan.groups[at.group + 1 :]:
                    later.first += 1
                self._placed[window] = ("same", at.group, group.capacity)
        order = None
        if at.row < self.rows:
            order = mx.array([*range(at.row), self.rows, *range(at.row, self.rows)])
        for mine, new in zip(self.flat, other.flat, strict=True):
            mine.join(new, order)
            new.clear()  # or it would hold its buffers until all layers have joined
        if self.low_memory:
            self.evaluate()
        if self.kept is not None:
            kept = mx.concatenate([self.kept, mx.zeros((1,), dtype=self.kept.dtype)])
            self.kept = kept if order is None else kept[order]
        self.lengths.insert(at.row, length)
        self.deltas.insert(at.row, other.deltas[0])
        return at

    def _place(self, length: int) -> Placement:
        for slot_plan in self.slot_plans.values():
            for index, group in enumerate(slot_plan.groups):
                if self.grouping.accepts(self.lengths[group.rows], length):
                    return Placement(group.first + group.count, index)
            break  # every slot plan has the same groups
        return Placement(self.rows, None)

    def keep(self, rows: Sequence[int]) -> None:
        """Remove all rows but these (in rising order). The buffers of complete groups are not touched."""
        if len(rows) == self.rows:
            return
        index = mx.array(list(rows), dtype=mx.int32)
        if self.kept is not None:
            self.kept = self.kept[index]
        self.lengths = [self.lengths[row] for row in rows]
        self.deltas = [self.deltas[row] for row in rows]
        for slot_plan in self.slot_plans.values():
            kept, groups, first = [], [], 0
            for old, group in enumerate(slot_plan.groups):
                local = [row - group.first for row in rows if group.first <= row < group.first + group.count]
                if not local:
                    continue
                starts = [group.starts[row] for row in local]
                lengths = self.lengths[first : first + len(local)]
                capacity = group.capacity
                if len(local) < group.count:  # it is copied anyway: free what only a longer row needed
                    need = max(n - start for n, start in zip(lengths, starts, strict=True))
                    capacity = min(capacity, slot_plan.capacity(need + sum(self._unsynced_most) + 1))
                kept.append((old, None if len(local) == group.count else mx.array(local), capacity))
                groups.append(Group(first, len(local), capacity, starts))
                first += len(local)
            slot_plan.groups = groups
            for cache in self._attention(slot_plan):
                cache.keep_groups(kept)
        for other in self.flat:
            if not isinstance(other, AttentionCache):
                other.keep(index)
        if self.low_memory:
            self.evaluate()

    def _attention(self, slot_plan: SlotPlan) -> Iterator[AttentionCache]:
        for cache in self.flat:
            if isinstance(cache, AttentionCache) and cache.slot_plan is slot_plan:
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


def _following(ends: mx.array, width: int) -> mx.array:
    """The slots of `width` tokens from each row's end on, as an index for keys and values."""
    return (ends[:, None] + mx.arange(width))[:, None, :, None]


def _flatten(layer: LayerCache) -> Iterator[LayerCache]:
    if isinstance(layer, CacheGroup):
        for part in layer.parts:
            yield from _flatten(part)
    else:
        yield layer
