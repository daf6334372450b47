"""Records whose values are members of the kinds that their keys name (`wide_members`), told in free sentences that never say the key.

Every schema is another combination; none has a name of the examiner's (`held_words`). A text holds other values too, a label, a
unit, and words of the same kinds that nobody asked for.
"""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import facts, wide, wide_frames, wide_kinds, wide_members
from training.held_words import free, held_keys, plain
from training.wide_facts import capital
from training.wide_prompted import Form
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


def _bare(text: str) -> str:
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
        return said(clause, member, kind), _bare(member)

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


def _sample(rng: Random, count: int, taken: list[Field]) -> list[Field]:
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


# -- names of values


def _name(one: Field, rng: Random, taken: list[str]) -> str:
    names = free(one.names)
    if one.type == "string" and one.members and rng.random() < 0.16 and names:
        base = rng.choice(names)
        names = free(
            [
                f"{base}_type",
                f"type_of_{base}",
                f"kind_of_{base}",
                f"{base}_name",
                f"main_{base}",
                f"which_{base}",
                f"the_{base}",
                f"{base}_kind",
                f"chosen_{base}",
            ]
        )
    elif one.type == "integer" and rng.random() < 0.12 and names:
        base = rng.choice(names)
        more = (f"number_of_{base}", f"how_many_{base}", f"{base}_count") if base.endswith("s") else ()
        names = free([f"total_{base}", f"{base}_total", *more])
    elif one.type == "boolean" and rng.random() < 0.2 and names:
        names = free([f"is_{name}" for name in names if not name.startswith(("is_", "has_"))]) or names
    names = [name for name in names if name not in taken]
    return rng.choice(names) if names else ""


STYLES = (0, 0, 0, 0, 1, 1, 2, 3)


def styled(name: str, style: int) -> str:
    if style == 3:
        return "".join(map(capital, name.split("_")))
    return wide_kinds.styled(name, style)


# -- texts

LABELS = lines("""{k} report|{k} log|note on the {k}|{k} list|from the {k} desk|{k} news|{k}|the {k} book|entry {n}|memo|to all|small ad|for sale|wanted|message {n}|page {n}|diary|voice mail|radio message|post-it|{k} notice|re: {k}|status|weekly
{k} summary|minutes|overheard|travel diary|order form|handover|{k} register|bulletin""")
THINGS = lines(
    "harbor|quarry|kitchen|office|workshop|market|clinic|school|farm|garage|museum|station|library|mill|bakery|garden|club|hotel|police|theater|stable|depot|brewery|laundry|studio|camp|lab|court|church|zoo|archive|shop|yard|vineyard|orchestra"
)
SPOKEN = lines("so|well|okay|um|right|listen|hey|you know|let me see|anyway|as I said|by the way|well then|so yes")
LOOSE = ("and", "and", "also", "then", "besides", "oh, and", "plus")
MANY = lines(
    "{p} bought {q}|we shipped {q}|{q} came in|they sold {q}|{q} went out|{p} ordered {q}|we counted {q}|there are {q} left|{p} brought {q}|{q} were stolen|{q} are waiting here|put down {q}|they lost {q}|{q} arrived this morning"
)


def _text(clauses: list[str], rng: Random) -> str:
    draw = rng.random()
    if draw < 0.34:
        text = " ".join(capital(one) + "." for one in clauses)
    elif draw < 0.56:
        text = capital(", ".join(clauses)) + rng.choice((".", ".", ""))
    elif draw < 0.66:
        text = capital("; ".join(clauses)) + rng.choice((".", ""))
    elif draw < 0.74:
        dash = rng.choice(("- ", "* ", "", "• "))
        text = "\n".join(dash + (capital(one) if rng.random() < 0.7 else one) for one in clauses)
    elif draw < 0.88:  # as somebody speaks
        parts = [f"{rng.choice(SPOKEN)}, {clauses[0]}"] if rng.random() < 0.6 else [clauses[0]]
        for one in clauses[1:]:
            parts.append(f"{rng.choice(LOOSE)} {one}" if rng.random() < 0.5 else one)
        text = capital(rng.choice((", ", ", ", "... ", " ")).join(parts)) + rng.choice((".", "", "..."))
    else:  # two to a sentence
        pairs = [clauses[at : at + 2] for at in range(0, len(clauses), 2)]
        text = " ".join(capital(rng.choice((" and ", ", ", " - ", ", while ")).join(pair)) + "." for pair in pairs)
    draw = rng.random()
    if draw < 0.22:
        label = rng.choice(LABELS).format(k=rng.choice(THINGS), n=rng.randint(1, 99))
        text = capital(label) + rng.choice((": ", ": ", " - ", ":\n", "\n", ". ")) + text
    elif draw < 0.3:
        text = rng.choice((f"{rng.choice(wide_kinds.NOISE)} {text}", f"{text} {rng.choice(wide_kinds.NOISE)}"))
    elif draw < 0.36:
        text = text.rstrip(".")
    return text


@dataclass(frozen=True)
class ToldForm(Form):
    """A form of `wide_prompted`: the same names and types each time it is told."""

    asked: tuple[tuple[str, Field], ...] = ()
    silent: tuple[Field, ...] = ()

    def told(self, rng: Random) -> tuple[str, Json]:
        numbers = sum(one.type == "integer" for _, one in self.asked) + sum(
            one.type == "integer" for one in self.silent
        )
        persons = sum(one.group == "person" for _, one in self.asked)
        values: Json = {}
        clauses: list[str] = []
        merged = self._merged(rng, values, clauses)
        for name, one in self.asked:
            if name in merged:
                continue
            choices = tuple(self.values[name].get("enum", ())) if one.type == "string" and one.members else ()
            clause, values[name] = one.draw(rng, choices, numbers > 1 or persons > 1)
            clauses.append(clause)
        for one in self.silent:
            clauses.append(one.draw(rng, (), numbers > 1)[0])
        rng.shuffle(clauses)
        return _text(clauses, rng), {name: values[name] for name in self.values}

    def _merged(self, rng: Random, values: Json, clauses: list[str]) -> set[str]:
        """So much of something, in one clause: both values stand side by side."""
        kinds = [(name, one) for name, one in self.asked if one.group in SOLD and "enum" not in self.values[name]]
        units = [
            (name, one)
            for name, one in self.asked
            if one.type == "integer" and (one.mass or one.names[0] in ("boxes", "pieces"))
        ]
        if not kinds or not units or rng.random() < 0.3:
            return set()
        (kind, what), (count, unit) = rng.choice(kinds), rng.choice(units)
        member = rng.choice(what.members)
        if member.startswith(("a ", "an ", "the ")):
            return set()
        number = unit.draw(rng, (), True)[1]
        told = many(member) if what.mass == "c" else member
        measure = rng.choice(
            [name for name in unit.names if "_" not in name and name not in ("weight", "quantity")] or [unit.names[0]]
        )
        if what.mass == "c" and (
            unit.names[0] == "pieces" or what.group in ("tool", "livestock", "component", "toy", "furniture")
        ):
            amount = f"{number} {told}"
        else:
            amount = f"{number} {'kilos' if measure == 'kg' else measure} of {told}"
        values[kind], values[count] = told, number
        person = next(((name, one) for name, one in self.asked if one.group == "person"), None)
        form = rng.choice(MANY)
        done = {kind, count}
        if "{p}" in form:
            whom = wide_kinds.SIMPLE["p"](rng)
            if person is None or rng.random() < 0.4:
                form = form.replace("{p}", rng.choice(("we", "they")))
            else:
                values[person[0]] = whom
                done.add(person[0])
                form = form.replace("{p}", whom)
        clauses.append(form.replace("{q}", amount))
        return done


CLASSES = lines(
    "Record|Entry|Item|Info|Data|Details|Note|Report|Card|Row|Extract|Message|Case|Log|Notice|Summary|Order|Sheet"
)


def form(rng: Random) -> Form:
    return framed(rng) if rng.random() < 0.4 else loose(rng)


def loose(rng: Random) -> ToldForm:
    """Any values together."""
    chosen = _sample(rng, rng.choice((1, 2, 2, 3, 3, 3, 4, 4, 5, 6)), [])
    silent = _sample(rng, rng.choice((0, 0, 0, 1, 1, 2)), chosen)
    numbers = sum(one.type == "integer" for one in chosen)
    silent = [
        one
        for one in silent
        if one.group != "person" and not (one.type == "integer" and numbers) and one.type != "choice"
    ]
    style = rng.choice(STYLES)
    names: dict[str, Field] = {}
    values: dict[str, Json] = {}
    for one in chosen:
        base = _name(one, rng, [plain(name) for name in names])
        name = styled(base, style) if base else ""
        if not name or name in names or plain(name) in held_keys():
            silent.append(one)
            continue
        names[name] = one
        if one.type == "choice":
            values[name] = {"type": "string", "enum": rng.sample(one.members, len(one.members))}
        elif one.type == "string" and one.members and rng.random() < 0.13:
            pool = rng.sample(one.members, min(len(one.members), rng.randint(3, 6)))
            values[name] = {"type": "string", "enum": [_bare(each) for each in pool]}
        else:
            values[name] = {"type": one.type}
    silent = [one for one in silent if one.type not in ("integer", "choice") or not numbers]
    if not names:
        return loose(rng)
    if rng.random() < 0.5:
        order = rng.sample(list(values), len(values))
        values = {name: values[name] for name in order}
    title = "".join(map(capital, rng.choice([*CLASSES, *THINGS]).split())) + rng.choice(("", "", rng.choice(CLASSES)))
    return ToldForm(title, values, None, {}, (), tuple(names.items()), tuple(silent))


def drawn(rng: Random) -> wide_kinds.Drawn:
    """As the records of `wide_kinds`."""
    one = form(rng)
    text, values = one.told(rng)
    verb = rng.choice(("add", "save", "log", "record", "store", "register", "file", "note", "create", "submit"))
    return wide_kinds.Drawn(text, text, f"{verb}_{plain(one.name)}", values, values)


# -- frames that hold several values

HOLE = re.compile(r"\{([#@^!]?)([a-z_]+?)(_2)?(\.[as])?\}")


@cache
def _firsts() -> dict[str, Field]:
    """Fields by the mark of their sort and their first name."""
    marks = {"kind": "", "name": "^", "number": "#", "person": "@", "other": "!"}
    return {mark + one.names[0]: one for sort, mark in marks.items() for one in fields()[sort]}


@cache
def frames() -> list[str]:
    """The frames whose places are all known."""
    texts = wide_frames.FRAMES.strip().splitlines()
    return [text for text in texts if all(mark + name in _firsts() for mark, name, _, _ in HOLE.findall(text))]


@dataclass(frozen=True)
class FrameForm(Form):
    """A form whose text is one frame, and some clauses behind it."""

    text: str = ""
    names: tuple[tuple[str, str], ...] = ()  # a place of the frame, and the name of its value
    more: tuple[tuple[str, Field], ...] = ()  # told behind it; without a name: only told

    def told(self, rng: Random) -> tuple[str, Json]:
        known: Json = {}
        names = dict(self.names)
        used: set[str] = set()

        def fill(found: re.Match[str]) -> str:
            mark, name, second, form = found.groups()
            one = _firsts()[mark + name]
            wanted = names.get(found[0], "")
            choices = self.values[wanted].get("enum", ()) if wanted else ()
            if mark == "":
                member = rng.choice([each for each in choices or one.members if each not in used] or one.members)
                used.add(member)
                form = form or ""
                known[wanted] = many(member) if form == ".s" and not choices else _bare(member)
                return many(member) if form == ".s" else said("{a}", member, "c") if form == ".a" else member
            value = one.draw(rng, (), True)[1]
            known[wanted] = value
            return str(value)

        parts = [HOLE.sub(fill, self.text)]
        for name, one in self.more:
            clause, known[name] = one.draw(rng, (), True)
            parts.append(capital(clause) + ".")
        head, *tail = parts
        rng.shuffle(tail)
        text = " ".join((capital(head), *tail) if rng.random() < 0.8 else (*tail, capital(head)))
        if rng.random() < 0.2:
            label = capital(rng.choice(LABELS).format(k=rng.choice(THINGS), n=rng.randint(1, 99)))
            text = f"{label}{rng.choice((': ', ': ', ' - ', chr(10)))}{text}"
        elif rng.random() < 0.08:
            text = f"{text} {rng.choice(wide_kinds.NOISE)}"
        return text, {name: known[name] for name in self.values}


def framed(rng: Random) -> FrameForm:
    text = rng.choice(frames())
    style = rng.choice(STYLES)
    names: dict[str, str] = {}
    values: dict[str, Json] = {}
    for found in HOLE.finditer(text):
        mark, name, second, _ = found.groups()
        one = _firsts()[mark + name]
        base = _name(one, rng, [plain(each) for each in names.values()])
        named = styled(f"second_{base}" if second and base else base, style) if base else ""
        if not named or named in values or plain(named) in held_keys() or rng.random() < 0.12:
            continue
        names[found[0]] = named
        values[named] = {"type": one.type}
        if not mark and rng.random() < 0.1:
            values[named] = {
                "type": "string",
                "enum": [_bare(each) for each in rng.sample(one.members, min(5, len(one.members)))],
            }
    more: list[tuple[str, Field]] = []
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        one = rng.choice(fields()[rng.choice(("truth", "truth", "truth", "choice"))])
        base = _name(one, rng, [plain(each) for each in values])
        named = styled(base, style) if base else ""
        if (
            named
            and named not in values
            and plain(named) not in held_keys()
            and all(one is not each for _, each in more)
        ):
            more.append((named, one))
            values[named] = (
                {"type": "string", "enum": rng.sample(one.members, len(one.members))}
                if one.type == "choice"
                else {"type": one.type}
            )
    if not values:
        return framed(rng)
    order = rng.sample(list(values), len(values)) if rng.random() < 0.6 else list(values)
    title = "".join(map(capital, rng.choice([*CLASSES, *THINGS]).split())) + rng.choice(("", "", rng.choice(CLASSES)))
    return FrameForm(
        title, {name: values[name] for name in order}, None, {}, (), text, tuple(names.items()), tuple(more)
    )
