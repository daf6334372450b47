"""JSON whose values stand beside what could be taken for them: of two nouns the one of the key's kind, of two numbers the key's own.

"A rye loaf" has the grain rye; a title may hold a number or a name; what is said around the text is no value. The words are in
`wide_beside_words`; no key is the examiner's (`held_words`).
"""

# ruff: noqa: E501  (rows are easier to read than lists)

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import facts, wide, wide_beside_words, wide_copy, wide_keyed, wide_kinds, wide_pick, wide_prompted
from training.data_chat import Chat
from training.held_words import free, plain, taken
from training.wide_facts import capital
from training.wide_fields import many
from training.wide_prompted import Form
from training.wide_talk import lines, spelled
from training.wide_world import NEVER

Json = dict[str, Any]
HOLE = re.compile(r"\{([a-z]+2?)(\.a)?\}")
BEFORE, BEHIND = lines(wide_beside_words.BEFORE), lines(wide_beside_words.BEHIND)
OF_MASS = lines(wide_beside_words.OF_MASS)
CHATTER_BEFORE, CHATTER_BEHIND = lines(wide_beside_words.CHATTER_BEFORE), lines(wide_beside_words.CHATTER_BEHIND)
TITLES, STREETS = lines(wide_beside_words.TITLES), lines(wide_beside_words.STREETS)


@dataclass(frozen=True)
class Pair:
    """Two nouns side by side, each a member of a kind."""

    names: tuple[str, ...]
    firsts: tuple[str, ...]
    other_names: tuple[str, ...]
    seconds: tuple[str, ...]
    counted: bool
    rarer: tuple[str, ...] = ()  # more of the first, of WordNet


RARER = {"stone": "mineral", "metal": "metal", "fabric": "fabric", "tree": "tree", "flower": "flower", "bird": "oscine", "fish": "saltwater fish", "spice": "herb", "cheese": "cheese"}  # fmt: skip


@cache
def pairs() -> list[Pair]:
    found = []
    for row in wide_beside_words.PAIRS.strip().splitlines():
        names, firsts, others, seconds, how = row.split("|")
        kept = tuple(free(names.split()))
        if kept:
            more = [
                each
                for each in wide_kinds.kinds().get(RARER.get(names.split()[0], ""), ())
                if each.isalpha() and each not in NEVER
            ]
            others_kept, members = tuple(free(others.split())), tuple(seconds.split(","))
            found.append(Pair(kept, tuple(firsts.split(",")), others_kept, members, how == "s", tuple(more)))
    return found


Frame = tuple[str, dict[str, tuple[str, ...]]]


@cache
def frames(table: str) -> list[Frame]:
    found = []
    for row in table.strip().splitlines():
        text, _, rest = row.partition("|")
        parts = (part.partition(":") for part in rest.split(";"))
        found.append((text, {hole: tuple(free(names.split())) for hole, _, names in parts}))
    return found


# -- values


def _noun(rng: Random) -> str:
    return rng.choice(wide_copy._words()["noun"]) if rng.random() < 0.3 else wide.noun(rng)


def title(rng: Random) -> str:
    """With a number or a name in it, or neither."""
    noun, other = _noun(rng), _noun(rng)
    return rng.choice(TITLES).format(
        n=rng.randint(2, 99), N=capital(noun), N2=capital(other), ns=capital(many(noun)), Ns=capital(many(noun)),
        A=capital(wide.adjective(rng)), f=wide.first_name(rng), l=wide.last_name(rng), y=rng.randint(1700, 2050),
    )  # fmt: skip


def _name(rng: Random) -> str:
    return wide.first_name(rng) if rng.random() < 0.4 else f"{wide.first_name(rng)} {wide.last_name(rng)}"


def _clock(rng: Random) -> str:
    time = wide.clock(rng)
    return _clock(rng) if "." in time else time


def _code(rng: Random) -> str:
    code = wide.code(rng)
    return _code(rng) if code.isdigit() else code


VALUES: dict[str, Callable[[Random], Any]] = {
    "p": _name, "town": wide.town, "date": wide.date, "time": _clock, "c": _code, "title": title, "y": lambda rng: rng.randint(1700, 2030),
    "n": lambda rng: rng.randint(2, rng.choice((20, 99, 99, 900, 4000))), "m": lambda rng: rng.randint(2, rng.choice((12, 40, 99))),
    "k": lambda rng: rng.randint(2, 12), "street": lambda rng: rng.choice(STREETS), "phone": lambda rng: f"{rng.randint(100, 999)}-{rng.randint(0, 9999):04}",
}  # fmt: skip
NUMBERS = ("n", "m", "k", "y")
FEW = {
    "size",
    "size_word",
    "condition",
    "state_of_it",
    "season",
    "room",
    "body_part",
    "time_of_year",
    "meal",
    "which_meal",
    "shape",
    "form_of_it",
}
OF_THEM = ("of them", "were taken")  # the second number is a part of the first


@dataclass(frozen=True)
class BesideForm(Form):
    """A form of `wide_prompted`: the same names and types each time it is told."""

    sentence: str = ""
    asked: tuple[tuple[str, str], ...] = ()  # a place of the sentence, and the name of its value
    pair: Pair | None = None
    quoted: bool = False  # titles in quotation marks
    chatter: bool = False

    def drawn(self, hole: str, rng: Random) -> Any:
        if self.pair is not None and hole in "xz":
            word = rng.choice(self.pair.firsts if hole == "x" else self.pair.seconds)
            if hole == "x" and self.pair.rarer and rng.random() < 0.3:
                return rng.choice(self.pair.rarer)
            strange = hole == "x" and word.isalpha() and word.islower() and not set(self.pair.names) & FEW
            return wide_copy.bent(word, rng) if strange and rng.random() < 0.08 else word
        return VALUES[hole.rstrip("2")](rng)

    def told(self, rng: Random) -> tuple[str, Json]:
        found: Json = {}
        for hole in dict.fromkeys(hole[1] for hole in HOLE.finditer(self.sentence)):
            while hole not in found or sum(str(found[hole]) == str(one) for one in found.values()) > 1:
                found[hole] = self.drawn(hole, rng)
        if any(part in self.sentence for part in OF_THEM):
            found["n"], found["m"] = max(found["n"], found["m"]), min(found["n"], found["m"])
        words = rng.random() < 0.15

        def shown(hole: re.Match[str]) -> str:
            value = found[hole[1]]
            text = spelled(value) if words and isinstance(value, int) and value < 21 else str(value)
            text = f'"{text}"' if hole[1] == "title" and self.quoted else text
            return f"{'an' if text[0] in 'aeiouAEIO' else 'a'} {text}" if hole[2] else text

        text = HOLE.sub(shown, self.sentence).replace('""', '"')
        text = capital(text) + rng.choice((".", ".", ".", "!", ""))
        if self.chatter:
            if rng.random() < 0.6:
                text = f"{rng.choice(CHATTER_BEFORE)} {text}"
            if rng.random() < 0.55 and text[-1] in ".!":
                text = f"{text} {rng.choice(CHATTER_BEHIND)}"
        return text, {name: found[hole] for hole, name in self.asked}


def _pair(one: Pair, rng: Random) -> str:
    """The two nouns with what stands before and behind them, as a part of a sentence."""
    adjective = f"{rng.choice(BEFORE if one.counted else OF_MASS)} " if rng.random() < 0.3 else ""
    if not one.counted:
        text = rng.choice(
            (
                f"{adjective}{{x}} {{z}}",
                f"{adjective}{{x}} {{z}}",
                f"the {adjective}{{x}} {{z}}",
                f"some {adjective}{{x}} {{z}}",
            )
        )
    elif adjective:
        text = f"{facts.an(adjective.strip())} {{x}} {{z}}" if rng.random() < 0.7 else f"the {adjective}{{x}} {{z}}"
    else:
        text = rng.choice(("{x.a} {z}", "{x.a} {z}", "the {x} {z}", "one {x} {z}"))
    return f"{text} {rng.choice(BEHIND)}" if rng.random() < 0.14 else text


TITLE_WORDS = lines("note|entry|record|card|slip|item|row|memo|case|extract")


def form(rng: Random, styles: tuple[str, ...] = ("snake", "snake", "camel", "kebab", "pascal")) -> BesideForm:
    draw, pair = rng.random(), None
    if draw < 0.6:
        pair = rng.choice(pairs())
        sentence, places = rng.choice(frames(wide_beside_words.FRAMES))
        sentence = sentence.replace("{np}", _pair(pair, rng))
        places = {"x": pair.names, "z": pair.other_names} | places
    else:
        sentence, places = rng.choice(frames(wide_beside_words.TITLED if draw < 0.82 else wide_beside_words.WHOSE))
    if rng.random() < 0.25:  # and a second sentence that holds other things
        other, more = rng.choice(frames(wide_beside_words.WHOSE))
        if not set(more) & set(places):
            sentence, places = f"{sentence}. {other if other[0] == '{' else capital(other)}", places | more
    style = rng.choice(styles)
    values: dict[str, Json] = {}
    asked: list[tuple[str, str]] = []
    for hole in rng.sample(list(places), len(places)):
        if rng.random() < (0.03 if hole == "x" else 0.5 if hole == "z" else 0.15):
            continue
        for base in rng.sample(places[hole], len(places[hole])):
            name = wide_copy.written(base.split("_"), style)
            if not taken(name) and plain(name) not in map(plain, values):
                kind = "integer" if hole in NUMBERS else "string"
                values[name] = {"type": kind}
                asked.append((hole, name))
                break
    if not values:
        return form(rng, styles)
    quoted = rng.random() < 0.6
    name = capital(rng.choice(TITLE_WORDS))
    return BesideForm(name, values, None, {}, (), sentence, tuple(asked), pair, quoted, rng.random() < 0.4)


def drawn(rng: Random) -> wide_kinds.Drawn:
    """As the records of `wide_kinds`."""
    one = form(rng)
    text, values = one.told(rng)
    return wide_kinds.Drawn(text, text, f"keep_{plain(one.name)}", values, values)


def keyed(rng: Random) -> Chat:
    return wide_pick.of_form(form(rng, wide_copy.STYLES), rng)


def draw(rng: Random) -> Chat:
    how = rng.random()
    if how < 0.4:
        return keyed(rng)
    if how < 0.72:
        return wide_kinds.json_answer(rng, drawn(rng))
    return wide_prompted.json_answer(rng, form(rng)) if how < 0.86 else wide_keyed.json_answer(rng, form(rng))
