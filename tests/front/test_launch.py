from __future__ import annotations

from typing import Any

import pytest

from paceline.errors import LoadError
from paceline.front import app, launch
from paceline.setting_sources import ModelTable
from paceline.settings import Settings


def test_wrong_models_are_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(app, "run", lambda pool, settings: seen.append(pool))
    with pytest.raises(LoadError, match="There is no folder nope"):
        launch.serve(Settings(), [ModelTable("a", "paceline-mini"), ModelTable("b", "nope")])
    assert seen == []
    launch.serve(Settings(), [ModelTable("a", "paceline-mini"), ModelTable("b", "paceline-mini-draft")])
    [pool] = seen
    assert [entry.name for entry in pool.catalog.entries()] == ["a", "b"]
