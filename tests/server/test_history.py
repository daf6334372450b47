from __future__ import annotations

import time

import pytest

from paceline.server.history import SLOT_SECONDS, SLOTS, Distribution, History
from paceline.server.metrics import Metrics, RequestTimer
from paceline.stats import Stats
from paceline.types import Delta, PromptInfo, Usage


@pytest.mark.parametrize("seconds", [0.001, 0.02, 0.3, 7.0, 900.0])
def test_a_percentile_is_near_the_time_that_it_stands_for(seconds: float) -> None:
    times = Distribution()
    for _ in range(99):
        times.add(seconds)
    times.add(seconds * 100)
    assert times.percentile(0.5) == pytest.approx(seconds, rel=0.1)
    assert times.percentile(0.95) == pytest.approx(seconds, rel=0.1)
    assert times.percentile(1.0) == pytest.approx(seconds * 100, rel=0.1)


def test_there_is_no_percentile_of_nothing_and_times_may_be_zero() -> None:
    times = Distribution()
    assert times.percentile(0.5) is None
    times.add(0.0)
    assert 0 < (times.percentile(0.5) or 0) < 0.001


def test_a_request_is_counted_in_the_slot_in_which_it_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    metrics = Metrics("m", Stats)
    timer = RequestTimer(metrics, 1)
    assert metrics.history.latest() == []
    timer.observe(Delta(token_ids=(1,), prompt=PromptInfo((1, 2, 3), cached_tokens=2)))
    now += SLOT_SECONDS
    timer.observe(
        Delta(token_ids=(2, 3), finish_reason="stop", usage=Usage(3, 3, 2, accepted_tokens=1, rejected_tokens=2))
    )
    first, second = metrics.history.latest()
    assert (first["prompt_tokens"], first["cached_tokens"], first["generation_tokens"]) == (3, 2, 1)
    assert first["first_token_ms"][0] is not None and first["inter_token_ms"] == [None, None]
    assert (second["generation_tokens"], second["accepted_tokens"], second["drafted_tokens"]) == (2, 1, 3)
    assert second["finished"] == 1 and second["inter_token_ms"][1] is not None
    assert second["time"] - first["time"] == SLOT_SECONDS


def test_old_slots_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    history = History()
    for _ in range(SLOTS + 5):
        history.now().finished += 1
        now += SLOT_SECONDS
    assert len(history.latest()) == SLOTS - 1  # the slot of now does not exist yet
    assert len(history.latest(3)) == 2
    now += SLOTS * SLOT_SECONDS
    assert history.latest() == []
