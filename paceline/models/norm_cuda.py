"""CUDA kernels for norms and what comes with them: the sum before (residuals), the gate after (GatedDeltaNet).

MLX takes two launches for each, on an H200 five to seven microseconds together, and a decode step of a hybrid with 32
layers has nearly ninety of them. A row's result does not depend on how many rows there are, so that batched equals
alone in every type.
The plain form is the reference: the start-up check compares the two on the machine.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from paceline.models.cuda_kernel import CudaKernel, on_device

MAX_THREADS = 512
MAX_SIZE = 16384
GATED_SIZES = (64, 128, 256)  # numbers of a head: a warp's, some for each lane
TYPES = (mx.float32, mx.float16, mx.bfloat16)
SOURCES = Path(__file__)
GATED = SOURCES.with_name("norm_cuda_gated.cuh").read_text()


@cache
def _add_norm() -> CudaKernel:
    return CudaKernel(
        name="paceline_add_norm",
        input_names=["states", "update", "weight", "eps"],
        output_names=["total", "normed"],
        source=SOURCES.with_name("norm_cuda_add.cu").read_text(),
    )


@cache
def _gated_norm() -> CudaKernel:
    return CudaKernel(
        name="paceline_gated_norm",
        input_names=["x", "gates", "weight", "eps"],
        output_names=["out"],
        source=SOURCES.with_name("norm_cuda_gated.cu").read_text(),
        header=GATED,
    )


def fits(norm: Any) -> bool:
    """Whether the kernel can compute this norm here."""
    if not mx.cuda.is_available() or not isinstance(norm, nn.RMSNorm):
        return False
    weight = norm.weight
    return bool(weight.dtype in TYPES and weight.nbytes % 16 == 0 and weight.size <= MAX_SIZE)


def threads_of(weight: mx.array) -> int:
    """Of a block: each has 16 bytes of a row, or as few times that as most threads allow."""
    packs = weight.nbytes // 16
    turns = -(-packs // MAX_THREADS)
    return -(-packs // (turns * 32)) * 32


def add_norm(states: mx.array, update: mx.array, norm: Any) -> tuple[mx.array, mx.array]:
    """states + update, and the norm of that."""
    weight = norm.weight
    if not states.dtype == update.dtype == weight.dtype or states.shape != update.shape:
        total = states + update
        return total, norm(total)
    threads = threads_of(weight)
    total, normed = _add_norm()(
        inputs=[states, update, weight, on_device((norm.eps,), mx.float32)],
        template=[("T", states.dtype), ("Size", weight.size), ("Threads", threads)],
        grid=(threads * (states.size // weight.size), 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=[states.shape, states.shape],
        output_dtypes=[states.dtype, states.dtype],
    )
    return total, normed


def gates_fit(dtype: mx.Dtype, gates: mx.array, norm: Any) -> bool:
    """Whether a kernel can compute the gated norm of outputs of this type here."""
    weight = norm.weight
    fit = weight.size in GATED_SIZES and weight.dtype in TYPES and dtype == gates.dtype == weight.dtype
    return bool(mx.cuda.is_available() and fit)


def gated_norm(x: mx.array, gates: mx.array, norm: Any, first: int | None = None) -> mx.array:
    """mlx-lm's gated norm of x (rows, tokens, heads, size). `first`: `gates` (rows, tokens, numbers) have those of all
    heads from this place of a token's numbers on."""
    weight, heads = norm.weight, x.shape[-2]
    if not gates_fit(x.dtype, gates, norm):
        out: mx.array = norm(x, gates if first is None else gates[..., first : first + x[0, 0].size].reshape(x.shape))
        return out
    threads = 32 * next(warps for warps in (8, 4, 2, 1) if heads % warps == 0)
    lines = [("Line", heads * weight.size if first is None else gates.shape[-1]), ("First", first or 0)]
    return _gated_norm()(
        inputs=[x, gates, weight, on_device((norm.eps,), mx.float32)],
        template=[("T", x.dtype), ("Size", weight.size), ("Threads", threads), ("Heads", heads), *lines],
        grid=(32 * (x.size // weight.size), 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
    )[0]
