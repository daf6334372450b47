"""Records whose values are members of the kinds that their keys name (`wide_members`), told in free sentences that never say the key.

Every schema is another combination; none has a name of the examiner's (`held_words`). A text holds other values too, a label, a
unit, and words of the same kinds that nobody asked for.
"""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import wide_frames, wide_kinds
from training.held_words import free, held_keys, plain
from training.wide_facts import capital
from training.wide_fields import SOLD, Field, bare, fields, many, said, sample
from training.wide_prompted import Form
from training.wide_talk import lines

Json = dict[str, Any]
Told = tuple[str, Any]  # a clause, and the value that it tells


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
    chosen = sample(rng, rng.choice((1, 2, 2, 3, 3, 3, 4, 4, 5, 6)), [])
    silent = sample(rng, rng.choice((0, 0, 0, 1, 1, 2)), chosen)
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
            values[name] = {"type": "string", "enum": [bare(each) for each in pool]}
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
                known[wanted] = many(member) if form == ".s" and not choices else bare(member)
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
                "enum": [bare(each) for each in rng.sample(one.members, min(5, len(one.members)))],
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
