from __future__ import annotations

from pathlib import Path

import pytest

from paceline.errors import SettingsError
from paceline.model_tables import chosen
from paceline.setting_sources import ModelTable
from paceline.settings import Settings

FILE = """
max_num_seqs = 3
[models.qwen]
path = "owner/qwen"
aliases = ["gpt-4o"]
pinned = true
max_num_seqs = 7
[models."owner/other"]
"""


def file(tmp_path: Path, text: str = FILE) -> Path:
    path = tmp_path / "paceline.toml"
    path.write_text(text)
    return path


def complaint(settings: Settings, models: list[str], config: Path | None = None) -> str:
    with pytest.raises(SettingsError) as error:
        chosen(settings, models, config)
    return str(error.value)


def test_one_model_needs_no_front() -> None:
    for models in ([], ["paceline-mini"]):
        settings = Settings(model=next(iter(models), None))
        assert chosen(settings, models, None) == (settings, None)


def test_several_models_idle_unloading_and_folders_need_one(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    _, tables = chosen(Settings(), [str(tmp_path / "a"), "owner/b", "owner/b"], None)
    assert tables == [ModelTable("a", str(tmp_path / "a")), ModelTable("owner/b", "owner/b")]
    _, tables = chosen(Settings(idle_unload=5.0), [], None)
    assert tables == [ModelTable("paceline-mini", "paceline-mini")]
    assert chosen(Settings(models_dir=tmp_path), [], None)[1] == []
    assert chosen(Settings(hf_cache=True, model="m/n"), [], None)[1] == [ModelTable("m/n", "m/n")]


def test_the_tables_of_a_file_are_models_and_no_setting(tmp_path: Path) -> None:
    config = file(tmp_path)
    settings = Settings.load({}, config, {})
    assert settings.max_num_seqs == 3
    _, tables = chosen(settings, [], config)
    qwen = ModelTable("qwen", "owner/qwen", ("gpt-4o",), True, {"max_num_seqs": 7})
    assert tables == [qwen, ModelTable("owner/other", "owner/other")]
    assert chosen(settings, ["owner/x", "qwen"], config)[1] == [ModelTable("owner/x", "owner/x"), qwen, tables[1]]


def test_the_only_model_of_a_file_is_served_alone_with_its_settings(tmp_path: Path) -> None:
    config = file(tmp_path, FILE.partition('[models."')[0])
    settings, tables = chosen(Settings.load({}, config, {}), [], config)
    assert tables is None
    assert (settings.model, settings.served_names, settings.max_num_seqs) == ("owner/qwen", ("qwen", "gpt-4o"), 7)


def test_a_default_model_alone_answers_to_any_name() -> None:
    settings, tables = chosen(Settings(default_model="paceline-mini"), [], None)
    assert tables is None and settings.any_model_name
    assert "is not the model that is served" in complaint(Settings(default_model="x"), [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models = 3", "is no table"),
        ("[models]\na = 3", "models.a in"),
        ("[models.a]\nport = 3", "all models have it in common"),
        ("[models.a]\nmax_rows = 0", "max_rows in [models.a]"),
        ("[models.a]\nmaxseqs = 3", "unknown key 'maxseqs' in [models.a]"),
        ("[models.a]\naliases = 'x'", "aliases in [models.a]"),
        ("[models.a]\npinned = 1", "pinned in [models.a]"),
        ("[models.a]\npath = ''", "path in [models.a]"),
        ("[models.a]\nalias = 'x'", "all models have it in common"),
    ],
)
def test_a_wrong_table_is_an_error_that_names_it(tmp_path: Path, text: str, words: str) -> None:
    assert words in complaint(Settings(), [], file(tmp_path, text))


def test_what_is_for_one_model_is_refused_with_several(tmp_path: Path) -> None:
    assert "aliases" in complaint(Settings(served_model_name=("x",)), ["a/b", "c/d"])
    assert "files and batches" in complaint(Settings(files_dir=tmp_path), ["a/b", "c/d"])
    assert "[models.NAME]" in complaint(Settings(lora=("sql=/a",)), ["a/b", "c/d"])
    assert "there is no folder" in complaint(Settings(models_dir=tmp_path / "x"), [])
