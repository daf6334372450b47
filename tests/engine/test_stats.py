"""Counters, samples and the snapshot of sequences."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.cache.budget import Budget
from paceline.cache.memory_model import AttentionCost, MemoryModel
from paceline.cache.slot_plan import capacity
from paceline.engine import stats
from paceline.engine.admission import Admission
from paceline.engine.in_flight import InFlightStep
from paceline.engine.scheduler import Scheduler
from paceline.engine.stats import SAMPLE_SECONDS, WINDOW_SECONDS, Counters, Monitor
from paceline.stats import MemoryStats, SequenceStats, StepTimes, ThroughputStats
from tests.engine.planned import planned
from tests.engine.test_scheduler import seq
from tests.sparse.stepper import SparseStepper


def test_statistics_need_no_mlx() -> None:
    code = "import sys, paceline.engine.stats; sys.exit(any(n.split('.')[0] == 'mlx' for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_sequence_shows_how_far_it_is_and_nothing_of_what_it_says() -> None:
    one = seq(10, name="chatcmpl-1/2")
    one.request = replace(one.request, tenant="key-1", priority=3)
    one.queue.arrived, one.preemptions, one.prefix.cached_tokens = 5.0, 1, 4
    one.generated, one.computed.tokens = [7, 8], 6
    one.accepted, one.rejected = 1, 2
    [seen] = stats.running([one], 7.5)
    assert seen == SequenceStats(
        id="chatcmpl-1",
        choice=2,
        state="prefill",
        prompt_tokens=10,
        cached_tokens=4,
        generated_tokens=2,
        age_seconds=2.5,
        tenant="key-1",
        priority=3,
        preemptions=1,
        number=one.number,
        prefilled_tokens=6,
        accepted_tokens=1,
        drafted_tokens=3,
    )


def test_an_id_without_a_choice_is_shown_whole() -> None:
    assert stats.running([seq(1, name="mine")], 0.0)[0].id == "mine"
    assert stats.running([seq(1, name="a/b/0")], 0.0)[0].id == "a/b"


def test_the_state_of_a_sequence() -> None:
    waiting, scoring, decoding, encoding = seq(10), seq(10), seq(10), seq(10, images=1)
    waiting.prefix.waiting, scoring.sparse.decided = True, False
    decoding.computed.tokens = encoding.computed.tokens = 9
    states = [stats.state(each) for each in (seq(10), waiting, scoring, decoding, encoding)]
    assert states == ["prefill", "waiting_for_prefix", "scoring", "decode", "prefill"]


def test_the_queue_is_told_in_its_order_with_places_and_reasons() -> None:
    one = Scheduler(1, 16)
    for place, prompt in enumerate((10, 20, 30)):
        one.add(seq(prompt, name=f"r{place}/0"), now=float(place))
    planned(one, 3.0)
    seen = stats.waiting(one.queue(4.0), 4.0)
    assert [(each.id, each.position, each.reason, each.age_seconds) for each in seen] == [
        ("r1", 1, "max_num_seqs", 3.0),
        ("r2", 2, "max_num_seqs", 2.0),
    ]


def test_the_time_of_steps_is_counted_by_kind_without_the_pauses_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter((1.0, 1.5, 2.5, 4.5, 9.0, 20.0, 20.25))
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    monitor = Monitor()
    prefill, decode, drafted = InFlightStep(prompt_tokens=64), InFlightStep(), InFlightStep(draft_length=3)
    submitted = ((prefill, 1), (prefill, 2), (decode, 2), (drafted, 2), (None, 2), (decode, 2), (decode, 3))
    for step, shapes_met in submitted:
        monitor.tick(step, shapes_met)
    assert monitor.step_times() == {
        "decode": StepTimes(1, 1.0),
        "decode, 3 drafted": StepTimes(1, 2.0),
        "decode, new shape": StepTimes(1, 0.25),
        "prefill, new shape": StepTimes(1, 0.5),
    }


def test_the_error_is_relative_and_says_in_which_direction() -> None:
    assert MemoryStats.of(110, 100, 120, 5).error_ratio == pytest.approx(0.1)
    assert MemoryStats.of(90, 100, 120, 5).error_ratio == pytest.approx(-0.1)
    assert MemoryStats.of(90, 0, 0, 0).error_ratio == 0.0


def test_a_sample_is_due_every_half_second() -> None:
    monitor = Monitor()
    monitor.sample(None, [], 10.0, Counters())
    assert monitor.memory is None  # nothing is estimated without a memory budget
    assert not monitor.is_due(10.0 + SAMPLE_SECONDS / 2)
    assert monitor.is_due(10.0 + SAMPLE_SECONDS)


def test_an_estimate_is_what_is_held_and_not_what_is_promised() -> None:
    budget = Budget(10**9)
    for name, size in (("weights", 1000), ("prefixes", 200), ("images", 30), ("reserved", 10**6)):
        budget.hold(name, size)
    admission = Admission(budget, MemoryModel((AttentionCost(None, 2),), state=5))
    assert admission.held([]) == 1230
    reads, speaks = seq(1000), seq(600)
    reads.computed.tokens, speaks.computed.tokens = 500, 599
    monitor = Monitor()
    monitor.sample(admission, [reads, speaks], 1.0, Counters())
    assert monitor.memory is not None
    assert monitor.memory.estimate_bytes == 1230 + 2 * 5 + 2 * (capacity(None, 500) + capacity(None, 599))
    assert monitor.memory.active_bytes >= 0 and monitor.memory.peak_bytes >= monitor.memory.active_bytes


def test_throughput_is_that_of_the_latest_samples_and_ends_with_the_work() -> None:
    monitor = Monitor()
    assert monitor.throughput(0.0, Counters()).generation_tokens_per_second == 0.0
    for step in range(100):
        counters = Counters(prompt_tokens=step * 100, generation_tokens=step * 10)
        monitor.sample(None, [], step * SAMPLE_SECONDS, counters)
    now = 99 * SAMPLE_SECONDS
    assert monitor.throughput(now, counters, 0.25) == ThroughputStats(0.25, 200.0, 20.0)
    assert monitor.throughput(now + WINDOW_SECONDS / 2, counters).generation_tokens_per_second < 20.0
    assert monitor.throughput(now + WINDOW_SECONDS + 1, counters).generation_tokens_per_second == 0.0


class Ending:
    """An engine whose thread takes its caches away as soon as someone has looked at them."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._left = engine, {"prefix": engine.prefix, "sparse": engine.sparse}

    def __getattr__(self, name: str) -> Any:
        return self._left.pop(name, None) if name in ("prefix", "sparse") else getattr(self._engine, name)


def test_an_engine_may_end_while_its_statistics_are_read(llama: Path) -> None:
    engine: Any = Ending(SparseStepper(llama, cache=1 << 20).engine)
    seen = stats.snapshot(engine, 0.0)
    assert seen.prefix_cache.enabled and seen.specprefill.enabled
    again = stats.snapshot(engine, 0.0)
    assert not again.prefix_cache.enabled and not again.specprefill.enabled
