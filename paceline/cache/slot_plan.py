"""Which slots of which buffer each token takes: rows in groups, groups in buffers, buffers that grow. No MLX.

A group is a contiguous run of rows whose keys and values share one padded buffer. `Grouping` says which rows share one;
it is chosen by measurement, per device. `SlotPlan` plans the slots of all attention layers that have the same window.

Contract: a slot plan holds integers only; the layers that follow it hold arrays only. `reserve` decides growth and
dropping for the coming step and returns what every layer has to do to its buffers, so that the layers of a plan can
never disagree. Slot j of a row holds the token at position `starts[row] + j`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from paceline.cache.shape_buckets import EXACT, ShapeBuckets

SMALL = 512  # rows below this many tokens always fit together: their padding costs less than a launch
STEP = 256  # slots a buffer grows by
MARGIN = 16  # tokens kept beyond a window so that a rejected draft can be rolled back


@dataclass(frozen=True, slots=True)
class Grouping:
    """`skew` bounds longest / shortest inside one group. 0: one row a group; inf: all rows together.

    `buckets`: the sizes that groups, buffers and prefill passes are padded to.
    """

    skew: float
    buckets: ShapeBuckets = EXACT

    def accepts(self, group: list[int], length: int) -> bool:
        """May a row of `length` tokens join a group whose rows have these lengths?"""
        if self.skew == 0:
            return False
        low, high = min(*group, length), max(*group, length)
        return high <= SMALL or high <= self.skew * max(low, 1)


ROWS = Grouping(0)  # no padding, one attention call a row: wins on CPU
SIMILAR = Grouping(2.0)  # bounds the padding when lengths differ
PADDED = Grouping(float("inf"))  # fewest launches: wins on a fast GPU with rows of similar length

LAYOUTS = {"rows": ROWS, "similar": SIMILAR, "padded": PADDED}
NAMES = {grouping.skew: name for name, grouping in LAYOUTS.items()}

# What "auto" tries on each device, best first, by `python -m benchmarks layout` (docs/benchmarks.md).
# Metal: not run by us.
AUTO = {"cpu": (SIMILAR, PADDED), "cuda": (PADDED, SIMILAR), "metal": (SIMILAR, PADDED)}


def capacity(window: int | None, need: int, buckets: ShapeBuckets = EXACT) -> int:
    """Slots of a buffer that must hold `need` tokens.

    A window's buffer gets its final size as soon as growing step by step would bring it near that: so what a row holds
    depends on its length, and hardly on its history.
    """
    if window is not None:
        full = _round_up(window + MARGIN + STEP, STEP)  # room for STEP tokens before the next shift
        size = buckets.capacity(need, STEP) or _round_up(need, STEP)
        if need > full:
            return size
        return min(size, full) if need <= full - 2 * STEP else full
    grain = STEP if need < 8 * STEP else max(STEP, need // 8 // STEP * STEP)
    return buckets.capacity(need, STEP) or _round_up(need, grain)


def _round_up(need: int, grain: int) -> int:
    return (need + grain - 1) // grain * grain


@dataclass(slots=True)
class Group:
    """Rows [first, first + count) of the batch, padding rows among them; `capacity` slots each."""

    first: int
    count: int
    capacity: int
    starts: list[int]

    @property
    def rows(self) -> slice:
        return slice(self.first, self.first + self.count)

    def ends(self, lengths: list[int]) -> list[int]:
        """For each row of the group, the slot of its next token; `lengths` are those of the whole batch."""
        return [n - start for n, start in zip(lengths[self.rows], self.starts, strict=True)]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a row went: its index in the batch, and the group it shares (None: one of its own).

    `added`: the rows that were inserted there, the new one and padding behind it; 0: it took the place of padding.
    """

    row: int
    group: int | None
    added: int = 1

    def put(self, values: list[Any], new: Any, blank: Any) -> None:
        """Put `new` at the row's place into a list by row, and `blank` at that of padding."""
        values[self.row : self.row + (0 if self.added else 1)] = [new, *[blank] * (self.added - 1)]


@dataclass(frozen=True, slots=True)
class GroupPlacement:
    """The same in one slot plan: the group's index, the row's index in it, the rows added, the group's capacity."""

    group: int
    row: int
    added: int
    capacity: int

    @property
    def is_new(self) -> bool:
        """The row has a group of its own."""
        return self.row == 0 and self.added > 0


@dataclass(frozen=True, slots=True)
class Change:
    """What every layer of the plan does to a group's buffer before the step: drop slots, then take this capacity."""

    group: int
    drop: list[int] | None
    capacity: int


@dataclass(slots=True)
class SlotPlan:
    window: int | None
    groups: list[Group] = field(default_factory=list)
    buckets: ShapeBuckets = EXACT

    def reserve(self, lengths: list[int], width: int) -> list[Change]:
        """Make room for `width` more tokens in every row. Called before a step; the step then only writes."""
        changes = []
        for index, group in enumerate(self.groups):
            need = max(group.ends(lengths)) + width
            if need <= group.capacity:
                continue
            drop = self._droppable(group, lengths)
            if drop is not None:
                group.starts = [start + d for start, d in zip(group.starts, drop, strict=True)]
                need = max(group.ends(lengths)) + width
            if need > group.capacity or drop is not None:
                group.capacity = self.capacity(need)
            changes.append(Change(index, drop, group.capacity))
        return changes

    def trim(self, lengths: list[int]) -> list[Change]:
        """Free the slots that are no longer needed: wide steps leave many in a window, and padding beyond a prompt."""
        changes = []
        for index, group in enumerate(self.groups):
            drop = self._droppable(group, lengths)
            starts = group.starts
            if drop is not None:
                starts = [start + d for start, d in zip(starts, drop, strict=True)]
            used = max(n - start for n, start in zip(lengths[group.rows], starts, strict=True))
            tight = self.capacity(used + 1)
            if tight < group.capacity:
                group.starts, group.capacity = starts, tight
                changes.append(Change(index, drop, tight))
        return changes

    def _droppable(self, group: Group, lengths: list[int]) -> list[int] | None:
        if self.window is None:
            return None
        drop = [max(0, end - (self.window - 1 + MARGIN)) for end in group.ends(lengths)]
        return drop if any(drop) else None

    def capacity(self, need: int) -> int:
        """Slots of a buffer that must hold `need` tokens."""
        return capacity(self.window, need, self.buckets)

    def view(self, group: Group, lengths: list[int], width: int) -> tuple[int, int]:
        """The slots [low, high) that a step of `width` tokens can attend to, over all rows of the group."""
        ends = group.ends(lengths)
        low = 0 if self.window is None else min(max(end - self.window + 1, 0) for end in ends)
        return low, max(ends) + width
