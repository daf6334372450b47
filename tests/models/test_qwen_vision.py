"""Qwen's part of the protocol: patches and positions in numpy, videos as pairs of frames (more in test_vision.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from paceline.models.qwen_vision import QwenVision
from tests.engine.stepper import loaded
from tests.models.test_vision import picture

Seeing = Callable[[str], Path]
QWEN = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"]


def vision(folder: Path) -> QwenVision:
    found = loaded(folder).vision
    assert isinstance(found, QwenVision)
    return found


@pytest.mark.parametrize("family", QWEN)
def test_a_picture_has_a_token_for_every_four_patches(seeing: Seeing, family: str) -> None:
    made = vision(seeing(family)).preprocess(picture(0))
    time, height, width = made.inputs["image_grid_thw"][0].tolist()
    assert made.inputs["pixel_values"].shape[0] == time * height * width == 4 * made.tokens
    assert made.token_ids == (made.token_id,) * made.tokens
    assert made.cost <= vision(seeing(family)).input_bytes(picture(0).width * picture(0).height)


SIZES = [(1, 1), (2, 1), (1, 190), (3, 400), (1000, 20), (300, 45), (100, 19000), (197, 199), (2048, 2048)]


@pytest.mark.parametrize("family", QWEN)
@pytest.mark.parametrize("size", SIZES)
def test_the_memory_of_a_picture_of_any_shape_is_foreseen(seeing: Seeing, family: str, size: tuple[int, int]) -> None:
    ours = vision(seeing(family))
    assert ours.preprocess(Image.new("RGB", size)).cost <= ours.input_bytes(size[0] * size[1])


@pytest.mark.parametrize("family", QWEN)
def test_positions_are_mlx_vlms(seeing: Seeing, family: str) -> None:
    ours = vision(seeing(family))
    text = f"One {ours.placeholder} two {ours.placeholder} three"
    reference = ours.reference([picture(0), picture(3)], text, 0)
    media = tuple(ours.preprocess(picture(place)) for place in (0, 3))
    position_ids, delta = ours.positions(reference.token_ids, media)
    if reference.positions is not None:
        assert np.array_equal(position_ids, reference.positions)
    assert delta == position_ids.max() + 1 - len(reference.token_ids)


def test_a_pair_of_frames_is_a_medium_of_its_own(hybrid: Path) -> None:
    ours = vision(hybrid)
    assert ours.video_processor is not None
    frames = np.random.default_rng(0).integers(0, 256, (5, 64, 96, 3), dtype=np.uint8)
    pairs = ours.video_processor.pairs(frames)
    assert [pair.kind for pair in pairs] == ["video"] * 3  # the last frame is repeated
    assert len({pair.digest for pair in pairs}) == 3
