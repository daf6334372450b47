"""The engine's manners: failures stay with their row, nothing is lost, nothing grows."""

from __future__ import annotations

import gc
import resource
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.cache.grouping import SIMILAR
from paceline.conversation.detokenize import ByteDetokenizer
from paceline.conversation.text import TextStream
from paceline.engine.engine import PATIENCE, Engine, Errand
from paceline.engine.request import Delta, Prompt, RequestId, Sampling
from paceline.engine.row import Row
from paceline.engine.runner import Runner
from paceline.engine.scheduler import Scheduler
from paceline.errors import EngineUnavailable
from tests.engine.stepper import Stepper, loaded
from tests.integration.test_exactness import prompt
from tests.lengths import turns
from tests.reference import greedy_text

Tiny = Callable[..., Path]


def held(stepper: Stepper) -> tuple[int, int, int, int]:
    """What an engine holds: running and waiting rows, known requests, rows in the batch."""
    engine = stepper.engine
    stepper.step(2)
    return len(engine.scheduler.running), len(engine.scheduler.waiting), len(engine._rows), len(stepper.runner.rows)


class Instead:
    """Another call in place of an object's own; all else is the object's."""

    def __init__(self, inner: Any, call: Callable[..., Any]) -> None:
        self._inner, self._call = inner, call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._call(*arguments, **options)


def test_a_row_whose_prefill_fails_ends_alone(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid, "similar")
    good = stepper.greedy("good", prompt(40), 12)
    stepper.step(3)
    bad = stepper.greedy("bad", prompt(50), 12)
    prefill = stepper.runner.prefill

    def fails(chunk: Any) -> list[mx.array]:
        if chunk.row.id == "bad":
            raise RuntimeError("no such thing")
        return prefill(chunk)

    monkeypatch.setattr(stepper.runner, "prefill", fails)
    late = stepper.greedy("late", prompt(30), 12)
    stepper.finish()
    assert (bad.finish_reason, bad.deltas[-1].error) == ("error", "no such thing")
    assert good.tokens == greedy_text(hybrid, prompt(40), 12)
    assert late.tokens == greedy_text(hybrid, prompt(30), 12)
    assert held(stepper) == (0, 0, 0, 0)


def test_a_row_whose_logits_are_not_numbers_ends_alone(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid, "similar")
    good = stepper.greedy("good", prompt(40), 20)
    bad = stepper.greedy("bad", prompt(41), 20)
    forward = stepper.runner.forward
    steps = 0

    def poisoned(*arguments: Any, **options: Any) -> Any:
        nonlocal steps
        steps += 1
        (logits, *others), close = forward(*arguments, **options)
        if steps == 5:
            place = [row.id for row in stepper.runner.rows].index(RequestId("bad"))
            logits = mx.where((mx.arange(logits.shape[0]) == place)[:, None, None], mx.nan, logits)
        return [logits, *others], close

    monkeypatch.setattr(stepper.runner, "forward", Instead(forward, poisoned))
    stepper.finish()
    assert bad.finish_reason == "error"
    assert bad.tokens == greedy_text(hybrid, prompt(41), 20)[: len(bad.tokens)]
    assert good.tokens == greedy_text(hybrid, prompt(40), 20)


def test_a_row_whose_text_fails_ends_alone(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid)
    good = stepper.greedy("good", prompt(10), 8)
    bad = stepper.greedy("bad", prompt(11), 8)
    stepper.step()

    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("not a character")

    monkeypatch.setattr(stepper.engine._rows[RequestId("bad")].text, "push", broken)
    stepper.finish()
    assert bad.finish_reason == "error"
    assert good.tokens == greedy_text(hybrid, prompt(10), 8)


def test_a_step_that_fails_once_is_run_again_and_nobody_notices(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid, "similar")
    rows = [stepper.greedy(str(n), prompt(n), 16) for n in (20, 33)]
    forward = stepper.runner.forward
    steps = 0

    def sometimes(*arguments: Any, **options: Any) -> Any:
        nonlocal steps
        steps += 1
        out = forward(*arguments, **options)
        if steps % 4 == 0:  # a step that breaks half way: begun, never closed
            raise RuntimeError("a passing fault")
        return out

    monkeypatch.setattr(stepper.runner, "forward", Instead(forward, sometimes))
    stepper.finish()
    assert [row.tokens for row in rows] == [greedy_text(hybrid, prompt(n), 16) for n in (20, 33)]
    assert stepper.engine.failure is None


def test_a_sampler_that_fails_once_changes_nobodys_tokens(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid, "similar")
    rows = [stepper.greedy(str(n), prompt(n), 16) for n in (20, 33)]
    sampler = stepper.runner.sampler
    steps = 0

    def sometimes(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps % 5 == 0:
            raise RuntimeError("a passing fault")
        return sampler(*arguments)

    monkeypatch.setattr(stepper.runner, "sampler", Instead(sampler, sometimes))
    stepper.finish()
    assert [row.tokens for row in rows] == [greedy_text(hybrid, prompt(n), 16) for n in (20, 33)]


def test_reads_that_keep_failing_stop_the_engine_too(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid)
    monkeypatch.setattr(stepper.runner, "collect", lambda launched: 1 / 0)
    for n in range(PATIENCE):
        if stepper.engine.failure is None:
            stepper.greedy(str(n), prompt(4), 3)
            stepper.step(3)
    assert stepper.engine.failure is not None
    assert {heard.finish_reason for heard in stepper.heard.values()} <= {"error", None}


def test_prompts_that_fail_are_the_devices_fault_only_if_it_can_do_nothing_else(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = Stepper(hybrid)
    monkeypatch.setattr(stepper.runner, "prefill", lambda chunk: 1 / 0)
    for n in range(2 * PATIENCE):
        stepper.greedy(f"poison {n}", prompt(9), 3)
        stepper.step(3)
    assert stepper.engine.failure is None
    monkeypatch.setattr(stepper.runner, "probe", lambda: 1 / 0)
    for n in range(PATIENCE):
        assert stepper.engine.failure is None
        stepper.greedy(f"gone {n}", prompt(9), 3)
        stepper.step(1)
    assert stepper.engine.failure is not None
    assert {heard.finish_reason for heard in stepper.heard.values()} == {"error"}


def running_engine(folder: Path) -> tuple[Engine, list[Runner]]:
    runners: list[Runner] = []

    def setup() -> Runner:
        runners.append(Runner(loaded(folder), SIMILAR, engine.ends))
        return runners[0]

    engine = Engine(setup, Scheduler(8, 64))
    engine.start()
    return engine, runners


def row(name: str, tokens: int, sink: Callable[[Delta], None], length: int = 12) -> Row:
    sampling = Sampling(temperature=0, max_tokens=tokens, ignore_eos=True)
    text = TextStream(ByteDetokenizer(lambda token: b"x"))
    return Row(RequestId(name), Prompt(prompt(length)), sampling, tokens, text, sink)


def test_failing_steps_in_a_row_stop_the_engine_and_free_everyone(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, runners = running_engine(llama)
    ended = threading.Semaphore(0)
    deltas: dict[str, list[Delta]] = {"a": [], "b": []}

    def sink(name: str) -> Callable[[Delta], None]:
        def take(delta: Delta) -> None:
            deltas[name].append(delta)
            if delta.finish_reason is not None:
                ended.release()

        return take

    calls = 0

    def fails(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        raise RuntimeError("the device is on fire")

    monkeypatch.setattr(runners[0], "forward", Instead(runners[0].forward, fails))
    while engine.failure is None and calls < 2 * PATIENCE:  # looking for the culprit counts too
        engine.submit(row("a", 8, sink("a")))
        engine.submit(row("b", 8, sink("b")))
        assert ended.acquire(timeout=60)
        assert ended.acquire(timeout=60)
    assert engine.failure is not None
    assert calls == PATIENCE
    assert "on fire" in engine.failure
    for heard in deltas.values():
        assert heard[-1].finish_reason == "error"
    with pytest.raises(EngineUnavailable, match="on fire"):
        engine.submit(row("c", 8, sink("a")))
    engine.stop()


def test_stopping_ends_what_runs_and_refuses_what_comes(llama: Path) -> None:
    engine, _ = running_engine(llama)
    first = threading.Event()
    deltas: list[Delta] = []

    def sink(delta: Delta) -> None:
        deltas.append(delta)
        first.set()

    engine.submit(row("long", 4000, sink))
    assert first.wait(timeout=60)
    engine.stop()
    assert deltas[-1].finish_reason == "abort"
    with pytest.raises(EngineUnavailable):
        engine.submit(row("late", 4, sink))


def test_whoever_wants_work_done_hears_its_result_its_error_or_why_it_is_not_done() -> None:
    done, broken, refused = (Errand(work, Future()) for work in (lambda: 7, lambda: 1 // 0, lambda: 7))
    done.run()
    assert done.result.result(0) == 7
    broken.run()
    assert isinstance(broken.result.exception(0), ZeroDivisionError)
    refused.refuse("it stops")
    with pytest.raises(EngineUnavailable, match="it stops"):
        refused.result.result(0)


def test_work_that_nobody_wants_any_more_is_not_done() -> None:
    calls: list[str] = []
    for end in (Errand.run, lambda errand: errand.refuse("it stops")):
        errand = Errand(lambda: calls.append("done"), Future())
        assert errand.result.cancel()
        end(errand)
        assert errand.result.cancelled()
    assert calls == []


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.own_process
def test_thousands_of_steps_with_rows_that_come_and_go_grow_nothing(tiny: Tiny) -> None:
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
def test_the_pool_is_cleared_at_most_once_in_256_decode_steps(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared: list[int] = []
    stepper = Stepper(llama)
    monkeypatch.setattr(mx, "clear_cache", lambda: cleared.append(stepper.engine.counters.decode_steps))
    stepper.greedy("row", prompt(4), 600)
    stepper.finish()
    assert cleared == [256, 512]
