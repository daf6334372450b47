"""Where the features of a picture's tiles are put: compared with numbers made here, row by row of the picture."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from paceline.models.loader import load
from tests.engine.stepper import loaded
from tests.models.test_vision import picture

Seeing = Callable[[str], Path]


def by_hand(vision: Any, image: Image.Image, rows: int, columns: int) -> np.ndarray[Any, Any]:
    """The whole picture small, then the rows of its tiles without padding, each with a newline behind."""
    text, inputs = vision.inputs(image)
    view, tiles = vision.view, mx.array(inputs["pixel_values"][0]).transpose(0, 2, 3, 1)
    *_, states = view.vision_tower(tiles, output_hidden_states=True)
    layers = view.config.vision_feature_layer
    chosen = mx.concatenate([states[layer] for layer in ([layers] if isinstance(layers, int) else layers)], axis=-1)
    if view.config.vision_feature_select_strategy == "default":
        chosen = chosen[:, 1:]
    features = np.array(view.multi_modal_projector(chosen))
    side = int(features.shape[1] ** 0.5)
    assert len(features) == 1 + rows * columns
    tiles_of = features[1:].reshape(rows, columns, side, side, -1)
    grid = np.concatenate([np.concatenate(list(row), axis=1) for row in tiles_of])
    scale = min(grid.shape[1] / image.width, grid.shape[0] / image.height)
    high, wide = int(image.height * scale + 1e-7), int(image.width * scale + 1e-7)
    top, left = (grid.shape[0] - high) // 2, (grid.shape[1] - wide) // 2
    cut = grid[top : grid.shape[0] - top, left : grid.shape[1] - left]
    newline = np.array(view.image_newline)
    found = [*features[0], *(each for row in cut for each in (*row, newline))]
    assert text.count("<image>") == len(found)
    return np.stack(found)


@pytest.mark.parametrize(
    ("size", "grid"), [((96, 64), (2, 2)), ((64, 128), (2, 1)), ((33, 50), (1, 1)), ((150, 40), (1, 2))]
)
@pytest.mark.parametrize("family", ["llava_next", "granite_vision"])
def test_features_are_in_the_order_of_the_picture(
    seeing: Seeing, family: str, size: tuple[int, int], grid: tuple[int, int]
) -> None:
    vision: Any = loaded(seeing(family)).vision
    image = picture(0).resize(size)
    found = np.array(vision.encode(vision.preprocess(image)))
    assert np.allclose(found, by_hand(vision, image, *grid), atol=1e-5)


@pytest.mark.parametrize("family", ["llava_next", "llava_onevision"])
def test_a_size_whose_features_mlx_vlm_counts_differently_is_read(seeing: Seeing, family: str) -> None:
    vision: Any = loaded(seeing(family)).vision
    odd = [(w, h) for w in range(40, 200) for h in range(40, 200) if vision._cut_short(w, h)]
    assert odd
    for size in odd[:3]:
        medium = vision.preprocess(Image.new("RGB", size))
        assert vision.encode(medium).shape[0] == medium.tokens


def test_granite_vision_is_known_by_its_name_on_hugging_face(seeing: Seeing, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(seeing("granite_vision"), tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "llava_next"}
    (folder / "config.json").write_text(json.dumps(config))
    model = load(str(folder), "float32")
    assert model.vision is not None and model.vision.tower.family == "granite_vision"
    expected: Any = loaded(seeing("granite_vision")).vision
    medium = model.vision.preprocess(picture(1))
    assert mx.array_equal(model.vision.encode(medium), expected.encode(expected.preprocess(picture(1))))


def test_what_arranges_tiles_in_llava_and_granite_vision_is_still_there() -> None:
    """`models/llava_vision` embeds LLaVA-NeXT with LLaVA-OneVision's class, and joins the tiles of several pictures."""
    from mlx_vlm.models import granite4_vision, llava_next, llava_onevision
    from mlx_vlm.models.llava_onevision.llava_onevision import image_size_to_num_patches
    from transformers.image_processing_utils import select_best_resolution

    for model in (llava_next.Model, llava_onevision.Model, granite4_vision.Model):
        parameters = list(inspect.signature(model.get_input_embeddings).parameters)
        assert parameters[:3] == ["self", "input_ids", "pixel_values"]
    joins: Any = granite4_vision.Model._pack_and_unpad_image_features
    assert len(inspect.signature(joins).parameters) == 4
    grids = [[336, 672], [672, 336], [672, 672]]
    assert image_size_to_num_patches([672, 336], grids, 336) == 3  # two tiles, and the whole picture
    assert tuple(select_best_resolution((600, 300), grids)) == (672, 336)
