"""Fetching media from public hosts only.

A client that can make the server fetch can reach what the server reaches: the machines beside it, a cloud's metadata
(SSRF). So every host is looked up once, every resulting address is checked, and the connection goes to a checked
address. A redirect is checked like a new address. Everything is bounded in time and bytes.

Not httpx: its timeouts begin anew with every byte, so a slow server could hold a thread for hours. Not
`ipaddress.is_global`: it depends on the Python version, and allows multicast and Azure's own services.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import quote, urljoin, urlsplit

from paceline import __version__
from paceline.errors import InvalidRequest

KINDS = {"image": "an image", "video": "a video", "audio": "audio"}
MAX_REDIRECTS = 3
PORTS = {"http": 80, "https": 443}
REDIRECTS = (301, 302, 303, 307, 308)
PIECE_BYTES = 1 << 16

NOT_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",  # carriers' NAT; Alibaba's metadata
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's own services, at a public address
            "169.254.0.0/16",  # link-local; 169.254.169.254 is most clouds' metadata
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
# For IPv6 the public range is listed, with its exceptions: Teredo and other special uses, documentation, 6to4.
# Loopback, fc00::/7 (fd00:ec2::254 is AWS's metadata), fe80::/10, multicast and IPv4-mapped addresses are outside.
PUBLIC_V6 = IPv6Network("2000::/3")
NOT_PUBLIC_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
NAT64 = IPv6Network("64:ff9b::/96")  # an IPv4 address in its last four bytes, for networks without IPv4

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
"""The addresses of a host, for a port. Raises OSError if there are none."""


def is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address):
        if address in NAT64:
            return is_public(IPv4Address(address.packed[-4:]))
        return address in PUBLIC_V6 and not any(address in network for network in NOT_PUBLIC_V6)
    return not any(address in network for network in NOT_PUBLIC_V4)


def system_addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Unfetchable(Exception):
    """The reason, as the end of a sentence that begins with the field's name."""


@dataclass(frozen=True, slots=True)
class _Target:
    scheme: str
    host: str
    port: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """Thread-safe. `hosts`: the allowed hosts; empty means any. `resolve`, `allowed` and `ports` are for tests."""

    hosts: Collection[str] = ()
    resolve: Resolve = system_addresses
    allowed: Callable[[Address], bool] = is_public
    ports: Collection[int] = tuple(PORTS.values())

    def fetch(self, url: str, max_bytes: int, deadline: float, *, field: str, kind: str = "image") -> bytes:
        """The bytes of an image or a video. `deadline` is in `time.monotonic`. Raises only InvalidRequest."""
        try:
            return self._follow(url, max_bytes, deadline, kind)
        except Unfetchable as error:
            raise InvalidRequest.at(field, f"{error}.") from None
        except TimeoutError:
            raise InvalidRequest.at(field, "could not be fetched in the time allowed.") from None
        except ssl.SSLCertVerificationError:
            raise InvalidRequest.at(field, "could not be fetched: its certificate is not valid.") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # Without the error's text, which may describe the network around the server.
            raise InvalidRequest.at(field, "could not be fetched: the connection failed.") from error

    def _follow(self, url: str, max_bytes: int, deadline: float, kind: str) -> bytes:
        for _ in range(MAX_REDIRECTS + 1):
            target = self._target(url)
            connection = self._connect(target, deadline)
            with contextlib.closing(connection):
                connection.request("GET", target.path, headers=_headers(kind))
                with connection.getresponse() as response:
                    if response.status in REDIRECTS and (place := response.headers.get("location")):
                        url = urljoin(url, place)
                        continue
                    return _body(response, max_bytes, kind)
        raise Unfetchable(f"redirects more than {MAX_REDIRECTS} times")

    def _target(self, url: str) -> _Target:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise Unfetchable("is not a valid address") from None
        if parts.scheme not in PORTS:
            raise Unfetchable("leads to an address that is not http or https")
        if parts.username is not None or parts.password is not None:
            raise Unfetchable("has a user or a password in its address, which is not allowed")
        host = _plain(host)
        port = PORTS[parts.scheme] if port is None else port
        self._check_listed(host, port)
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
        query = quote(parts.query, safe="/%:@!$&'()*+,;=~?[]")
        return _Target(parts.scheme, host, port, f"{path}?{query}" if query else path)

    def _check_listed(self, host: str, port: int) -> None:
        """Other ports than the usual ones need a host that is listed with its port."""
        for entry in self.hosts:
            name, _, listed_port = entry.partition(":")
            named = host.endswith(name[1:]) if name.startswith("*.") else host == name
            if named and (port == int(listed_port) if listed_port else port in self.ports):
                return
        if self.hosts:
            raise Unfetchable("leads to a host that pictures are not fetched from here")
        if port not in self.ports:
            raise Unfetchable(f"leads to port {port}; pictures are fetched from ports 80 and 443 only")

    def _connect(self, target: _Target, deadline: float) -> http.client.HTTPConnection:
        failure: OSError = OSError("no address")
        for address in self._checked_addresses(target, deadline):
            try:
                return _Pinned(target, address, deadline)
            except TimeoutError:
                raise
            except OSError as error:
                failure = error
        raise failure

    def _checked_addresses(self, target: _Target, deadline: float) -> list[str]:
        # One message for missing and for private hosts: clients may not learn the names in the server's network.
        refusal = Unfetchable("leads to a host that has no public address")
        try:
            found = _in_time(functools.partial(self.resolve, target.host, target.port), deadline)
            addresses = [ip_address(text) for text in found]
        except TimeoutError:
            raise
        except (OSError, ValueError):
            raise refusal from None
        # All must be public: an honest host has no private address beside its public ones.
        if not addresses or not all(map(self.allowed, addresses)):
            raise refusal
        return [str(address) for address in addresses]


def _plain(host: str) -> str:
    """The host as in DNS: ASCII, lower case, no final dot; an IP address only in its usual form."""
    if not host or "%" in host:
        raise Unfetchable("has no valid host in its address")
    if ":" in host:
        try:
            return str(IPv6Address(host))
        except ValueError:
            raise Unfetchable("has no valid host in its address") from None
    try:
        host = host.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        raise Unfetchable("has no valid host in its address") from None
    # 2130706433, 0177.1 and 0x7f.0.0.1 are all 127.0.0.1 to a resolver.
    last = host.rpartition(".")[2]
    if last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise Unfetchable("has an IP address as its host that is not written as in 192.0.2.1") from None
    if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", host):
        raise Unfetchable("has no valid host in its address")
    return host


def _headers(kind: str) -> dict[str, str]:
    # identity: a compressed body could be small on the way and huge here.
    return {
        "Accept": f"{kind}/*",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "User-Agent": f"paceline/{__version__}",
    }


def _body(response: http.client.HTTPResponse, max_bytes: int, wanted: str) -> bytes:
    if response.status != 200:
        raise Unfetchable(f"could not be fetched: its server answered with status {response.status}")
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Unfetchable("is sent compressed, which was not asked for")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and not kind.startswith(f"{wanted}/") and kind not in ("application/octet-stream", "binary/octet-stream"):
        raise Unfetchable(f"is of type {kind[:80]!r}, which is not {KINDS.get(wanted, wanted)}")
    too_large = Unfetchable(f"has more than {max_bytes} bytes, the most that is left for this request's pictures")
    if response.length is not None and response.length > max_bytes:
        raise too_large
    data = bytearray()
    while piece := response.read1(PIECE_BYTES):
        data += piece
        if len(data) > max_bytes:
            raise too_large
    return bytes(data)


class _Pinned(http.client.HTTPConnection):
    """A connection to `address`, whatever the host's name resolves to."""

    def __init__(self, target: _Target, address: str, deadline: float) -> None:
        super().__init__(target.host, target.port)
        self.default_port = PORTS[target.scheme]  # otherwise the Host header names the port
        raw = socket.create_connection((address, target.port), timeout=_left(deadline))
        try:
            if target.scheme == "https":
                raw = _trusting().wrap_socket(raw, server_hostname=target.host)
            raw.settimeout(_left(deadline))
        except BaseException:
            raw.close()
            raise
        self.sock = _Timed(raw, deadline)


class _Timed:
    """What http.client uses of a socket, with one deadline: a socket's timeout begins anew with every byte."""

    def __init__(self, raw: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._deadline = deadline
        self._read_by: io.BufferedReader | None = None

    def sendall(self, data: bytes) -> None:
        self._raw.settimeout(_left(self._deadline))
        self._raw.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        self._read_by = io.BufferedReader(_TimedReader(self._raw, self._deadline))
        return self._read_by

    def close(self) -> None:
        """The reader closes, once there is one: http.client closes the socket before it reads the body."""
        if self._read_by is None:
            self._raw.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, raw: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        self._raw.settimeout(_left(self._deadline))
        return self._raw.recv_into(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


@functools.cache
def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    with contextlib.suppress(ImportError):  # Python from python.org does not find macOS's certificates
        import certifi

        context.load_verify_locations(certifi.where())
    return context


def _left(deadline: float) -> float:
    if (left := deadline - time.monotonic()) <= 0:
        raise TimeoutError
    return left


def _in_time(call: Callable[[], Sequence[str]], deadline: float) -> Sequence[str]:
    """A lookup cannot be interrupted: one that takes too long is left behind on its own thread."""
    outcome: queue.SimpleQueue[Sequence[str] | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put(call())
        except Exception as error:
            outcome.put(error)

    threading.Thread(target=run, name="paceline-lookup", daemon=True).start()
    try:
        found = outcome.get(timeout=_left(deadline))
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(found, Exception):
        raise found
    return found
