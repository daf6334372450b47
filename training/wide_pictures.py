"""Pictures with shapes of any size anywhere, in many tones of a color, words in two fonts; asked about in many ways."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from functools import cache, lru_cache
from random import Random

import numpy as np
from numpy.typing import NDArray

from training import facts, pictures
from training.data_chat import Chat, Picture, Turn
from training.pictures import PIXELS, SIZE, finer, pixels
from training.rough import rough
from training.sources import records
from training.wide_facts import capital, typed
from training.wide_long import joined, system
from training.wide_more import rushed
from training.wide_talk import lines

TONES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "red": ((255, 0, 0), (215, 35, 35), (220, 20, 60), (200, 0, 0), (230, 60, 50)),
    "blue": ((0, 0, 255), (40, 70, 215), (30, 144, 255), (65, 105, 225), (20, 60, 200)),
    "green": ((0, 128, 0), (0, 200, 0), (35, 150, 55), (34, 139, 34), (0, 255, 0), (60, 180, 75)),
    "yellow": ((255, 255, 0), (240, 215, 40), (255, 225, 25), (250, 230, 60)),
    "orange": ((255, 165, 0), (245, 135, 25), (255, 140, 0), (255, 120, 0)),
    "purple": ((128, 0, 128), (130, 45, 160), (145, 30, 180), (106, 13, 173)),
    "pink": ((255, 192, 203), (245, 140, 190), (255, 105, 180), (255, 150, 200)),
    "brown": ((165, 42, 42), (120, 75, 35), (139, 69, 19), (101, 67, 33)),
    "black": ((0, 0, 0), (20, 20, 20), (10, 10, 10)), "gray": ((128, 128, 128), (125, 125, 125), (105, 105, 105), (150, 150, 150)),
    "white": ((255, 255, 255), (245, 245, 245)), "cyan": ((0, 255, 255), (0, 220, 230)), "magenta": ((255, 0, 255), (235, 20, 230)),
    "teal": ((0, 128, 128), (10, 120, 115)), "navy": ((0, 0, 128), (10, 15, 100)), "maroon": ((128, 0, 0), (110, 10, 25)),
    "olive": ((128, 128, 0), (110, 115, 20)), "beige": ((245, 245, 220), (225, 205, 165)), "turquoise": ((64, 224, 208), (50, 200, 190)),
}  # fmt: skip
BASIC = list(TONES)[:11]
LONG = ("oval", "rectangle", "bar", "line")  # told from their neighbors by their proportions
MORE = (
    "oval",
    "rectangle",
    "heart",
    "pentagon",
    "hexagon",
    "octagon",
    "arrow",
    "crescent",
    "trapezoid",
    "semicircle",
    "line",
)
SHAPES = (*pictures.SHAPES, *pictures.SHAPES, *MORE)
COUNTED = facts.NUMBERS
Colour = tuple[int, int, int]


@lru_cache(20_000)
def alpha(shape: str, side: int, height: int = 0, width: int = 0, line: int = 0, turn: int = 0) -> NDArray[np.float32]:
    """How much of each pixel a shape covers: its edges are soft. `line` is an outline's width in 64ths, `turn` in degrees."""
    side, height, width = (pixels(units) for units in (side, height or side, width or side))
    size = side * 4
    fine = _turned(_mask(shape, size), turn) if turn else _mask(shape, size)
    if line:
        fine = fine & ~_eroded(fine, max(2, size * line // 64))
    rows, columns = (np.arange(n * 4) * side // n for n in (height, width))
    return fine[rows][:, columns].reshape(height, 4, width, 4).mean((1, 3)).astype(np.float32)


def _turned(mask: NDArray[np.bool_], degrees: int) -> NDArray[np.bool_]:
    x, y = pictures._grid(len(mask))
    angle = np.deg2rad(degrees)
    places = [np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x]
    column, row = (((place + 1) / 2 * len(mask)).astype(int) for place in places)
    inside = (column >= 0) & (column < len(mask)) & (row >= 0) & (row < len(mask))
    return np.where(inside, mask[row.clip(0, len(mask) - 1), column.clip(0, len(mask) - 1)], False)


def _eroded(mask: NDArray[np.bool_], by: int) -> NDArray[np.bool_]:
    padded = np.pad(mask, by)
    size, slant = len(mask), round(by * 0.7)
    moves = ((by, 0), (-by, 0), (0, by), (0, -by), (slant, slant), (slant, -slant), (-slant, slant), (-slant, -slant))
    return np.logical_and.reduce([padded[by + dy : by + dy + size, by + dx : by + dx + size] for dy, dx in moves])


def _mask(shape: str, size: int) -> NDArray[np.bool_]:
    x, y = pictures._grid(size)
    if shape == "oval":
        return x * x + (y / 0.6) ** 2 <= 0.95
    if shape == "rectangle":
        return (abs(x) <= 0.95) & (abs(y) <= 0.58)
    if shape == "line":
        return (abs(x) <= 0.98) & (abs(y) <= 0.09)
    if shape == "heart":
        u, v = x * 1.15, -y * 1.15 + 0.1
        return (u * u + v * v - 0.8) ** 3 - u * u * v**3 * 1.3 <= 0
    if shape == "arrow":
        return ((x <= 0.25) & (x >= -0.95) & (abs(y) <= 0.26)) | ((x > 0.1) & (abs(y) <= (0.97 - x) * 0.85))
    if shape == "crescent":
        return (x * x + y * y <= 0.95) & ((x - 0.45) ** 2 + y * y > 0.62)
    if shape == "trapezoid":
        return (abs(y) <= 0.65) & (abs(x) <= 0.7 + y * 0.38)
    if shape == "semicircle":
        return (x * x + (y - 0.5) ** 2 <= 0.95) & (y <= 0.5)
    if shape in ("pentagon", "hexagon", "octagon"):
        part = 2 * np.pi / {"pentagon": 5, "hexagon": 6, "octagon": 8}[shape]
        angle = np.arctan2(x, -y)
        return np.hypot(x, y) * np.cos((angle + part / 2) % part - part / 2) <= np.cos(part / 2) * 0.97
    return pictures.mask(shape, size)


def cover(shape: str, side: int, squeezed: tuple[float, float], rng: Random) -> NDArray[np.float32]:
    """The shape as somebody drew it: filled mostly, or an outline; upright, or turned a little."""
    line = 0
    if shape not in ("ring", "bar", "line", "crescent") and side > 15 and rng.random() < 0.22:
        line = rng.choice((3, 4, 6, 8, 11))
    turn = 0
    if shape in ("triangle", "star", "arrow", "heart", "crescent", "semicircle") and rng.random() < 0.3:
        turn = rng.choice((90, 180, 270, -15, 15, -10, 10))
    elif shape in LONG and rng.random() < 0.4:
        turn = 90
    elif shape in ("square", "cross", "pentagon", "hexagon") and rng.random() < 0.15:
        turn = rng.choice((-8, -5, 5, 8))
    height, width = (side, side) if shape in LONG else (max(6, round(side * by)) for by in squeezed)
    return alpha(shape, side, height, width, line, turn)


def squeezed(rng: Random) -> tuple[float, float]:
    """What is left of height and width: a picture of up to three by two is brought to a square."""
    narrow = 1.0 if rng.random() < 0.6 else rng.choice((0.67, 0.75, 0.75, 0.8, 0.9))
    return (narrow, 1.0) if rng.random() < 0.3 else (1.0, narrow)


def _tone(colour: str, rng: Random) -> Colour:
    by = rng.choice((0, 6, 12, 20))
    red, green, blue = (min(255, max(0, part + rng.randint(-by, by))) for part in rng.choice(TONES[colour]))
    return red, green, blue


def _ground(tones: list[Colour], rng: Random) -> Colour:
    """White, black, gray or a pale or dark color that everything stands out from."""
    for _ in range(40):
        draw = rng.random()
        if draw < 0.4:
            ground = (255, 255, 255) if rng.random() < 0.7 else (245, 245, 245)
        elif draw < 0.5:
            ground = (0, 0, 0)
        elif draw < 0.8:
            ground = (rng.randint(180, 255), rng.randint(180, 255), rng.randint(180, 255))
        else:
            ground = (rng.randint(0, 70), rng.randint(0, 70), rng.randint(0, 70))
        if all(sum(abs(a - b) for a, b in zip(ground, tone, strict=True)) > 190 for tone in tones):
            return ground
    return max(((255, 255, 255), (0, 0, 0), (128, 128, 128)),
               key=lambda ground: min(sum(abs(a - b) for a, b in zip(ground, tone, strict=True)) for tone in tones))  # fmt: skip


def blank(ground: Colour) -> Picture:
    return np.broadcast_to(np.array(ground, np.uint8), (PIXELS, PIXELS, 3)).copy()


def put(picture: Picture, cover: NDArray[np.float32], tone: Colour, top: int, left: int) -> None:
    height, width = cover.shape
    top, left = min(pixels(top), PIXELS - height), min(pixels(left), PIXELS - width)
    under = picture[top : top + height, left : left + width].astype(np.float32)
    mixed = under + (np.array(tone, np.float32) - under) * cover[..., None]
    picture[top : top + height, left : left + width] = mixed.round().astype(np.uint8)


def places(sides: list[int], rng: Random, high: int = SIZE, wide: int = SIZE) -> list[tuple[int, int]] | None:
    """Corners of squares that do not touch, anywhere; None where they do not fit by chance."""
    found: list[tuple[int, int, int]] = []
    for side in sides:
        for _ in range(60):
            top, left = rng.randint(0, high - side), rng.randint(0, wide - side)
            if all(top + side < t or t + s < top or left + side < x or x + s < left for t, x, s in found):
                found.append((top, left, side))
                break
        else:
            return None
    return [(top, left) for top, left, _ in found]


def scene(things: list[tuple[str, str]], rng: Random) -> tuple[Picture, list[tuple[int, int, int]]]:
    """(shape, color) each somewhere; the picture, and (top, left, side) of each."""
    count = len(things)
    most = {1: 58, 2: 30, 3: 26, 4: 22, 5: 19, 6: 17}.get(count, 14)
    tones = {colour: _tone(colour, rng) for _, colour in things}
    while True:
        least = 11 if count < 7 else 9
        one = rng.randint(least, most)
        sides = [one if rng.random() < 0.6 else rng.randint(least, most) for _ in things]
        corners = places(sides, rng)
        if corners is not None:
            break
        most = max(least, most - 1)
    picture = blank(_ground(list(tones.values()), rng))
    by = squeezed(rng)
    for (shape, colour), side, (top, left) in zip(things, sides, corners, strict=True):
        put(picture, cover(shape, side, by, rng), tones[colour], top, left)
    return picture, [(top, left, side) for side, (top, left) in zip(sides, corners, strict=True)]


# -- questions

WHAT = lines("""what is in the picture|what do you see|describe the picture|what is this|what does the image show|describe this image|tell me
what you see|what is shown here|what can be seen|what's in this image|what is depicted|give me a caption|caption this|look at the image and
describe it|what is drawn|explain the picture|what am I looking at|summarize the image|what's that|what does this look like|what objects are
there|what appears in the picture|say what the picture contains|picture?|what is visible here|what have I drawn|can you tell what this is|
please look at this|what is on display|identify what is in the photo|what do you notice|write an alt text|alt text please|I need an alt text for this image|describe it
for a blind person|describe this in a few words|one line about this picture|what would you call this|name what is shown|label this image|a title for this picture|how would you describe
this|what did I just send you|your description, please|what is it|so what is it|what does my drawing show|put the picture into words|what's here|a short description please|say
what it is|what might this be|tell a friend what the picture shows|image description|what kind of thing is this|any idea what this is|what can you make out""")
COUNT = lines("""how many {w} are there|how many {w} do you see|count the {w}|number of {w}|how many {w} are in the picture|what is the number of
{w}|how many {w} can you find|tell me how many {w} there are|give the count of {w}|how many {w}|how many {w} does the image contain|I need the
number of {w}|what's the total of {w}|can you count the {w}|how many {w} appear here|how many {w} have I drawn|in this image, how many {w} are
shown|please count how many {w} are visible""")
COLOUR = lines("""what color is the {s}|which color is the {s}|what colour is the {s}|what is the color of the {s}|the {s} is what color|tell me
the color of the {s}|name the color of the {s}|which color does the {s} have|color of the {s}|in what color is the {s} drawn|how is the {s}
colored|what hue is the {s}|say the {s}'s color|what color do you see on the {s}|the color of the {s}, please|what is the {s}'s color|what color was
used for the {s}|colour of the {s}|what colour did they paint the {s}|which colour do you see|what color|in which colour is the {s}|give me the color of the {s}|what paint did I
use for the {s}|is the {s} red, blue or what|what color would you call the {s}|what tone has the {s}|which crayon was used for the {s}|describe the color of the {s}""")
SHAPE = lines("""what shape is it|which shape is this|what shape do you see|name the shape|what is the shape called|which figure is shown|what kind
of shape is that|what form is it|tell me the shape|what geometric figure is this|is it a circle or something else|the shape is a|identify the
shape|what sort of shape is drawn|which geometric shape is in the picture|what is the {c} thing|what is the {c} shape|what shape is {c}|what shape
does the {c} thing have|which shape is drawn in {c}|what did I draw in {c}|what is {c} here|what is the {c} one|the {c} object is what|which figure is {c}""")
JUST_SHAPE = lines("""what shape|which geometric form do you see|what figure did I draw|call the shape by its name|how many corners aside, what shape is it|shape of this thing|what is this shape|what's the shape|
give me the name of the shape|what outline do you see|is it round or square or what|what is the form of the object|which shape did I pick|geometry quiz: what is this""")
THERE = lines("""is there a {c} {s}|do you see a {c} {s}|is a {c} {s} in the picture|does the image contain a {c} {s}|can you see a {c} {s}|is
this a {c} {s}|any {c} {s}|is there any {c} {s} here|a {c} {s}, yes or no|does it show a {c} {s}|would you say there is a {c} {s}|have I drawn a {c}
{s}|true or false: there is a {c} {s}""")
WHERE = lines("""where is the {s}|in which part of the picture is the {s}|where do you see the {s}|what is the position of the {s}|tell me where the
{s} is|where in the image is the {s}|find the {s}|locate the {s}|on which side is the {s}|the {s} is where|at what place is the {s}|whereabouts is
the {s}|which corner or side has the {s}|point me to the {s}""")
READ = lines("""what does it say|read the word|which word is written here|what is written in the picture|read the text|tell me the word in the
image|what text do you see|what is the text|what does the sign say|read this to me|which letters do you see|what word is this|transcribe the image|
what's written|spell out what is written|OCR this|the text, please|what do the letters say|can you read it|extract the text""")
LARGER = lines("""which is larger, the {a} or the {b}|which is bigger, the {a} or the {b}|is the {a} or the {b} larger|what is bigger: the {a} or
the {b}|which shape is the largest|which one is bigger|which shape is bigger|compare the sizes: which is larger""")


def _ask(texts: list[str], rng: Random, **words: str) -> str:
    text = rng.choice(texts).format(**words)
    draw = rng.random()
    if draw < 0.2:
        text = rough(text, rng)
    elif draw < 0.26:
        text = f"{rng.choice(('hi,', 'please,', 'ok,', 'so,', 'tell me,', 'look:', 'in this picture,'))} {text}"
    text = text if rng.random() < 0.3 else capital(text)
    if text[-1] not in "?.!":
        text += rng.choice(("?", "?", "?", "", ".", "??"))
    if rng.random() < 0.06:
        text += rng.choice((" Answer in one sentence.", " Be brief.", " Answer in a few words.", " Thanks."))
    return typed(text, rng, tuple(words.values())) if rng.random() < 0.6 else rushed(text, rng)


def said(shape: str, colour: str, count: int) -> str:
    return f"{COUNTED[count]} {colour} {_named(shape, count)}"


def _named(shape: str, count: int) -> str:
    return shape if count == 1 else facts.plural(shape)


def _chat(shown: Picture, asked: list[tuple[str, str]], rng: Random) -> Chat:
    turns = []
    for place, (question, answer) in enumerate(asked):
        turns += [Turn("user", question, pictures=[shown] if place == 0 else ()), Turn("assistant", answer)]
    return Chat(turns, "wide_picture", (), system(rng) if rng.random() < 0.15 else "", expect=None)


def _colour(rng: Random) -> str:
    return rng.choice(BASIC) if rng.random() < 0.72 else rng.choice(list(TONES))


def one_group(rng: Random) -> Chat:
    shape, colour, count = rng.choice(SHAPES), _colour(rng), rng.choice((1, 1, 1, 2, 3, 4, 5, 6))
    shown, _ = scene([(shape, colour)] * count, rng)
    verb, named = ("is" if count == 1 else "are"), _named(shape, count)
    asked = []
    for _ in range(rng.choice((1, 2, 3))):
        form = rng.choice(("what", "what", "what", "count", "colour", "colour", "shape", "shape", "there"))
        if form == "what":
            asked.append((_ask(WHAT, rng), capital(said(shape, colour, count)) + "."))
        elif form == "count":
            words = rng.choice(("shapes", "things", "objects", facts.plural(shape), f"{colour} {facts.plural(shape)}"))
            asked.append((_ask(COUNT, rng, w=words), f"There {verb} {COUNTED[count]} {named}."))
        elif form == "colour":
            words = rng.choice((named, "shape", "thing", "object", "figure"))
            asked.append((_ask(COLOUR, rng, s=words), f"The {named} {verb} {colour}."))
        elif form == "shape":
            asked.append(
                (
                    _ask(SHAPE if rng.random() < 0.6 else JUST_SHAPE, rng, c=colour),
                    f"It is {facts.an(shape)}." if count == 1 else f"They are {named}.",
                )
            )
        else:
            asked.append(_there([(shape, colour, count)], rng))
    return _chat(shown, asked, rng)


def _there(groups: list[tuple[str, str, int]], rng: Random) -> tuple[str, str]:
    shape, colour, _ = rng.choice(groups)
    if rng.random() < 0.5:
        if rng.random() < 0.5:
            shape = rng.choice(pictures.SHAPES)
        else:
            colour = rng.choice(BASIC)
    right = any((shape, colour) == (one, tone) for one, tone, _ in groups)
    seen = joined([said(*group) for group in groups])
    verb = "is" if groups[0][2] == 1 else "are"
    return _ask(THERE, rng, s=shape, c=colour), f"Yes, there {verb} {seen}." if right else f"No, I see {seen}."


def several(rng: Random) -> Chat:
    """Two or three kinds of shapes, each in its color."""
    shapes = rng.sample(list(dict.fromkeys(SHAPES)), rng.choice((2, 2, 3)))
    colours = [_colour(rng) for _ in shapes]
    counts = [rng.choice((1, 1, 1, 2, 3)) for _ in shapes]
    if sum(counts) > 7:
        counts = [1] * len(shapes)
    groups = list(zip(shapes, colours, counts, strict=True))
    things = [(shape, colour) for shape, colour, count in groups for _ in range(count)]
    order = list(range(len(things)))
    rng.shuffle(order)
    shown, where = scene([things[at] for at in order], rng)
    asked = []
    for _ in range(rng.choice((1, 2, 3))):
        shape, colour, count = rng.choice(groups)
        named, verb = _named(shape, count), "is" if count == 1 else "are"
        form = rng.choice(("colour", "colour", "count", "total", "there", "shape", "larger"))
        if form == "colour":
            asked.append((_ask(COLOUR, rng, s=named), f"The {named} {verb} {colour}."))
        elif form == "count":
            asked.append((_ask(COUNT, rng, w=facts.plural(shape)), f"There {verb} {COUNTED[count]} {named}."))
        elif form == "total":
            words = rng.choice(("shapes", "things", "objects", "figures"))
            asked.append((_ask(COUNT, rng, w=words), f"There are {COUNTED[len(things)]} shapes."))
        elif form == "shape" and colours.count(colour) == 1:
            answer = f"It is {facts.an(shape)}." if count == 1 else f"They are {named}."
            asked.append((_ask(SHAPE[-10:], rng, c=colour), answer))
        elif form == "larger" and len(things) == 2:
            sizes = {things[order[at]][0]: where[at][2] for at in range(2)}
            (a, b), most = shapes, max(shapes, key=lambda one: sizes[one])
            if abs(sizes[a] - sizes[b]) >= 5:
                asked.append((_ask(LARGER, rng, a=a, b=b), f"The {most} is larger."))
        else:
            asked.append(_there(groups, rng))
    return _chat(shown, asked or [_there(groups, rng)], rng)


def position(rng: Random) -> Chat:
    """One to three different things, clearly in one ninth of the picture."""
    kinds = rng.sample(pictures.SHAPES, rng.randint(1, 3))
    cells = rng.sample(range(9), len(kinds))
    colours = [_colour(rng) for _ in kinds]
    tones = [_tone(colour, rng) for colour in colours]
    shown, by = blank(_ground(tones, rng)), squeezed(rng)
    for shape, cell, tone in zip(kinds, cells, tones, strict=True):
        side = rng.randint(11, 20)
        middle = [round((part + 0.5) * SIZE / 3) + rng.randint(-4, 4) for part in divmod(cell, 3)]
        top, left = (min(SIZE - side, max(0, at - side // 2)) for at in middle)
        put(shown, cover(shape, side, by, rng), tone, top, left)
    asked = []
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(kinds))
        where = pictures.PLACES[cells[at]]
        if rng.random() < 0.7:
            words = rng.choice((kinds[at], f"{colours[at]} {kinds[at]}"))
            asked.append((_ask(WHERE, rng, s=words), f"The {kinds[at]} is in the {where}."))
        else:
            form = rng.choice(
                ("what is in the {}", "what do you see in the {}", "which shape is in the {}", "what's at the {}")
            )
            asked.append((_ask([form.format(where)], rng), capital(facts.an(f"{colours[at]} {kinds[at]}")) + "."))
    return _chat(shown, asked, rng)


@cache
def _glyphs() -> dict[str, NDArray[np.uint8]]:
    path = records() / "glyphs.npz"
    if not path.exists():
        return {}
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def _lettering(text: str, rng: Random) -> NDArray[np.float32]:
    """The word's cover, in our font at some scale, or in an ordinary one."""
    sizes = [size for size in (14, 18, 22, 26) if f"{ord('A')}-{size}" in _glyphs()]
    if sizes and rng.random() < 0.5:
        rng.shuffle(sizes)
        for size in sizes:
            letters = [_glyphs()[f"{ord(letter)}-{size}"] for letter in text]
            row = np.concatenate(letters, 1).astype(np.float32) / 255
            if row.shape[1] <= SIZE and row.shape[0] <= SIZE:
                return row
    letters = [np.pad(pictures.FONT[letter], ((0, 0), (0, 1))) for letter in text.upper()]
    dots = np.concatenate(letters, axis=1)[:, :-1]
    scale = rng.randint(1 if rng.random() < 0.15 else 2, max(2, min(5, SIZE // dots.shape[1])))
    while dots.shape[1] * scale > SIZE:
        scale -= 1
    return dots.repeat(scale, 0).repeat(scale, 1).astype(np.float32)


def word(rng: Random) -> Chat:
    colour, draw = _colour(rng), rng.random()
    text = rng.choice(pictures.WORDS) if draw < 0.6 else str(rng.randint(0, 9999))
    if draw > 0.85:
        text = "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=rng.randint(1, 4)))
    tone = _tone(colour, rng)
    shown = blank(_ground([tone], rng))
    cover = _lettering(text, rng)
    top, left = (rng.randint(0, SIZE - units) for units in cover.shape)
    put(shown, finer(cover), tone, top, left)
    asked = [(_ask(READ, rng), f"It says {text}.")]
    if rng.random() < 0.4:
        named = rng.choice(("text", "word", "lettering", "writing"))
        asked.insert(rng.randint(0, 1), (_ask(COLOUR, rng, s=named), f"The text is {colour}."))
    return _chat(shown, asked, rng)


def draw(rng: Random) -> Chat:
    form = rng.random()
    if form < 0.5:
        return one_group(rng)
    return several(rng) if form < 0.75 else position(rng) if form < 0.87 else word(rng)
