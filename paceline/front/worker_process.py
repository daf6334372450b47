"""One model's process as the front sees it: started, loaded, asked to leave, gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.front.client import Client
from paceline.front.worker import LEAVE
from paceline.settings import Settings

COMMAND = (sys.executable, "-m", "paceline", "worker")
BACKLOG = 2048
STOP_SECONDS = 10.0  # after SIGTERM: for errors that end streams, then SIGKILL
LEAVE_SECONDS = 10.0  # for the answer to a question whether it is idle

logger = logging.getLogger("paceline.front")


class WorkerProcess:
    """Whole when `start` returns. `loaded` is done when the model can be used, or raises what prevented it."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket, path: Path, name: str) -> None:
        self.name = name
        self.process = process
        self.client = Client(path)
        self.loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.progress: tuple[str, int, int] | None = None
        self.failure: str | None = None
        self._path = path
        self._control = control
        self._leaving: asyncio.Future[bool] | None = None
        self.stopping = False
        self._tasks = [asyncio.create_task(self._listen())]
        self.ended: asyncio.Task[int] = asyncio.create_task(self._wait())

    @classmethod
    async def start(cls, settings: Settings, path: Path, name: str, command: Sequence[str] = COMMAND) -> WorkerProcess:
        """The socket listens before the process does: requests may come at once."""
        ours, theirs = socket.socketpair()
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(str(path))
            listener.listen(BACKLOG)
            process = await asyncio.create_subprocess_exec(
                *command,
                str(listener.fileno()),
                name,
                stdin=theirs.fileno(),
                pass_fds=(listener.fileno(),),
                start_new_session=True,  # the terminal's Ctrl+C is for the front, which lets requests finish
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            listener.close()
        ours.setblocking(False)
        worker = cls(process, ours, path, name)
        given = settings.model_dump_json(include=settings.model_fields_set)
        await worker._say(given.encode())
        return worker

    @property
    def pid(self) -> int:
        return self.process.pid

    async def leave(self) -> bool:
        """Ask the process to end if nothing runs in it; False: something does."""
        if self._leaving is not None or self.ended.done():
            return self.ended.done()
        self._leaving = asyncio.get_running_loop().create_future()
        try:
            await self._say(json.dumps({"do": LEAVE}).encode())
            async with asyncio.timeout(LEAVE_SECONDS):
                leaving = await self._leaving
        except (TimeoutError, OSError):
            return False
        finally:
            self._leaving = None
        if leaving:
            await self._ended_within(STOP_SECONDS)
        return leaving

    async def stop(self) -> None:
        """End it: what still runs in it gets an error."""
        self.stopping = True
        if not self.ended.done():
            self._signal(signal.SIGTERM)
            await self._ended_within(STOP_SECONDS)

    # -- inside

    async def _ended_within(self, seconds: float) -> None:
        done, _ = await asyncio.wait([self.ended], timeout=seconds)
        if not done:
            logger.warning("%s: its process does not end, and is killed", self.name)
            self._signal(signal.SIGKILL)
            await asyncio.wait([self.ended])

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def _say(self, line: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._control, line + b"\n")

    async def _listen(self) -> None:
        loop, unread = asyncio.get_running_loop(), b""
        with contextlib.suppress(OSError):
            while received := await loop.sock_recv(self._control, 4096):
                *lines, unread = (unread + received).split(b"\n")
                for line in lines:
                    self._hear(json.loads(line))

    def _hear(self, words: dict[str, Any]) -> None:
        match words:
            case {"progress": [stage, done, total]}:
                self.progress = (stage, done, total)
            case {"loaded": True} if not self.loaded.done():
                self.loaded.set_result(None)
            case {"failed": reason}:
                self.failure = str(reason)
            case {"leaving": leaving}:
                self.stopping = self.stopping or bool(leaving)  # also if nobody waits for the answer any longer
                if self._leaving is not None and not self._leaving.done():
                    self._leaving.set_result(bool(leaving))

    async def _wait(self) -> int:
        code = await self.process.wait()
        await asyncio.wait(self._tasks, timeout=1.0)  # its last words may still be on their way
        for task in self._tasks:
            task.cancel()
        self._control.close()
        self.client.close()
        self._path.unlink(missing_ok=True)
        if not self.loaded.done():
            self.loaded.set_exception(ChildProcessError(self.failure or ended_by(code)))
            self.loaded.exception()  # nobody has to ask
        if self._leaving is not None and not self._leaving.done():
            self._leaving.set_result(True)
        return code


def ended_by(code: int) -> str:
    if code >= 0:
        return f"its process ended with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    more = ", as by a lack of memory" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{more}"
