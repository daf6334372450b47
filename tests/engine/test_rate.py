"""How fast requests leave, and when to come back."""

from __future__ import annotations

import pytest

from paceline.engine.rate import LATEST, LATEST_SECONDS, SOONEST, UNKNOWN, Rate


def leaving(count: int, every: float) -> Rate:
    rate = Rate()
    for number in range(count):
        rate.left(number * every)
    return rate


def test_as_long_as_nobody_has_left_there_is_a_guess() -> None:
    assert Rate().per_second(10.0) is None
    assert Rate().retry_after(5, 10.0) == UNKNOWN
    assert leaving(1, 1.0).retry_after(5, 1.0) == UNKNOWN


def test_it_goes_by_how_many_are_ahead() -> None:
    rate = leaving(21, 0.5)  # two a second
    assert rate.per_second(10.0) == pytest.approx(2.0, rel=0.1)
    assert rate.retry_after(19, 10.0) == pytest.approx(10, abs=1)
    assert rate.retry_after(0, 10.0) == SOONEST


def test_a_standstill_lowers_the_rate_the_longer_it_lasts() -> None:
    rate = leaving(21, 0.5)
    waits = [rate.retry_after(10, now) for now in (10.0, 30.0, 100.0, 1000.0)]
    assert waits == sorted(waits) and waits[0] < waits[-1]


def test_only_the_latest_departures_count() -> None:
    rate = leaving(LATEST, 100.0)
    start = LATEST * 100.0
    for number in range(LATEST):
        rate.left(start + number * 0.1)
    assert rate.per_second(start + LATEST * 0.1) == pytest.approx(10.0, rel=0.1)


def test_after_a_standstill_the_rate_recovers() -> None:
    rate = leaving(4, 0.5)
    slow = rate.retry_after(10, 500.0)
    for number in range(LATEST):
        rate.left(500.0 + number * 0.5)
    assert rate.retry_after(10, 516.0) < slow


@pytest.mark.parametrize(("ahead", "now"), [(0, 0.0), (10**6, 0.0), (10**6, 1e9)])
def test_the_answer_is_whole_seconds_within_reason(ahead: int, now: float) -> None:
    seconds = leaving(5, 0.0).retry_after(ahead, now)
    assert isinstance(seconds, int) and SOONEST <= seconds <= LATEST_SECONDS
