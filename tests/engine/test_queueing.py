"""When a request's time is over. No MLX, no clock."""

from __future__ import annotations

import pytest

from paceline.engine.queueing import (
    ANSWERS,
    DEFAULT_OUTPUT,
    DEFAULT_RETRY,
    DEPARTURES,
    MAX_RETRY,
    MIN_RETRY,
    DepartureRate,
    OutputEstimate,
    Timeouts,
)
from paceline.engine.sequence import Siblings
from paceline.errors import DeadlineExceeded, QueueTimeout
from tests.engine.test_scheduler import seq

ALL = Timeouts(queue=5, first_token=10, request=20)


def why(patience: Timeouts, age: float, *, started: bool = False, generated: int = 0) -> type[Exception] | None:
    asked = seq(8)
    asked.queue.arrived, asked.siblings.started, asked.generated = 100.0, started, [1] * generated
    found = patience.exceeded(asked, 100.0 + age, retry_after=7)
    assert found is None or found.retry_after == 7
    return None if found is None else type(found)


def test_whoever_is_given_all_the_time_has_it() -> None:
    assert why(Timeouts(), 1e9) is None


@pytest.mark.parametrize("age, expected", [(5, None), (5.1, QueueTimeout), (10.1, DeadlineExceeded)])
def test_a_request_that_has_not_run_may_wait_only_so_long(age: float, expected: type[Exception] | None) -> None:
    assert why(ALL, age) is expected


@pytest.mark.parametrize("age, expected", [(10, None), (10.1, DeadlineExceeded)])
def test_one_that_runs_must_say_something_in_time(age: float, expected: type[Exception] | None) -> None:
    assert why(ALL, age, started=True) is expected


@pytest.mark.parametrize("age, expected", [(20, None), (20.1, DeadlineExceeded)])
def test_one_that_speaks_must_come_to_an_end_in_time(age: float, expected: type[Exception] | None) -> None:
    assert why(ALL, age, started=True, generated=3) is expected


def test_a_choice_whose_sibling_runs_has_had_its_turn() -> None:
    first, second = seq(8), seq(8)
    first.siblings = second.siblings = Siblings([first, second])
    first.siblings.started = True
    assert Timeouts(queue=5).exceeded(second, 1000.0, 1) is None


def leaving(count: int, every: float) -> DepartureRate:
    rate = DepartureRate()
    for number in range(count):
        rate.departed(number * every)
    return rate


def test_as_long_as_nobody_has_left_there_is_a_default() -> None:
    assert DepartureRate().per_second(10.0) is None
    assert DepartureRate().retry_after(5, 10.0) == DEFAULT_RETRY
    assert leaving(1, 1.0).retry_after(5, 1.0) == DEFAULT_RETRY


def test_it_goes_by_how_many_are_ahead() -> None:
    rate = leaving(21, 0.5)  # two a second
    assert rate.per_second(10.0) == pytest.approx(2.0, rel=0.1)
    assert rate.retry_after(19, 10.0) == pytest.approx(10, abs=1)
    assert rate.retry_after(0, 10.0) == MIN_RETRY


def test_a_standstill_lowers_the_rate_the_longer_it_lasts() -> None:
    rate = leaving(21, 0.5)
    waits = [rate.retry_after(10, now) for now in (10.0, 30.0, 100.0, 1000.0)]
    assert waits == sorted(waits) and waits[0] < waits[-1]


def test_only_the_latest_departures_count() -> None:
    rate = leaving(DEPARTURES, 100.0)
    start = DEPARTURES * 100.0
    for number in range(DEPARTURES):
        rate.departed(start + number * 0.1)
    assert rate.per_second(start + DEPARTURES * 0.1) == pytest.approx(10.0, rel=0.1)


def test_after_a_standstill_the_rate_recovers() -> None:
    rate = leaving(4, 0.5)
    slow = rate.retry_after(10, 500.0)
    for number in range(DEPARTURES):
        rate.departed(500.0 + number * 0.5)
    assert rate.retry_after(10, 516.0) < slow


@pytest.mark.parametrize(("ahead", "now"), [(0, 0.0), (10**6, 0.0), (10**6, 1e9)])
def test_the_answer_is_whole_seconds_within_reason(ahead: int, now: float) -> None:
    seconds = leaving(5, 0.0).retry_after(ahead, now)
    assert isinstance(seconds, int) and MIN_RETRY <= seconds <= MAX_RETRY


def test_before_anything_is_known_there_is_a_default() -> None:
    assert OutputEstimate().expected == DEFAULT_OUTPUT


def test_three_of_four_answers_are_no_longer_than_expected() -> None:
    outputs = OutputEstimate()
    for tokens in [*range(1, 101)] * 2:
        outputs.observe(tokens)
    assert 70 <= sum(tokens <= outputs.expected for tokens in range(1, 101)) <= 95


def test_short_answers_bring_it_down_and_long_ones_up() -> None:
    outputs = OutputEstimate()
    for _ in range(ANSWERS):
        outputs.observe(10)
    assert outputs.expected == 10
    for _ in range(ANSWERS):
        outputs.observe(2000)
    assert outputs.expected == 2000


def test_only_the_latest_count() -> None:
    outputs = OutputEstimate()
    for _ in range(1000):
        outputs.observe(100_000)
    for _ in range(ANSWERS):
        outputs.observe(5)
    assert outputs.expected == 5


def test_one_long_answer_does_not_change_everything() -> None:
    outputs = OutputEstimate()
    for _ in range(20):
        outputs.observe(50)
    outputs.observe(100_000)
    assert outputs.expected == 50


def test_it_is_never_nothing() -> None:
    outputs = OutputEstimate()
    for _ in range(ANSWERS):
        outputs.observe(0)
    assert outputs.expected == 1
