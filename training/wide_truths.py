"""JSON with true or false told in other words than the key's: "still works" is not broken, whoever owes has not paid.

Keys are of either polarity (`wide_truths_words`); beside them stand whom or what it is said of, whose it is and where. No
key is the examiner's (`held_words`).
"""

# ruff: noqa: E501  (rows are easier to read than lists)

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import wide, wide_copy, wide_keyed, wide_orders, wide_prompted, wide_spans
from training import wide_truths_words as words
from training.data_chat import Chat
from training.held_words import free, plain, taken
from training.wide_facts import capital
from training.wide_prompted import Form
from training.wide_talk import lines

Json = dict[str, Any]
HOLE = re.compile(r"\{([a-z]+2?)\}")
THINGS = lines(
    "the {o}|the {o}|our {o}|my {o}|that {o}|the old {o}|{p}'s {o}|{p}'s {o}|{p}'s old {o}|the {o} of {p}|the {o} in {t}|"
    "{p}'s {o} in {t}|our {t} {o}|the {o} next door|the {o} near {t}|your {o}|this {o}|the {o} at {p}'s|the little {o}"
)
PERSONS = lines("{p}|{p}|{p}|{p}|old {p}|our {r} {p}|the {r} {p}|my neighbor {p}|{p} from {t}|young {p}|a certain {p}")
NAMES = {"p": words.OWNERS, "o": words.ITEMS, "t": words.WHERE, "r": "profession trade_of_person craft_of_person"}
ABOUT = lines(words.ABOUT)


@dataclass(frozen=True)
class Truth:
    """`so` are keys that are true of the sayings in `yes`, `not_so` of those in `no`."""

    things: tuple[str, ...]  # empty: a person
    so: tuple[str, ...]
    not_so: tuple[str, ...]
    yes: tuple[str, ...]
    no: tuple[str, ...]


@cache
def truths() -> list[Truth]:
    found = []
    for row in words.TRUTHS.strip().splitlines():
        things, so, not_so, yes, no = row.split("|")
        of = () if things == "p" else tuple(things.split(","))
        keys = tuple(free(so.split())), tuple(free(not_so.split()))
        found.append(Truth(of, *keys, tuple(yes.split(";")), tuple(no.split(";"))))
    return [one for one in found if one.so or one.not_so]


@dataclass(frozen=True)
class Part:
    """A truth with its key, and the words for what it is said of, with places for values."""

    truth: Truth
    key: str
    straight: bool
    subject: str


@dataclass(frozen=True)
class TruthForm(Form):
    """A form of `wide_prompted`: the same names and types each time it is told."""

    parts: tuple[Part, ...] = ()
    asked: tuple[tuple[str, str], ...] = ()  # a place, and the name of its value

    def told(self, rng: Random) -> tuple[str, Json]:
        found: Json = {}
        clauses = []
        for part in self.parts:
            for hole in (hole[1] for hole in HOLE.finditer(part.subject)):
                while hole not in found or sum(wide_spans._near(found[hole], one) for one in found.values()) > 1:
                    found[hole] = _value(hole, part.truth, rng)
            subject = HOLE.sub(lambda hole: str(found[hole[1]]), part.subject)
            yes = rng.random() < 0.5
            clause = rng.choice(part.truth.yes if yes else part.truth.no)
            clause = clause.replace("{it.n}", str(found.get("o", found.get("o2", "")))).replace("{it}", subject)
            clauses.append(clause)
            found[part.key] = yes == part.straight
        if len(clauses) > 1 and rng.random() < 0.4:
            text = capital(rng.choice((", ", " and ", "; ", ", but ", " - ")).join(clauses))
        else:
            text = rng.choice((". ", ". ", "\n")).join(map(capital, clauses))
        if rng.random() < 0.08:
            text = f"{rng.choice(ABOUT)} {text}"
        values = {key: found[hole] for hole, key in self.asked} | {part.key: found[part.key] for part in self.parts}
        return text + rng.choice((".", ".", ".", "!", "")), {key: values[key] for key in self.values}


def _value(hole: str, truth: Truth, rng: Random) -> str:
    base = hole.rstrip("2")
    if base == "o":
        return rng.choice(truth.things)
    return wide_spans.name(rng) if base == "p" else wide.town(rng) if base == "t" else rng.choice(wide_spans.ROLES)


def form(rng: Random, styles: tuple[str, ...] = ("snake", "snake", "camel", "kebab", "pascal")) -> TruthForm:
    style = rng.choice(styles) if rng.random() < 0.85 else ""  # without one: each key in its own
    values: dict[str, Json] = {}
    parts: list[Part] = []
    asked: list[tuple[str, str]] = []

    def take(bases: list[str], kind: str) -> str:
        for base in rng.sample(bases, len(bases)):
            key = wide_copy.written(base.split("_"), style or rng.choice(styles))
            if not taken(key) and plain(key) not in map(plain, values):
                values[key] = {"type": kind}
                return key
        return ""

    first = rng.choice(truths())
    others = [one for one in truths() if bool(one.things) != bool(first.things)]  # so that nobody asks which of two
    for at, truth in enumerate((first, rng.choice(others)) if rng.random() < 0.45 else (first,)):
        straight = bool(truth.so) and (rng.random() < 0.5 or not truth.not_so)
        key = take(list(truth.so if straight else truth.not_so), "boolean")
        if not key:
            continue
        subject = rng.choice(THINGS if truth.things else PERSONS) if at == 0 else "the {o2}" if truth.things else "{p2}"
        parts.append(Part(truth, key, straight, subject))
        for hole in (hole[1] for hole in HOLE.finditer(subject)):
            names = words.PERSONS if hole[0] == "p" and not truth.things else NAMES[hole[0]]
            if rng.random() < 0.65 and (name := take(free(names.split()), "string")):
                asked.append((hole, name))
    if not parts:
        return form(rng, styles)
    order = rng.sample(list(values), len(values))
    title = capital(rng.choice(("state", "entry", "record", "check", "status", "row", "memo", "report")))
    return TruthForm(title, {key: values[key] for key in order}, None, {}, (), tuple(parts), tuple(asked))


@dataclass(frozen=True)
class BothForm(Form):
    """A sentence of `wide_spans`, and truths of other things behind it."""

    parts: tuple[Form, ...] = ()

    def told(self, rng: Random) -> tuple[str, Json]:
        (first, one), (second, other) = (part.told(rng) for part in self.parts)
        text = f"{first if first[-1] in '.!' else first + '.'}{rng.choice((' ', ' ', chr(10)))}{second}"
        return text, {key: (one | other)[key] for key in self.values}


def both(rng: Random, styles: tuple[str, ...] = ("snake", "snake", "camel", "kebab", "pascal")) -> BothForm:
    """More keys than one sentence has; of the truths only the keys that are true or false."""
    style = (rng.choice(styles),) if rng.random() < 0.8 else styles
    first, second = wide_spans.form(rng, style), form(rng, style)
    flags = {key: one for key, one in second.values.items() if one["type"] == "boolean"}
    owned = any("{t}" in part.subject or ("{p}" in part.subject and part.truth.things) for part in second.parts)
    if owned or set(map(plain, flags)) & set(map(plain, first.values)):  # of two places nobody knows which is meant
        return both(rng, styles)
    values = first.values | flags
    order = rng.sample(list(values), len(values)) if rng.random() < 0.7 else list(values)
    return BothForm(first.name, {key: values[key] for key in order}, None, {}, (), (first, second))


def draw(rng: Random) -> Chat:
    how = rng.random()
    if how < 0.3:
        return wide_orders.answered(both(rng, wide_copy.STYLES), rng, "wide_truths")
    if how < 0.8:
        return wide_orders.answered(form(rng, wide_copy.STYLES), rng, "wide_truths")
    return wide_prompted.json_answer(rng, form(rng)) if how < 0.88 else wide_keyed.json_answer(rng, form(rng))
