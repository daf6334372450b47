"""Attention on a CPU against MLX's own; which masks it takes: test_adapter.py."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from paceline.models import attention_cpu

HEADS, SHARED, WIDTH, LENGTH, SIZE = 6, 2, 5, 40, 16
FAR = 30.0  # scores that differ by so much show what is lost in an exponential


def normal(*shape: int, seed: int = 0) -> mx.array:
    return mx.array(np.random.default_rng(seed).standard_normal(shape, np.float32))


def inputs(rows: int = 2) -> tuple[mx.array, mx.array, mx.array]:
    shapes = ((HEADS, WIDTH), (SHARED, LENGTH), (SHARED, LENGTH))
    queries, keys, values = (normal(rows, *shape, SIZE, seed=seed) for seed, shape in enumerate(shapes))
    return queries, keys, values


# In a coarse type the scores round, which a steep softmax (FAR) multiplies.
@pytest.mark.parametrize(
    ("dtype", "scale", "near"),
    [(mx.float32, 0.25, 1e-6), (mx.float32, FAR, 3e-5), (mx.bfloat16, 0.25, 0.03), (mx.float16, 0.25, 0.005)],
)
def test_it_is_mlxs_in_every_type(dtype: mx.Dtype, scale: float, near: float) -> None:
    queries, keys, values = (array.astype(dtype) for array in inputs())
    found = attention_cpu.attention(queries, keys, values, scale, "causal")
    expected = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask="causal")
    assert found.dtype == dtype
    assert mx.allclose(found, expected, rtol=near, atol=near)


@pytest.mark.parametrize("lowest", [-mx.inf, mx.finfo(mx.float32).min, -1e9])
def test_what_an_added_mask_excludes_has_no_weight(lowest: float) -> None:
    queries, keys, values = inputs(rows=1)
    mask = mx.where(mx.arange(LENGTH) < 7, 0.0, lowest)[None]
    found = attention_cpu.attention(queries, keys, values, 0.3, mask)
    expected = attention_cpu.attention(queries, keys[:, :, :7], values[:, :, :7], 0.3, None)
    assert mx.allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_a_row_that_sees_nothing_is_finite() -> None:
    queries, keys, values = inputs()
    mask = mx.broadcast_to(mx.array([True, False])[:, None, None, None], (2, 1, WIDTH, LENGTH))
    found = attention_cpu.attention(queries, keys, values, 0.3, mask)
    alone = attention_cpu.attention(queries[:1], keys[:1], values[:1], 0.3, None)
    assert bool(mx.isfinite(found).all())
    assert mx.array_equal(found[:1], alone)


def test_many_keys_do_not_overflow_in_float16() -> None:
    keys, values = mx.zeros((1, 1, 8192, 8), mx.float16), mx.full((1, 1, 8192, 8), 10, mx.float16)
    found = attention_cpu.attention(mx.zeros((1, 2, 1, 8), mx.float16), keys, values, 1.0, None)
    assert mx.allclose(found, mx.array(10.0), rtol=0.01)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16])
def test_a_masked_score_may_overflow(dtype: mx.Dtype) -> None:
    queries, keys, values = (array.astype(dtype) for array in inputs(rows=1))
    seen = mx.arange(LENGTH) < 7
    far = mx.where(seen[:, None], keys, 3e38 if dtype == mx.float32 else 6e4).astype(dtype)
    found = attention_cpu.attention(queries, far, values, 0.3, seen[None])
    expected = attention_cpu.attention(queries, keys[:, :, :7], values[:, :, :7], 0.3, None)
    assert mx.allclose(found, expected, rtol=0.01, atol=0.001)
