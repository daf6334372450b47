"""CUDA attention of queries to the padded cache of each row, without a mask.

MLX's CUDA attention has no kernel for an array mask with one query, nor for heads of 256 numbers: it multiplies, masks
and normalizes in separate kernels, over the whole buffer. Where cuDNN serves, each new shape costs a plan of tens of
milliseconds. Here every row reads its own slots only, and sizes are data, so no new shape compiles anything.

One kernel (`attention_cuda.cu`) serves decode, verify and prefill, with tiles of four forms for each head dim. Where
the queries do not fill the GPU, blocks divide the keys among them, and a second kernel (`attention_cuda_combine.cu`)
adds up.

Few queries read quantized keys and values as they lie: a block dequantizes a tile in shared memory. MLX's products of
quantized arrays give a key head's values to one block, however long the row. For many queries dequantizing first is
faster: every block of them would do it again.

Where a family multiplies the outputs by the sigmoid of gates, the last of the kernels does it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx

from paceline.cache.kv_quantization import KVQuantization, Quantized, dense
from paceline.models.cuda_kernel import CudaKernel, on_device

HEAD_DIMS = (64, 96, 128, 256)
PACKED_DIMS = (64, 128, 256)  # that quantized keys may have
MULTIPROCESSORS = 132  # of an H200; others only get another number of splits
MAX_SPLITS = 128
MAX_BYTES = 256 << 20  # of the splits' results
FEW = 256  # queries that share keys: decode, verify, short chunks
PACKED_QUERIES = 64  # the most of a block that dequantizes
NO_WINDOW = 1 << 30
COMBINE_THREADS = 256
GATED = "#define GATED\n"
HEADER, SOURCE, COMBINE = (
    Path(__file__).with_name(f"attention_cuda{end}").read_text() for end in (".cuh", ".cu", "_combine.cu")
)


class Tiles(NamedTuple):
    """How a block divides its work; each form is compiled once for a type and a head dim."""

    warps_m: int  # warps that divide the queries
    warps_n: int  # warps that divide the keys of a tile
    m_tiles: int  # times 16 queries of a warp
    key_tile: int
    stages: int  # tiles of keys and of values in shared memory

    @property
    def queries(self) -> int:
        return 16 * self.m_tiles * self.warps_m

    def shared_bytes(self, dim: int, bits: int | None = None) -> int:
        """`bits`: of quantized keys, whose next tiles are there packed."""
        inputs = 2 * dim * (self.queries + 2 * self.stages * self.key_tile)
        inputs += 0 if bits is None else 2 * self.key_tile * dim * bits // 8
        results = 4 * (dim + 8) * self.queries * self.warps_n
        return max(inputs, results)


def fits(dtype: mx.Dtype, head_dim: int, value_dim: int | None = None) -> bool:
    """Whether the kernels can run here, on heads of this type and size."""
    known = dtype in (mx.bfloat16, mx.float16) and head_dim in HEAD_DIMS
    return bool(mx.cuda.is_available()) and known and value_dim in (None, head_dim)


def reads(queries: mx.array, keys: Quantized, values: Quantized) -> bool:
    """Whether the kernel takes these quantized keys and values as they are (compared before: `kv_lines_cuda`)."""
    (_, q_heads, width, dim), form = queries.shape, keys.form
    if form.lines is None or keys.parts[0] is not values.parts[0] or form.lines.dtype != queries.dtype:
        return False
    return fits_packed(queries.dtype, dim, form) and q_heads // keys.parts[0].shape[1] * width <= FEW


def fits_packed(dtype: mx.Dtype, head_dim: int, form: KVQuantization) -> bool:
    known = head_dim in PACKED_DIMS and form.bits in (4, 8) and head_dim % form.group_size == 0
    return fits(dtype, head_dim) and known and form.start == 0


def attention(
    queries: mx.array,
    keys: mx.array | Quantized,
    values: mx.array | Quantized,
    ends: mx.array,
    scale: float,
    *,
    window: int | None = None,
    sinks: mx.array | None = None,
    joined: bool = False,
    gates: mx.array | None = None,
) -> mx.array:
    """Attention of `queries` (rows, query heads, width, dim) to whole buffers (rows, key heads, capacity, dim).

    Query i of row r sits at slot ends[r] + i and attends the slots up to its own, the last `window` of them if given.
    Slots at or past ends[r] + width may hold anything. `sinks` (query heads) are logits that join the denominator.
    All may be views, but the numbers of one key or value must lie together, at a multiple of 16 bytes. Both may be
    quantized (`reads`). `joined`: the result is (rows, width, query heads * dim), as an output projection takes it.
    `gates` (rows, width, query heads * 2 * dim): that is multiplied by the sigmoid of the second half of each head's.
    """
    form = keys.form if isinstance(keys, Quantized) else None
    stored = list(keys.parts) if isinstance(keys, Quantized) else [keys, dense(values)]  # lines have the values, too
    (rows, q_heads, width, dim), (kv_heads, capacity) = queries.shape, stored[0].shape[1:3]
    count = q_heads // kv_heads * width
    tiles = choose(dim, count) if form is None else choose_packed(dim, count)
    blocks = rows * kv_heads * -(-count // tiles.queries)
    shape, entries = (rows, width, *((q_heads * dim,) if joined else (q_heads, dim))), rows * width * q_heads
    splits, least = divide(blocks, count, capacity, 4 * dim * entries)
    scales = on_device((scale,), mx.float32)
    numbers = (rows, q_heads, kv_heads, width, capacity, splits, least, window or NO_WINDOW, int(sinks is not None))
    shared: list[mx.array] = [ends, scales if sinks is None else sinks.astype(mx.float32)]
    sizes = on_device(numbers, mx.int32)
    threads = 32 * tiles.warps_m * tiles.warps_n
    packed = [] if form is None else [("Bits", form.bits), ("Group", form.group_size)]
    beside = [] if gates is None else [gates]
    out, partial, weights = _kernel(tiles, dim, None if form is None else form.bits, bool(beside) and splits == 1)(
        inputs=[queries, *stored, *shared, scales, sizes, *(beside if splits == 1 else [])],
        template=[
            ("T", queries.dtype),
            ("D", dim),
            ("WarpsM", tiles.warps_m),
            ("WarpsN", tiles.warps_n),
            ("MTiles", tiles.m_tiles),
            ("KeyTile", tiles.key_tile),
            ("Stages", tiles.stages),
            *packed,
        ],
        grid=(threads * blocks * splits, 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=[shape, (1,), (1,)] if splits == 1 else [(1,), (splits, entries, dim), (splits, entries)],
        output_dtypes=[queries.dtype, mx.float32, mx.float32],
    )
    if splits > 1:
        [out] = _combine(bool(beside))(
            inputs=[partial, weights, *shared, sizes, *beside],
            template=[("T", queries.dtype), ("D", dim), ("KeyTile", tiles.key_tile), ("Queries", tiles.queries)],
            grid=(COMBINE_THREADS * entries, 1, 1),
            threadgroup=(COMBINE_THREADS, 1, 1),
            output_shapes=[shape],
            output_dtypes=[queries.dtype],
        )
    return out if joined else out.transpose(0, 2, 1, 3)


def choose(dim: int, count: int) -> Tiles:
    """The tiles for `count` queries that share the keys of a head."""
    wide = dim == 256  # large tiles would leave room for one block only
    if count <= 16:
        return Tiles(1, 2, 1, 32, 2) if wide else Tiles(1, 4, 1, 64, 2)
    if count <= 32:
        return Tiles(2, 2, 1, 32 if wide else 64, 2)
    if count <= 64:
        return Tiles(4, 1, 1, 32 if wide else 64, 2)
    if wide:
        return Tiles(4, 1, 1, 64, 1)
    return Tiles(4, 1, 2, 64, 1 if dim == 128 else 2)


def choose_packed(dim: int, count: int) -> Tiles:
    """The same where keys are quantized: packed tiles take the place of more stages."""
    return choose(dim, min(count, PACKED_QUERIES))._replace(stages=1)


def divide(blocks: int, count: int, capacity: int, result_bytes: int) -> tuple[int, int]:
    """Into how many splits the keys go, and the fewest keys that make a split.

    `blocks` is how many there are without splits, `count` the queries that share keys, and `result_bytes` what each
    split writes.
    """
    if count > FEW:
        splits, least = 2 * MULTIPROCESSORS // blocks, 256
    else:  # one long row among short ones should not be left to a few blocks
        splits = max(3 * MULTIPROCESSORS // blocks, -(-capacity // 2048))
        least = 128 * min(max(blocks // 64, 1), 8)
    return max(min(splits, MAX_SPLITS, -(-capacity // least), MAX_BYTES // result_bytes), 1), least


@cache
def _kernel(tiles: Tiles, dim: int, bits: int | None = None, gated: bool = False) -> CudaKernel:
    stored = ["keys", "values"] if bits is None else ["lines"]
    return CudaKernel(
        name=f"paceline_attention{'' if bits is None else '_quantized'}{'_gated' if gated else ''}",
        input_names=["queries", *stored, "ends", "sinks", "scales", "sizes", *(["gates"] if gated else [])],
        output_names=["out", "partial", "weights"],
        source=SOURCE,
        header=("" if bits is None else "#define QUANTIZED\n") + (GATED if gated else "") + HEADER,
        ensure_row_contiguous=False,  # queries are views; the source takes strides
        shared_memory=tiles.shared_bytes(dim, bits),
    )


@cache
def _combine(gated: bool = False) -> CudaKernel:
    return CudaKernel(
        name=f"paceline_attention_combine{'_gated' if gated else ''}",
        input_names=["partial", "weights", "ends", "sinks", "sizes", *(["gates"] if gated else [])],
        output_names=["out"],
        source=COMBINE,
        header=GATED + HEADER if gated else HEADER,
        ensure_row_contiguous=False,
    )
