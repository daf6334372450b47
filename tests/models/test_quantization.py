"""Quantized weights become dense without a change of their values, and what cannot become dense stays as it is."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.mla import MultiLinear
from mlx_lm.models.switch_layers import SwitchLinear

from paceline.models.loader import LoadedModel, load
from paceline.models.quantization import Quantization, dense_bytes, dequantize, quantized_layers
from tests.engine.stepper import Stepper
from tests.memory import held

Tiny = Callable[..., Path]
nn: Any = importlib.import_module("mlx.nn")  # its stubs re-export nothing in strict mode
PLENTY = 1 << 40
LARGE = {"hidden": 384, "intermediate": 1152, "heads": 8}


def parameters(module: Any) -> dict[str, mx.array]:
    flat: Any = tree_flatten(module.parameters())
    return dict(flat)


def prompts() -> list[list[int]]:
    return [[(7 * place + length) % 480 for place in range(length)] for length in (1, 12, 45)]


def greedy(folder: Path, count: int) -> list[list[int]]:
    """Tokens of the first prompts, together in one batch."""
    stepper = Stepper(folder, "similar", chunk=16)
    heard = [stepper.greedy(str(place), prompt, 16) for place, prompt in enumerate(prompts()[:count])]
    stepper.finish()
    return [one.tokens for one in heard]


class Layers(nn.Module):  # type: ignore[misc]
    """One layer of each kind, quantized."""

    def __init__(self, mode: str = "affine") -> None:
        super().__init__()
        self.linear = nn.Linear(64, 32)
        self.embedding = nn.Embedding(32, 64)
        self.experts = SwitchLinear(64, 32, 4)
        nn.quantize(self, group_size={"affine": 64, "nvfp4": 16}.get(mode, 32), bits=4, mode=mode)


@pytest.mark.parametrize("mode", ["affine", "mxfp4", "nvfp4"])
def test_dense_layers_have_the_values_of_the_quantized_ones(mode: str) -> None:
    module = Layers(mode)
    parts = [module.linear, module.embedding, module.experts]
    expected = [
        mx.dequantize(part.weight, part.scales, part.get("biases"), part.group_size, part.bits, mode=mode)
        for part in parts
    ]
    module.linear.bias = mx.ones((32,))
    more = dense_bytes(module, expected[0].dtype)
    before = sum(part.weight.nbytes for part in parts)
    assert dequantize(module) == 0
    assert [type(part) for part in (module.linear, module.embedding, module.experts)] == [
        nn.Linear,
        nn.Embedding,
        SwitchLinear,
    ]
    found = [module.linear.weight, module.embedding.weight, module.experts.weight]
    assert all(mx.array_equal(mine, right).item() for mine, right in zip(found, expected, strict=True))
    assert mx.array_equal(module.linear.bias, mx.ones((32,))).item()
    assert sum(array.nbytes for array in found) - before == more


class Fused(nn.QuantizedLinear):  # type: ignore[misc]
    """A family's own layer, which multiplies in another way."""


class Odd(nn.Module):  # type: ignore[misc]
    """Layers that mlx-lm's own function ignores, or would get wrong; and one that it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.QuantizedLinear(64, 32)
        self.latent = MultiLinear(64, 32, 2).to_quantized(64, 4)
        self.fused = Fused(64, 32)
        self.scaled = SwitchLinear(64, 32, 4, bias=False).to_quantized(16, 4, "nvfp4", global_scale=True)


def test_layers_that_cannot_become_dense_stay_as_they_are_and_are_counted() -> None:
    module = Odd()
    stored = Quantization.of(module)
    assert stored is not None and str(stored) == "4-bit and nvfp4"
    before = {name: parameters(part) for name, part in quantized_layers(module).items()}
    assert dequantize(module) == 3
    left = quantized_layers(module)
    assert left.keys() == {"latent", "fused", "scaled"}
    for name, part in left.items():
        assert all(before[name][key] is array for key, array in parameters(part).items())
    assert str(Quantization("4-bit", mx.float32, 3)) == "4-bit, dequantized to float32 except 3 layers"


def test_a_model_that_is_not_quantized_has_no_quantization(llama: Path) -> None:
    model = load(str(llama), dequantize_within=PLENTY)
    assert model.quantization is None and model.notes == []


# -- a checkpoint


@pytest.mark.thin(4)
@pytest.mark.parametrize("family", ["llama", "hybrid", "hybrid_moe"])
@pytest.mark.parametrize("within", [None, PLENTY])
def test_a_quantized_checkpoint_gives_the_same_tokens_in_a_batch_as_alone(
    four_bit: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, family: str, within: int | None
) -> None:
    folder = four_bit(family)
    model = load(str(folder), "float32", dequantize_within=within)
    kind = "4-bit and 8-bit" if family == "hybrid_moe" else "4-bit"  # mlx-lm gives a router eight bits
    assert str(model.quantization) == (kind if within is None else f"{kind}, dequantized to float32")
    assert bool(quantized_layers(model.language.module)) == (within is None)
    monkeypatch.setattr("tests.engine.stepper.loaded", lambda folder: model)
    together = greedy(folder, 3)
    alone = []
    for place, prompt in enumerate(prompts()):
        stepper = Stepper(folder, "similar", chunk=16)
        heard = stepper.greedy(str(place), prompt, 16)
        stepper.finish()
        alone.append(heard.tokens)
    assert together == alone


def test_dequantized_weights_give_the_quantized_models_logits(four_bit: Callable[..., Path]) -> None:
    folder = four_bit("llama")
    tokens = mx.array([prompts()[2]])
    dense, packed = (load(str(folder), dequantize_within=within).language.module(tokens) for within in (PLENTY, None))
    assert mx.allclose(dense, packed, rtol=1e-4, atol=1e-4).item()


def test_the_vision_tower_and_the_mtp_head_become_dense_too(tiny: Tiny, tmp_path: Path) -> None:
    library: Any = importlib.import_module("mlx_vlm.convert")
    folder = tmp_path / "small"
    with contextlib.redirect_stdout(io.StringIO()):
        library.convert(
            str(tiny("hybrid", dtype="bfloat16")),
            str(folder),
            quantize=True,
            q_bits=4,
            quant_predicate=lambda path, module: hasattr(module, "to_quantized"),
        )
    model = load(str(folder), dequantize_within=PLENTY)
    assert model.vision is not None
    assert not quantized_layers(model.vision.view) and not quantized_layers(model.language.module)
    assert isinstance(model.head, str) or not quantized_layers(model.head.module)
    shared, mine = parameters(model.vision.view), parameters(model.language.module)
    assert all(shared[name] is array for name, array in mine.items())


def weights_of(model: LoadedModel) -> int:
    return sum(array.nbytes for array in parameters(model.language.module).values())


def test_without_memory_for_dense_weights_they_stay_quantized_and_the_log_says_so(
    four_bit: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = four_bit("llama")
    needed = weights_of(load(str(folder), dequantize_within=PLENTY))
    assert caplog.records == []
    with caplog.at_level(logging.WARNING, "paceline"):
        model = load(str(folder), dequantize_within=needed // 2)
    assert str(model.quantization) == "4-bit" and quantized_layers(model.language.module)
    assert weights_of(model) < needed // 2
    (note,) = model.notes
    assert note.startswith("The 4-bit weights stay quantized, which is slow on a CPU: as float32 they would take ")
    assert [record.getMessage() for record in caplog.records] == [note]


def test_dense_weights_are_made_in_slices(four_bit: Callable[..., Path]) -> None:
    folder = four_bit("llama", **LARGE)
    load(str(folder), dequantize_within=PLENTY)  # whatever is allocated once a process
    before = held()
    mx.reset_peak_memory()
    model = load(str(folder), dequantize_within=PLENTY)
    assert (mx.get_peak_memory() - before) / model.nbytes < 1.25
