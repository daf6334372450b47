"""Fields of records: their names, their values, and the clauses that tell them."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import facts, wide, wide_kinds, wide_members
from training.wide_facts import capital
from training.wide_talk import lines, spelled

Json = dict[str, Any]
Told = tuple[str, Any]  # a clause, and the value that it tells


@dataclass(frozen=True)
class Field:
    """Something a record can hold: names for it, and how it is drawn and told."""

    names: tuple[str, ...]
    type: str
    draw: Callable[[Random, tuple[str, ...], bool], Told]  # of choices, if any; and whether the clause must be plain
    members: tuple[str, ...] = ()  # for choices
    group: str = ""  # a record has one of a group
    mass: str = ""  # of a number: a unit that there can be so much of; of a kind: its class


def bare(text: str) -> str:
    for article in ("a ", "an ", "the "):
        if text.startswith(article) and len(text) > len(article) + 1:
            return text[len(article) :]
    return text


def said(clause: str, member: str, kind: str) -> str:
    one = facts.an(member) if kind == "c" and not member.startswith(("a ", "an ", "the ")) else member
    return clause.replace("{a}", one).replace("{s}", many(member)).replace("{v}", member)


@cache
def many(member: str) -> str:
    if member.endswith(("sheep", "fish", "trout", "cod", "salmon", "blocks", "tongs")) or member in (
        "building blocks",
    ):
        return member
    head, _, tail = member.partition(" of ")
    if tail:
        return f"{facts.plural(head)} of {tail}"
    if member.endswith(("tato", "mango")):
        return member + "es"
    if member.endswith("loaf"):
        return member[:-1] + "ves"
    return "geese" if member == "goose" else facts.plural(member)


def _kind(names: tuple[str, ...], kind: str, members: tuple[str, ...], clauses: tuple[str, ...]) -> Field:
    def draw(rng: Random, choices: tuple[str, ...], plainly: bool) -> Told:
        member = rng.choice(choices or members)
        clause = rng.choice(clauses)
        if kind == "c" and "{s}" in clause and not choices:
            return said(clause, member, kind), many(member)
        return said(clause, member, kind), bare(member)

    return Field(names, "string", draw, members, names[0], kind)


NAMED: dict[str, Callable[[Random], str]] = {
    "w": lambda rng: " ".join(map(capital, rng.choice((wide.phrase(rng), f"the {wide.phrase(rng)}", f"{wide.colour(rng)} {wide.noun(rng)}", f"{wide.noun(rng)} and {wide.noun(rng)}")).split())),
    "x": lambda rng: capital(wide.made_up(rng)),
    "l": lambda rng: rng.choice((wide.last_name(rng), f"{wide.last_name(rng)} {rng.choice(('& Sons', 'Brothers', 'House', 'Hill', 'Works'))}")),
    "t": wide.town, "f": wide.first_name,
    "k": lambda rng: f"{rng.choice(('web', 'db', 'mail', 'node', 'cache', 'build'))}-{rng.randint(1, 99):02}",
}  # fmt: skip


def _named(names: tuple[str, ...], how: str, clauses: tuple[str, ...]) -> Field:
    def draw(rng: Random, choices: tuple[str, ...], plainly: bool) -> Told:
        name = NAMED[rng.choice(how)](rng)
        clause = rng.choice(clauses)
        for word in ("Street", "Lane", "Road"):
            if f"{{v}} {word}" in clause:
                name = name.split(" &")[0]
                return clause.replace("{v}", name), f"{name} {word}"
        if clause.startswith("the {v}") or " the {v}" in clause:
            name = name.removeprefix("The ")
        return clause.replace("{v}", name), name

    return Field(names, "string", draw, (), "town" if how == "t" else names[0])


def _number(names: tuple[str, ...], least: int, most: int, clauses: tuple[str, ...]) -> Field:
    how = wide_kinds._between(least, most)

    def draw(rng: Random, choices: tuple[str, ...], plainly: bool) -> Told:
        number = how(rng)
        shown = str(number)
        if 1 < number <= 20 and rng.random() < 0.12:
            shown = spelled(number)
        elif number > 999 and least < 1000 and rng.random() < 0.3:
            shown = f"{number:,}"
        clause = rng.choice(clauses[:2] if plainly else clauses)
        if number == 1:
            clause = clauses[0]
        return clause.replace("{n}", shown), number

    unit = names[0] if any(f"{{n}} {names[0]} of it" in clause for clause in clauses) or names[0] in MEASURES else ""
    return Field(names, "integer", draw, (), names[0], unit)


SOLD = frozenset(
    """stone wood metal fabric fish flower herb fruit vegetable grain bread cheese drink wine dessert fuel chemical gas fastener stationery ingredient goods product nut meat oil medicine
mushroom tool livestock component toy furniture""".split()
)  # kinds that there can be so much of
MEASURES = ("tonnes", "kilos", "liters", "meters", "boxes", "bottles", "sacks", "pieces")


def _person(names: tuple[str, ...], clauses: tuple[str, ...]) -> Field:
    def draw(rng: Random, choices: tuple[str, ...], plainly: bool) -> Told:
        name = wide_kinds.SIMPLE["p"](rng)
        role = rng.choice(names).replace("_", " ")
        forms = (*clauses, f"the {role} is {name}", f"{role} {name}", f"{{p}}, the {role}, was there")
        clause = rng.choice(clauses[:3] if plainly else forms)
        return clause.replace("{p}", name), name

    return Field(names, "string", draw, (), "person")


def _truth(names: tuple[str, ...], pairs: tuple[str, ...]) -> Field:
    def draw(rng: Random, choices: tuple[str, ...], plainly: bool) -> Told:
        yes = rng.random() < 0.5
        return rng.choice(pairs).split("/")[0 if yes else 1], yes

    return Field(names, "boolean", draw, (), names[0])


def _choice(names: tuple[str, ...], values: tuple[str, ...]) -> Field:
    told = {value: tuple(tellings.split(",")) for value, _, tellings in (one.partition("=") for one in values)}

    def draw(rng: Random, choices: tuple[str, ...], plainly: bool) -> Told:
        value = rng.choice(list(told))
        return rng.choice(told[value]), value

    return Field(names, "choice", draw, tuple(told), names[0])


def _other(names: str, how: Callable[[Random], Any], clauses: str, type_: str = "string", group: str = "") -> Field:
    def draw(rng: Random, choices: tuple[str, ...], plainly: bool) -> Told:
        value = how(rng)
        return rng.choice(clauses.split("|")).replace("{v}", str(value)), value

    return Field(tuple(names.split()), type_, draw, (), group or names.split()[0])


PRICE = "price price_eur unit_price price_each"
OTHERS = (
    _other("date on day due_date day_of_event when", wide.date, "on {v}|it was {v}|dated {v}|{v} it was|by {v}"),
    _other("time at starts_at start_time hour_of_day", wide.clock, "at {v}|from {v} on|it starts at {v}|{v} sharp"),
    _other("place town location city where venue_town", wide.town, "in {v}|over in {v}|near {v}|it is for the people of {v}", group="town"),
    _other(PRICE, lambda rng: round(rng.uniform(0.5, 99), rng.choice((1, 2))), "at {v} euros|for {v} each|it is {v} a piece|{v} euros", "number"),
    _other("reading average measured_value mean_value", lambda rng: round(rng.uniform(0.1, 30), 1), "we measured {v}|a value of {v}|it came out at {v}", "number"),
    _other("code reference ref serial_no plate", wide.code, "under {v}|marked {v}|reference {v}|it says {v} on the back"),
    _other("email mail contact_mail", wide.mail, "write to {v}|answers go to {v}|mail {v}"),
    _other("phone phone_number tel", wide.phone, "call {v}|the number is {v}|ring {v}"),
    _other("first_name given_name", wide.first_name, "everybody calls me {v}|{v} was there too|ask {v}"),
)  # fmt: skip


def _rows(text: str) -> list[list[str]]:
    return [line.split("|") for line in text.strip().splitlines()]


@cache
def fields() -> dict[str, list[Field]]:
    """By sort: kind, name, number, person, truth, choice, other."""
    found: dict[str, list[Field]] = {
        "kind": [],
        "name": [],
        "number": [],
        "person": [],
        "truth": [],
        "choice": [],
        "other": list(OTHERS),
    }
    for names, kind, members, *clauses in _rows(wide_members.KINDS):
        found["kind"].append(_kind(tuple(names.split()), kind, tuple(members.split(",")), tuple(clauses)))
    for names, how, *clauses in _rows(wide_members.NAMES):
        found["name"].append(_named(tuple(names.split()), how, tuple(clauses)))
    for names, span, *clauses in _rows(wide_members.NUMBERS):
        least, most = map(int, span.split("-"))
        found["number"].append(_number(tuple(names.split()), least, most, tuple(clauses)))
    for names, *clauses in _rows(wide_members.PERSONS):
        found["person"].append(_person(tuple(names.split()), tuple(clauses)))
    for names, *pairs in _rows(wide_members.TRUTHS):
        found["truth"].append(_truth(tuple(names.split()), tuple(pairs)))
    for names, values in _rows(wide_members.CHOICES):
        found["choice"].append(_choice(tuple(names.split()), tuple(values.split("/"))))
    return found


ANY = tuple(
    lines(
        "it is about {a}|they mentioned {a}|{a} was on the list|we noted {a}|{a} came up|there was {a}|somebody brought {a}|it had to do with {a}|I saw {a} there|{a} was what they wanted|it turned out to be {a}|then came {a}"
    )
)


def _wordnet(rng: Random) -> Field:
    """Any of WordNet's kinds, with its better known members."""
    while True:
        category = rng.choice(list(wide_kinds.kinds()))
        members = wide_kinds.kinds()[category][: rng.choice((6, 12, 20))]
        if len(members) > 3:
            return _kind(
                (category.replace(" ", "_"),),
                "c",
                tuple(one for one in members if not one.endswith("s")) or ("thing",),
                ANY,
            )


SORTS = {"kind": 5.0, "name": 1.4, "number": 3.4, "person": 1.8, "truth": 1.3, "choice": 0.7, "other": 1.2}


def sample(rng: Random, count: int, taken: list[Field]) -> list[Field]:
    found: list[Field] = []
    for at in range(count * 3):
        if len(found) == count:
            break
        sort = (
            "kind"
            if at == 0 and not taken and rng.random() < 0.8
            else rng.choices(list(SORTS), list(SORTS.values()))[0]
        )
        one = _wordnet(rng) if sort == "kind" and rng.random() < 0.15 else rng.choice(fields()[sort])
        both = [*taken, *found]
        clash = any(one.group == each.group or set(one.names) & set(each.names) for each in both)
        overlap = one.members and any(set(one.members) & set(each.members) for each in both)
        if not clash and not overlap:
            found.append(one)
    return found
