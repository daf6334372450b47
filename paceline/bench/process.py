"""A server in a process of its own, for as long as a bench needs it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from paceline.bench.wire import Address, BenchError, exchange
from paceline.parallel.launch import free_ports

READY = 600.0  # seconds that loading may take
STOPPING = 60.0  # seconds that a server may take to stop
LOG_LINES = 20  # of its log, shown when it does not do what it should
GLANCE = 0.1  # seconds between two looks


class Process:
    """`command` without its port, which follows it. Its log goes to a file that is deleted at the end."""

    def __init__(self, command: Sequence[str], ready: str, env: Mapping[str, str] | None = None) -> None:
        """`ready`: a path that is answered with 200 once the server takes requests."""
        self.command = list(command)
        self.ready = ready
        self.env = {**os.environ, **(env or {})}
        [self.port] = free_ports(1)
        self.address = Address("127.0.0.1", self.port)
        self.url = str(self.address)
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="paceline-bench-")
        with self._log.open("wb") as log:
            command = [*self.command, "--port", str(self.port)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=self.env
            )
        try:
            await self._ready()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._process is not None and self._process.poll() is None:
            await asyncio.to_thread(self.stop)
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    @property
    def returncode(self) -> int | None:
        """None: it runs."""
        assert self._process is not None
        return self._process.poll()

    def stop(self) -> int:
        """Ask it to go, and wait; returns its exit status, that of a kill where it had to be one."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def last_words(self) -> str:
        return "\n".join(self.log().splitlines()[-LOG_LINES:])

    @property
    def _log(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / "server.log"

    async def _ready(self) -> None:
        deadline = time.monotonic() + READY
        while time.monotonic() < deadline:
            if self.returncode is not None:
                raise BenchError(f"The server ended while it started:\n{self.last_words()}")
            if (await exchange(self.address, "GET", self.ready, timeout=10.0)).accepted:
                return
            await asyncio.sleep(GLANCE)
        raise BenchError(f"The server was not ready after {READY:g} s:\n{self.last_words()}")
