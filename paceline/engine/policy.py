"""Who comes next, and who gives way: the four scheduling policies. No MLX, no clock.

`order` sorts the rows that wait. `victim` names a running row that should make room for one that waits, if the policy
knows any. `least` is the running row whose loss matters least when memory runs short. `foremost` is the row whose
prompt is read on in every step, whatever else is. Ageing is not here: it is the same for all policies, and the
scheduler's.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence, Set
from typing import Literal, Protocol

from paceline.engine.row import Row

PolicyName = Literal["fifo", "shortest_first", "priority", "fair"]
Holding = Callable[[Row], int]  # what a row takes of the thing that is short: 1 of the rows, or its bytes
OUTPUT_WEIGHT = 2  # a generated token counts as much as this many prompt tokens (as in VTC)
ACCOUNTS = 1000  # of users who are away, that are kept at most if they owe nothing
CREDIT = 4096  # tokens: a user who was away starts so far below the least served, and is served before them
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


class Accounts(dict[str, int]):
    """The tokens served to each name; a name that is not known has none.

    A newcomer starts `CREDIT` below the least served who is there, so that a short visit is served at once and absence
    saves up no more than that. It never starts below an earlier newcomer: the last of many would come first.
    """

    def __init__(self) -> None:
        self.floor = 0  # where the last newcomer started

    def __missing__(self, name: str) -> int:
        return 0

    def arrived(self, name: str, present: Set[str]) -> None:
        if not present:  # nobody is there to be compared with: old accounts are settled
            self.clear()
            self.floor = self[name] = 0
        elif name not in present:
            self.floor = max(self.floor, min(self[other] for other in present) - CREDIT)
            self[name] = max(self[name], self.floor)
            if len(self) > ACCOUNTS + 2 * len(present):  # of those that are away, only debts need be known
                for other in [other for other in self if self[other] <= self.floor and other not in present]:
                    if other != name:
                        del self[other]


class Fair(Fifo):
    """Whoever was served least comes first; whoever holds more, or was served much more, gives way.

    A tenant may be divided, as in "client/user": `accounts` are those of the part before the slash, and only rows of
    the same one are compared by the whole name. So a client that divides itself gets no larger share for it.
    """

    name: PolicyName = "fair"

    def __init__(self) -> None:
        self.accounts = Accounts()
        self.members: dict[str, Accounts] = {}  # of each tenant that is divided, those of the names in it

    def order(self, waiting: Sequence[Row]) -> list[Row]:
        rows = sorted(waiting, key=_arrival)
        if self.members:
            rows = _in_turn(rows, _member, self._member_account)
        return _in_turn(rows, _group, self._account)

    def victim(self, row: Row, running: Sequence[Row], holding: Holding) -> Row | None:
        """A row of another tenant; where none should give way, one of another name of the same tenant."""
        others = _victim(row, running, holding, _group, self._account)
        if others is not None or not self.members:
            return others
        siblings = [other for other in running if _group(other) == _group(row)]
        return _victim(row, siblings, holding, _member, self._member_account)

    def least(self, running: Sequence[Row]) -> Row:
        rows = running
        for name in (_group, _member):
            held = _held(rows, name, lambda row: row.length)
            largest = max(held, key=lambda tenant: held[tenant])
            rows = [row for row in rows if name(row) == largest]
        return max(rows, key=_arrival)

    def foremost(self, reading: Sequence[Row]) -> Row:
        return min(reading, key=lambda row: (self._account(row), self._member_account(row)))

    def arrived(self, row: Row, others: Sequence[Row]) -> None:
        group, present = _group(row), {_group(other) for other in others}
        self.accounts.arrived(group, present)
        if group not in present:
            self.members = {name: self.members[name] for name in present if name in self.members}
        if _member(row) != group or group in self.members:
            names = {_member(other) for other in others if _group(other) == group}
            self.members.setdefault(group, Accounts()).arrived(_member(row), names)

    def served(self, row: Row, cost: int) -> None:
        self.accounts[_group(row)] += cost
        if _group(row) in self.members:
            self.members[_group(row)][_member(row)] += cost

    def _account(self, row: Row) -> int:
        return self.accounts[_group(row)]

    def _member_account(self, row: Row) -> int:
        members = self.members.get(_group(row))
        return 0 if members is None else members[_member(row)]


POLICIES: dict[PolicyName, Callable[[], Policy]] = {
    "fifo": Fifo,
    "shortest_first": ShortestFirst,
    "priority": Priority,
    "fair": Fair,
}


def _arrival(row: Row) -> tuple[float, int]:
    return row.arrived, row.number


def _group(row: Row) -> str:
    return row.tenant.partition("/")[0]


def _member(row: Row) -> str:
    return row.tenant


Name = Callable[[Row], str]  # the level at which rows are compared
Account = Callable[[Row], int]


def _in_turn(rows: Sequence[Row], name: Name, account: Account) -> list[Row]:
    """Those served least first, each with what its rows before this one will cost; the rows of one name as they are."""
    queues: dict[str, deque[Row]] = defaultdict(deque)
    for row in rows:
        queues[name(row)].append(row)
    heads = [(account(queue[0]), *_arrival(queue[0]), key) for key, queue in queues.items()]
    heapq.heapify(heads)
    ordered = []
    while heads:
        served, _, _, key = heads[0]
        row = queues[key].popleft()
        ordered.append(row)
        if queues[key]:
            heapq.heapreplace(heads, (served + row.uncached + 1, *_arrival(queues[key][0]), key))
        else:
            heapq.heappop(heads)
    return ordered


def _held(rows: Sequence[Row], name: Name, holding: Holding) -> dict[str, int]:
    held: dict[str, int] = defaultdict(int)
    for row in rows:
        held[name(row)] += holding(row)
    return held


def _victim(row: Row, running: Sequence[Row], holding: Holding, name: Name, account: Account) -> Row | None:
    """The latest row of whoever holds most, if its going brings the two nearer to each other; or of whoever was served
    most, if that is more than `row`'s own account will be with its prompt."""
    held = _held(running, name, holding)
    mine = held.pop(name(row), 0)
    if not held:
        return None
    latest = {name(other): other for other in sorted(running, key=_arrival)}
    largest = max(held, key=lambda tenant: held[tenant])
    victim = latest[largest]
    nearer = held[largest] - holding(victim) >= mine + holding(row) and held[largest] > mine
    if nearer and account(row) <= account(victim):
        return victim
    richest = latest[max(held, key=lambda tenant: account(latest[tenant]))]
    return richest if account(row) + row.uncached + MARGIN <= account(richest) else None
