from __future__ import annotations

from pathlib import Path

import pytest

from paceline.errors import SettingsError
from paceline.front import catalog as module
from paceline.front.catalog import Catalog
from paceline.models.library import LocalModel
from paceline.setting_sources import ModelTable
from paceline.settings import Settings

A, B = ModelTable("a", "paceline-mini", ("gpt",)), ModelTable("owner/b", "paceline-mini-draft")


def test_a_model_is_found_by_its_names_and_what_is_no_name_is_none() -> None:
    catalog = Catalog(Settings(), [A, B])
    for asked, found in {"a": "a", "gpt": "a", "b": "owner/b", "a:latest": "a", "owner/b": "owner/b"}.items():
        entry = catalog.find(asked)
        assert entry is not None and entry.name == found
    for asked in ("nope", "../a", "A", ""):
        assert catalog.find(asked) is None
    entry = catalog.find(None)
    assert entry is not None and entry.name == "a"


def test_an_adapter_is_a_name_of_its_model() -> None:
    catalog = Catalog(Settings(), [A, ModelTable("b", "b", own={"lora": ["sql=/a"]})])
    entry = catalog.find("sql")
    assert entry is not None and entry.name == "b" and "sql" in entry.aliases


def test_two_models_of_one_name_and_an_unknown_default_are_errors() -> None:
    with pytest.raises(SettingsError, match="two models have the name 'gpt'"):
        Catalog(Settings(), [A, ModelTable("gpt", "x/y")])
    with pytest.raises(SettingsError, match="default_model 'c' is none of the models: a, owner/b"):
        Catalog(Settings(default_model="c"), [A, B])
    with pytest.raises(SettingsError, match="there is no model to serve"):
        Catalog(Settings(), [])


def test_a_process_gets_the_servers_settings_its_own_and_nothing_secret() -> None:
    shared = Settings(api_key=("secret",), port=1, max_num_seqs=3, memory_limit_gb=9.0, log_level="debug")  # type: ignore[arg-type]
    [entry] = Catalog(shared, [ModelTable("a", "paceline-mini", (), False, {"max_num_seqs": 7})]).entries()
    own = entry.settings
    assert (own.model, own.served_names, own.max_num_seqs, own.log_level) == ("paceline-mini", ("a",), 7, "debug")
    assert (own.api_key, own.port, own.memory_limit_gb, own.drain_seconds) == ((), 8000, None, 0.0)
    assert own.any_model_name


def test_models_that_come_to_a_folder_or_leave_it_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESCAN_SECONDS", 0.0)
    found = [LocalModel("x", Path("/models/x"), "folder")]
    catalog = Catalog(Settings(), [A], lambda: found)
    assert [entry.name for entry in catalog.entries()] == ["a", "x"]
    found.append(LocalModel("y", Path("/models/y"), "folder"))
    catalog.scan()
    entry = catalog.find("y")
    assert entry is not None and (entry.source, entry.given) == ("/models/y", False)
    found.clear()
    catalog.scan()
    assert [entry.name for entry in catalog.entries()] == ["a"]
    assert catalog.find("x") is None


def test_a_given_model_comes_before_one_of_its_name_in_a_folder() -> None:
    catalog = Catalog(Settings(), [A], lambda: [LocalModel("a", Path("/models/a"), "folder")])
    assert [entry.source for entry in catalog.entries()] == ["paceline-mini"]


def test_the_folder_of_a_model_is_known_or_it_must_be_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("paceline.models.library.cache_folder", lambda: tmp_path)
    catalog = Catalog(Settings(), [A, ModelTable("c", "owner/not-here")])
    first, second = catalog.entries()
    assert first.folder() is not None and second.folder() is None
