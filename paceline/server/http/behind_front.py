"""A model's process behind a front: who asks is what the front says. Only the front can reach its socket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from socket import socket

from starlette.types import ASGIApp, Receive, Scope, Send

from paceline.server.http.auth import Access
from paceline.server.http.drain import DrainGate

CLIENT, USER, ADMIN = b"x-paceline-client", b"x-paceline-user", b"x-paceline-admin"
HEADERS = (CLIENT, USER, ADMIN)


@dataclass(frozen=True, slots=True)
class BehindFront:
    """What the front gives a process that serves one of its models."""

    listener: socket
    gate: DrainGate
    started: Callable[[Exception | None], None]  # called when the model is loaded, or cannot be


class FromFront:
    """ASGI middleware in the place of keys. Outside of all that look at who asks."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            said = {name: value.decode("latin-1") for name, value in scope["headers"] if name in HEADERS}
            user = said.get(USER) or None
            address = said.get(CLIENT, "")
            state = {"user": user, "access": Access(user, said.get(ADMIN) == "1", keyed_admin=True)}
            scope = {**scope, "client": (address, 0) if address else None, "state": {**scope.get("state", {}), **state}}
        await self.app(scope, receive, send)


def identity_headers(address: str, user: str | None, admin: bool) -> list[tuple[bytes, bytes]]:
    """What the front says."""
    said = [(CLIENT, address.encode("latin-1", "replace")), (ADMIN, b"1" if admin else b"0")]
    return said if user is None else [*said, (USER, user.encode("latin-1", "replace"))]
