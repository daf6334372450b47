"""A request's body: never larger than allowed, JSON as the standard has it, then a checked model."""

from __future__ import annotations

import json
import re
import sys
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline.errors import InvalidRequest
from paceline.server.errors import BodyTooLarge, HeadTooLarge, error_response, invalid_fields
from paceline.server.limits import MAX_HEAD_BYTES

Body = TypeVar("Body", bound=BaseModel)
SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class BodyLimit:
    """ASGI middleware: refuses a body by its announced length, or as soon as it has grown too long.

    Headers too: h11 refuses too many while they arrive, but takes what comes in one piece.

    What is left of it is read and dropped by `UnreadBody`, so that its client gets the answer.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        too_large: Exception | None = None
        if _head_length(scope) > MAX_HEAD_BYTES:
            too_large = HeadTooLarge(MAX_HEAD_BYTES)
        elif _announced_length(scope) > self.max_bytes:
            too_large = BodyTooLarge(self.max_bytes)
        if too_large is not None:
            await error_response(too_large, scope["path"])(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise BodyTooLarge(self.max_bytes)
            return message

        await self.app(scope, counted, send)


async def read_body(request: Request, model: type[Body]) -> tuple[Body, dict[str, Any]]:
    """The body as `model`, and as the plain object that the client sent."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in ("", "identity"):  # what it would grow to is not known
        raise InvalidRequest(
            f"The request's body has the content-encoding {encoding[:40]!r}: send it uncompressed.", code="invalid_json"
        )
    fields = parse_json(await request.body())
    if not isinstance(fields, dict):
        raise InvalidRequest("The request's body must be a JSON object.")
    try:
        return model.model_validate(fields), fields
    except ValidationError as error:
        raise invalid_fields(error) from None


def parse_json(body: bytes) -> Any:
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
        if SURROGATE_ESCAPE.search(body):
            _refuse_lone_surrogates(value)
        return value
    except RecursionError:
        raise InvalidRequest("The request's body is nested too deeply.", code="invalid_json") from None
    except ValueError as error:
        what, field = str(error), None
        if "set_int_max_str_digits" in what:  # advice for who writes Python, not for who writes JSON
            most = sys.get_int_max_str_digits()
            named = re.search(rb'"([^"\\]{1,64})"\s*:\s*\[?\s*-?\d{%d}' % (most + 1), body)
            field = named[1].decode(errors="replace") if named else None
            what = f"{field or 'a number'} has more than {most} digits"
        said = f"The request's body is not valid JSON: {what}"
        raise InvalidRequest(said, field=field, code="invalid_json") from None


def _head_length(scope: Scope) -> int:
    target = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    return target + sum(len(name) + len(value) for name, value in scope["headers"])


def _announced_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _refuse_lone_surrogates(value: Any) -> None:
    """Half of an escaped emoji is a Python string but not text: no tokenizer takes it."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("an unpaired \\uD800-\\uDFFF escape is not text") from None


def described_by(model: type[BaseModel]) -> dict[str, Any]:
    """The body's part of /openapi.json, for routes that parse it themselves."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
