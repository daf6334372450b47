"""One connection between rank 0 and another rank: frames over TCP, each with an HMAC-SHA256 of a shared secret.

A frame is its length (4 bytes), its code (32 bytes) and the payload. The code covers the direction and the number of
the frame, with a key of this connection: frames cannot be repeated, reordered, reflected, or taken from another
connection. Nothing is encrypted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import socket
import struct
import threading

from paceline.errors import PacelineError

MAGIC = b"paceline ranks 1\n"
NONCE = 32
CODE = hashlib.sha256().digest_size
LENGTH = struct.Struct("!I")
MAX_BYTES = 1 << 30  # of a frame
MAX_FIRST_BYTES = 1 << 16  # before both ends have shown that they know the secret
HANDSHAKE_SECONDS = 10.0


class ChannelClosed(Exception):
    """The other end is gone."""


class NotAuthentic(Exception):
    """The other end does not know the secret, or somebody changed a frame."""


class WrongSecret(PacelineError):
    """This rank's secret is not that of rank 0."""


class Channel:
    """Any thread may send; one thread receives."""

    def __init__(self, connection: socket.socket, key: bytes, mine: bytes, theirs: bytes) -> None:
        self._connection = connection
        self._key, self._mine, self._theirs = key, mine, theirs
        self._sent = self._received = 0
        self._lock = threading.Lock()
        self.trusted = False  # the other end has shown that it knows the secret

    def send(self, payload: bytes, *, wait: bool = True) -> bool:
        """Raises ChannelClosed. Without `wait` it is not sent, and False returned, while another thread sends."""
        if not self._lock.acquire(blocking=wait):
            return False
        try:
            code = self._code(self._mine, self._sent, payload)
            self._sent += 1
            self._connection.sendall(LENGTH.pack(len(payload)) + code + payload)
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        finally:
            self._lock.release()
        return True

    def receive(self) -> bytes:
        """Raises ChannelClosed, or NotAuthentic."""
        (length,) = LENGTH.unpack(read_exactly(self._connection, LENGTH.size))
        if length > (MAX_BYTES if self.trusted else MAX_FIRST_BYTES):
            raise NotAuthentic(f"a frame of {length} bytes")
        code = read_exactly(self._connection, CODE)
        payload = read_exactly(self._connection, length)
        if not hmac.compare_digest(code, self._code(self._theirs, self._received, payload)):
            raise NotAuthentic("a frame has a wrong code")
        self._received += 1
        self.trusted = True
        return payload

    def limit(self, seconds: float | None) -> None:
        """How long one call may take; None: as long as it takes."""
        self._connection.settimeout(seconds)

    def end(self) -> None:
        """Nothing more is sent; the other end hears all of it."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the other end may be gone
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _code(self, direction: bytes, number: int, payload: bytes) -> bytes:
        return hmac.digest(self._key, direction + number.to_bytes(8, "big") + payload, "sha256")


def accepted(connection: socket.socket, secret: bytes) -> Channel:
    """Rank 0's end. Raises NotAuthentic or ChannelClosed for what is no rank."""
    _prepare(connection)
    own = secrets.token_bytes(NONCE)
    greeting = read_exactly(connection, len(MAGIC) + NONCE)
    if not greeting.startswith(MAGIC):
        raise NotAuthentic("it does not speak this protocol")
    nonces = greeting[len(MAGIC) :] + own
    _send_all(connection, MAGIC + own + _proof(secret, nonces))
    return Channel(connection, _key(secret, nonces), b"leader", b"follower")


def connected(connection: socket.socket, secret: bytes, seconds: float = HANDSHAKE_SECONDS) -> Channel:
    """Another rank's end. Raises WrongSecret, NotAuthentic or ChannelClosed. `seconds`: rank 0 listens before it has
    imported MLX, and answers after that."""
    _prepare(connection, seconds)
    own = secrets.token_bytes(NONCE)
    _send_all(connection, MAGIC + own)
    greeting = read_exactly(connection, len(MAGIC) + NONCE + CODE)
    if not greeting.startswith(MAGIC):
        raise NotAuthentic("what listens there is no rank of Paceline")
    nonces = own + greeting[len(MAGIC) : -CODE]
    if not hmac.compare_digest(greeting[-CODE:], _proof(secret, nonces)):
        raise WrongSecret("The secret of this rank is not that of rank 0.")
    return Channel(connection, _key(secret, nonces), b"follower", b"leader")


def read_exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        try:
            part = connection.recv(min(count - len(parts), 1 << 20))
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        if not part:
            raise ChannelClosed("the other end closed the connection")
        parts += part
    return bytes(parts)


def _prepare(connection: socket.socket, seconds: float = HANDSHAKE_SECONDS) -> None:
    connection.settimeout(seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _send_all(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except OSError as error:
        raise ChannelClosed(str(error)) from error


def _proof(secret: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret, b"paceline leader" + nonces, "sha256")


def _key(secret: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret, b"paceline ranks key" + nonces, "sha256")
