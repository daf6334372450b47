"""What surrounds the choices of a response or of a chunk, and the end of a stream."""

from __future__ import annotations

import time
import uuid
from typing import Any

from paceline import __version__
from paceline.server.http.errors import error_object
from paceline.server.http.response import encode_json, encode_long, to_json
from paceline.types import RequestId

FINGERPRINT = f"paceline-{__version__}"
DONE = b"data: [DONE]\n\n"  # the end of a stream of chunks


class Envelope:
    """One response's identity, the same on each of its chunks."""

    def __init__(self, prefix: str, model: str) -> None:
        self.id = RequestId(f"{prefix}-{uuid.uuid4().hex}")
        self.model = model
        self.created = int(time.time())

    def response(self, kind: str, choices: list[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
        return {**self._head(kind), "choices": choices, "usage": usage}

    def chunks(self, kind: str, *, nullable_usage: bool) -> ChunkEncoder:
        return ChunkEncoder(self._head(kind), nullable_usage)

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
        }


class ChunkEncoder:
    """Chunks as SSE events. The head is encoded once: this runs for every token of every sequence."""

    def __init__(self, head: dict[str, Any], nullable_usage: bool) -> None:
        self._before = f'data: {encode_json(head)[:-1]},"choices":'.encode()
        self._no_usage = b',"usage":null' if nullable_usage else b""

    def __call__(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        after = self._no_usage if usage is None else b',"usage":' + to_json(usage)
        return b"%b%b%b}\n\n" % (self._before, to_json(choices), after)

    def long(
        self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None, facts: dict[str, Any] | None = None
    ) -> bytes:
        """A chunk with the prompt in it. `facts`: what it has beside its choices."""
        rest = {"usage": usage} if usage is not None or self._no_usage else {}
        encoded = encode_long({"choices": choices, **rest, **(facts or {})})
        return b"".join((self._before.removesuffix(b'"choices":'), encoded[1:], b"\n\n"))


def failed(error: Exception) -> bytes:
    """The event of a stream that breaks."""
    return f"data: {encode_json(error_object(error))}\n\n".encode()
