"""Deltas on their way from the engine's thread to the callers' event loops."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from paceline.errors import SlowReader
from paceline.types import Delta

log = logging.getLogger("paceline")
MAX_MERGED = 64  # deltas of one stream


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
        self._arrived: list[Delta] = []
        self._reader: asyncio.Future[None] | None = None  # waits for something to arrive
        self._merged: deque[Delta] = deque()
        self._overflowed = False

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
            self._arrived.clear()
            self._merged.clear()
            refusal = SlowReader(f"The answer was not read: {self._unread} tokens of it were waiting.")
            delta = Delta(finish_reason="error", error=str(refusal), refusal=refusal)
        self._arrived.append(delta)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def get(self) -> Delta:
        """What a choice has produced since its last delta: the tokens of a step, or more if the reader was busy."""
        if not self._merged:
            if not self._arrived:
                self._reader = self.loop.create_future()
                await self._reader
            elif len(self._arrived) > MAX_MERGED:
                await asyncio.sleep(0)  # others run between two parts of a long backlog
            taken, self._arrived = self._arrived[:MAX_MERGED], self._arrived[MAX_MERGED:]
            self._merged.extend(taken if len(taken) == 1 else merged(taken))
        delta = self._merged.popleft()
        self._unread -= len(delta.token_ids)
        return delta


def merged(deltas: Iterable[Delta]) -> Iterator[Delta]:
    """The same with one delta for each choice, which keeps its parts, but for those that stand by themselves."""
    choices: dict[int, list[Delta]] = {}
    for delta in deltas:
        if delta.accepted is not None:  # in front of all others
            yield delta
        else:
            choices.setdefault(delta.index, []).append(delta)
    for those in choices.values():
        failed = [those.pop()] if those[-1].finish_reason in ("error", "abort") else []  # what came before it counts
        if len(those) > 1:
            yield replace(
                those[-1],
                text="".join(delta.text for delta in those),
                token_ids=tuple(token for delta in those for token in delta.token_ids),
                logprobs=tuple(entry for delta in those for entry in delta.logprobs),
                prompt=those[0].prompt,
                parts=tuple(those),
            )
        else:
            yield from those
        yield from failed


def _deliver_all(deltas: list[tuple[DeltaStream, Delta]]) -> None:
    for stream, delta in deltas:
        stream.deliver(delta)
