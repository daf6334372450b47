"""The generated parts of the docs are current and complete, and configuration.md has every setting."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from docs import reference, reference_fields, reference_stats
from paceline.server.common.refused_fields import REASONS
from paceline.server.ollama.schema import UNSUPPORTED_OPTIONS
from paceline.settings import Settings

CONFIGURATION = (reference.DOCS / "configuration.md").read_text()
ROW = re.compile(r"^\| ((?:`[a-z_]+`(?:, )?)+) \| (.*?) \| ", re.MULTILINE)


@pytest.mark.parametrize("page", reference.pages(), ids=lambda page: page.name)
def test_the_generated_parts_of_a_page_are_current(page: Path) -> None:
    assert reference.current(page.read_text()) == page.read_text(), "run: python -m docs.reference"


def test_every_generated_part_is_in_a_page() -> None:
    assert reference.used() == set(reference.PARTS)


def test_every_refused_field_has_a_reason_and_every_reason_a_field() -> None:
    refused = {*reference_fields.refused(), *UNSUPPORTED_OPTIONS}
    assert set(REASONS) == refused


def test_every_statistic_is_described_and_shown() -> None:
    classes = reference_stats.classes()
    assert set(reference_stats.STATUS) == set(reference_stats.PLACES) == set(classes)
    for name, kind in classes.items():
        assert set(reference_stats.STATUS[name]) == {field.name for field in dataclasses.fields(kind)}
    page = (reference.DOCS / "status-and-metrics.md").read_text()
    for name, kind in classes.items():
        for field in dataclasses.fields(kind):
            assert f"| `{reference_stats.PLACES[name]}{field.name}` |" in page


def test_the_readme_counts_the_families_of_the_models_page() -> None:
    readme, page = ((reference.DOCS / path).read_text() for path in ("../README.md", "models.md"))
    rows = re.findall(r"^\| ([\w, ()]+) \| (\w+) \| \w*Cache", page, re.MULTILINE)
    tried = [state for names, state in rows for _ in names.split(", ")]
    assert f"{len(tried) - tried.count('refused')} of the {len(tried)} mlx-lm families" in readme


def documented() -> dict[str, str]:
    """Every setting of configuration.md, and its default."""
    return {name: default for names, default in ROW.findall(CONFIGURATION) for name in re.findall(r"`(.*?)`", names)}


def test_configuration_has_every_setting_and_no_other() -> None:
    assert set(documented()) == set(Settings.model_fields)


def test_configuration_shows_the_defaults_that_are_in_force() -> None:
    words = {  # what stands for no value
        "model": "`paceline-mini`",
        "served_model_name": "`model` as given",
        "chat_template": "the model's",
        "blas": "search",
        "cache_dir": "memory only",
        "media_allowed_host": "any",
    }
    for name, field in Settings.model_fields.items():
        value, shown = field.default, documented()[name]
        if name in words:
            assert value in (None, ()) and shown == words[name]
        elif value in (None, (), {}):
            assert shown in ("none", "`none`", "`auto`"), name
        else:
            assert not isinstance(value, SecretStr)
            expected = str(value).lower() if isinstance(value, bool) else str(value)
            assert shown == f"`{expected}`", name
