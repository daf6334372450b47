"""Pictures with no figure in them: one color, two halves, stripes. What color they are, what is on them, and that nothing else is."""

# ruff: noqa: E501  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from random import Random

import numpy as np

from training import wide_asked, wide_hues
from training.data_chat import Chat, Picture, Turn
from training.wide_facts import capital
from training.wide_long import system
from training.wide_pictures import WHAT, _ask, _named
from training.wide_scenes import KNOWN, _colour, _shape, _tone, painted
from training.wide_talk import lines
from training.wide_views import SQUARE, Size, _article

COLOUR = lines("""what color is this picture|what color is the picture|what color is this|which color is it|what colour is this image|what is the color of this picture|which color do you see|what color do you see here|name the color|tell me the color of the image|what color did I send|what colour fills the picture|the picture is what color|which color is shown|what
color is it all|what color is this photo|what color is that|color of this image|what is the color here|what shade is this|which color have I painted this with|I see one color here, which|what color is the whole image|what color does the image have|say which color this is|the color, please|what color is this square of paper|what color is my wall here|what color is
the sample|identify the color|what would you call this color""")
IS_IT = lines(
    """is this picture {c}|is it {c}|is this {c}|would you say this is {c}|is the image {c}|does this look {c}|is the whole picture {c}|{c}, yes or no|is the color {c}|did I send you something {c}|this is {c}, right|is that {c}|do you see {c}|is my picture {c}"""
)
THERE = lines(
    """is there {x} in it|do you see {x}|is there {x} in the picture|can you find {x}|does the picture show {x}|is {x} anywhere|any {x} here|is there anything in it, {x} maybe|where is {x}|does the image have {x} in it"""
)
COLOURS = lines(
    """which colors are in this picture|what colors do you see|what colors does it have|name the colors|which two colors are there|what are the colors of this picture|tell me the colors|which colors did I use|list the colors in the image|what colors is it made of|the colors, please|how is this picture colored|what color is this picture|what colors are shown"""
)
PART = lines(
    """what color is the {p}|which color does the {p} have|color of the {p}|what is the color of the {p}|tell me the color of the {p}|the {p} is what color|which color is on the {p}|and the {p}, what color is it|what color do you see on the {p}|name the color of the {p}"""
)
HALVES = {
    False: (("top half", "bottom half"), ("upper half", "lower half"), ("top", "bottom"), ("upper part", "lower part")),
    True: (("left half", "right half"), ("left side", "right side"), ("left", "right"), ("left part", "right part")),
}  # fmt: skip
Asked = list[tuple[str, str]]


def _plain(colour: str, size: Size, rng: Random) -> Picture:
    return painted(_tone(colour, rng), rng, size)


def _two(rng: Random) -> list[str]:
    """Colors that nobody would take for each other."""
    colour = rng.choice(list(KNOWN))
    return [colour, _far(colour, rng)]


def _far(colour: str, rng: Random) -> str:
    return rng.choice([name for name in KNOWN if not wide_hues.near(name, colour)])


def _figure(rng: Random, colour: str) -> str:
    figure = f"{_far(colour, rng)} {_named(_shape(rng), 1)}"
    return f"{_article(figure)} {figure}"


def plain(size: Size, rng: Random) -> tuple[Picture, Asked]:
    colour = _colour(rng)
    asked: Asked = []
    for sort in rng.sample(("colour", "colour", "what", "is", "not", "there"), rng.choice((1, 1, 2))):
        if sort == "colour":
            asked.append((_ask(COLOUR, rng), f"It is {colour}."))
        elif sort == "what":
            asked.append((_ask(WHAT, rng), f"A plain {colour} picture."))
        elif sort == "there":
            asked.append((_ask(THERE, rng, x=_figure(rng, colour)), f"No, the picture is plain {colour}."))
        elif sort == "is":
            asked.append((_ask(IS_IT, rng, c=colour), f"Yes, it is {colour}."))
        else:
            asked.append((_ask(IS_IT, rng, c=_far(colour, rng)), f"No, it is {colour}."))
    return _plain(colour, size, rng), asked


def halves(size: Size, rng: Random) -> tuple[Picture, Asked]:
    across = rng.random() < 0.5
    colours = _two(rng)
    picture, other = (_plain(colour, size, rng) for colour in colours)
    cut = int(size[across] * rng.uniform(0.4, 0.6))
    part = (slice(None), slice(cut, None)) if across else (slice(cut, None),)
    picture[part] = other[part]
    asked: Asked = []
    for sort in rng.sample(("part", "part", "colours", "what"), rng.choice((1, 2))):
        if sort == "part":
            names, at = rng.choice(HALVES[across]), rng.randrange(2)
            asked.append((_ask(PART, rng, p=names[at]), f"The {names[at]} is {colours[at]}."))
        else:
            places = ("on the left", "on the right") if across else ("at the top", "at the bottom")
            said = f"{colours[0]} {places[0]} and {colours[1]} {places[1]}"
            question = _ask(COLOURS if sort == "colours" else WHAT, rng)
            asked.append((question, f"It is {said}." if sort == "colours" else f"A picture that is {said}."))
    return picture, asked


def stripes(size: Size, rng: Random) -> tuple[Picture, Asked]:
    colours, across, checks = _two(rng), rng.random() < 0.5, rng.random() < 0.3
    picture, other = (_plain(colour, size, rng) for colour in colours)
    wide = rng.randint(8, 24)
    rows, columns = ((np.arange(pixels) // wide) % 2 == 1 for pixels in size)
    mask = rows[:, None] ^ columns[None] if checks else (columns[None] if across else rows[:, None])
    picture = np.where(np.broadcast_to(mask, size)[..., None], other, picture)
    pattern = "squares" if checks else "stripes"
    if rng.random() < 0.5:
        return picture, [(_ask(COLOURS, rng), f"It is {colours[0]} and {colours[1]}.")]
    return picture, [(_ask(WHAT, rng), f"{capital(pattern)} of {colours[0]} and {colours[1]}.")]


def draw(rng: Random, size: Size = SQUARE) -> Chat:
    picture, asked = rng.choices((plain, halves, stripes), (7, 3, 1))[0](size, rng)
    turns = list(wide_asked.draw(rng).turns) if rng.random() < 0.3 else []  # pictures come in the middle of a talk too
    for place, (question, answer) in enumerate(asked):
        turns += [Turn("user", question, pictures=[picture] if place == 0 else ()), Turn("assistant", answer)]
    return Chat(turns, "wide_empty", (), system(rng) if rng.random() < 0.15 else "")
