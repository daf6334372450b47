"""Small checkpoints of families with short convolutions, Mamba or Mamba2 layers: mlx-lm's own classes with random
weights, as a conversion by mlx-lm has them."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten

from tests.models import families
from tests.synthetic import tokenizer
from tests.synthetic.weights import write_json

WINDOWED = ("layer_types", "sliding_window")  # none of these has windows, and transformers refuses the names
NAMES = ("lfm2", "lfm2_moe", "mamba2", "nemotron_h", "falcon_h1", "granitemoehybrid", "jamba")


def config_of(name: str) -> families.Config:
    config = {**families.FAMILIES[name], "vocab_size": tokenizer.SIZE, "mamba_expand": 1, "expand": 1}
    own = "layer_types" if config["layer_types"] != families.SIZES["layer_types"] else None
    return {key: value for key, value in config.items() if value is not None and (key == own or key not in WINDOWED)}


def build(name: str, folder: Path) -> Path:
    folder.mkdir(parents=True)
    vocabulary = tokenizer.write(folder)
    config = config_of(name) | {"eos_token_id": list(vocabulary.ends)}
    tensors = dict(tree_flatten(families.build(config).parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, metadata={"format": "mlx"})
    write_json(folder / "config.json", config)
    return folder
