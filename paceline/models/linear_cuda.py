"""A CUDA kernel for products of a few rows with large bf16 matrices: the shape of decoding with a batch or a draft.

MLX uses a matrix-vector kernel for one row and cuBLAS for more. For 2 to 40 rows cuBLAS takes 1.5 to 3 times as long
as reading the matrix. Here a warp reads lines of the matrix once and multiplies them with all rows on the tensor cores.
Layers that have the same input are computed by one launch, because the host's launches dominate a step of few
rows. The plain form is the reference: the start-up check compares the two on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import llama, qwen3, qwen3_next

from paceline.models.cuda_kernel import CudaKernel, on_device

MAX_ROWS = 40
MAX_MERGED = 1024  # rows up to which siblings are one product of cuBLAS: with more, the host does not set the pace
MAX_OUTPUTS = 32768  # cuBLAS does well on larger matrices, such as output heads
WARPS = 8  # of a block
LINES, PROCESSORS = (16, 32, 48, 64, 80), 132  # outputs of a block; blocks that run at a time, on an H100 or H200
SAME_INPUT = (
    ("q_proj", "k_proj", "v_proj"),
    ("gate_proj", "up_proj"),
    ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"),
)
SOURCE = Path(__file__).with_suffix(".cu").read_text()
FINISH = Path(__file__).with_name("linear_cuda_finish.cu").read_text()
CHOICE = """const int rows = sizes[0], inputs = sizes[1];
int first = blockIdx.y * Lines, outputs = sizes[2];
const T* weight = weight0;
T* out = out0;"""
# 16 lines of a block: one matrix's, or 8 of the gate's and the same 8 of up's, whose SwiGLU is written.
PLAIN = "constexpr bool Gated = false;\nconst T* other = weight + size_t(8) * inputs;"
GATED = """constexpr bool Gated = true;
first /= 2;
const T* other = weight1;"""
NEXT = """if (first >= outputs) {{
    first -= (outputs + Lines - 1) / Lines * Lines;
    outputs = sizes[{size}]; weight = weight{i}; out = out{i};
}}"""


class RowLinear(nn.Linear):  # type: ignore[misc]
    """Adopted by the language model's linear layers at load (same parameters)."""

    fused = False  # whether few rows use the kernel: set by the adapter, checked at start-up
    siblings: Siblings | None = None  # a layer without them is computed alone

    def __call__(self, x: mx.array) -> mx.array:
        rows = x.size // x.shape[-1]
        if not self.fused or x.dtype != mx.bfloat16:
            return super().__call__(x)
        if self.siblings is not None and (rows <= MAX_ROWS or self.siblings.merges(rows)):
            return self.siblings.product(self, x)
        return super().__call__(x) if rows == 1 or rows > MAX_ROWS else products(x, [self.weight])[0]


class Siblings:
    """Layers that one module gives the same input, one after another: one launch computes the products of all.

    For many rows that is a product of cuBLAS, with a matrix of which theirs become parts. For the host it is by far the
    dearest kind of launch: MLX captures each into a CUDA graph of its own.
    """

    def __init__(self, layers: Sequence[RowLinear]) -> None:
        self.layers = layers
        sizes = [len(layer.weight) for layer in layers]
        self._ranges = [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]
        self._merged = mx.concatenate([layer.weight for layer in layers])
        self._parts = [self._merged[part] for part in self._ranges]
        mx.eval(self._merged, self._parts)  # group by group: else all matrices would be there twice
        for layer, part in zip(layers, self._parts, strict=True):
            layer.weight = part
        self._input: mx.array | None = None
        self._made: dict[int, mx.array] = {}  # by the layer's id, until it asks for its own

    def product(self, layer: RowLinear, x: mx.array) -> mx.array:
        if self._input is not x or id(layer) not in self._made:
            few = x.size // x.shape[-1] <= MAX_ROWS
            found = products(x, [one.weight for one in self.layers]) if few else self._separate(x)
            self._input, self._made = x, {id(one): out for one, out in zip(self.layers, found, strict=True)}
        out = self._made.pop(id(layer))
        if not self._made:
            self._input = None
        return out

    def merges(self, rows: int) -> bool:
        """Are products of so many rows one? Not where a layer has got another matrix, or an adapter changes one."""
        if not MAX_ROWS < rows <= MAX_MERGED:
            return False
        own = all(type(layer) is RowLinear and layer.fused for layer in self.layers)
        return own and all(layer.weight is part for layer, part in zip(self.layers, self._parts, strict=True))

    def side_by_side(self, x: mx.array) -> mx.array:
        """The products of all layers, the last axis in their order."""
        return x @ self._merged.T

    def _separate(self, x: mx.array) -> list[mx.array]:
        every = self.side_by_side(x)
        return [every[..., part] for part in self._ranges]


class RowMLP:
    """Adopted by MLPs of the form down_proj(swiglu(gate_proj(x), up_proj(x))) at load (same parameters)."""

    gate_proj: Any
    up_proj: Any
    down_proj: Any

    def __call__(self, x: mx.array) -> mx.array:
        if not can_gate(self) or x.size // x.shape[-1] > MAX_ROWS or x.dtype != mx.bfloat16:
            plain: mx.array = super().__call__(x)  # type: ignore[misc]
            return plain
        out: mx.array = self.down_proj(products(x, [self.gate_proj.weight, self.up_proj.weight], gated=True)[0])
        return out


ROW_MLPS: dict[type, type] = {
    kind: type(f"Row{kind.__name__}", (RowMLP, kind), {}) for kind in (qwen3_next.Qwen3NextMLP, qwen3.MLP, llama.MLP)
}


def can_gate(part: Any) -> bool:
    """Whether this is an MLP both of whose layers the kernel computes: not where an adapter changes one."""
    both = (part.gate_proj, part.up_proj) if isinstance(part, RowMLP) else ()
    return bool(both) and all(type(layer) is RowLinear and layer.fused for layer in both)


def join_siblings(module: nn.Module) -> None:
    """Let the adopted layers of a module that have the same input know each other."""
    for names in SAME_INPUT:
        layers = [part for name in names if isinstance(part := module.get(name), RowLinear)]
        if len(layers) == len(names) and len({layer.weight.shape[1] for layer in layers}) == 1:
            siblings = Siblings(layers)
            for layer in layers:
                layer.siblings = siblings


def fits(module: nn.Module) -> bool:
    """Whether the kernel can compute this layer's products here."""
    if not mx.cuda.is_available() or "bias" in module or module.weight.dtype != mx.bfloat16:
        return False
    outputs, inputs = module.weight.shape
    return bool(inputs % 32 == 0 and outputs % 16 == 0 and outputs <= MAX_OUTPUTS)


@cache
def _kernel(count: int, gated: bool) -> CudaKernel:
    """For so many weights. Every block reads as many inputs, so it does not matter in which order they come."""
    every = range(count)
    choice = [CHOICE, GATED] if gated else [CHOICE, *(NEXT.format(i=i, size=2 + i) for i in every[1:]), PLAIN]
    return CudaKernel(
        name=f"paceline_few_rows_{'gated' if gated else count}",
        input_names=["x", *(f"weight{i}" for i in every), "sizes"],
        output_names=["out0"] if gated else [f"out{i}" for i in every],
        source="\n".join([*choice, FINISH, SOURCE]),
    )


def lines(rows: int, *outputs: int) -> int:
    """Outputs of a block: so that the fullest processor reads as few lines of the matrices and of x as can be."""

    def most(each: int) -> int:
        return -(-sum(-(-count // each) for count in outputs) // PROCESSORS) * (each + (rows + 7) // 8 * 8)

    return min(LINES, key=most)


def products(x: mx.array, weights: Sequence[mx.array], *, gated: bool = False) -> list[mx.array]:
    """x @ weight.T for one to forty rows and each of the weights, summed in float32. `gated`: of two weights, only
    silu(x @ weights[0].T) * (x @ weights[1].T), rounded as MLX rounds the products and mlx-lm's swiglu."""
    rows, inputs = x.size // x.shape[-1], x.shape[-1]
    outputs = [weight.shape[0] for weight in weights]
    each = lines(rows, sum(outputs)) if gated else lines(rows, *outputs)
    blocks = -(-sum(outputs) // each) if gated else sum(-(-count // each) for count in outputs)
    made = outputs[:1] if gated else outputs
    return _kernel(len(weights), gated)(
        inputs=[x, *weights, on_device((rows, inputs, *outputs), mx.int32)],
        template=[("T", x.dtype), ("Tiles", (rows + 7) // 8), ("Lines", each), ("Warps", WARPS)],
        grid=(32 * WARPS, blocks, 1),
        threadgroup=(32 * WARPS, 1, 1),
        output_shapes=[(*x.shape[:-1], count) for count in made],
        output_dtypes=[x.dtype] * len(made),
    )
