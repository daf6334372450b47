"""A request's body: never larger than allowed, JSON as the standard has it, then a checked model.

An answer may be ready before the body has arrived: `UnreadBody` is for clients that send everything before they read.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline import bounded_json
from paceline.errors import InvalidRequest, Refused
from paceline.host_memory import HostMemory
from paceline.platform import memory_limit
from paceline.server.http.errors import BodyTooLarge, HeadTooLarge, error_response, invalid_fields
from paceline.server.http.limits import MAX_HEAD_BYTES
from paceline.settings import Settings

Body = TypeVar("Body", bound=BaseModel)
T = TypeVar("T")
HELD = "paceline.body"  # the scope's key of its HeldBody
LENGTHS = {b"content-length", b"transfer-encoding"}
SMALL = 64 << 10  # bytes of a body that is not counted
BODY_SHARE = 8  # bodies may take one part in so many of the memory
BODY_BYTES = 3  # memory for a byte of a body: as it came, as text, as what was made of it
INLINE = 64 << 10  # bytes of a body that is parsed on the event loop; larger ones in a thread
DROP_SECONDS = 30.0  # that the rest of a request may take
DROP_BYTES = 256 << 20  # of it that are dropped at the most, or
DROP_TIMES = 8  # so many times what a body may have


class TooManyBodies(Refused):
    """Not now: other requests' bodies fill the memory for bodies."""

    cause = "bodies"

    def __init__(self) -> None:
        super().__init__("The bodies of the requests that are here fill the memory for them.")


class AmbiguousLength(InvalidRequest):
    """A proxy in front may have read the other one, and taken the end of the body for a request."""

    def __init__(self) -> None:
        super().__init__("The request has both a Content-Length and a Transfer-Encoding.")


def body_memory(settings: Settings) -> HostMemory:
    """What all bodies may take together."""
    if settings.memory_limit_gb is not None:
        return HostMemory(int(settings.memory_limit_gb * 1e9) // BODY_SHARE)
    return HostMemory(max(memory_limit("cpu").bytes // BODY_SHARE, 2 * BODY_BYTES * settings.max_body_mb << 20))


@dataclass(slots=True)
class HeldBody:
    """What a request's body takes of the memory for bodies."""

    memory: HostMemory
    bytes: int = 0
    outlives_answer: bool = False  # then whoever said so releases it

    def release(self) -> None:
        self.memory.give_back(self.bytes)
        self.bytes = 0


class BodyLimit:
    """ASGI middleware: refuses a body by its announced length, or as soon as it has grown too long; and one for which
    the bodies that are here leave no memory, until then. A body counts until its request is answered, for messages are
    held as long.

    Headers too: h11 refuses too many while they arrive, but takes what comes in one piece.

    What is left of it is read and dropped by `UnreadBody`, so that its client gets the answer.
    """

    def __init__(
        self, app: ASGIApp, max_bytes: int, memory: HostMemory, on_refusal: Callable[[], None] = lambda: None
    ) -> None:
        self.app = app
        self.on_refusal = on_refusal
        self.memory = memory
        self.max_bytes = min(max_bytes, memory.limit // BODY_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal: Exception | None = None
        if _head_length(scope) > MAX_HEAD_BYTES:
            refusal = HeadTooLarge(MAX_HEAD_BYTES)
        elif _announced_length(scope) > self.max_bytes:
            refusal = BodyTooLarge(self.max_bytes)
        elif {name for name, _ in scope["headers"]} >= LENGTHS:
            refusal = AmbiguousLength()
        if refusal is not None:
            response = error_response(refusal, scope["path"])
            if isinstance(refusal, AmbiguousLength):
                response.headers["connection"] = "close"
            await response(scope, receive, send)
            return
        received = 0
        held = scope[HELD] = HeldBody(self.memory)

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise BodyTooLarge(self.max_bytes)
            # What has arrived, not what was announced: a few slow clients must not block all others.
            more = BODY_BYTES * received - held.bytes if received > SMALL and message.get("body") else 0
            if more and not self.memory.try_take(more):
                self.on_refusal()
                raise TooManyBodies
            held.bytes += more
            return message

        try:
            await self.app(scope, counted, send)
        finally:
            if not held.outlives_answer:
                held.release()


async def read_body(request: Request, model: type[Body]) -> tuple[Body, dict[str, Any]]:
    """The body as `model`, and as the plain object that the client sent."""

    def checked(fields: dict[str, Any]) -> Body:
        try:
            return model.model_validate(fields)
        except ValidationError as error:
            raise invalid_fields(error) from None

    _, fields, body = await read_object(request, checked)
    return body, fields


async def read_object(request: Request, check: Callable[[dict[str, Any]], T]) -> tuple[bytes, dict[str, Any], T]:
    """The body as it came, the JSON object in it, and what `check` makes of that."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in ("", "identity"):  # what it would grow to is not known
        raise InvalidRequest(
            f"The request's body has the content-encoding {encoding[:40]!r}: send it uncompressed.", code="invalid_json"
        )
    body = await request.body()

    def parsed() -> tuple[bytes, dict[str, Any], T]:
        fields = parse_json(body)
        if not isinstance(fields, dict):
            raise InvalidRequest("The request's body must be a JSON object.")
        return body, fields, check(fields)

    return parsed() if len(body) <= INLINE else await asyncio.to_thread(parsed)


def parse_json(body: bytes) -> Any:
    try:
        return bounded_json.loads(body)
    except RecursionError:
        raise InvalidRequest("The request's body is nested too deeply.", code="invalid_json") from None
    except bounded_json.TooMuchStructure as error:
        raise InvalidRequest(f"The request's body is refused: {error}.", code="invalid_json") from None
    except ValueError as error:
        what, field = str(error), None
        if "set_int_max_str_digits" in what:  # advice for who writes Python, not for who writes JSON
            most = sys.get_int_max_str_digits()
            named = re.search(rb'"([^"\\]{1,64})"\s*:\s*\[?\s*-?\d{%d}' % (most + 1), body[: bounded_json.DIRECT])
            field = named[1].decode(errors="replace") if named else None
            what = f"{field or 'a number'} has more than {most} digits"
        message = f"The request's body is not valid JSON: {what}"
        raise InvalidRequest(message, field=field, code="invalid_json") from None


def keep_body(request: Request) -> Callable[[], None]:
    """The body is needed after the answer, until this is called."""
    held: HeldBody | None = request.scope.get(HELD)
    if held is None:  # a call from inside the process
        return lambda: None
    held.outlives_answer = True
    return held.release


def _head_length(scope: Scope) -> int:
    target = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    return target + sum(len(name) + len(value) for name, value in scope["headers"])


def _announced_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


class UnreadBody:
    """ASGI middleware: where an app answers early (413, 401, 404, ...), the answer goes out at once, but it ends only
    when the rest of the request has come and was dropped.

    A client that wants its connection closed, as urllib does, would otherwise be cut off while it sends: the reset
    destroys the answer on its way. Bounded in time and bytes: then the connection may break.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.most = max(DROP_BYTES, DROP_TIMES * max_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _comes_with_a_body(scope):
            await self.app(scope, receive, send)
            return
        arrived = False

        async def noted() -> Message:
            nonlocal arrived
            message = await receive()
            arrived = arrived or not message.get("more_body")
            return message

        async def held(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body") and not arrived:
                await send({**message, "more_body": True})
                await self._drop(noted)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self.app(scope, noted, held)

    async def _drop(self, receive: Receive) -> None:
        dropped, more = 0, True
        try:
            async with asyncio.timeout(DROP_SECONDS):
                while more and dropped <= self.most:
                    message = await receive()
                    dropped += len(message.get("body", b""))
                    more = bool(message.get("more_body"))
        except TimeoutError:
            return


def _comes_with_a_body(scope: Scope) -> bool:
    """Not so a client that asks first (Expect: 100-continue) and was answered: it keeps its body."""
    names = {name for name, _ in scope["headers"]}
    return b"expect" not in names and bool(names & {b"content-length", b"transfer-encoding"})
