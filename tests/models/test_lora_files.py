"""Folders of adapters: what both layouts say, and everything that is refused by the name of its file and tensor."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.errors import LoadError
from paceline.models.lora_files import module_path, read
from tests.loras import Made, write_mlx_lm, write_peft

LAYER = "model.layers.0.self_attn.q_proj"


def made(rank: int = 2, *paths: str) -> Made:
    factors = {path: (np.ones((8, rank), np.float32), np.ones((rank, 6), np.float32)) for path in paths or (LAYER,)}
    return Made(factors, rank, 1.5, ("self_attn.q_proj",))


def header(folder: Path, tensors: dict[str, Any], name: str = "adapters.safetensors", data: bytes = b"") -> None:
    text = json.dumps(tensors).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + data)


def tensor(shape: list[Any], begin: int = 0, kind: str = "F32") -> dict[str, Any]:
    size = 4 * math.prod(each for each in shape if isinstance(each, int))
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, begin + size]}


@pytest.mark.parametrize(
    ("path", "short"),
    [
        (LAYER, "layers.0.self_attn.q_proj"),
        ("base_model.model.model.language_model.layers.3.mlp.up_proj", "layers.3.mlp.up_proj"),
        ("language_model.lm_head", "lm_head"),
        ("model.visual.blocks.0.attn.qkv", "visual.blocks.0.attn.qkv"),
        ("model.vision_tower.encoder.layers.0.self_attn.q_proj", "vision_tower.encoder.layers.0.self_attn.q_proj"),
        ("model", "model"),
    ],
)
def test_a_layer_is_known_without_what_is_around_the_layers(path: str, short: str) -> None:
    assert module_path(path) == short


def test_both_layouts_say_the_same(tmp_path: Path) -> None:
    mine, theirs = read(write_mlx_lm(tmp_path / "a", made())), read(write_peft(tmp_path / "b", made()))
    [(path, one)], [(same, other)] = mine.factors.items(), theirs.factors.items()
    assert path == same == "layers.0.self_attn.q_proj"
    assert (one.inputs, one.outputs, one.rank, one.scale) == (8, 6, 2, 1.5)
    assert (other.inputs, other.outputs, other.rank, other.scale) == (8, 6, 2, 1.5)
    assert (mine.layout, theirs.layout, mine.rank) == ("mlx-lm", "PEFT", 2)
    assert mine.digest() != theirs.digest()


def test_the_digest_is_of_the_contents(tmp_path: Path) -> None:
    one, other = write_mlx_lm(tmp_path / "a", made()), write_mlx_lm(tmp_path / "b", made())
    assert read(one).digest() == read(other).digest()
    write_mlx_lm(other, made(), note="another")
    assert read(one).digest() != read(other).digest()


def test_pefts_scales(tmp_path: Path) -> None:
    other = "model.layers.1.self_attn.q_proj"
    folder = write_peft(tmp_path, made(4, LAYER, other), lora_alpha=8, alpha_pattern={"1.self_attn.q_proj": 2})
    factors = read(folder).factors
    assert [each.scale for each in factors.values()] == [2.0, 0.5]
    write_peft(tmp_path, made(4), lora_alpha=8, use_rslora=True)
    assert [each.scale for each in read(folder).factors.values()] == [4.0]
    write_peft(tmp_path, made(4), r=16, rank_pattern={"q_proj": 4}, lora_alpha=8)
    assert [each.scale for each in read(folder).factors.values()] == [2.0]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"fine_tune_type": "dora"}, "'dora'"),
        ({"fine_tune_type": "full"}, "'full'"),
        ({"lora_parameters": {"rank": 2}}, "scale in lora_parameters is None"),
        ({"lora_parameters": {"rank": 2, "scale": float("nan")}}, "scale in lora_parameters is nan"),
        ({"lora_parameters": {"rank": True, "scale": 1}}, "rank in lora_parameters is True"),
        ({"lora_parameters": {"rank": 3, "scale": 1}}, "lora_a has rank 2, and adapter_config.json says 3"),
        ({"lora_parameters": None}, "neither lora_parameters"),
    ],
)
def test_an_mlx_lm_config_that_is_refused(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    write_mlx_lm(tmp_path, made(), **config)
    with pytest.raises(LoadError, match=words) as caught:
        read(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"peft_type": "IA3"}, "'IA3'"),
        ({"use_dora": True}, "use_dora"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"bias": "all"}, "bias 'all'"),
        ({"lora_bias": True}, "lora_bias"),
        ({"target_parameters": ["mlp.experts"]}, "target_parameters"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices"),
        ({"alora_invocation_tokens": [1, 2]}, "alora_invocation_tokens"),
        ({"init_lora_weights": "pissa_niter_4"}, "pissa_niter_4"),
        ({"alpha_pattern": {"^layers.*": 3}}, r"alpha_pattern has the expression '\^layers"),
        ({"rank_pattern": {"q_proj": 7}}, "has rank 2, and adapter_config.json says 7"),
        ({"rank_pattern": [1]}, "rank_pattern is no object"),
        ({"lora_alpha": "8"}, "lora_alpha is '8'"),
    ],
)
def test_a_peft_config_that_is_refused(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    write_peft(tmp_path, made(), **config)
    with pytest.raises(LoadError, match=words):
        read(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "cannot be read"), ("[]", "holds no object"), ("{}", "neither"), ("[" * 200_000, "cannot be read")],
)
def test_a_config_that_is_no_config(tmp_path: Path, text: str, words: str) -> None:
    write_mlx_lm(tmp_path, made())
    (tmp_path / "adapter_config.json").write_text(text)
    with pytest.raises(LoadError, match=words):
        read(tmp_path)


def test_a_config_without_end_is_not_read(tmp_path: Path) -> None:
    write_mlx_lm(tmp_path, made(), note="x" * (1 << 20))
    with pytest.raises(LoadError, match="more than 1048576 bytes"):
        read(tmp_path)


def test_folders_that_hold_no_adapter(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="There is no folder"):
        read(tmp_path / "nowhere")
    with pytest.raises(LoadError, match=r"has no adapter_config\.json"):
        read(tmp_path)
    write_mlx_lm(tmp_path, made())
    (tmp_path / "adapters.safetensors").unlink()
    (tmp_path / "adapter_model.bin").write_bytes(b"pickled")
    with pytest.raises(LoadError, match=r"has no adapters\.safetensors"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({f"{LAYER}.lora_a": tensor([8, 2])}, "lora_a has no other factor"),
        ({f"{LAYER}.m": tensor([8])}, r"q_proj\.m is a part of a DoRA adapter"),
        ({f"{LAYER}.weight": tensor([8, 8])}, r"q_proj\.weight is not known"),
        ({f"{LAYER}.lora_a": tensor([4, 8, 2])}, "experts of a mixture"),
        ({f"{LAYER}.lora_a": tensor([8])}, r"its shape is \[8\]"),
        ({f"{LAYER}.lora_a": tensor([8, 0])}, r"its shape is \[8, 0\]"),
        ({f"{LAYER}.lora_a": {**tensor([8, 2]), "shape": [8, -2]}}, "its shape is"),
        ({f"{LAYER}.lora_a": tensor([8, 2], kind="I32")}, "its type is I32"),
        ({f"{LAYER}.lora_a": {**tensor([8, 2]), "shape": [8, 3]}}, "64 bytes do not hold"),
        ({f"{LAYER}.lora_a": {"dtype": "F32", "shape": 3, "data_offsets": [0, 4]}}, "cannot be used"),
        ({f"{LAYER}.lora_a": tensor([8, 2]), f"{LAYER}.lora_b": tensor([3, 6])}, "do not fit each other"),
        ({}, "holds no factors"),
    ],
)
def test_tensors_that_are_refused_by_their_names(tmp_path: Path, tensors: dict[str, Any], words: str) -> None:
    write_mlx_lm(tmp_path, made())
    end = max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
    header(tmp_path, tensors, data=bytes(end))
    with pytest.raises(LoadError, match=words):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("base_model.model.model.embed_tokens.lora_embedding_A", "for an embedding"),
        (f"base_model.model.{LAYER}.lora_magnitude_vector", "DoRA"),
        (f"base_model.model.{LAYER}.lora_B.bias", "a bias"),
        ("base_model.model.lm_head.modules_to_save.weight", "a layer of the adapter's own"),
    ],
)
def test_pefts_tensors_that_are_refused_by_their_names(tmp_path: Path, name: str, words: str) -> None:
    write_peft(tmp_path, made())
    header(tmp_path, {name: tensor([8, 2])}, "adapter_model.safetensors", bytes(64))
    with pytest.raises(LoadError, match=words) as caught:
        read(tmp_path)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"", b"abc", b"\xff" * 8, struct.pack("<Q", 4) + b"nope", struct.pack("<Q", 2) + b"[]"]
)
def test_a_file_that_is_damaged(tmp_path: Path, data: bytes) -> None:
    write_mlx_lm(tmp_path, made())
    (tmp_path / "adapters.safetensors").write_bytes(data)
    with pytest.raises(LoadError, match=r"adapters\.safetensors is damaged"):
        read(tmp_path)


def test_a_layer_that_is_there_twice(tmp_path: Path) -> None:
    write_mlx_lm(tmp_path, made(2, LAYER, f"language_model.{LAYER}"))
    with pytest.raises(LoadError, match="is there twice"):
        read(tmp_path)
