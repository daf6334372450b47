"""A CUDA kernel for products of a few rows with a large bf16 matrix: the shape of decoding with a batch or a draft.

MLX uses a matrix-vector kernel for one row and cuBLAS for more. For 2 to 40 rows cuBLAS takes 1.5 to 3 times as long
as reading the matrix. Here a warp reads 16 lines of the matrix once and multiplies them with all rows on the tensor
cores. The plain form is the reference: the start-up check compares the two on the machine.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn

from paceline.models.cuda_kernel import CudaKernel

THREADS = 256
MOST_ROWS = 40
MOST_OUTPUTS = 32768  # cuBLAS does well on larger matrices, such as output heads
SOURCE = Path(__file__).with_suffix(".cu").read_text()


class RowLinear(nn.Linear):  # type: ignore[misc]
    """Adopted by the language model's linear layers at load (same parameters)."""

    fused = False  # whether few rows use the kernel: set by the adapter, checked at start-up

    def __call__(self, x: mx.array) -> mx.array:
        rows = x.size // x.shape[-1]
        if self.fused and 2 <= rows <= MOST_ROWS and x.dtype == mx.bfloat16:
            return product(x, self.weight)
        return super().__call__(x)


def fits(module: nn.Module) -> bool:
    """Whether the kernel can compute this layer's products here."""
    if not mx.cuda.is_available() or "bias" in module or module.weight.dtype != mx.bfloat16:
        return False
    outputs, inputs = module.weight.shape
    return bool(inputs % 32 == 0 and outputs % 16 == 0 and outputs <= MOST_OUTPUTS)


@cache
def _kernel() -> CudaKernel:
    return CudaKernel(
        name="paceline_few_rows", input_names=["x", "weight", "sizes"], output_names=["out"], source=SOURCE
    )


def product(x: mx.array, weight: mx.array) -> mx.array:
    """x @ weight.T for two to forty rows, summed in float32."""
    rows, (outputs, inputs) = x.size // x.shape[-1], weight.shape
    return _kernel()(
        inputs=[x, weight, mx.array([rows, inputs, outputs], dtype=mx.int32)],
        template=[("T", x.dtype), ("Tiles", (rows + 7) // 8)],
        grid=(THREADS, outputs // 16, 1),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[(*x.shape[:-1], outputs)],
        output_dtypes=[x.dtype],
    )[0]
