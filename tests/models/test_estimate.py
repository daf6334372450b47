from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import LoadError
from paceline.models.estimate import estimate
from paceline.models.files import DEFAULT_FOLDER

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "max_position_embeddings": 1000,
}


def folder(path: Path, tensors: dict[str, tuple[str, list[int]]], **config: Any) -> Path:
    (path / "config.json").write_text(json.dumps({**LLAMA, **config}))
    header = json.dumps({name: {"dtype": kind, "shape": shape} for name, (kind, shape) in tensors.items()}).encode()
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return path


def test_weights_become_float32_on_a_cpu_and_stay_elsewhere(tmp_path: Path) -> None:
    found = folder(tmp_path, {"a.weight": ("BF16", [10, 10]), "b.weight": ("F32", [5])})
    assert estimate(found, cpu=True).weights == 420
    assert estimate(found, cpu=False).weights == 220
    assert estimate(found, cpu=True, dtype="bfloat16").weights == 220


def test_quantized_weights_become_dense_on_a_cpu_if_that_fits(tmp_path: Path) -> None:
    tensors = {"a.weight": ("U32", [8, 8]), "a.scales": ("F16", [8, 2]), "a.biases": ("F16", [8, 2])}
    found = folder(tmp_path, tensors, quantization={"bits": 4, "group_size": 32})
    assert estimate(found, cpu=True).weights == 16 * 32 * 4
    assert estimate(found, cpu=True, memory=1000).weights == 256 + 4 * 32
    assert estimate(found, cpu=False).weights == 256 + 2 * 32


@pytest.mark.parametrize(
    ("config", "tokens", "size"),
    [
        ({}, 100, 4 * 2 * 2 * 8 * 2 * 100),
        ({"head_dim": 16}, 100, 4 * 2 * 2 * 16 * 2 * 100),
        ({"layer_types": ["full_attention", "linear_attention"] * 2}, 100, 2 * 64 * 100),
        (
            {"layer_types": ["full_attention", "sliding_attention"] * 2, "sliding_window": 10},
            100,
            2 * 64 * 100 + 2 * 64 * 10,
        ),
        ({"full_attention_interval": 4}, 100, 64 * 100),
        ({"kv_lora_rank": 32, "qk_rope_head_dim": 8}, 100, 4 * 40 * 2 * 100),
        ({"num_attention_heads": None}, 100, 0),
        ({"sliding_window": 10, "sliding_window_pattern": 2}, 100, 2 * 64 * 100 + 2 * 64 * 10),
    ],
)
def test_a_sequence_takes_what_the_layers_keep(tmp_path: Path, config: dict[str, Any], tokens: int, size: int) -> None:
    assert estimate(folder(tmp_path, {}, **config), cpu=False).sequence(tokens) == size


def test_quantized_keys_and_values_are_priced_with_their_scales(tmp_path: Path) -> None:
    found = folder(tmp_path, {})
    dense = estimate(found, cpu=False).sequence(100)
    assert [estimate(found, cpu=False, kv=(bits, 64, 0)).sequence(100) / dense for bits in (8, 4)] == [
        8.5 / 16,
        4.5 / 16,
    ]


def test_the_embedded_model_is_priced_as_it_is_loaded() -> None:
    found = estimate(DEFAULT_FOLDER, cpu=True)
    assert found.weights == 68_412_448  # what /v1/status says of the loaded model
    assert found.total(1000) < found.total(10_000) and found.least == found.total(8192)


def test_a_damaged_file_is_an_error_in_one_line(tmp_path: Path) -> None:
    folder(tmp_path, {})
    for content in (b"x", struct.pack("<Q", 1 << 40), struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 2) + b"{x"):
        (tmp_path / "model.safetensors").write_bytes(content)
        with pytest.raises(LoadError, match="is damaged"):
            estimate(tmp_path, cpu=True)
