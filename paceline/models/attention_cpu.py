"""Attention on a CPU, in MLX's plain operations.

MLX's own form takes exponentials by `mx.exp`. That costs 20 ns each on x86-64, where the wheel calls libm for every
step of a polynomial; `mx.power` calls libm once, and takes 6. Query heads that share keys are one head here, so that
the keys are read once.
"""

from __future__ import annotations

import math

import mlx.core as mx


def fits(mask: mx.array | str | None) -> bool:
    """Not a mask of each head's own."""
    return mask is None or isinstance(mask, str) or mask.ndim < 3 or mask.shape[-3] == 1


def attention(
    queries: mx.array, keys: mx.array, values: mx.array, scale: float, mask: mx.array | str | None
) -> mx.array:
    """`mx.fast.scaled_dot_product_attention`; the softmax is computed in float32, as there."""
    rows, heads, width, size = queries.shape
    shared = keys.shape[1]
    scores = (queries * scale).reshape(rows, shared, heads // shared * width, size) @ keys.swapaxes(-1, -2)
    if mask is not None:
        apart = scores.reshape(rows, shared, heads // shared, width, -1)
        scores = _masked(apart, mask).reshape(scores.shape)
    scores = scores.astype(mx.float32)
    weights = mx.power(math.e, scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)  # first: in float16 a sum over many keys would overflow
    return (weights.astype(values.dtype) @ values).reshape(rows, heads, width, -1)


def _masked(scores: mx.array, mask: mx.array | str) -> mx.array:
    """`scores`: (rows, heads of keys, queries of each, width, keys)."""
    if isinstance(mask, str):
        assert mask == "causal", mask
        width, keys = scores.shape[-2:]
        mask = mx.arange(keys - width, keys)[:, None] >= mx.arange(keys)
    if mask.ndim == 4:
        mask = mask[:, :, None]
    if mask.dtype != mx.bool_:
        return scores + mask
    return mx.minimum(scores, mx.where(mask, mx.inf, mx.finfo(mx.float32).min))  # a third of the time of `where`
