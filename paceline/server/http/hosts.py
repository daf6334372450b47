"""Which names a server without keys answers to, so that web pages cannot make use of one on their visitor's machine.

A page can let its own name point at 127.0.0.1 (DNS rebinding): to the browser the server is then a part of the page.
But the browser still sends the name that it looked up, as `Host`, and the page's address, as `Origin`.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from paceline.server.http.auth import OPEN_PATHS, ApiKeys, is_loopback
from paceline.server.http.errors import Forbidden, error_response
from paceline.settings import Settings


class KnownHosts:
    """ASGI middleware: refuses requests to other names than the server's, and from pages of other machines.

    Clients that are no browsers send no `Origin`, and as `Host` the address that they were given.
    """

    def __init__(self, app: ASGIApp, *, names: Iterable[str], origins: Iterable[str]) -> None:
        self.app = app
        self.names = frozenset(names)
        self.origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            problem = next((said for header in scope["headers"] if (said := self._problem(*header))), None)
            if problem is not None:
                await error_response(Forbidden(problem), scope["path"])(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _problem(self, header: bytes, value: bytes) -> str | None:
        text = value.decode("latin-1")
        if header == b"host" and not self._is_ours(host_of(f"//{text}")):
            return (
                f"This server has no API keys, so it answers only to names of its own machine, not to {text[:100]!r}: "
                "start it with --api-key, or allow the name with --allowed-host."
            )
        if header == b"origin" and not (text in self.origins or "*" in self.origins or self._is_ours(host_of(text))):
            return (
                f"This server has no API keys, so no web page from elsewhere, as {text[:100]!r}, may use it: "
                "start it with --api-key, or allow the page with --cors-origin."
            )
        return None

    def _is_ours(self, host: str) -> bool:
        return is_loopback(host) or host in self.names


def guarded(settings: Settings, keys: ApiKeys) -> bool:
    """Elsewhere the name that clients use is not known, and a key is what protects."""
    return not keys and is_loopback(settings.host)


def host_of(address: str) -> str:
    """The host's name without its port, in small letters; nothing where there is none."""
    try:
        return (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:
        return ""
