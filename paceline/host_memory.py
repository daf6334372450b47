"""Memory that requests take before they are sequences: bodies, decoded images, patches, long texts. No MLX.

The engine's budget (cache/budget) counts arrays on the device; this counts bytes in the process. Where both lie in the
same memory (CPU, Apple silicon), what is held here is written into the budget, and nothing is granted that sequences
already use.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

from paceline.cache.budget import REQUEST_PARTS, Budget
from paceline.errors import InvalidRequest, QueueTimeout
from paceline.platform import trim_host_memory
from paceline.stats import RequestMemoryStats

SHARE = 4  # at most one part in so many of what the model leaves
MOST = 4 << 30
LARGE = 64 << 20
LOOK = 0.05  # seconds between two looks at memory that sequences may have given back

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def waits_until(deadline: float) -> Iterator[None]:
    """Raise QueueTimeout here if that time is over, and in `HostMemory.take` once it is: a request that asks for memory
    several times, after it waited for a thread, waits no longer than its queue timeout in all."""
    if time.monotonic() > deadline:
        raise QueueTimeout("The request waited to be read as long as it may.", 1)
    before = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(before)


class HostMemory:
    """Thread-safe. Grants are in order of arrival, so a large one is never passed for ever.

    `room` returns how much sequences leave now; `on_change` is called with how much is held.
    """

    def __init__(
        self,
        limit: int,
        *,
        room: Callable[[], int] | None = None,
        on_change: Callable[[int], None] = lambda held: None,
        timeout: float | None = None,
    ) -> None:
        self.limit = limit
        self.held = 0
        self._room = room
        self._on_change = on_change
        self._timeout = timeout
        self._changed = threading.Condition()
        self._queue: list[object] = []

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def try_take(self, nbytes: int) -> bool:
        """Now or not at all."""
        with self._changed:
            if self._queue or not self._fits(nbytes):
                return False
            self._take(nbytes)
            return True

    def take(self, nbytes: int, what: str, field: str | None = None) -> None:
        """Blocks its thread until there is room. Raises InvalidRequest for what never fits, QueueTimeout."""
        if nbytes > self.limit:
            raise InvalidRequest(
                f"{what} needs {_megabytes(nbytes)} of memory to be read, and this server has {_megabytes(self.limit)} "
                "for that. Send a smaller one, or give the server more memory (--memory-limit-gb).",
                field=field,
                code="memory_limit_exceeded",
            )
        ticket = object()
        until = min(_deadline.get(), math.inf if self._timeout is None else time.monotonic() + self._timeout)
        with self._changed:
            self._queue.append(ticket)
            try:
                while self._queue[0] is not ticket or not self._fits(nbytes):
                    if time.monotonic() > until:
                        raise QueueTimeout(f"{what} waited for memory as long as it may.", 1)
                    self._changed.wait(LOOK)
                self._take(nbytes)
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def give_back(self, nbytes: int) -> None:
        with self._changed:
            self._take(-nbytes)
            self._changed.notify_all()

    @contextmanager
    def holding(self, nbytes: int, what: str, field: str | None = None) -> Iterator[None]:
        if not nbytes:
            yield
            return
        self.take(nbytes, what, field)
        try:
            yield
        finally:
            if nbytes > LARGE:
                trim_host_memory()  # or what was freed would stay with the process
            self.give_back(nbytes)

    def give_back_with(self, owner: Any, nbytes: int) -> None:
        """Give `nbytes` back when `owner` is garbage-collected."""
        weakref.finalize(owner, self.give_back, nbytes).atexit = False

    def _fits(self, nbytes: int) -> bool:
        if self.held + nbytes > self.limit:
            return False
        return not self.held or self._room is None or self.held + nbytes <= self._room()

    def _take(self, nbytes: int) -> None:
        self.held += nbytes
        self._on_change(self.held)


def _megabytes(nbytes: int) -> str:
    return f"{nbytes / 1e6:.0f} MB"


@dataclass(frozen=True, slots=True)
class RequestMemory:
    """`media`: patches of images, for as long as anybody holds them. `work`: decoding and tokenizing, while it runs.

    Work never waits for media, so what holds media and waits for work always gets on.
    """

    media: HostMemory
    work: HostMemory

    @classmethod
    def of(cls, budget: Budget, wake: Callable[[], None], timeout: float | None) -> RequestMemory:
        """In the memory that the engine uses too."""
        limit = min(max(budget.usable - budget.holding("weights"), 0) // SHARE, MOST)

        def part(name: str) -> HostMemory:
            def on_change(held: int) -> None:
                budget.hold(name, held)
                if budget.holding("prefixes") > budget.room("prefixes"):
                    wake()  # an idle engine evicts nothing

            room = partial(budget.room, name, "prefixes", "draft prefixes")
            return HostMemory(limit, room=room, on_change=on_change, timeout=timeout)

        return cls(*map(part, REQUEST_PARTS))

    @classmethod
    def apart(cls, limit: int, timeout: float | None = None) -> RequestMemory:
        """In memory of its own, beside a GPU's."""
        limit = min(limit // SHARE, MOST)
        return cls(HostMemory(limit, timeout=timeout), HostMemory(limit, timeout=timeout))

    def stats(self) -> RequestMemoryStats:
        waiting = self.media.waiting + self.work.waiting
        return RequestMemoryStats(self.work.limit, self.media.held, self.work.held, waiting)
