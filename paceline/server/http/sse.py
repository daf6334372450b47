"""Server-sent events: a status while one can still be given, an error event after that, an end either way."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

from fastapi import Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from paceline.errors import PacelineError
from paceline.server.http.disconnect import unless_disconnected

Events = AsyncGenerator[bytes, None]

logger = logging.getLogger("paceline.server")


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
            async with aclosing(self._events()) as events:
                async for event in events:
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    async def _events(self) -> Events:
        yield self.first
        try:
            async for event in self.rest:
                yield event
        except Exception as error:
            if not isinstance(error, PacelineError):
                logger.exception("a stream failed")
            yield self.failed(error)
        if self.end:
            yield self.end
