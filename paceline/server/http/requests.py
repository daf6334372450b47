"""The requests inside, whose they are, and how they are cancelled.

Every answer has an `X-Request-Id`: the client's own, where it sent one, so that a request can be cancelled that has
not been answered yet. The ids in answers (of a chat completion, a response, a message) do as well.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline.server.http.auth import is_admin
from paceline.server.http.errors import NotRunning, dialect_of
from paceline.server.http.identity import RequestContext, answering, current
from paceline.server.http.openapi import returns
from paceline.types import RequestId

TAKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")  # of a client's own ids; others are not repeated to anybody


class CancelledRequest(BaseModel):
    id: str
    object: Literal["request"]
    cancelled: Literal[True]


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who may see which ids: a request can be cancelled with its id."""

    owner: str | None
    admin: bool

    @classmethod
    def of(cls, request: Request) -> Viewer:
        return cls(current().owner, is_admin(request))

    def sees(self, id: str | None, owners: Mapping[RequestId, str | None]) -> bool:
        if self.admin or self.owner is None:
            return self.admin
        return owners.get(RequestId(id or "")) == self.owner


class Requests:
    """Used on the event loop only."""

    def __init__(self, abort: Callable[[RequestId], None]) -> None:
        self._abort = abort
        self._inside: dict[RequestContext, None] = {}

    @contextmanager
    def inside(self, context: RequestContext) -> Iterator[None]:
        self._inside[context] = None
        try:
            yield
        finally:
            self.leave(context)

    def leave(self, context: RequestContext) -> None:
        self._inside.pop(context, None)

    @contextmanager
    def in_engine(self, context: RequestContext, request_id: RequestId | None) -> Iterator[None]:
        """The HTTP request has this one in the engine."""
        if request_id is not None:
            context.engine_ids.add(request_id)
        try:
            yield
        finally:
            if request_id is not None:
                context.engine_ids.discard(request_id)

    def owners(self) -> dict[RequestId, str | None]:
        """Whose each request in the engine is."""
        return {id: context.owner for context in self._inside for id in context.engine_ids}

    def cancel(self, request_id: str, allowed: Callable[[RequestContext], bool]) -> bool:
        """Cancel the requests with this id that are `allowed`. False: there is none."""
        known = [
            context
            for context in self._inside
            if (context.id == request_id or request_id in context.names or request_id in context.engine_ids)
            and allowed(context)
        ]
        for context in known:
            context.cancelled = True
            for also in context.on_cancel:
                also()
            for id in tuple(context.engine_ids):
                self._abort(id)
        return bool(known)


class RequestIdMiddleware:
    """ASGI middleware: every request has an id, which its answer carries, and work can be cancelled by it."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self.app = app
        self.requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        address = scope["client"][0] if scope.get("client") else ""
        context = RequestContext(
            _given_id(scope) or f"req_{uuid.uuid4().hex}", scope.setdefault("state", {}), address=address
        )
        scope["state"]["context"] = context  # for what is outside, when the request has ended
        names = dialect_of(scope["path"]).id_headers

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name in names:
                    headers[name] = context.id
                for name, value in context.headers.items():
                    headers[name] = value
            elif not message.get("more_body"):
                self.requests.leave(context)  # before the client can know that it is over
            await send(message)

        works = scope["method"] == "POST"  # a request to cancel cannot itself be cancelled
        with answering(context), self.requests.inside(context) if works else nullcontext():
            await self.app(scope, receive, named)


def _given_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            given = value.decode("latin-1").strip()
            return given if TAKEN.fullmatch(given) else None
    return None


def routes(requests: Requests) -> APIRouter:
    router = APIRouter()

    @router.delete("/v1/requests/{request_id}", responses=returns(CancelledRequest))
    async def cancel_request(request: Request, request_id: str) -> Response:
        """Ends a request that runs or waits, for its owner's key or an administrator."""
        admin, owner = is_admin(request), current().owner
        if not requests.cancel(request_id, lambda context: admin or context.owner == owner):
            raise NotRunning(request_id)
        return JSONResponse({"id": request_id, "object": "request", "cancelled": True})

    return router


class WithoutTrailingSlash:
    """ASGI middleware: `/v1/models/` is `/v1/models`, for everything behind it. A redirect would say the same, but many
    clients do not follow one, or follow it without their body or key."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].endswith("/"):
            raw = (scope.get("raw_path") or b"").rstrip(b"/") or b"/"
            scope = {**scope, "path": scope["path"].rstrip("/") or "/", "raw_path": raw}
        await self.app(scope, receive, send)
