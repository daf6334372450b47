"""Two pictures beside each other: the same shape, the same color, which has more, what is in both. The answer begins as it goes on.

Where they agree is drawn for shape, color and number, each for itself; places, sizes and grounds never agree but by chance.
"""

# ruff: noqa: E501  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from collections.abc import Callable
from random import Random

from training import facts, wide_views
from training.data_chat import Chat
from training.wide_facts import capital
from training.wide_long import joined
from training.wide_pictures import COUNTED, _ask, _named
from training.wide_scenes import _colour, _shape
from training.wide_talk import lines
from training.wide_views import SQUARE, Kinds, Size, _chat, view

Kind = tuple[str, str, int]  # shape, color, number
SAME_ALL = lines("""are these two the same|are the pictures the same|do both show the same thing|is it twice the same picture|are the two pictures alike|same or different|is there any difference|do these match|are they identical|did somebody change anything|are both drawings equal|can you
tell them apart|is the second like the first|same thing twice or not""")
DIFFERENT = lines("""what is the difference|in what do they differ|how are they different|what has changed|what changed from the first to the second|what sets them apart|spot the difference|compare the two|which difference do you see|what is not the same|tell me how the second is different|how does the
second differ from the first""")
SAME_COLOUR = lines(
    """do both have the same color|are they of the same color|is the color the same in both|same color in both pictures|does the color match|is the second {s} of the color of the first|did the color stay the same|are both drawn in one color"""
)
SAME_SHAPE = lines(
    """is it the same shape in both|do both show the same shape|are the shapes the same|did the shape stay the same|does the shape match|same figure in both pictures|is the figure in the second one of the same shape"""
)
SAME_COUNT = lines(
    """are there as many in both|is the number the same|do both have the same number of figures|as many here as there|did the number stay the same|do they show equally many"""
)
WHICH_MORE = lines(
    """which picture has more figures|where are more shapes|in which picture do you see more|which of the two has more|which one shows more things|first or second, which has more|where do I see more of them"""
)
WHICH_HAS = lines(
    """which picture shows {x}|in which picture is {x}|where is {x}, in the first or in the second|first or second: where do you see {x}|which of the two has {x}|{x} is in which picture|which image contains {x}|find {x}: which picture"""
)
BOTH = lines(
    """what do you see in both|describe both|describe the two pictures|what is in each|what does each of them show|tell me what is in the first and what in the second|one line about each picture|what are these two"""
)
ONE_OF = lines(
    """what is in the {o} picture|what does the {o} one show|describe the {o} picture|and the {o} one, what is that|the {o} picture, please|what do you see in the {o}"""
)


def _group(kind: tuple[str, str, int]) -> str:
    shape, colour, count = kind
    return f"{COUNTED[count]} {colour} {_named(shape, count)}"


def both(size: Size, rng: Random) -> Chat:
    shape, colour, count = _shape(rng), _colour(rng), rng.choice((1, 1, 1, 1, 2, 3, 4))
    changed = rng.choice(("", "s", "c", "n", "sc")) if rng.random() < 0.75 else "scn"
    shape2, colour2, count2 = shape, colour, count
    while "s" in changed and shape2 == shape:
        shape2 = _shape(rng)
    while "c" in changed and (colour2 == colour or {colour2, colour} <= NEAR):
        colour2 = _colour(rng)
    while "n" in changed and count2 == count:
        count2 = rng.randint(1, 5)
    kinds = [(shape, colour, count), (shape2, colour2, count2)]
    shown = [view([(each[0], each[1])] * each[2], size, rng)[0] for each in kinds]
    (s1, c1, n1), (s2, c2, n2) = kinds
    parts = []
    if c1 != c2:
        parts.append(f"the color: {c1} and {c2}")
    if s1 != s2:
        parts.append(f"the shape: {s1} and {s2}")
    if n1 != n2:
        parts.append(f"the number: {COUNTED_NUMBER[n1]} and {COUNTED_NUMBER[n2]}")
    asked = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        form = rng.choice(
            ("all", "all", "different", "different", "colour", "shape", "count", "more", "has", "has", "both", "one")
        )
        if form == "all":
            asked.append(
                (_ask(SAME_ALL, rng), f"No, they differ in {joined(parts)}." if parts else "Yes, they are the same.")
            )
        elif form == "different":
            asked.append(
                (
                    _ask(DIFFERENT, rng),
                    f"They differ in {joined(parts)}." if parts else "There is no difference, they are the same.",
                )
            )
        elif form == "colour":
            asked.append(
                (
                    _ask(SAME_COLOUR, rng, s="figure"),
                    f"Yes, both are {c1}." if c1 == c2 else f"No, the first is {c1} and the second is {c2}.",
                )
            )
        elif form == "shape":
            here, there = facts.plural(s1), facts.plural(s2)
            asked.append(
                (
                    _ask(SAME_SHAPE, rng),
                    f"Yes, both show {here}." if s1 == s2 else f"No, the first shows {here} and the second {there}.",
                )
            )
        elif form == "count":
            asked.append(
                (
                    _ask(SAME_COUNT, rng),
                    f"Yes, both show {COUNTED_NUMBER[n1]}."
                    if n1 == n2
                    else f"No, the first shows {COUNTED_NUMBER[n1]} and the second {COUNTED_NUMBER[n2]}.",
                )
            )
        elif form == "more" and n1 != n2:
            asked.append((_ask(WHICH_MORE, rng), f"The {'first' if n1 > n2 else 'second'} picture has more."))
        elif form == "has" and (s1 != s2 or c1 != c2):
            at = rng.randrange(2)
            mine, yours = kinds[at], kinds[1 - at]
            names = (
                [_thing(mine)]
                + ([_thing(mine, colour=False)] if s1 != s2 else [])
                + ([f"the {mine[1]} one"] if mine[1] != yours[1] else [])
            )
            asked.append((_ask(WHICH_HAS, rng, x=rng.choice(names)), f"The {('first', 'second')[at]} picture."))
        elif form == "one":
            at = rng.randrange(2)
            asked.append((_ask(ONE_OF, rng, o=("first", "second")[at]), capital(_group(kinds[at])) + "."))
        else:
            asked.append((_ask(BOTH, rng), f"The first shows {_group(kinds[0])}, the second shows {_group(kinds[1])}."))
    return _chat(shown, asked, rng)


NEAR = {"dark blue", "navy", "navy blue", "blue"}
COUNTED_NUMBER = {1: "one", **{n: COUNTED[n] for n in range(2, 10)}}


def _thing(kind: tuple[str, str, int], colour: bool = True) -> str:
    name = f"{kind[1]} {kind[0]}" if colour else kind[0]
    return facts.an(name) if kind[2] == 1 else f"{kind[1]} {facts.plural(kind[0])}" if colour else facts.plural(kind[0])


# -- one question of each sort, as often yes as no

SHAPE_TOO = lines("""same shape|the same shape or not|are both {x}|do both pictures show {x}|is each of them a picture of {x}|does the second show the same kind of figure as the first|are the two figures of one shape|shape: same or different|do the two have one shape in common|is
the shape in the first picture also the shape in the second|both {x}, right|is it {x} in either case|tell me if the shapes match|would you call both of them {x}""")
COLOUR_TOO = lines("""same color|the same color or not|are both {c}|is everything {c} in both pictures|are the first and the second of one color|color: same or different|do the colors match|is the color in the first also the color in the second|both {c}, right|is it {c} in either
case|does the second have the color of the first|tell me if the colors are the same|would you call both {c}""")
COUNT_TOO = lines(
    """same number|as many in one as in the other|is it the same number of figures in both|number: same or different|do I see as many in the first as in the second|equally many or not"""
)
MORE_OF = lines("""which picture has more {w}|where do you see more {w}|which of the two shows more {w}|in which one are there more {w}|more {w}: in the first or in the second|who has more {w}, the first or the second|which one has the larger number of {w}|are there more {w} in
the first or in the second|compare the two, where are more {w}""")
FEWER_OF = lines(
    """which picture has fewer {w}|where do you see fewer {w}|which of the two shows fewer {w}|in which one are there fewer {w}|fewer {w}: in the first or in the second|which one has the smaller number of {w}"""
)
IN_BOTH = lines(
    """is there {x} in both|do both pictures have {x}|do you see {x} in each of them|is {x} in the first and in the second|does {x} appear in both|can {x} be seen in both pictures|{x} in both, yes or no|do the two share {x}"""
)
SHARED = lines(
    """which figure is in both|what do the two have in common|which shape appears in both pictures|what is the same in both|which shape do they share|name the figure that both of them show"""
)


def _other(one: str, draw: Callable[[Random], str], rng: Random) -> str:
    """Another shape or color, and not one that is taken for it."""
    while True:
        other = draw(rng)
        if other != one and not {one, other} <= NEAR and one.split(" ")[-1] != other.split(" ")[-1]:
            return other


def alike(size: Size, rng: Random) -> Chat:
    """Shape, color and number agree or not, each for itself."""
    shape, colour, count = _shape(rng), _colour(rng), rng.choice((1, 1, 1, 2, 3, 4, 5))
    shape2 = shape if rng.random() < 0.5 else _other(shape, _shape, rng)
    colour2 = colour if rng.random() < 0.5 else _other(colour, _colour, rng)
    count2 = count if rng.random() < 0.5 else rng.choice([n for n in range(1, 6) if n != count])
    pair = ((shape, colour, count), (shape2, colour2, count2))
    shown = [view([(each[0], each[1])] * each[2], size, rng)[0] for each in pair]
    sorts = rng.sample(("shape", "shape", "colour", "colour", "count", "more"), rng.choice((1, 1, 2, 3)))
    return _chat(shown, [compared(*pair, sort, rng) for sort in dict.fromkeys(sorts)], rng)


def compared(one: Kind, other: Kind, sort: str, rng: Random) -> tuple[str, str]:
    """A question about the two, and its answer."""
    (shape, colour, count), (shape2, colour2, count2) = one, other
    here, there = facts.plural(shape), facts.plural(shape2)
    if sort == "shape":
        asked = _ask(rng.choice((SAME_SHAPE, SHAPE_TOO)), rng, x=rng.choice((here, there)))
        said = f"Yes, both show {here}." if shape == shape2 else f"No, the first shows {here} and the second {there}."
    elif sort == "colour":
        asked = _ask(rng.choice((SAME_COLOUR, COLOUR_TOO)), rng, c=rng.choice((colour, colour2)), s="figure")
        said = (
            f"Yes, both are {colour}."
            if colour == colour2
            else f"No, the first is {colour} and the second is {colour2}."
        )
    elif sort == "count":
        asked = _ask(rng.choice((SAME_COUNT, COUNT_TOO)), rng)
        first, second = COUNTED_NUMBER[count], COUNTED_NUMBER[count2]
        said = (
            f"Yes, both show {first}." if count == count2 else f"No, the first shows {first} and the second {second}."
        )
    else:
        fewer = rng.random() < 0.3
        words = rng.choice(("figures", "shapes", "things", here if shape == shape2 else "figures"))
        asked = _ask(FEWER_OF, rng, w=words) if fewer else _ask(rng.choice((WHICH_MORE, MORE_OF)), rng, w=words)
        if count == count2:
            said = f"Neither, both show {COUNTED_NUMBER[count]}."
        else:
            said = (
                f"The {'first' if (count > count2) != fewer else 'second'} picture has {'fewer' if fewer else 'more'}."
            )
    return asked, said


def shared(size: Size, rng: Random) -> Chat:
    """Two or three figures in each, one of them in both."""
    shapes = list(dict.fromkeys(_shape(rng) for _ in range(12)))[:4]
    common, *rest = shapes
    rng.shuffle(rest)
    cut = rng.randint(1, max(1, len(rest) - 1))
    groups = [[common, *rest[:cut]], [common, *rest[cut:]]]
    counts = [{shape: 1 for shape in group} for group in groups]
    counts[rng.randrange(2)][common] = rng.choice((2, 3))
    kinds: list[Kinds] = []
    for group in counts:
        found = [(shape, colour) for shape, n in group.items() for colour in [_colour(rng)] for _ in range(n)]
        kinds.append(rng.sample(found, len(found)))
    shown = [view(each, size, rng)[0] for each in kinds]
    totals = [len(each) for each in kinds]
    asked = []
    for _ in range(rng.choice((1, 2, 2))):
        draw = rng.random()
        if draw < 0.3:
            at = counts[1][common] > counts[0][common]
            many = facts.plural(common)
            asked.append((_ask(MORE_OF, rng, w=many), f"The {('first', 'second')[at]} picture has more {many}."))
        elif draw < 0.5 and totals[0] != totals[1]:
            words = rng.choice(("figures", "shapes", "things"))
            place = ("first", "second")[totals[1] > totals[0]]
            asked.append((_ask(MORE_OF, rng, w=words), f"The {place} picture has more."))
        elif draw < 0.85:
            shape = common if rng.random() < 0.5 else rng.choice(rest)
            thing, have = facts.an(shape), [shape in group for group in counts]
            said = (
                f"Yes, both have {thing}." if all(have) else f"No, only the {('first', 'second')[have[1]]} has {thing}."
            )
            asked.append((_ask(IN_BOTH, rng, x=thing), said))
        else:
            asked.append((_ask(SHARED, rng), f"Both show {facts.an(common)}."))
    return _chat(shown, asked, rng)


def draw(rng: Random, size: Size = SQUARE) -> Chat:
    """All views: one picture, or two of them in two of five."""
    if rng.random() > 0.4:
        return wide_views.draw(rng, size)
    form = rng.random()
    return both(size, rng) if form < 0.35 else alike(size, rng) if form < 0.8 else shared(size, rng)
