"""A batch of rows: the only place that holds lengths.

A step is `begin(width)`, a forward pass over `layers`, `commit()`. A step whose tokens may be rejected is tentative:
`apply_accepted(kept)` sets on the device how many tokens each row keeps, and `sync_lengths(kept)` tells the host later.
Attention rolls back by length; a state layer applies only the accepted tokens. Until the host is told, `lengths` lag
behind, and only a step of fixed shape can follow: it adds what is `unsynced` on the device.

Rows join from another batch (a row is prefilled in a batch of its own) and leave between any two steps. The position of
a row's next token is its length plus its delta: 0 for plain text, negative after images under M-RoPE.

Where shapes come from buckets (cache/shape_buckets), a batch has padding: rows that are not `active` stay at length 0,
and the next row to join takes the place of one; a prefill pass is wider than its prompts, and row i keeps its first
`valid[i]` tokens. Padding tokens are written past the end of a row, where nothing reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import mlx.core as mx

from paceline.cache.kv_quantization import KVQuantization
from paceline.cache.layers import (
    ApplyAccepted,
    AttentionCache,
    CacheGroup,
    LayerCache,
    RaggedMask,
    StateCache,
    UnsupportedUse,
    attention_mask,
    joined,
    two_sided_mask,
)
from paceline.cache.slot_plan import Change, Group, Grouping, GroupPlacement, Placement, SlotPlan

WHOLE = 8  # tokens of a step that reads quantized buffers whole: products of parts of them would copy those
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


@dataclass(slots=True)
class Step:
    """Per-step values that all layers share, computed once. `ends`: buffers are read whole, and these say how far."""

    width: int
    offset: Any
    active: mx.array  # 0: padding
    tentative: bool = False
    ends: dict[int | None, mx.array] | None = None
    fixed: bool = False  # nothing but shapes may enter the graph
    valid: mx.array | None = None  # tokens of each row that are not padding; None: all
    counts: Sequence[int] | None = None  # the same on the host
    checkpoints: tuple[int, ...] = ()
    masks: dict[tuple[int | None, int], Any] = field(default_factory=dict)
    slots: dict[tuple[int | None, int], Any] = field(default_factory=dict)


class Batch:
    """Rows of one model that step together. `rows` counts them; `lengths` are the committed tokens of each."""

    def __init__(
        self,
        plans: Sequence[LayerPlan],
        grouping: Grouping,
        rows: int = 1,
        *,
        ragged: bool = False,
        kv: KVQuantization | None = None,
    ) -> None:
        self.plans = plans
        self.grouping = grouping
        self.kv = kv  # how keys and values are quantized; None: they are not
        self.lengths = [0] * rows
        self.deltas = [0] * rows
        self.active = [True] * rows  # False: padding
        self.ragged = ragged  # a kernel attends to rows of any length in one buffer, without a mask
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
        # New tokens (width, width) that see each other in the next step whatever their order; for a batch of one row.
        self.two_sided: mx.array | None = None
        # Memory is short: buffers are copied layer by layer (see `evaluate`).
        self.low_memory = False
        self._placed: dict[int | None, GroupPlacement] = {}
        self._step: Step | None = None

    def _layer(self, plan: LayerPlan, rows: int) -> LayerCache:
        if plan.kind == "list":
            return CacheGroup(self, [self._layer(part, rows) for part in plan.parts])
        if plan.kind == "state":
            return StateCache(self, plan.size, plan.apply_accepted, records=plan.records)
        slot_plan = self.slot_plans.get(plan.window)
        if slot_plan is None:
            size = 1 if self.grouping.skew == 0 else rows
            groups = [Group(first, size, 0, [0] * size) for first in range(0, rows, size)]
            slot_plan = self.slot_plans[plan.window] = SlotPlan(plan.window, groups, self.grouping.buckets)
        return AttentionCache(self, slot_plan, self.kv)

    @property
    def rows(self) -> int:
        return len(self.lengths)

    # -- one step

    def begin(
        self,
        width: int,
        positions: Any = None,
        *,
        tentative: bool = False,
        valid: Sequence[int] | None = None,
        checkpoints: tuple[int, ...] = (),
    ) -> None:
        """Open a step of `width` new tokens a row. `positions` overrides the running ones (see models/positions);
        `valid`: how many of its tokens each row keeps, the others are padding. State layers record their state after
        each of these numbers of `checkpoints` tokens, if they can (`can_record`)."""
        if self.unsynced:
            raise RuntimeError("lengths must be synced with the host before a step like this")
        self.reserve(width)
        offset = positions if positions is not None else self._offset()
        ends = None
        if self._attends_ragged or (self.kv is not None and width <= WHOLE and not self._keys_are_seen):
            ends = {window: mx.array(self.ends(plan), dtype=mx.int32) for window, plan in self.slot_plans.items()}
        counts = None if valid is None or all(count == width for count in valid) else list(valid)
        array = None if counts is None else mx.array(counts, dtype=mx.int32)
        flags = self.active_flags
        self._open(Step(width, offset, flags, tentative, ends, valid=array, counts=counts, checkpoints=checkpoints))

    def begin_fixed(
        self,
        width: int,
        offset: mx.array,
        ends: dict[int | None, mx.array],
        active: mx.array,
        *,
        tentative: bool = False,
        valid: mx.array | None = None,
    ) -> None:
        """Open a step whose lengths are arrays and whose buffers are read whole.

        Its graph depends on shapes only, so that it can be traced once and run many times (engine/forward). The
        caller has reserved the room. `ends` has, for each slot plan, the slot that each row writes next.
        """
        self._open(Step(width, offset, active, tentative, ends, fixed=True, valid=valid))

    def _open(self, step: Step) -> None:
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
        """After a prompt was read in wide steps: free the slots that are no longer needed."""
        for slot_plan in self.slot_plans.values():
            for change in slot_plan.trim(self.lengths):
                self._change(slot_plan, change)

    def _change(self, slot_plan: SlotPlan, change: Change) -> None:
        for cache in self._attention(slot_plan):
            cache.change(change)
        if self.low_memory:
            self.evaluate()

    def evaluate(self) -> None:
        """Make the copies now, layer by layer, after the steps under way: together with a step, the old and the new
        buffers of all layers would be in memory at the same time."""
        mx.synchronize()
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
        step = self.step
        self.close()
        self.advance([step.width] * self.rows if step.counts is None else step.counts)

    def close(self) -> None:
        """End the forward pass and commit what it wrote to the layers. The caller updates the lengths."""
        if not self.step.tentative:
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
        counts = zip(self.lengths, kept, self.active, strict=True)
        self.lengths = [length + count if active else 0 for length, count, active in counts]

    def _offset(self) -> int | mx.array:
        positions = self.next_positions
        return positions[0] if len(set(positions)) == 1 else mx.array(positions, dtype=mx.int32)

    @property
    def active_flags(self) -> mx.array:
        """`active` on the device."""
        return _flags(tuple(self.active))

    # -- what the layers ask during a step

    @property
    def step(self) -> Step:
        if self._step is None:
            raise RuntimeError("no step is open: call begin() first")
        return self._step

    @property
    def _attends_ragged(self) -> bool:
        return self.ragged and not self._keys_are_seen

    @property
    def _keys_are_seen(self) -> bool:
        """Scorers and nearby attention (models/adapter) look at keys themselves, and get no more than there are."""
        return self.watch is not None or self.near is not None

    def mask(self, slot_plan: SlotPlan, index: int) -> Any:
        step = self.step
        key = (slot_plan.window, index)
        if key not in step.masks:
            group, width = slot_plan.groups[index], step.width
            if self.two_sided is not None:
                low, high = self.view(slot_plan, index)
                step.masks[key] = two_sided_mask(
                    low, high, group.ends(self.lengths)[0], slot_plan.window, self.two_sided
                )
            elif step.ends is not None:
                ends = step.ends[slot_plan.window][group.rows]
                mask = RaggedMask(ends, group.capacity, width, slot_plan.window)
                step.masks[key] = mask if self._attends_ragged else mask.array()
            else:
                step.masks[key] = attention_mask(slot_plan, group, self.lengths, width)
        return step.masks[key]

    def view(self, slot_plan: SlotPlan, index: int) -> tuple[int, int]:
        if self.step.ends is not None:
            return 0, slot_plan.groups[index].capacity
        return slot_plan.view(slot_plan.groups[index], self.lengths, self.step.width)

    def slots(self, slot_plan: SlotPlan, index: int) -> int | mx.array:
        """Where the step's tokens are written: a slot common to the group's rows, or an index array."""
        step = self.step
        key = (slot_plan.window, index)
        if key not in step.slots:
            group = slot_plan.groups[index]
            if step.fixed:
                assert step.ends is not None
                step.slots[key] = _following(step.ends[slot_plan.window][group.rows], step.width)
            else:
                ends = group.ends(self.lengths)
                even = len(set(ends)) == 1
                step.slots[key] = ends[0] if even else _following(mx.array(ends), step.width)
        slots: int | mx.array = step.slots[key]
        return slots

    def placement(self, slot_plan: SlotPlan) -> GroupPlacement:
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
                self._placed[window] = GroupPlacement(len(slot_plan.groups) - 1, 0, 1, theirs.capacity)
                continue
            group = slot_plan.groups[at.group]
            group.capacity = max(group.capacity, theirs.capacity)
            local = at.row - group.first
            if at.added:
                group.count += at.added
                group.starts += [theirs.starts[0], *[0] * (at.added - 1)]
                for later in slot_plan.groups[at.group + 1 :]:
                    later.first += at.added
            else:
                group.starts[local] = theirs.starts[0]
            self._placed[window] = GroupPlacement(at.group, local, at.added, group.capacity)
        for mine, new in zip(self.flat, other.flat, strict=True):
            mine.join(new, at)
            new.clear()  # or it would hold its buffers until all layers have joined
        if self.low_memory:
            self.evaluate()
        if self.kept is not None:
            self.kept = joined(self.kept, mx.zeros((1,), dtype=self.kept.dtype), at)
        at.put(self.lengths, length, 0)
        at.put(self.deltas, other.deltas[0], 0)
        at.put(self.active, True, False)
        return at

    def _place(self, length: int) -> Placement:
        for slot_plan in self.slot_plans.values():
            for index, group in enumerate(slot_plan.groups):
                rows = range(self.rows)[group.rows]
                if self.grouping.accepts([self.lengths[row] for row in rows if self.active[row]], length):
                    free = next((row for row in rows if not self.active[row]), None)
                    if free is not None:
                        return Placement(free, index, 0)
                    added = self.grouping.buckets.row_count(group.count + 1) - group.count
                    return Placement(group.first + group.count, index, added)
            return Placement(self.rows, None)  # every slot plan has the same groups
        free = next((row for row, active in enumerate(self.active) if not active), None)
        if free is not None:
            return Placement(free, None, 0)
        return Placement(self.rows, None, self.grouping.buckets.row_count(self.rows + 1) - self.rows)

    def keep(self, rows: Sequence[int]) -> list[int | None]:
        """Remove all rows but these (in rising order). Returns, for each row, which it was before; None: padding.

        Rows that leave become padding. A group's buffers are copied only if it takes a smaller bucket.
        """
        kept = set(rows)
        gone = [row for row in range(self.rows) if self.active[row] and row not in kept]
        if not gone:
            return [row if self.active[row] else None for row in range(self.rows)]
        self.active = [active and row in kept for row, active in enumerate(self.active)]
        self.lengths = [length if active else 0 for length, active in zip(self.lengths, self.active, strict=True)]
        self.deltas = [delta if active else 0 for delta, active in zip(self.deltas, self.active, strict=True)]
        order, copied = self._order_without_padding()
        for slot_plan in self.slot_plans.values():
            self._keep_groups(slot_plan, gone)
        if copied:
            index = mx.array([0 if row is None else row for row in order], dtype=mx.int32)
            self.kept = None if self.kept is None else self.kept[index]
            self.lengths = [0 if row is None else self.lengths[row] for row in order]
            self.deltas = [0 if row is None else self.deltas[row] for row in order]
            self.active = [row is not None for row in order]
            for other in self.flat:
                if not isinstance(other, AttentionCache):
                    other.keep(index)
        if self.low_memory:
            self.evaluate()
        return order

    def _order_without_padding(self) -> tuple[list[int | None], bool]:
        """The rows, by their present index, when every group has the bucket of its active rows; and whether that
        changes anything."""
        groups = next(iter(self.slot_plans.values())).groups if self.slot_plans else [Group(0, self.rows, 0, [])]
        order: list[int | None] = []
        copied = False
        for group in groups:
            rows = range(self.rows)[group.rows]
            kept: list[int | None] = [row for row in rows if self.active[row]]
            size = self.grouping.buckets.row_count(len(kept))
            if size < group.count:
                copied = True
                order += kept + [None] * (size - len(kept))
            else:
                order += [row if self.active[row] else None for row in rows]
        return order, copied

    def _keep_groups(self, slot_plan: SlotPlan, gone: Sequence[int]) -> None:
        """Bring a plan's groups, from which these rows have gone, to the buckets of their active rows."""
        kept, groups, first = [], [], 0
        for old, group in enumerate(slot_plan.groups):
            rows = range(self.rows)[group.rows]
            active = [row - group.first for row in rows if self.active[row]]
            if not active:
                continue
            capacity, local = group.capacity, None
            starts = [start if self.active[row] else 0 for row, start in zip(rows, group.starts, strict=True)]
            if any(row in rows for row in gone):  # free what only a longer row needed
                need = max(self.lengths[group.first + row] - starts[row] for row in active)
                capacity = min(capacity, slot_plan.capacity(need + sum(self._unsynced_most) + 1))
                size = self.grouping.buckets.row_count(len(active))
                if size < group.count:
                    padding = size - len(active)
                    starts = [starts[row] for row in active] + [0] * padding
                    local = mx.array(active + [0] * padding)
            kept.append((old, local, capacity))
            groups.append(Group(first, len(starts), capacity, starts))
            first += len(starts)
        slot_plan.groups = groups
        for cache in self._attention(slot_plan):
            cache.keep_groups(kept)

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


@lru_cache(maxsize=256)
def _flags(active: tuple[bool, ...]) -> mx.array:
    """Kept, because on CUDA the first read of an array from Python is a page fault."""
    return mx.array(active, dtype=mx.int32)


def _following(ends: mx.array, width: int) -> mx.array:
    """The slots of `width` tokens from each row's end on, as an index for keys and values."""
    return (ends[:, None] + mx.arange(width))[:, None, :, None]


def _flatten(layer: LayerCache) -> Iterator[LayerCache]:
    if isinstance(layer, CacheGroup):
        for part in layer.parts:
            yield from _flatten(part)
    else:
        yield layer
