"""One vector per prompt: hidden states pooled on the device, chunk by chunk, during prefill."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline.types import Pooling


def gathered(before: mx.array | None, hidden: mx.array, pooling: Pooling) -> mx.array:
    """`before` with the states (1, tokens, width) of one more chunk: their sum, or the last.

    In float32: a sum over thousands of tokens in half precision would depend on the chunk boundaries.
    """
    if pooling == "last":
        return hidden[0, -1].astype(mx.float32)
    total = hidden[0].astype(mx.float32).sum(axis=0)
    return total if before is None else before + total


def unit(pooled: mx.array) -> NDArray[np.float32] | None:
    """The normalized vector; None where it is not finite."""
    vector = np.array(pooled, dtype=np.float64)
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length):
        return None
    return (vector / (length or 1.0)).astype(np.float32)
