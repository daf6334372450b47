"""One CUDA kernel for GatedDeltaNet steps: convolution, normalization, gates, delta updates, read-outs, gated norm.

In plain ops a token takes about twenty launches, and launches dominate a decode step on a fast GPU. The kernel also
makes the commit of a verify step free. A tentative step leaves its tokens pending: it keeps their inputs and
does not change the state. The next step's kernel, which has the state in its registers anyway, first applies the
accepted ones, by the same arithmetic as a plain step: as exact as a replay, without its launches.

The gated norm of the outputs is in the kernel where a block can have a whole head: as norm_cuda's, bit for bit,
without its launch. Few rows have one block for each head then. At one row a processor reads and writes 64 KiB instead
of 16, which costs less than that launch.

The plain form is the reference: the start-up check compares the two on the machine before the kernel is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx

from paceline.models import norm_cuda
from paceline.models.cuda_kernel import CudaKernel, on_device

THREADS = 256
SPLIT = 4  # blocks per head of few rows without the norm, so that one row fills the GPU
FEW = 4  # rows
CELLS = 64  # numbers of the state that a thread holds, at most
KEY_DIMS = (32, 64, 128, 256)  # a lane reads its keys at once
WIDEST = 9  # tokens of one step: MAX_DRAFTED and one more
SOURCE = Path(__file__).with_suffix(".cu").read_text()


def fits(module: Any) -> bool:
    """Whether the kernel can run here, on heads of this size."""
    sizes = module.head_k_dim in KEY_DIMS and module.head_v_dim % (8 * SPLIT) == 0
    return bool(mx.cuda.is_available()) and sizes and module.head_k_dim + module.head_v_dim // SPLIT <= 512


@cache
def _kernel() -> CudaKernel:
    inputs = "mixed window weight a b a_log dt_bias state_in pending_mixed pending_a pending_b kept active"
    return CudaKernel(
        name="paceline_gated_delta_step",
        input_names=[*inputs.split(), "gates", "norm_weight", "eps", "sizes"],
        output_names=["out", "window_out", "state_out"],
        source=SOURCE,
        header=norm_cuda.GATED,
    )


def blocks(rows: int, key_dim: int, value_dim: int) -> int:
    """Blocks per head. Each computes all keys of its head: many rows fill the GPU with as few as can hold the state."""
    return SPLIT if rows <= FEW else min(max(key_dim * value_dim // (THREADS * CELLS), 1), SPLIT)


def step(
    module: Any,
    mixed: mx.array,
    a: mx.array,
    b: mx.array,
    window: mx.array,
    state: mx.array,
    pending: Sequence[mx.array] = (),
    kept: mx.array | None = None,
    active: mx.array | None = None,
    *,
    eager: bool = True,
    gates: mx.array | None = None,
) -> list[mx.array]:
    """One step of `mixed` (rows, tokens, channels), the projection before the convolution.

    `pending` are (mixed, a, b) of the step before; row i first applies `kept[i]` of its tokens. Returns the outputs
    (rows, tokens, value heads, value dim), the window and the state: with `eager` those after the new tokens, else
    those before them. Rows that are not `active` (None: all are) cost nothing: their outputs are zeros, and their
    window and state are not set. With `gates`, outputs are those of the module's gated norm.
    """
    rows, width = mixed.shape[:2]
    pending_width = pending[0].shape[1] if pending else 0
    whole = module.head_k_dim * module.head_v_dim <= THREADS * CELLS  # a block can have a whole head
    normed = gates is not None and whole and norm_cuda.gates_fit(mixed.dtype, gates, module.norm)
    split = 1 if normed else blocks(rows, module.head_k_dim, module.head_v_dim)
    if active is None:
        active = on_device((1,) * rows, mx.int32)
    found = _kernel()(
        inputs=[
            *(mixed, window, module.conv1d.weight, a, b, module.A_log, module.dt_bias, state),
            *(pending or (mixed, a, b)),
            active if kept is None else kept,  # read only if there are pending tokens
            active,
            *((gates, module.norm.weight) if normed else (mixed, mixed)),  # read only if there is a norm
            on_device((module.norm.eps,), mx.float32),
            on_device((width, pending_width, eager), mx.int32),
        ],
        template=[
            ("T", mixed.dtype),
            ("Hk", module.num_k_heads),
            ("Hv", module.num_v_heads),
            ("Dk", module.head_k_dim),
            ("Dv", module.head_v_dim),
            ("Taps", module.conv_kernel_size),
            ("Split", split),
            ("Warps", THREADS // 32),
            ("Normed", int(normed)),
            ("Widest", WIDEST),
        ],
        grid=(THREADS * split, module.num_v_heads, rows),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[(rows, width, module.num_v_heads, module.head_v_dim), window.shape, state.shape],
        output_dtypes=[mixed.dtype, window.dtype, mx.float32],
    )
    if gates is not None and not normed:
        found[0] = norm_cuda.gated_norm(found[0], gates, module.norm)
    return found
