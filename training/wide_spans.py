"""JSON whose values end where the name or the noun ends: not the size before it, not the word for its kind or the verb behind it.

"A large beagle dog" has the breed beagle and the size large; "the captain, Jo Berg, refused" has the captain Jo Berg. Most members are rare
words, to be copied letter by letter. The words are in `wide_spans_words`, what is said around the text in `wide_orders`; no key is the
examiner's (`held_words`).
"""

# ruff: noqa: E501  (rows are easier to read than lists)

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import facts, wide, wide_copy, wide_keyed, wide_kinds, wide_orders, wide_pick, wide_prompted
from training import wide_spans_words as words
from training.data_chat import Chat
from training.held_words import free, plain, taken
from training.wide_facts import capital
from training.wide_prompted import Form
from training.wide_talk import lines, spelled
from training.wide_world import NEVER

Json = dict[str, Any]
HOLE = re.compile(r"\{([a-z]+2?)(\.a)?\}")
ONE, SOME, DONE = lines(words.ONE), lines(words.SOME), lines(words.DONE)
ROLED, CALLED, PLACES, ROLES = lines(words.ROLED), lines(words.CALLED), lines(words.PLACES), words.ROLES.split(",")
BEHIND = lines(words.BEHIND)
NAMES = {
    "s": ("size", "size_word", "how_big"), "c": ("color", "colour", "shade"), "q": ("condition", "state", "state_of_it"),
    "t": ("town", "place", "where", "near_town", "location", "city"), "x": ("item", "thing_named", "article_named", "object_named", "what_it_is"),
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """Things of a kind: names for one, a word for all, and how they are spoken of."""

    names: tuple[str, ...]
    word: str
    counted: bool
    sort: str
    members: tuple[str, ...]
    rarer: tuple[str, ...]

    def draw(self, rng: Random) -> str:
        draw = rng.random()
        if not self.members:  # any word of the dictionary, any member of a kind, nearly a word
            return wide_copy.rare(rng)
        if draw < 0.15 and self.rarer:
            return rng.choice(self.rarer)
        member = rng.choice(self.members)
        if draw > 0.92 and member.isalpha() and member.islower():
            return wide_copy.bent(member, rng) if rng.random() < 0.6 else wide.made_up(rng)
        return member

    @property
    def ways(self) -> list[str]:
        every = DONE if self.sort in "di" else ONE if self.counted else SOME
        return every if words.STATES[self.sort] else [way for way in every if "{q" not in way]


@cache
def kinds() -> list[Kind]:
    found = []
    for row in words.THINGS.strip().splitlines():
        names, word, how, sort, members, more = row.split("|")
        known = wide_kinds.kinds().get(more, ())
        never = {*NEVER, word.split(" ")[-1]}  # of "a stick insect insect" nobody knows where it ends
        rarer = tuple(each for each in known if each.replace(" ", "").isalpha() and not set(each.split()) & never)
        kept = tuple(free(names.split())) or ("sort_named",)
        found.append(
            Kind(
                kept,
                word,
                how == "s",
                sort,
                tuple(one for one in members.split(",") if not set(one.split()) & never),
                rarer,
            )
        )
    return found


ANY = Kind(tuple(free(NAMES["x"])), "thing", True, "o", (), ())


@cache
def frames() -> tuple[list[tuple[str, dict[str, tuple[str, ...]]]], ...]:
    """Sentences about things, and about names alone."""
    found = []
    for table in (words.SENTENCES, words.NAMED):
        rows = []
        for row in table.strip().splitlines():
            text, _, rest = row.partition("|")
            parts = (part.partition(":") for part in rest.split(";"))
            rows.append((text, {hole: tuple(free(names.split())) for hole, _, names in parts}))
        found.append(rows)
    return tuple(found)


# -- values


def name(rng: Random) -> str:
    draw = rng.random()
    if draw < 0.3:
        return wide.first_name(rng)
    return wide.last_name(rng) if draw < 0.42 else f"{wide.first_name(rng)} {wide.last_name(rng)}"


def firm(rng: Random) -> str:
    last, word = wide.last_name(rng), capital(wide.made_up(rng))
    return rng.choice((f"{last} & Sons", f"{last} Ltd", f"{last} Brothers", word, f"{word} Inc", f"{capital(wide.noun(rng))} {rng.choice(('Works', 'Mills', 'Foods', 'Air'))}", f"{last} and {wide.last_name(rng)}"))  # fmt: skip


NUMBERS = ("n", "k", "m", "age")
VALUES: dict[str, Callable[[Random], Any]] = {
    "p": name, "t": wide.town, "team": wide_pick._team, "firm": firm, "date": wide.date, "role": lambda rng: rng.choice(ROLES),
    "n": lambda rng: rng.randint(2, rng.choice((9, 40, 99, 900))), "k": lambda rng: rng.randint(2, 9), "age": lambda rng: rng.randint(6, 95), "m": lambda rng: rng.randint(0, 1),
    "s": lambda rng: rng.choice(words.SIZES.split(",")), "c": lambda rng: rng.choice(words.COLORS.split(",")),
}  # fmt: skip


@dataclass(frozen=True)
class SpanForm(Form):
    """A form of `wide_prompted`: the same names and types each time it is told."""

    sentence: str = ""
    asked: tuple[tuple[str, str], ...] = ()  # a place of the sentence, and the name of its value
    of: Kind | None = None

    def drawn(self, hole: str, rng: Random) -> Any:
        if self.of is not None and hole == "x":
            return self.of.draw(rng)
        if self.of is not None and hole == "q":
            return rng.choice(words.STATES[self.of.sort].split(","))
        return VALUES[hole.rstrip("2")](rng)

    def told(self, rng: Random) -> tuple[str, Json]:
        found: Json = {}
        for hole in dict.fromkeys(hole[1] for hole in HOLE.finditer(self.sentence)):
            while hole not in found or any(_near(found[hole], one) for at, one in found.items() if at != hole):
                found[hole] = self.drawn(hole, rng)
        in_words = rng.random() < 0.12

        def shown(hole: re.Match[str]) -> str:
            value = found[hole[1]]
            text = spelled(value) if in_words and isinstance(value, int) and value < 21 else str(value)
            return facts.an(text) if hole[2] else text

        text = HOLE.sub(shown, self.sentence)
        text = re.sub(r",(?=[,.;]|$| [-(])", "", text).replace("- -", "-").rstrip(" -")
        draw = rng.random()
        if draw < 0.1:
            text = f"{text}, {rng.choice(BEHIND)}"
        elif draw < 0.14:
            text = f"{rng.choice(BEHIND)}, {text}"
        if not text.startswith(str(found.get("x", "\0"))) and rng.random() < 0.9:
            text = capital(text)
        return text + rng.choice((".", ".", ".", ".", "!", "")), {key: found[hole] for hole, key in self.asked}


def _near(one: Any, other: Any) -> bool:
    """Whether one of two names is in the other: which is which could not be told."""
    left, right = str(one).lower(), str(other).lower()
    return left == right or (not isinstance(one, int) and bool(set(left.split()) & set(right.split())))


def _person(hole: str, rng: Random) -> tuple[str, str]:
    """A person as a part of a sentence, and the role if one is told."""
    if rng.random() < 0.4:
        role = rng.choice(ROLES)
        return rng.choice(ROLED).replace("{role}", role).replace("{p}", f"{{{hole}}}"), role
    return rng.choice(CALLED).replace("{p}", f"{{{hole}}}"), ""


def _thing(kind: Kind, rng: Random) -> str:
    text = rng.choice(kind.ways)
    return text.replace("{g.a}", facts.an(kind.word)).replace("{g}", kind.word)


def form(rng: Random, styles: tuple[str, ...] = ("snake", "snake", "camel", "kebab", "pascal")) -> SpanForm:
    sentence, places = rng.choice(frames()[0 if rng.random() < 0.62 else 1])
    places, kind, required = dict(places), None, "p"
    for mark, sorts in (("{X}", "foapt"), ("{x}", "oa"), ("{D}", "d"), ("{I}", "i")):
        if mark in sentence:
            kind = rng.choice([one for one in kinds() if one.sort in sorts and (mark != "{x}" or one.counted)])
            kind = ANY if mark == "{X}" and rng.random() < 0.2 else kind
            sentence = sentence.replace(mark, _thing(kind, rng) if mark != "{x}" else mark)
            places["x"] = (*kind.names, *kind.names, *(free(NAMES["x"]) if rng.random() < 0.25 else ()))
            required = "x"
            break
    if "{P}" in sentence:
        said, role = _person("p", rng)
        sentence = sentence.replace("{P}", said)
        if role and rng.random() < 0.5 and not taken(role):
            places["p"] = (role, f"{role}_name")
    if "{T}" in sentence:
        sentence = sentence.replace("{T}", rng.choice(PLACES)) if rng.random() < 0.75 else sentence.replace(" {T}", "")
    holes = {hole[1] for hole in HOLE.finditer(sentence)}
    places |= {hole: tuple(free(NAMES[hole])) for hole in "scqt" if hole in holes and hole not in places}
    style = rng.choice(styles) if rng.random() < 0.85 else ""  # without one: each key in its own
    values: dict[str, Json] = {}
    asked: list[tuple[str, str]] = []
    for hole in rng.sample([each for each in places if each in holes], len(holes & set(places))):
        if rng.random() < (0.04 if hole == required else 0.12 if hole in ("p", "p2", "team") else 0.25):
            continue
        for base in rng.sample(places[hole], len(places[hole])):
            key = wide_copy.written(base.split("_"), style or rng.choice(styles))
            if not taken(key) and plain(key) not in map(plain, values):
                values[key] = {"type": "integer" if hole in NUMBERS else "string"}
                asked.append((hole, key))
                break
    if not values:
        return form(rng, styles)
    title = capital(rng.choice(("note", "entry", "record", "card", "item", "row", "memo", "report")))
    return SpanForm(title, values, None, {}, (), " ".join(sentence.split()), tuple(asked), kind)


def draw(rng: Random) -> Chat:
    how = rng.random()
    if how < 0.8:
        return wide_orders.answered(form(rng, wide_copy.STYLES), rng, "wide_spans")
    return wide_prompted.json_answer(rng, form(rng)) if how < 0.88 else wide_keyed.json_answer(rng, form(rng))
