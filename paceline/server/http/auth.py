"""Who may ask: keys of clients and administrators, what only the server's own machine may do, and the host names that a
server without keys answers to."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import Request
from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from paceline.errors import SettingsError
from paceline.server.http.errors import Forbidden, Unauthorized, error_response
from paceline.settings import Settings

OPEN_PATHS = frozenset({"/health", "/ping", "/ready"})
HOW = "Send it as 'Authorization: Bearer KEY' or as 'x-api-key: KEY'."


@dataclass(frozen=True, slots=True)
class Access:
    """What a request has shown. `user` is the key's place among the keys, None without one; never the key."""

    user: str | None = None
    admin: bool = False
    keyed_admin: bool = False  # there are admin keys, so being on this machine is not enough


class ApiKeys:
    """The keys that are accepted. Only their hashes are kept."""

    def __init__(self, api: Iterable[str] = (), admin: Iterable[str] = ()) -> None:
        self._api = [(_digest(key.encode()), f"key-{place}") for place, key in enumerate(dict.fromkeys(api), 1)]
        self._admin = [(_digest(key.encode()), f"admin-{place}") for place, key in enumerate(dict.fromkeys(admin), 1)]

    @classmethod
    def of(cls, settings: Settings) -> ApiKeys:
        return cls(
            _collected(settings.api_key, settings.api_key_file),
            _collected(settings.admin_key, settings.admin_key_file),
        )

    def __bool__(self) -> bool:
        """Whether clients need a key for anything but administration."""
        return bool(self._api)

    def access(self, offered: Iterable[bytes]) -> Access:
        user, admin = None, False
        for digest in map(_digest, offered):
            # Every key is compared, also after one matched: timing does not reveal which.
            for keys, is_admin in ((self._api, False), (self._admin, True)):
                for known, name in keys:
                    if hmac.compare_digest(digest, known):
                        user, admin = name, admin or is_admin
        return Access(user, admin, bool(self._admin))


class Auth:
    """ASGI middleware: refuses who has no key, and leaves in the request's state who it is.

    `request.state.user` is the name of the key, or None; `request.state.access` is for `check_admin`.
    """

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self.app = app
        self.keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self.app(scope, receive, send)
            return
        offered = [key for key in _offered(scope) if key]
        access = self.keys.access(offered)
        if self.keys and access.user is None:
            problem = "This API key is not known here." if offered else "This server needs an API key."
            await error_response(Unauthorized(f"{problem} {HOW}"), scope["path"])(scope, receive, send)
            return
        scope.setdefault("state", {}).update(user=access.user, access=access)
        await self.app(scope, receive, send)


def check_admin(request: Request) -> None:
    """For what changes the server: an admin key where there are any, else a client on this machine."""
    access: Access = request.state.access
    if access.admin:
        return
    if not access.keyed_admin:
        check_local(request)
    elif access.user is None:
        raise Unauthorized(f"This needs an admin key. {HOW}")
    else:
        raise Forbidden("This needs an admin key; yours is an API key.")


def is_admin(request: Request) -> bool:
    try:
        check_admin(request)
    except (Forbidden, Unauthorized):
        return False
    return True


def check_local(request: Request) -> None:
    """Refuse clients elsewhere, and pages from elsewhere in a browser here: it sends their origin with every POST."""
    client = request.client.host if request.client is not None else ""
    if not is_loopback(client):
        raise Forbidden(
            "Only clients on the server's own machine (127.0.0.1 or ::1) may do this, or with --admin-key those "
            f"who have the key; you are {client or 'unknown'}."
        )
    for origin in request.headers.getlist("origin"):
        if not is_loopback(host_of(origin)):
            raise Forbidden(f"A web page may do this only from the server's own machine; this one is from {origin!r}.")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _offered(scope: Scope) -> Iterator[bytes]:
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            yield value.strip()
        elif name == b"authorization":
            scheme, _, key = value.strip().partition(b" ")
            if scheme.lower() == b"bearer":
                yield key.strip()


def _collected(given: Iterable[SecretStr], file: Path | None) -> list[str]:
    keys = [key.get_secret_value() for key in given]
    return keys if file is None else keys + _keys_in(file)


def _keys_in(file: Path) -> list[str]:
    """One key a line; empty lines and lines that begin with # are none."""
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise SettingsError(f"cannot read the keys in {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsError(f"the keys in {file} are not text") from None
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:  # a file without keys would leave the server open
        raise SettingsError(f"{file} holds no key; write one a line")
    if not all(key.isascii() and key.isprintable() and " " not in key for key in keys):
        raise SettingsError(f"a key in {file} has a character other than printable ASCII without spaces")
    return keys


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


class KnownHosts:
    """ASGI middleware: refuses requests to other names than the server's, and from pages of other machines.

    A page can let its own name point at 127.0.0.1 (DNS rebinding): to the browser the server is then a part of the
    page. But the browser still sends the name that it looked up, as `Host`, and the page's address, as `Origin`.
    Clients that are no browsers send no `Origin`, and as `Host` the address that they were given.
    """

    def __init__(self, app: ASGIApp, *, names: Iterable[str], origins: Iterable[str]) -> None:
        self.app = app
        self.names = frozenset(names)
        self.origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            problem = next(filter(None, (self._problem(*header) for header in scope["headers"])), None)
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
