"""Pictures with no figure in them: what is said of their colors is what they show."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tokenizers import Tokenizer

from training import wide_empty, wide_hues, wide_views
from training.data import Encoder
from training.data_chat import Picture, segments
from training.wide_scenes import KNOWN

SIZES = (wide_views.SQUARE, *wide_views.FRAMES.values())


def nearest(picture: Picture) -> set[str]:
    """The names of the colors that this part's middle has."""
    high, wide = picture.shape[:2]
    middle = picture[high // 4 : -(high // 4), wide // 4 : -(wide // 4)].reshape(-1, 3).mean(0)
    far = {name: min(np.abs(middle - tone).sum() for tone in tones) for name, tones in KNOWN.items()}
    return {name for name, distance in far.items() if distance <= min(far.values()) + 75}


@pytest.mark.parametrize("size", SIZES)
def test_pictures_have_their_size_and_one_mark_each(size: tuple[int, int], data: Path, words: Tokenizer) -> None:
    rng, later = Random(1), 0
    chats = [wide_empty.draw(rng, size) for _ in range(60)]
    for chat in chats:
        assert [picture.shape for picture in chat.pictures] == [(*size, 3)]
        assert chat.pictures[0].dtype == np.uint8 and segments(chat)
        later += not chat.turns[0].pictures
    assert 5 < later < 40, "some come in the middle of a talk"
    encoder = Encoder(words)
    assert [len(one.places) for one in encoder.documents([(chat, None) for chat in chats])] == [1] * 60


def test_a_plain_picture_is_of_the_color_that_is_said() -> None:
    rng = Random(2)
    for _ in range(300):
        picture, asked = wide_empty.plain(wide_views.SQUARE, rng)
        for question, answer in asked:
            said = re.fullmatch(
                r"(?:(Yes|No), )?(?:it is|the picture is plain|an? plain) ([\w ]+?)(?: picture)?\.", answer, re.I
            )
            assert said is not None, (question, answer)
            assert any(said[2] == name or wide_hues.near(said[2], name) for name in nearest(picture)), (
                answer,
                nearest(picture),
            )


def test_halves_are_told_by_their_places() -> None:
    rng = Random(3)
    for _ in range(300):
        picture, asked = wide_empty.halves(wide_views.SQUARE, rng)
        quarter = picture.shape[0] // 3
        first, last = slice(None, quarter), slice(-quarter, None)
        parts = {"top": picture[first], "upper": picture[first], "bottom": picture[last], "lower": picture[last]}
        parts |= {"left": picture[:, first], "right": picture[:, last]}
        for _, answer in asked:
            told = re.findall(r"The (\w+)(?: \w+)? is ([\w ]+)\.", answer) or [
                (place, colour) for colour, place in re.findall(r"(?:is|and) ([\w ]+?) (?:on the|at the) (\w+)", answer)
            ]
            assert told, answer
            for place, colour in told:
                shown = nearest(parts[place])
                assert any(colour == name or wide_hues.near(colour, name) for name in shown), (answer, place, shown)


def test_the_two_colors_of_a_picture_are_never_near_each_other() -> None:
    rng = Random(4)
    for _ in range(200):
        assert not wide_hues.near(*wide_empty._two(rng))
        picture, [(_, answer)] = wide_empty.stripes(wide_views.SQUARE, rng)
        assert " and " in answer and picture.shape == (96, 96, 3)
