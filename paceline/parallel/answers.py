"""Questions that ranks would answer differently: rank 0 answers for all.

Time, free memory and texts are rank 0's alone. Everything else in the engine follows from its inputs, so a rank that
gets the same inputs and the same answers does the same work, collective for collective.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from paceline.cache.budget import Budget
from paceline.ranks.links import Follower, Leader
from paceline.ranks.orders import Kind


class RanksFailed(BaseException):
    """The ranks cannot go on together. Not an Exception: nothing in the engine may treat it as a failed step."""


class Ask(Protocol):
    """`answer` is rank 0's way to find the answer, which must be JSON."""

    leads: bool

    def __call__(self, kind: Kind, answer: Callable[[], Any]) -> Any: ...


class StepClock:
    """Stands still while an order is carried out, at rank 0's time."""

    def __init__(self) -> None:
        self._now: float | None = None

    def __call__(self) -> float:
        now = self._now
        return time.monotonic() if now is None else now

    def set(self, now: float | None) -> None:
        """None: it runs."""
        self._now = now


class Leading:
    """Rank 0: sends every order before it carries it out, and every answer as soon as it has it. Nothing is held back:
    the device may already wait for the other ranks."""

    leads = True

    def __init__(self, link: Leader, clock: StepClock) -> None:
        self.link = link
        self.clock = clock
        self._thread: int | None = None  # that carries out an order

    @contextmanager
    def order(self, kind: Kind, body: Mapping[str, Any]) -> Iterator[None]:
        now = time.monotonic()
        self.clock.set(now)
        self._send(kind, {**body, "now": now})
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = None
            self.clock.set(None)

    def __call__(self, kind: Kind, answer: Callable[[], Any]) -> Any:
        value = answer()
        if self._thread == threading.get_ident():
            self._send(kind, {"value": value})
        return value

    def _send(self, kind: Kind, body: Mapping[str, Any]) -> None:
        try:
            self.link.send(kind, body)
        except Exception as error:
            raise RanksFailed(str(error)) from error


class Following:
    """Any other rank: takes rank 0's answers as they come."""

    leads = False

    def __init__(self, link: Follower, clock: StepClock) -> None:
        self.link = link
        self.clock = clock
        self.active = False  # an order is carried out

    def __call__(self, kind: Kind, answer: Callable[[], Any]) -> Any:
        if not self.active:
            return answer()
        try:
            return self.link.take(kind).body["value"]
        except Exception as error:
            raise RanksFailed(f"{type(error).__name__}: {error}") from error


class AskedBudget(Budget):
    """A budget whose numbers are rank 0's."""

    def __init__(self, inner: Budget, ask: Ask) -> None:
        super().__init__(inner.limit, inner.headroom)
        self._inner, self._ask = inner, ask

    @property
    def usable(self) -> int:
        return self._inner.usable

    def hold(self, name: str, nbytes: int) -> None:
        self._inner.hold(name, nbytes)

    def held(self) -> dict[str, int]:
        return self._inner.held()

    def room(self, *names: str) -> int:
        return int(self._ask("bytes", lambda: self._inner.room(*names)))

    def holding(self, *names: str) -> int:
        return int(self._ask("bytes", lambda: self._inner.holding(*names)))
