"""Who comes next, and who gives way: the four scheduling policies. No MLX, no clock.

`order` sorts the rows that wait. `victim` names a running row that should make room for one that waits, if the policy
knows any. `least` is the running row whose loss matters least when memory runs short. `foremost` is the row whose
prompt is read on in every step, whatever else is. Ageing is not here: it is the same for all policies, and the
scheduler's.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from paceline.engine.row import Row

PolicyName = Literal["fifo", "shortest_first", "priority", "fair"]
Holding = Callable[[Row], int]  # what a row takes of the thing that is short: 1 of the rows, or its bytes
OUTPUT_WEIGHT = 2  # a generated token counts as much as this many prompt tokens (as in VTC)
ACCOUNTS = 1000  # of users who are away, that are kept at most if they owe nothing
CREDIT = 4096  # tokens: as far may a user who was away lag behind the others, and be served before them
MARGIN = 256  # tokens: as much less must a user have been served to displace another's row for that alone


class Policy(Protocol):
    name: PolicyName

    def order(self, waiting: Sequence[Row]) -> list[Row]: ...
    def victim(self, row: Row, running: Sequence[Row], holding: Holding) -> Row | None: ...
    def least(self, running: Sequence[Row]) -> Row: ...
    def foremost(self, reading: Sequence[Row]) -> Row: ...
    def arrived(self, row: Row, others: Sequence[Row]) -> None: ...
    def served(self, row: Row, cost: int) -> None: ...


class Fifo:
    """Order of arrival."""

    name: PolicyName = "fifo"

    def order(self, waiting: Sequence[Row]) -> list[Row]:
        return sorted(waiting, key=_arrival)

    def victim(self, row: Row, running: Sequence[Row], holding: Holding) -> Row | None:
        return None

    def least(self, running: Sequence[Row]) -> Row:
        return max(running, key=_arrival)

    def foremost(self, reading: Sequence[Row]) -> Row:
        return reading[0]

    def arrived(self, row: Row, others: Sequence[Row]) -> None: ...

    def served(self, row: Row, cost: int) -> None: ...


class ShortestFirst(Fifo):
    """Fewest prompt tokens to compute first."""

    name: PolicyName = "shortest_first"

    def order(self, waiting: Sequence[Row]) -> list[Row]:
        return sorted(waiting, key=lambda row: (row.uncached, *_arrival(row)))


class Priority(Fifo):
    """Lowest number first, as in vLLM; rows of a higher number give way to it."""

    name: PolicyName = "priority"

    def order(self, waiting: Sequence[Row]) -> list[Row]:
        return sorted(waiting, key=lambda row: (row.priority, *_arrival(row)))

    def victim(self, row: Row, running: Sequence[Row], holding: Holding) -> Row | None:
        least = self.least(running) if running else None
        return least if least is not None and least.priority > row.priority else None

    def least(self, running: Sequence[Row]) -> Row:
        return max(running, key=lambda row: (row.priority, *_arrival(row)))

    def foremost(self, reading: Sequence[Row]) -> Row:
        return min(reading, key=lambda row: row.priority)


class Fair(Fifo):
    """Whoever was served least comes first; whoever holds more, or was served much more, gives way.

    A user's account counts the tokens served. Users who were away start a little below the least served one who is
    there: a short visit is served at once, and absence saves up no more than that.
    """

    name: PolicyName = "fair"

    def __init__(self) -> None:
        self.accounts: dict[str, int] = {}

    def order(self, waiting: Sequence[Row]) -> list[Row]:
        queues: dict[str, deque[Row]] = defaultdict(deque)
        for row in sorted(waiting, key=_arrival):
            queues[row.tenant].append(row)
        heads = [(self.accounts.get(tenant, 0), *_arrival(rows[0]), tenant) for tenant, rows in queues.items()]
        heapq.heapify(heads)
        ordered = []
        while heads:
            account, _, _, tenant = heads[0]
            row = queues[tenant].popleft()
            ordered.append(row)
            if queues[tenant]:
                heapq.heapreplace(heads, (account + row.uncached + 1, *_arrival(queues[tenant][0]), tenant))
            else:
                heapq.heappop(heads)
        return ordered

    def victim(self, row: Row, running: Sequence[Row], holding: Holding) -> Row | None:
        """The latest row of the user who holds most, if its going brings the two users nearer to each other; or of the
        one who was served most, if that is more than `row`'s own user will have been with its prompt."""
        held: dict[str, int] = defaultdict(int)
        for other in running:
            held[other.tenant] += holding(other)
        mine = held.pop(row.tenant, 0)
        if not held:
            return None
        account = self.accounts.get(row.tenant, 0)
        largest = max(held, key=lambda tenant: held[tenant])
        victim = _latest(running, largest)
        nearer = held[largest] - holding(victim) >= mine + holding(row) and held[largest] > mine
        if nearer and account <= self.accounts.get(largest, 0):
            return victim
        richest = max(held, key=lambda tenant: self.accounts.get(tenant, 0))
        if account + row.uncached + MARGIN <= self.accounts.get(richest, 0):
            return _latest(running, richest)
        return None

    def least(self, running: Sequence[Row]) -> Row:
        held: dict[str, int] = defaultdict(int)
        for row in running:
            held[row.tenant] += row.length
        largest = max(held, key=lambda tenant: held[tenant])
        return _latest(running, largest)

    def foremost(self, reading: Sequence[Row]) -> Row:
        return min(reading, key=lambda row: self.accounts.get(row.tenant, 0))

    def arrived(self, row: Row, others: Sequence[Row]) -> None:
        present = {other.tenant for other in others}
        if not present:  # nobody is there to be compared with: old accounts are settled
            self.accounts = {row.tenant: 0}
        elif row.tenant not in present:
            floor = min(self.accounts.get(tenant, 0) for tenant in present) - CREDIT
            self.accounts[row.tenant] = max(self.accounts.get(row.tenant, 0), floor)
            if len(self.accounts) > ACCOUNTS + 2 * len(present):  # of those that are away, only debts need be known
                debts = ((name, account) for name, account in self.accounts.items() if account > floor)
                self.accounts = {**dict(debts), **{name: self.accounts.get(name, 0) for name in present | {row.tenant}}}

    def served(self, row: Row, cost: int) -> None:
        self.accounts[row.tenant] = self.accounts.get(row.tenant, 0) + cost


POLICIES: dict[PolicyName, Callable[[], Policy]] = {
    "fifo": Fifo,
    "shortest_first": ShortestFirst,
    "priority": Priority,
    "fair": Fair,
}


def _arrival(row: Row) -> tuple[float, int]:
    return row.arrived, row.number


def _latest(rows: Sequence[Row], tenant: str) -> Row:
    return max((row for row in rows if row.tenant == tenant), key=_arrival)
