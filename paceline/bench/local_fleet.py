"""Replicas on this machine, and a router before them, for as long as a bench needs them."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import AsyncIterator, Sequence

from paceline.bench.process import Process
from paceline.bench.wire import Address, BenchError
from paceline.parallel.launch import free_ports

CONVERSATION_HEADER = "X-Conversation-Id"


def find_smg(path: str | None) -> str | None:
    """The executable: the one that was named, or one on the path."""
    if path is None:
        return shutil.which("smg")
    if (found := shutil.which(path)) is None:
        raise BenchError(f"There is no program {path}: `pip install smg` has one, in an environment of its own.")
    return found


def replica(model: str | None) -> Process:
    named = [] if model is None else [model]
    return Process([sys.executable, "-m", "paceline", "serve", *named, "--log-level", "warning"], "/ready")


def router(smg: str, replicas: Sequence[Address], policy: str, more: Sequence[str] = ()) -> Process:
    """As examples/scale-out/smg.sh starts it."""
    [metrics_port] = free_ports(1)
    command = [smg, "launch", "--host", "127.0.0.1", "--worker-urls", *map(str, replicas)]
    command += ["--policy", policy, "--health-check-endpoint", "/ready"]
    command += ["--prometheus-port", str(metrics_port), "--log-level", "warn", "--history-backend", "none"]
    return Process([*command, *more], "/readiness")


@contextlib.asynccontextmanager
async def replicas_of(model: str | None, count: int) -> AsyncIterator[list[Address]]:
    """One after another: a checkpoint is read once from the disk, and then from memory."""
    async with contextlib.AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(replica(model)) for _ in range(count)]
        yield [process.address for process in processes]


@contextlib.asynccontextmanager
async def smg_before(
    smg: str, replicas: Sequence[Address], policy: str, more: Sequence[str] = ()
) -> AsyncIterator[Address]:
    async with router(smg, replicas, policy, more) as process:
        yield process.address
