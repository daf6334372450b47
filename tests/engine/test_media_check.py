"""The start-up check of media lets through what mlx-vlm would say too, and takes the eyes of everything else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.cache.slot_plan import PADDED, SIMILAR
from paceline.engine.layout import choose
from paceline.engine.media_check import audio_disagreement, check_media, disagreement
from paceline.models.loader import LoadedModel, load
from paceline.models.vision import Vision
from paceline.types import Media
from tests.engine.stepper import loaded
from tests.synthetic.vision_families import FAMILIES

Seeing = Callable[[str], Path]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_agrees(seeing: Seeing, family: str) -> None:
    model = loaded(seeing(family))
    assert model.vision is not None, model.notes
    assert disagreement(model, model.vision, PADDED if FAMILIES[family].padded else SIMILAR) is None
    assert disagreement(model, model.vision, choose(model, "auto", "on")) is None


def test_qwen35_agrees(hybrid: Path) -> None:
    model = loaded(hybrid)
    assert model.vision is not None
    assert disagreement(model, model.vision, SIMILAR) is None


@pytest.mark.parametrize("layout", ["padded", "similar"])
def test_qwen35_agrees_in_buckets_of_shapes(hybrid: Path, layout: str) -> None:
    """As on a GPU, where three rows are padded to four."""
    model = loaded(hybrid)
    assert model.vision is not None
    grouping = choose(model, layout, "on")
    assert grouping.buckets.row_count(3) == 4
    assert disagreement(model, model.vision, grouping) is None


@pytest.fixture
def own(seeing: Seeing) -> LoadedModel:
    """A model of this test's own, to be broken."""
    return load(str(seeing("qwen3_vl")), "float32")


def blind(vision: Any) -> None:
    """The tower sees the same picture every time, in our path and in mlx-vlm's."""
    tower = vision.view.vision_tower
    vision.view.vision_tower = lambda pixels, grid: tower(pixels * 0, grid)
    vision.view.vision_tower.patch_embed = tower.patch_embed


def shifted(vision: Any) -> None:
    positions = vision.positions
    vision.positions = lambda ids, media: (positions(ids, media)[0] + 1, 0)


def loud(vision: Any) -> None:
    encode = vision.encode
    vision.encode = lambda medium: encode(medium) * 1.5


def without_residuals(vision: Any) -> None:
    encode = vision.encode
    vision.encode = lambda medium: mx.where(mx.arange(3 * 64) < 64, encode(medium), 0)


def wordy(vision: Any) -> None:
    preprocess = vision.preprocess

    def longer(picture: Any) -> Media:
        made = preprocess(picture)
        return Media(made.digest, made.tokens, made.token_id, (*made.token_ids, 5), cost=made.cost, inputs=made.inputs)

    vision.preprocess = longer


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (blind, "another picture changes nothing"),
        (shifted, "positions differ"),
        (loud, "features differ"),
        (without_residuals, "logits differ by"),
        (wordy, "a prompt has other tokens"),
    ],
)
def test_a_model_that_disagrees_is_a_text_model(
    own: LoadedModel, fault: Callable[[Vision], None], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert own.vision is not None
    fault(own.vision)
    check_media(own, SIMILAR)
    assert own.vision is None
    assert reason in own.notes[-1] and "served as a text model" in own.notes[-1]
    assert own.notes[-1] in caplog.text


def test_pictures_that_are_read_in_one_direction_only_are_found_out(seeing: Seeing) -> None:
    model = load(str(seeing("gemma4_two_sided")), "float32")
    assert model.vision is not None and model.vision.two_sided
    model.vision.two_sided = False
    check_media(model, PADDED)
    assert model.vision is None and "logits differ by" in model.notes[-1]


def test_a_tower_that_fails_makes_a_text_model(own: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def falling(medium: Media) -> mx.array:
        raise RuntimeError("the tower fell")

    monkeypatch.setattr(own.vision, "encode", falling)
    check_media(own, SIMILAR)
    assert own.vision is None and "the tower fell" in own.notes[-1]


def test_a_text_model_is_not_asked(llama: Path) -> None:
    model = loaded(llama)
    notes = list(model.notes)
    check_media(model, SIMILAR)
    assert model.notes == notes and not np.any([note for note in notes if "mlx-vlm" in note])


def test_a_model_that_does_not_hear_takes_no_audio_and_still_sees(seeing: Seeing) -> None:
    model = load(str(seeing("gemma4_audio")), "float32")
    assert model.vision is not None
    assert audio_disagreement(model, model.vision, PADDED) is None
    tower = model.vision.view.audio_tower
    model.vision.view.audio_tower = lambda features, mask: tower(features * 0, mask)
    check_media(model, PADDED)
    assert model.vision is not None and model.vision.audio_processor is None
    assert "another recording changes nothing" in model.notes[-1] and "not taken" in model.notes[-1]
