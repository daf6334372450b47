"""Paths as clients write them, with a base address that ends in /v1, in nothing, or in one /v1 or slash too many; and
HEAD."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline.server.http.limits import SEND_CHUNK

VERSION = "/v1"
ORIGIN = re.compile("^https?://[^/]*", re.IGNORECASE)


class Versioned:
    """ASGI middleware: `/chat/completions`, `/v1/v1/chat/completions`, `//v1/chat/completions`,
    `/v1//chat/completions` and `http://localhost/v1/chat/completions` are `/v1/chat/completions`, for everything behind
    it. `names`: the first parts of the paths below /v1."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self.app = app
        self.names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (path := self._path(scope["path"])) != scope["path"]:
            raw = self._path((scope.get("raw_path") or scope["path"].encode()).decode("latin-1"))
            scope = {**scope, "path": path, "raw_path": raw.encode("latin-1")}
        await self.app(scope, receive, send)

    def _path(self, path: str) -> str:
        path = f"/{ORIGIN.sub('', path).lstrip('/')}"
        while path.startswith((f"{VERSION}//", f"{VERSION}{VERSION}/")):
            extra = "/" if path.startswith(f"{VERSION}//") else VERSION
            path = VERSION + path.removeprefix(VERSION).removeprefix(extra)
        first = path[1:].partition("/")[0]
        return f"{VERSION}{path}" if first in self.names else path


class HeadAsGet:
    """ASGI middleware: HEAD is answered wherever GET is. uvicorn, which knows the method, leaves the body out; here an
    answer ends where its body begins, for a stream's might never end."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        state = {name: value for name, value in scope.get("state", {}).items() if name != SEND_CHUNK}
        ended = False

        async def headed(message: Message) -> None:
            nonlocal ended
            if not ended:
                ended = message["type"] == "http.response.body"
                await send({"type": "http.response.body", "body": b""} if ended else message)

        await self.app({**scope, "method": "GET", "state": state}, receive, headed)


def names_below_version(routes: Iterable[BaseRoute]) -> frozenset[str]:
    """The first parts of these routes' paths below /v1, without those that have a path of their own in front of it."""
    paths = [str(getattr(route, "path", "")) for route in routes]
    below = {path.removeprefix(f"{VERSION}/").partition("/")[0] for path in paths if path.startswith(f"{VERSION}/")}
    return frozenset(below - {path[1:].partition("/")[0] for path in paths if not path.startswith(f"{VERSION}/")})
