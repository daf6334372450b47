"""Who asks, and by which ids the request is known: the same object wherever its work is done."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from paceline.logs import request_id
from paceline.server.http.request_log import Figures
from paceline.types import RequestId

_SECRET = secrets.token_bytes(16)  # users' names and addresses could be guessed from bare hashes


@dataclass(slots=True, eq=False)
class RequestContext:
    """One HTTP request, while it is answered. `engine_ids` are its requests in the engine."""

    id: str
    state: dict[str, Any] = field(default_factory=dict)  # the ASGI scope's: who asks is known after it has begun
    names: set[str] = field(default_factory=set)
    engine_ids: set[RequestId] = field(default_factory=set)
    cancelled: bool = False
    on_cancel: list[Callable[[], None]] = field(default_factory=list)
    address: str = ""  # the client's
    charged: str | None = None  # the tenant, where it is not the owner
    headers: dict[str, str] = field(default_factory=dict)  # more of them, for the answer
    figures: Figures = field(default_factory=Figures)

    @property
    def owner(self) -> str | None:
        """The name of the key that was shown; None where none is needed."""
        owner: str | None = self.state.get("user")
        return owner

    def add_ids(self, *names: str) -> None:
        """The client may read these in its answer."""
        self.names.update(names)

    def tenant(self, user: str | None) -> str:
        """Who is charged for it: the key, or without keys the client's address.

        Anybody may write any `user`, so it divides the share of its address (`client/user`, see engine/policy) and no
        other: neither a key nor an address can become many to get more.
        """
        if self.charged is not None:
            return self.charged
        if self.owner is not None:
            return self.owner
        client = f"client-{_hashed(_network(self.address))}" if self.address else "client"
        return f"{client}/user-{_hashed(user)}" if user else client


def _network(address: str) -> str:
    """An IPv4 address; of an IPv6 address its first 64 bits, for one client may use all that share them."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped else str(ip_network((parsed.packed, 64), strict=False))
    return str(parsed)


def _hashed(name: str) -> str:
    return hashlib.blake2s(name.encode(), key=_SECRET, digest_size=6).hexdigest()


# A task's context goes wherever the request's work is done.
_context: ContextVar[RequestContext | None] = ContextVar("context", default=None)


def current() -> RequestContext:
    """The request that is being answered; outside of one, an empty context."""
    return _context.get() or RequestContext("")


@contextmanager
def answering(context: RequestContext) -> Iterator[None]:
    token, named = _context.set(context), request_id.set(context.id)
    try:
        yield
    finally:
        request_id.reset(named)
        _context.reset(token)
