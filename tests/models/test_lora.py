"""Stacks of adapters: slots, ranks and bytes as adapters come and go; layers that they are not for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from paceline.errors import LoadError
from paceline.models import lora_files
from paceline.models.lora import Loras
from tests.loras import Made, write_mlx_lm, write_peft

X = mx.random.normal((3, 2, 8), key=mx.random.key(1))


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(8, 6)
        self.other = nn.Linear(8, 8, bias=False)
        self.norm = nn.RMSNorm(8)


class Toy(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        mx.random.seed(3)
        self.embed_tokens = nn.Embedding(5, 8)
        self.layers = [Layer(), Layer()]


def made(rank: int, *paths: str, seed: int = 0, outputs: int = 6) -> Made:
    random = np.random.default_rng(seed)
    factors = {
        path: (random.standard_normal((8, rank), np.float32), random.standard_normal((rank, outputs), np.float32))
        for path in paths or ("layers.0.proj",)
    }
    return Made(factors, rank, 0.5, ())


def add(loras: Loras, folder: Path, adapter: Made) -> Any:
    files = lora_files.read(write_mlx_lm(folder, adapter))
    wanted = loras.nbytes_with(files, mx.float32)
    lora = loras.add(folder.name, files, mx.float32)
    assert loras.nbytes == wanted
    return lora


def delta(adapter: Made, x: mx.array, path: str = "layers.0.proj") -> mx.array:
    a, b = map(mx.array, adapter.factors[path])
    return adapter.scale * ((x @ a) @ b)


def close(one: mx.array, other: mx.array) -> bool:
    return bool(mx.allclose(one, other, atol=1e-5).item())


def test_each_row_takes_the_factors_of_its_slot(tmp_path: Path) -> None:
    toy = Toy()
    loras, base = Loras(toy), toy.layers[0].proj(X)
    narrow, wide = made(2, seed=1), made(5, seed=2)
    one, two = add(loras, tmp_path / "one", narrow), add(loras, tmp_path / "two", wide)
    assert (one.slot, two.slot, two.rank, two.layers) == (1, 2, 5, 1)
    with loras.reading(mx.array([2, 0, 1])):
        y = toy.layers[0].proj(X)
        flat = toy.layers[0].proj(X.reshape(6, 8))  # as a mixture's layers see rows
    assert close(y[0], base[0] + delta(wide, X[0]))
    assert mx.array_equal(y[1], base[1])
    assert close(y[2], base[2] + delta(narrow, X[2]))
    assert close(flat.reshape(3, 2, 6), y)
    assert mx.array_equal(toy.layers[0].proj(X), base)


def test_a_model_keeps_its_parameters_and_layers_without_adapters_stay_themselves(tmp_path: Path) -> None:
    toy = Toy()
    before = {name: array.shape for name, array in tree_flatten(toy.parameters())}
    loras = Loras(toy)
    add(loras, tmp_path / "one", made(2))
    assert {name: array.shape for name, array in tree_flatten(toy.parameters())} == before
    assert isinstance(toy.layers[0].proj, nn.Linear) and type(toy.layers[0].proj) is not nn.Linear
    assert type(toy.layers[1].proj) is nn.Linear


def test_an_adapter_that_leaves_gives_its_bytes_back_and_the_others_go_on(tmp_path: Path) -> None:
    toy = Toy()
    loras, base = Loras(toy), toy.layers[0].proj(X)
    small = made(2, seed=1)
    one = add(loras, tmp_path / "one", made(7, "layers.0.proj", "layers.1.proj", seed=2))
    two = add(loras, tmp_path / "two", small)
    loras.remove(one)
    assert (one.slot, two.slot, loras.loaded) == (0, 1, [two])
    assert loras.nbytes == 2 * 2 * (8 + 6) * 4  # two slots of rank 2, for one layer
    with loras.reading(mx.array([1, 1, 0])):
        y = toy.layers[0].proj(X)
    assert close(y[:2], base[:2] + delta(small, X[:2]))
    assert type(toy.layers[1].proj) is nn.Linear
    loras.remove(two)
    assert loras.nbytes == 0 and type(toy.layers[0].proj) is nn.Linear
    assert mx.array_equal(toy.layers[0].proj(X), base)
    third = add(loras, tmp_path / "three", made(3, seed=5))
    assert third.slot == 1


def test_an_adapter_that_cannot_leave_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Toy()
    loras, held = Loras(toy), made(2, "layers.1.proj", seed=1)
    leaves = made(7, "layers.0.proj", "layers.1.proj", seed=2)
    one, two = add(loras, tmp_path / "one", leaves), add(loras, tmp_path / "two", held)
    before, bases = loras.nbytes, [toy.layers[place].proj(X) for place in range(2)]

    def has_no_memory(*arrays: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(mx, "eval", has_no_memory)
        with pytest.raises(MemoryError):
            loras.remove(one)
    assert (loras.loaded, one.slot, two.slot, loras.nbytes) == ([one, two], 1, 2, before)
    with loras.reading(mx.array([1, 1, 2])):
        outputs = [toy.layers[place].proj(X) for place in range(2)]
    for place, path in enumerate(("layers.0.proj", "layers.1.proj")):
        assert close(outputs[place][:2], bases[place][:2] + delta(leaves, X[:2], path))
    assert close(outputs[1][2], bases[1][2] + delta(held, X[2], "layers.1.proj"))
    loras.remove(one)
    assert (loras.loaded, two.slot) == ([two], 1)


def test_what_fails_changes_nothing(tmp_path: Path) -> None:
    toy = Toy()
    loras = Loras(toy)
    one = add(loras, tmp_path / "one", made(2, seed=1))
    broken = made(3, seed=2)
    broken.factors["layers.0.proj"][1][0, 0] = np.nan
    with pytest.raises(LoadError, match=r"adapters\.safetensors: the tensor layers\.0\.proj\.lora_b .* not finite"):
        add(loras, tmp_path / "two", broken)
    assert loras.loaded == [one] and loras.nbytes == 2 * 2 * 14 * 4


def test_layers_that_an_adapter_cannot_be_for(tmp_path: Path) -> None:
    loras = Loras(Toy())
    for path, words in {
        "layers.7.proj": r"layers\.7\.proj\.lora_a is for layers\.7\.proj, which this model has not",
        "visual.layers.0.proj": "which this model has not",
        "embed_tokens": "an? Embedding: adapters are served for linear",
        "layers.0.norm": "RMSNorm",
        "layers.0.other": r"a layer of 8 inputs and 6 outputs; this model's layers\.0\.other has 8 and 8",
    }.items():
        with pytest.raises(LoadError, match=words):
            add(loras, tmp_path / path, made(2, path))
    assert loras.loaded == []


def test_pefts_factors_are_transposed(tmp_path: Path) -> None:
    toy = Toy()
    loras, base = Loras(toy), toy.layers[0].proj(X)
    adapter = made(3, "model.layers.0.proj", seed=4)
    loras.add("peft", lora_files.read(write_peft(tmp_path, adapter)), mx.float32)
    with loras.reading(mx.array([1, 1, 1])):
        assert close(toy.layers[0].proj(X), base + delta(adapter, X, "model.layers.0.proj"))


@pytest.mark.parametrize("bits", [4, 8])
def test_a_quantized_layer_takes_adapters(tmp_path: Path, bits: int) -> None:
    toy = Toy()
    toy.layers[0].wide = nn.Linear(64, 6, bias=False)
    nn.quantize(toy, group_size=64, bits=bits, class_predicate=lambda path, part: path.endswith("wide"))
    x = mx.random.normal((1, 2, 64))
    base = toy.layers[0].wide(x)
    random = np.random.default_rng(0)
    factors = {
        "layers.0.wide": (random.standard_normal((64, 2), np.float32), random.standard_normal((2, 6), np.float32))
    }
    adapter = replace(made(2), factors=factors)
    loras = Loras(toy)
    add(loras, tmp_path / "one", adapter)
    with loras.reading(mx.array([1])):
        assert mx.allclose(toy.layers[0].wide(x), base + delta(adapter, x, "layers.0.wide"), atol=1e-3)


def test_half_precision_on_a_cpu(tmp_path: Path) -> None:
    toy = Toy()
    toy.set_dtype(mx.bfloat16)
    loras = Loras(toy)
    adapter = made(2)
    loras.add("half", lora_files.read(write_mlx_lm(tmp_path, adapter)), mx.bfloat16)
    x = X.astype(mx.bfloat16)
    base = toy.layers[0].proj(x)
    with loras.reading(mx.array([1, 0, 1])):
        y = toy.layers[0].proj(x)
    assert y.dtype == mx.bfloat16
    assert mx.allclose(y[0], base[0] + delta(adapter, x[0]), atol=0.2)
    assert mx.array_equal(y[1], base[1])


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    loras = Loras(Toy())
    files = lora_files.read(write_mlx_lm(tmp_path, made(2)))
    write_mlx_lm(tmp_path, made(3))
    with pytest.raises(LoadError, match="has changed while it was read"):
        loras.add("one", files, mx.float32)
    assert not loras.loaded
