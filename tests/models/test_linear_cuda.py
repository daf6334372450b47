"""The CUDA kernel for products of a few rows against the plain product."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.activations import swiglu
from mlx_lm.models.qwen3_next import Qwen3NextMLP

from paceline.models import linear_cuda
from paceline.models.adapter import switch_kernels, wrap_layers
from paceline.models.linear_cuda import (
    MAX_OUTPUTS,
    MAX_ROWS,
    RowLinear,
    fits,
    lines,
    products,
)
from tests.cuda import on_cuda

nn: Any = importlib.import_module("mlx.nn")  # its stubs re-export nothing in strict mode


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
    assert fits(linear(32, MAX_OUTPUTS)) and not fits(linear(32, MAX_OUTPUTS + 16))


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

    def products(x: mx.array, weights: Sequence[mx.array]) -> list[mx.array]:
        counts.append(x.size // x.shape[-1])
        return [x @ weight.T for weight in weights]

    monkeypatch.setattr(linear_cuda, "products", products)
    plain, ours = linear(64, 32), adopted(linear(64, 32), fused=True)
    for shape in [(1, 64), (1, 1, 64), (2, 1, 64), (5, 8, 64), (MAX_ROWS, 64), (MAX_ROWS + 1, 64), (7, 9, 64)]:
        assert mx.array_equal(ours(normal(*shape)), plain(normal(*shape)))
    assert counts == [2, 40, MAX_ROWS]
    wide = normal(4, 64, dtype=mx.float32)
    assert mx.array_equal(ours(wide), plain(wide))
    ours.fused = False
    assert mx.array_equal(ours(normal(4, 64)), plain(normal(4, 64)))
    assert len(counts) == 3


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, *, same: bool = True) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = linear(64, 48), linear(64, 16), linear(64, 32)
        self.gate_proj, self.up_proj = linear(64, 32), linear(64 if same else 96, 32)
        self.o_proj = linear(64, 32)


def joined(monkeypatch: pytest.MonkeyPatch, **sizes: bool) -> tuple[Any, list[int]]:
    """A block whose kernels are on, and how many products each launch was asked for."""
    launches: list[int] = []

    def products(x: mx.array, weights: Sequence[mx.array]) -> list[mx.array]:
        launches.append(len(weights))
        return [x @ weight.T for weight in weights]

    monkeypatch.setattr(linear_cuda, "products", products)
    block = Block(**sizes)
    wrap_layers(block, {"model_type": "llama"})
    switch_kernels(block, True)
    return block, launches


@pytest.mark.usefixtures("claims_cuda")
@pytest.mark.parametrize("rows", [1, MAX_ROWS])
def test_layers_with_the_same_input_share_a_launch(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    block, launches = joined(monkeypatch)
    plain = Block()
    for turn in range(3):
        x = normal(rows, 64) + turn
        for name in ("q_proj", "k_proj", "v_proj", "up_proj", "gate_proj"):
            assert mx.array_equal(block[name](x), plain[name](x)), name
    assert launches == [3, 2] * 3
    assert block.q_proj.siblings._input is None and not block.q_proj.siblings._made, "nothing is held afterwards"


@pytest.mark.usefixtures("claims_cuda")
def test_a_layer_that_is_called_with_another_input_or_again_gets_its_own_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block, launches = joined(monkeypatch)
    plain = Block()
    first, second = normal(4, 64), normal(3, 64)
    for name, x in [("q_proj", first), ("q_proj", first), ("k_proj", second), ("v_proj", first), ("v_proj", second)]:
        assert mx.array_equal(block[name](x), plain[name](x))
    assert launches == [3] * 5


@pytest.mark.usefixtures("claims_cuda")
def test_layers_of_other_inputs_or_alone_have_no_siblings(monkeypatch: pytest.MonkeyPatch) -> None:
    block, launches = joined(monkeypatch, same=False)
    assert block.o_proj.siblings is None and block.gate_proj.siblings is None
    block.o_proj(normal(4, 64))
    block.o_proj(normal(1, 64))
    assert launches == [1], "MLX has a kernel of its own for one row"
    block.q_proj(normal(MAX_ROWS + 1, 64))
    assert launches == [1]
    block.q_proj(normal(MAX_ROWS, 64))
    assert launches == [1, 3]


@pytest.mark.usefixtures("claims_cuda")
def test_many_rows_of_merged_layers_are_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_cuda, "MAX_MERGED", 64)
    block, launches = joined(monkeypatch)
    plain, names = Block(), ("q_proj", "k_proj", "v_proj")
    siblings = block.q_proj.siblings
    assert siblings._merged.shape == (48 + 16 + 32, 64)
    assert all(mx.array_equal(block[name].weight, plain[name].weight) for name in names)
    counted, product = [], siblings.side_by_side

    def counting(x: mx.array) -> mx.array:
        counted.append(x.shape)
        found: mx.array = product(x)
        return found

    monkeypatch.setattr(siblings, "side_by_side", counting)
    for rows, merged in [(1, 0), (MAX_ROWS, 0), (MAX_ROWS + 1, 1), (64, 1), (65, 0)]:
        x, before = normal(2, rows, 64)[:1], len(counted)
        for name in names:
            found, wanted = block[name](x), plain[name](x)
            assert mx.allclose(found.astype(mx.float32), wanted.astype(mx.float32), rtol=1e-2, atol=1e-2), name
        assert len(counted) - before == merged, rows
    assert siblings._input is None, "nothing is held afterwards"
    assert launches == [3, 3], "few rows share a launch"


@pytest.mark.usefixtures("claims_cuda")
def test_layers_that_have_changed_are_not_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_cuda, "MAX_MERGED", 64)
    block, _ = joined(monkeypatch)
    siblings, x = block.q_proj.siblings, normal(1, 64, 64)
    assert siblings.merges(64)
    own = type("RowLinear", (RowLinear,), {})  # as an adapter of a LoRA is put before a layer
    block.k_proj.__class__ = own
    assert not siblings.merges(64)
    block.k_proj.__class__ = RowLinear
    assert siblings.merges(64)
    block.k_proj.weight = block.k_proj.weight * 2
    assert not siblings.merges(64)
    assert mx.array_equal(block.k_proj(x), x @ block.k_proj.weight.T)


def mlp() -> Any:
    mx.random.seed(0)
    made: Any = Qwen3NextMLP(64, 96)
    made.set_dtype(mx.bfloat16)
    return made


@pytest.mark.usefixtures("claims_cuda")
def test_gate_and_up_and_their_swiglu_are_one_launch_for_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[tuple[int, bool]] = []

    def products(x: mx.array, weights: Sequence[mx.array], *, gated: bool = False) -> list[mx.array]:
        launches.append((len(weights), gated))
        found = [x @ weight.T for weight in weights]
        return [swiglu(*found)] if gated else found

    monkeypatch.setattr(linear_cuda, "products", products)
    module, plain = nn.Sequential(mlp()), mlp()
    wrap_layers(module, {"model_type": "qwen3_5"})
    ours = module.layers[0]
    for on, rows, expected in [
        (False, 8, []),
        (True, 1, [(2, True)]),
        (True, MAX_ROWS, [(2, True), (1, False)]),
        (True, MAX_ROWS + 1, []),
    ]:
        switch_kernels(module, on)
        launches.clear()
        assert mx.array_equal(ours(normal(rows, 64)), plain(normal(rows, 64)))
        assert launches == expected
    ours.up_proj.__class__ = type("Adapted", (RowLinear,), {})
    launches.clear()
    assert mx.array_equal(ours(normal(8, 64)), plain(normal(8, 64)))
    assert launches == [(2, False), (1, False)], "an adapter changes one of them"


def test_blocks_have_as_many_outputs_as_leave_no_processor_idle() -> None:
    assert [lines(32, outputs) for outputs in (32, 1024, 2560, 4096, 8192, 9216)] == [16, 16, 32, 32, 64, 80]
    assert lines(32, 8192, 4096, 32, 32) == 48, "two for each processor, the small matrices' among them"


@on_cuda
def test_products_side_by_side_are_those_of_each_alone() -> None:
    weights = [linear(512, outputs).weight for outputs in (5136, 4112, 4352, 32)]
    for rows in range(1, MAX_ROWS + 1):
        x = normal(rows, 512)
        for count in range(1, 5):
            for found, weight in zip(products(x, weights[:count]), weights, strict=False):
                assert mx.array_equal(found, products(x, [weight])[0])


@on_cuda
def test_gated_products_are_the_swiglu_of_both() -> None:
    for inputs, outputs in ((512, 9216), (288, 112), (2560, 2064)):
        weights = [linear(inputs, outputs).weight * scale for scale in (4, 8)]
        for rows in range(1, MAX_ROWS + 1):
            x = normal(rows, inputs)
            assert mx.array_equal(products(x, weights, gated=True)[0], swiglu(*products(x, weights)))


@on_cuda
@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [(32, 16), (1024, 1040), (2080, 512), (2592, 48), (9216, 2560), (6144, 4112), (512, 8208), (512, 9232)],
)
def test_the_kernel_is_the_plain_product_for_every_number_of_rows(inputs: int, outputs: int) -> None:
    module = linear(inputs, outputs)
    assert fits(module)
    ours = adopted(linear(inputs, outputs), fused=True)
    assert mx.array_equal(ours.weight, module.weight)
    for rows in range(2, MAX_ROWS + 1):
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
