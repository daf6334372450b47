"""A lane plans the slots of all attention layers that have the same window: which tokens each buffer still holds.

Contract: a lane holds integers only; the layers that follow it hold arrays only. `reserve` decides growth and
dropping for the coming step and returns what every layer has to do to its buffers, so that the layers of a lane can
never disagree. Slot j of a row holds the token at position `starts[row] + j`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import mlx.core as mx

from paceline.cache.slots import MARGIN, capacity


@dataclass(slots=True)
class Group:
    """Rows [first, first + count) of the batch; `capacity` slots each."""

    first: int
    count: int
    capacity: int
    starts: list[int]


@dataclass(frozen=True, slots=True)
class Change:
    """What every layer of the lane does to a group's buffer before the step: drop slots, then take this capacity."""

    group: int
    drop: list[int] | None
    capacity: int


@dataclass(slots=True)
class Lane:
    window: int | None
    groups: list[Group] = field(default_factory=list)

    def reserve(self, lengths: list[int], width: int) -> list[Change]:
        """Make room for `width` more tokens in every row. Called before a step; the step then only writes."""
        changes = []
        for index, group in enumerate(self.groups):
            rows = lengths[group.first : group.first + group.count]
            need = max(n - s for n, s in zip(rows, group.starts, strict=True)) + width
            if need <= group.capacity:
                continue
            drop = self._droppable(group, rows)
            if drop is not None:
                group.starts = [s + d for s, d in zip(group.starts, drop, strict=True)]
                need = max(n - s for n, s in zip(rows, group.starts, strict=True)) + width
            if need > group.capacity or drop is not None:
                group.capacity = self.capacity(need)
            changes.append(Change(index, drop, group.capacity))
        return changes

    def trim(self, lengths: list[int]) -> list[Change]:
        """Give back what a window holds beyond its reach: wide steps leave much, narrow ones take long to drop it."""
        changes = []
        for index, group in enumerate(self.groups):
            rows = lengths[group.first : group.first + group.count]
            drop = self._droppable(group, rows)
            if drop is not None:
                starts = [s + d for s, d in zip(group.starts, drop, strict=True)]
                tight = self.capacity(max(n - s for n, s in zip(rows, starts, strict=True)) + 1)
                if tight < group.capacity:
                    group.starts, group.capacity = starts, tight
                    changes.append(Change(index, drop, tight))
        return changes

    def _droppable(self, group: Group, rows: list[int]) -> list[int] | None:
        if self.window is None:
            return None
        keep = self.window - 1 + MARGIN
        drop = [max(0, n - keep - s) for n, s in zip(rows, group.starts, strict=True)]
        return drop if any(drop) else None

    def capacity(self, need: int) -> int:
        """Slots of a buffer that must hold `need` tokens."""
        return capacity(self.window, need)

    def view(self, group: Group, lengths: list[int], width: int) -> tuple[int, int]:
        """The slots [low, high) that a step of `width` tokens can attend to, over all rows of the group."""
        rows = lengths[group.first : group.first + group.count]
        high = max(n - s for n, s in zip(rows, group.starts, strict=True)) + width
        if self.window is None:
            return 0, high
        low = min(max(n - self.window + 1 - s, 0) for n, s in zip(rows, group.starts, strict=True))
        return low, high

    def mask(self, group: Group, lengths: list[int], width: int) -> mx.array | str | None:
        """Who sees whom, over the slots of `view`; None and "causal" where the attention kernel needs no array."""
        low, high = self.view(group, lengths, width)
        rows = lengths[group.first : group.first + group.count]
        ends = [n - s for n, s in zip(rows, group.starts, strict=True)]
        even = len(set(ends)) == 1
        narrow = self.window is None or high - low <= self.window
        if even and narrow and (width == 1 or ends[0] + width == high):
            return None if width == 1 else "causal"
        return self.array_mask(group, lengths, width)

    def array_mask(self, group: Group, lengths: list[int], width: int) -> mx.array:
        """The same, always as an array (rows, 1, width, slots of `view`)."""
        low, high = self.view(group, lengths, width)
        rows = lengths[group.first : group.first + group.count]
        ends = [n - s for n, s in zip(rows, group.starts, strict=True)]
        slots = mx.arange(low, high)[None, None, None, :]
        queries = (mx.array(ends)[:, None] + mx.arange(width))[:, None, :, None]
        mask = slots <= queries
        if self.window is not None:
            mask = mask & (slots > queries - self.window)
        return mask

    def fixed_mask(self, group: Group, ends: mx.array, width: int) -> mx.array:
        """The same over the whole buffer, from an array of the rows' next slots."""
        slots = mx.arange(group.capacity)[None, None, None, :]
        mine = ends[group.first : group.first + group.count]
        queries = (mine[:, None] + mx.arange(width))[:, None, :, None]
        mask = slots <= queries
        if self.window is not None:
            mask = mask & (slots > queries - self.window)
        return mask
