"""A model's process, from inside: `paceline worker`, which only a front starts.

Its standard input is a socket to the front. The first line that comes from it has the settings; the socket's end means
that the front is gone, however it ended, and so the process ends too. Lines to the front say how the load goes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from paceline.ranks.leaving import leave
from paceline.server.http.behind_front import BehindFront
from paceline.server.http.drain import DrainGate
from paceline.server.state import Backend
from paceline.settings import Settings

LEAVE = "leave"  # the front's word: end if nothing runs
PROGRESS_SECONDS = 0.2  # between two reports of a load
MakeBackend = Callable[[Settings, Callable[[str, int, int], None]], Backend]

logger = logging.getLogger("paceline.front")


class Worker:
    """The process's end of the control socket."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.gate = DrainGate()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._lines = control.makefile("rb")
        self._lock = threading.Lock()
        self._reported_at = 0.0

    def settings(self) -> Settings:
        return Settings.model_validate(json.loads(self._lines.readline()))

    def watch(self) -> None:
        """From now on the front's end is this process's end."""
        threading.Thread(target=self._watch, name="paceline-front", daemon=True).start()

    def tell(self, **words: Any) -> None:
        try:
            with self._lock:
                self.control.sendall(json.dumps(words).encode() + b"\n")
        except OSError:
            leave(0)

    def progress(self, stage: str, done: int, total: int) -> None:
        if done >= total or time.monotonic() - self._reported_at >= PROGRESS_SECONDS:
            self._reported_at = time.monotonic()
            self.tell(progress=[stage, done, total])

    def started(self, failure: Exception | None) -> None:
        self.loop = asyncio.get_running_loop()
        if failure is None:
            self.tell(loaded=True)
        else:
            reason = str(failure) or type(failure).__name__
            self.gate.why = f"The model cannot be loaded: {reason}"  # for streams that wait for it
            self.tell(failed=reason)

    def _watch(self) -> None:
        try:
            while line := self._lines.readline():
                if json.loads(line).get("do") == LEAVE:
                    if self.loop is None:
                        self.tell(leaving=False)
                    else:
                        self.loop.call_soon_threadsafe(self._leave_if_idle)
        except (OSError, ValueError):
            pass
        leave(0)

    def _leave_if_idle(self) -> None:
        """Only this process knows what runs without a client, as responses in the background do."""
        idle = self.gate.inside == 0
        if idle:
            self.gate.closed = True
        self.tell(leaving=idle)
        if idle:
            os.kill(os.getpid(), signal.SIGTERM)


def run(
    listener: socket.socket, control: socket.socket, prepare: Callable[[Settings], None], make: MakeBackend
) -> None:
    """Serve one model until the front says otherwise. `prepare`: what comes before MLX is imported."""
    worker = Worker(control)
    settings = worker.settings()
    worker.watch()
    try:
        prepare(settings)
        from paceline.server import app

        app.run(make(settings, worker.progress), settings, BehindFront(listener, worker.gate, worker.started))
    except Exception as error:
        worker.tell(failed=str(error) or type(error).__name__)
        raise
