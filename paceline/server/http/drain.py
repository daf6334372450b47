"""Stopping politely: the gate that new work passes, and the uvicorn server that waits for it to empty."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import NoReturn

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from paceline.errors import EngineUnavailable
from paceline.server.http.errors import error_response

GRACE_SECONDS = 2.0  # between the engine's failure and the process's end

logger = logging.getLogger("paceline.server")


class DrainGate:
    """Counts requests in flight. A closed gate admits no new ones and lets those in flight finish."""

    def __init__(self) -> None:
        self.closed = False
        self.inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    def enter(self) -> None:
        self.inside += 1
        self._empty.clear()

    def leave(self) -> None:
        self.inside -= 1
        if self.inside == 0:
            self._empty.set()

    async def emptied(self, seconds: float) -> bool:
        """Wait until no request is in flight; False when that took longer than `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True


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
            response = error_response(EngineUnavailable("The server is shutting down."), scope["path"])
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


def leave(code: int) -> NoReturn:
    """End the process now, whatever its threads do."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # its reader may be gone
            stream.flush()
    os._exit(code)


class DrainingServer(uvicorn.Server):
    """The first signal closes the gate and waits for the requests inside; the second ends the process. While the model
    loads, the first one does.

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
        if self.loading():  # no request is in flight, and loading a model cannot be interrupted
            logger.info("stopped while the model was loading")
            leave(0)
        if self.should_exit:
            leave(128 + signal.Signals(sig).value)
        self.gate.closed = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.gate.closed = True
        seconds = self.drain_seconds if self.failed is None else 0
        if self.gate.inside and seconds:
            logger.info(
                "shutting down: %d requests may finish within %g seconds; a second signal ends them at once",
                self.gate.inside,
                seconds,
            )
        if not await self.gate.emptied(seconds):
            logger.warning("shutting down: %d unfinished requests end with an error", self.gate.inside)
            await self.stop()  # ends what still runs, so that its clients read an error, not a cut connection
        await super().shutdown(sockets)
