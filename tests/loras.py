"""LoRA adapters for tiny checkpoints, in mlx-lm's and PEFT's layouts, and mlx-lm with one of them alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from paceline.models import lora_files
from paceline.models.loader import LoadedModel
from paceline.types import Lora
from tests.reference import load_text

ATTENTION = ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj")
MLP = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
DELTA = ("linear_attn.in_proj_qkv", "linear_attn.in_proj_a", "linear_attn.out_proj")


@dataclass(frozen=True)
class Made:
    """Random factors by the layer's path: (inputs, rank) and (rank, outputs)."""

    factors: dict[str, tuple[np.ndarray, np.ndarray]] = field(repr=False)
    rank: int
    scale: float
    keys: tuple[str, ...]


def make(model: Path, keys: Sequence[str] = (*ATTENTION, *MLP, *DELTA), rank: int = 4, seed: int = 0) -> Made:
    """An adapter of the layers whose paths end with one of these, large enough to change answers."""
    generator = np.random.default_rng(seed)
    factors = {}
    for path, part in _linear(model).items():
        if path.endswith(tuple(keys)):
            outputs, inputs = part.weight.shape
            if isinstance(part, nn.QuantizedLinear):
                inputs = inputs * 32 // part.bits
            a = generator.standard_normal((inputs, rank)) / np.sqrt(inputs)
            b = generator.standard_normal((rank, outputs)) / np.sqrt(rank)
            factors[path] = (a.astype(np.float32), b.astype(np.float32))
    assert factors
    return Made(factors, rank, 0.75, tuple(keys))


def _linear(model: Path) -> dict[str, Any]:
    layers = load_text(model)[0].named_modules()
    return {path: part for path, part in layers if isinstance(part, nn.Linear | nn.QuantizedLinear)}


def write_mlx_lm(folder: Path, made: Made, **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    parameters = {"rank": made.rank, "scale": made.scale, "dropout": 0.0, "keys": list(made.keys)}
    _config(folder, {"fine_tune_type": "lora", "num_layers": 64, "lora_parameters": parameters, **config})
    tensors: dict[str, mx.array] = {}
    for path, (a, b) in made.factors.items():
        tensors |= {f"{path}.lora_a": mx.array(a), f"{path}.lora_b": mx.array(b)}
    mx.save_safetensors(str(folder / "adapters.safetensors"), tensors)
    return folder


def write_peft(folder: Path, made: Made, **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    alpha = made.scale * made.rank
    _config(folder, {"peft_type": "LORA", "r": made.rank, "lora_alpha": alpha, "bias": "none", **config})
    tensors: dict[str, mx.array] = {}
    for path, (a, b) in made.factors.items():
        name = f"base_model.model.{path}"
        tensors |= {f"{name}.lora_A.weight": mx.array(a.T), f"{name}.lora_B.weight": mx.array(b.T)}
    mx.save_safetensors(str(folder / "adapter_model.safetensors"), tensors)
    return folder


def _config(folder: Path, config: dict[str, Any]) -> None:
    (folder / "adapter_config.json").write_text(json.dumps(config))


@cache
def reference(model: Path, adapter: Path) -> Any:
    """mlx-lm's model with this adapter alone, in float32."""
    import mlx_lm
    from mlx_lm.tuner.utils import load_adapters

    loaded, _ = mlx_lm.load(str(model))
    load_adapters(loaded, str(adapter))
    loaded.set_dtype(mx.float32)
    loaded.eval()
    return loaded


@contextmanager
def added(model: LoadedModel, *adapters: Path) -> Iterator[list[Lora]]:
    """The model with these adapters loaded."""
    loras = model.language.loras
    found = [loras.add(folder.name, lora_files.read(folder), model.language.dtype) for folder in adapters]
    try:
        yield found
    finally:
        for lora in found:
            if lora.slot:
                loras.remove(lora)
