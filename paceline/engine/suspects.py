"""Which row broke a step. Plain Python; tested by telling it what failed.

A failed step is tried again without its newest members; if that does not help, its rows are tried in halves. One
group is on trial at a time, beside the rows that are cleared and that have had a good step without any suspect since
the last failure; a group whose step succeeds is cleared, one whose step fails is halved, and a row that fails twice as
the only one on trial is the culprit. A fault that does not come back clears everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.engine.row import Row


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do after a failed step: these rows leave the batch until they are tried again; this one is to blame."""

    apart: tuple[Row, ...] = ()
    culprit: Row | None = None


class Suspects:
    def __init__(self) -> None:
        self._groups: list[list[Row]] = []  # the first is on trial, the others wait
        self._clearing: list[Row] = []  # must have a step without any suspect before the trial
        self._retrying: list[Row] = []  # the same rows once more
        self._blamed: Row | None = None  # has failed once as the only one on trial

    @property
    def active(self) -> bool:
        """Is a fault being looked into? Then every step must be read before the next."""
        return bool(self._groups or self._retrying)

    @property
    def trial(self) -> list[Row]:
        return self._groups[0] if self._groups else []

    def may_ride(self, row: Row) -> bool:
        waiting = self._groups if self._clearing else self._groups[1:]
        return not any(row in group for group in waiting)

    def is_suspect(self, row: Row) -> bool:
        return any(row in group for group in self._groups)

    def succeeded(self, rows: Sequence[Row]) -> None:
        """A step with these rows went well."""
        self._retrying, self._clearing = [], []
        for row in rows:
            row.proven = True
        if self._groups:
            if self._blamed in rows:
                self._blamed = None
            self._groups[0] = [row for row in self._groups[0] if row.finished is None and row not in rows]
            self._drop_empty()

    def failed(self, rows: Sequence[Row]) -> Verdict:
        """A step with these rows failed."""
        rows = [row for row in rows if row.finished is None]
        if not rows:
            return Verdict()
        self._clearing = []
        tried = [row for row in self.trial if row in rows]
        if len(tried) == 1:
            return self._blame(tried[0], rows)
        if tried:
            return self._apart(_halves(tried), rows)
        newest = [row for row in rows if not row.proven]
        if 0 < len(newest) < len(rows):
            return self._apart([newest], rows)
        if not self._retrying:
            self._retrying = rows
            self._clearing = [row for row in rows if not self.is_suspect(row)]
            return Verdict()
        self._retrying = []
        if len(rows) == 1:
            return Verdict(culprit=rows[0])
        return self._apart(_halves(rows), rows)

    def _blame(self, row: Row, rows: Sequence[Row]) -> Verdict:
        if self._blamed is row:
            self.gone(row)
            return Verdict(culprit=row)
        self._blamed = row
        return self._apart([[row]], rows)

    def _apart(self, groups: list[list[Row]], rows: Sequence[Row]) -> Verdict:
        """Try these groups next, one after another; but first, those that are no suspects must do without them."""
        new = [row for group in groups for row in group]
        others = [[row for row in group if row not in new] for group in self._groups]
        self._groups = [*groups, *others]
        self._drop_empty()
        self._retrying = []
        self._clearing = [row for row in rows if not self.is_suspect(row)]
        return Verdict(tuple(row for group in self._groups for row in group))

    def gone(self, row: Row) -> None:
        """The row has ended."""
        self._blamed = None if self._blamed is row else self._blamed
        self._clearing = [other for other in self._clearing if other is not row]
        self._retrying = [other for other in self._retrying if other is not row]
        if self._groups:
            self._groups = [[other for other in group if other is not row] for group in self._groups]
            self._drop_empty()

    def _drop_empty(self) -> None:
        self._groups = [group for group in self._groups if group]


def _halves(rows: Sequence[Row]) -> list[list[Row]]:
    middle = (len(rows) + 1) // 2
    return [list(rows[:middle]), list(rows[middle:])]
