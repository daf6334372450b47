"""Decoder layers whose sums and norms are one kernel, with a stand-in for the kernel, against mlx-lm's own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache

from paceline.cache.slot_plan import PADDED
from paceline.models import check, norm_cuda
from paceline.models.loader import load
from paceline.models.residual import NextNorm, RowLayer, RowNorm

Tiny = Callable[..., Path]
nn: Any = importlib.import_module("mlx.nn")  # its stubs re-export nothing in strict mode
FAMILIES = ["llama", "qwen3", "hybrid", "hybrid_moe"]
PROMPT = mx.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def plain(states: mx.array, update: mx.array, norm: Any) -> tuple[mx.array, mx.array]:
    total = states + update
    return total, mx.fast.rms_norm(total, norm.weight, norm.eps)


class Calls:
    """The plain form in the kernel's place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(norm_cuda, "fits", lambda norm: isinstance(norm, nn.RMSNorm))
        monkeypatch.setattr(norm_cuda, "add_norm", self)

    def __call__(self, states: mx.array, update: mx.array, norm: Any) -> tuple[mx.array, mx.array]:
        self.count += 1
        return plain(states, update, norm)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def logits(model: Any) -> mx.array:
    """Of a prompt and a step after it."""
    cache = make_prompt_cache(model.module)
    found = [model.module(PROMPT, cache=cache), model.module(PROMPT[:, :1], cache=cache)]
    return mx.concatenate(found, axis=1)


def test_without_cuda_nothing_is_adopted(llama: Path) -> None:
    module = load(str(llama)).language.module
    assert not any(isinstance(part, RowLayer | RowNorm) for _, part in module.named_modules())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_with_the_kernel_is_mlx_lms_own(tiny: Tiny, family: str, calls: Calls) -> None:
    model = load(str(tiny(family))).language
    layers = model.module.layers
    assert all(isinstance(layer, RowLayer) and layer.fused and layer.next_norm is not None for layer in layers)
    fused = logits(model)
    assert calls.count == 2 * 2 * len(layers), "two for each layer in each of two passes"
    with model.plain():
        assert not any(layer.fused for layer in layers)
        assert mx.array_equal(logits(model), fused)
    assert calls.count == 2 * 2 * len(layers)
    assert all(layer.fused for layer in layers)
    assert all(layer.next_norm._made is None for layer in layers), "nothing is held afterwards"


def test_adopted_layers_have_the_parameters_that_they_had(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def names() -> list[str]:
        return [name for name, _ in tree_flatten(load(str(llama)).language.module.parameters())]

    before = names()
    Calls(monkeypatch)
    assert names() == before


def test_a_norm_that_is_asked_for_other_states_computes_them(calls: Calls) -> None:
    norm = nn.RMSNorm(8)
    norm.weight = mx.arange(8).astype(mx.float32)
    own = nn.RMSNorm(8)
    own.weight = norm.weight
    norm.__class__, norm.ready = RowNorm, NextNorm(norm)
    x, y = mx.arange(16).reshape(2, 8) / 7, mx.ones((2, 8))
    total = norm.ready.add(x, y)
    assert mx.array_equal(total, x + y)
    assert mx.array_equal(norm(x), own(x)), "states that are not the layer's"
    assert norm.ready.take(total) is None, "and what was ready is let go"
    total = norm.ready.add(x, y)
    assert mx.array_equal(norm(total), own(x + y))
    assert mx.array_equal(norm(total), own(x + y)), "asked again"
    assert calls.count == 2


def test_a_layer_whose_states_are_changed_on_the_way_is_right(llama: Path, calls: Calls) -> None:
    """As deepstack's residuals do."""
    model = load(str(llama)).language
    layer = model.module.layers[1]

    class Shifted(type(layer)):  # type: ignore[misc]
        def __call__(self, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
            out: mx.array = super().__call__(x + 1, mask, cache)
            return out

    layer.__class__ = Shifted
    fused = logits(model)
    with model.plain():
        assert mx.array_equal(logits(model), fused)


@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_the_start_up_check_lets_the_right_kernel_through_and_no_other(
    tiny: Tiny, family: str, calls: Calls, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = load(str(tiny(family))).language
    assert check.choose_layout(model, (PADDED,)) is PADDED and model.uses_kernels

    def wrong(states: mx.array, update: mx.array, norm: Any) -> tuple[mx.array, mx.array]:
        total, normed = plain(states, update, norm)
        return total, -normed

    monkeypatch.setattr(norm_cuda, "add_norm", wrong)
    assert check.choose_layout(model, (PADDED,)) is PADDED and not model.uses_kernels
    assert "kernels disagree" in caplog.text
