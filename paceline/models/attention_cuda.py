"""placeholder"""

from __future__ import annotations

import mlx.core as mx


def available() -> bool:
    return False


def fits(queries: mx.array, keys: mx.array) -> bool:
    return False


def attention(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    ends: mx.array,
    scale: float,
    *,
    window: int | None = None,
    sinks: mx.array | None = None,
) -> mx.array:
    raise NotImplementedError
