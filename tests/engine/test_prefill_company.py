"""When a prompt waits for another to share its pass, with times that are made up."""

from __future__ import annotations

import pytest

from paceline.cache.shape_buckets import GPU
from paceline.engine.prefill_company import ARRIVALS, LEAST_ROWS, MIXED_WIDTH, MOST_WAIT, PrefillCompany
from paceline.engine.scheduler import Scheduler
from paceline.engine.sequence import Sequence
from paceline.types import Sampling
from tests.engine.planned import Planned, planned
from tests.engine.test_scheduler import chunks, ride, seq

OFTEN = MOST_WAIT / 4  # seconds between two arrivals


def company(*, busy: float = 1.0, between: float = OFTEN) -> PrefillCompany:
    made = PrefillCompany()
    steps(made, busy)
    for place in range(ARRIVALS + 1):
        made.arrived(place * between)
    return made


def steps(made: PrefillCompany, busy: float) -> None:
    for _ in range(200):
        made.observe(0.01, 0.01 * busy)


def test_at_first_nobody_waits_or_shares() -> None:
    fresh = PrefillCompany()
    assert not fresh.pays
    for place in range(ARRIVALS + 1):
        fresh.arrived(place * OFTEN)
    assert not fresh.is_expected(LEAST_ROWS, 0.0)


def test_a_device_that_sets_the_pace_is_not_given_padding() -> None:
    assert company().pays and not company(busy=0.8).pays
    changed = company()
    steps(changed, 0.7)
    assert not changed.pays and not changed.is_expected(LEAST_ROWS, 0.0)


def test_one_slow_step_changes_nothing() -> None:
    waiting = company(busy=0.8)
    waiting.observe(100.0, 100.0)
    assert not waiting.pays


@pytest.mark.parametrize(
    ("rows", "waited", "between", "waits"),
    [
        (LEAST_ROWS, 0.0, OFTEN, True),
        (LEAST_ROWS, 2.1 * OFTEN, OFTEN, False),
        (LEAST_ROWS - 1, 0.0, OFTEN, False),
        (64, 0.9 * MOST_WAIT, 0.9 * MOST_WAIT, True),
        (64, MOST_WAIT, 0.9 * MOST_WAIT, False),
        (64, 0.0, 1.1 * MOST_WAIT, False),
        (64, 0.0, 0.0, False),
    ],
)
def test_it_waits_where_others_come_often_and_not_for_long(
    rows: int, waited: float, between: float, waits: bool
) -> None:
    assert company(between=between).is_expected(rows, waited) == waits


# -- in plans


class Queue:
    """Rows that decode, and prompts that come to them. The host is slow."""

    def __init__(self, rows: int = LEAST_ROWS) -> None:
        self.scheduler = Scheduler(64, 2048)
        self.scheduler.buckets = GPU
        self.now = 0.0
        for _ in range(rows):
            self.add(seq(1))
        steps(self.scheduler.company, 1.0)
        self.plan()

    def add(self, made: Sequence) -> Sequence:
        self.now += OFTEN
        self.scheduler.add(made, self.now)
        return made

    def plan(self) -> Planned:
        return planned(self.scheduler, self.now)


def test_a_prompt_waits_for_the_next_and_both_share_a_pass() -> None:
    queue = Queue()
    one = queue.add(seq(301))
    plan = queue.plan()
    assert not plan.prefill and len(plan.decode) == LEAST_ROWS
    two = queue.add(seq(21))
    plan = queue.plan()
    assert chunks(plan) == [(one, 300), (two, 20)] and plan.mixed_tokens == 2048


def test_a_prompt_that_nobody_joins_goes_alone() -> None:
    queue = Queue()
    one = queue.add(seq(301))
    for _ in range(2):
        assert not queue.plan().prefill
        queue.now += 1.1 * OFTEN
    plan = queue.plan()
    assert chunks(plan) == [(one, 300)] and plan.mixed_tokens == 0


def scored() -> Sequence:
    made = seq(100)
    made.sampling = Sampling(prompt_logprobs=1)
    return made


def checkpointed() -> Sequence:
    made = seq(100)
    made.prefix.checkpoint_positions = [50]
    return made


@pytest.mark.parametrize("made", [seq(MIXED_WIDTH + 2), scored(), checkpointed()])
def test_one_that_cannot_share_does_not_wait(made: Sequence) -> None:
    queue = Queue()
    queue.add(made)
    assert [each for each, _ in chunks(queue.plan())] == [made]


def test_without_padding_or_with_few_rows_nobody_waits() -> None:
    few, exact = Queue(LEAST_ROWS - 1), Queue()
    exact.scheduler.buckets = Scheduler(1, 1).buckets
    for queue in (few, exact):
        queue.add(seq(301))
        assert len(queue.plan().prefill) == 1


def test_when_the_last_stream_ends_the_prompt_goes_on() -> None:
    queue = Queue()
    one = queue.add(seq(301))
    plan = queue.plan()
    assert not plan.prefill
    for each in plan.decode:
        queue.scheduler.remove(each)
    plan = queue.plan()
    assert chunks(plan) == [(one, 300)]
    ride(plan)
    assert queue.plan().decode == (one,)
