from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import tiny
from benchmarks.models import model_of
from paceline.bench.wire import BenchError
from paceline.models.files import EMBEDDED


def test_benches_take_the_tiny_model_and_those_of_the_package_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert model_of("paceline-tiny").folder == tiny.folder()
    assert model_of("paceline-mini-draft").folder == EMBEDDED / "paceline-mini-draft"
    with pytest.raises(BenchError, match="only shapes"):
        model_of("paceline-mini-draft", layers=2)
