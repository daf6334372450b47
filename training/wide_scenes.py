"""Pictures of one to five figures on any ground: plain, shaded, striped, framed; filled, edged, tinted; and what stands where."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from training import facts, pictures, wide_pictures
from training.data_chat import Chat, Picture
from training.pictures import PIXELS, SIZE
from training.wide_facts import capital
from training.wide_long import joined
from training.wide_pictures import COUNT, COUNTED, JUST_SHAPE, TONES, WHAT, _ask, _chat, _named, cover, put, squeezed
from training.wide_talk import lines

Colour = tuple[int, int, int]
# What a tone is called: one of the names of TONES, or such a name with a word before it.
MORE: dict[str, tuple[Colour, ...]] = {
    "dark red": ((165, 10, 15), (155, 20, 25)), "dark green": ((0, 100, 0), (10, 80, 30)), "light blue": ((173, 216, 230), (135, 206, 250), (120, 190, 255)),
    "light green": ((144, 238, 144), (150, 230, 140)), "dark blue": ((20, 35, 150), (25, 40, 140)), "dark gray": ((70, 70, 70), (85, 85, 85)),
    "light gray": ((200, 200, 200), (211, 211, 211)), "navy blue": ((0, 0, 128), (10, 15, 100)), "violet": ((238, 130, 238), (225, 125, 230)),
    "lime green": ((50, 205, 50), (130, 230, 20)), "light pink": ((255, 182, 193), (255, 200, 215)),
}  # fmt: skip
KNOWN = TONES | MORE
PLAIN = list(TONES)[:11]
RARE = [name for name in KNOWN if name not in PLAIN and name != "navy"]
ALSO = {
    "circle": "disc disk dot ball", "square": "box block", "diamond": "rhombus", "cross": "plus", "ring": "hoop donut", "bar": "stripe strip beam",
    "oval": "ellipse", "triangle": "triangle", "star": "star", "rectangle": "oblong", "crescent": "moon", "semicircle": "half-circle",
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    shape: str
    colour: str
    tone: Colour
    top: int
    left: int
    side: int

    @property
    def middle(self) -> tuple[float, float]:
        return self.top + self.side / 2, self.left + self.side / 2

    @property
    def named(self) -> str:
        return f"{self.colour} {self.shape}"


def _colour(rng: Random) -> str:
    return rng.choice(PLAIN) if rng.random() < 0.66 else rng.choice(RARE)


def _tone(colour: str, rng: Random) -> Colour:
    by = rng.choice((0, 0, 5, 10, 16))
    red, green, blue = (min(255, max(0, part + rng.randint(-by, by))) for part in rng.choice(KNOWN[colour]))
    return red, green, blue


def _far(one: Colour, other: Colour) -> bool:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) > 170


def ground(tones: list[Colour], rng: Random, size: tuple[int, int] = (PIXELS, PIXELS)) -> tuple[Picture, str]:
    """A ground that all tones stand out from, and its colour's name where it has one."""
    for _ in range(30):
        draw = rng.random()
        colour = (
            "white"
            if draw < 0.3
            else "black"
            if draw < 0.38
            else rng.choice(PLAIN)
            if draw < 0.7
            else rng.choice([*KNOWN])
        )
        tone = rng.choice(KNOWN[colour])
        if all(_far(tone, one) for one in tones):
            break
    else:
        colour, tone = max((("white", (255, 255, 255)), ("black", (0, 0, 0)), ("gray", (128, 128, 128))),
                           key=lambda pair: min(sum(abs(a - b) for a, b in zip(pair[1], one, strict=True)) for one in tones))  # fmt: skip
    return painted(tone, rng, size), colour


def painted(tone: Colour, rng: Random, size: tuple[int, int] = (PIXELS, PIXELS)) -> Picture:
    """One color all over, or nearly: shaded, with a pattern, grain or a frame."""
    height, width = size
    picture = np.broadcast_to(np.array(tone, np.float32), (height, width, 3)).copy()
    draw = rng.random()
    if draw < 0.15:  # shaded from one side to the other
        down, across = (np.linspace(-1, 1, pixels, dtype=np.float32) * rng.uniform(8, 34) for pixels in size)
        picture += down[:, None, None] if rng.random() < 0.5 else across[None, :, None]
    elif draw < 0.25:  # stripes, checks
        wide = rng.randint(2, 9)
        rows, columns = ((np.arange(pixels) // wide) % 2 for pixels in size)
        pattern = (
            rows[:, None] ^ columns[None]
            if rng.random() < 0.4
            else np.broadcast_to(rows[:, None] if rng.random() < 0.5 else columns[None], size)
        )
        picture += pattern[..., None] * rng.choice((-1, 1)) * rng.uniform(6, 22)
    elif draw < 0.4:
        picture += (
            np.random.default_rng(rng.getrandbits(32))
            .normal(0, rng.uniform(2, 11), (height, width, 1))
            .astype(np.float32)
        )
    if rng.random() < 0.12:  # a frame
        edge, by = rng.choice(((0, 0, 0), (90, 90, 90), (255, 255, 255))), rng.randint(1, 3)
        for part in (picture[:by], picture[-by:], picture[:, :by], picture[:, -by:]):
            part[:] = edge
    return np.clip(picture, 0, 255).round().astype(np.uint8)


def _grown(mask: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mask and its neighbors: what an edge around it covers."""
    padded = np.pad(mask, 1)
    found = padded.copy()
    for down, across in ((0, 1), (0, -1), (1, 0), (-1, 0)):
        found = np.maximum(found, np.roll(padded, (down, across), (0, 1)))
    return found


def _put(picture: Picture, one: Figure, by: tuple[float, float], rng: Random, edged: bool) -> None:
    mask = cover(one.shape, one.side, by, rng)
    top, left = one.top, one.left
    if edged and 0 < top < SIZE - one.side and 0 < left < SIZE - one.side:
        edge: Colour = (0, 0, 0) if sum(one.tone) > 150 else (255, 255, 255)
        put(picture, _grown(mask), edge, top - 1, left - 1)
    put(picture, mask, one.tone, top, left)


def scene(kinds: list[tuple[str, str]], rng: Random) -> tuple[Picture, list[Figure], str]:
    """(shape, color) each somewhere; the picture, the figures, and the ground's color."""
    count = len(kinds)
    most = {1: 62, 2: 34, 3: 28, 4: 23}.get(count, 20)
    while True:
        least = 9 if count > 2 else 10
        one = rng.randint(least, most)
        sides = [one if rng.random() < 0.5 else rng.randint(least, most) for _ in kinds]
        corners = wide_pictures.places(sides, rng)
        if corners is not None:
            break
        most = max(least, most - 2)
    tones: dict[str, Colour] = {}
    for _, colour in kinds:
        tones.setdefault(colour, _tone(colour, rng))
    figures = [
        Figure(shape, colour, tones[colour], top, left, side)
        for (shape, colour), side, (top, left) in zip(kinds, sides, corners, strict=True)
    ]
    picture, under = ground(list(tones.values()), rng)
    by, edged = squeezed(rng), rng.random() < 0.22
    for figure in figures:
        _put(picture, figure, by, rng, edged)
    return picture, figures, under


# -- questions

GROUND = lines("""what color is the background|which color is behind the {s}|on what color is it drawn|what is the color of the ground|the background is what color|background color|on which background is the {s}|what
colour is the backdrop|what color surrounds the {s}|what is behind the {s}|tell me the color of the background|which color fills the rest of the picture|name the background color""")
COLOUR = lines("""which color has the {s}|what's the {s}'s colour|can you tell me the color of the {s}|color?|colour?|which colour is it|what color do we have here|the color of it|tell me what color that is|how would you name its
color|what colour is that {s}|I am color blind, help me: what color is the {s}|what is its color|which of the colors is it|say which color you see|give the colour|what color is this|name its color|does the {s} have
a color, and which|my friend asks about the color of the {s}|what's the color of that {s}|which paint is on the {s}|in what colour is that {s}|color, please""")
SHAPE = lines("""and the shape|shape?|which form does it have|what do you call this shape|what is the figure|the name of this figure|tell me what shape that is|is it a {x} or a {y}|{x} or {y}|what would a geometry teacher call this|what
has been drawn|which figure is it|what kind of figure do you see|what shape do we have here|I see a shape, but which|is that a {x}, a {y} or something else|name this figure|what sort of figure is it|say its shape|the form of it|which of the shapes is it""")
WHICH = lines("""which figure is {c}|what is {c} in this picture|name the {c} figure|which of the shapes is {c}|what shape has the color {c}|what's the {c} one|the {c} one is a what|which thing is {c}|what shape is colored {c}|what did
they paint {c}|I mean the {c} one. What is it|the {c} figure has which shape|find the {c} figure and name it""")
ALL = lines("""what shapes are there|list the shapes|name everything in the picture|which figures do you see|what are the figures|list all figures with their colors|tell me all that is drawn|which things are there|describe every figure|
what all is in there|give me a list of what you see|enumerate the shapes|what is drawn, and in which colors""")
LEFT = lines(
    """what is to the {d} of the {s}|which figure is {d} of the {s}|what do you see {d} of the {s}|name the thing on the {d} of the {s}|{d} of the {s} there is what"""
)
SIDE = lines(
    """which is further {d}, the {s} or the {t}|what is on the {d}, the {s} or the {t}|which one is on the {d}|what is on the {d} side|which figure is the {d} one|the one on the {d} is what|what stands on the {d}"""
)
UP = lines(
    """which is higher, the {s} or the {t}|what is on top, the {s} or the {t}|which one is above the other|which figure is further up|what is above"""
)
DOWN = lines(
    """which is lower, the {s} or the {t}|what is at the bottom, the {s} or the {t}|which one is below the other|which figure is further down|what is below"""
)
IS = lines(
    """is the {s} {r} the {t}|would you say the {s} is {r} the {t}|the {s} is {r} the {t}, right|do you see the {s} {r} the {t}|can one say that the {s} is {r} the {t}"""
)
BIG = lines(
    """which is the {w} one|what is the {w} figure|which of them is {w}|which figure is the {w}|the {w} one is what|name the {w} shape"""
)
SAME = lines(
    """are they of the same color|do both have one color|is the color of the {s} and the {t} the same|same color or not|do the {s} and the {t} share a color"""
)
THERE = lines("""is something {c} in the picture|is anything {c}|do you see something {c}|any {c} in there|is there a {s}|do you see a {s}|is one of them a {s}|does a {s} appear|is it a {c} {s}|is that a {c} {s}|would you call it a {c} {s}|a {c}
{s} is what I see, right|am I looking at a {c} {s}""")


def _called(one: Figure, rng: Random) -> str:
    draw = rng.random()
    if draw < 0.12:
        return rng.choice(ALSO.get(one.shape, one.shape).split())
    return one.shape if draw < 0.75 else one.named


def _any(rng: Random) -> str:
    return rng.choice(("thing", "figure", "shape", "object", "one", "form", "drawing"))


COMMON = list(dict.fromkeys(wide_pictures.SHAPES))
# A circle of a few pixels looks like an octagon: what people draw more often comes more often.
WEIGHTS = [
    6 if one in ("circle", "square", "triangle") else 0.4 if one == "octagon" else 3 if one in pictures.SHAPES else 1.5
    for one in COMMON
]


def _shape(rng: Random) -> str:
    return rng.choices(COMMON, WEIGHTS)[0]


def single(rng: Random) -> Chat:
    shape, colour = _shape(rng), _colour(rng)
    count = rng.choice((1, 1, 1, 1, 1, 2, 3, 4, 5))
    shown, figures, under = scene([(shape, colour)] * count, rng)
    one, named, verb = figures[0], _named(shape, count), "is" if count == 1 else "are"
    it = f"It is {facts.an(shape)}." if count == 1 else f"They are {named}."
    asked = []
    for _ in range(rng.choice((1, 2, 3))):
        form = rng.choice(("what", "what", "colour", "colour", "colour", "shape", "shape", "ground", "there", "count"))
        if form == "what":
            asked.append((_ask(WHAT, rng), capital(f"{COUNTED[count]} {colour} {named}.")))
        elif form == "colour":
            asked.append(
                (
                    _ask(
                        COLOUR + wide_pictures.COLOUR, rng, s=rng.choice((_any(rng), _called(one, rng).split(" ")[-1]))
                    ),
                    f"The {named} {verb} {colour}.",
                )
            )
        elif form == "shape":
            pair = rng.sample(
                [shape, rng.choice([other for other in dict.fromkeys(wide_pictures.SHAPES) if other != shape])], 2
            )
            asked.append((_ask(rng.choice((SHAPE, SHAPE, JUST_SHAPE)), rng, x=pair[0], y=pair[1]), it))
        elif form == "ground":
            asked.append((_ask(GROUND, rng, s=rng.choice((_any(rng), shape))), f"The background is {under}."))
        elif form == "count":
            asked.append(
                (
                    _ask(COUNT, rng, w=rng.choice(("shapes", "figures", "objects", facts.plural(shape)))),
                    f"There {verb} {COUNTED[count]} {named}.",
                )
            )
        else:
            asked.append(_there(figures, rng))
    return _chat(shown, asked, rng)


def _there(figures: list[Figure], rng: Random) -> tuple[str, str]:
    one = rng.choice(figures)
    shape, colour = one.shape, one.colour
    if rng.random() < 0.5:
        shape, colour = rng.choice(((_shape(rng), colour), (shape, _colour(rng)), (_shape(rng), _colour(rng))))
    form = rng.choice(THERE)
    shapes, colours = {each.shape for each in figures}, {each.colour for each in figures}
    if "{c}" in form and "{s}" in form:
        right = any((each.shape, each.colour) == (shape, colour) for each in figures)
    else:
        right = colour in colours if "{c}" in form else shape in shapes
    seen = _seen(figures)
    return _ask([form], rng, c=colour, s=shape), f"Yes, I see {seen}." if right else f"No, I see {seen}."


def _seen(figures: list[Figure]) -> str:
    groups: dict[tuple[str, str], int] = {}
    for one in figures:
        groups[one.shape, one.colour] = groups.get((one.shape, one.colour), 0) + 1
    return joined([f"{COUNTED[count]} {colour} {_named(shape, count)}" for (shape, colour), count in groups.items()])


def several(rng: Random) -> Chat:
    """Different figures, and how they stand to each other."""
    shapes = list(dict.fromkeys(_shape(rng) for _ in range(rng.choice((3, 3, 4, 5, 6)))))[
        : rng.choice((2, 2, 2, 3, 3, 4))
    ]
    if len(shapes) < 2:
        return several(rng)
    shared = _colour(rng) if rng.random() < 0.12 else ""
    kinds = [(shape, shared or _colour(rng)) for shape in shapes]
    shown, figures, under = scene(kinds, rng)
    asked: list[tuple[str, str]] = []
    for _ in range(rng.choice((2, 3, 3, 4))):
        one, other = rng.sample(figures, 2)
        form = rng.choice(
            (
                "colour",
                "colour",
                "which",
                "all",
                "ground",
                "side",
                "side",
                "is",
                "big",
                "same",
                "there",
                "count",
                "what",
                "where",
            )
        )
        pair = _one_of(form, one, other, figures, under, rng)
        if pair is not None:
            asked.append(pair)
    return _chat(shown, asked or [_there(figures, rng)], rng)


def _one_of(
    form: str, one: Figure, other: Figure, figures: list[Figure], under: str, rng: Random
) -> tuple[str, str] | None:
    down, across = (a - b for a, b in zip(one.middle, other.middle, strict=True))
    two = len(figures) == 2
    if form == "colour":
        return _ask(
            wide_pictures.COLOUR[:17] + COLOUR[:3], rng, s=_called(one, rng).split(" ")[-1]
        ), f"The {one.shape} is {one.colour}."
    if form == "which":
        if sum(each.colour == one.colour for each in figures) > 1:
            return None
        return _ask(WHICH, rng, c=one.colour), f"It is {facts.an(one.shape)}."
    if form in ("all", "what"):
        return _ask(ALL if form == "all" else WHAT, rng), capital(_seen(figures)) + "."
    if form == "ground":
        return _ask(GROUND, rng, s=rng.choice(("shapes", "figures", one.shape))), f"The background is {under}."
    if form == "count":
        return _ask(
            COUNT, rng, w=rng.choice(("shapes", "figures", "objects", "things"))
        ), f"There are {COUNTED[len(figures)]} shapes."
    if form == "same" and two:
        answer = (
            f"Yes, both are {one.colour}."
            if one.colour == other.colour
            else f"No, the {one.shape} is {one.colour} and the {other.shape} is {other.colour}."
        )
        return _ask(SAME, rng, s=one.shape, t=other.shape), answer
    if form == "big":
        order = sorted(figures, key=lambda each: each.side)
        word, chosen, next_to = (
            ("biggest", order[-1], order[-2]) if rng.random() < 0.6 else ("smallest", order[0], order[1])
        )
        if abs(chosen.side - next_to.side) < 5:
            return None
        asked = {
            "biggest": ("biggest", "largest", "bigger" if two else "biggest"),
            "smallest": ("smallest", "tiniest", "smaller" if two else "smallest"),
        }[word]
        return _ask(BIG, rng, w=rng.choice(asked)), f"The {chosen.shape} is the {word}."
    if form == "where" or (form == "side" and not two):
        if max(abs(down), abs(across)) < 12:
            return None
        side = ("left" if across < 0 else "right") if abs(across) > abs(down) else "above" if down < 0 else "below"
        if side in ("left", "right") and two:
            return _ask(
                LEFT, rng, d=side, s=other.shape
            ), f"{capital(facts.an(one.named))} is to the {side} of the {other.shape}."
        return _is(one, other, side, rng)
    if form == "side":
        if abs(across) > 12 and (abs(across) > abs(down) or rng.random() < 0.3):
            side, chosen = (
                ("left", one if across < 0 else other)
                if rng.random() < 0.5
                else ("right", other if across < 0 else one)
            )
            return _ask(SIDE, rng, d=side, s=one.shape, t=other.shape), f"The {chosen.shape} is on the {side}."
        if abs(down) > 12:
            high, low = (one, other) if down < 0 else (other, one)
            up = rng.random() < 0.5
            return _ask(
                UP if up else DOWN, rng, s=one.shape, t=other.shape
            ), f"The {high.shape if up else low.shape} is {'above' if up else 'below'}."
        return None
    if form == "is" and max(abs(down), abs(across)) > 12:
        side = ("left" if across < 0 else "right") if abs(across) > abs(down) else "above" if down < 0 else "below"
        return _is(one, other, side, rng)
    return _there(figures, rng)


OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above"}
WORDS = {
    "left": ("left of", "to the left of", "on the left of"),
    "right": ("right of", "to the right of", "on the right of"),
    "above": ("above", "over", "higher than"),
    "below": ("below", "under", "lower than"),
}


def _is(one: Figure, other: Figure, side: str, rng: Random) -> tuple[str, str]:
    right = rng.random() < 0.5
    asked = side if right else OPPOSITE[side]
    return _ask(
        IS, rng, s=one.shape, t=other.shape, r=rng.choice(WORDS[asked])
    ), f"{'Yes' if right else 'No'}, the {one.shape} is {WORDS[side][0]} the {other.shape}."


AT = lines("""where is it|where in the picture is it|in which corner is it|which part of the picture has it|where is the {s}|where do I find the {s}|in what area is the {s}|position of the {s}|is it left, right, top or bottom|which
corner|where has it been put|where did I draw the {s}|at which spot is the {s}|tell me the place of the {s}""")


def place(rng: Random) -> Chat:
    """One figure clearly in one ninth of the picture, on any ground."""
    shape, colour, cell = _shape(rng), _colour(rng), rng.randrange(9)
    tone = _tone(colour, rng)
    side = rng.randint(9, 24)
    middle = [round((part + 0.5) * SIZE / 3) + rng.randint(-4, 4) for part in divmod(cell, 3)]
    top, left = (min(SIZE - side, max(0, at - side // 2)) for at in middle)
    one = Figure(shape, colour, tone, top, left, side)
    shown, under = ground([tone], rng)
    _put(shown, one, squeezed(rng), rng, rng.random() < 0.2)
    where = pictures.PLACES[cell]
    asked = [
        (
            _ask(rng.choice((AT, wide_pictures.WHERE)), rng, s=rng.choice((shape, one.named, _any(rng)))),
            f"The {shape} is in the {where}.",
        )
    ]
    draw = rng.random()
    if draw < 0.3:
        asked.append((_ask(COLOUR, rng, s=_any(rng)), f"The {shape} is {colour}."))
    elif draw < 0.5:
        asked.append((_ask(GROUND, rng, s=shape), f"The background is {under}."))
    rng.shuffle(asked)
    return _chat(shown, asked, rng)


def draw(rng: Random) -> Chat:
    form = rng.random()
    if form < 0.45:
        return single(rng)
    return several(rng) if form < 0.88 else place(rng)
