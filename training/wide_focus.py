"""Two pictures in one prompt and a question about one of them; four to eight figures of one shape in several colors; other words for colors.

The pictures stand before the text, behind it or around it. What is asked is answered for the one picture, and nothing is compared.
"""

# ruff: noqa: E501  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np

from training import facts, wide_hues
from training.data_chat import PICTURE, Chat, Picture, Turn
from training.wide_facts import capital
from training.wide_long import joined, system
from training.wide_pairs import _other
from training.wide_pictures import COUNTED, _ask, _named
from training.wide_scenes import _colour, _shape
from training.wide_talk import lines
from training.wide_views import SQUARE, Kinds, Size, _article, view

ORDER = ("first", "second", "third")
REFERRED = lines(
    """the {o} picture|the {o} image|the {o} one|picture {n}|image {n}|picture {w}|image number {n}|the {t} picture|the {t} image|number {n}|the {o} photo|the {o} drawing|the {o} of these|the {o} of the pictures|drawing {n}|the {o}|image {w}|photo {n}|picture no. {n}|the {t} one"""
)
LAST = lines("the last picture|the last one|the last image|the one I sent last|the final picture")
OF_TWO = (lines("the former|the earlier one|the one that comes first|the one I sent first"), lines("the latter|the later one|the other one after it|the one that comes second"))  # fmt: skip
WHAT = lines("""what is in {r}|what does {r} show|describe {r}|tell me what is in {r}|what do you see in {r}|{r}: what is it|only {r}: what is there|look at {r} only, what is it|forget the rest, what is in {r}|I only care about {r}, describe it|{r}, please|name what {r} shows|what can be seen in {r}|shape and color of {r}|what is drawn in
{r}|what about {r}|give me a caption for {r}|an alt text for {r}|say what {r} is|my question is about {r}: what does it show|which shape in which color is in {r}|what did I draw in {r}|just {r}: shape and color|color and shape in {r}|what is {r}|and {r}, what is that|never mind the others, what does {r} contain|what thing is shown in {r}|a few words about {r}|what appears in {r}|from
these pictures take {r} and describe it""")
COLOUR = lines("""what color is the {s} in {r}|which color does the {s} in {r} have|color of the {s} in {r}|{r}: what color is the {s}|the {s} in {r} is what color|what colour is it in {r}|name only the color of the {s} in {r}|which color did I use for the {s} in {r}|tell me the color of the {s} in {r}|in {r}, what color is the {s}|in which
color is the {s} of {r} drawn|what is the {s}'s color in {r}|look at {r}: the color, please|only the color of the {s} in {r}|what color do you see in {r}, I mean the {s}|the color in {r}|what color has the {s} in {r}""")
SHAPE = lines("""what shape is in {r}|which shape does {r} show|what shape do you see in {r}|name the shape in {r}|{r}: which shape|shape in {r}|only the shape of {r}|which figure is in {r}|what form does the figure in {r} have|tell me the shape in {r}|in {r}, what is the shape|what kind of shape is drawn in {r}|which geometric figure is in {r}|the shape in
{r} is what|no colors please, just the shape in {r}|what figure did I draw in {r}|is it round or square or what, in {r}""")
COUNT = lines(
    """how many {w} are in {r}|how many {w} does {r} have|count the {w} in {r}|number of {w} in {r}|{r}: how many {w}|how many {w} do you see in {r}|in {r}, how many {w} are there|tell me how many {w} {r} shows|only {r}: count the {w}|what is the number of {w} in {r}|how many {w} did I draw in {r}|I need the count of {w} in {r}"""
)
GROUND = lines(
    """what is the background of {r}|which color is the background in {r}|background color of {r}|{r}: what color is the background|on what color is it drawn in {r}|what is behind the figure in {r}|tell me the background color of {r}|in {r}, what color lies behind the figure|the ground of {r} is what color|what color is the paper in {r}"""
)
IS_IT = lines(
    """is there {x} in {r}|does {r} show {x}|do you see {x} in {r}|is {x} in {r}|{r}: is it {x}|in {r}, is there {x}|does {r} have {x}|is {r} a picture of {x}|{x} in {r}, yes or no|can you find {x} in {r}|check {r}: is there {x}|tell me if {r} shows {x}"""
)
HUE_IN = lines(
    """is the {s} in {r} {c}|is it {c} in {r}|{r}: is the {s} {c}|in {r}, is the {s} {c}|would you call the {s} in {r} {c}|the {s} in {r} is {c}, right|does the {s} in {r} look {c}"""
)
AND_OTHER = lines(
    """and {r}|what about {r}|and now {r}|the same for {r}|how about {r}|and in {r}|now for {r}|{r} too|ok, and {r}|then {r}"""
)
LABELS = lines(
    """First picture: |Picture 1: |1: |A first one |Image 1:\n|Here is the first: |(1) |Number one: """.replace(
        "\\n", "\n"
    )
)
LABELED = lines(
    """Second picture: |Picture 2: |2: |and a second one |Image 2:\n|and here is the second: |(2) |Number two: """.replace(
        "\\n", "\n"
    )
)


@dataclass(frozen=True)
class Shown:
    """A picture of one group of figures, or of two figures."""

    kinds: Kinds
    ground: str

    @property
    def one(self) -> bool:
        return len(set(self.kinds)) == 1

    @property
    def seen(self) -> str:
        if self.one:
            shape, colour = self.kinds[0]
            count = len(self.kinds)
            return facts.an(f"{colour} {shape}") if count == 1 else f"{COUNTED[count]} {colour} {facts.plural(shape)}"
        return joined([facts.an(f"{colour} {shape}") for shape, colour in self.kinds])


def referred(at: int, count: int, rng: Random) -> str:
    """What a picture is called by its place."""
    draw = rng.random()
    if at == count - 1 and draw < 0.12:
        return rng.choice(LAST)
    if count == 2 and draw < 0.2:
        return rng.choice(OF_TWO[at])
    return rng.choice(REFERRED).format(o=ORDER[at], n=at + 1, w=COUNTED[at + 1], t=("1st", "2nd", "3rd")[at])


def _softer(picture: Picture) -> Picture:
    """As one that was half as large: the server makes small pictures larger."""
    height, width = picture.shape[:2]
    small = picture.reshape(height // 2, 2, width // 2, 2, 3).mean((1, 3)).round().astype(np.uint8)
    softer: Picture = small.repeat(2, 0).repeat(2, 1)
    return softer


def _drawn(size: Size, rng: Random) -> tuple[Picture, Shown]:
    shape, colour = _shape(rng), _colour(rng)
    if rng.random() < 0.16:
        kinds = [(shape, colour), (_other(shape, _shape, rng), _colour(rng))]
    else:
        kinds = [(shape, colour)] * rng.choices((1, 2, 3, 4, 5, 6, 7), (60, 8, 9, 8, 6, 5, 4))[0]
    picture, _, under = view(kinds, size, rng)
    if len(kinds) == 1 and rng.random() < 0.15:
        picture = _softer(picture)
    return picture, Shown(kinds, under)


SORTS = {"what": 26, "colour": 22, "shape": 20, "count": 16, "ground": 6, "there": 6, "hue": 4}


def answer(sort: str, one: Shown, place: str, rng: Random) -> tuple[str, str]:
    """A question about one picture, and its answer."""
    (shape, colour), count = one.kinds[0], len(one.kinds)
    many = count > 1
    thing = rng.choice(("shapes", "figures") if many else (shape, "figure", "shape", "thing"))
    if sort == "count" or not one.one and sort in ("colour", "shape", "hue"):
        if one.one and rng.random() < 0.5:
            word, named = facts.plural(shape), _named(shape, count)
        else:
            word, named = rng.choice(("shapes", "figures", "things", "objects")), "shapes" if many else "shape"
        return _ask(COUNT, rng, r=place, w=word), f"There {'are' if many else 'is'} {COUNTED[count]} {named}."
    if sort == "what":
        return _ask(WHAT, rng, r=place), capital(one.seen) + "."
    if sort == "colour":
        said = f"The {facts.plural(shape)} are {colour}." if many else f"The {shape} is {colour}."
        texts = (
            [text for text in COLOUR if "{s} in {r} is" not in text and "is the {s}" not in text] if many else COLOUR
        )
        return _ask(texts, rng, r=place, s=thing), said
    if sort == "shape":
        return _ask(SHAPE, rng, r=place), f"They are {facts.plural(shape)}." if many else f"It is {facts.an(shape)}."
    if sort == "ground":
        return _ask(GROUND, rng, r=place), f"The background is {one.ground}."
    right = rng.random() < 0.5
    if sort == "hue" and not many:
        word = (wide_hues.other_word if right else wide_hues.wrong_word)(colour, rng)
        return _ask(HUE_IN, rng, r=place, s=thing, c=word), f"{'Yes' if right else 'No'}, the {shape} is {colour}."
    wanted = (
        (shape, colour)
        if right
        else rng.choice(((_other(shape, _shape, rng), colour), (shape, _other(colour, _colour, rng))))
    )
    right = wanted in one.kinds
    name = f"{wanted[1]} {wanted[0]}"
    return _ask(IS_IT, rng, r=place, x=f"{_article(name)} {name}"), f"{'Yes' if right else 'No'}, I see {one.seen}."


def _placed(question: str, count: int, rng: Random) -> str:
    """The question with its pictures before it, behind it or around it."""
    question = question.replace("In this picture, ", "").replace("in this picture, ", "")
    draw = rng.random() if count > 1 else rng.random() * 0.72
    if draw < 0.5:
        return PICTURE * count + rng.choice(("", "", "", "\n", " ")) + question
    if draw < 0.72:
        return question + rng.choice(("", "", "\n", " ")) + PICTURE * count
    if draw < 0.84 or count > 2:
        return PICTURE + question + PICTURE * (count - 1)
    at = rng.randrange(len(LABELS))
    between = rng.choice(("", "\n", " "))
    labeled = f"{LABELS[at]}{PICTURE}{between}{LABELED[at]}{PICTURE}{between}"
    return labeled + question if rng.random() < 0.7 else f"{question}\n{labeled.rstrip()}"


def _turns(shown: list[Picture], asked: list[tuple[str, str]], rng: Random) -> Chat:
    turns: list[Turn] = []
    for question, said in asked:
        if turns:
            turns += [Turn("user", question), Turn("assistant", said)]
        else:
            turns += [Turn("user", _placed(question, len(shown), rng), pictures=shown), Turn("assistant", said)]
    return Chat(turns, "wide_focus", (), system(rng) if rng.random() < 0.15 else "", expect=None)


def one_of(size: Size, rng: Random) -> Chat:
    """Two pictures, now and then three; one question about one of them, and now and then the same about another."""
    count = 3 if rng.random() < 0.08 else 2
    drawn = [_drawn(size, rng) for _ in range(count)]
    at = rng.randrange(count)
    sort = rng.choices(list(SORTS), list(SORTS.values()))[0]
    asked = [answer(sort, drawn[at][1], referred(at, count, rng), rng)]
    if rng.random() < 0.3:
        other = rng.choice([place for place in range(count) if place != at])
        question, said = answer(sort, drawn[other][1], referred(other, count, rng), rng)
        if sort in ("what", "ground") and rng.random() < 0.5:
            question = _ask(AND_OTHER, rng, r=referred(other, count, rng))
        asked.append((question, said))
    elif rng.random() < 0.2:
        sort = rng.choices(list(SORTS), list(SORTS.values()))[0]
        asked.append(answer(sort, drawn[at][1], referred(at, count, rng), rng))
    return _turns([picture for picture, _ in drawn], asked, rng)


# -- figures of one shape in several colors

TALLY = lines("""how many {w} are there|count the {w}|how many {w} do you see|number of {w}|how many {w} in all|how many {w} are in the picture|all colors together, how many {w}|count all {w}, whatever their color|how many {w} does the picture have|what is the number of {w}|how many {w}|tell me how many {w} there are|please count the {w}|the {w}: how
many|how many {w} have I drawn|can you count the {w} for me|I need the number of {w}|how many {w} altogether""")
OF_COLOUR = lines(
    """how many {c} {w} are there|how many of them are {c}|count the {c} {w}|how many {w} are {c}|number of {c} {w}|how many {c} ones|of these, how many are {c}|only the {c} ones: how many|how many {w} in {c}"""
)
COLOURS = lines(
    """which colors do the {w} have|what colors are the {w}|name the colors|which colors were used|what colors do you see on the {w}|list the colors of the {w}"""
)
ALL_SAME = lines(
    """are all {w} of the same color|do all {w} have the same color|are the {w} all of one color|is every one of the {w} {c}|are all of them {c}|are these {w} all {c}"""
)
THAN = lines(
    """are there more than {n} {w}|are there over {n} {w}|do you see more than {n} {w}|is the number of {w} larger than {n}|more than {n} {w}, yes or no"""
)


def tally(size: Size, rng: Random) -> Chat:
    shape, count = _shape(rng), rng.choice((4, 4, 5, 5, 6, 6, 7, 7, 8))
    colours = [_colour(rng)]
    wanted = rng.choice((2, 2, 3, 3, 4))
    while len(colours) < wanted and rng.random() < 0.98:
        colour = _colour(rng)
        if not any(wide_hues.near(colour, one) for one in colours):
            colours.append(colour)
    rest = [rng.choice(colours) for _ in range(count - len(colours))]
    kinds = [(shape, colour) for colour in rng.sample([*colours, *rest], count)]
    picture, _, _ = view(kinds, size, rng)
    words = facts.plural(shape)
    asked = []
    for _ in range(rng.choice((1, 1, 1, 2, 2))):
        draw, colour = rng.random(), rng.choice(colours)
        mine = sum(each[1] == colour for each in kinds)
        if draw < 0.6:
            word = rng.choice((words, words, "shapes", "figures"))
            asked.append(
                (_ask(TALLY, rng, w=word), f"There are {COUNTED[count]} {words if word == words else 'shapes'}.")
            )
        elif draw < 0.8:
            verb = "is" if mine == 1 else "are"
            asked.append(
                (
                    _ask(OF_COLOUR, rng, w=words, c=colour),
                    f"There {verb} {COUNTED[mine]} {colour} {_named(shape, mine)}.",
                )
            )
        elif draw < 0.88:
            asked.append((_ask(COLOURS, rng, w=words), capital(joined(colours)) + "."))
        elif draw < 0.94:
            said = f"No, they are {joined(colours)}." if len(colours) > 1 else f"Yes, they are all {colour}."
            asked.append((_ask(ALL_SAME, rng, w=words, c=colour), said))
        else:
            limit = rng.choice((count - 1, count - 2, count, count + 1))
            said = "Yes" if count > limit else "No"
            shown = rng.choice((str(limit), COUNTED[limit]))
            asked.append((_ask(THAN, rng, w=words, n=shown), f"{said}, there are {COUNTED[count]} {words}."))
    return _turns([picture], asked, rng)


# -- other words for colors

IS_HUE = lines("""is it {c}|is the {s} {c}|is this {s} {c}|would you call the {s} {c}|is that {c}|is the {s} drawn in {c}|can one say the {s} is {c}|is {c} the right word for the {s}|{c}, yes or no|the {s} is {c}, right|does the {s} look {c}|do you see {a} {c} {t}|is there {a} {c} {t}|is the color {c}|I would say {c}, am I right|is the color of the {s} {c}|did I
use {c} for the {s}|have I painted the {s} {c}|is this what they call {c}""")
OR = lines(
    """is the {s} {c} or {d}|{c} or {d}|would you say {c} or {d}|is it {c} or rather {d}|which is it, {c} or {d}|is the color {c} or {d}"""
)


def hue(size: Size, rng: Random) -> Chat:
    shape, colour = _shape(rng), _colour(rng)
    picture, _, _ = view([(shape, colour)], size, rng)
    asked = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        thing = rng.choice((shape, shape, "figure", "shape"))
        if rng.random() < 0.8:
            right = rng.random() < 0.5
            word = (wide_hues.other_word if right else wide_hues.wrong_word)(colour, rng)
            word = word if rng.random() < 0.9 or not right else colour
            question = _ask(IS_HUE, rng, c=word, s=thing, t=shape, a=_article(word))
            asked.append((question, f"{'Yes' if right else 'No'}, the {shape} is {colour}."))
        else:
            pair = rng.sample((wide_hues.other_word(colour, rng), wide_hues.wrong_word(colour, rng)), 2)
            mine = next(word for word in pair if word in wide_hues.words(colour))
            asked.append((_ask(OR, rng, c=pair[0], d=pair[1], s=thing), f"The {shape} is {mine}."))
    return _turns([picture], asked, rng)


def draw(rng: Random, size: Size = SQUARE) -> Chat:
    form = rng.random()
    return one_of(size, rng) if form < 0.6 else tally(size, rng) if form < 0.82 else hue(size, rng)
