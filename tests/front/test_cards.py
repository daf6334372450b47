from __future__ import annotations

from pathlib import Path

import pytest

from paceline.front.cards import Cards, context_length, described, sampling_defaults
from paceline.front.catalog import Catalog
from paceline.front.machine import Machine
from paceline.front.pool import Pool
from paceline.front.routes import FrontModelCard
from paceline.setting_sources import ModelTable
from paceline.settings import Settings


def cards(*tables: ModelTable) -> Cards:
    settings = Settings()
    return Cards.of(Pool(Catalog(settings, tables), settings, Machine("cpu", 10**9, "x")))


def test_a_model_that_is_not_loaded_is_described_by_its_files() -> None:
    found = cards(ModelTable("a", "paceline-mini", ("x",), True, {"context_length": 4096}))
    [(name, slot), (alias, _)] = found.names()
    card = found.openai(alias, slot)
    assert (card["id"], card["root"], card["pinned"], card["max_model_len"]) == ("x", "a", True, 4096)
    assert card["size_bytes"] > 10_000_000 and card["state"] == "unloaded"
    shown = found.ollama_shown(slot)
    assert "vision" in shown["capabilities"] and shown["details"]["family"] == "qwen3_5"
    assert found.ollama_running(slot)["expires_at"].startswith("9999")
    assert found.anthropic(name, slot)["max_tokens"] == 4096


def test_a_model_that_must_be_downloaded_first_is_listed_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("paceline.models.library.cache_folder", lambda: tmp_path)
    found = cards(ModelTable("far", "owner/far"))
    [(name, slot)] = found.names()
    card = FrontModelCard.model_validate(found.openai(name, slot))
    assert (card.max_model_len, card.sampling_defaults) == (None, None)
    assert found.openai(name, slot)["parent"] is None  # there, as vLLM and OpenAI have it
    assert found.ollama(name, slot)["size"] == 0
    assert found.ollama_shown(slot)["capabilities"] == ["completion"]
    assert (described(slot.entry), context_length(slot.entry), sampling_defaults(slot.entry)) == (None, None, None)
