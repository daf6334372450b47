"""Pictures of any proportions with up to eight figures, anywhere or in rows: counted, looked for, compared.

The server keeps a picture's proportions within its budget of pixels, so the model sees three by three tokens of 32 pixels, or three
by four, four by three, two by four, four by two: each stage of `data` has one of them.
"""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from training import facts, wide_scenes
from training.data_chat import Chat, Picture, Turn
from training.pictures import pixels
from training.wide_facts import capital
from training.wide_long import system
from training.wide_pictures import COUNT, COUNTED, WHAT, _ask, _named, cover, places
from training.wide_scenes import (
    ALL,
    COLOUR,
    GROUND,
    OPPOSITE,
    WHICH,
    WORDS,
    Colour,
    Figure,
    _colour,
    _grown,
    _seen,
    _shape,
    _tone,
    ground,
)
from training.wide_talk import lines

Size = tuple[int, int]  # height and width, in pixels
SQUARE: Size = (96, 96)
FRAMES: dict[str, Size] = {
    "pics_wide": (96, 128),
    "pics_tall": (128, 96),
    "pics_flat": (64, 128),
    "pics_slim": (128, 64),
}
Kinds = list[tuple[str, str]]


def _squeezed(size: Size, rng: Random) -> tuple[float, float]:
    """What is left of height and width: proportions between those of the frames are brought to the nearest."""
    if rng.random() < 0.45:
        return 1.0, 1.0
    part = rng.choice((0.75, 0.8, 0.85, 0.9, 0.95))
    if size in ((64, 128), (128, 64)):  # three by two becomes two by one
        return (part, 1.0) if size[1] > size[0] else (1.0, part)
    return (part, 1.0) if rng.random() < 0.5 else (1.0, part)


def _in_cells(
    count: int, rows: int, columns: int, high: int, wide: int, rng: Random
) -> tuple[list[int], list[tuple[int, int]]]:
    """In some of the cells of a table: sides, and corners a little off the cells' middles."""
    cell_high, cell_wide = high // rows, wide // columns
    most = max(7, min(cell_high, cell_wide) - 2)
    side = rng.randint(max(7, most * 6 // 10), most)
    cells = list(range(rows * columns))
    chosen = sorted(rng.sample(cells, count)) if rng.random() < 0.5 else cells[:count]
    rng.shuffle(chosen)
    corners = []
    for cell in chosen:
        row, column = divmod(cell, columns)
        slack = (max(0, cell_high - side - 1), max(0, cell_wide - side - 1))
        by = [rng.randint(part // 3, part - part // 3) for part in slack]
        corners.append((min(high - side, row * cell_high + by[0]), min(wide - side, column * cell_wide + by[1])))
    return [side] * count, corners


def view(kinds: Kinds, size: Size, rng: Random) -> tuple[Picture, list[Figure], str]:
    """(shape, color) each somewhere; the picture, the figures, and the ground's color."""
    count = len(kinds)
    high, wide = (int(part / 1.5) for part in size)
    short = min(high, wide)
    draw = rng.random()
    if count > 1 and draw < 0.4:
        rows, columns = rng.choice(
            [
                (r, c)
                for r in range(1, 4)
                for c in range(1, 7)
                if r * c >= count and high // r >= 10 and wide // c >= 10 and (r * c < count + 4)
            ]
            or [(0, 0)]
        )
    else:
        rows = columns = 0
    corners: list[tuple[int, int]] | None
    if rows:
        sides, corners = _in_cells(count, rows, columns, high, wide, rng)
    else:
        most = int(short * {1: 0.95, 2: 0.55, 3: 0.44, 4: 0.36, 5: 0.32, 6: 0.29, 7: 0.26}.get(count, 0.24))
        while True:
            least = min(most, 9)
            one = rng.randint(least, most)
            sides = [one if rng.random() < 0.55 else rng.randint(least, most) for _ in kinds]
            corners = places(sides, rng, high, wide)
            if corners is not None:
                break
            most = max(7, most - 1)
    tones: dict[str, Colour] = {}
    for _, colour in kinds:
        tones.setdefault(colour, _tone(colour, rng))
    figures = [
        Figure(shape, colour, tones[colour], top, left, side)
        for (shape, colour), side, (top, left) in zip(kinds, sides, corners, strict=True)
    ]
    picture, under = ground(list(tones.values()), rng, size)
    by, edged = _squeezed(size, rng), rng.random() < 0.18
    for figure in figures:
        _put(picture, figure, by, edged, rng)
    return picture, figures, under


def _put(picture: Picture, one: Figure, by: tuple[float, float], edged: bool, rng: Random) -> None:
    mask = cover(one.shape, one.side, by, rng)
    top, left = pixels(one.top), pixels(one.left)
    if edged:
        _mix(picture, _grown(mask), (0, 0, 0) if sum(one.tone) > 150 else (255, 255, 255), top - 1, left - 1)
    _mix(picture, mask, one.tone, top, left)


def _mix(picture: Picture, mask: NDArray[np.float32], tone: Colour, top: int, left: int) -> None:
    height, width = mask.shape
    top, left = (
        max(0, min(at, most - part))
        for at, most, part in zip((top, left), picture.shape, (height, width), strict=False)
    )
    under = picture[top : top + height, left : left + width].astype(np.float32)
    mask = mask[: under.shape[0], : under.shape[1]]
    mixed = under + (np.array(tone, np.float32) - under) * mask[..., None]
    picture[top : top + height, left : left + width] = mixed.round().astype(np.uint8)


# -- one picture

IS_THERE = lines("""is there a {x}|is there any {x}|do you see a {x}|can you see a {x}|is a {x} in the picture|does the picture have a {x}|is a {x} among them|could one of them be a {x}|one of these is a {x}, right|does a {x} appear anywhere|any {x} here|I am
looking for a {x}, is it there|is one of the figures a {x}|has somebody drawn a {x}|did I draw a {x}|would I find a {x} here|there is a {x}, yes or no|would you say that there is a {x}|check whether there is a {x}|a {x}, is that in there|can a {x} be seen|does
this show a {x}|is any of them a {x}|tell me if there is a {x}|is a {x} shown|do these include a {x}|am I right that there is a {x}""")
HUES = lines(
    "is anything {c}|is something {c}|do you see anything {c}|is one of them {c}|any {c} figure|is there a {c} figure|is there a {c} shape|does anything have the color {c}|is {c} among the colors|was {c} used|did I use {c}|are any of the shapes {c}|is a {c} thing in there"
)
WHICH_SIDE = lines("""which figure is furthest {d}|what is on the far {d}|which one is the {d}most|what stands at the {d} end|name the shape on the {d}|which shape is furthest to the {d}|the {d}most one is what|what do you see on the {d}|what is the {d}most figure|who is furthest
{d}|on the {d}, what is there|which of them stands on the {d}|tell me what is on the {d} side""")
WHICH_UP = lines(
    """which figure is {d}|which shape is the {d}|what is the {d} one|the {d} figure is what|which of them is {d}|name the {d} shape|tell me which is {d}|what do you see as the {d} figure|which one is drawn {d}"""
)
HOW = lines(
    """how is the {s} to the {t}, {d} or {e}|is the {s} {d} or {e} the {t}|{d} or {e} the {t}: where is the {s}|where is the {s}, {d} or {e} the {t}|does the {s} stand {d} or {e} the {t}"""
)
IS_SIDE = lines("""is the {s} {r} the {t}|do we see the {s} {r} the {t}|the {s} is {r} the {t}, true or not|is it true that the {s} is {r} the {t}|does the {s} stand {r} the {t}|the {s} lies {r} the {t}, yes or no|would it be right to say the {s} is {r} the {t}|can you confirm that the
{s} is {r} the {t}""")
MORE = lines(
    """are there more {a} or {b}|which are there more of, {a} or {b}|what is there more of: {a} or {b}|more {a} or more {b}|do the {a} or the {b} win in number|which group is larger, the {a} or the {b}"""
)


def _article(text: str) -> str:
    return facts.an(text).split(" ")[0]


def _there(figures: list[Figure], rng: Random) -> tuple[str, str]:
    """Yes or no; what is not there is made of what is."""
    shapes, colours = [one.shape for one in figures], [one.colour for one in figures]
    here = {(one.shape, one.colour) for one in figures}
    seen = _seen(figures)
    form, right = rng.random(), rng.random() < 0.5
    if form < 0.22:
        colour = rng.choice(colours) if right else _colour(rng)
        right = colour in colours
        return _ask(HUES, rng, c=colour), f"{'Yes' if right else 'No'}, I see {seen}."
    if form < 0.5:
        shape = rng.choice(shapes) if right else _shape(rng)
        right = shape in shapes
        wanted = shape
    else:
        shape, colour = rng.choice(list(here))
        if not right:
            shape, colour = rng.choice(
                (
                    (rng.choice(shapes), rng.choice(colours)),
                    (shape, _colour(rng)),
                    (_shape(rng), colour),
                    (rng.choice(shapes), rng.choice(colours)),
                )
            )
        right = (shape, colour) in here
        wanted = f"{colour} {shape}"
    asked = _ask([one.replace("a {x}", "{a} {x}") for one in IS_THERE], rng, x=wanted, a=_article(wanted))
    return asked, f"{'Yes' if right else 'No'}, I see {seen}."


def _side(figures: list[Figure], rng: Random) -> tuple[str, str] | None:
    """Which is furthest to a side, where that is clear."""
    axis, side = rng.choice(((1, "left"), (1, "right"), (0, "top"), (0, "bottom")))
    order = sorted(figures, key=lambda one: one.middle[axis], reverse=side in ("right", "bottom"))
    if (
        abs(order[0].middle[axis] - order[1].middle[axis]) < 7
        or [one.shape for one in figures].count(order[0].shape) > 1
    ):
        return None
    if axis == 1:
        return _ask(WHICH_SIDE, rng, d=side), f"The {order[0].shape} is on the {side}."
    if side == "top":
        return _ask(WHICH_UP, rng, d=rng.choice(("highest", "uppermost", "at the top", "the topmost"))).replace(
            "the the", "the"
        ), f"The {order[0].shape} is at the top."
    return _ask(WHICH_UP, rng, d=rng.choice(("lowest", "at the bottom", "the bottommost"))).replace(
        "the the", "the"
    ), f"The {order[0].shape} is at the bottom."


def _relation(figures: list[Figure], rng: Random) -> tuple[str, str] | None:
    one, other = rng.sample(figures, 2)
    shapes = [each.shape for each in figures]
    if shapes.count(one.shape) > 1 or shapes.count(other.shape) > 1:
        return None
    down, across = (a - b for a, b in zip(one.middle, other.middle, strict=True))
    if max(abs(down), abs(across)) < 9 or min(abs(down), abs(across)) > 0.75 * max(abs(down), abs(across)):
        return None
    side = ("left" if across < 0 else "right") if abs(across) > abs(down) else "above" if down < 0 else "below"
    names = [rng.choice((each.shape, each.shape, each.named)) for each in (one, other)]
    answer = f"the {one.shape} is {WORDS[side][0]} the {other.shape}."
    if rng.random() < 0.25:
        pair = rng.sample((WORDS[side][0], WORDS[OPPOSITE[side]][0]), 2)
        return _ask(HOW, rng, s=names[0], t=names[1], d=pair[0], e=pair[1]), capital(answer)
    right = rng.random() < 0.5
    asked = side if right else OPPOSITE[side]
    return _ask(
        IS_SIDE, rng, s=names[0], t=names[1], r=rng.choice(WORDS[asked])
    ), f"{'Yes' if right else 'No'}, {answer}"


def counted(size: Size, rng: Random) -> Chat:
    """One to eight figures, of one kind or of two or three."""
    count = rng.choices(range(1, 9), (1, 1.5, 2.5, 4, 4, 4, 4, 2))[0]
    kinds = [(_shape(rng), _colour(rng)) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    things = [rng.choice(kinds) for _ in range(count)]
    if rng.random() < 0.12:
        things = [(_shape(rng), _colour(rng)) for _ in range(count)]
    shown, figures, under = view(things, size, rng)
    asked = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        draw = rng.random()
        shape, colour = rng.choice(things)
        verb, word = ("is", "shape") if count == 1 else ("are", "shapes")
        if draw < 0.5:
            asked.append(
                (
                    _ask(COUNT, rng, w=rng.choice(("shapes", "figures", "objects", "things", "shapes in all"))),
                    f"There {verb} {COUNTED[count]} {word}.",
                )
            )
        elif draw < 0.66:
            n = sum(each[0] == shape for each in things)
            asked.append(
                (
                    _ask(COUNT, rng, w=facts.plural(shape)),
                    f"There {'is' if n == 1 else 'are'} {COUNTED[n]} {_named(shape, n)}.",
                )
            )
        elif draw < 0.82:
            n = sum(each[1] == colour for each in things)
            asked.append(
                (
                    _ask(
                        COUNT,
                        rng,
                        w=rng.choice((f"{colour} shapes", f"{colour} figures", f"{colour} things", f"{colour} ones")),
                    ),
                    f"There {'is' if n == 1 else 'are'} {COUNTED[n]} {colour} {'shape' if n == 1 else 'shapes'}.",
                )
            )
        elif draw < 0.92:
            asked.append(_more(things, rng) or _there(figures, rng))
        else:
            asked.append(_there(figures, rng))
    return _chat([shown], asked, rng)


def _more(things: Kinds, rng: Random) -> tuple[str, str] | None:
    shapes = list(dict.fromkeys(shape for shape, _ in things))
    if len(shapes) < 2:
        return None
    one, other = rng.sample(shapes, 2)
    counts = [sum(each[0] == shape for each in things) for shape in (one, other)]
    if counts[0] == counts[1]:
        return None
    most = facts.plural(one if counts[0] > counts[1] else other)
    return _ask(MORE, rng, a=facts.plural(one), b=facts.plural(other)), f"There are more {most}."


def looked(size: Size, rng: Random) -> Chat:
    """Two to five different figures: is it there, which is where, what color has it."""
    shapes = list(dict.fromkeys(_shape(rng) for _ in range(7)))[: rng.choice((2, 2, 3, 3, 4, 5))]
    kinds = [(shape, _colour(rng)) for shape in shapes]
    shown, figures, under = view(kinds, size, rng)
    asked = []
    for _ in range(rng.choice((1, 2, 3, 4))):
        draw, one = rng.random(), rng.choice(figures)
        pair: tuple[str, str] | None
        if draw < 0.36:
            pair = _there(figures, rng)
        elif draw < 0.55 and len(figures) > 1:
            pair = _side(figures, rng)
        elif draw < 0.72 and len(figures) > 1:
            pair = _relation(figures, rng)
        elif draw < 0.82:
            pair = (_ask(COLOUR[:3], rng, s=one.shape), f"The {one.shape} is {one.colour}.")
        elif draw < 0.88 and [each.colour for each in figures].count(one.colour) == 1:
            pair = (_ask(WHICH, rng, c=one.colour), f"It is {facts.an(one.shape)}.")
        elif draw < 0.94:
            pair = (_ask(rng.choice((ALL, WHAT)), rng), capital(_seen(figures)) + ".")
        else:
            pair = (_ask(GROUND, rng, s=one.shape), f"The background is {under}.")
        if pair:
            asked.append(pair)
    return _chat([shown], asked or [_there(figures, rng)], rng)


def _chat(shown: list[Picture], asked: list[tuple[str, str]], rng: Random) -> Chat:
    turns = []
    for place, (question, answer) in enumerate(asked):
        turns += [Turn("user", question, pictures=shown if place == 0 else ()), Turn("assistant", answer)]
    return Chat(turns, "wide_view", (), system(rng) if rng.random() < 0.15 else "", expect=None)


def draw(rng: Random, size: Size = SQUARE) -> Chat:
    form = rng.random()
    if form < 0.13:
        return _chat(*single(size, rng), rng)
    return counted(size, rng) if form < 0.45 else looked(size, rng)


def single(size: Size, rng: Random) -> tuple[list[Picture], list[tuple[str, str]]]:
    """One figure: what, which color, which shape."""
    shape, colour = _shape(rng), _colour(rng)
    shown, figures, under = view([(shape, colour)], size, rng)
    asked = [
        (_ask(WHAT, rng), capital(f"{facts.an(f'{colour} {shape}')}.")),
        (_ask(COLOUR, rng, s=rng.choice((shape, "figure", "thing"))), f"The {shape} is {colour}."),
        (_ask(wide_scenes.SHAPE[:6], rng), f"It is {facts.an(shape)}."),
        _there(figures, rng),
    ]
    return [shown], rng.sample(asked, rng.randint(1, 3))
