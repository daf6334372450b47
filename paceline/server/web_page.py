"""The page at `/`, for browsers: files of the package, read once and sent from memory.

It needs no key, for it holds nothing that others may not see; what it then asks the server for does. It may load and
ask only what this server has, and runs no script and no style that is not one of these files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

FOLDER = Path(__file__).with_name("web")
INDEX = "index.html"
PREFIX = "/web/"
TYPES: Mapping[str, str] = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # a text that is made into markup is an error, not an attack
        "trusted-types 'none'",
    )
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-cache",  # asked for again after every restart; mostly the answer is 304
    "vary": "accept",
}


@dataclass(frozen=True, slots=True)
class WebFile:
    content: bytes
    media_type: str
    etag: str

    @classmethod
    def of(cls, path: Path) -> WebFile:
        content = path.read_bytes()
        return cls(content, TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:16]}"')


def web_files(folder: Path = FOLDER) -> dict[str, WebFile]:
    return {path.name: WebFile.of(path) for path in sorted(folder.iterdir()) if path.suffix in TYPES}


class WebPage:
    """ASGI middleware: answers what belongs to the page."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.files = web_files()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        file = self._asked(scope) if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") else None
        if file is None:
            await self.app(scope, receive, send)
            return
        headers = {**HEADERS, "etag": file.etag}
        if file.etag in Headers(scope=scope).get("if-none-match", ""):
            response = Response(status_code=304, headers=headers)
        else:
            response = Response(file.content, headers=headers, media_type=file.media_type)
        await response(scope, receive, send)

    def _asked(self, scope: Scope) -> WebFile | None:
        path: str = scope["path"]
        if path == "/":
            return self.files[INDEX] if "text/html" in Headers(scope=scope).get("accept", "") else None
        name = path.removeprefix(PREFIX)
        return self.files.get(name) if name not in (path, INDEX) else None
