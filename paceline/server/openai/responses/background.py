"""Responses that run without their client: `background: true`.

The answer to such a request comes at once, or is a stream that may break. What the stream would say is kept for a
while, so that it can be read again from any event on. All of it is in memory: a restart ends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol

from paceline.errors import InvalidRequest, PacelineError
from paceline.server.http.drain import DrainGate

MAX_LOGS = 64  # streams that can be read again
MAX_BYTES = 4 << 20  # of one of them

logger = logging.getLogger("paceline.server")


class Run(Protocol):
    id: Any

    def events(self) -> AsyncGenerator[bytes, None]: ...
    def fail(self, error: Exception) -> None: ...


class EventLog:
    """A stream's events from its first one on, for any number of readers."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.bytes = 0
        self.ended = False
        self.error: Exception | None = None  # that ended it
        self._grown = asyncio.Event()

    def add(self, written: bytes) -> None:
        self.events += [event + b"\n\n" for event in written.split(b"\n\n") if event]
        self.bytes += len(written)
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        self.ended, self.error = True, error
        self._wake()

    async def read(self, start: int = 0) -> AsyncGenerator[bytes, None]:
        """From the event of this number on: events are numbered from 0 in the order in which they are sent.

        Raises what ended it before its first event.
        """
        first = True
        while True:
            if start < len(self.events):
                found = b"".join(self.events[start:])
                start = len(self.events)
                first = False
                yield found
            elif self.ended:
                if self.error is not None and not self.events:
                    raise self.error
                if first:
                    yield b""  # a stream of nothing is one
                return
            else:
                await self._grown.wait()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()


class Background:
    """The responses that run by themselves. Used on the event loop only."""

    def __init__(self, gate: DrainGate) -> None:
        self._gate = gate
        self._tasks: set[asyncio.Task[None]] = set()
        self._logs: OrderedDict[str, EventLog] = OrderedDict()

    def start(self, run: Run, *, streamed: bool, on_end: Callable[[], None] = lambda: None) -> EventLog:
        """Run it to its end, whoever reads. With `streamed`, its events can be read again."""
        log = EventLog()
        if streamed:
            self._logs[run.id] = log
            while len(self._logs) > MAX_LOGS:
                self._logs.popitem(last=False)
        task = asyncio.create_task(self._drive(run, log))
        self._gate.enter()  # a server that is stopped waits for it
        self._tasks.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._done)
        task.add_done_callback(lambda _: on_end())
        return log

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._gate.leave()

    def log(self, id: str) -> EventLog:
        log = self._logs.get(id)
        if log is None:
            raise InvalidRequest(
                "Only a response that was made with background and stream can be streamed again, and only while it is "
                "among the latest; leave stream out.",
                field="stream",
            )
        return log

    def forget(self, id: str) -> None:
        self._logs.pop(id, None)

    async def _drive(self, run: Run, log: EventLog) -> None:
        failure: Exception | None = None
        try:
            async with aclosing(run.events()) as events:
                async for event in events:
                    log.add(event)
                    if log.bytes > MAX_BYTES:
                        self.forget(run.id)
        except Exception as error:
            failure = error
            if not isinstance(error, PacelineError):
                logger.exception("the response %s failed", run.id)
            run.fail(error)
        finally:
            log.end(failure)
