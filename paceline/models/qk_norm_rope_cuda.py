"""Attention layers whose heads are made by one CUDA kernel: norms and RoPE of queries and keys, in their last layout.

MLX takes eight launches for that and for the gate after attention, where Qwen3.5 has one: copies of the queries and of
the gates beside them, two norms, two rotations, a sigmoid and a product. Here there is one, and attention's own last
kernel multiplies by the gates. A row's result does not depend on how many rows there are, so that batched equals alone.
The plain form is the reference: the start-up check compares the two on the machine.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models import qwen3, qwen3_next

from paceline.cache.layers import AttentionCache, RaggedMask
from paceline.models import attention_cuda
from paceline.models.cuda_kernel import CudaKernel, on_device
from paceline.models.linear_cuda import RowLinear
from paceline.models.positions import MRoPE, PositionIdRoPE

SIZES = (64, 128, 256)  # numbers of a head: a warp's, some for each lane
WIDEST = 16  # tokens of a row in one step: with more the device sets the pace, not the host
SOURCE = Path(__file__).with_suffix(".cu").read_text()


class RowAttention:
    """Adopted by mlx-lm's attention layers at load (same parameters)."""

    fused = False  # whether heads are made by the kernel: set by the adapter, checked at start-up
    gated = False  # whether each head's queries are followed by its gates

    def __call__(self: Any, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        if not (self.fused and self._takes(x, mask, cache)):
            out: mx.array = super().__call__(x, mask, cache)  # type: ignore[misc]
            return out
        projected = self.q_proj(x)
        queries, keys, values = make_heads(self, projected, self.k_proj(x), self.v_proj(x), cache.offset)
        keys, values = cache.update_and_fetch(keys, values)
        gates = projected if self.gated else None
        places = {"window": mask.window, "joined": True, "gates": gates}
        joined: mx.array = self.o_proj(attention_cuda.attention(queries, keys, values, mask.ends, self.scale, **places))
        return joined

    def _takes(self: Any, x: mx.array, mask: Any, cache: Any) -> bool:
        """Is this a step of few tokens in one padded buffer, with lengths on the device and no adapter on a layer?"""
        if not isinstance(cache, AttentionCache) or not isinstance(mask, RaggedMask):
            return False
        if x.shape[1] > WIDEST or cache.kv is not None:
            return False
        offset, layers = cache.offset, (self.q_proj, self.k_proj, self.v_proj)
        counted = isinstance(offset, mx.array) and offset.dtype == mx.int32
        plain = all(type(layer) is RowLinear and layer.fused for layer in layers)
        return counted and plain and x.dtype == self.q_norm.weight.dtype and rotary(self) is not None

    @property
    def head_counts(self: Any) -> tuple[int, int]:
        """Of queries, and of keys."""
        return self.n_heads, self.n_kv_heads


class RowQwen3Attention(RowAttention, qwen3.Attention):  # type: ignore[misc]
    """Qwen3's."""


class RowGatedAttention(RowAttention, qwen3_next.Qwen3NextAttention):  # type: ignore[misc]
    """Qwen3.5's and Qwen3-Next's."""

    gated = True

    @property
    def head_counts(self) -> tuple[int, int]:
        return self.num_attention_heads, self.num_key_value_heads


ROW_ATTENTIONS: dict[type, type] = {kind.__bases__[1]: kind for kind in (RowQwen3Attention, RowGatedAttention)}


def rotary(module: Any) -> Any:
    """A layer's RoPE, if the kernel has its form; else None."""
    rope = module.rope._inner if type(module.rope) in (MRoPE, PositionIdRoPE) else module.rope
    size = module.q_norm.weight.size
    if type(rope) is not nn.RoPE or rope.traditional or rope.dims > size:
        return None
    lanes = rope.dims // 2 * 32 // size  # of half a rotation: a power of 2, so that the other half is an `xor` away
    known = lanes > 0 and lanes & (lanes - 1) == 0 and lanes * size == 16 * rope.dims
    return rope if known else None


def fits(module: Any) -> bool:
    """Whether the kernel can make this layer's heads here."""
    q, k = module.q_norm.weight, module.k_norm.weight
    known = q.size in SIZES and k.size == q.size and q.dtype == k.dtype
    return known and attention_cuda.fits(q.dtype, q.size) and rotary(module) is not None


def make_heads(
    module: Any, queries: mx.array, keys: mx.array, values: mx.array, offset: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Queries, keys and values (rows, heads, width, size) of the projections (rows, width, numbers), normed and turned
    from each row's `offset` on. The numbers of a token must lie together, at a multiple of 16 bytes."""
    (rows, width), (q_heads, k_heads), size = queries.shape[:2], module.head_counts, module.q_norm.weight.size
    rope, heads = rotary(module), q_heads + 2 * k_heads
    base = float(np.log2(np.float32(rope.base)))  # in float32, as MLX has it
    threads = 32 * next(warps for warps in (8, 4, 2, 1) if heads % warps == 0)
    made = _kernel()(
        inputs=[
            *(queries, keys, values, module.q_norm.weight, module.k_norm.weight, offset),
            on_device((module.q_norm.eps, module.k_norm.eps, base, rope.scale), mx.float32),
            on_device((width,), mx.int32),
        ],
        template=[
            ("T", queries.dtype),
            ("Size", size),
            ("Rotary", rope.dims),
            ("QHeads", q_heads),
            ("KHeads", k_heads),
            ("Line", queries.shape[2] // q_heads),
            ("Threads", threads),
        ],
        grid=(32 * heads * rows * width, 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=[(rows, count, width, size) for count in (q_heads, k_heads, k_heads)],
        output_dtypes=[queries.dtype] * 3,
    )
    return made[0], made[1], made[2]


@cache
def _kernel() -> CudaKernel:
    return CudaKernel(
        name="paceline_qk_norm_rope",
        input_names=["queries", "keys", "values", "q_weight", "k_weight", "offset", "numbers", "sizes"],
        output_names=["queries_out", "keys_out", "values_out"],
        source=SOURCE,
        ensure_row_contiguous=False,  # parts of one product; the source takes strides
    )
