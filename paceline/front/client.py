"""HTTP/1.1 to a model's process, over its Unix socket. Connections are kept and used again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11

Headers = Sequence[tuple[bytes, bytes]]
READ_BYTES = 64 << 10
IDLE_SECONDS = 30.0  # less than the server keeps its end
MAX_IDLE = 64  # connections that wait for their next request
MAX_WHOLE = 16 << 20  # bytes of an answer that is read whole
MAX_HEAD = 64 << 10


class Broken(ConnectionError):
    """The process went away. `answered`: part of the answer had come."""

    def __init__(self, answered: bool) -> None:
        super().__init__("the model's process closed the connection")
        self.answered = answered


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self.used = False
        self.idle_since = 0.0

    async def send(self, method: str, target: bytes, headers: Headers, body: bytes) -> None:
        request = h11.Request(method=method, target=target, headers=list(headers))
        self.writer.write(self.h11.send(request) or b"")
        if body:
            self.writer.write(self.h11.send(h11.Data(data=body)) or b"")
        self.writer.write(self.h11.send(h11.EndOfMessage()) or b"")
        await self.writer.drain()

    async def next_event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self.h11.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            self.h11.receive_data(await self.reader.read(READ_BYTES))

    def received(self) -> Any:
        """The next event, if it has come already."""
        return self.h11.next_event()

    def start_next_cycle(self) -> bool:
        """Can it take another request?"""
        if self.h11.our_state is not h11.DONE or self.h11.their_state is not h11.DONE:
            return False
        self.h11.start_next_cycle()
        return True

    def close(self) -> None:
        self.writer.close()


class Response:
    """An answer whose body is still coming."""

    def __init__(self, head: h11.Response, connection: _Connection) -> None:
        self.status = head.status_code
        self.headers = [(bytes(name), bytes(value)) for name, value in head.headers]
        self._connection = connection

    async def body(self) -> AsyncIterator[bytes]:
        """As it comes; what has come together is one piece. Raises Broken if the process ends in the middle."""
        while True:
            pieces = list[bytes]()
            try:
                event: Any = await self._connection.next_event()
                while isinstance(event, h11.Data):
                    pieces.append(bytes(event.data))
                    event = self._connection.received()
            except (h11.RemoteProtocolError, OSError):
                raise Broken(answered=True) from None
            if pieces:
                yield b"".join(pieces)
            if event is h11.NEED_DATA:
                continue
            if isinstance(event, h11.EndOfMessage):
                return
            raise Broken(answered=True)


class Client:
    """Used on the event loop only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: list[_Connection] = []

    @contextlib.asynccontextmanager
    async def request(self, method: str, target: bytes, headers: Headers, body: bytes = b"") -> AsyncIterator[Response]:
        """Leaving the block before the body has ended closes the connection: the process then ends its work."""
        connection, head = await self._begin(method, target, headers, body)
        try:
            yield Response(head, connection)
        finally:
            self._put_back(connection)

    async def get(self, path: str) -> Answer:
        return await self.whole("GET", path.encode())

    async def whole(self, method: str, target: bytes, headers: Headers = (), body: bytes = b"") -> Answer:
        async with self.request(method, target, [*headers, *_length(body), (b"host", b"paceline")], body) as response:
            pieces, size = list[bytes](), 0
            async for piece in response.body():
                pieces.append(piece)
                size += len(piece)
                if size > MAX_WHOLE:
                    raise Broken(answered=True)
            return Answer(response.status, response.headers, b"".join(pieces))

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _begin(
        self, method: str, target: bytes, headers: Headers, body: bytes
    ) -> tuple[_Connection, h11.Response]:
        while True:
            connection = self._take() or await self._connect()
            try:
                await connection.send(method, target, headers, body)
                event = await connection.next_event()
                while isinstance(event, h11.InformationalResponse):
                    event = await connection.next_event()
                if not isinstance(event, h11.Response):
                    raise Broken(answered=False)
                return connection, event
            except (h11.RemoteProtocolError, OSError):
                connection.close()
                if not connection.used:
                    raise Broken(answered=False) from None
                # It was kept for too long: its other end was closed, and the request was not read.
            except BaseException:
                connection.close()
                raise

    def _take(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if time.monotonic() - connection.idle_since < IDLE_SECONDS and not connection.reader.at_eof():
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        try:
            return _Connection(*await asyncio.open_unix_connection(str(self.path), limit=READ_BYTES))
        except OSError:
            raise Broken(answered=False) from None

    def _put_back(self, connection: _Connection) -> None:
        if connection.start_next_cycle() and len(self._idle) < MAX_IDLE:
            connection.used = True
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            connection.close()


def _length(body: bytes) -> Headers:
    return [(b"content-length", str(len(body)).encode())] if body else []
