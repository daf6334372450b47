"""What may be a draft, and whose prompts can be prefilled sparsely: told at start, in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.conversation.tokenizer import Tokenizer
from paceline.engine.sparse_draft import _declared, check_draft, load_draft, why_not
from paceline.errors import LoadError
from paceline.models.files import EMBEDDED
from paceline.models.loader import load

MINI, DRAFT = EMBEDDED / "paceline-mini", EMBEDDED / "paceline-mini-draft"


def tokenizer() -> Tokenizer:
    return Tokenizer.load(MINI, json.loads((MINI / "config.json").read_text()))


def test_the_embedded_draft_is_one() -> None:
    model = load_draft(str(DRAFT), "float32", tokenizer().vocab_size)
    assert model.vision is None and isinstance(model.head, str)


@pytest.mark.parametrize(("said", "declared"), [(512, 512), (0, 0), (-3, 0), ("512", 0), (None, 0)])
def test_a_draft_may_say_how_far_it_needs_to_look_back(said: object, declared: int) -> None:
    model = load(str(DRAFT), "float32")
    model.config["specprefill_window"] = said
    assert _declared(model) == declared


def test_a_draft_with_another_tokenizer_is_refused_in_one_line(tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(DRAFT, other)
    words = json.loads((other / "tokenizer.json").read_text())
    vocabulary = words["model"]["vocab"]
    first, second = list(vocabulary)[300:302]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (other / "tokenizer.json").write_text(json.dumps(words))
    with pytest.raises(LoadError, match="another tokenizer") as caught:
        check_draft(str(other), tokenizer())
    assert "\n" not in str(caught.value)


def test_a_draft_that_is_not_there_is_named() -> None:
    with pytest.raises(LoadError, match="nowhere"):
        check_draft("./nowhere", tokenizer())


def test_a_draft_must_see_all_of_a_prompt(window: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Tokenizer.load(window, json.loads((window / "config.json").read_text()))
    model = load(str(window), "float32")
    model.language.plans = tuple(plan for plan in model.language.plans if plan.window is not None)
    monkeypatch.setattr("paceline.engine.sparse_draft.load", lambda *_, **__: model)
    with pytest.raises(LoadError, match="no layer that sees all"):
        load_draft(str(window), "float32", mine.vocab_size)


@pytest.mark.parametrize("family", ["hybrid", "llama", "qwen3"])
def test_these_can_be_read_sparsely(family: str, request: pytest.FixtureRequest) -> None:
    assert why_not(load(str(request.getfixturevalue(family)), "float32")) is None


def test_a_window_counts_tokens_and_not_places(window: Path) -> None:
    assert "window" in (why_not(load(str(window), "float32")) or "")


def test_a_rope_that_follows_the_length_cannot_have_gaps(tiny: Callable[..., Path]) -> None:
    folder = tiny("llama", rope_scaling={"rope_type": "dynamic", "factor": 2.0})
    assert "length" in (why_not(load(str(folder), "float32")) or "")
