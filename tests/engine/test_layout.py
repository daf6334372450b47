"""Which layout a model gets on which device; padding is checked before it is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline import platform
from paceline.cache.batch import LayerPlan
from paceline.cache.shape_buckets import EXACT, GPU
from paceline.cache.slot_plan import AUTO, LAYOUTS, PADDED, Grouping
from paceline.engine import layout
from paceline.models import check
from paceline.models.adapter import buckets_for
from tests.engine.stepper import loaded

Tiny = Callable[..., Path]
DEVICES = ["cpu", "cuda", "metal"]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda kind: monkeypatch.setattr(platform, "device_kind", lambda: kind)


@pytest.mark.parametrize("kind", DEVICES)
def test_a_gpu_gets_buckets_and_a_cpu_exact_shapes(tiny: Tiny, on: Callable[[str], None], kind: str) -> None:
    on(kind)
    found = layout.choose(loaded(tiny("llama")))
    assert found == replace(AUTO[kind][0], buckets=EXACT if kind == "cpu" else GPU)


@pytest.mark.thin(4)
@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_settings_decide_if_they_say_something(tiny: Tiny, on: Callable[[str], None], kind: str, name: str) -> None:
    on(kind)
    model = loaded(tiny("llama"))
    assert layout.choose(model, name, "off") == LAYOUTS[name]
    assert layout.choose(model, name, "on") == replace(LAYOUTS[name], buckets=GPU)


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["llama", "window", "hybrid"])
def test_every_family_of_ours_passes_the_check_with_buckets(tiny: Tiny, family: str) -> None:
    assert layout.choose(loaded(tiny(family)), "similar", "on").buckets == GPU


def test_a_model_for_which_padding_fails_gets_exact_shapes_and_a_warning(
    tiny: Tiny, on: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    on("cuda")
    right = check.batched_error

    def fails(model: Any, grouping: Grouping, *more: Any) -> float | None:
        if grouping.buckets.rows:
            raise ValueError("it wants no padding")
        return right(model, grouping, *more)

    monkeypatch.setattr(check, "batched_error", fails)
    assert layout.choose(loaded(tiny("llama"))) == PADDED
    assert "padding fails with this model: it wants no padding" in caplog.text


def test_a_model_that_padding_changes_gets_exact_shapes_and_a_warning(
    tiny: Tiny, on: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    on("cuda")
    errors = iter([0.25, None])
    monkeypatch.setattr(check, "batched_error", lambda *_: next(errors))
    monkeypatch.setattr(check, "choose_layout", lambda model, choices: choices[1])
    model = loaded(tiny("llama"))
    notes = list(model.notes)
    try:
        assert layout.choose(model) == LAYOUTS["similar"]
        assert "logits differ by 0.25" in caplog.text
        assert model.notes[len(notes) :] == ["llama needs the padded layout."]
    finally:
        model.notes[:] = notes


def test_a_recurrent_family_that_takes_padding_for_tokens_gets_no_width_buckets(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    language = loaded(tiny("hybrid")).language
    assert buckets_for(language) == GPU
    state = LayerPlan("list", parts=(LayerPlan("attention"), LayerPlan("state", size=1)))
    monkeypatch.setattr(language, "plans", [LayerPlan("attention"), state])
    assert buckets_for(language) == replace(GPU, widths=(), prompts=())
