from __future__ import annotations

import mlx.core as mx
import pytest

from paceline.cache.kv_quantization import GROUP_SIZES, KVQuantization, Lines, Quantized, dense, views


@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize(("bits", "step"), [(8, 1 / 255), (4, 1 / 15)])
def test_a_number_comes_back_within_a_step_of_its_group(bits: int, step: float, group_size: int) -> None:
    form = KVQuantization(bits, group_size)
    keys = mx.random.normal((2, 3, 5, 128), key=mx.random.key(0))
    back = dense(Quantized(form.quantize(keys), form))
    groups = keys.reshape(2, 3, 5, -1, group_size)
    widths = groups.max(axis=-1, keepdims=True) - groups.min(axis=-1, keepdims=True)
    assert mx.all(mx.abs((back - keys).reshape(groups.shape)) <= step * widths).item()


def test_zeros_are_exact() -> None:
    form = KVQuantization(4, 32)
    parts = tuple(mx.zeros_like(part) for part in form.quantize(mx.ones((1, 1, 2, 32))))
    assert not mx.any(Quantized(parts, form).dense()).item()  # what lies behind a row's end changes nothing


def test_keys_and_values_are_told_apart() -> None:
    form = KVQuantization(8, 32)
    keys, values = mx.full((1, 1, 2, 32), 1.0), mx.full((1, 1, 2, 64), 2.0)
    seen = views([*form.quantize(keys), *form.quantize(values)], form)
    assert [dense(each).shape for each in seen] == [keys.shape, values.shape]
    assert [dense(each)[0, 0, 0, 0].item() for each in seen] == [1.0, 2.0]
    assert views([keys, values], None) == (keys, values)


def test_a_row_is_that_of_all_rows() -> None:
    form = KVQuantization(8, 32)
    every = Quantized(form.quantize(mx.random.normal((3, 2, 4, 32))), form)
    for row in range(3):
        assert mx.array_equal(every.row(row, [mx.zeros(1)]).dense(), every.dense()[row : row + 1]).item()
    assert str(form) == "8 bits in groups of 32"


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
@pytest.mark.parametrize("bits", [8, 4])
def test_lines_hold_what_the_parts_hold(bits: int, dtype: mx.Dtype) -> None:
    for dim in (32, 64, 96, 128, 256):
        for size in GROUP_SIZES:
            if dim % size == 0:
                form = KVQuantization(bits, size, lines=Lines(dtype))
                keys, values = (mx.random.normal((2, 3, 5, dim), key=mx.random.key(at)).astype(dtype) for at in (0, 1))
                parts = form.quantize_both(keys, values)
                assert len(parts) == form.arrays == 1 and parts[0].dtype == mx.uint32 and parts[0].shape[3] % 4 == 0
                for seen, each in zip(views(parts, form), (keys, values), strict=True):
                    assert mx.array_equal(
                        dense(seen), Quantized(form.quantize(each), KVQuantization(bits, size)).dense()
                    )
                    assert isinstance(seen, Quantized) and mx.array_equal(seen.row(1).dense(), dense(seen)[1:])
    assert str(form) == f"{bits} bits in groups of 128 in lines"
