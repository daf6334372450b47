"""An error that nobody handles ends the engine; it never ends its thread in silence."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.cache.slot_plan import SIMILAR
from paceline.engine.core import EngineCore
from paceline.engine.runner import Runner
from paceline.engine.scheduler import Scheduler
from paceline.engine.thread import EngineThread
from paceline.errors import EngineUnavailable
from paceline.types import Delta
from tests.engine.stepper import loaded
from tests.engine.test_thread import seq

WAIT = 60.0
Heard = queue.SimpleQueue[Delta]


class Parts:
    """What an engine is made of, to be broken. `after_step` is called by the engine."""

    def __init__(self, folder: Path) -> None:
        self.after_step: Callable[[], None] = lambda: None
        self.scheduler = Scheduler(2, 64)
        self.engine = EngineThread(lambda wake: self._core(folder))
        self.engine.start()

    def _core(self, folder: Path) -> EngineCore:
        self.runner = Runner(loaded(folder), SIMILAR)
        return EngineCore(self.runner, self.scheduler, on_step=lambda: self.after_step())

    def talk(self, name: str, tokens: int = 4000) -> Heard:
        heard: Heard = queue.SimpleQueue()
        self.engine.submit(seq(name, tokens, heard.put))
        return heard

    def until_gone(self) -> None:
        thread = self.engine._thread
        assert thread is not None
        thread.join(WAIT)
        assert not thread.is_alive()


def last(heard: Heard) -> Delta:
    while (delta := heard.get(timeout=WAIT)).finish_reason is None:
        pass
    return delta


def raises(error: BaseException) -> Callable[..., Any]:
    def raise_it(*arguments: Any, **options: Any) -> Any:
        raise error

    return raise_it


def break_plan(parts: Parts, fails: Callable[..., Any]) -> None:
    setattr(parts.scheduler, "plan", fails)  # noqa: B010


def break_overflow(parts: Parts, fails: Callable[..., Any]) -> None:
    setattr(parts.engine.core, "_reject_overflow", fails)  # noqa: B010


def break_after_step(parts: Parts, fails: Callable[..., Any]) -> None:
    parts.after_step = fails


def break_inbox(parts: Parts, fails: Callable[..., Any]) -> None:
    setattr(parts.engine, "_drain_inbox", fails)  # noqa: B010


@pytest.mark.parametrize("error", [RuntimeError("it broke"), SystemExit("it broke"), AssertionError("it broke")])
@pytest.mark.parametrize("breaks", [break_plan, break_overflow, break_after_step, break_inbox])
def test_an_error_that_nobody_handles_ends_everybody_with_its_words(
    llama: Path, breaks: Callable[[Parts, Callable[..., Any]], None], error: BaseException
) -> None:
    parts = Parts(llama)
    heard = [parts.talk(str(place)) for place in range(4)]  # two run, two wait
    heard[0].get(timeout=WAIT)
    breaks(parts, raises(error))
    for each in heard:
        delta = last(each)
        assert delta.finish_reason == "error"
        assert delta.error is not None and "unexpected error" in delta.error and "it broke" in delta.error
    parts.until_gone()
    assert parts.engine.failure is not None and "it broke" in parts.engine.failure
    with pytest.raises(EngineUnavailable, match="it broke"):
        parts.talk("late")
    with pytest.raises(EngineUnavailable, match="it broke"):
        parts.engine.call(lambda: None)
    parts.engine.stop()


def test_whatever_fails_while_the_engine_closes_the_rest_is_still_done(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(llama)
    heard = [parts.talk(str(place)) for place in range(3)]
    heard[0].get(timeout=WAIT)
    closed = []

    def close() -> None:
        closed.append("prefix")
        raise OSError("the disk is gone")

    nothing: Callable[..., None] = lambda *arguments: None  # noqa: E731
    prefix = SimpleNamespace(
        close=close,
        on_finish=raises(KeyError("no such entry")),
        poll=nothing,
        enforce_budget=nothing,
        pause=None,
        tolerated_error=None,
    )
    sparse = SimpleNamespace(clear=lambda: closed.append("sparse"), enforce_budget=nothing, on_admit=nothing)
    parts.engine.call(lambda: vars(parts.engine.core).update(prefix=prefix, sparse=sparse)).result(WAIT)
    parts.engine.stop()
    reasons = [last(each).finish_reason for each in heard]
    assert reasons[0] == "abort" and set(reasons[1:]) <= {"abort", "error"}  # the first one's end has failed
    assert closed == ["prefix", "sparse"]
    assert parts.engine.failure is not None and "no such entry" in parts.engine.failure
    assert not hasattr(parts.engine.core, "runner")


def test_a_call_that_was_cancelled_before_its_turn_is_not_made_and_harms_nobody(llama: Path) -> None:
    parts = Parts(llama)
    entered, go_on = threading.Event(), threading.Event()
    made: list[int] = []

    def busy() -> None:
        entered.set()
        assert go_on.wait(WAIT)

    parts.engine.call(busy)
    assert entered.wait(WAIT)
    calls = [parts.engine.call(partial(made.append, n)) for n in range(6)]
    assert [call.cancel() for call in calls[:5]] == [True] * 5
    go_on.set()
    calls[5].result(WAIT)
    assert made == [5]
    assert last(parts.talk("a", 3)).finish_reason == "length"
    assert parts.engine.failure is None
    parts.engine.stop()


def test_calls_that_were_cancelled_do_not_keep_the_engine_from_closing(llama: Path) -> None:
    parts = Parts(llama)
    entered, go_on = threading.Event(), threading.Event()

    def busy() -> None:
        entered.set()
        assert go_on.wait(WAIT)

    parts.engine.call(busy)
    assert entered.wait(WAIT)
    parts.engine._inbox.put(None)  # the stop comes first
    cancelled, waiting = (parts.engine.call(lambda: None) for _ in range(2))
    cancelled.cancel()
    heard = parts.talk("a")
    go_on.set()
    assert last(heard).finish_reason == "abort"
    with pytest.raises(EngineUnavailable):
        waiting.result(WAIT)
    parts.engine.stop()
    assert parts.engine.failure is None
