"""Writes a checkpoint as a folder in Hugging Face layout: bf16, shards small enough for any store.

    python -m training.export CHECKPOINT TOKENIZER FOLDER [--name paceline-mini-draft]

CHECKPOINT is what training.train left; `random` writes untrained weights, to try the layout on every loader.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.model import Model
from training.shapes import SHAPES, Shape, generation, hugging_face, processors
from training.sources import MANIFEST

SHARD = 14 * 2**20
ZERO_CENTRED = ("layernorm.weight", "q_norm.weight", "k_norm.weight", "model.norm.weight", "mtp.norm.weight")
ZERO_CENTRED += ("pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight")
SOURCES = "training-sources.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json")

README = """# {name}

A demonstration model of {count:.1f} million parameters in Qwen3.5's architecture, trained from nothing by the programs
in Paceline's `training/`. It talks a little, looks things up, fills in JSON and calls tools; it knows next to nothing.
What it was trained on, with the licence of every source, is in `training-sources.json`; how good it is, in the
project's `docs/embedded-model.md`.
"""


def special_ids(tokenizer: Path) -> dict[str, int]:
    known = json.loads((tokenizer / "tokenizer.json").read_text())
    return {token["content"]: int(token["id"]) for token in known["added_tokens"]}


def export(weights: dict[str, Tensor], shape: Shape, tokenizer: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.safetensors*"):
        old.unlink()
    for name in TOKENIZER_FILES:
        if (tokenizer / name).exists():
            shutil.copyfile(tokenizer / name, folder / name)
    shutil.copyfile(MANIFEST, folder / SOURCES)  # whoever has the weights has the licences of what made them
    ids = special_ids(tokenizer)
    _shards({name: _rounded(name, value) for name, value in weights.items()}, folder)
    _write(folder / "config.json", hugging_face(shape, ids))
    _write(folder / "generation_config.json", generation(ids))
    for file, processor in processors(shape).items():
        _write(folder / file, processor)
    name = next(name for name, known in SHAPES.items() if known == shape) if shape in SHAPES.values() else "a model"
    count = sum(value.numel() for value in weights.values())
    (folder / "README.md").write_text(README.format(name=name, count=count / 1e6))


def exported(folder: Path) -> dict[str, Tensor]:
    """The weights of an exported folder, in float32."""
    weights = {name: value.float() for file in folder.glob("*.safetensors") for name, value in load_file(file).items()}
    if not weights:
        raise FileNotFoundError(f"{folder} has no *.safetensors")
    return weights


def _rounded(name: str, value: Tensor) -> Tensor:
    """In bf16. A zero-centred norm is rounded where it counts from one: loaders add the one in bf16 or in float32,
    and must agree."""
    if value.ndim == 1 and name.endswith(ZERO_CENTRED) and "visual" not in name:
        return ((1 + value.float()).to(torch.bfloat16).float() - 1).to(torch.bfloat16)
    return value.to(torch.bfloat16).contiguous()


def _shards(weights: dict[str, Tensor], folder: Path) -> None:
    shards: list[dict[str, Tensor]] = [{}]
    room = SHARD
    for name in sorted(weights):
        size = weights[name].numel() * weights[name].element_size()
        if size > room and shards[-1]:
            shards.append({})
            room = SHARD
        shards[-1][name] = weights[name]
        room -= size
    where: dict[str, str] = {}
    for index, shard in enumerate(shards):
        single = len(shards) == 1
        file = "model.safetensors" if single else f"model-{index + 1:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        (folder / file).chmod(0o644)
        where |= dict.fromkeys(shard, file)
    if len(shards) > 1:
        total = sum(value.numel() * value.element_size() for value in weights.values())
        index_file = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
        _write(folder / "model.safetensors.index.json", index_file)


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="a file or folder of training.train's, or `random`")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", choices=SHAPES, default="paceline-mini")
    options = parser.parse_args(arguments)
    shape = SHAPES[options.name]
    if options.checkpoint == "random":
        torch.manual_seed(0)
        weights = Model(shape).state_dict()
        for name, value in weights.items():  # the training's zeros would hide whatever is wrong behind them
            if not value.any():
                weights[name] = torch.randn_like(value) * (0.05 if value.ndim == 1 else value.shape[-1] ** -0.5)
    else:
        from training.checkpoint import load

        weights = load(Path(options.checkpoint))["model"]
    export(weights, shape, options.tokenizer, options.folder)


if __name__ == "__main__":
    main()
