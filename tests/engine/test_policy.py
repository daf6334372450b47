"""Who comes next, and who gives way, by each policy alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.engine.policy import (
    CREDIT,
    MARGIN,
    OUTPUT_WEIGHT,
    POLICIES,
    Fair,
    Fifo,
    PolicyName,
    Priority,
    ShortestFirst,
)
from paceline.engine.sequence import Sequence
from tests.engine.simulator import seq


def one(seq: Sequence) -> int:
    return 1


def seqs(*arrivals: float) -> list[Sequence]:
    made = [seq(10) for _ in arrivals]
    for each, arrival in zip(made, arrivals, strict=True):
        each.queue.arrived = arrival
    return made


@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_bears_its_name_and_orders_everybody_once(name: PolicyName) -> None:
    policy = POLICIES[name]()
    assert policy.name == name
    waiting = seqs(3, 1, 2)
    assert sorted(each.number for each in policy.order(waiting)) == sorted(each.number for each in waiting)
    assert policy.order([]) == []


@pytest.mark.parametrize("name", POLICIES)
def test_without_any_difference_all_go_by_arrival_and_then_by_number(name: PolicyName) -> None:
    late, first, second = waiting = seqs(2, 1, 1)
    assert POLICIES[name]().order(waiting) == [first, second, late]


def test_fifo_displaces_nobody_and_loses_the_newest() -> None:
    old, new, waiting = seqs(1, 2, 0)
    assert Fifo().preemption_candidate(waiting, [old, new], one) is None
    assert Fifo().lowest([new, old]) is new


def test_shortest_first_goes_by_the_tokens_that_must_be_computed() -> None:
    long, cached, short = seqs(1, 2, 3)
    long.queue.uncached_tokens, cached.queue.uncached_tokens, short.queue.uncached_tokens = 10, 3, 5
    assert ShortestFirst().order([long, cached, short]) == [cached, short, long]
    assert ShortestFirst().preemption_candidate(cached, [long], one) is None


def test_priority_goes_by_the_lowest_number_and_then_by_arrival() -> None:
    first, second, urgent = seqs(1, 2, 3)
    urgent.request = replace(urgent.request, priority=-1)
    assert Priority().order([second, first, urgent]) == [urgent, first, second]


def test_a_lower_priority_is_preempted_the_newest_of_the_lowest_first() -> None:
    old, new, middle, urgent = seqs(1, 2, 3, 4)
    old.request = replace(old.request, priority=5)
    new.request = replace(new.request, priority=5)
    middle.request = replace(middle.request, priority=3)
    assert Priority().preemption_candidate(urgent, [old, new, middle], one) is new
    assert Priority().lowest([old, new, middle]) is new
    assert Priority().preemption_candidate(urgent, [], one) is None


def test_an_equal_priority_does_not_give_way() -> None:
    running, waiting = seqs(1, 2)
    assert Priority().preemption_candidate(waiting, [running], one) is None


def tenants(policy: Fair, *names: str) -> list[Sequence]:
    made: list[Sequence] = []
    for place, name in enumerate(names):
        each = seq(10, tenant=name)
        each.queue.arrived = place
        policy.arrived(each, made)
        made.append(each)
    return made


def test_fair_takes_users_in_turn_however_many_one_of_them_has() -> None:
    policy = Fair()
    waiting = tenants(policy, *["many"] * 50, "one")
    assert policy.order(waiting).index(waiting[-1]) == 1


def test_fair_takes_first_who_was_served_least() -> None:
    policy = Fair()
    a, b = tenants(policy, "a", "b")
    policy.served(a, OUTPUT_WEIGHT * 10)
    assert policy.order([a, b]) == [b, a]
    policy.served(b, 100)
    assert policy.order([a, b]) == [a, b]


def test_fair_counts_what_a_waiting_sequence_will_cost_before_its_users_next_one() -> None:
    policy = Fair()
    long, again, other, third = tenants(policy, "a", "a", "b", "b")
    (
        long.queue.uncached_tokens,
        again.queue.uncached_tokens,
        other.queue.uncached_tokens,
        third.queue.uncached_tokens,
    ) = 100, 1, 10, 10
    assert policy.order([long, again, other, third]) == [long, other, third, again]


def test_fair_takes_users_in_turn_though_their_prompts_cost_nothing() -> None:
    policy = Fair()
    first, second, third, other, last = waiting = tenants(policy, "a", "a", "a", "b", "b")
    for each in waiting:
        each.queue.uncached_tokens = 0
    assert policy.order(waiting) == [first, other, second, last, third]


def test_absence_saves_up_no_more_than_a_short_visit() -> None:
    policy = Fair()
    here, away = tenants(policy, "here", "away")
    policy.served(here, 100_000)
    for _ in range(2):
        policy.arrived(seq(10, tenant="away"), [here])
        assert policy.accounts == {"here": 100_000, "away": 100_000 - CREDIT}


def test_a_debt_is_not_forgotten_while_others_are_there() -> None:
    policy = Fair()
    here, away = tenants(policy, "here", "away")
    policy.served(away, 100_000)
    policy.arrived(seq(10, tenant="away"), [here])
    assert policy.accounts["away"] == 100_000


def test_whoever_comes_to_an_empty_server_starts_afresh() -> None:
    policy = Fair()
    (alone,) = tenants(policy, "a")
    policy.served(alone, 1000)
    policy.arrived(seq(10, tenant="b"), [])
    assert policy.accounts == {"b": 0}


def test_a_newcomer_does_not_start_below_an_earlier_newcomer() -> None:
    policy = Fair()
    (first,) = present = tenants(policy, "a")
    policy.served(first, 21_007)
    for place, name in enumerate("bcde", 1):
        each = seq(10, tenant=name)
        each.queue.arrived = place
        policy.arrived(each, present)
        present.append(each)
    assert policy.accounts == {"a": 21_007, **dict.fromkeys("bcde", 21_007 - CREDIT)}
    assert [each.request.tenant for each in policy.order(present)] == ["b", "c", "d", "e", "a"]


def test_a_tenant_that_divides_itself_gets_no_larger_share() -> None:
    for hog in ("hog", "hog/{}"):
        policy = Fair()
        waiting = tenants(policy, *(hog.format(place) for place in range(50)), "guest")
        guest = waiting[-1]
        assert policy.order(waiting).index(guest) == 1
        policy.served(waiting[0], 100)
        assert policy.order(waiting)[0] is guest
        assert policy.preemption_candidate(guest, waiting[:2], one) is waiting[1]
        assert policy.preemption_candidate(waiting[2], [guest], one) is None
        assert policy.first_to_prefill([waiting[1], guest]) is guest


def test_the_names_in_a_divided_tenant_are_served_in_turn() -> None:
    policy = Fair()
    waiting = tenants(policy, *["proxy/many"] * 50, "proxy/one", "guest")
    *many, single, guest = waiting
    assert policy.order(waiting)[:4] == [many[0], guest, single, many[1]]
    assert policy.preemption_candidate(single, many[:3], one) is many[2]
    for each in waiting:
        each.computed.tokens = 5
    assert policy.lowest([many[0], many[1], single, guest]) is many[1]
    policy.served(many[0], 100)
    assert (policy.first_to_prefill([many[1], single]), policy.order(waiting)[:2]) == (single, [guest, single])


def test_names_in_a_tenant_that_went_away_are_forgotten() -> None:
    policy = Fair()
    (here,) = tenants(policy, "here")
    for number in range(100):
        policy.arrived(seq(1, tenant=f"client-{number}/user"), [here])
    assert len(policy.members) == 1


def test_accounts_of_users_long_gone_are_forgotten() -> None:
    policy = Fair()
    (here,) = tenants(policy, "here")
    policy.served(here, 10_000)
    for number in range(5000):
        policy.arrived(seq(1, tenant=f"user {number}"), [here])
    assert len(policy.accounts) < 3000
    assert policy.accounts["here"] == 10_000


def test_who_holds_more_than_another_is_preempted_its_latest() -> None:
    policy = Fair()
    first, second, third, mine = tenants(policy, "a", "a", "a", "b")
    assert policy.preemption_candidate(mine, [first, second, third], one) is third
    assert policy.preemption_candidate(mine, [first, second], one) is second
    assert policy.preemption_candidate(mine, [first], one) is None  # an exchange would change nothing


def test_nobody_is_preempted_to_a_user_who_was_served_more() -> None:
    policy = Fair()
    first, second, third, mine = tenants(policy, "a", "a", "a", "b")
    policy.served(mine, 1)
    assert policy.preemption_candidate(mine, [first, second, third], one) is None


def test_a_user_who_was_served_much_more_is_preempted_whatever_the_two_hold() -> None:
    policy = Fair()
    first, mine = tenants(policy, "a", "b")
    assert policy.preemption_candidate(mine, [first], one) is None
    policy.served(first, mine.queue.uncached_tokens + MARGIN - 1)
    assert policy.preemption_candidate(mine, [first], one) is None
    policy.served(first, 1)
    assert policy.preemption_candidate(mine, [first], one) is first
    assert policy.preemption_candidate(first, [mine], one) is None


def test_nobody_is_preempted_to_a_user_who_holds_as_much() -> None:
    policy = Fair()
    first, second, own, mine = tenants(policy, "a", "a", "b", "b")
    assert policy.preemption_candidate(mine, [first, second, own], one) is None


def test_two_users_do_not_displace_each_other_in_turn() -> None:
    policy = Fair()
    first, second, third, mine = tenants(policy, "a", "a", "a", "b")
    victim = policy.preemption_candidate(mine, [first, second, third], one)
    assert victim is third
    assert policy.preemption_candidate(third, [first, second, mine], one) is None


def test_when_memory_is_short_the_user_who_holds_most_loses_the_latest() -> None:
    policy = Fair()
    long, short, other = tenants(policy, "a", "a", "b")
    long.computed.tokens, short.computed.tokens, other.computed.tokens = 9, 5, 8
    assert policy.lowest([long, short, other]) is short


def test_prompts_are_read_in_the_order_of_arrival_of_priority_or_of_what_was_served() -> None:
    policy = Fair()
    first, second = tenants(policy, "a", "b")
    assert Fifo().first_to_prefill([first, second]) is first
    second.request = replace(second.request, priority=-1)
    assert Priority().first_to_prefill([first, second]) is second
    policy.served(first, 1)
    assert policy.first_to_prefill([first, second]) is second
