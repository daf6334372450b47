"""Two CUDA kernels for GatedDeltaNet's prefill in chunks of 32 tokens: `chunked`, and what comes before it.

`chunked` is a loop of small launches over chunks, for every layer. Here the first kernel computes for all chunks at
once what does not depend on the state: the inverse of the triangular system, and the attention inside the chunk. The
second walks the chunks in order with the state in registers:

    U = (I + A)^-1 beta (V - exp(c) K S^T),   Y = exp(c) Q S^T + attention U,   S' = exp(c_C) S + U^T (exp(c_C - c) K)

Products run on tensor cores. Keys and queries are bf16 numbers as they are. A float32 operand is two bf16 terms, so the
error of the state is about 1e-5 of it, far below the rounding of its inputs. Between the kernels lie, for a token of a
model in bf16, 4 * dims bytes of each key head and 2 * dims + 264 of each value head: 24.3 KiB with Qwen3.5-4B's heads.

The plain form is the reference: the start-up check compares the two on the machine before the kernels are used.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx

from paceline.models.cuda_kernel import CudaKernel, on_device

CHUNK = 32
THREADS = 256  # of the first kernel
PARTS = 4  # blocks per head of the second, so that one row fills the GPU
LINES = 16  # of the state, for each warp of the second
MAX_SHARED = 227 * 1024  # bytes of a block on Hopper
HEADER = Path(__file__).with_suffix(".cuh").read_text()
WITHIN, ACROSS = (
    Path(__file__).with_name(f"gated_delta_prefill_{name}.cu").read_text() for name in ("within", "across")
)


def fits(module: Any) -> bool:
    """Whether the kernels can run here, on heads of this size."""
    keys, values = module.head_k_dim, module.head_v_dim
    sizes = keys in (64, 128) and values in (64, 128, 256) and module.num_v_heads % module.num_k_heads == 0
    return bool(mx.cuda.is_available()) and sizes and max(shared_bytes(module, mx.float32)) <= MAX_SHARED


def shared_bytes(module: Any, dtype: mx.Dtype) -> tuple[int, int]:
    """The shared memory of a block of each kernel."""
    keys = 2 * _terms(dtype) * CHUNK * (module.head_k_dim + 8) * 2
    heads = module.num_v_heads // module.num_k_heads
    within = keys + (2 + heads) * CHUNK * (CHUNK + 4) * 4 + 2 * heads * CHUNK * 4
    values = CHUNK * (module.head_v_dim // PARTS * dtype.size + 16)
    return within, 2 * (keys + 4 * CHUNK * (CHUNK + 8) * 2 + values + 2 * CHUNK * 4)


def _terms(dtype: mx.Dtype) -> int:
    """How many bf16 numbers hold a key of this type."""
    return 1 if dtype == mx.bfloat16 else 2


@cache
def _within(shared: int) -> CudaKernel:
    return CudaKernel(
        name="paceline_gated_delta_prefill_within",
        input_names=["mixed", "window", "weight", "a", "b", "a_log", "dt_bias", "valid", "sizes"],
        output_names=["keys", "values", "solved", "gates", "window_out"],
        source=WITHIN,
        header=HEADER,
        shared_memory=shared,
    )


@cache
def _across(shared: int) -> CudaKernel:
    return CudaKernel(
        name="paceline_gated_delta_prefill_across",
        input_names=["keys", "values", "solved", "gates", "state_in", "valid", "sizes"],
        output_names=["out", "state_out"],
        source=ACROSS,
        header=HEADER,
        shared_memory=shared,
    )


def prefill(
    module: Any,
    mixed: mx.array,
    a: mx.array,
    b: mx.array,
    window: mx.array,
    state: mx.array,
    valid: mx.array | None = None,
    *,
    first: tuple[int, int] = (0, 0),
) -> list[mx.array]:
    """All tokens of `mixed` (rows, tokens, channels), the projection before the convolution. All three projections may
    be the same array: more numbers may follow each token's channels, and a token's of `a` and `b` begin at `first`.

    With `valid`, only the first `valid[i]` tokens of row i are real: the others change nothing, and their outputs are
    finite. Returns the outputs (rows, tokens, value heads, value dim), the window and the state after the tokens.
    """
    rows, width = mixed.shape[:2]
    chunks = -(-width // CHUNK)
    lines = (mixed.shape[-1], a.shape[-1], *first)
    sizes = on_device((width, chunks, int(valid is not None), *lines), mx.int32)
    counts = sizes if valid is None else valid
    key_heads, heads, dims = module.num_k_heads, module.num_v_heads, module.head_v_dim
    terms = _terms(mixed.dtype)
    shared_within, shared_across = shared_bytes(module, mixed.dtype)
    template = [
        ("T", mixed.dtype),
        ("Hk", key_heads),
        ("Hv", heads),
        ("Dk", module.head_k_dim),
        ("Dv", dims),
        ("Terms", terms),
    ]
    *parts, window = _within(shared_within)(
        inputs=[mixed, window, module.conv1d.weight, a, b, module.A_log, module.dt_bias, counts, sizes],
        template=[*template, ("Taps", module.conv_kernel_size)],
        grid=(THREADS * chunks, key_heads, rows),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[
            (rows, chunks, key_heads, 2 * terms, CHUNK, module.head_k_dim),
            (rows, chunks, heads, CHUNK, dims),
            (rows, chunks, heads, 4, CHUNK, CHUNK),
            (rows, chunks, heads, 2, CHUNK),
            window.shape,
        ],
        output_dtypes=[mx.bfloat16, mixed.dtype, mx.bfloat16, mx.float32, window.dtype],
    )
    threads = 32 * dims // PARTS // LINES
    out, state = _across(shared_across)(
        inputs=[*parts, state, counts, sizes],
        template=[*template, ("Parts", PARTS)],
        grid=(threads * PARTS, heads, rows),
        threadgroup=(threads, 1, 1),
        output_shapes=[(rows, width, heads, dims), state.shape],
        output_dtypes=[mixed.dtype, mx.float32],
    )
    return [out, window, state]
