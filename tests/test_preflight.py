"""What is refused before a model is loaded."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline import preflight
from paceline.errors import LoadError, PacelineError
from paceline.service import Service
from paceline.settings import Settings


def refusal(**values: Any) -> str:
    """What the check says, which is one line; and that a service says the same without loading a thing."""
    settings = Settings(**values)
    with pytest.raises(PacelineError, match="^[^\n]*$") as caught:
        preflight.check(settings)
    with pytest.raises(PacelineError) as again:
        asyncio.run(Service(settings).start())
    assert str(again.value) == str(caught.value)
    return str(caught.value)


@pytest.fixture(autouse=True)
def _nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: Any) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("paceline.engine.startup.load", load)


def test_settings_and_a_folder_that_are_right_pass(llama: Path, tmp_path: Path) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages }}")
    preflight.check(Settings())
    preflight.check(
        Settings(
            model=str(llama),
            tool_parser="hermes",
            reasoning_parser="none",
            chat_template=template,
            media_dir=tmp_path,
            cache_dir=tmp_path / "a" / "b",
            files_dir=tmp_path / "a" / "c",
            specprefill_draft_model=str(llama),
        )
    )
    assert not (tmp_path / "a").exists()


def test_an_id_is_not_downloaded_for_it() -> None:
    preflight.check(Settings(model="owner/name", specprefill_draft_model="owner/draft"))


def test_parsers_that_do_not_exist_are_refused_with_those_that_do() -> None:
    assert "--tool-parser 'typo' is unknown. Use one of: auto, none, " in refusal(tool_parser="typo")
    assert "--reasoning-parser 'typo' is unknown. Use one of: auto, none, " in refusal(reasoning_parser="typo")


def test_a_chat_template_that_is_not_there_or_no_jinja_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "chat.jinja"
    assert refusal(chat_template=file) == f"The chat template {file} cannot be read: No such file or directory"
    file.write_text("{% for")
    assert "The chat template cannot be read: " in refusal(chat_template=file)


def test_folders_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert refusal(media_dir=tmp_path / "none") == f"--media-dir: there is no folder {tmp_path / 'none'}."
    assert f"{file / 'cache'} cannot be used: {file} is a file. Choose" in refusal(cache_dir=file / "cache")
    assert f"The files folder {file / 'files'} cannot be used: {file} is a file. Choose" in refusal(
        files_dir=file / "files"
    )
    preflight.check(Settings(cache_dir=file, prefix_cache=False))


def test_a_cache_folder_that_cannot_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    assert f"{tmp_path} cannot be written to" in refusal(cache_dir=tmp_path / "cache")


def test_a_context_longer_than_the_models_is_refused_with_both_numbers(llama: Path) -> None:
    most = json.loads((llama / "config.json").read_text())["max_position_embeddings"]
    said = refusal(model=str(llama), context_length=most + 1)
    assert f"--context-length {most + 1} is more than the {most} tokens that {llama.name} was made for" in said
    assert f"Give at most {most}" in said
    preflight.check(Settings(model=str(llama), context_length=most))


def test_a_memory_limit_that_the_weights_cannot_meet_is_refused(llama: Path) -> None:
    size = (llama / "model.safetensors").stat().st_size / 1e9
    said = refusal(model=str(llama), memory_limit_gb=size / 3)
    assert "is too little for" in said and f"whose weights have {size:.2f} GB" in said and "raise the limit" in said
    preflight.check(Settings(model=str(llama), memory_limit_gb=size))


def test_a_context_that_the_configuration_stretches_is_taken(llama: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    most = config["max_position_embeddings"]
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": most}
    (folder / "config.json").write_text(json.dumps({**config, "rope_scaling": scaling}))
    preflight.check(Settings(model=str(folder), context_length=4 * most))
    assert f"the {4 * most} tokens" in refusal(model=str(folder), context_length=4 * most + 1)


def _spoil_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def _spoil_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


@pytest.mark.parametrize("spoil", [_spoil_weights, _spoil_config])
def test_a_model_and_a_draft_whose_files_are_wrong_are_refused(
    llama: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    spoil(folder)
    said = refusal(model=str(folder))
    assert refusal(specprefill_draft_model=str(folder)) == f"The draft model cannot be used. {said}"
    assert refusal(draft_model=str(folder)) == f"The draft model cannot be used. {said}"


@pytest.mark.parametrize("field", ["specprefill_draft_model", "draft_model"])
def test_a_draft_with_another_tokenizer_is_refused_before_the_model_is_loaded(llama: Path, field: str) -> None:
    settings = Settings.load({field: str(llama)}, None, {})
    preflight.check(settings)
    with pytest.raises(PacelineError, match="has another tokenizer than the model"):
        asyncio.run(Service(settings).start())


def test_a_generation_config_that_is_named_must_be_there_and_right(tmp_path: Path) -> None:
    path = tmp_path / "generation.json"
    assert "cannot be read: No such file" in refusal(generation_config=path)
    path.write_text('{"top_p": 7}')
    assert "top_p must be above 0 and at most 1, and is 7" in refusal(generation_config=path)
    path.write_text('{"top_p": 0.7}')
    preflight.check(Settings(generation_config=path))


def test_an_adapter_whose_files_are_wrong_is_refused(llama: Path, tmp_path: Path) -> None:
    settings = Settings(model=str(llama), lora=(f"odd={tmp_path}",))
    with pytest.raises(LoadError, match=r"The adapter 'odd' cannot be used\. .* has no adapter_config\.json"):
        preflight.check(settings)
