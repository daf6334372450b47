from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.errors import LoadError
from paceline.models.description import describe
from paceline.models.files import DEFAULT_FOLDER


def test_the_embedded_model_sees_drafts_and_chats() -> None:
    found = describe(DEFAULT_FOLDER)
    assert (found.family, found.context_length, found.quantization) == ("qwen3_5", 32768, None)
    assert found.sees and found.drafts and found.chats and not found.hears
    assert dict(found.files)["config.json"] > 0 and found.size == sum(size for _, size in found.files)


def test_a_folder_is_described_by_what_is_in_it(tmp_path: Path) -> None:
    config = {"model_type": "x", "quantization": {"bits": 4, "group_size": 64}, "audio_config": {"a": 1}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = describe(tmp_path)
    assert (found.quantization, found.hears, found.sees, found.chats, found.drafts) == (
        "4-bit",
        True,
        False,
        False,
        False,
    )
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ tools }}"}))
    index = {"weight_map": {"model.mtp.layer": "model-1.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "x", "quantization": {"mode": "mxfp4", "bits": 4}}))
    found = describe(tmp_path)
    assert (found.calls_tools, found.drafts, found.quantization) == (True, True, "mxfp4")


@pytest.mark.parametrize(
    ("family", "name", "drafts"),
    [
        ("deepseek_v3", "model.layers.3.eh_proj.weight", True),
        ("deepseek_v3", "model.layers.2.mlp.up_proj.weight", False),
        ("deepseek_v3", "model.layers.30.mlp.up_proj.weight", False),
        ("glm4_moe", "model.layers.3.eh_proj.weight", True),
        ("mimo", "model.mtp_layers.0.input_proj.weight", True),
        ("qwen3_next", "mtp.fc.weight", True),
        ("llama", "model.layers.3.mlp.up_proj.weight", False),
        ("llama", "model.mtp_layers.0.input_proj.weight", False),
    ],
)
def test_a_head_is_known_by_the_names_that_its_family_gives_it(
    tmp_path: Path, family: str, name: str, drafts: bool
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family, "num_hidden_layers": 3}))
    index = {"weight_map": {"model.embed_tokens.weight": "1", name: "2"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert describe(tmp_path).drafts == drafts


def test_what_is_no_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="has no config.json"):
        describe(tmp_path)
