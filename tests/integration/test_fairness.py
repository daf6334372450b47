"""A short visit beside a user who has sent far more than fits: who gives way, whose prompt is read, for how long."""

from __future__ import annotations

import itertools
from dataclasses import replace

from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine.policy import CREDIT, MARGIN, OUTPUT_WEIGHT, Fair
from paceline.engine.scheduler import Scheduler
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.types import Prompt, RequestId, Sampling
from tests.engine.planned import Planned, planned

ROWS = 8
NUMBERS = itertools.count()


def seq(tenant: str, prompt: int, limit: int = 1000) -> Sequence:
    text = TextStream(ByteDetokenizer(lambda token: b""))
    made = Sequence(
        EngineRequest(RequestId(f"row {next(NUMBERS)}"), Prompt((0,) * prompt), Sampling(), limit),
        text,
        lambda delta: None,
    )
    made.request = replace(made.request, tenant=tenant)
    return made


class Played:
    """A scheduler whose steps always succeed and take a second."""

    def __init__(self, budget: int = 64) -> None:
        self.policy = Fair()
        self.scheduler = Scheduler(ROWS, budget, policy=self.policy, starvation=10_000.0)
        self.now = 0.0
        self.first: dict[Sequence, float] = {}  # when each sequence's first token came

    def add(self, *seqs: Sequence) -> None:
        for each in seqs:
            self.scheduler.add(each, self.now)

    def step(self) -> Planned:
        plan = planned(self.scheduler, self.now)
        while plan.preempt:
            for each in plan.preempt:
                each.reset_for_recompute()
                self.scheduler.preempt(each, plan.cause)
            plan = planned(self.scheduler, self.now)
        self.now += 1.0
        for each in plan.decode:
            each.scheduled += 1
            each.generated.append(0)
            self.policy.served(each, OUTPUT_WEIGHT)
            self.first.setdefault(each, self.now)
            if len(each.generated) == each.max_tokens:
                each.finished = "length"
                self.scheduler.remove(each)
        for chunk in plan.prefill:
            chunk.seq.computed.tokens += chunk.tokens
            self.policy.served(chunk.seq, chunk.tokens)
        return plan

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def running(self, tenant: str) -> int:
        return sum(each.request.tenant == tenant for each in self.scheduler.running)


def visits(played: Played, hog: bool) -> float:
    """The longest wait of thirty short requests at once, in steps."""
    if hog:
        played.add(*(seq("hog", 1024) for _ in range(50)))
        played.steps(50)
    guests = [seq("guest", 32, 8) for _ in range(30)]
    played.add(*guests)
    begun = played.now
    while any(guest.finished is None for guest in guests):
        played.step()
    return max(played.first[guest] for guest in guests) - begun


def test_thirty_short_requests_wait_no_longer_than_twice_as_long_as_alone() -> None:
    assert visits(Played(), hog=True) <= 2 * visits(Played(), hog=False)


def finished(played: Played, seqs: list[Sequence]) -> list[str]:
    """The tenants of the sequences, in the order in which they end."""
    ended: list[Sequence] = []
    while len(ended) < len(seqs):
        played.step()
        ended += [each for each in seqs if each.finished is not None and each not in ended]
    return [each.request.tenant for each in ended]


def test_those_who_come_one_after_the_other_are_served_in_that_order() -> None:
    played = Played()
    played.scheduler.max_num_seqs = 1
    played.add(first := seq("a", 64, 20_000))
    while played.policy.accounts["a"] < 21_007:
        played.step()
    newcomers = [seq(name, 64, 8) for name in "bcde"]
    for each in newcomers:
        played.add(each)
    first.max_tokens = len(first.generated) + 8
    assert finished(played, [first, *newcomers]) == ["b", "c", "d", "e", "a"]


def test_a_client_that_rotates_its_users_name_delays_nobody_more_than_with_one_name() -> None:
    waits: dict[str, list[float]] = {"client": [], "client/{}": []}
    for name, found in waits.items():
        for head_start in (0, 1, 20, 200):
            played = Played()
            for place in range(50):
                played.add(seq(name.format(place), 256, 100))
                played.steps(head_start > 1 and place % 10 == 0)
            played.steps(head_start)
            played.add(guest := seq("guest", 64, 8))
            begun = played.now
            for place in range(50, 100):
                played.add(seq(name.format(place), 256, 100))
                played.step()
            while guest.finished is None:
                played.step()
            found.append(played.first[guest] - begun)
    rotating, steady = waits["client/{}"], waits["client"]
    assert all(one <= other for one, other in zip(rotating, steady, strict=True)), waits


def test_a_visitor_may_take_all_places_as_long_as_it_was_served_less() -> None:
    played = Played()
    played.add(*(seq("hog", 64) for _ in range(50)))
    played.steps(20)
    assert played.running("hog") == ROWS
    played.add(*(seq("guest", 32) for _ in range(20)))
    played.steps(2)
    assert (played.running("hog"), played.running("guest")) == (0, ROWS)


def test_what_a_visitor_is_ahead_is_bounded_and_then_both_are_served_alike() -> None:
    played = Played()
    played.add(*(seq("hog", 64) for _ in range(50)))
    while played.policy.accounts["hog"] <= CREDIT:
        played.step()
    played.add(*(seq("guest", 32) for _ in range(50)))
    assert played.policy.accounts["guest"] == played.policy.accounts["hog"] - CREDIT
    while played.policy.accounts["guest"] < played.policy.accounts["hog"]:
        played.step()
    before = dict(played.policy.accounts)
    played.steps(1000)
    gained = {tenant: played.policy.accounts[tenant] - before[tenant] for tenant in before}
    assert abs(gained["guest"] - gained["hog"]) <= 2 * (MARGIN + 1064 * OUTPUT_WEIGHT)
    assert min(gained.values()) > 0.4 * sum(gained.values())


def test_users_who_are_served_alike_do_not_displace_each_other_all_the_time() -> None:
    played = Played()
    played.add(*(seq("one", 64, 200) for _ in range(40)), *(seq("two", 64, 200) for _ in range(40)))
    played.steps(1000)
    assert played.scheduler.preemptions["policy"] <= 1000 / 20


def test_the_prompt_of_whoever_was_served_least_is_read_first() -> None:
    played = Played(budget=64)
    played.add(seq("hog", 4096), seq("hog", 4096))
    played.steps(4)
    played.add(seq("guest", 33))
    plan = played.step()
    assert [(chunk.seq.request.tenant, chunk.tokens) for chunk in plan.prefill] == [("hog", 32), ("guest", 32)]
    played.add(seq("guest", 65))
    plan = played.step()
    assert [(chunk.seq.request.tenant, chunk.tokens) for chunk in plan.prefill] == [("guest", 64)]
