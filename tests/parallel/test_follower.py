from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any, cast

import pytest

from paceline.errors import LoadError
from paceline.parallel import follower
from paceline.ranks.channel import ChannelClosed
from paceline.ranks.leaving import DONE, LOST
from paceline.settings import Settings
from tests.parallel.recorded import Player


class Left(BaseException):
    """In place of the process's end."""


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr(follower, "leave", leave)


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Startup:
    """In place of the engine's, which fails or gives what the test wants."""

    outcome: Any = None

    def __init__(self, *_: object, **__: object) -> None: ...

    def build(self, wake: object) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.mark.usefixtures("left")
def test_the_end_of_rank_0_is_the_end() -> None:
    for reason, code in (("", DONE), ("Rank 0 is gone: reset", LOST)):
        with pytest.raises(Left, match=str(code)):
            follower.ended(reason)


@pytest.mark.usefixtures("left")
def test_rank_0_hears_why_a_rank_could_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "Startup", Startup)
    monkeypatch.setattr(Startup, "outcome", LoadError("no such weights"))
    link = Player([])
    with pytest.raises(LoadError):
        follower.follow(Settings(), cast(Any, link))
    assert link.said == [("lost", {"reason": "no such weights"})]


@pytest.mark.usefixtures("left")
def test_rank_0_hears_why_a_rank_could_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(follower, "Startup", Startup)
    monkeypatch.setattr(follower, "obey", fails)
    link = Player([])
    with pytest.raises(Left, match=str(LOST)):
        follower.follow(Settings(), cast(Any, link))
    assert link.said == [("lost", {"reason": "RuntimeError: the device is gone"})]


@pytest.mark.usefixtures("left")
def test_a_rank_0_that_is_gone_need_not_hear_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise ChannelClosed("reset")

    monkeypatch.setattr(follower, "Startup", Startup)
    monkeypatch.setattr(Startup, "outcome", LoadError("no such weights"))
    link = Player([])
    monkeypatch.setattr(link, "send", gone)
    with pytest.raises(LoadError):
        follower.follow(Settings(), cast(Any, link))


@pytest.mark.usefixtures("handlers")
def test_a_signal_to_all_ranks_leaves_rank_0_time_to_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[float, tuple[int, ...]]] = []

    class Timer:
        daemon = False

        def __init__(self, seconds: float, work: object, arguments: tuple[int, ...]) -> None:
            made.append((seconds, arguments))

        def start(self) -> None: ...

    monkeypatch.setattr("paceline.parallel.follower.threading.Timer", Timer)
    follower.outlive_signals(30.0)
    signal.raise_signal(signal.SIGTERM)
    assert made == [(30.0 + follower.MARGIN_SECONDS, (DONE,))]
