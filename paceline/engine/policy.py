"""Who runs next, and who is preempted: the four scheduling policies. No MLX, no clock.

`order` sorts the waiting sequences. `preemption_candidate` names a running sequence that a waiting one may displace, if
there is one. `lowest` is the running sequence to preempt when memory runs out. `first_to_prefill` is the sequence whose
prefill progresses in every step. Starvation is the scheduler's business, the same for all policies.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Set
from typing import Literal, Protocol

from paceline.engine.sequence import Sequence

PolicyName = Literal["fifo", "shortest_first", "priority", "fair"]
Holding = Callable[[Sequence], int]  # what a sequence takes of the scarce resource: 1 slot, or its bytes
OUTPUT_WEIGHT = 2  # a generated token counts as this many prompt tokens (as in VTC)
ACCOUNTS = 1000  # accounts kept of absent users without debts
CREDIT = 4096  # tokens: a returning user starts so far below the least served
MARGIN = 256  # tokens: a user must have been served this much less to displace another's sequence for that alone


class Policy(Protocol):
    name: PolicyName

    def order(self, waiting: Collection[Sequence]) -> list[Sequence]: ...
    def preemption_candidate(
        self, seq: Sequence, running: Collection[Sequence], holding: Holding
    ) -> Sequence | None: ...
    def lowest(self, running: Collection[Sequence]) -> Sequence: ...
    def first_to_prefill(self, reading: Collection[Sequence]) -> Sequence: ...
    def arrived(self, seq: Sequence, others: Collection[Sequence]) -> None: ...
    def served(self, seq: Sequence, cost: int) -> None: ...


class Fifo:
    """Order of arrival."""

    name: PolicyName = "fifo"

    def order(self, waiting: Collection[Sequence]) -> list[Sequence]:
        return sorted(waiting, key=_arrival)

    def preemption_candidate(self, seq: Sequence, running: Collection[Sequence], holding: Holding) -> Sequence | None:
        return None

    def lowest(self, running: Collection[Sequence]) -> Sequence:
        return max(running, key=_arrival)

    def first_to_prefill(self, reading: Collection[Sequence]) -> Sequence:
        return next(iter(reading))

    def arrived(self, seq: Sequence, others: Collection[Sequence]) -> None: ...

    def served(self, seq: Sequence, cost: int) -> None: ...


class ShortestFirst(Fifo):
    """Fewest prompt tokens to compute first."""

    name: PolicyName = "shortest_first"

    def order(self, waiting: Collection[Sequence]) -> list[Sequence]:
        return sorted(waiting, key=lambda seq: (seq.queue.uncached_tokens, *_arrival(seq)))


class Priority(Fifo):
    """Lowest number first, as in vLLM; it displaces sequences of a higher number."""

    name: PolicyName = "priority"

    def order(self, waiting: Collection[Sequence]) -> list[Sequence]:
        return sorted(waiting, key=lambda seq: (seq.request.priority, *_arrival(seq)))

    def preemption_candidate(self, seq: Sequence, running: Collection[Sequence], holding: Holding) -> Sequence | None:
        lowest = self.lowest(running) if running else None
        return lowest if lowest is not None and lowest.request.priority > seq.request.priority else None

    def lowest(self, running: Collection[Sequence]) -> Sequence:
        return max(running, key=lambda seq: (seq.request.priority, *_arrival(seq)))

    def first_to_prefill(self, reading: Collection[Sequence]) -> Sequence:
        return min(reading, key=lambda seq: seq.request.priority)


class Accounts(dict[str, int]):
    """Tokens served per name; unknown names have none.

    A newcomer starts `CREDIT` below the least served who is present: a short visit is served at once, and absence saves
    up no more than that. It never starts below an earlier newcomer, or the last of many would come first.
    """

    def __init__(self) -> None:
        self.floor = 0  # where the last newcomer started

    def __missing__(self, name: str) -> int:
        return 0

    def arrived(self, name: str, present: Set[str]) -> None:
        if not present:  # nobody is present to compare with: accounts start over
            self.clear()
            self.floor = self[name] = 0
        elif name not in present:
            self.floor = max(self.floor, min(self[other] for other in present) - CREDIT)
            self[name] = max(self[name], self.floor)
            if len(self) > ACCOUNTS + 2 * len(present):  # of absent users only debts matter
                for other in [other for other in self if self[other] <= self.floor and other not in present]:
                    if other != name:
                        del self[other]


class Fair(Fifo):
    """The least served comes first; who holds more, or was served much more, is displaced.

    A tenant may be divided, as in "client/user": `accounts` are per client, and users are compared only within one
    client. So a client that divides itself gets no larger share.
    """

    name: PolicyName = "fair"

    def __init__(self) -> None:
        self.accounts = Accounts()
        self.members: dict[str, Accounts] = {}  # accounts of the users within each divided tenant

    def order(self, waiting: Collection[Sequence]) -> list[Sequence]:
        seqs = sorted(waiting, key=_arrival)
        if self.members:
            seqs = _in_turn(seqs, _member, self._member_account)
        return _in_turn(seqs, _group, self._account)

    def preemption_candidate(self, seq: Sequence, running: Collection[Sequence], holding: Holding) -> Sequence | None:
        """A sequence of another tenant; if there is none, one of another user of the same tenant."""
        others = _candidate(seq, running, holding, _group, self._account)
        if others is not None or not self.members:
            return others
        siblings = [other for other in running if _group(other) == _group(seq)]
        return _candidate(seq, siblings, holding, _member, self._member_account)

    def lowest(self, running: Collection[Sequence]) -> Sequence:
        seqs = running
        for name in (_group, _member):
            held = _held(seqs, name, lambda seq: seq.length)
            largest = max(held, key=lambda tenant: held[tenant])
            seqs = [seq for seq in seqs if name(seq) == largest]
        return max(seqs, key=_arrival)

    def first_to_prefill(self, reading: Collection[Sequence]) -> Sequence:
        return min(reading, key=lambda seq: (self._account(seq), self._member_account(seq)))

    def arrived(self, seq: Sequence, others: Collection[Sequence]) -> None:
        group, present = _group(seq), {_group(other) for other in others}
        self.accounts.arrived(group, present)
        if group not in present:
            self.members = {name: self.members[name] for name in present if name in self.members}
        if _member(seq) != group or group in self.members:
            names = {_member(other) for other in others if _group(other) == group}
            self.members.setdefault(group, Accounts()).arrived(_member(seq), names)

    def served(self, seq: Sequence, cost: int) -> None:
        self.accounts[_group(seq)] += cost
        if _group(seq) in self.members:
            self.members[_group(seq)][_member(seq)] += cost

    def _account(self, seq: Sequence) -> int:
        return self.accounts[_group(seq)]

    def _member_account(self, seq: Sequence) -> int:
        members = self.members.get(_group(seq))
        return 0 if members is None else members[_member(seq)]


POLICIES: dict[PolicyName, Callable[[], Policy]] = {
    "fifo": Fifo,
    "shortest_first": ShortestFirst,
    "priority": Priority,
    "fair": Fair,
}


def _arrival(seq: Sequence) -> tuple[float, int]:
    return seq.queue.arrived, seq.number


def _group(seq: Sequence) -> str:
    return seq.request.tenant.partition("/")[0]


def _member(seq: Sequence) -> str:
    return seq.request.tenant


Name = Callable[[Sequence], str]  # the level at which sequences are compared
Account = Callable[[Sequence], int]


def _in_turn(seqs: Collection[Sequence], name: Name, account: Account) -> list[Sequence]:
    """Round-robin by account: the least served name first, each weighed with what its earlier sequences will cost.
    Within a name the order stays."""
    queues: dict[str, deque[Sequence]] = defaultdict(deque)
    for seq in seqs:
        queues[name(seq)].append(seq)
    heads = [(account(queue[0]), *_arrival(queue[0]), key) for key, queue in queues.items()]
    heapq.heapify(heads)
    ordered = []
    while heads:
        served, _, _, key = heads[0]
        seq = queues[key].popleft()
        ordered.append(seq)
        if queues[key]:
            heapq.heapreplace(heads, (served + seq.queue.uncached_tokens + 1, *_arrival(queues[key][0]), key))
        else:
            heapq.heappop(heads)
    return ordered


def _held(seqs: Collection[Sequence], name: Name, holding: Holding) -> dict[str, int]:
    held: dict[str, int] = defaultdict(int)
    for seq in seqs:
        held[name(seq)] += holding(seq)
    return held


def _candidate(
    seq: Sequence, running: Collection[Sequence], holding: Holding, name: Name, account: Account
) -> Sequence | None:
    """The latest sequence of the largest holder, if displacing it makes the two more equal; or of the most served, if
    that is more than `seq`'s own account will be with its prompt."""
    held = _held(running, name, holding)
    mine = held.pop(name(seq), 0)
    if not held:
        return None
    latest = {name(other): other for other in sorted(running, key=_arrival)}
    largest = max(held, key=lambda tenant: held[tenant])
    preemption_candidate = latest[largest]
    nearer = held[largest] - holding(preemption_candidate) >= mine + holding(seq) and held[largest] > mine
    if nearer and account(seq) <= account(preemption_candidate):
        return preemption_candidate
    richest = latest[max(held, key=lambda tenant: account(latest[tenant]))]
    return richest if account(seq) + seq.queue.uncached_tokens + MARGIN <= account(richest) else None
