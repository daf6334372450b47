"""A request of the server to itself: past keys, limits on bodies and the drain gate, to the same routes."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import Message, Scope

from paceline.errors import InvalidRequest
from paceline.server.http.errors import UnhandledErrors, error_response
from paceline.server.http.identity import RequestContext, answering
from paceline.server.http.requests import Requests
from paceline.server.http.response import encode_long


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    request_id: str
    body: Any


class InternalCalls:
    def __init__(self, app: FastAPI, requests: Requests) -> None:
        routed = ExceptionMiddleware(AsyncExitStackMiddleware(app.router), handlers=app.exception_handlers)
        self._app = UnhandledErrors(routed)
        self._requests = requests

    async def post(
        self, path: str, body: Mapping[str, Any], owner: str | None, check: Callable[[], None] = lambda: None
    ) -> Reply:
        """The answer to a POST of `owner`, charged to its batches. Cancelling this frees its sequences. What `check`
        raises is the answer."""
        content = await asyncio.to_thread(encode_long, dict(body))
        state = {} if owner is None else {"user": owner}
        context = RequestContext(f"req_{uuid.uuid4().hex}", state, charged=f"batches/{owner or 'all'}")
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            "client": None,
            "server": None,
            "state": context.state,
        }
        sent = False
        status, pieces = 500, list[bytes]()

        async def receive() -> Message:
            nonlocal sent
            if sent:  # this client never goes away
                await asyncio.Event().wait()
            sent = True
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                pieces.append(message.get("body", b""))

        with answering(context), self._requests.inside(context):
            try:
                check()
            except InvalidRequest as error:
                await error_response(error, path)(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        return Reply(status, context.id, await asyncio.to_thread(json.loads, b"".join(pieces)))
