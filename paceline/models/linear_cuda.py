"""A CUDA kernel for products of a few rows with a large bf16 matrix: the shape of decoding with a batch or a draft.

MLX takes a matrix-vector kernel for one row and cuBLAS for more; for two to forty rows cuBLAS costs 1.5 to 3 times as
much as reading the matrix. Here a warp reads 16 lines of the matrix once and multiplies them with all rows on the
tensor cores. The plain form stays the reference: the start-up check compares the two on the machine.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mlx.core as mx
import mlx.nn as nn

THREADS = 256
MOST_ROWS = 40
MOST_OUTPUTS = 32768  # an output head is large enough for cuBLAS to do well

# A block makes 16 outputs of all rows: its 8 warps share the inputs out among them, and add up at the end. Which 16
# inputs a tensor-core step takes is of no account as long as both sides take the same: a lane reads 8 in a row.
SOURCE = """
    constexpr int Warps = 8;
    const int rows = sizes[0], inputs = sizes[1], outputs = sizes[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
    const int first = blockIdx.y * 16;
    __shared__ float part[Warps][16][8 * Tiles];
    float sum[Tiles][4];
    for (int t = 0; t < Tiles; ++t) for (int i = 0; i < 4; ++i) sum[t][i] = 0.0f;
    auto multiply = [](float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    };
    const T* upper = weight + size_t(first + group) * inputs;
    const T* lower = upper + size_t(8) * inputs;
    #pragma unroll 4
    for (int k = warp * 32 + quad * 8; k < inputs; k += Warps * 32) {
        const uint4 a = *reinterpret_cast<const uint4*>(upper + k);
        const uint4 b = *reinterpret_cast<const uint4*>(lower + k);
        for (int t = 0; t < Tiles; ++t) {
            const int row = min(t * 8 + group, rows - 1);
            const uint4 v = *reinterpret_cast<const uint4*>(x + size_t(row) * inputs + k);
            multiply(sum[t], a.x, b.x, a.y, b.y, v.x, v.y);
            multiply(sum[t], a.z, b.z, a.w, b.w, v.z, v.w);
        }
    }
    for (int t = 0; t < Tiles; ++t) {
        for (int i = 0; i < 4; ++i) part[warp][group + 8 * (i / 2)][t * 8 + quad * 2 + i % 2] = sum[t][i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 16 * 8 * Tiles; i += blockDim.x) {
        const int output = i % 16, row = i / 16;
        if (row < rows) {
            float total = 0.0f;
            for (int w = 0; w < Warps; ++w) total += part[w][output][row];
            out[size_t(row) * outputs + first + output] = T(total);
        }
    }
"""


class RowLinear(nn.Linear):  # type: ignore[misc]
    """Adopted by the language model's linear layers at load (same parameters)."""

    fused = False  # may few rows go through the kernel? Set by the adapter, and checked at start-up

    def __call__(self, x: mx.array) -> mx.array:
        rows = x.size // x.shape[-1]
        if self.fused and 2 <= rows <= MOST_ROWS and x.dtype == mx.bfloat16:
            return product(x, self.weight)
        result: mx.array = super().__call__(x)
        return result


def fits(module: nn.Module) -> bool:
    """Can the kernel do this layer's products here?"""
    if not mx.cuda.is_available() or "bias" in module or module.weight.dtype != mx.bfloat16:
        return False
    outputs, inputs = module.weight.shape
    return bool(inputs % 32 == 0 and outputs % 16 == 0 and outputs <= MOST_OUTPUTS)


@cache
def _kernel() -> Any:
    return mx.fast.cuda_kernel(
        name="paceline_few_rows", input_names=["x", "weight", "sizes"], output_names=["out"], source=SOURCE
    )


def product(x: mx.array, weight: mx.array) -> mx.array:
    """x @ weight.T for two to forty rows, summed in float32."""
    rows, (outputs, inputs) = x.size // x.shape[-1], weight.shape
    result: mx.array = _kernel()(
        inputs=[x, weight, mx.array([rows, inputs, outputs], dtype=mx.int32)],
        template=[("T", x.dtype), ("Tiles", (rows + 7) // 8)],
        grid=(THREADS, outputs // 16, 1),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[(*x.shape[:-1], outputs)],
        output_dtypes=[x.dtype],
    )[0]
    return result
