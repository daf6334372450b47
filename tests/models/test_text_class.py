"""The language model of a vision-language checkpoint is mlx-lm's class for it, or for its text."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.models import text_class
from paceline.models.loader import load
from tests.synthetic.vision_families import FAMILIES

Seeing = Callable[[str], Path]


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("model.language_model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"),
        ("language_model.model.norm.weight", "model.norm.weight"),
        ("model.text_model.embed_tokens.weight", "model.embed_tokens.weight"),
        ("language_model.lm_head.weight", "lm_head.weight"),
        ("llm.model.layers.1.input_layernorm.weight", "model.layers.1.input_layernorm.weight"),
        ("lm_head.weight", "lm_head.weight"),
        ("vision_tower.patch_embed.weight", "vision_tower.patch_embed.weight"),
    ],
)
def test_tensors_are_renamed_to_where_the_text_model_has_them(name: str, own: str) -> None:
    assert text_class.text_name(name) == own


def test_a_type_that_mlx_lm_knows_keeps_its_class() -> None:
    made, _ = text_class.choose({"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text"}})
    assert made.__module__ == "mlx_lm.models.qwen3_vl"


def test_a_type_that_mlx_lm_does_not_know_has_the_class_of_its_text() -> None:
    made, args = text_class.choose(
        {"model_type": "internvl_chat", "llm_config": {"model_type": "qwen2"}, "vision_config": {"depth": 1}}
    )
    assert made.__mro__[1].__module__ == "mlx_lm.models.qwen2" and args.__name__ == "TextArgs"


def test_a_type_that_nobody_knows_is_refused() -> None:
    for config in ({"model_type": "nothing"}, {"model_type": "nothing", "text_config": {"model_type": "no"}}):
        with pytest.raises(ValueError, match="not supported"):
            text_class.choose(config)


@pytest.mark.parametrize("family", ["smolvlm", "internvl_chat", "gemma3", "qwen3_vl_moe"])
def test_a_checkpoint_without_its_tower_s_weights_is_served_as_text(
    seeing: Seeing, tmp_path: Path, family: str
) -> None:
    assert family in FAMILIES
    folder = Path(shutil.copytree(seeing(family), tmp_path / "model"))
    file = str(folder / "model.safetensors")
    stored: Any = mx.load(file)
    mx.eval(stored)
    kept = {name: array for name, array in stored.items() if "vis" not in name and "mlp1" not in name}
    kept = {name: array for name, array in kept.items() if "connector" not in name and "projector" not in name}
    mx.save_safetensors(file, kept, metadata={"format": "pt"})
    model = load(str(folder))
    assert model.vision is None and model.notes == ["model has no vision weights: text only."]
    assert model.language.module(mx.array([[5, 6, 7]])).shape[:2] == (1, 3)


def test_a_checkpoint_without_its_processor_s_files_is_served_as_text(seeing: Seeing, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(seeing("gemma3"), tmp_path / "model"))
    (folder / "preprocessor_config.json").unlink()
    model = load(str(folder))
    assert model.vision is None and "served as a text model" in model.notes[0]
