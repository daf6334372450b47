"""Stopping politely: the gate that new work passes, and the uvicorn server that waits for it to empty."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from paceline.errors import EngineUnavailable
from paceline.ranks.leaving import leave
from paceline.server.http.errors import error_response

GRACE_SECONDS = 2.0  # between the engine's failure and the process's end
LAST_WORDS_SECONDS = 5.0  # after a second signal: for the errors that end streams
FLUSH_POLL_SECONDS = 0.02

logger = logging.getLogger("paceline.server")


class DrainGate:
    """Counts requests in flight. A closed gate admits no new ones and lets those in flight finish."""

    def __init__(self) -> None:
        self.closed = False
        self.why = "The server is shutting down."  # for those who come to a closed gate
        self.inside = 0
        self._hurried = False
        self._waited_for = asyncio.Event()  # what `emptied` waits for
        self._waited_for.set()

    def enter(self) -> None:
        self.inside += 1
        if not self._hurried:
            self._waited_for.clear()

    def leave(self) -> None:
        self.inside -= 1
        if self.inside == 0:
            self._waited_for.set()

    def hurry(self) -> None:
        """Nobody waits any longer for requests in flight."""
        self._hurried = True
        self._waited_for.set()

    async def emptied(self, seconds: float) -> bool:
        """Wait until no request is in flight; False when that took longer than `seconds`, or there is a hurry."""
        try:
            async with asyncio.timeout(seconds):
                await self._waited_for.wait()
        except TimeoutError:
            return False
        return self.inside == 0


class DrainMiddleware:
    """ASGI middleware: work (every POST) passes the gate; a look at the server's state always may."""

    def __init__(self, app: ASGIApp, gate: DrainGate, on_refusal: Callable[[], None] = lambda: None) -> None:
        self.app = app
        self.gate = gate
        self.on_refusal = on_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        if self.gate.closed:
            self.on_refusal()
            response = error_response(EngineUnavailable(self.gate.why), scope["path"])
            response.headers["connection"] = "close"
            # Closed with bytes unread, the connection would be reset, and the answer lost with it.
            while (await receive()).get("more_body"):
                pass
            await response(scope, receive, send)
            return
        self.gate.enter()
        try:
            await self.app(scope, receive, send)
        finally:
            self.gate.leave()


class DrainingServer(uvicorn.Server):
    """The first signal closes the gate and waits for the requests inside. The second ends them with an error and the
    process after that, a third the process at once. While the model loads, the first one does what the second does.

    An engine that has given up (`failure` says why) ends the server too, after a moment: for clients in flight to read
    their error, and for probes to see it. `failed` is then the reason.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        gate: DrainGate,
        drain_seconds: float,
        stop: Callable[[], Awaitable[None]],
        failure: Callable[[], str | None] = lambda: None,
        loading: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(config)
        self.gate = gate
        self.drain_seconds = drain_seconds
        self.stop = stop
        self.failure = failure
        self.loading = loading
        self.failed: str | None = None
        self._failed_at = 0.0
        self._exit_code: int | None = None  # the process ends with it as soon as clients have been told
        self._loop: asyncio.AbstractEventLoop | None = None

    async def on_tick(self, counter: int) -> bool:
        """uvicorn's, ten times a second; True ends the server."""
        if self.failed is None:
            self.failed, self._failed_at = self.failure(), time.monotonic()
            if self.failed is not None:
                logger.critical("%s The server ends.", self.failed)
        elif time.monotonic() - self._failed_at >= GRACE_SECONDS:
            return True
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not handed to uvicorn, which would raise the signal again at the end: a drained server exits with 0.
        if self._exit_code is not None:
            leave(self._exit_code)
        if self.loading():  # which cannot be interrupted
            logger.info("stopped while the model was loading")
            if not self.gate.inside:
                leave(0)
            self._end_soon(0)
        elif self.should_exit:
            self._end_soon(128 + signal.Signals(sig).value)
        self.gate.closed = True
        self.should_exit = True

    def _end_soon(self, code: int) -> None:
        """Whatever the event loop and the engine do."""
        self._exit_code = code
        if self._loop is not None:  # threadsafe: this also wakes a loop that sleeps
            self._loop.call_soon_threadsafe(self.gate.hurry)
        last = threading.Timer(LAST_WORDS_SECONDS, leave, (code,))
        last.daemon = True
        last.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.gate.closed = True
        seconds = self.drain_seconds if self.failed is None and self._exit_code is None else 0
        if self.gate.inside and seconds:
            logger.info(
                "shutting down: unfinished requests (%d) have %g seconds; a second signal ends them at once",
                self.gate.inside,
                seconds,
            )
        if not await self.gate.emptied(seconds):
            logger.warning("shutting down: unfinished requests (%d) end with an error", self.gate.inside)
            if not self.loading():
                await self.stop()  # ends what still runs, so that its clients read an error, not a cut connection
        if self._exit_code is not None:
            await self._flush()
            leave(self._exit_code)
        await super().shutdown(sockets)

    async def _flush(self) -> None:
        """Until every client has read its end. One that does not read is cut off with the process."""
        for connection in list(self.server_state.connections):
            connection.shutdown()
        while self.server_state.connections:
            await asyncio.sleep(FLUSH_POLL_SECONDS)
