"""What surrounds the choices of a response or of a chunk."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from paceline import __version__
from paceline.engine.request import RequestId

FINGERPRINT = f"paceline-{__version__}"
encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

PART = 4096  # elements of a list that are encoded in one call


def encode_long(value: Any) -> bytes:
    """As `encode_json`, for what may be long: the encoder holds the interpreter's lock for the whole of a call."""
    return "".join(_encoded(value)).encode()


def _encoded(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        separator = "{"
        for key, item in value.items():
            yield f"{separator}{encode_json(str(key))}:"
            yield from _encoded(item)
            separator = ","
        yield "}" if value else "{}"
    elif isinstance(value, list) and len(value) > PART and not isinstance(value[0], dict | list):
        for begin in range(0, len(value), PART):
            yield f"{',' if begin else '['}{encode_json(value[begin : begin + PART])[1:-1]}"
        yield "]"
    elif isinstance(value, list) and value and isinstance(value[0], dict | list):
        separator = "["
        for item in value:
            yield separator
            yield from _encoded(item)
            separator = ","
        yield "]"
    else:
        yield encode_json(value)


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
    """Chunks as SSE events. The head is encoded once: this runs for every token of every row."""

    def __init__(self, head: dict[str, Any], nullable_usage: bool) -> None:
        self._before = f'data: {encode_json(head)[:-1]},"choices":'
        self._no_usage = ',"usage":null' if nullable_usage else ""

    def __call__(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        after = self._no_usage if usage is None else f',"usage":{encode_json(usage)}'
        return f"{self._before}{encode_json(choices)}{after}}}\n\n".encode()
