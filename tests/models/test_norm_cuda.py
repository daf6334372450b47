"""The CUDA kernels of norms against the plain ops."""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.qwen3_next import Qwen3NextRMSNormGated

from paceline.models import norm_cuda
from paceline.models.norm_cuda import (
    GATED_SIZES,
    MAX_SIZE,
    MAX_THREADS,
    TYPES,
    add_norm,
    fits,
    gated_norm,
    threads_of,
)
from tests.cuda import on_cuda

nn: Any = importlib.import_module("mlx.nn")  # its stubs re-export nothing in strict mode
EPS = 1e-6
ROUNDING = {mx.float32: 1e-5, mx.float16: 2**-9, mx.bfloat16: 2**-6}  # of the largest number: two roundings
SIZES = [64, 768, 2560, 5120, MAX_SIZE]


def norm_of(size: int, dtype: mx.Dtype = mx.float32, kind: Any = None) -> Any:
    norm = (kind or nn.RMSNorm)(size, eps=EPS)
    norm.weight = (1 + normal(size, dtype=mx.float32) / 8).astype(dtype)
    return norm


def normal(*shape: int, dtype: mx.Dtype = mx.float32, seed: int = 0) -> mx.array:
    drawn = np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)
    return mx.array(drawn).astype(dtype)


def far(ours: mx.array, theirs: mx.array) -> float:
    one, two = (np.array(part.astype(mx.float32)) for part in (ours, theirs))
    return float(np.abs(one - two).max() / np.abs(two).max())


def test_a_norm_fits_by_its_size_and_kind_on_cuda_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
    assert not fits(norm_of(64))
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    assert fits(norm_of(64)) and fits(norm_of(MAX_SIZE)) and fits(norm_of(8, mx.bfloat16))
    assert not fits(norm_of(4, mx.bfloat16)) and not fits(norm_of(MAX_SIZE + 8))
    assert not fits(nn.LayerNorm(64))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES)
def test_the_threads_of_a_block_are_whole_warps_that_hold_a_row(size: int, dtype: mx.Dtype) -> None:
    weight = mx.zeros(size, dtype)
    threads = threads_of(weight)
    assert threads % 32 == 0 and threads <= MAX_THREADS
    turns = -(-weight.nbytes // 16 // threads)
    assert turns == -(-weight.nbytes // 16 // MAX_THREADS), "no more turns than with all threads"


def test_arrays_of_several_types_are_computed_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise AssertionError("a kernel")

    monkeypatch.setattr(norm_cuda, "_add_norm", none)
    monkeypatch.setattr(norm_cuda, "_gated_norm", none)
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    states, update, norm = normal(2, 64), normal(2, 64, dtype=mx.bfloat16, seed=1), norm_of(64)
    total, normed = add_norm(states, update, norm)
    assert mx.array_equal(total, states + update) and mx.array_equal(normed, norm(states + update))
    gated = norm_of(64, mx.float32, Qwen3NextRMSNormGated)
    x, gates = normal(2, 1, 3, 64, dtype=mx.bfloat16), normal(2, 1, 3, 64, dtype=mx.bfloat16, seed=1)
    assert mx.array_equal(gated_norm(x, gates, gated), gated(x, gates))
    assert mx.array_equal(gated_norm(x, beside(gates), gated, 16), gated(x, gates))


def beside(gates: mx.array) -> mx.array:
    """Gates with other numbers of a token before and after them."""
    rows, tokens = gates.shape[:2]
    before, after = (mx.full((rows, tokens, size), 7, gates.dtype) for size in (16, 32))
    return mx.concatenate([before, gates.reshape(rows, tokens, -1), after], axis=-1)


@on_cuda
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES)
def test_the_sum_is_the_plain_one_and_the_norm_within_its_rounding(size: int, dtype: mx.Dtype) -> None:
    norm = norm_of(size, dtype)
    for shape in [(1, 1, size), (3, 2, size), (67, size)]:
        states, update = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype, seed=1)
        total, normed = add_norm(states, update, norm)
        assert total.dtype == normed.dtype == dtype
        assert mx.array_equal(total, states + update)
        assert far(normed, norm(states + update)) <= ROUNDING[dtype]


@on_cuda
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", GATED_SIZES)
@pytest.mark.parametrize("heads", [1, 6, 32])
def test_the_gated_norm_is_mlx_lms_within_its_rounding(heads: int, size: int, dtype: mx.Dtype) -> None:
    norm = norm_of(size, dtype, Qwen3NextRMSNormGated)
    for rows, tokens in [(1, 1), (5, 3)]:
        x, gates = (normal(rows, tokens, heads, size, dtype=dtype, seed=seed) for seed in (0, 1))
        found = gated_norm(x, 4 * gates, norm)
        assert found.dtype == dtype and far(found, norm(x, 4 * gates)) <= ROUNDING[dtype]
        assert mx.array_equal(gated_norm(x, beside(4 * gates), norm, 16), found)


@on_cuda
@pytest.mark.parametrize("dtype", TYPES)
def test_a_row_among_many_is_the_row_alone(dtype: mx.Dtype) -> None:
    norm, gated = norm_of(2560, dtype), norm_of(128, dtype, Qwen3NextRMSNormGated)
    states, update = (normal(65, 1, 2560, dtype=dtype, seed=seed) for seed in (0, 1))
    x, gates = (normal(65, 1, 32, 128, dtype=dtype, seed=seed) for seed in (0, 1))
    together, heads = add_norm(states, update, norm), gated_norm(x, gates, gated)
    for row in range(65):
        here = slice(row, row + 1)
        for all_rows, alone in zip(together, add_norm(states[here], update[here], norm), strict=True):
            assert mx.array_equal(all_rows[here], alone)
        assert mx.array_equal(heads[here], gated_norm(x[here], gates[here], gated))
