"""The engine's thread: sequences and calls from other threads, its end, and what everybody hears of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from paceline.cache.slot_plan import SIMILAR
from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine.core import EngineCore
from paceline.engine.faults import MAX_FAILING_STEPS
from paceline.engine.runner import Runner
from paceline.engine.scheduler import Scheduler
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.engine.thread import EngineCall, EngineThread
from paceline.errors import EngineUnavailable
from paceline.types import Delta, Prompt, RequestId, Sampling
from tests.engine.stepper import Instead, loaded
from tests.integration.test_exactness import prompt


def running_engine(folder: Path) -> EngineThread:
    engine = EngineThread(lambda wake: EngineCore(Runner(loaded(folder), SIMILAR), Scheduler(8, 64)))
    engine.start()
    return engine


def seq(name: str, tokens: int, sink: Callable[[Delta], None], length: int = 12) -> Sequence:
    sampling = Sampling(temperature=0, max_tokens=tokens, ignore_eos=True)
    text = TextStream(ByteDetokenizer(lambda token: b"x"))
    return Sequence(EngineRequest(RequestId(name), Prompt(prompt(length)), sampling, tokens), text, sink)


def test_failing_steps_in_a_row_stop_the_engine_and_free_everyone(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = running_engine(llama)
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

    runner = engine.core.runner
    monkeypatch.setattr(runner, "forward", Instead(runner.forward, fails))
    while engine.failure is None and calls < 2 * MAX_FAILING_STEPS:  # looking for the culprit counts too
        engine.submit(seq("a", 8, sink("a")))
        engine.submit(seq("b", 8, sink("b")))
        assert ended.acquire(timeout=60)
        assert ended.acquire(timeout=60)
    assert engine.failure is not None
    assert calls == MAX_FAILING_STEPS
    assert "on fire" in engine.failure
    for heard in deltas.values():
        assert heard[-1].finish_reason == "error"
    with pytest.raises(EngineUnavailable, match="on fire"):
        engine.submit(seq("c", 8, sink("a")))
    engine.stop()


def test_stopping_ends_what_runs_and_refuses_what_comes(llama: Path) -> None:
    engine = running_engine(llama)
    first = threading.Event()
    deltas: list[Delta] = []

    def sink(delta: Delta) -> None:
        deltas.append(delta)
        first.set()

    engine.submit(seq("long", 4000, sink))
    assert first.wait(timeout=60)
    engine.stop()
    assert deltas[-1].finish_reason == "abort"
    with pytest.raises(EngineUnavailable):
        engine.submit(seq("late", 4, sink))


def test_whoever_wants_work_done_hears_its_result_its_error_or_why_it_is_not_done() -> None:
    done, broken, refused = (EngineCall(work, Future()) for work in (lambda: 7, lambda: 1 // 0, lambda: 7))
    done.run()
    assert done.result.result(0) == 7
    broken.run()
    assert isinstance(broken.result.exception(0), ZeroDivisionError)
    refused.refuse("it stops")
    with pytest.raises(EngineUnavailable, match="it stops"):
        refused.result.result(0)


def test_work_that_nobody_wants_any_more_is_not_done() -> None:
    calls: list[str] = []
    for end in (EngineCall.run, lambda errand: errand.refuse("it stops")):
        errand = EngineCall(lambda: calls.append("done"), Future())
        assert errand.result.cancel()
        end(errand)
        assert errand.result.cancelled()
    assert calls == []
