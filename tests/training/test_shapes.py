"""The files beside the shipped weights say what was trained."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paceline.models.files import EMBEDDED
from training import pictures
from training.shapes import SHAPES, generation, hugging_face, processors


def _shipped(name: str, file: str) -> Any:
    return json.loads((EMBEDDED / name / file).read_text())


@pytest.mark.parametrize("name", SHAPES)
def test_the_shipped_files_are_what_the_exporter_writes(name: str) -> None:
    ids = {token["content"]: token["id"] for token in _shipped(name, "tokenizer.json")["added_tokens"]}
    written = {"config.json": hugging_face(SHAPES[name], ids), "generation_config.json": generation(ids)}
    for file, content in (written | processors(SHAPES[name])).items():
        assert _shipped(name, file) == content, file


def test_pictures_come_to_the_size_that_was_trained() -> None:
    eye = SHAPES["paceline-mini"].eye
    assert eye is not None and eye.picture == pictures.PIXELS
    assert (eye.picture // eye.patch // eye.merge) ** 2 == pictures.TOKENS
    size = _shipped("paceline-mini", "preprocessor_config.json")["size"]
    assert size["shortest_edge"] < pictures.PIXELS**2 < size["longest_edge"]


@pytest.mark.parametrize(
    ("shown", "sides"),
    [
        ((64, 64), (3, 3)),
        ((100, 90), (3, 3)),
        ((90, 100), (3, 3)),
        ((31, 45), (3, 3)),
        ((1000, 1100), (3, 3)),
        ((640, 480), (4, 3)),
        ((1080, 1920), (2, 4)),
    ],
)
def test_a_nearly_square_picture_has_as_many_tokens_as_in_training(
    shown: tuple[int, int], sides: tuple[int, int]
) -> None:
    processors_of = pytest.importorskip("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    eye = SHAPES["paceline-mini"].eye
    assert eye is not None
    size = _shipped("paceline-mini", "preprocessor_config.json")["size"]
    least, most = size["shortest_edge"], size["longest_edge"]
    step = eye.patch * eye.merge
    found = processors_of.smart_resize(*shown, factor=step, min_pixels=least, max_pixels=most)
    assert found == tuple(step * side for side in sides)
