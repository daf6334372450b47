"""Who rides in the next step. Plain Python: no MLX, no clock, no threads; tested by stepping it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from paceline.engine.depth import Depths
from paceline.engine.row import Row


@dataclass(frozen=True, slots=True)
class Chunk:
    row: Row
    tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Decode rows are never skipped for prefill; prefill takes the step's token budget; one picture a step."""

    decode: tuple[Row, ...] = ()
    depth: int = 0  # draft tokens of the row that has most; each row's own is `row.depth`
    prefill: tuple[Chunk, ...] = ()
    encode: Row | None = None

    @property
    def empty(self) -> bool:
        return not (self.decode or self.prefill or self.encode)


class Scheduler:
    """`running` rows hold memory and ride; `waiting` rows hold none and enter in order of arrival."""

    def __init__(self, max_rows: int, prefill_budget: int, depths: Depths | None = None) -> None:
        self.max_rows = max_rows
        self.depths = depths or Depths()
        self.prefill_budget = prefill_budget
        self.waiting: deque[Row] = deque()
        self.running: list[Row] = []
        self.on_enter: Callable[[Row], None] = lambda row: None  # called once for each row that begins to run

    def add(self, row: Row) -> None:
        self.waiting.append(row)

    def remove(self, row: Row) -> None:
        """The row has ended, whatever it was doing."""
        if row in self.running:
            self.running.remove(row)
        elif row in self.waiting:
            self.waiting.remove(row)

    def plan(self) -> Plan:
        while self.waiting and len(self.running) < self.max_rows:
            row = self.waiting.popleft()
            self.running.append(row)
            self.on_enter(row)
        decode = tuple(row for row in self.running if row.decodes)
        encode = next((row for row in self.running if row.images_left and not row.held), None)
        return Plan(decode, self.depths.choose(decode), self._prefill(), encode)

    def _prefill(self) -> tuple[Chunk, ...]:
        """The oldest prompt gets at least half the budget, so that it always moves; the rest goes to the shortest
        remainders, so that a short prompt does not wait for a long one's many chunks."""
        rows = [
            row
            for row in self.running
            if row.remaining and not row.images_left and not row.held and row.finished is None
        ]
        if not rows:
            return ()
        grants: dict[int, int] = {}
        budget = self.prefill_budget
        oldest = rows[0]
        grants[id(oldest)] = min(oldest.remaining, (budget + 1) // 2)
        budget -= grants[id(oldest)]
        for row in sorted(rows, key=lambda row: row.remaining):
            more = min(row.remaining - grants.get(id(row), 0), budget)
            if more > 0:
                grants[id(row)] = grants.get(id(row), 0) + more
                budget -= more
        return tuple(Chunk(row, grants[id(row)]) for row in rows if id(row) in grants)
