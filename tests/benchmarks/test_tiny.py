from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import tiny
from benchmarks.overload import Plan


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_the_tiny_model_is_made_once(kept: Path) -> None:
    made = tiny.folder()
    assert made.is_relative_to(kept)
    before = (made / "config.json").stat().st_mtime_ns
    assert tiny.folder() == made
    assert (made / "config.json").stat().st_mtime_ns == before


def test_a_server_under_load_has_the_tiny_model_unless_another_is_named(kept: Path) -> None:
    assert Plan().flags[:3] == [str(tiny.folder()), "--served-model-name", "paceline-tiny"]
    assert Plan(model="paceline-mini").flags[:2] == ["paceline-mini", "--memory-limit-gb"]
