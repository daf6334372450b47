from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from paceline.models import library
from paceline.models.files import EMBEDDED


def model(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    (folder / "model.safetensors").write_bytes(b"x")
    return folder


def test_models_are_found_in_a_folder_and_in_folders_of_their_owners(tmp_path: Path) -> None:
    model(tmp_path / "one")
    model(tmp_path / "owner" / "two")
    model(tmp_path / ".hidden" / "three")
    model(tmp_path / "strange", model_type="bert")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    assert [found.name for found in library.in_folder(tmp_path)] == ["one", "owner/two"]
    assert library.in_folder(tmp_path / "nowhere") == []


def test_the_cache_has_a_model_in_the_version_of_its_main_branch(tmp_path: Path) -> None:
    repository = tmp_path / "models--owner--name"
    model(repository / "snapshots" / "old")
    new = model(repository / "snapshots" / "new")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("new")
    model(tmp_path / "datasets--owner--name" / "snapshots" / "x")
    (tmp_path / "models--half--downloaded").mkdir()
    assert library.in_cache(tmp_path) == [library.LocalModel("owner/name", new, "cache")]
    shutil.rmtree(repository / "refs")
    assert len(library.in_cache(tmp_path)) == 1


def test_an_id_is_found_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path)
    folder = model(tmp_path / "models--owner--name" / "snapshots" / "x")
    assert library.in_cache_as("owner/name") == folder
    assert library.in_cache_as("owner/other") is None


@pytest.mark.parametrize(
    ("config", "known"),
    [
        ({"model_type": "qwen3"}, True),
        ({"model_type": "mistral"}, True),  # another name for llama
        ({"model_type": "idefics3", "text_config": {"model_type": "llama"}}, True),
        ({"model_type": "bert"}, False),
        ({"model_type": "x", "text_config": {"model_type": 3}}, False),
    ],
)
def test_a_family_is_known_by_the_files_of_mlx_lm(config: dict[str, object], known: bool) -> None:
    assert library.known_family(config) is known


def test_the_package_has_its_models() -> None:
    assert library.LocalModel("paceline-mini", EMBEDDED / "paceline-mini", "package") in library.in_package()
