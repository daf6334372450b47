"""Lines of quantized keys and values by CUDA kernels, against plain operations."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest

from paceline.cache.kv_quantization import GROUP_SIZES, KVQuantization, Lines
from paceline.models import attention_cuda, kv_lines_cuda
from paceline.models.attention_cuda import PACKED_DIMS
from paceline.models.kv_lines_cuda import CudaLines, agrees
from tests.cuda import on_cuda


def test_a_launch_has_a_warp_for_each_group_and_a_thread_for_each_packed_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[dict[str, Any]] = []

    def launch(**given: Any) -> list[mx.array]:
        launches.append(given)
        return [mx.zeros(shape) for shape in given["output_shapes"]]

    monkeypatch.setattr(kv_lines_cuda, "_pack", lambda: launch)
    monkeypatch.setattr(kv_lines_cuda, "_unpack", lambda: launch)
    for dim in PACKED_DIMS:
        for form in (KVQuantization(bits, size) for bits in (8, 4) for size in GROUP_SIZES if dim % size == 0):
            keys = mx.zeros((3, 2, 5, dim), dtype=mx.bfloat16)
            ours, plain = (lines(mx.bfloat16).pack(form, keys, keys) for lines in (CudaLines, Lines))
            assert ours.shape == plain.shape
            assert CudaLines(mx.bfloat16).unpack(form, ours, 1).shape == keys.shape
            pack, unpack = launches
            assert pack["grid"][0] // 32 >= 3 * 2 * 5 * 2 * dim // form.group_size > pack["grid"][0] // 32 - 4
            assert unpack["grid"][0] >= 3 * 2 * 5 * dim * form.bits // 128 > unpack["grid"][0] - 256
            launches.clear()


class Wrong(Lines):
    """The plain form in place of the kernels', with a flaw."""

    levels, factor = 0, 1.0

    def pack(self, form: KVQuantization, keys: mx.array, values: mx.array) -> mx.array:
        return super().pack(form, keys, values) + self.levels

    def unpack(self, form: KVQuantization, lines: mx.array, place: int) -> mx.array:
        return super().unpack(form, lines, place) * self.factor


@pytest.mark.parametrize(
    ("flaw", "right"),
    [({}, True), ({"levels": 1 << 20}, False), ({"factor": 1.1}, False), ({"weight": 1.1}, False)]
    + [({"weight": float("nan")}, False), ({"late": 0.2}, False)],
    ids=str,
)
def test_kernels_that_disagree_with_plain_operations_are_found_out(
    monkeypatch: pytest.MonkeyPatch, flaw: dict[str, Any], right: bool
) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    seen: list[int] = []

    def instead(queries: mx.array, keys: Any, values: Any, ends: mx.array, scale: float) -> mx.array:
        width = queries.shape[2]
        seen.append(width)
        k, v = (mx.where(mx.isnan(each.dense()), 0, each.dense()) for each in (keys, values))
        visible = mx.arange(k.shape[2]) <= (ends[:, None] + mx.arange(width))[:, None, :, None]
        found = kv_lines_cuda.plain(queries, k, v, visible, scale).astype(queries.dtype)
        weight, late = (float(flaw.get(name, usual)) for name, usual in (("weight", 1.0), ("late", 0.0)))
        return found * weight + (late if width == 40 else 0.0)

    kind = type("Flawed", (Wrong,), {name: flaw[name] for name in flaw if name in ("levels", "factor")})
    monkeypatch.setattr(kv_lines_cuda, "CudaLines", kind)
    monkeypatch.setattr(attention_cuda, "attention", instead)
    assert agrees.__wrapped__(mx.bfloat16, 64, KVQuantization(8, 32)) == right
    assert not right or seen == [4, 24, 40]


def test_what_the_kernels_do_not_take_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    check = agrees.__wrapped__
    assert mx.cuda.is_available() or not check(mx.bfloat16, 128, KVQuantization(8, 64))
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    assert not check(mx.float32, 64, KVQuantization(8, 32)) and not check(mx.bfloat16, 96, KVQuantization(8, 32))
    assert not check(mx.bfloat16, 128, KVQuantization(8, 64, start=8))


@on_cuda
@pytest.mark.parametrize("dim", PACKED_DIMS)
@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16], ids=str)
def test_the_start_up_check_passes_here(dtype: mx.Dtype, dim: int) -> None:
    for size in GROUP_SIZES if (dtype, dim) == (mx.bfloat16, 128) else (64,):  # each is compiled
        assert all(agrees(dtype, dim, KVQuantization(bits, size)) for bits in (8, 4))


@on_cuda
def test_lines_are_those_of_plain_operations_but_for_ties() -> None:
    keys, values = (mx.random.normal((2, 7, 3, 128), key=mx.random.key(seed)).astype(mx.bfloat16) for seed in (0, 1))
    for bits in (8, 4):
        form = KVQuantization(bits, 64)
        turned = [each.transpose(0, 2, 1, 3) for each in (keys, values)]
        ours, plain = (lines(mx.bfloat16).pack(form, *turned) for lines in (CudaLines, Lines))
        assert bool(((ours != plain).mean() < 0.05).item())
        assert mx.array_equal(ours[..., -4:], plain[..., -4:])
