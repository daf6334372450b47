"""Exceptions as HTTP statuses with OpenAI's error object, or in another dialect where a path has its own."""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline.errors import (
    DeadlineExceeded,
    EngineUnavailable,
    InvalidRequest,
    PacelineError,
    QueueFull,
    Refused,
    UnknownLora,
)

RETRY_AFTER_SECONDS = 5
LONGEST_MESSAGE = 2000  # characters
LONGEST_PATH = 200  # characters of it that are quoted
LONGEST_METHOD = 20  # characters of it that are quoted
REFUSED_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
CLIENT_CLOSED_REQUEST = 499  # nginx's number: the client went away, or the request was cancelled
KINDS = {
    429: "rate_limit_error",
    500: "server_error",
    503: "service_unavailable",
    504: "timeout_error",
    507: "server_error",
}

logger = logging.getLogger("paceline.server")


class NotFound(InvalidRequest):
    """What the request names is not here."""


class ModelNotFound(NotFound):
    code = "model_not_found"

    def __init__(self, asked: str, served: Sequence[str]) -> None:
        names = " and ".join(map(repr, served))
        super().__init__(
            f"The model {asked!r} does not exist here; this server has {names}. Ask for that, or leave model out; or "
            "start the server with --served-model-name NAME, repeated for several, or with --any-model-name for any.",
            field="model",
        )


class NotServed(NotFound):
    """There is no such endpoint here, though other servers have it."""

    code = "not_found"


class NotRunning(NotFound):
    code = "request_not_found"

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"No request {request_id!r} is running or waiting here: it never was, has ended, or is not yours."
        )


class Cancelled(PacelineError):
    """The request was cancelled. Not a 5xx: clients would send it again."""

    def __init__(self) -> None:
        super().__init__("The request was cancelled.")


class Forbidden(InvalidRequest):
    code = "forbidden"


class Conflict(InvalidRequest):
    """Not in the state that things are in now."""

    code = "conflict"


class StorageFailed(PacelineError):
    """The disk did not take what was to be kept. `reason` names no path."""

    code: str | None = None

    def __init__(self, reason: str) -> None:
        super().__init__(f"The server cannot store this: {reason}.")


class DiskFull(StorageFailed):
    code = "disk_full"

    def __init__(self) -> None:
        super().__init__("its disk is full")


class Unauthorized(InvalidRequest):
    code = "invalid_api_key"


class TooSlow(InvalidRequest):
    code = "request_timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The request did not arrive in time: the server waits {seconds:g} seconds for more of it.")


class HeadTooLarge(InvalidRequest):
    code = "headers_too_large"

    def __init__(self, max_bytes: int) -> None:
        size = f"{max_bytes >> 10} KiB"
        super().__init__(f"The request's address and headers are larger than the {size} that are allowed.")


class BodyTooLarge(InvalidRequest):
    code = "request_too_large"

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"The request's body is larger than the {max_bytes / 2**20:g} MiB that are allowed.")


# The first that matches counts; what is not here is a 500.
STATUSES: Mapping[type[Exception], int] = {
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    UnknownLora: 404,
    TooSlow: 408,
    Conflict: 409,
    BodyTooLarge: 413,
    HeadTooLarge: 431,
    Cancelled: CLIENT_CLOSED_REQUEST,
    InvalidRequest: 400,
    QueueFull: 429,
    DeadlineExceeded: 504,
    EngineUnavailable: 503,
    Refused: 503,
    DiskFull: 507,
}


def status_of(error: Exception) -> int:
    if isinstance(error, HTTPException):
        return error.status_code
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)


def error_object(error: Exception) -> dict[str, Any]:
    """The body of an error response, and of an error inside a stream."""
    status = status_of(error)
    kind = KINDS.get(status, "invalid_request_error")
    param = code = None
    if isinstance(error, InvalidRequest):
        message, param, code = str(error), error.field, error.code
    elif isinstance(error, Refused):
        message, code = str(error), error.cause
    elif isinstance(error, StorageFailed):
        message, code = str(error), error.code
    elif isinstance(error, Cancelled):
        message, code = str(error), "request_cancelled"
    elif isinstance(error, PacelineError):
        message = str(error)
    elif isinstance(error, HTTPException):
        message = str(error.detail)
    else:  # not raised on purpose: its text is for the log, not for the client
        message = "The server failed on this request. Its log says why."
    if len(message) > LONGEST_MESSAGE:  # what the client wrote is quoted, and may be anything
        message = f"{message[:LONGEST_MESSAGE]}..."
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


class ErrorFields(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class Error(BaseModel):
    """OpenAI's."""

    error: ErrorFields


@dataclass(frozen=True, slots=True)
class Dialect:
    """What an API's clients expect of HTTP."""

    error_body: Callable[[Exception], dict[str, Any]]
    error_model: type[BaseModel]  # the body, as /openapi.json describes it
    id_headers: tuple[str, ...] = ("x-request-id",)  # where an answer carries the request's id


DEFAULT = Dialect(error_object, Error)  # OpenAI's, which the server's own endpoints share

# For every path that begins so. An API whose clients expect something else adds itself here.
DIALECTS: dict[str, Dialect] = {}


def dialect_of(path: str) -> Dialect:
    for prefix, dialect in DIALECTS.items():
        if path == prefix or path.startswith(f"{prefix}/"):
            return dialect
    return DEFAULT


def error_response(error: Exception, path: str = "") -> JSONResponse:
    """The answer to a request for `path`."""
    status = status_of(error)
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if isinstance(error, Refused):
        headers["retry-after"] = str(error.retry_after)
    elif status == 503:
        headers["retry-after"] = str(RETRY_AFTER_SECONDS)
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="paceline"'
    return JSONResponse(dialect_of(path).error_body(error), status_code=status, headers=headers)


def refuse_below(router: APIRouter, path: str, reason: str) -> None:
    """A 404 that says why, for the path and all below it."""
    for each in (path, f"{path}/{{rest:path}}"):

        @router.api_route(each, methods=REFUSED_METHODS, include_in_schema=False)
        async def refuse(request: Request) -> Response:
            raise NotServed(f"{reason} ({request.method} {request.url.path}).")


def invalid_fields(error: ValidationError) -> InvalidRequest:
    """The first thing that pydantic found wrong, named as a client would write it: `messages[0].role`."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = field_path(first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return InvalidRequest(f"{field}: {message[:1].lower()}{message[1:]}." if field else message, field=field or None)


def field_path(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def install(app: FastAPI) -> None:
    """Give the app one answer for each kind of error."""

    async def answer(request: Request, error: Exception) -> Response:
        if status_of(error) in (500, 507):  # what the operator must see to
            logger.error("%s %s failed: %s", request.method, request.url.path, error)
        unrouted = isinstance(error, HTTPException) and error.status_code in (404, 405)
        # Made once. On the loop that would hold up every stream.
        paths = (await asyncio.to_thread(request.app.openapi))["paths"] if unrouted else {}
        if isinstance(error, HTTPException) and error.status_code == 404:
            error = NotServed(_not_here(request, paths))
        if isinstance(error, HTTPException) and error.status_code == 405:
            # Starlette names the methods of the first route with this path only
            methods = ", ".join(_methods_of(request, paths))
            what = f"{request.url.path[:LONGEST_PATH]} takes {methods}, not {request.method[:LONGEST_METHOD]}"
            error = HTTPException(405, what, {"allow": methods})
        return error_response(error, request.url.path)

    async def answer_disconnected(request: Request, error: Exception) -> Response:
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    async def answer_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        named = InvalidRequest(first["msg"], field=field_path(tuple(first["loc"])[1:]) or None)
        return error_response(named, request.url.path)

    app.add_exception_handler(PacelineError, answer)
    app.add_exception_handler(HTTPException, answer)
    app.add_exception_handler(ClientDisconnect, answer_disconnected)
    app.add_exception_handler(RequestValidationError, answer_validation)
    app.add_middleware(UnhandledErrors)


def _not_here(request: Request, known: Iterable[str]) -> str:
    path = request.url.path[:LONGEST_PATH]
    below = [one for one in known if one.startswith(f"{path.rstrip('/')}/")]
    near = below or difflib.get_close_matches(path, known, n=1)
    what = f"did you mean {near[0]}?" if near else "/openapi.json lists what there is."
    return f"There is no {path} here; {what}"


def _methods_of(request: Request, paths: Mapping[str, Any]) -> list[str]:
    documented = paths.get(request.url.path)
    if documented is not None:  # a path of its own, though it may look like an id of another
        return [method for method in METHODS if (method if method != "HEAD" else "GET").lower() in documented]

    def taken(method: str) -> bool:
        scope = {**request.scope, "method": "GET" if method == "HEAD" else method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)

    return [method for method in METHODS if taken(method)]


class UnhandledErrors:
    """ASGI middleware for errors that were not raised on purpose.

    Starlette's own handler for `Exception` raises it again after answering, and uvicorn then cuts the
    connection, which a client may already be using for its next request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answered = False

        async def noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except Exception as error:
            if answered or scope["type"] != "http":
                raise
            logger.exception("%s %s failed", scope["method"], scope["path"])
            await error_response(error, scope["path"])(scope, receive, send)
