from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from paceline import cli
from paceline.models import files, library
from paceline.models.files import EMBEDDED


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hugging Face cache with one model."""
    folder = tmp_path / "hub"
    monkeypatch.setattr(library, "cache_folder", lambda: folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    shutil.copytree(EMBEDDED / "paceline-mini-draft", folder / "models--owner--small" / "snapshots" / "abc")
    return folder


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["models", *arguments])


def test_the_list_has_the_models_of_the_package_the_cache_and_a_folder(cache: Path, tmp_path: Path) -> None:
    shutil.copytree(EMBEDDED / "paceline-mini-draft", tmp_path / "mine" / "own")
    output = invoke("list", "--models-dir", str(tmp_path / "mine")).output
    for words in ("paceline-mini", "owner/small", "own", "package", "cache", "folder", "32,768", "qwen3_5"):
        assert words in output
    cards = json.loads(invoke("list", "--json").output)
    assert [card["name"] for card in cards] == ["paceline-mini", "paceline-mini-draft", "owner/small"]
    assert cards[0]["can"] == ["chat", "tools", "see", "draft"]
    assert invoke("list", "--models-dir", "/no/such").exit_code == 2


def test_a_model_is_shown_with_its_files_and_the_memory_at_a_context() -> None:
    output = invoke("show", "paceline-mini").output
    for words in ("config.json", "32,768 tokens", "chat, tools, see, draft", "4,096 tokens", "estimated"):
        assert words in output
    shown = json.loads(invoke("show", "small", "--context", "1000", "--json").output)
    assert shown["name"] == "owner/small" and shown["memory_bytes"]["1000"] > shown["size_bytes"]
    result = invoke("show", "owner/unknown")
    assert result.exit_code == 2 and "paceline models pull owner/unknown" in result.stderr


def test_a_model_is_deleted_from_the_cache_only_and_after_a_question(cache: Path) -> None:
    folder = cache / "models--owner--small"
    assert CliRunner().invoke(cli.app, ["models", "rm", "owner/small"], input="n\n").exit_code == 1
    assert folder.is_dir()
    assert "Deleted owner/small" in invoke("rm", "owner/small", "--yes").output
    assert not folder.exists()


@pytest.mark.parametrize("name", ["owner/unknown", "../..", "a/..", "owner/small/x", "."])
def test_what_is_not_in_the_cache_is_not_deleted(cache: Path, name: str) -> None:
    result = invoke("rm", name, "--yes")
    assert result.exit_code == 2 and "it has: owner/small" in result.stderr
    assert (cache / "models--owner--small").is_dir() and EMBEDDED.is_dir()


def test_a_model_of_the_package_is_not_deleted(cache: Path) -> None:
    result = invoke("rm", "paceline-mini", "--yes")
    assert result.exit_code == 2 and "paceline-mini is part of the package" in result.stderr
    assert (EMBEDDED / "paceline-mini").is_dir()


def test_a_model_is_downloaded_and_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "download", lambda model: EMBEDDED / "paceline-mini-draft")
    assert "owner/name is in" in invoke("pull", "owner/name").output
    monkeypatch.setattr(files, "download", lambda model: tmp_path)
    assert "has no config.json" in invoke("pull", "owner/name").stderr
    for name in ("name", "./a", "~/a", "a/b/c"):
        assert "is no Hugging Face id" in invoke("pull", name).stderr


def test_a_model_that_is_not_served_is_shown_so_and_not_listed(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EMBEDDED / "paceline-mini-draft", tmp_path / "mine" / "judge"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["Qwen3ForSequenceClassification"]}))
    output = invoke("show", str(folder)).output
    assert (
        "it is a classifier or cross-encoder (Qwen3ForSequenceClassification)" in output and "Qwen3-Reranker" in output
    )
    assert "judge" not in invoke("list", "--models-dir", str(tmp_path / "mine")).output
