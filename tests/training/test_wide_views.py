"""Pictures of any proportions: as many tokens as the server makes of them, and what is said of them is so."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest

from training import pictures, wide_views
from training.facts import NUMBERS
from training.shapes import Eye

SIZES = (wide_views.SQUARE, *wide_views.FRAMES.values())


@pytest.mark.parametrize("size", SIZES)
def test_figures_lie_inside_and_stand_out(size: tuple[int, int]) -> None:
    rng = Random(3)
    for count in range(1, 9):
        shown, figures, _ = wide_views.view([("square", "red")] * count, size, rng)
        assert shown.shape == (*size, 3) and pictures.enlarged(shown) is shown
        assert pictures.tokens_of(shown) == size[0] * size[1] // 1024
        assert len(figures) == count
        for one in figures:
            assert 0 <= one.top <= size[0] / 1.5 - one.side + 1 and 0 <= one.left <= size[1] / 1.5 - one.side + 1


def test_answers_count_what_was_drawn(data: Path) -> None:
    rng = Random(5)
    for _ in range(60):
        chat = wide_views.counted((96, 128), rng)
        for question, answer in zip(chat.turns[::2], chat.turns[1::2], strict=True):
            assert question.role == "user" and answer.role == "assistant"
            found = re.fullmatch(r"There (is|are) ([a-z]+) .*\.", answer.text)
            if found and not answer.text.startswith("There are more"):
                assert (NUMBERS.index(found[2]) == 1) == (found[1] == "is")


def test_a_picture_that_is_not_square_has_the_grid_of_its_sides() -> None:
    torch = pytest.importorskip("torch")
    from training.model import positions_of

    tokens = torch.tensor([[5, *[9] * 8, 6]])
    found = positions_of(tokens, 9, 2, 4)[:, 0].tolist()
    assert found[0] == [0, *[1] * 8, 5]
    assert found[1] == [0, 1, 1, 1, 1, 2, 2, 2, 2, 5]
    assert found[2] == [0, 1, 2, 3, 4, 1, 2, 3, 4, 5]


def test_the_tower_spreads_its_positions_over_a_picture_that_is_not_square() -> None:
    torch = pytest.importorskip("torch")
    from training import vision

    torch.manual_seed(0)
    tower = vision.Visual(Eye(depth=1, hidden=32, intermediate=32, heads=2), 16)
    shown = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 64, 128, 3), dtype=np.uint8))
    found = tower(shown, torch.float32)
    assert found.shape == (1, 8, 16)
    places = tower._places(4, 8)
    corners = tower.pos_embed.weight.reshape(4, 4, -1)
    assert torch.allclose(places[0], corners[0, 0], atol=1e-6) and torch.allclose(places[-1], corners[3, 3], atol=1e-6)
    assert torch.allclose(places[13], corners[0, 3], atol=1e-6)  # the first row's last, in the order of merged squares
