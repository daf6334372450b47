"""The scheduler with policies, starvation and limited memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.engine.policy import POLICIES, Fair, PolicyName, Priority, ShortestFirst
from paceline.engine.prefill_budget import MIN_CHUNK
from paceline.engine.scheduler import Scheduler
from paceline.engine.sequence import Sequence, Siblings
from tests.engine import simulator
from tests.engine.planned import Planned, planned
from tests.engine.simulator import admission
from tests.engine.test_scheduler import chunks, scheduler, seq


def asked(queue: Scheduler, now: float = 0.0) -> Planned:
    """A plan, after all that it asks for first is done."""
    for _ in range(100):
        plan = planned(queue, now)
        if plan.exceeds_memory is not None:
            plan.exceeds_memory.finished = "length"
            queue.remove(plan.exceeds_memory)
        elif plan.preempt:
            for each in plan.preempt:
                each.reset_for_recompute()
                queue.preempt(each, plan.cause)
        else:
            return plan
    raise AssertionError("planning never ends")


def speak(*seqs: Sequence, tokens: int = 1) -> None:
    """They have read their prompts, and say something."""
    for each in seqs:
        each.computed.tokens = len(each.context) - 1
        each.generated += [0] * tokens
        each.scheduled = len(each.generated)


def limited(usable: int, *, policy: PolicyName = "fifo", max_rows: int = 64, starvation: float = 30.0) -> Scheduler:
    """A byte a slot: a sequence that will have up to 512 tokens takes 512 bytes."""
    queue = Scheduler(max_rows, 512, policy=POLICIES[policy](), starvation=starvation)
    queue.admission = admission(usable)
    return queue


def small(**rules: Any) -> Sequence:
    return simulator.seq(100, **rules)  # 512 bytes, with what it is expected to say


def giant(**rules: Any) -> Sequence:
    return simulator.seq(1700, **rules)  # 2048 bytes


def test_a_sequence_waits_until_the_memory_is_there_and_comes_in_then() -> None:
    queue = limited(1024)
    first, second, third = small(), small(), small()
    for each in (first, second, third):
        queue.add(each)
    asked(queue)
    assert queue.running == [first, second] and third.queue.blocked_by == "memory"
    queue.remove(first)
    asked(queue)
    assert queue.running == [second, third] and not third.queue.blocked_by


def test_fifo_lets_a_small_one_past_a_giant_only_while_the_giant_has_not_waited_too_long() -> None:
    queue = limited(2048)
    running, large, early, late = small(), giant(), small(), small()
    queue.add(running)
    asked(queue)  # it says nothing yet, so that it is not asked to make room
    queue.add(large, 1.0)
    queue.add(early, 2.0)
    asked(queue, 30.9)
    assert queue.running == [running, early] and large.queue.blocked_by == "memory"
    queue.add(late, 30.9)
    asked(queue, 31.0)
    assert late.queue.blocked_by == "order"
    queue.remove(early)
    asked(queue, 31.1)
    assert queue.running == [running]  # there would be room for the late one
    queue.remove(running)
    asked(queue, 31.2)
    assert queue.running == [large]


def test_shortest_first_lets_in_who_has_least_to_compute() -> None:
    queue = Scheduler(1, 512, policy=ShortestFirst())
    long, cached = seq(50), seq(500)
    cached.queue.uncached_tokens = 3
    queue.add(long, 0.0)
    queue.add(cached, 1.0)
    asked(queue, 2.0)
    assert queue.running == [cached]


def test_a_lower_priority_is_preempted_for_a_higher_one_and_comes_again_later() -> None:
    queue = Scheduler(2, 512, policy=Priority())
    first, second = simulator.seq(10, priority=5), simulator.seq(10, priority=5)
    queue.add(first, 0.0)
    queue.add(second, 1.0)
    asked(queue, 1.0)
    speak(first, second, tokens=7)
    urgent = simulator.seq(10)
    queue.add(urgent, 2.0)
    plan = planned(queue, 2.0)
    assert (plan.preempt, plan.cause) == ((second,), "policy")
    asked(queue, 2.0)
    assert queue.running == [first, urgent]
    assert second.queue.blocked_by == "max_num_seqs" and len(second.context) == 17 and second.preemptions == 1
    queue.remove(urgent)
    asked(queue, 3.0)
    assert second in queue.running


def test_as_many_lower_ones_go_as_a_higher_one_needs_and_no_more() -> None:
    queue = limited(2048, policy="priority")
    seqs = [small(priority=5) for _ in range(4)]
    for place, each in enumerate(seqs):
        queue.add(each, place)
    asked(queue, 4.0)
    assert queue.running == seqs
    speak(*seqs)
    urgent = simulator.seq(600)  # 1024 bytes
    queue.add(urgent, 5.0)
    plan = planned(queue, 5.0)
    assert plan.preempt == (seqs[3], seqs[2])
    asked(queue, 5.0)
    assert queue.running == [*seqs[:2], urgent]


def test_nobody_is_preempted_where_that_would_not_be_enough() -> None:
    queue = limited(2048, policy="priority")
    peers, lower = [small() for _ in range(3)], small(priority=5)
    for each in (*peers, lower):
        queue.add(each)
    asked(queue)
    speak(*peers, lower)
    large = giant()
    queue.add(large, 1.0)
    asked(queue, 1.0)
    assert queue.running == [*peers, lower] and large.queue.blocked_by == "memory"


def test_one_users_fifty_do_not_starve_anothers_one() -> None:
    queue = Scheduler(4, 512, policy=Fair())
    many = [simulator.seq(10, tenant="many") for _ in range(50)]
    for each in many:
        queue.add(each, 0.0)
    asked(queue, 0.0)
    speak(*queue.running)
    queue.policy.served(many[0], 4)
    one = simulator.seq(10, tenant="one")
    queue.add(one, 1.0)
    asked(queue, 1.0)
    assert one in queue.running and len(queue.running) == 4


def test_fair_shares_bytes_not_sequences_when_memory_is_short() -> None:
    queue = limited(2048 + 512, policy="fair")
    large, other = giant(tenant="large"), small(tenant="large")
    queue.add(large)
    queue.add(other)
    asked(queue)
    speak(large, other)
    mine = small(tenant="mine")
    queue.add(mine, 1.0)
    asked(queue, 1.0)
    assert queue.running == [large, mine]


def test_whoever_is_made_room_for_comes_in_even_if_others_are_before_it_in_the_order() -> None:
    """Of two users who were served alike, the one who holds more gives way: its sequence must not come back at once."""
    queue = Scheduler(3, 512, policy=Fair())
    busy = [simulator.seq(10, tenant="a") for _ in range(3)]
    for each in busy:
        queue.add(each, 0.0)
    asked(queue, 0.0)
    mine = simulator.seq(10, tenant="b")
    queue.add(mine, 1.0)
    asked(queue, 1.0)
    assert mine in queue.running


@pytest.mark.parametrize("policy", POLICIES)
def test_under_every_policy_a_sequence_that_waits_too_long_comes_next(policy: PolicyName) -> None:
    queue = Scheduler(1, 512, policy=POLICIES[policy](), starvation=10.0)
    running, last = seq(10), seq(5000)
    last.request = replace(last.request, priority=9, tenant="busy")
    queue.add(running, 0.0)
    asked(queue, 0.0)
    queue.add(last, 1.0)
    for number in range(200):
        queue.add(simulator.seq(1, tenant=f"user {number}"), 2.0)
    asked(queue, 5.0)
    queue.remove(running)
    running.finished = "stop"
    if policy == "fifo":
        assert asked(queue, 5.0).prefill[0].seq is last
        return
    asked(queue, 5.0)
    (before,) = queue.running
    assert before is not last or policy == "fair"
    queue.remove(before)
    asked(queue, 11.0)
    assert queue.running == [last] or before is last


def test_a_sequence_that_has_had_its_time_makes_room_for_one_that_has_waited_too_long() -> None:
    queue = Scheduler(1, 512, starvation=10.0)
    long, waiting = seq(10), seq(10)
    queue.add(long, 0.0)
    asked(queue, 0.0)
    speak(long, tokens=5)
    queue.add(waiting, 1.0)
    asked(queue, 10.9)
    assert queue.running == [long]
    asked(queue, 11.0)
    assert queue.running == [waiting]
    asked(queue, 20.9)
    assert queue.running == [waiting]  # its own time is not over, and it has not spoken yet
    speak(waiting)
    asked(queue, 21.0)
    assert queue.running == [long]


def test_a_sequence_that_came_in_late_has_its_time_too() -> None:
    queue = Scheduler(1, 512, starvation=10.0)
    first, second, third = seq(10), seq(10), seq(10)
    queue.add(first, 1000.0)
    queue.add(second, 1000.0)
    queue.add(third, 1001.0)
    asked(queue, 1000.0)
    speak(first)
    asked(queue, 1009.9)
    assert queue.running == [first]
    asked(queue, 1010.0)
    assert queue.running == [second]
    speak(second)
    asked(queue, 1019.9)  # the third has waited too long by now
    assert queue.running == [second]
    asked(queue, 1020.0)
    assert queue.running == [third]


def test_a_sequence_that_has_said_nothing_since_it_came_in_is_not_displaced() -> None:
    queue = Scheduler(1, 512, starvation=10.0)
    reading, waiting = seq(100_000), seq(10)
    queue.add(reading, 0.0)
    asked(queue, 0.0)
    queue.add(waiting, 0.0)
    asked(queue, 1000.0)
    assert queue.running == [reading]
    speak(reading)
    asked(queue, 1000.1)
    assert queue.running == [waiting]


def test_a_sequence_that_came_in_by_its_age_has_its_time_whoever_comes() -> None:
    queue = Scheduler(1, 512, policy=Priority(), starvation=10.0)
    urgent, last = simulator.seq(10), simulator.seq(10, priority=9)
    queue.add(urgent, 0.0)
    queue.add(last, 0.0)
    asked(queue, 0.0)
    speak(urgent)
    asked(queue, 10.0)
    assert queue.running == [last] and last.queue.was_starved
    speak(last)
    queue.add(simulator.seq(10), 11.0)
    asked(queue, 19.9)
    assert queue.running == [last]
    asked(queue, 20.0)
    assert queue.running != [last]


def test_the_queue_is_told_in_the_order_in_which_it_is_looked_at() -> None:
    queue = Scheduler(1, 512, policy=Priority(), starvation=10.0)
    patient, low, high = seq(5), seq(5), seq(5)
    for each, priority in ((patient, 9), (low, 5), (high, 1)):
        each.request = replace(each.request, priority=priority)
    for each, now in ((patient, 0.0), (low, 5.0), (high, 6.0)):
        queue.add(each, now)
    assert queue.queue(9.9) == [high, low, patient]
    assert queue.queue(10.0) == [patient, high, low]
    assert queue.waiting == [patient, low, high]


def test_the_queue_turns_away_the_newest_that_never_ran() -> None:
    queue = scheduler(*[seq(1) for _ in range(5)], max_rows=1)
    asked(queue)
    first, second, third, fourth = queue.waiting
    assert queue.overflow(4) == []
    assert queue.overflow(2) == [third, fourth]
    first.siblings = second.siblings = Siblings([first, second])  # choices of one request count as one
    assert queue.overflow(2) == [fourth]
    first.siblings, second.siblings = Siblings([first]), Siblings([second])
    fourth.queue.started = fourth.siblings.started = True  # it was set back: it has been promised an end
    assert queue.overflow(2) == [third]
    third.siblings = Siblings([third, fourth])  # another choice of its request runs
    assert queue.overflow(2) == []


def test_who_waits_says_why() -> None:
    queue = limited(512, max_rows=1)
    queue.add(small())
    large = giant()
    queue.add(large)
    queue.add(small())
    asked(queue)
    assert [each.queue.blocked_by for each in queue.waiting] == ["max_num_seqs", "max_num_seqs"]
    queue.max_num_seqs = 9
    asked(queue, 1.0)
    assert [each.queue.blocked_by for each in queue.waiting] == ["memory", "memory"]


# -- when memory runs short


def test_the_chunk_shrinks_before_anybody_is_preempted() -> None:
    queue = limited(2048 + 512 + 5120)
    assert queue.admission is not None
    queue.admission.memory_model = simulator.admission(0, chunk_token=10.0).memory_model
    talker, reading = small(limit=412), giant(limit=300)
    queue.add(talker)
    asked(queue)
    speak(talker)
    queue.add(reading)
    assert chunks(asked(queue)) == [(reading, 512)]
    queue.admission.budget.limit -= 1000
    queue._changed = True
    plan = asked(queue)
    assert chunks(plan) == [(reading, 256)] and talker in plan.decode
    queue.admission.budget.limit = 2048 + 256 + 10 * MIN_CHUNK  # the talker needs no more in the next steps
    queue._changed = True
    assert chunks(asked(queue)) == [(reading, MIN_CHUNK)]
    assert queue.running == [talker, reading]
    queue.admission.budget.limit -= 1
    assert asked(queue).prefill == () and queue.running == [talker]
    assert queue.preemptions["memory"] == 1 and reading.queue.blocked_by == "memory"


def test_the_first_chunk_after_idling_fits_the_memory_too() -> None:
    queue = limited(2048 + 100 * 10)
    assert queue.admission is not None
    queue.admission.memory_model = simulator.admission(0, chunk_token=10.0).memory_model
    queue.add(giant())
    assert sum(chunk.tokens for chunk in asked(queue).prefill) <= 100


def test_when_sequences_exceed_what_was_expected_the_newest_is_preempted_and_comes_again() -> None:
    queue = limited(1024)
    old, new = small(), small()
    queue.add(old, 0.0)
    queue.add(new, 1.0)
    asked(queue, 1.0)
    now = 1.0
    while new in queue.running:
        now += 0.1
        speak(old, new)
        asked(queue, now)
        assert len(old.generated) < 400
    assert queue.running == [old] and new.queue.blocked_by == "memory"
    assert 512 - len(old.generated) - 100 >= 90  # in time: there is room for the tokens of many steps
    queue.remove(old)
    asked(queue, now)
    assert queue.running == [new] and len(new.context) == 100 + len(new.generated)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_sequence_alone_that_exceeds_the_memory_ends_and_not_before(policy: PolicyName) -> None:
    queue = limited(1024, policy=policy)
    only = small(limit=100_000)
    queue.add(only)
    for number in range(2000):
        plan = planned(queue, number * 0.1)
        if plan.exceeds_memory is not None:
            break
        assert only in plan.decode or plan.prefill
        speak(only)
    assert plan.exceeds_memory is only
    assert 1000 < only.length <= 1024


def test_what_does_not_even_fit_alone_is_named() -> None:
    queue = limited(1024)
    large, little = giant(), small()
    queue.add(large)
    queue.add(little)
    assert planned(queue).exceeds_memory is large
    asked(queue)
    assert queue.running == [little]


def test_when_the_load_goes_everybody_is_let_in_again() -> None:
    queue = limited(1024)
    queue.max_running = 1
    for _ in range(4):
        queue.prefill_budget.shrink()
    seqs = [small() for _ in range(8)]
    for each in seqs:
        queue.add(each)
    served = []
    for _ in range(70):
        asked(queue)
        queue.recover()
        for each in list(queue.running):
            queue.remove(each)
            served.append(each)
    assert served == seqs
    assert queue.max_running is None
    assert queue.prefill_budget.halvings == 0
    assert queue.admission is not None and sum(queue.admission.budget.held().values()) == 0
    again = [small(), small()]
    for each in again:
        queue.add(each)
    asked(queue)
    assert queue.running == again


def test_after_memory_ran_out_fewer_run_and_more_are_tried_little_by_little() -> None:
    queue = scheduler(*[seq(1) for _ in range(6)], max_rows=6)
    queue.max_running = 2
    counts = []
    for _ in range(6):
        asked(queue)
        counts.append(len(queue.running))
        queue.recover()
    assert counts == [2, 3, 4, 5, 6, 6] and queue.max_running is None


def test_nothing_stays_reserved_when_the_last_sequence_goes() -> None:
    for leave in (Scheduler.remove, lambda queue, each: queue.preempt(each, "fault")):
        queue = limited(4096)
        only = small()
        queue.add(only)
        asked(queue)
        assert queue.admission is not None and queue.admission.budget.holding("reserved") > 0
        leave(queue, only)
        assert sum(queue.admission.budget.held().values()) == 0
