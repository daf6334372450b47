"""One HTTP exchange with a clock on every arrival.

While a run lasts, an arrival costs two list appends: its bytes and its time. HTTP is decoded afterwards by
`decode`, so that the client takes as little as it can from the cores that it shares with the server.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import h11

from paceline.errors import PacelineError

Headers = Sequence[tuple[str, str]]

LAST_CHUNK = b"0\r\n\r\n"  # ends a chunked body; lets us stop before a server that is slow to close


class BenchError(PacelineError):
    """The bench cannot start: a wrong setting, or a server that does not answer as an OpenAI server does."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is. `prefix` is the path before `/v1`."""

    host: str
    port: int
    secure: bool = False
    prefix: str = ""
    api_key: str | None = None

    @classmethod
    def parse(cls, url: str, api_key: str | None = None) -> Address:
        """Take a base address, with or without `/v1` at its end."""
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port
        except ValueError as error:
            raise BenchError(f"{url!r} is no address ({error}): try http://127.0.0.1:8000") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BenchError(f"{url!r} is no http(s) address: give one like http://127.0.0.1:8000")
        secure = parts.scheme == "https"
        prefix = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.hostname, port or (443 if secure else 80), secure, prefix, api_key)

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.prefix}"


@dataclass(slots=True)
class Exchange:
    """What went over the wire, undecoded. Times are `time.perf_counter()`."""

    connection: h11.Connection
    started: float
    connected: float | None = None
    arrivals: list[float] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)  # one for each of `arrivals`
    ended: float = 0.0
    failure: str | None = None  # "connect", "timeout" or "disconnected"; None: the server ended it
    message: str = ""

    @property
    def accepted(self) -> bool:
        """A glance at the status line, cheap enough for the middle of a run."""
        return bool(self.pieces) and self.pieces[0][8:13] == b" 200 " and self.failure is None


@dataclass(frozen=True, slots=True)
class Reply:
    """A decoded exchange: the body in lines, each with the time at which its end arrived."""

    status: int
    lines: tuple[tuple[float, bytes], ...]
    complete: bool  # the body ended as HTTP says that it should

    @property
    def body(self) -> bytes:
        return b"\n".join(line for _, line in self.lines)

    def json(self) -> Any:
        """The body as JSON; None when it is something else."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


async def exchange(
    address: Address, method: str, path: str, body: bytes | None = None, *, timeout: float, headers: Headers = ()
) -> Exchange:
    """Send one request on its own connection and record what comes back until the server ends it.

    Never raises for what a network or a server does: `failure` says it, so that a run goes on.
    """
    connection = h11.Connection(our_role=h11.CLIENT)
    request = _encode(connection, address, method, path, body, headers)
    loop = asyncio.get_running_loop()
    record = Exchange(connection, started=time.perf_counter())
    recorder = _Recorder(record, request, loop.create_future())
    transport: asyncio.BaseTransport | None = None
    try:
        async with asyncio.timeout(timeout):
            transport, _ = await loop.create_connection(
                lambda: recorder,
                address.host,
                address.port,
                ssl=ssl.create_default_context() if address.secure else None,
            )
            await recorder.finished
    except TimeoutError:
        record.failure, record.message = "timeout", f"no end of the answer within {timeout:g} s"
    except OSError as error:
        record.failure = "connect" if record.connected is None else "disconnected"
        record.message = str(error) or type(error).__name__
    finally:
        record.ended = time.perf_counter()
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()
    return record


async def call(
    address: Address, method: str, path: str, payload: Mapping[str, Any] | None = None, *, timeout: float
) -> Reply:
    """One exchange outside a run, decoded at once. Raises `BenchError` when no answer came."""
    body = None if payload is None else json.dumps(payload).encode()
    record = await exchange(address, method, path, body, timeout=timeout)
    if record.failure is not None and not record.pieces:
        raise BenchError(f"{address} does not answer {method} {path} ({record.message}). Is the server up?")
    return decode(record)


def decode(record: Exchange) -> Reply:
    """Decode HTTP, keeping each line's time of arrival. A broken or cut answer gives what came of it."""
    status = 0
    lines: list[tuple[float, bytes]] = []
    rest = b""
    when = record.ended
    complete = False
    arrivals = list(zip(record.arrivals, record.pieces, strict=True))
    if record.failure is None:
        arrivals.append((record.ended, b""))  # to h11, the server's end of the connection
    try:
        for when, piece in arrivals:
            if not piece and complete:
                break
            record.connection.receive_data(piece)
            while (event := record.connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    *whole, rest = (rest + bytes(event.data)).split(b"\n")
                    lines += [(when, line.rstrip(b"\r")) for line in whole]
                elif isinstance(event, h11.EndOfMessage):
                    complete = True
                elif isinstance(event, h11.ConnectionClosed):
                    break
    except h11.RemoteProtocolError:
        complete = False
    if rest:
        lines.append((when, rest))
    return Reply(status, tuple(lines), complete)


class _Recorder(asyncio.Protocol):
    def __init__(self, record: Exchange, request: bytes, finished: asyncio.Future[None]) -> None:
        self.record = record
        self.request = request
        self.finished = finished

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.record.connected = time.perf_counter()
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.record.arrivals.append(time.perf_counter())
        self.record.pieces.append(data)
        if data.endswith(LAST_CHUNK) and not self.finished.done():
            self.finished.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self.finished.done():
            return
        if error is None:
            self.finished.set_result(None)
        else:
            self.finished.set_exception(error)


def _encode(
    connection: h11.Connection, address: Address, method: str, path: str, body: bytes | None, more: Headers
) -> bytes:
    # "Connection: close" makes the end of the connection the end of the answer: nothing to decode meanwhile.
    headers = [("Host", address.authority), ("Connection", "close"), ("Accept", "*/*"), *more]
    if body is not None:
        headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    if address.api_key:
        headers.append(("Authorization", f"Bearer {address.api_key}"))
    sent = connection.send(h11.Request(method=method, target=address.prefix + path, headers=headers)) or b""
    if body is not None:
        sent += connection.send(h11.Data(data=body)) or b""
    return sent + (connection.send(h11.EndOfMessage()) or b"")
