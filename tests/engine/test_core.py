"""Steps of the engine core: what they cost the host stays the same, and nothing grows."""

from __future__ import annotations

import gc
import resource
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import mlx.core as mx
import pytest

from paceline.engine import core
from paceline.engine.in_flight import InFlightStep, Token
from paceline.engine.plan import PrefillChunk, StepPlan
from paceline.engine.policy import Fair
from paceline.engine.queueing import Timeouts
from paceline.engine.sequence import Sequence, Siblings
from paceline.types import Prompt, RequestId, Sampling
from tests.engine.stepper import Stepper, counts_passes
from tests.integration.test_exactness import prompt
from tests.integration.test_grammar import InTurns
from tests.lengths import turns
from tests.reference import greedy_text

Tiny = Callable[..., Path]


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.own_process
def test_thousands_of_steps_with_sequences_that_come_and_go_grow_nothing(tiny: Tiny) -> None:
    folder = tiny("hybrid", layers=4)
    stepper = Stepper(folder, "similar", chunk=32)

    def run(steps: int, names: str) -> None:
        count = 0
        for _ in range(steps):
            stepper.heard = {name: heard for name, heard in stepper.heard.items() if heard.finish_reason is None}
            while len(stepper.heard) < 4:
                count += 1
                stepper.greedy(f"{names}{count}", prompt(5 + count % 23), 7 + count % 29)
            stepper.step()

    run(turns(1000, 500), "warm")
    gc.collect()
    mx.clear_cache()
    before = resident_bytes()
    run(turns(4000, 1500), "row")
    gc.collect()
    mx.clear_cache()
    assert resident_bytes() - before < 20 << 20


def host_work(stepper: Stepper) -> tuple[int, int]:
    """What the host does in a step, the median of some: calls of functions, and bytes that it needs meanwhile."""
    calls, needed = [], []
    for _ in range(21):
        events = Counter[str]()
        sys.setprofile(lambda frame, event, argument: events.update((event,)))  # noqa: B023
        stepper.step()
        sys.setprofile(None)
        calls.append(events["call"] + events["c_call"])
    tracemalloc.start()
    for _ in range(21):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        stepper.step()
        needed.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return sorted(calls)[10], sorted(needed)[10]


@pytest.mark.slow
def test_a_late_step_is_as_much_work_for_the_host_as_an_early_one(tiny: Tiny) -> None:
    steps = turns(4000, 1200, 500)
    stepper = Stepper(tiny("llama", layers=2), "similar")
    stepper.submit("long", prompt(8), Sampling(temperature=0, max_tokens=steps + 200, ignore_eos=True, stop=("never",)))
    stepper.step(50)
    early = host_work(stepper)
    stepper.step(steps)
    late = host_work(stepper)
    assert late[0] <= early[0] + 5
    assert late[1] < early[1] + 4 * steps  # a list of all tokens takes twice as much


@pytest.mark.slow
def test_the_pool_is_cleared_once_in_many_steps(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared: list[int] = []
    monkeypatch.setattr(core, "TIDY_STEPS", 256)
    stepper = Stepper(llama)
    monkeypatch.setattr(mx, "clear_cache", lambda: cleared.append(stepper.engine.counters.steps))
    stepper.greedy("row", prompt(4), 600)
    stepper.finish()
    assert cleared == [256, 512]


@counts_passes
def test_prompts_and_embeddings_alone_are_tidied_up_after_as_decoding_is(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = Stepper(llama, chunk=8)
    cleared: list[int] = []
    relaxed: list[int] = []
    monkeypatch.setattr(core, "TIDY_STEPS", 4)
    monkeypatch.setattr(core, "RECOVERY_STEPS", 3)
    monkeypatch.setattr(mx, "clear_cache", lambda: cleared.append(stepper.engine.counters.steps))
    monkeypatch.setattr(stepper.engine.scheduler, "recover", lambda: relaxed.append(stepper.engine.counters.steps))
    stepper.submit("pooled", Prompt(prompt(80), cached=False, pooling="mean"), Sampling())
    stepper.finish()
    assert (stepper.engine.counters.steps, stepper.engine.counters.decode_steps) == (10, 0)
    assert (cleared, relaxed) == ([4, 8], [3, 6, 9])


def test_a_prompt_that_a_lost_step_sets_back_is_not_prefilled_by_the_step_behind_it(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a grammar's masks the step before is read when the next is planned already."""
    stepper = Stepper(llama, chunk=16)
    rows = [stepper.greedy(str(length), prompt(length), 30) for length in (4, 5)]
    ruled = Sampling(temperature=0, max_tokens=30, ignore_eos=True)
    stepper.submit("ruled", prompt(6), ruled, InTurns(stepper.model.language.vocab_size, 1))
    stepper.step(4)
    long = stepper.greedy("long", prompt(100), 4)
    stepper.step(2)
    scheduler, runner = stepper.engine.scheduler, stepper.runner
    collect, wait, prefill = runner.collect, runner.wait, runner.prefill
    running: list[bool] = []

    def loses(step: InFlightStep) -> list[Token]:
        monkeypatch.setattr(runner, "collect", collect)
        monkeypatch.setattr(runner, "wait", has_no_memory)
        raise RuntimeError("a passing fault")

    def has_no_memory(arrays: list[mx.array]) -> None:
        monkeypatch.setattr(runner, "wait", wait)
        raise MemoryError

    def noted(seq: Sequence, tokens: int) -> list[mx.array]:
        running.append(seq in scheduler.running)
        return prefill(seq, tokens)

    monkeypatch.setattr(runner, "collect", loses)
    monkeypatch.setattr(runner, "prefill", noted)
    stepper.finish()
    assert scheduler.preemptions["memory"] == 1 and all(running)
    assert long.tokens == greedy_text(llama, prompt(100), 4)
    assert [row.tokens for row in rows] == [greedy_text(llama, prompt(length), 30) for length in (4, 5)]


def test_a_step_does_nothing_for_sequences_of_its_plan_that_no_longer_run(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = Stepper(llama, max_rows=1)
    stepper.greedy("runs", prompt(4), 30)
    stepper.greedy("waits", prompt(20), 30)
    stepper.step(3)
    stepper.settle()
    done: list[str] = []
    for owner, name in ((stepper.runner, "prefill"), (stepper.runner, "encode"), (stepper.engine, "_score")):
        monkeypatch.setattr(owner, name, lambda *_, name=name: done.append(name))

    def reads(chunks: Iterable[tuple[Sequence | None, int]]) -> None:
        done.extend(seq.id for seq, _ in chunks if seq is not None)

    monkeypatch.setattr(stepper.runner, "read_drafts", reads)
    for name, expected in (("waits", []), ("runs", ["prefill", "encode", "_score", "runs"])):
        id, chunk = RequestId(name), PrefillChunk(RequestId(name), 3)
        stepper.engine._launch(StepPlan(prefill=(chunk,), encode=id, score=id, draft_prefill=(chunk,)), [], None)
        assert done == expected


def test_a_sequence_that_exceeds_the_memory_ends_with_what_it_has_said_or_with_an_error(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = Stepper(llama)
    scheduler, exceeding = stepper.engine.scheduler, list[RequestId]()
    plan = scheduler.plan
    planned = lambda now: StepPlan(exceeds_memory=exceeding.pop()) if exceeding else plan(now)  # noqa: E731
    monkeypatch.setattr(scheduler, "plan", planned)
    heard = stepper.greedy("said", prompt(4), 100)
    stepper.step(6)
    exceeding.append(RequestId("said"))
    stepper.finish()
    assert (heard.finish_reason, 0 < len(heard.tokens) < 100) == ("length", True)
    silent = stepper.greedy("silent", prompt(4), 100)
    exceeding.append(RequestId("silent"))
    stepper.finish()
    assert (silent.finish_reason, silent.tokens) == ("error", [])
    assert "memory does not suffice" in str(silent.deltas[-1].error)


def test_a_sequence_past_its_deadline_is_refused_and_the_others_go_on(llama: Path) -> None:
    stepper = Stepper(llama, max_rows=1)
    now = 100.0
    stepper.engine.timeouts, stepper.engine.clock = Timeouts(queue=10.0), lambda: now
    first, second = stepper.greedy("first", prompt(4), 60), stepper.greedy("second", prompt(5), 60)
    stepper.step(4)
    now += 11
    stepper.finish()
    assert (first.finish_reason, len(first.tokens)) == ("length", 60)
    assert second.finish_reason == "error" and second.deltas[-1].refusal is not None


def test_prompts_count_for_the_policy(llama: Path) -> None:
    stepper = Stepper(llama, chunk=8)
    policy = stepper.engine.scheduler.policy = Fair()
    stepper.greedy("row", prompt(30), 4)
    stepper.step(3)
    assert policy.accounts[""] >= 16
    stepper.finish()


def test_a_request_beyond_the_queue_is_refused_and_counted_once(llama: Path) -> None:
    stepper = Stepper(llama, max_rows=1)
    stepper.engine.timeouts = Timeouts(max_queue=1)
    heard = [stepper.greedy(f"row {place}", prompt(4 + place), 8) for place in range(4)]
    stepper.finish()
    assert [each.finish_reason for each in heard] == ["length", "length", "error", "error"]
    assert sum(stepper.engine.counters.refused.values()) == 2


def test_a_request_of_several_choices_is_counted_once_when_its_time_is_over(llama: Path) -> None:
    stepper = Stepper(llama, max_rows=1)
    now = 100.0
    stepper.engine.timeouts, stepper.engine.clock = Timeouts(queue=10.0), lambda: now
    stepper.greedy("runs", prompt(4), 30)
    heard = []
    for request in ("one", "two"):
        names = [f"{request}/{choice}" for choice in range(3)]
        heard += [stepper.greedy(name, prompt(5), 8) for name in names]
        siblings = Siblings(stepper.engine.seqs[RequestId(name)] for name in names)
        for seq in siblings:
            seq.siblings = siblings
    stepper.step(4)
    now += 11
    stepper.finish()
    assert [each.finish_reason for each in heard] == ["error"] * 6
    assert dict(stepper.engine.counters.refused) == {"queue_timeout": 2}
