"""Replicas on this machine, and a router before them, for as long as a bench needs them."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from paceline.bench.wire import Address, BenchError, exchange

START_SECONDS = 600.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.2
LOG_CHARACTERS = 2000  # of a process that did not come up
CONVERSATION_HEADER = "X-Conversation-Id"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def find_smg(path: str | None) -> str | None:
    """The executable: the one that was named, or one on the path."""
    if path is None:
        return shutil.which("smg")
    if (found := shutil.which(path)) is None:
        raise BenchError(f"There is no program {path}: `pip install smg` has one, in an environment of its own.")
    return found


def replica_command(model: str | None, port: int) -> list[str]:
    command = [sys.executable, "-m", "paceline", "serve", *([] if model is None else [model])]
    return [*command, "--port", str(port), "--log-level", "warning"]


def smg_command(smg: str, port: int, replicas: Sequence[Address], policy: str, more: Sequence[str] = ()) -> list[str]:
    """As examples/scale-out/smg.sh starts it."""
    command = [smg, "launch", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--worker-urls", *map(str, replicas)]
    command += ["--policy", policy, "--health-check-endpoint", "/ready"]
    command += ["--prometheus-port", str(free_port()), "--log-level", "warn", "--history-backend", "none"]
    return [*command, *more]


@contextlib.asynccontextmanager
async def running(command: Sequence[str], port: int, ready: str) -> AsyncIterator[Address]:
    """A process from when `ready` answers with 200 until SIGTERM has ended it."""
    address = Address("127.0.0.1", port)
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            await _until_ready(process, address, ready, log)
            yield address
        finally:
            await asyncio.to_thread(_stop, process)


async def _until_ready(process: subprocess.Popen[bytes], address: Address, path: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not (await exchange(address, "GET", path, timeout=10.0)).accepted:
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(errors="replace")[-LOG_CHARACTERS:]
            raise BenchError(f"{process.args!r} did not come up:\n{said}")
        await asyncio.sleep(POLL_SECONDS)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.asynccontextmanager
async def replicas_of(model: str | None, count: int) -> AsyncIterator[list[Address]]:
    """One after another: a checkpoint is read once from the disk, and then from memory."""
    async with contextlib.AsyncExitStack() as stack:
        addresses = []
        for _ in range(count):
            port = free_port()
            addresses.append(await stack.enter_async_context(running(replica_command(model, port), port, "/ready")))
        yield addresses


@contextlib.asynccontextmanager
async def smg_before(
    smg: str, replicas: Sequence[Address], policy: str, more: Sequence[str] = ()
) -> AsyncIterator[Address]:
    port = free_port()
    async with running(smg_command(smg, port, replicas, policy, more), port, "/readiness") as address:
        yield address
