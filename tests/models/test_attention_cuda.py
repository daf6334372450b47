"""The CUDA attention kernels against MLX's attention with a mask."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.cache.kv_quantization import GROUP_SIZES, KVQuantization, Lines, Quantized, views
from paceline.cache.layers import RaggedMask
from paceline.models import adapter, attention_cuda
from paceline.models.attention_cuda import (
    FEW,
    HEAD_DIMS,
    MAX_BYTES,
    MAX_SPLITS,
    PACKED_DIMS,
    PACKED_QUERIES,
    attention,
    choose,
    choose_packed,
    divide,
    fits,
    reads,
)
from paceline.types import MAX_DRAFTED
from tests.cuda import on_cuda

DTYPES = {"bfloat16": (mx.bfloat16, 2**-6), "float16": (mx.float16, 2**-9)}
WIDTHS = [1, 2, 5, 9, 10, 16, 17, 63, 64, 100, 300, 1024]
HEADS = [(4, 4), (8, 2), (8, 1)]
EIGHT, FOUR = (KVQuantization(bits, 64, lines=Lines(mx.bfloat16)) for bits in (8, 4))


def reference(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    ends: list[int],
    scale: float,
    window: int | None = None,
    sinks: mx.array | None = None,
) -> mx.array:
    """Row by row in float32, on the slots that the row has."""
    rows, _, width, _ = queries.shape
    found = []
    for row in range(rows):
        length = ends[row] + width
        q = queries[row : row + 1].astype(mx.float32)
        k, v = (part[row : row + 1, :, :length].astype(mx.float32) for part in (keys, values))
        slots, own = mx.arange(length)[None], ends[row] + mx.arange(width)[:, None]
        mask = slots <= own
        if window is not None:
            mask = mask & (slots > own - window)
        k, v = (mx.repeat(part, q.shape[1] // k.shape[1], axis=1) for part in (k, v))
        scores = mx.where(mask, (q * scale) @ k.swapaxes(-1, -2), -mx.inf)
        if sinks is not None:
            joined = mx.broadcast_to(sinks.astype(mx.float32)[None, :, None, None], (*scores.shape[:-1], 1))
            scores = mx.concatenate([scores, joined], axis=-1)
        found.append(mx.softmax(scores, axis=-1)[..., :length] @ v)
    return mx.concatenate(found)


def normal(seed: int, *shape: int, dtype: mx.Dtype) -> mx.array:
    drawn = np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)
    return mx.array(drawn).astype(dtype)


def buffers(
    ends: list[int], width: int, heads: int, capacity: int, dim: int, dtype: mx.Dtype
) -> tuple[mx.array, mx.array]:
    """Keys and values with NaN and inf past every row's end."""
    past = mx.arange(capacity)[None, None, :, None] >= mx.array(ends)[:, None, None, None] + width
    junk = mx.where(mx.arange(capacity) % 2 == 0, mx.nan, mx.inf).astype(dtype)[None, None, :, None]
    keys, values = (mx.where(past, junk, normal(seed, len(ends), heads, capacity, dim, dtype=dtype)) for seed in (1, 2))
    return keys, values


def packed(keys: mx.array, values: mx.array, ends: list[int], width: int, kv: KVQuantization) -> mx.array:
    """Lines, with scales of NaN past every row's end."""
    past = mx.arange(keys.shape[2])[None, None, :, None] >= mx.array(ends)[:, None, None, None] + width
    [lines] = kv.quantize_both(*(mx.where(past, mx.array(0, each.dtype), each) for each in (keys, values)))
    return mx.where(past, mx.array(0xFFFFFFFF, mx.uint32), lines)


def compare(
    dtype_name: str,
    dim: int,
    heads: tuple[int, int],
    width: int,
    ends: list[int],
    capacity: int,
    *,
    window: int | None = None,
    sinks: bool = False,
    kv: KVQuantization | None = None,
) -> None:
    dtype, allowed = DTYPES[dtype_name]
    q_heads, kv_heads = heads
    queries = normal(0, len(ends), width, q_heads, dim, dtype=dtype).transpose(0, 2, 1, 3)
    keys, values = buffers(ends, width, kv_heads, capacity, dim, dtype)
    logits = normal(3, q_heads, dtype=dtype) * 3 if sinks else None
    scale = dim**-0.5
    stored_keys: Any = keys
    stored_values: Any = values
    if kv is not None:
        kv = replace(kv, lines=Lines(dtype))
        stored_keys, stored_values = views([packed(keys, values, ends, width, kv)], kv)
        assert reads(queries, stored_keys, stored_values)
        keys, values = stored_keys.dense(), stored_values.dense()
    slots = mx.array(ends, dtype=mx.int32)
    found = attention(queries, stored_keys, stored_values, slots, scale, window=window, sinks=logits)
    assert found.shape == (len(ends), q_heads, width, dim) and found.dtype == dtype
    exact = reference(queries, keys, values, ends, scale, window, logits)
    off = mx.abs(found.astype(mx.float32) - exact)
    # Weights and results are rounded to the type; TF32 may have rounded the exact one's operands.
    bound = allowed * mx.abs(exact) + allowed / 2 * mx.abs(exact).max()
    assert bool((off <= bound).all().item()), f"off by up to {off.max().item()} (NaN: {mx.isnan(off).any().item()})"


# -- anywhere


def test_the_kernels_take_half_precision_heads_of_some_sizes_on_cuda_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
    assert not fits(mx.bfloat16, 128)
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    assert all(fits(dtype, dim) for dtype in (mx.bfloat16, mx.float16) for dim in HEAD_DIMS)
    assert not fits(mx.float32, 128) and not fits(mx.bfloat16, 80)
    assert fits(mx.bfloat16, 128, 128) and not fits(mx.bfloat16, 192, 128) and not fits(mx.bfloat16, 128, 64)


@pytest.mark.parametrize("dim", HEAD_DIMS)
def test_tiles_hold_all_queries_of_a_verify_step_once_and_fit_in_shared_memory(dim: int) -> None:
    forms = {choose(dim, count) for count in range(1, 9000)}
    assert len(forms) <= 4
    assert all(form.shared_bytes(dim) <= 227 * 1024 - 2048 for form in forms)
    for group in (1, 2, 4):
        count = group * (MAX_DRAFTED + 1)
        assert choose(dim, count).queries >= count


def test_keys_are_split_until_the_gpu_is_full_and_long_rows_are_split_among_many() -> None:
    assert divide(8, 4, 32768, 16384)[0] >= 33  # one row of eight key heads
    assert divide(512, 4, 512, 1 << 20)[0] == 1
    assert divide(512, 4, 32768, 1 << 20)[0] == 16
    assert divide(4, 4, 1 << 20, 16384)[0] == MAX_SPLITS
    assert divide(8, 40, 64, 16384)[0] == 1  # a short buffer has nothing to split
    assert divide(24, 1024, 8192, 1 << 20)[0] == 11 and divide(2048, 32768, 131072, 1 << 27)[0] == 1


def test_the_splits_results_are_bounded() -> None:
    assert divide(512, 144, 131072, 32 << 20)[0] == MAX_BYTES // (32 << 20)
    assert divide(512, 144, 131072, 2 * MAX_BYTES)[0] == 1


def test_a_launch_depends_on_shapes_only_and_new_shapes_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[dict[str, Any]] = []

    def kernel(*_: Any) -> Any:
        def launch(**given: Any) -> list[mx.array]:
            launches.append(given)
            return [mx.zeros(shape) for shape in given["output_shapes"]]

        return launch

    monkeypatch.setattr(attention_cuda, "_kernel", kernel)
    monkeypatch.setattr(attention_cuda, "_combine", kernel)
    templates: set[str] = set()
    for rows, width, capacity in itertools.product((1, 3, 64), (1, 4, 5, 16, 17, 900), (256, 700, 40_000)):
        queries = mx.zeros((rows, 8, width, 128), dtype=mx.bfloat16)
        keys = mx.zeros((rows, 2, capacity, 128), dtype=mx.bfloat16)
        found = attention(queries, keys, keys, mx.zeros((rows,), dtype=mx.int32), 0.1)
        assert found.shape == queries.shape
        for launch in launches:
            assert launch["grid"][0] % launch["threadgroup"][0] == 0 and launch["grid"][0] < 2**31
            templates.add(str(launch["template"]))
        launches.clear()
    assert len(templates) <= 8  # four forms, and what adds up their splits


@pytest.mark.parametrize("dim", PACKED_DIMS)
def test_blocks_that_dequantize_have_three_forms_of_which_several_fit_in_shared_memory(dim: int) -> None:
    forms = {choose_packed(dim, count) for count in range(1, 1000)}
    assert len(forms) == 3 and {form.stages for form in forms} == {1}
    assert max(form.queries for form in forms) == PACKED_QUERIES
    for form in forms:
        blocks = 3 if form.queries == 16 else 2  # decode's, and others
        assert blocks * (form.shared_bytes(dim, 8) + 2048) <= 227 * 1024
        assert form.shared_bytes(dim, 4) <= form.shared_bytes(dim, 8)
        threads = 32 * form.warps_m * form.warps_n
        for bits in (4, 8):  # as the source divides the packed pieces among threads
            across = max(threads // form.key_tile, bits // 2)
            assert form.key_tile % (threads // across) == 0 and dim * bits // 128 % across == 0


def ones(rows: int, heads: int, capacity: int, dim: int, kv: KVQuantization) -> tuple[Any, Any]:
    one = mx.ones((rows, heads, capacity, dim), dtype=mx.bfloat16)
    return views(kv.quantize_both(one, one), kv)


def test_few_queries_read_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)

    def taken(kv: KVQuantization = EIGHT, *, width: int = 1, dim: int = 128, dtype: mx.Dtype = mx.bfloat16) -> bool:
        return reads(mx.zeros((1, 8, width, dim), dtype=dtype), *ones(1, 2, 8, dim, kv))

    assert all(taken(replace(EIGHT, bits=bits, group_size=size)) for bits in (8, 4) for size in GROUP_SIZES)
    assert all(taken(replace(FOUR, group_size=32), dim=dim) for dim in PACKED_DIMS)
    assert taken(width=FEW // 4) and not taken(width=FEW // 4 + 1)
    assert not taken(KVQuantization(8, 64)), "not in lines"
    assert not taken(replace(EIGHT, bits=6)) and not taken(replace(EIGHT, group_size=32), dim=96)
    assert not taken(dtype=mx.float16) and not taken(dtype=mx.float32)
    keys, values = ones(1, 2, 8, 128, EIGHT)
    assert not reads(mx.zeros((1, 8, 1, 128), dtype=mx.bfloat16), keys, ones(1, 2, 8, 128, EIGHT)[1])
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
    assert not taken()


def test_lines_go_to_the_kernel_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[tuple[Any, dict[str, Any]]] = []

    def kernel(*form: Any) -> Any:
        def launch(**given: Any) -> list[mx.array]:
            launches.append((form, given))
            return [mx.zeros(shape) for shape in given["output_shapes"]]

        return launch

    monkeypatch.setattr(attention_cuda, "_kernel", kernel)
    monkeypatch.setattr(attention_cuda, "_combine", kernel)
    templates: set[str] = set()
    for rows, width, capacity in itertools.product((1, 3), (1, 5, 16, 64), (256, 4096)):
        keys, values = ones(rows, 2, capacity, 128, FOUR)
        queries = mx.zeros((rows, 8, width, 128), dtype=mx.bfloat16)
        found = attention(queries, keys, values, mx.zeros((rows,), dtype=mx.int32), 0.1)
        assert found.shape == queries.shape
        form, first = launches[0]
        assert form[1:] == (128, 4, False) and len(first["inputs"]) == 6 and first["inputs"][1] is keys.parts[0]
        assert first["template"][-2:] == [("Bits", 4), ("Group", 64)]
        templates |= {str(given["template"]) for _, given in launches}
        launches.clear()
    assert len(templates) <= 6


def test_where_the_kernel_does_not_read_them_they_are_dequantized_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLX's products of quantized arrays are slow on CUDA: long rows are not split."""
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    seen: list[tuple[type, tuple[int, ...]]] = []

    def instead(queries: mx.array, keys: Any, values: Any, ends: mx.array, scale: float, **more: Any) -> mx.array:
        seen.append((type(keys), ends.shape))
        return queries

    monkeypatch.setattr(attention_cuda, "attention", instead)
    mask = RaggedMask(mx.array([3, 5], dtype=mx.int32), 8, 1, None)
    queries = mx.zeros((2, 8, 1, 128), dtype=mx.bfloat16)
    for kv in EIGHT, KVQuantization(8, 64):
        keys, values = ones(2, 2, 8, 128, kv)
        assert adapter.attention(queries, keys, values, scale=1.0, mask=mask).shape == queries.shape
    assert seen == [(Quantized, (2,)), (mx.array, (1,)), (mx.array, (1,))]


# -- on CUDA


@on_cuda
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("dim", PACKED_DIMS)
@pytest.mark.parametrize("name", DTYPES)
def test_quantized_keys_give_what_they_give_dequantized(name: str, dim: int, bits: int) -> None:
    for size in GROUP_SIZES:
        if size == 64 or (name, dim) == ("bfloat16", 128):  # each is compiled
            kv = KVQuantization(bits, size)
            for heads, width in itertools.product(HEADS, [1, 2, 5, 9, 16, 17, 32]):
                compare(name, dim, heads, width, [0, 7, 200, 512], 512 + width, kv=kv)


@on_cuda
@pytest.mark.parametrize("kv", [EIGHT, FOUR], ids=str)
def test_quantized_keys_take_windows_sinks_and_long_rows(kv: KVQuantization) -> None:
    for width in (1, 5, 16):
        compare("bfloat16", 128, (8, 2), width, [0, 130, 1300], 2048, window=100, kv=kv)
        compare("bfloat16", 64, (8, 1), width, [0, 3, 6000], 8192, window=128, sinks=True, kv=kv)
        compare("bfloat16", 128, (8, 2), width, [0, 1, 63, 64, 65, 700, 4095, 9000 - width], 9000, kv=kv)
    for dim in PACKED_DIMS:
        compare("bfloat16", dim, (8, 1), 1, [20000], 32768, kv=kv)


@on_cuda
@pytest.mark.parametrize("kv", [EIGHT, FOUR], ids=str)
def test_a_row_of_quantized_keys_is_the_same_whatever_lies_in_the_others(kv: KVQuantization) -> None:
    ends = mx.array([70, 300, 5], dtype=mx.int32)
    queries = normal(0, 3, 8, 1, 128, dtype=mx.bfloat16)
    one, other = (kv.quantize_both(*[normal(seed, 3, 2, 512, 128, dtype=mx.bfloat16)] * 2)[0] for seed in (1, 2))
    mixed = mx.concatenate([one[:1], other[1:]])
    first, second = (attention(queries, *views([each], kv), ends, 0.1) for each in (one, mixed))
    assert mx.array_equal(first[0], second[0]) and not mx.array_equal(first[1], second[1])


@on_cuda
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("dim", HEAD_DIMS)
@pytest.mark.parametrize("name", DTYPES)
def test_the_kernel_is_masked_attention_at_every_width(name: str, dim: int, heads: tuple[int, int]) -> None:
    for width in WIDTHS:
        capacity = 512 + width
        compare(name, dim, heads, width, [0, 7, 200, 512], capacity)


@on_cuda
@pytest.mark.parametrize("width", [1, 4, 40])
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_rows_of_any_length_share_a_batch(dim: int, width: int) -> None:
    compare("bfloat16", dim, (8, 2), width, [0, 1, 63, 64, 65, 700, 4095, 9000 - width], 9000)


@on_cuda
@pytest.mark.parametrize("width", [1, 5, 16, 100, 700])
@pytest.mark.parametrize("window", [1, 64, 100, 5000])
def test_a_window_hides_older_slots(window: int, width: int) -> None:
    for dim in (64, 128, 256):
        compare("bfloat16", dim, (8, 2), width, [0, 130, 1300], 2048, window=window)


@on_cuda
@pytest.mark.parametrize("width", [1, 9, 70, 300])
def test_sinks_join_the_denominator(width: int) -> None:
    for dim in (64, 128):
        for ends, capacity in ([0, 3, 100], 512), ([0, 3, 6000], 8192):
            compare("bfloat16", dim, (8, 1), width, ends, capacity, sinks=True)
            compare("bfloat16", dim, (8, 1), width, ends, capacity, window=128, sinks=True)


@on_cuda
@pytest.mark.parametrize("name", DTYPES)
def test_one_long_row_is_split_and_added_up(name: str) -> None:
    for dim, width in ((64, 1), (128, 1), (128, 9), (256, 4), (256, 12), (128, 300)):
        compare(name, dim, (8, 1), width, [20000], 32768)


@on_cuda
def test_queries_keys_and_ends_may_be_views() -> None:
    dtype, ends = mx.bfloat16, mx.array([[70, 1], [5, 1], [300, 1]], dtype=mx.int32)[:, 0]
    keys, values = (normal(seed, 3, 2, 600, 128, dtype=dtype)[:, :, :512] for seed in (1, 2))
    for width in (1, 6, 90):
        flat = normal(0, 3, 8, width, 128, dtype=dtype)
        first = attention(flat, keys, values, ends, 0.1)
        shifted = normal(0, 3, 8, width, 128, dtype=dtype)
        padded = mx.concatenate([mx.zeros((3, 8, width, 3), dtype=dtype), shifted], axis=-1)[..., 3:]
        turned = mx.contiguous(flat.transpose(0, 3, 2, 1)).transpose(0, 3, 2, 1)
        whole = mx.contiguous(keys), mx.contiguous(values), mx.array([70, 5, 300], dtype=mx.int32)
        assert mx.array_equal(first, attention(flat, *whole, 0.1))
        assert mx.array_equal(first, attention(padded, *whole, 0.1))
        assert mx.array_equal(first, attention(turned, *whole, 0.1))
        assert mx.array_equal(first, attention(flat, *whole, 0.1, window=10_000))


@on_cuda
@pytest.mark.parametrize("dtype_name", DTYPES)
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize(("ends", "capacity"), [([40, 3], 64), ([300, 5, 511], 768)], ids=["one split", "splits"])
def test_outputs_are_joined_and_multiplied_by_their_gates(
    ends: list[int], capacity: int, dim: int, dtype_name: str
) -> None:
    dtype, allowed = DTYPES[dtype_name]
    rows, width, heads = len(ends), 3, 8
    queries = normal(0, rows, heads, width, dim, dtype=dtype)
    keys, values = buffers(ends, width, 2, capacity, dim, dtype)
    gates = (4 * normal(4, rows, width, heads * 2 * dim + 64, dtype=dtype))[..., :-64]
    slots, scale = mx.array(ends, dtype=mx.int32), dim**-0.5
    apart = attention(queries, keys, values, slots, scale).transpose(0, 2, 1, 3).reshape(rows, width, -1)
    assert mx.array_equal(attention(queries, keys, values, slots, scale, joined=True), apart)
    found = attention(queries, keys, values, slots, scale, joined=True, gates=gates)
    share = mx.sigmoid(gates.reshape(rows, width, heads, 2, dim)[..., 1, :].reshape(rows, width, -1))
    largest = mx.abs(apart).max().astype(mx.float32)
    off = mx.abs(found.astype(mx.float32) - (apart * share).astype(mx.float32)).max() / largest
    assert found.dtype == dtype and float(np.array(off)) <= allowed


@pytest.mark.parametrize(("capacity", "last"), [(64, "attention"), (512, "combine")])
def test_the_last_kernel_has_the_gates(capacity: int, last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gated: dict[str, bool] = {}

    def kernel(name: str, has_gates: bool) -> Any:
        def call(*, inputs: list[mx.array], output_shapes: Any, output_dtypes: Any, **_: Any) -> list[mx.array]:
            gated[name] = has_gates and inputs[-1] is gates
            return [mx.zeros(*each) for each in zip(output_shapes, output_dtypes, strict=True)]

        return call

    monkeypatch.setattr(attention_cuda, "_kernel", lambda tiles, dim, bits, has_gates: kernel("attention", has_gates))
    monkeypatch.setattr(attention_cuda, "_combine", lambda has_gates: kernel("combine", has_gates))
    queries, buffer, gates = (mx.zeros(shape) for shape in [(1, 4, 2, 64), (1, 2, capacity, 64), (1, 2, 4 * 2 * 64)])
    found = attention(queries, buffer, buffer, mx.array([7]), 1.0, joined=True, gates=gates)
    assert found.shape == (1, 2, 4 * 64)
    assert gated.pop(last) and not any(gated.values())
