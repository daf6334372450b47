"""Which rows share a padded buffer. Pure Python: the choice is made by measurement, per device.

A group is a contiguous run of rows whose keys and values lie in one padded array. Two extremes and a middle:
one row a group (no padding, one attention call a row: wins on CPU), all rows in one group (fewest launches: wins
on a fast GPU with rows of similar length), and groups of similar length (bounds the padding when lengths differ).
"""

from __future__ import annotations

from dataclasses import dataclass

SMALL = 512  # rows below this many tokens always fit together: their padding costs less than a launch


@dataclass(frozen=True, slots=True)
class Grouping:
    """`skew` bounds longest / shortest inside one group. 0: one row a group; inf: all rows together."""

    skew: float

    def accepts(self, group: list[int], length: int) -> bool:
        """May a row of `length` tokens join a group whose rows have these lengths?"""
        if self.skew == 0:
            return False
        low, high = min(*group, length), max(*group, length)
        return high <= SMALL or high <= self.skew * max(low, 1)


ROWS = Grouping(0)
SIMILAR = Grouping(2.0)
PADDED = Grouping(float("inf"))

LAYOUTS = {"rows": ROWS, "similar": SIMILAR, "padded": PADDED}
NAMES = {grouping: name for name, grouping in LAYOUTS.items()}

# What "auto" tries on each device, best first, by `python -m benchmarks layout` (docs/benchmarks.md).
# Metal: not run by us.
AUTO = {"cpu": (SIMILAR, PADDED), "cuda": (PADDED, SIMILAR), "metal": (SIMILAR, PADDED)}
