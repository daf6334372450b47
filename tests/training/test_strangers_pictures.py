"""Pictures are what their records say, and answers are read as a person would."""

from __future__ import annotations

import base64
import io
import random

import pytest
from PIL import Image

from training import strangers_pictures
from training.strangers_ask import Answer, without_pictures
from training.strangers_pictures import COLOURS, SHAPES, Figure, Picture


def shown(picture: Picture) -> Image.Image:
    data = base64.b64decode(picture.url(random.Random(0)).partition(",")[2])
    return Image.open(io.BytesIO(data)).convert("RGB")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [(64, 64), (96, 64), (256, 256)])
def test_a_shape_has_its_colour_where_it_is_and_the_ground_elsewhere(shape: str, size: tuple[int, int]) -> None:
    image = shown(Picture((Figure(shape, "red", 0.7, 0.6, 0.2),), "white", size))
    assert image.size == size
    inside = image.getpixel((int(0.7 * size[0]), int(0.6 * size[1])))
    outside = image.getpixel((2, 2))
    assert isinstance(inside, tuple) and isinstance(outside, tuple)
    assert all(abs(a - b) <= 14 for a, b in zip(inside, COLOURS["red"][0], strict=True))
    assert all(part > 230 for part in outside)


def test_figures_lie_inside_and_apart() -> None:
    rng = random.Random(5)
    for _ in range(40):
        figures = strangers_pictures.apart(rng, "white", 5)
        assert all(one.radius <= one.x <= 1 - one.radius for one in figures)
        pairs = [(a, b) for a in figures for b in figures if a is not b]
        assert all((a.x - b.x) ** 2 + (a.y - b.y) ** 2 > (a.radius + b.radius) ** 2 for a, b in pairs)


def test_synonyms_count_and_a_second_colour_does_not() -> None:
    verdict = strangers_pictures.tells("purple", "circle", ["white"])
    assert verdict(Answer("A violet disc on a white ground.")) == ""
    assert verdict(Answer("A violet or red disc.")) == "also says red"
    assert verdict(Answer("A violet square.")) == "does not say circle"


def test_counts_are_digits_or_words_and_one_number() -> None:
    verdict = strangers_pictures.counts(3)
    assert verdict(Answer("There are three circles.")) == "" and verdict(Answer("3")) == ""
    assert verdict(Answer("2 or 3")) and verdict(Answer("some"))


def test_a_place_is_right_when_all_that_is_said_of_it_is_true() -> None:
    verdict = strangers_pictures.placed(Figure("star", "red", 0.2, 0.8, 0.1))
    assert verdict(Answer("In the lower left corner.")) == "" and verdict(Answer("at the bottom")) == ""
    assert verdict(Answer("top left")) == "says top" and verdict(Answer("There."))


def test_of_two_figures_the_other_is_wrong() -> None:
    verdict = strangers_pictures.picks(Figure("star", "red", 0.2, 0.5, 0.1), Figure("circle", "blue", 0.8, 0.5, 0.1))
    assert verdict(Answer("the red one")) == "" and verdict(Answer("A star.")) == ""
    assert verdict(Answer("A red circle.")) and verdict(Answer("blue"))


@pytest.mark.parametrize(
    ("text", "said"),
    [("Yes.", "yes"), ("No, it is blue.", "no"), ("That is not right", "no"), ("Right, it is.", "yes"), ("Red.", "")],
)
def test_yes_and_no_are_read_from_the_first_clause(text: str, said: str) -> None:
    assert strangers_pictures.yes_or_no(text) == said


def test_every_task_is_asked_with_its_pictures_and_logged_without() -> None:
    questions = strangers_pictures.questions(44, 0, "pictures")
    assert {question.facts["task"] for question in questions} == set(strangers_pictures.TASKS)
    for question in questions:
        parts = question.body["messages"][0]["content"]
        pictures = [part for part in parts if part["type"] == "image_url"]
        assert len(pictures) == (2 if question.facts["task"] in ("two", "same") else 1)
        assert len(str(without_pictures(question.body))) < 1000
