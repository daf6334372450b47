"""One spelling for every path."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


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
