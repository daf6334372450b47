"""Processes that answer on a loopback port while a client is tried."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

MODEL = "tiny"
START_SECONDS = 180


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    command: list[str], address: str, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[None]:
    """A process, from when its address answers."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, cwd=cwd)
    deadline = time.monotonic() + START_SECONDS
    try:
        while True:
            try:
                urllib.request.urlopen(address, timeout=5).close()
                break
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError(f"{command} ended with {process.returncode}") from None
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{address} does not answer") from None
                time.sleep(0.25)
        yield
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
