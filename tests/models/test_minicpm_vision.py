"""MiniCPM-V's pictures have numbers in a prompt (tests/models/test_families compares whole prompts and answers)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from paceline.errors import InvalidRequest
from paceline.models.minicpm_vision import MiniCPMVision
from tests.engine.stepper import loaded
from tests.models.test_vision import picture

Seeing = Callable[[str], Path]


@pytest.fixture(scope="module")
def vision(seeing: Seeing) -> MiniCPMVision:
    found = loaded(seeing("minicpmv4_6")).vision
    assert isinstance(found, MiniCPMVision)
    return found


def test_a_picture_has_the_number_of_its_place(vision: MiniCPMVision) -> None:
    medium = vision.preprocess(picture(4))
    media = vision.numbered([medium] * 12)
    for number, each in enumerate(media):
        label = vision.token_ids(f"<image_id>{number}</image_id>")
        assert list(each.token_ids[: len(label)]) == label
        assert (each.digest, each.tokens, each.inputs) == (medium.digest, medium.tokens, medium.inputs)
    assert len({each.token_ids for each in media}) == 12


def test_features_do_not_depend_on_the_number(vision: MiniCPMVision) -> None:
    first, *_, last = vision.numbered([vision.preprocess(picture(4))] * 12)
    assert len(first.token_ids) < len(last.token_ids)
    assert mx.array_equal(vision.encode(first), vision.encode(last))


def test_a_large_picture_is_shown_whole_and_in_slices(vision: MiniCPMVision) -> None:
    small, large = (vision.preprocess(Image.new("RGB", size)) for size in ((56, 56), (220, 220)))
    slices = [medium.token_ids.count(vision.tokenizer.convert_tokens_to_ids("<slice>")) for medium in (small, large)]
    assert slices == [0, 4]
    assert vision.encode(large).shape[0] == large.tokens > small.tokens


def test_a_processor_that_fails_is_the_clients_fault(vision: MiniCPMVision, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(**given: object) -> None:
        raise ValueError("too small for patch packing")

    monkeypatch.setattr(vision, "processor", failing)
    with pytest.raises(InvalidRequest, match="too small"):
        vision.preprocess(Image.fromarray(np.zeros((1, 1, 3), np.uint8)))


def test_the_memory_of_a_steep_picture_is_foreseen(vision: MiniCPMVision) -> None:
    for size in ((1000, 10), (10, 1000), (2000, 20), (333, 222), (1, 150)):
        assert vision.preprocess(Image.new("RGB", size)).cost <= vision.input_bytes(size[0] * size[1]), size
