"""How answers are sent: JSON, server-sent events, and work that ends when its client goes away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pydantic_core
from fastapi import Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from paceline.errors import PacelineError
from paceline.server.http.limits import SEND_CHUNK

T = TypeVar("T")
Events = AsyncGenerator[bytes, None]

logger = logging.getLogger("paceline.server")


def named_events(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Events that say in `type` what they are, as /v1/responses and /v1/messages have them."""
    return b"".join([b"event: %b\ndata: %b\n\n" % (event["type"].encode(), to_json(event)) for event in events])


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """What a stream sends when it has sent nothing for so many seconds; None: nothing."""

    seconds: float | None = None
    sign: bytes = b": keep-alive\n\n"  # a comment, which clients skip


NEVER = KeepAlive()


async def start_stream(
    receive: Receive,
    events: Events,
    *,
    failed: Callable[[Exception], bytes],
    end: bytes = b"",
    keep_alive: KeepAlive = NEVER,
    media_type: str = "text/event-stream",
) -> Response:
    """Wait for the first event before a header is sent: what fails until then becomes an HTTP status. But a client is
    not left without a byte for longer than `keep_alive` says.

    `failed` makes the event for what fails later, as the API writes it; `end` comes after the last event.
    """

    async def first_event() -> bytes:
        return await anext(events)

    first = asyncio.create_task(first_event())
    try:
        await unless_disconnected(receive, _done(first, keep_alive.seconds))
        if first.done():
            first.result()  # raises what failed
    except BaseException:
        await _cancelled(first)
        await events.aclose()
        raise
    return EventStream(first, events, failed, end, keep_alive, media_type)


async def _done(task: asyncio.Task[bytes], seconds: float | None) -> None:
    await asyncio.wait((task,), timeout=seconds)


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def sender(scope: Scope, send: Send, *, sized: bool = False) -> Callable[[bytes], Awaitable[None]]:
    """Sends more of an answer: the connection's own way where it has one, unless the answer's length was announced."""

    async def as_message(content: bytes) -> None:
        await send({"type": "http.response.body", "body": content, "more_body": True})

    state = {} if sized else scope.get("state", {})
    found: Callable[[bytes], Awaitable[None]] = state.get(SEND_CHUNK, as_message)
    return found


class EventStream(Response):
    """Sends the events as they come. A client that goes away ends them at once."""

    def __init__(
        self,
        first: asyncio.Task[bytes],
        rest: Events,
        failed: Callable[[Exception], bytes],
        end: bytes,
        keep_alive: KeepAlive,
        media_type: str,
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"}, media_type=media_type)
        del self.headers["content-length"]
        self.first = first
        self.rest = rest
        self.failed = failed
        self.end = end
        self.keep_alive = keep_alive
        self._time = asyncio.get_running_loop().time
        self._sent_at = self._time()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._write = sender(scope, send)
        with suppress(ClientDisconnect):
            await unless_disconnected(receive, self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if not self.first.done():  # it has been waited for as long as a client is left without a byte
                await self._send(self.keep_alive.sign)
            signs = asyncio.create_task(self._send_signs())
            try:
                await self._send_events()
            finally:
                await _cancelled(signs)
            if self.end:
                await self._send(self.end)
            await send({"type": "http.response.body", "body": b""})
        finally:
            await _cancelled(self.first)
            await self.rest.aclose()

    async def _send_events(self) -> None:
        """After a failure an event for it, and no other."""
        try:
            await self._send(await self.first)
            async for event in self.rest:
                await self._send(event)
        except Exception as error:
            if not isinstance(error, PacelineError):
                logger.exception("a stream failed")
            await self._send(self.failed(error))

    async def _send(self, content: bytes) -> None:
        await self._write(content)
        self._sent_at = self._time()

    async def _send_signs(self) -> None:
        """Beside the events: a timer for each of them would cost more than the few signs."""
        seconds = self.keep_alive.seconds
        while seconds is not None:
            if (left := self._sent_at + seconds - self._time()) > 0:
                await asyncio.sleep(left)
            else:
                await self._send(self.keep_alive.sign)


# -- JSON

encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
to_json = partial(pydantic_core.to_json, inf_nan_mode="null")  # a third of its time

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
