"""Where the time of a start goes, for the log."""

from __future__ import annotations

import time
from collections.abc import Callable


class Phases:
    """Each `done` ends a phase, which began where the one before it ended."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._begun = self._last = clock()
        self._seconds: dict[str, float] = {}

    def done(self, name: str) -> None:
        now = self._clock()
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._last
        self._last = now

    def line(self) -> str:
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in self._seconds.items())
        return f"{self._last - self._begun:.1f} s: {parts}"
