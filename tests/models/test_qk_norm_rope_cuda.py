"""Attention layers whose heads one kernel makes: the kernel against plain ops, and layers with a stand-in for it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from paceline.cache.layers import RaggedMask
from paceline.cache.slot_plan import PADDED
from paceline.models import attention_cuda, check, gated_delta_cuda, linear_cuda, norm_cuda, qk_norm_rope_cuda
from paceline.models.adapter import accept_position_ids
from paceline.models.loader import load
from paceline.models.positions import MRoPE, PositionIdRoPE, Positions
from paceline.models.qk_norm_rope_cuda import SIZES, WIDEST, RowAttention, fits, make_heads, rotary
from tests.cuda import on_cuda

Tiny = Callable[..., Path]
nn: Any = importlib.import_module("mlx.nn")  # its stubs re-export nothing in strict mode
rope_utils: Any = importlib.import_module("mlx_lm.models.rope_utils")
FAMILIES = ["qwen3", "hybrid", "hybrid_moe"]
ROUNDING = {mx.float16: 2**-9, mx.bfloat16: 2**-6}  # of the largest number: two roundings
FORMS = [(16, 4, 256, 64, True), (32, 8, 128, 128, False), (4, 2, 128, 32, True), (6, 3, 64, 64, False)]


def normal(*shape: int, dtype: mx.Dtype = mx.float32, seed: int = 0) -> mx.array:
    drawn = np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)
    return mx.array(drawn).astype(dtype)


def layer(
    q_heads: int, k_heads: int, size: int, dims: int, gated: bool, dtype: mx.Dtype = mx.bfloat16, rope: Any = None
) -> Any:
    """What the kernel reads of an attention layer."""
    norms = [nn.RMSNorm(size, eps=eps) for eps in (1e-6, 1e-5)]
    for seed, norm in enumerate(norms):
        norm.weight = (1 + normal(size, seed=seed) / 8).astype(dtype)
    rope = nn.RoPE(dims, base=1e7) if rope is None else rope
    return SimpleNamespace(
        head_counts=(q_heads, k_heads), gated=gated, q_norm=norms[0], k_norm=norms[1], rope=rope, scale=size**-0.5
    )


def plain_heads(
    module: Any, queries: mx.array, keys: mx.array, values: mx.array, offset: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    rows, width = queries.shape[:2]
    q_heads, k_heads = module.head_counts
    queries = queries.reshape(rows, width, q_heads, -1)
    if module.gated:
        queries = mx.split(queries, 2, axis=-1)[0]
    normed = (module.q_norm(queries), module.k_norm(keys.reshape(rows, width, k_heads, -1)))
    turned = [module.rope(part.transpose(0, 2, 1, 3), offset=offset) for part in normed]
    return turned[0], turned[1], values.reshape(rows, width, k_heads, -1).transpose(0, 2, 1, 3)


def plain_attention(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    ends: mx.array,
    scale: float,
    *,
    window: int | None,
    joined: bool,
    gates: mx.array | None,
) -> mx.array:
    rows, _, width, _ = queries.shape
    mask = RaggedMask(ends, keys.shape[2], width, window).array()
    out = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=mask)
    assert joined
    out = out.transpose(0, 2, 1, 3)
    if gates is not None:
        out = out * mx.sigmoid(gates.reshape(*out.shape[:-1], 2, -1)[..., 1, :])
    return out.reshape(rows, width, -1)


class Calls:
    """The plain form in the kernels' place, in float32."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
        monkeypatch.setattr(gated_delta_cuda, "fits", lambda module: False)
        monkeypatch.setattr(norm_cuda, "fits", lambda norm: False)
        monkeypatch.setattr(linear_cuda, "fits", lambda module: True)  # whose products of float32 are the plain ones
        monkeypatch.setattr(qk_norm_rope_cuda, "fits", lambda module: rotary(module) is not None)
        monkeypatch.setattr(qk_norm_rope_cuda, "make_heads", self)
        monkeypatch.setattr(attention_cuda, "attention", plain_attention)

    def __call__(self, *given: Any) -> tuple[mx.array, mx.array, mx.array]:
        self.count += 1
        return plain_heads(*given)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def attentions(model: Any) -> list[Any]:
    return [part for _, part in model.module.named_modules() if isinstance(part, RowAttention)]


def logits(model: Any, width: int = 1, positions: Any = None) -> mx.array:
    """Of a step of two rows of different lengths."""
    batch = check.two_rows(model, PADDED)
    batch.begin(width, positions)
    found: mx.array = model.module(mx.arange(2 * width).reshape(2, width) % 50, cache=batch.layers)
    batch.commit()
    return found


def test_a_layer_fits_by_its_heads_and_its_rope_on_cuda_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
    assert not fits(layer(*FORMS[0]))
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    assert all(fits(layer(*form)) for form in FORMS)
    assert not fits(layer(4, 2, 96, 96, False)), "no size of a head"
    assert not fits(layer(*FORMS[0], dtype=mx.float32)), "attention has no kernel for it"


@pytest.mark.parametrize("size", SIZES)
def test_the_rope_may_be_a_wrapped_one_but_not_of_another_kind(size: int) -> None:
    def found(rope: Any) -> bool:
        return rotary(layer(2, 1, size, 0, False, rope=rope)) is not None

    plain = nn.RoPE(size // 4, base=1e6)
    assert found(plain) and found(PositionIdRoPE(plain)) and found(MRoPE(plain, [1, 1, 1]))
    assert found(nn.RoPE(size)) and not found(nn.RoPE(2 * size))
    assert not found(nn.RoPE(size * 3 // 4)), "the other half of a pair is not one bit of a lane away"
    assert not found(nn.RoPE(size, traditional=True))
    assert not found(rope_utils.Llama3RoPE(size, scaling_config=dict.fromkeys(
        ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"), 2
    )))  # fmt: skip
    assert not found(rope_utils.YarnRoPE(size))


def test_without_cuda_nothing_is_adopted(qwen3: Path) -> None:
    assert not attentions(load(str(qwen3)).language)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("width", [1, 3])
def test_a_model_with_the_kernel_is_mlx_lms_own(tiny: Tiny, family: str, width: int, calls: Calls) -> None:
    model = load(str(tiny(family))).language
    layers = attentions(model)
    assert layers and all(part.fused for part in layers)
    calls.count = 0
    fused = logits(model, width)
    assert calls.count == len(layers), "once in each layer of the step, and not in prompts of one row"
    with model.plain():
        assert not any(part.fused for part in layers)
        assert check.difference(logits(model, width), fused) < 1e-5
    assert calls.count == len(layers) and all(part.fused for part in layers)


def test_adopted_layers_have_the_parameters_that_they_had(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def names() -> list[str]:
        return [name for name, _ in tree_flatten(load(str(hybrid)).language.module.parameters())]

    before = names()
    Calls(monkeypatch)
    assert names() == before


def test_position_ids_and_wide_steps_take_the_plain_form(qwen3: Path, calls: Calls) -> None:
    model = load(str(qwen3)).language
    calls.count = 0
    logits(model, WIDEST + 1)
    assert accept_position_ids(model) is None
    positions = mx.array([[8], [4]])
    explicit = logits(model, positions=Positions(positions))
    assert calls.count == 0
    assert check.difference(logits(model), explicit) < 1e-5 and calls.count == len(attentions(model))


def test_a_layer_whose_projection_is_another_takes_the_plain_form(qwen3: Path, calls: Calls) -> None:
    """As one with an adapter, or a quantized one, is."""
    model = load(str(qwen3)).language
    first = attentions(model)[0]
    first.k_proj.__class__ = type("Changed", (type(first.k_proj),), {})
    calls.count = 0
    logits(model)
    assert calls.count == len(attentions(model)) - 1


@pytest.mark.parametrize("family", ["qwen3", "hybrid"])
def test_the_start_up_check_lets_the_right_kernel_through_and_no_other(
    tiny: Tiny, family: str, calls: Calls, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = load(str(tiny(family))).language
    assert check.choose_layout(model, (PADDED,)) is PADDED and model.uses_kernels and calls.count

    def wrong(*given: Any) -> tuple[mx.array, mx.array, mx.array]:
        queries, keys, values = plain_heads(*given)
        return queries, keys, -values

    monkeypatch.setattr(qk_norm_rope_cuda, "make_heads", wrong)
    assert check.choose_layout(model, (PADDED,)) is PADDED and not model.uses_kernels
    assert "kernels disagree" in caplog.text


def projections(rows: int, width: int, form: tuple[int, int, int, int, bool], dtype: mx.Dtype) -> Any:
    """As parts of one product: a token's numbers lie together, tokens do not."""
    q_heads, k_heads, size, _, gated = form
    ends = np.cumsum([0, q_heads * size * (1 + gated), k_heads * size, k_heads * size])
    every = normal(rows, width, int(ends[-1]), dtype=dtype)
    return [every[..., start:end] for start, end in zip(ends.tolist(), ends.tolist()[1:], strict=False)]


@on_cuda
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("form", FORMS)
def test_heads_are_the_plain_ones_within_their_rounding(form: tuple[int, int, int, int, bool], dtype: mx.Dtype) -> None:
    module = layer(*form, dtype)
    for rows, width in [(1, 1), (8, 1), (3, 5), (16, 1), (64, 2)]:
        parts = projections(rows, width, form, dtype)
        offset = mx.array(np.random.default_rng(rows).integers(0, 30_000, rows), dtype=mx.int32)
        given = (*parts, offset)
        found, expected = make_heads(module, *given), plain_heads(module, *given)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.shape == theirs.shape and ours.dtype == dtype
            assert check.difference(ours.astype(mx.float32), theirs.astype(mx.float32)) <= ROUNDING[dtype]
        assert mx.array_equal(found[2], expected[2])
        apart = make_heads(module, *[mx.contiguous(part) for part in given])
        assert all(mx.array_equal(*pair) for pair in zip(found, apart, strict=True))


@on_cuda
@pytest.mark.parametrize("form", FORMS)
def test_a_row_among_many_is_the_row_alone(form: tuple[int, int, int, int, bool]) -> None:
    module = layer(*form)
    given = [*projections(9, 2, form, mx.bfloat16), mx.arange(9, dtype=mx.int32) * 700]
    together = make_heads(module, *given)
    for row in range(9):
        here = slice(row, row + 1)
        alone = make_heads(module, *[part[here] for part in given])
        assert all(mx.array_equal(every[here], one) for every, one in zip(together, alone, strict=True))
