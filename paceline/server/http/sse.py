"""Server-sent events: a status while one can still be given, an error event after that, an end either way."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Any

from fastapi import Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from paceline.errors import PacelineError
from paceline.server.http.disconnect import unless_disconnected
from paceline.server.http.encoding import encode_json

Events = AsyncGenerator[bytes, None]

logger = logging.getLogger("paceline.server")


def named_events(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Events that say in `type` what they are, as /v1/responses and /v1/messages have them."""
    return "".join(f"event: {event['type']}\ndata: {encode_json(event)}\n\n" for event in events).encode()


async def start_stream(
    receive: Receive, events: Events, *, failed: Callable[[Exception], bytes], end: bytes = b""
) -> Response:
    """Wait for the first event before a header is sent: what fails until then becomes an HTTP status.

    What fails later is told by `failed`, as the API tells it; after the last event comes `end`.
    """

    async def first_event() -> bytes:
        return await anext(events)

    try:
        first = await unless_disconnected(receive, first_event())
    except BaseException:
        await events.aclose()
        raise
    return EventStream(first, events, failed, end)


class EventStream(Response):
    """Sends the events as they come. A client that goes away ends them at once."""

    media_type = "text/event-stream"

    def __init__(self, first: bytes, rest: Events, failed: Callable[[Exception], bytes], end: bytes) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self.first = first
        self.rest = rest
        self.failed = failed
        self.end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            await unless_disconnected(receive, self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        async with aclosing(self.rest):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            event: bytes | None = self.first
            while event is not None:
                await send({"type": "http.response.body", "body": event, "more_body": True})
                event = await self._next()
            if self.end:
                await send({"type": "http.response.body", "body": self.end, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    async def _next(self) -> bytes | None:
        """The next event; after a failure one that tells of it, and then no more: a generator that raised has ended."""
        try:
            return await anext(self.rest, None)
        except Exception as error:
            if not isinstance(error, PacelineError):
                logger.exception("a stream failed")
            return self.failed(error)
