"""Deltas on their way from the engine's thread to the callers' event loops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from paceline.errors import SlowReader
from paceline.types import Delta

log = logging.getLogger("paceline")
MAX_READS_WITHOUT_YIELD = 32  # deltas of one stream that are read before other tasks of the event loop run


class DeltaDispatcher:
    """Collects a step's deltas on the engine's thread and wakes each event loop once per step."""

    def __init__(self) -> None:
        self._outgoing: list[tuple[DeltaStream, Delta]] = []

    def put(self, stream: DeltaStream, delta: Delta) -> None:
        """On the engine's thread."""
        self._outgoing.append((stream, delta))

    def flush(self) -> None:
        """On the engine's thread, after each step."""
        outgoing, self._outgoing = self._outgoing, []
        for loop in {stream.loop for stream, _ in outgoing}:
            deltas = [(stream, delta) for stream, delta in outgoing if stream.loop is loop]
            try:
                loop.call_soon_threadsafe(_deliver_all, deltas)
            except RuntimeError:  # the loop is closed, and its callers are gone
                log.debug("%d deltas had no reader", len(deltas))


class DeltaStream:
    """One request's deltas, on its caller's event loop. More than `max_unread` unread tokens abort the request."""

    def __init__(self, dispatcher: DeltaDispatcher, max_unread: int, on_overflow: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self._dispatcher = dispatcher
        self._max_unread = max_unread
        self._on_overflow = on_overflow
        self._unread = 0  # tokens
        self._queue: asyncio.Queue[Delta] = asyncio.Queue()
        self._overflowed = False
        self._reads_without_yield = 0

    def sink(self, index: int) -> Callable[[Delta], None]:
        if index == 0:
            return lambda delta: self._dispatcher.put(self, delta)
        return lambda delta: self._dispatcher.put(self, replace(delta, index=index))

    def deliver(self, delta: Delta) -> None:
        if self._overflowed:
            return
        self._unread += len(delta.token_ids)
        if self._unread > self._max_unread:
            self._overflowed = True
            self._on_overflow()
            while not self._queue.empty():
                self._queue.get_nowait()
            refusal = SlowReader(f"The answer was not read: {self._unread} tokens of it were waiting.")
            delta = Delta(finish_reason="error", error=str(refusal), refusal=refusal)
        self._queue.put_nowait(delta)

    async def get(self) -> Delta:
        """Yields to the event loop now and then, however long the backlog is."""
        self._reads_without_yield = 0 if self._queue.empty() else self._reads_without_yield + 1
        if self._reads_without_yield >= MAX_READS_WITHOUT_YIELD:
            self._reads_without_yield = 0
            await asyncio.sleep(0)
        delta = await self._queue.get()
        self._unread -= len(delta.token_ids)
        return delta


def _deliver_all(deltas: list[tuple[DeltaStream, Delta]]) -> None:
    for stream, delta in deltas:
        stream.deliver(delta)
