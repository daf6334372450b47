"""What is reported of steps whose times are made up."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.cache.shape_buckets import GPU
from paceline.engine.in_flight import InFlightStep
from paceline.engine.scheduler import Scheduler
from paceline.engine.step_timer import StepTimer
from tests.engine.test_scheduler import seq


class Clocked:
    """A timer, and what it has reported to the budget and to the draft lengths."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scheduler = Scheduler(64, 512)
        self.timer = StepTimer(self.scheduler)
        self.observed: list[tuple[int, float]] = []
        self.timed: list[tuple[int, int, float]] = []
        self.now = 10.0
        monkeypatch.setattr(self.scheduler.prefill_budget, "observe", lambda *seen: self.observed.append(seen))
        monkeypatch.setattr(self.scheduler.draft_lengths, "timed", lambda *seen: self.timed.append(seen))

    def read(self, seqs: int, seconds: float = 1.0, **more: Any) -> None:
        self.now += seconds
        rows = [seq(1) for _ in range(seqs)]
        if "draft_length" in more:  # of the step, which may be the bucket of the longest
            more["draft_lengths"] = [more["draft_length"]] * seqs + [0]
        self.timer.read(InFlightStep([*rows, None] if seqs else [], **more), self.now)


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Clocked:
    return Clocked(monkeypatch)


def test_the_first_step_after_a_rest_has_no_known_time(clocked: Clocked) -> None:
    clocked.read(2)
    assert clocked.observed == []
    clocked.read(2, 0.5)
    assert clocked.observed == [(0, 0.5)]
    clocked.timer.reset()
    clocked.read(2)
    assert clocked.observed == [(0, 0.5)]


def test_draft_lengths_hear_of_the_third_step_of_a_shape_and_of_those_that_follow(clocked: Clocked) -> None:
    for seconds in (1.0, 2.0, 4.0, 8.0):
        clocked.read(2, seconds, draft_length=3)
    assert clocked.timed == [(2, 3, 4.0), (2, 3, 8.0)]


def test_drafts_that_waited_for_the_step_before_are_timed_after_one_that_only_decoded(clocked: Clocked) -> None:
    """As where sequences come and go: three of a shape in a row are rare there."""
    clocked.read(2)
    clocked.read(2, 3.0, draft_length=2, waited=True)
    clocked.read(2, 5.0, draft_length=1, waited=True)
    clocked.read(2, 7.0, waited=True)  # a plain one: it is submitted ahead elsewhere
    assert clocked.timed == [(2, 2, 3.0), (2, 1, 5.0)]
    clocked.read(2, decode_only=False, prompt_tokens=64)
    clocked.read(2, 9.0, draft_length=1, waited=True)  # behind prompts
    clocked.read(2, 9.0, draft_length=1)
    assert len(clocked.timed) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"seqs": 3},
        {"seqs": 2, "draft_length": 1},
        {"seqs": 2, "steady": False},
        {"seqs": 2, "decode_only": False, "prompt_tokens": 64},
        {"seqs": 2, "decode_only": False},
    ],
)
def test_a_step_of_another_shape_begins_again(clocked: Clocked, other: dict[str, Any]) -> None:
    clocked.read(2)
    clocked.read(2)
    clocked.read(**other)
    clocked.read(2)
    clocked.read(2)
    assert clocked.timed == []
    clocked.read(2)
    assert clocked.timed == [(2, 0, 1.0)]


def test_the_budget_hears_of_prompt_tokens_only_beside_streams(clocked: Clocked) -> None:
    clocked.read(1)
    clocked.read(1, 0.25, decode_only=False, prompt_tokens=100)
    clocked.read(0, 0.4, decode_only=False, prompt_tokens=100)  # nobody decoded
    clocked.read(1, 0.5, decode_only=False)  # an image was encoded
    assert clocked.observed == [(100, 0.25)]


def test_a_step_in_which_something_was_traced_is_not_representative(clocked: Clocked) -> None:
    clocked.read(1)
    clocked.read(1, 7.0, steady=False)
    clocked.read(1, 9.0, steady=False, decode_only=False, prompt_tokens=10)
    clocked.read(1, 0.125)
    assert clocked.observed == [(0, 0.125)]


def test_steps_of_one_bucket_are_alike(clocked: Clocked) -> None:
    """What a step costs depends on its padded rows."""
    clocked.scheduler.draft_lengths.buckets = GPU
    for seqs in (5, 8, 6):
        clocked.read(seqs)
    assert clocked.timed == [(8, 0, 1.0)]
