"""How answers are sent: JSON, server-sent events, and work that ends when its client goes away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from fastapi import Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from paceline.errors import PacelineError

T = TypeVar("T")
Events = AsyncGenerator[bytes, None]

logger = logging.getLogger("paceline.server")


def named_events(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Events that say in `type` what they are, as /v1/responses and /v1/messages have them."""
    return "".join(f"event: {event['type']}\ndata: {encode_json(event)}\n\n" for event in events).encode()


async def start_stream(
    receive: Receive,
    events: Events,
    *,
    failed: Callable[[Exception], bytes],
    end: bytes = b"",
    media_type: str = "text/event-stream",
) -> Response:
    """Wait for the first event before a header is sent: what fails until then becomes an HTTP status.

    `failed` makes the event for what fails later, as the API writes it; `end` comes after the last event.
    """

    async def first_event() -> bytes:
        return await anext(events)

    try:
        first = await unless_disconnected(receive, first_event())
    except BaseException:
        await events.aclose()
        raise
    return EventStream(first, events, failed, end, media_type)


class EventStream(Response):
    """Sends the events as they come. A client that goes away ends them at once."""

    def __init__(
        self, first: bytes, rest: Events, failed: Callable[[Exception], bytes], end: bytes, media_type: str
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"}, media_type=media_type)
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
        """The next event; after a failure an event for it, and then None: a generator that raised has ended."""
        try:
            return await anext(self.rest, None)
        except Exception as error:
            if not isinstance(error, PacelineError):
                logger.exception("a stream failed")
            return self.failed(error)


# -- JSON

encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

PART = 4096  # elements of a list that are encoded in one call


def encode_long(value: Any) -> bytes:
    """As `encode_json`, for what may be long: the encoder holds the interpreter's lock for the whole of a call."""
    return "".join(_encoded(value)).encode()


def _encoded(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        separator = "{"
        for key, item in value.items():
            yield f"{separator}{encode_json(str(key))}:"
            yield from _encoded(item)
            separator = ","
        yield "}" if value else "{}"
    elif isinstance(value, list) and len(value) > PART and not isinstance(value[0], dict | list):
        for begin in range(0, len(value), PART):
            yield f"{',' if begin else '['}{encode_json(value[begin : begin + PART])[1:-1]}"
        yield "]"
    elif isinstance(value, list) and value and isinstance(value[0], dict | list):
        separator = "["
        for item in value:
            yield separator
            yield from _encoded(item)
            separator = ","
        yield "]"
    else:
        yield encode_json(value)


# -- clients that go away


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do the work, unless the client goes away: then the work is cancelled, and `ClientDisconnect` raised."""
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        for task in (working, watching):
            task.cancel()
        with contextlib.suppress(Exception):
            await asyncio.gather(working, watching, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
