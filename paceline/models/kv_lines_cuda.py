"""Lines of quantized keys and values (`cache/kv_quantization.Lines`) on CUDA: a kernel that writes them and one that
dequantizes them, one launch each. `attention_cuda` reads them as they are.

The plain operations are the reference: `agrees` compares all three with them on the machine before they are used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx

from paceline.cache.kv_quantization import ALIGNED, KVQuantization, Lines, Quantized
from paceline.models import attention_cuda
from paceline.models.cuda_kernel import CudaKernel, on_device

WARPS = 4  # of a block that packs
THREADS = 256  # of one that unpacks
PACK, UNPACK = (Path(__file__).with_name(f"kv_lines_{name}.cu").read_text() for name in ("pack", "unpack"))
TRIED = (4, 24, 40)  # queries that share keys, a number for each form of a block
TOLERANCE = 0.03  # of the largest number: several roundings to bfloat16


@dataclass(frozen=True, slots=True)
class CudaLines(Lines):
    def pack(self, form: KVQuantization, keys: mx.array, values: mx.array) -> mx.array:
        rows, heads, tokens, dim = keys.shape
        groups = dim // form.group_size
        words = 2 * groups * (form.group_size * form.bits // 32 + 1)
        blocks = -(-rows * heads * tokens * 2 * groups // WARPS)
        [lines] = _pack()(
            inputs=[keys.astype(self.dtype), values.astype(self.dtype), on_device((rows, heads, tokens), mx.int32)],
            template=[*self._template(form, dim), ("Warps", WARPS)],
            grid=(32 * WARPS * blocks, 1, 1),
            threadgroup=(32 * WARPS, 1, 1),
            output_shapes=[(rows, heads, tokens, -(-words // ALIGNED) * ALIGNED)],
            output_dtypes=[mx.uint32],
        )
        return lines

    def unpack(self, form: KVQuantization, lines: mx.array, place: int) -> mx.array:
        (rows, heads, slots), dim = lines.shape[:3], self.head_dim(form, lines.shape[3])
        blocks = -(-rows * heads * slots * (dim * form.bits // 128) // THREADS)
        [out] = _unpack()(
            inputs=[lines, on_device((rows, heads, slots), mx.int32)],
            template=[*self._template(form, dim), ("Place", place), ("Threads", THREADS)],
            grid=(THREADS * blocks, 1, 1),
            threadgroup=(THREADS, 1, 1),
            output_shapes=[(rows, heads, slots, dim)],
            output_dtypes=[self.dtype],
        )
        return out

    def _template(self, form: KVQuantization, dim: int) -> list[tuple[str, mx.Dtype | int]]:
        return [("T", self.dtype), ("D", dim), ("Bits", form.bits), ("Group", form.group_size)]


@cache
def agrees(dtype: mx.Dtype, head_dim: int, form: KVQuantization) -> bool:
    """Whether the kernels give what plain operations give for heads of this size, on this machine: lines, and attention
    of rows of different lengths with junk behind them, one of them split, in blocks of every form."""
    if not attention_cuda.fits_packed(dtype, head_dim, form):
        return False
    ours, theirs = CudaLines(dtype), Lines(dtype)
    lengths, capacity, scale = (70, 701), 1024, head_dim**-0.5
    drawn = mx.random.normal((2, 2, capacity, 2, head_dim), key=mx.random.key(0)).astype(dtype)
    keys, values = given = [mx.swapaxes(each, 1, 2) for each in drawn]  # as models have them, two rows of two heads
    lines, reference = (each.pack(form, keys, values) for each in (ours, theirs))
    exact = [theirs.unpack(form, lines, place) for place in (0, 1)]
    for place, each in enumerate(given):
        far = _distance(theirs.unpack(form, reference, place), each)
        if not _distance(exact[place], each) <= 1.05 * far:  # NaN, too
            return False
        if not _distance(ours.unpack(form, lines, place), exact[place]) <= TOLERANCE:
            return False
    past = mx.arange(capacity)[None, None, :, None] >= mx.array(lengths)[:, None, None, None]
    lines = mx.where(past, mx.array(0xFFFFFFFF, mx.uint32), lines)  # scales of NaN
    both = [Quantized((lines,), replace(form, lines=ours), place=place) for place in (0, 1)]
    for width in TRIED:
        ends = mx.array([length - width for length in lengths], dtype=mx.int32)
        queries = mx.random.normal((2, 2, width, head_dim), key=mx.random.key(1)).astype(dtype)
        visible = mx.arange(capacity) <= (ends[:, None] + mx.arange(width))[:, None, :, None]
        found = attention_cuda.attention(queries, both[0], both[1], ends, scale)
        if not _distance(found, plain(queries, exact[0], exact[1], visible, scale)) <= TOLERANCE:
            return False
    return True


def plain(queries: mx.array, keys: mx.array, values: mx.array, visible: mx.array, scale: float) -> mx.array:
    """Attention of as many heads of queries as of keys, in float32."""
    q, k, v = (each.astype(mx.float32) for each in (queries, keys, values))
    scores = mx.where(visible, (q * scale) @ mx.swapaxes(k, 2, 3), -mx.inf)
    return mx.softmax(scores, axis=-1) @ v


def _distance(found: mx.array, exact: mx.array) -> float:
    """The largest difference, as a share of the largest number."""
    share: Any = (mx.abs(found.astype(mx.float32) - exact).max() / mx.abs(exact).max()).item()
    return float(share)


@cache
def _pack() -> CudaKernel:
    return CudaKernel(
        name="paceline_kv_lines_pack",
        input_names=["keys", "values", "sizes"],
        output_names=["lines"],
        source=PACK,
        header=attention_cuda.HEADER,
        ensure_row_contiguous=False,  # the source takes strides
    )


@cache
def _unpack() -> CudaKernel:
    return CudaKernel(
        name="paceline_kv_lines_unpack",
        input_names=["lines", "sizes"],
        output_names=["out"],
        source=UNPACK,
        header=attention_cuda.HEADER,
        ensure_row_contiguous=False,
    )
