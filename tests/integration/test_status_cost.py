"""What open pages cost the server: CPU time of its process, which other processes do not change."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.waiting import WAIT, until

READERS = 10
pytestmark = pytest.mark.slow


@contextmanager
def server(what: str) -> Iterator[tuple[str, Callable[[], float]]]:
    """Its address, and its CPU seconds so far."""
    command = [sys.executable, "-m", "tests.server.status_child", what]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def cpu_seconds() -> float:
        stdin.write("\n")
        stdin.flush()
        return float(stdout.readline())

    try:
        yield stdout.readline().strip(), cpu_seconds
    finally:
        stdin.close()
        process.wait(WAIT)
        stdout.close()


@contextmanager
def pages(address: str) -> Iterator[list[int]]:
    """So many open streams, and how many status events each has had."""
    counts = [0] * READERS
    sockets: list[socket.socket] = []

    def read(place: int) -> None:
        with suppress(httpx.HTTPError), client.stream("GET", "/v1/status/stream") as response:
            sockets.append(response.extensions["network_stream"].get_extra_info("socket"))
            for line in response.iter_lines():
                counts[place] += line == "event: status"

    limits = httpx.Limits(max_connections=READERS)
    client = httpx.Client(base_url=address, timeout=WAIT, limits=limits)
    threads = [threading.Thread(target=read, args=(place,), daemon=True) for place in range(READERS)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: min(counts) > 0)
        yield counts
    finally:
        for connection in sockets:
            connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(WAIT)
        client.close()


def test_ten_pages_on_a_busy_server_cost_less_than_one_percent_of_a_core_each() -> None:
    with server("64") as (address, cpu_seconds), pages(address) as counts:
        until(lambda: min(counts) > 8)  # connections are made, and the first events sent
        began, before, seen = time.monotonic(), cpu_seconds(), min(counts)
        until(lambda: min(counts) >= seen + 40)
        used, seconds = cpu_seconds() - before, time.monotonic() - began
        share = used / seconds / READERS
        print(f"64 running sequences, {READERS} pages: {100 * share:.2f}% of a core each,", end=" ")
        print(f"{1000 * used / (min(counts) - seen):.1f} ms for an event to all")
        assert share < 0.01


def test_ten_pages_on_an_idle_server_cost_nothing(hybrid: Path) -> None:
    with server(str(hybrid)) as (address, cpu_seconds):
        alone = _over(5, cpu_seconds)
        with pages(address) as counts:
            until(lambda: _over(1, cpu_seconds) < 0.05)  # the streams have begun
            seen = sum(counts)
            beside = _over(5, cpu_seconds)
            print(f"idle, for 5 s: {1000 * alone:.0f} ms of CPU alone, {1000 * beside:.0f} ms with {READERS} pages,")
            print(f"{sum(counts) - seen} events")
            assert sum(counts) == seen
            assert beside - alone < 5 * 0.001 * READERS  # a tenth of a percent each


def _over(seconds: float, cpu_seconds: Callable[[], float]) -> float:
    before = cpu_seconds()
    time.sleep(seconds)
    return cpu_seconds() - before
