"""JSON as it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

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
