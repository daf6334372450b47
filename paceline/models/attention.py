"""The attention call, given to the cache when rows lie in several buffers.

mlx-lm's models call `scaled_dot_product_attention` by a name in their own module. `install` puts `attention` under
that name in the modules that use the library's function; calls with any other cache go on to the library unchanged.
"""

from __future__ import annotations

import sys
from typing import Any

import mlx.core as mx
from mlx_lm.models import base

from paceline.cache.layers import AttentionCache

BLOCK = 2  # times a draft's window: the tokens that look back no further than one of them (`nearby`)
NAME = "scaled_dot_product_attention"
library_attention = base.scaled_dot_product_attention


def attention(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    cache: Any,
    scale: float,
    mask: Any,
    sinks: mx.array | None = None,
) -> mx.array:
    if isinstance(cache, AttentionCache):
        if cache.batch.watch is not None and cache.slot_plan.window is None:
            cache.batch.watch(queries, keys, scale)
        if len(cache.slot_plan.groups) > 1:
            return cache.attend(queries, scale, sinks)
        near = cache.batch.near
        if near is not None and queries.shape[2] > 1 and keys.shape[2] > BLOCK * near:
            return nearby(queries, keys, values, near, scale, sinks)
    return library_attention(queries, keys, values, cache=cache, scale=scale, mask=mask, sinks=sinks)


def nearby(
    queries: mx.array, keys: mx.array, values: mx.array, near: int, scale: float, sinks: mx.array | None = None
) -> mx.array:
    """Causal attention of one row that does not look far back: a token sees its block and `near` tokens before it.

    Blocks lie where they lie in the row, whatever chunks it is read in, so that chunks change nothing.
    """
    stop = keys.shape[2]
    start, size = stop - queries.shape[2], BLOCK * near
    outputs, begin = [], start
    while begin < stop:
        block = begin // size * size
        end, low = min(block + size, stop), max(block - near, 0)
        outputs.append(
            mx.fast.scaled_dot_product_attention(
                queries[:, :, begin - start : end - start],
                keys[:, :, low:end],
                values[:, :, low:end],
                scale=scale,
                mask="causal",
                sinks=sinks,
            )
        )
        begin = end
    return mx.concatenate(outputs, axis=2) if len(outputs) > 1 else outputs[0]


def install() -> None:
    """Idempotent; covers the model modules imported so far."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mlx_lm.models.") and getattr(module, NAME, None) is library_attention:
            setattr(module, NAME, attention)
