"""The CUDA kernel for products of a few rows against the plain product."""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.models import linear_cuda
from paceline.models.adapter import switch_kernels, wrap_layers
from paceline.models.linear_cuda import MOST_OUTPUTS, MOST_ROWS, RowLinear, fits

nn: Any = importlib.import_module("mlx.nn")  # its stubs re-export nothing in strict mode
on_cuda = pytest.mark.skipif(not mx.cuda.is_available(), reason="there is no CUDA here")


def linear(inputs: int, outputs: int, dtype: mx.Dtype = mx.bfloat16, *, bias: bool = False) -> Any:
    mx.random.seed(inputs + outputs)
    made = nn.Linear(inputs, outputs, bias=bias)
    made.set_dtype(dtype)
    return made


def adopted(module: Any, *, fused: bool) -> Any:
    module.__class__ = RowLinear
    module.fused = fused
    return module


def normal(*shape: int, dtype: mx.Dtype = mx.bfloat16) -> mx.array:
    return mx.array(np.random.default_rng(list(shape)).standard_normal(shape).astype(np.float32)).astype(dtype)


@pytest.fixture
def claims_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)


def test_without_cuda_no_layer_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
    assert not fits(linear(64, 32))


@pytest.mark.usefixtures("claims_cuda")
def test_a_layer_fits_by_its_size_type_and_bias() -> None:
    assert fits(linear(64, 32))
    assert not fits(linear(64, 32, mx.float32))
    assert not fits(linear(64, 32, bias=True))
    assert not fits(linear(48, 32)) and not fits(linear(64, 24))
    assert fits(linear(32, MOST_OUTPUTS)) and not fits(linear(32, MOST_OUTPUTS + 16))


@pytest.mark.usefixtures("claims_cuda")
def test_adopted_layers_keep_their_parameters_and_are_switched_together() -> None:
    class Two(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.small, self.odd = linear(64, 32), linear(64, 24)
            self.norm = nn.RMSNorm(64)

    module = Two()
    weight = module.small.weight
    wrap_layers(module, {"model_type": "llama"})
    assert type(module.small) is RowLinear and type(module.odd) is nn.Linear
    assert module.small.weight is weight and list(module.small.parameters()) == ["weight"]
    assert not module.small.fused
    assert switch_kernels(module, True) and module.small.fused
    assert not switch_kernels(module, True)
    assert switch_kernels(module, False) and not module.small.fused


def test_only_few_rows_of_bfloat16_go_through_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def product(x: mx.array, weight: mx.array) -> mx.array:
        counts.append(x.size // x.shape[-1])
        return x @ weight.T

    monkeypatch.setattr(linear_cuda, "product", product)
    plain, ours = linear(64, 32), adopted(linear(64, 32), fused=True)
    for shape in [(1, 64), (1, 1, 64), (2, 1, 64), (5, 8, 64), (MOST_ROWS, 64), (MOST_ROWS + 1, 64), (7, 9, 64)]:
        assert mx.array_equal(ours(normal(*shape)), plain(normal(*shape)))
    assert counts == [2, 40, MOST_ROWS]
    wide = normal(4, 64, dtype=mx.float32)
    assert mx.array_equal(ours(wide), plain(wide))
    ours.fused = False
    assert mx.array_equal(ours(normal(4, 64)), plain(normal(4, 64)))
    assert len(counts) == 3


@on_cuda
@pytest.mark.parametrize(("inputs", "outputs"), [(32, 16), (1024, 1040), (2080, 512), (6144, 2048)])
def test_the_kernel_is_the_plain_product_for_every_number_of_rows(inputs: int, outputs: int) -> None:
    module = linear(inputs, outputs)
    assert fits(module)
    ours = adopted(linear(inputs, outputs), fused=True)
    assert mx.array_equal(ours.weight, module.weight)
    for rows in range(2, MOST_ROWS + 1):
        x = normal(rows, inputs)
        exact = x.astype(mx.float32) @ module.weight.astype(mx.float32).T
        found = ours(x)
        assert found.shape == (rows, outputs) and found.dtype == mx.bfloat16
        off = mx.abs(found.astype(mx.float32) - exact)
        # One rounding to bfloat16 of a sum in float32; cuBLAS's TF32 may have rounded the exact one's inputs too.
        assert bool((off <= 2**-7 * mx.abs(exact) + 2**-10 * mx.abs(exact).max()).all().item()), f"{rows} rows"


@on_cuda
def test_rows_and_tokens_are_rows_alike_to_the_kernel() -> None:
    ours = adopted(linear(512, 256), fused=True)
    x = normal(4, 9, 512)
    assert mx.array_equal(ours(x).reshape(36, 256), ours(x.reshape(36, 512)))
    strided = normal(9, 4, 512).transpose(1, 0, 2)
    assert mx.array_equal(ours(strided), ours(mx.contiguous(strided)))
