"""What a connection may cost before there is a request: its time, its headers, its being there at all.

uvicorn has no public way to limit slow clients: a connection that sends half of a request's head never reaches the
app, so no ASGI middleware sees it. `LimitedProtocol` therefore extends uvicorn's own h11 protocol and reads its state
(`conn`, `cycle`, `flow`, `app_state`, `timeout_keep_alive_task`). That is not public, so pyproject.toml takes only
releases that the tests have run with (tests/server/http/test_limits.py goes through all of it); raise the bound when
they pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from paceline.errors import EngineUnavailable, InvalidRequest
from paceline.server.http.errors import HeadTooLarge, TooSlow, error_response
from paceline.settings import Settings

MAX_HEAD_BYTES = 32 << 10
SLOWEST_BYTES_A_SECOND = 16 << 10  # on average, past the first pause that is allowed
LINGER_SECONDS = 2.0  # closed with bytes unread, a connection is reset, and the answer lost with it
SPARE_CONNECTIONS = 64  # over the limit, for telling clients so
OTHER_FILES = 256
SEND_CHUNK = "paceline.send_chunk"  # the key in a scope's state

logger = logging.getLogger("paceline.server")


class LimitedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, but for clients that send slowly, too much, or come in too great number.

    uvicorn itself waits forever for the rest of a request, also where it was answered early. Here a timer
    runs while the client owes bytes: it may pause for `timeout` seconds, and must send on average at least
    `SLOWEST_BYTES_A_SECOND`. What such a request holds is freed, for the app sees its client disconnect.
    """

    timeout: float
    most_connections: int

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._began = self._heard = 0.0
        self._received = 0
        self._refused = False
        self.app_state = {**self.app_state, SEND_CHUNK: self.send_chunk}

    async def send_chunk(self, content: bytes) -> None:
        """More of an answer that has begun and whose length is not known: for every token of every stream.

        Middleware that lies between here and the app is left out: it looks at how an answer begins and ends. So is h11,
        which does not count chunks, and takes longer than all that is done here.
        """
        if self.flow.write_paused and not self.cycle.disconnected:
            await self.flow.drain()
        if content and not self.cycle.disconnected:
            framed = (self.conn.their_http_version or b"") >= b"1.1"
            self.transport.write(b"%x\r\n%b\r\n" % (len(content), content) if framed else content)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most_connections + SPARE_CONNECTIONS:
            transport.abort()
        elif len(self.connections) > self.most_connections:
            self._refuse(EngineUnavailable("The server has as many connections as it may; try again later."))
        else:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)
        self.app_state = {}  # no cycle of references is left

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            data = data.lstrip(b"\r\n")  # empty lines: a client may send them (RFC 9112, 2.2), h11 takes none
            if not data:
                return
        self._received += len(data)
        self._heard = self.loop.time()
        super().data_received(data)
        self._watch()
        if self.conn.their_state is h11.DONE and len(self.conn.trailing_data[0]) <= MAX_HEAD_BYTES:
            self.flow.resume_reading()  # else it would not be noticed that a client which asks in advance goes away

    def on_response_complete(self) -> None:
        unread = self.conn.their_state is h11.SEND_BODY  # asked now: then the next request may have begun
        super().on_response_complete()
        if unread and not self.transport.is_closing():
            self._linger()  # more came than is dropped (`http/body`), or a body that was not waited for
        else:
            self._watch()

    def send_400_response(self, msg: str) -> None:
        # uvicorn calls this where it caught what h11 raised, and h11 knows better which status it is.
        error = sys.exception()
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            self._refuse(HeadTooLarge(MAX_HEAD_BYTES))
        elif self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(InvalidRequest("The request is not valid HTTP/1.1."))
        else:  # the answer has begun: no error can be sent
            self.transport.close()

    # -- the clock

    def _expects_data(self) -> bool:
        """Whether the connection waits for the rest of a request, or for one with no timer of uvicorn's running."""
        if self._refused or self.transport.is_closing():
            return False
        state = self.conn.their_state
        between = self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]
        return state is h11.SEND_BODY or (state is h11.IDLE and not between)

    def _watch(self) -> None:
        if not self._expects_data():
            self._stop_watching()
        elif self._timer is None:
            self._began = self._heard = self.loop.time()
            self._received = 0
            self._timer = self.loop.call_later(self.timeout, self._check)

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if not self._expects_data():
            return
        paused = self._heard + self.timeout
        crawled = self._began + self.timeout + self._received / SLOWEST_BYTES_A_SECOND
        if (due := min(paused, crawled)) > self.loop.time():
            self._timer = self.loop.call_at(due, self._check)
        elif self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self.transport.close()  # it never began to ask
        else:
            self._refuse(TooSlow(self.timeout))

    # -- the refusal

    def _refuse(self, error: Exception) -> None:
        """Answer, let go of the request, and drop what still comes for a moment."""
        response = error_response(error)
        logger.info("%s: %d, %s", self.client[0] if self.client else "a client", response.status_code, error)
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            status, headers = response.status_code, [*response.raw_headers, (b"connection", b"close")]
            for event in (
                h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status]),
                h11.Data(data=bytes(response.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._linger()

    def _linger(self) -> None:
        """Send nothing more; drop what still arrives for a moment, then close the connection."""
        self._refused = True
        self._stop_watching()
        self._unset_keepalive_if_required()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)


def protocol_for(settings: Settings) -> type[LimitedProtocol]:
    class Protocol(LimitedProtocol):
        timeout = settings.body_timeout_seconds
        most_connections = settings.max_connections

    return Protocol


def allow_files_for(connections: int) -> None:
    """Every connection is a file to the system, and macOS gives a process 256 unless it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_CONNECTIONS + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
            )
