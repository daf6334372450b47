"""Pictures drawn here: one to five plain shapes anywhere, of any size, on any ground, and questions about them.

Rules. A colour or a shape is right when the answer has a word for it (synonyms count) and no word for another one
that was not asked about and is not in the picture. A count is right as a digit or a word, with no other number. A
position is right when every part of it that the answer names is true and at least one is named. Yes and no are read
from the answer's first clause. A description names shape and colour.
"""

from __future__ import annotations

import base64
import io
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageDraw

from training.strangers_ask import Answer, Question, Verdict, chat
from training.strangers_voices import voiced

COLOURS: Mapping[str, tuple[tuple[int, int, int], str]] = {
    "red": ((216, 30, 34), "red crimson scarlet"),
    "green": ((34, 150, 50), "green emerald"),
    "blue": ((36, 70, 210), "blue navy azure cobalt"),
    "yellow": ((240, 220, 30), "yellow golden gold"),
    "orange": ((245, 135, 20), "orange amber"),
    "purple": ((125, 40, 160), "purple violet"),
    "pink": ((250, 130, 185), "pink rose rosy"),
    "brown": ((120, 72, 30), "brown chestnut"),
    "black": ((12, 12, 12), "black"),
    "white": ((250, 250, 250), "white"),
    "grey": ((128, 128, 128), "grey gray"),
    "cyan": ((30, 200, 215), "cyan turquoise teal aqua"),
}
SHAPES: Mapping[str, str] = {
    "circle": "circle circles disc disk round dot ball circular discs disks dots",
    "square": "square squares box boxes",
    "triangle": "triangle triangles triangular",
    "star": "star stars",
    "diamond": "diamond diamonds rhombus",
    "rectangle": "rectangle rectangles rectangular oblong bar",
    "cross": "cross crosses plus",
}
SHARES = {"circle": 4, "square": 4, "triangle": 4, "star": 2, "diamond": 2, "rectangle": 2, "cross": 2}
GROUNDS = ("white", "white", "black", "grey", "yellow", "pink", "cyan")
NEAR = {  # colours that are hard to tell from a ground
    "white": {"white", "yellow"},
    "black": {"black", "brown"},
    "grey": {"grey", "brown", "cyan"},
    "yellow": {"yellow", "white", "orange"},
    "pink": {"pink", "red", "purple", "white"},
    "cyan": {"cyan", "blue", "green"},
}
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SIDES = {
    "left": "left",
    "right": "right",
    "top": "top upper above up",
    "bottom": "bottom lower below down under",
    "middle": "middle center centre central",
}
ASKS: Mapping[str, tuple[str, ...]] = {
    "colour": (
        "Which colour has the {s}?",
        "Someone painted a {s} here. In what colour?",
        "colour of this thing pls",
        "Name the hue of the figure you see, nothing more.",
        "My daughter drew this. What color did she take?",
        "If you had to buy paint to copy the object, which color would you ask for?",
    ),
    "shape": (
        "What figure is drawn here?",
        "Is there a geometric form in the picture, and which?",
        "what am I looking at, geometrically speaking",
        "The {c} thing in this image: what form has it?",
        "Identify the object's outline.",
        "tell me the shape plz",
    ),
    "describe": (
        "Say in one sentence what the picture shows.",
        "I cannot see the image on my phone. What is on it?",
        "Give me an alt text for this.",
        "What's in the pic?",
        "Please tell a blind person what is here.",
    ),
    "count": (
        "How many figures do you count?",
        "Number of {p} in here?",
        "Count the {p} for me.",
        "There are some {p} in the picture. How many exactly?",
        "are there two, three, four ... of them? how many {p} do u see",
    ),
    "place": (
        "Whereabouts is the {s}?",
        "In which part of the picture do I have to look for the {s}?",
        "Where did they put the {c} {s}?",
        "Position of the {s} in the image?",
    ),
    "side": (
        "Which of the two is further to the {d}?",
        "Two figures. Tell me which one sits on the {d} side.",
        "What do you see at the {d}?",
        "Name the figure at the {d}.",
    ),
    "yes": (
        "Is the {s} {w}?",
        "Would you call this a {w} {s}?",
        "My friend claims that there is a {w} {s}. Does she have it right?",
        "Am I correct that this shows a {w} {s}?",
    ),
    "two": (
        "I send two images. Which colour has the figure in the {n} one?",
        "What is in the {n} picture, form and colour?",
        "Look at the {n} of these. What does it show?",
    ),
    "same": (
        "Do the two images show the same kind of figure?",
        "Two pics. Same shape in both, yes or no?",
        "Is the form in the first one also that in the second?",
    ),
}
TASKS = ("colour", "colour", "shape", "shape", "describe", "count", "place", "side", "yes", "two", "same")


@dataclass(frozen=True, slots=True)
class Figure:
    shape: str
    colour: str
    x: float  # centre and radius, in parts of the picture's sides
    y: float
    radius: float


@dataclass(frozen=True, slots=True)
class Picture:
    figures: tuple[Figure, ...]
    ground: str
    size: tuple[int, int]

    def url(self, rng: random.Random) -> str:
        scale = 4  # drawn larger and made smaller, so that edges are smooth
        width, height = self.size
        image = Image.new("RGB", (width * scale, height * scale), jitter(self.ground, rng))
        draw = ImageDraw.Draw(image)
        for figure in self.figures:
            radius = figure.radius * min(width, height) * scale
            points = outline(figure.shape, figure.x * width * scale, figure.y * height * scale, radius)
            draw.polygon(points, fill=jitter(figure.colour, rng))
        shown = io.BytesIO()
        image.resize(self.size, Image.Resampling.LANCZOS).save(shown, "PNG")
        return "data:image/png;base64," + base64.b64encode(shown.getvalue()).decode()


def jitter(colour: str, rng: random.Random) -> tuple[int, int, int]:
    red, green, blue = (min(255, max(0, part + rng.randint(-12, 12))) for part in COLOURS[colour][0])
    return red, green, blue


def outline(shape: str, x: float, y: float, r: float) -> list[tuple[float, float]]:
    def around(count: int, turn: float, radii: Sequence[float] = (1.0,)) -> list[tuple[float, float]]:
        angles = [turn + 2 * math.pi * i / count for i in range(count)]
        return [
            (x + r * radii[i % len(radii)] * math.cos(a), y + r * radii[i % len(radii)] * math.sin(a))
            for i, a in enumerate(angles)
        ]

    if shape == "circle":
        return around(72, 0)
    if shape == "triangle":
        return around(3, -math.pi / 2)
    if shape == "star":
        return around(10, -math.pi / 2, (1.0, 0.42))
    if shape == "diamond":
        return [(x, y - r), (x + 0.7 * r, y), (x, y + r), (x - 0.7 * r, y)]
    if shape == "square":
        return [(x + a * 0.8 * r, y + b * 0.8 * r) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    if shape == "rectangle":
        return [(x + a * r, y + b * 0.5 * r) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    arm = 0.32
    corners = ((-arm, -1), (arm, -1), (arm, -arm), (1, -arm), (1, arm), (arm, arm), (arm, 1), (-arm, 1), (-arm, arm),
               (-1, arm), (-1, -arm), (-arm, -arm))  # fmt: skip
    return [(x + a * r, y + b * r) for a, b in corners]


def a_size(rng: random.Random) -> tuple[int, int]:
    return rng.choice(((64, 64),) * 6 + ((96, 96), (128, 128), (256, 256), (96, 64), (64, 96)))


def a_figure(rng: random.Random, ground: str, *, shape: str = "", most: float = 0.42) -> Figure:
    """Anywhere inside the picture, in a colour that is not near the ground's."""
    radius = rng.uniform(0.13, most)
    x, y = rng.uniform(radius, 1 - radius), rng.uniform(radius, 1 - radius)
    colour = rng.choice([name for name in COLOURS if name not in NEAR[ground]])
    return Figure(shape or rng.choices(list(SHARES), list(SHARES.values()))[0], colour, x, y, radius)


def apart(rng: random.Random, ground: str, count: int, *, shape: str = "", most: float = 0.2) -> list[Figure]:
    """Figures of which none lies over another. A picture that gets too crowded is begun anew."""
    figures: list[Figure] = []
    for _ in range(100 * count):
        new = a_figure(rng, ground, shape=shape, most=most)
        if all(math.dist((new.x, new.y), (old.x, old.y)) > new.radius + old.radius + 0.04 for old in figures):
            figures.append(new)
        if len(figures) == count:
            return figures
    return apart(rng, ground, count, shape=shape, most=max(0.14, most * 0.95))


def words_in(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+|\d+", text.lower()))


def named(text: str, names: Mapping[str, str]) -> set[str]:
    """Which of the names have a synonym in the text."""
    said = words_in(text)
    return {name for name, synonyms in names.items() if said & set(synonyms.split())}


COLOUR_WORDS = {name: synonyms for name, (_, synonyms) in COLOURS.items()}


def tells(colour: str = "", shape: str = "", also: Iterable[str] = ()) -> Verdict:
    """`also`: colours that may be named beside, as that of the ground."""

    def verdict(answer: Answer) -> str:
        for wanted, names, free in ((colour, COLOUR_WORDS, set(also)), (shape, SHAPES, set())):
            if not wanted:
                continue
            said = named(answer.text, names)
            if wanted not in said:
                return f"does not say {wanted}"
            if said - {wanted} - free:
                return f"also says {', '.join(sorted(said - {wanted} - free))}"
        return ""

    return verdict


def picks(first: Figure, second: Figure) -> Verdict:
    """Of two, the first: by its shape or its colour, where that tells them apart, and by nothing of the other's."""

    def verdict(answer: Answer) -> str:
        shapes, colours = named(answer.text, SHAPES), named(answer.text, COLOUR_WORDS)
        if (second.shape in shapes) or (second.colour in colours and second.colour != first.colour):
            return f"names the {second.colour} {second.shape}"
        if first.shape in shapes or (first.colour in colours and first.colour != second.colour):
            return ""
        return f"does not name the {first.colour} {first.shape}"

    return verdict


def counts(count: int) -> Verdict:
    def verdict(answer: Answer) -> str:
        said = {int(word) if word.isdigit() else NUMBERS.index(word) for word in words_in(answer.text)
                if word.isdigit() or word in NUMBERS}  # fmt: skip
        return "" if said == {count} else f"counts {sorted(said)}, not {count}"

    return verdict


def true_sides(figure: Figure) -> set[str]:
    """Between 0.4 and 0.6 both the middle and the side are true."""
    sides = {"left"} if figure.x < 0.5 else {"right"}
    sides |= {"top"} if figure.y < 0.5 else {"bottom"}
    if abs(figure.x - 0.5) < 0.17 or abs(figure.y - 0.5) < 0.17:
        sides |= {"middle"}
    return sides


def placed(figure: Figure) -> Verdict:
    def verdict(answer: Answer) -> str:
        said = named(answer.text, SIDES)
        wrong = said - true_sides(figure)
        if not said:
            return "names no part of the picture"
        return f"says {', '.join(sorted(wrong))}" if wrong else ""

    return verdict


def yes_or_no(text: str) -> str:
    """ "yes", "no" or "", from the first clause."""
    clause = re.split(r"[.,;!\n]", text.lower().strip(), maxsplit=1)[0]
    said = set(re.findall(r"[a-z']+", clause))
    if said & {"no", "nope", "not", "isn't", "wrong", "incorrect", "false", "never", "doesn't", "don't", "neither"}:
        return "no"
    return "yes" if said & {"yes", "yeah", "yep", "right", "correct", "true", "indeed", "sure", "certainly"} else ""


def says_yes(truth: bool) -> Verdict:
    wanted = "yes" if truth else "no"

    def verdict(answer: Answer) -> str:
        said = yes_or_no(answer.text)
        return "" if said == wanted else f"says {said or 'neither yes nor no'}, not {wanted}"

    return verdict


def questions(count: int, seed: int, figure: str) -> list[Question]:
    return [one(random.Random(f"pictures {seed} {index}"), TASKS[index % len(TASKS)], figure) for index in range(count)]


def one(rng: random.Random, task: str, row: str) -> Question:
    ground = rng.choice(GROUNDS)
    first = a_figure(rng, ground, most=0.42 if task not in ("count", "side", "place") else 0.2)
    figures, pictures = [first], []
    ask = rng.choice(ASKS[task])
    verdict: Verdict
    expected: Any = f"{first.colour} {first.shape}"
    fields = {"s": first.shape, "c": first.colour, "p": first.shape + ("es" if first.shape == "cross" else "s")}
    if task == "colour":
        verdict = tells(colour=first.colour, also=[ground])
    elif task == "shape":
        verdict = tells(shape=first.shape)
    elif task == "describe":
        verdict = tells(first.colour, first.shape, [ground])
    elif task == "count":
        expected = rng.randint(1, 5)
        figures = apart(rng, ground, expected, shape=first.shape)
        verdict = counts(expected)
    elif task == "place":
        expected, verdict = sorted(true_sides(first)), placed(first)
    elif task == "side":
        first, second, fields["d"] = aside(rng, ground)
        figures, expected = [first, second], f"{first.colour} {first.shape}"
        verdict = picks(first, second)
    elif task == "yes":
        truth = rng.random() < 0.5
        hue = first.colour if truth else rng.choice([name for name in COLOURS if name not in (first.colour, ground)])
        synonyms = COLOUR_WORDS[hue].split()
        fields["w"], expected, verdict = rng.choice(synonyms), truth, says_yes(truth)
    else:
        alike = rng.random() < 0.5
        other = a_figure(rng, ground, shape=first.shape if task == "same" and alike else "")
        which = rng.randrange(2)
        fields["n"] = ("first", "second")[which]
        pictures = [Picture((shown,), ground, a_size(rng)) for shown in (first, other)]
        asked = (first, other)[which]
        same = first.shape == other.shape
        expected = same if task == "same" else f"{asked.colour} {asked.shape}"
        hue, form = asked.colour if "olour" in ask else "", "" if "Which colour" in ask else asked.shape
        verdict = says_yes(same) if task == "same" else tells(hue, form, [ground])
    pictures = pictures or [Picture(tuple(figures), ground, a_size(rng))]
    text, voice = voiced(ask.format(**fields), rng, fields.values())
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": shown.url(rng)}} for shown in pictures]
    parts.insert(len(parts) if rng.random() < 0.7 else 0, {"type": "text", "text": text})
    facts = {"task": task, "voice": voice, "pictures": [repr(shown) for shown in pictures]}
    return chat(row, parts, verdict, max_tokens=40, expected=expected, facts=facts)


def aside(rng: random.Random, ground: str) -> tuple[Figure, Figure, str]:
    """Two figures of different shapes, clearly apart on one axis; the first is the one on the named side."""
    while True:
        first, second = apart(rng, ground, 2)
        across, down = second.x - first.x, second.y - first.y
        if first.shape == second.shape or max(abs(across), abs(down)) < 0.3:
            continue
        if abs(across) >= abs(down):
            return first, second, "left" if across > 0 else "right"
        return first, second, "top" if down > 0 else "bottom"
