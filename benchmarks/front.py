"""What a front adds to each piece of a stream: pieces carry the time at which they were sent.

A process that speaks HTTP by hand sends a piece every few milliseconds. It is read in turns through its own socket and
through a front in a third process. All clocks are the machine's monotonic one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import h11

PIECE = "data: {:.7f}" + " " * 200 + "\n\n"  # as long as a chunk of an answer
TURNS = 3
LEAST = 8  # pieces of a turn

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds from the sending of a piece until it is read; `work`: processor seconds of the front for a piece, which
    other processes hardly change. None: the system does not say."""

    direct: list[float]
    through: list[float]
    work: float | None = None

    @property
    def added(self) -> float:
        return median(self.through) - median(self.direct)

    def line(self) -> str:
        def shown(times: list[float]) -> str:
            return f"{median(times) * 1e3:.3f} ms (99%: {quantiles(times, n=100)[98] * 1e3:.3f})"

        return (
            f"a piece of a stream takes {shown(self.direct)} from the process, {shown(self.through)} through the "
            f"front: {self.added * 1e3:+.3f} ms"
            + ("" if self.work is None else f", and {self.work * 1e3:.3f} ms of the front's processor time")
        )


def measure(pieces: int, interval: float, streams: int) -> Result:
    return asyncio.run(_measure(max(pieces // TURNS, LEAST), interval, streams))


async def _measure(pieces: int, interval: float, streams: int) -> Result:
    with tempfile.TemporaryDirectory() as folder, _front() as (address, front):
        path = Path(folder) / "s"
        server = await asyncio.to_thread(_direct_worker, path)
        host, _, port = address.rpartition(":")
        direct, through = list[float](), list[float]()
        begun: float | None = None
        try:
            for turn in range(TURNS + 1):
                if turn == 1:  # the one before warms up
                    begun = _processor_seconds(front)
                one, two = list[float](), list[float]()
                ways: list[tuple[list[float], Callable[[], Awaitable[Connection]]]] = [
                    (one, lambda: asyncio.open_unix_connection(str(path))),
                    (two, lambda: asyncio.open_connection(host, int(port))),
                ]
                for times, connect in ways:
                    found = await asyncio.gather(*[_read(await connect(), pieces, interval) for _ in range(streams)])
                    times += [late for stream in found for late in stream]
                if turn:
                    direct += one
                    through += two
        finally:
            server.kill()
            server.wait()
        ended = _processor_seconds(front)
        return Result(direct, through, None if begun is None or ended is None else (ended - begun) / len(through))


async def _read(connection: Connection, pieces: int, interval: float) -> list[float]:
    reader, writer = connection
    body = json.dumps({"model": "a", "stream": True, "pieces": pieces, "interval": interval}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    times = list[float]()
    while len(times) < pieces:
        line = await reader.readline()
        if not line:
            raise ConnectionError("the stream ended early")
        if line.startswith(b"data: "):
            times.append(time.monotonic() - float(line[6:].strip()))
    writer.close()
    return times


# -- the process that sends


def stamped(listener: socket.socket) -> None:
    """Serve streams of stamped pieces for ever."""

    async def serve() -> None:
        async with await asyncio.start_unix_server(_stamp, sock=listener):
            await asyncio.Event().wait()

    asyncio.run(serve())


async def _stamp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection = h11.Connection(h11.SERVER)
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            break
        elif isinstance(event, h11.ConnectionClosed):
            writer.close()
            return
    wanted = json.loads(body)
    kind = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]
    writer.write(connection.send(h11.Response(status_code=200, headers=kind)) or b"")
    async for piece in _pieces(wanted["pieces"], wanted["interval"]):
        writer.write(connection.send(h11.Data(data=piece)) or b"")
        await writer.drain()
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    writer.close()


async def _pieces(count: int, interval: float) -> AsyncIterator[bytes]:
    for _ in range(count):
        await asyncio.sleep(interval)
        yield PIECE.format(time.monotonic()).encode()


def _direct_worker(path: Path) -> subprocess.Popen[bytes]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    command = [sys.executable, "-m", "benchmarks.front", "sender", str(listener.fileno())]
    try:
        return subprocess.Popen(command, pass_fds=(listener.fileno(),))
    finally:
        listener.close()


# -- the front


@contextlib.contextmanager
def _front() -> Iterator[tuple[str, int]]:
    """A front in a process of its own; yields its address and the process's id."""
    command = [sys.executable, "-m", "benchmarks.front", "front"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"127.0.0.1:{int(process.stdout.readline())}", process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _processor_seconds(process: int) -> float | None:
    """Only where there is Linux's /proc."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_front() -> None:
    from paceline.front import app
    from paceline.front.catalog import Catalog
    from paceline.front.machine import Machine
    from paceline.front.pool import Pool
    from paceline.setting_sources import ModelTable
    from paceline.settings import Settings

    settings = Settings(port=0, drain_seconds=0.0, log_level="error")
    catalog = Catalog(settings, [ModelTable("a", "paceline-mini", pinned=True)])
    worker = (sys.executable, "-m", "benchmarks.front", "worker")
    app.announce = lambda pool, settings: print(settings.port, flush=True)
    app.run(Pool(catalog, settings, Machine("cpu", 10**10, "the bench"), worker), settings)


def run_worker(listener: int) -> None:
    """As a model's process, but without a model."""
    control = socket.socket(fileno=0)
    lines = control.makefile("rb")
    lines.readline()
    control.sendall(b'{"loaded": true}\n')

    def end_with_the_front() -> None:
        lines.read()
        os._exit(0)

    threading.Thread(target=end_with_the_front, daemon=True).start()
    stamped(socket.socket(fileno=listener))


if __name__ == "__main__":
    match sys.argv[1]:
        case "front":
            run_front()
        case "worker":
            run_worker(int(sys.argv[2]))
        case "sender":
            stamped(socket.socket(fileno=int(sys.argv[2])))
