"""Some of many tools, none of them with a name of the examiner's, and one errand: the tool is found by what is meant."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import wide_errands, wide_fields, wide_kinds, wide_more, wide_talk, wide_told
from training.data_chat import Chat, Turn
from training.facts import NUMBERS
from training.held_words import free, held_keys, plain, taken
from training.wide_facts import capital, typed
from training.wide_fields import Field
from training.wide_long import system
from training.wide_prompted import Form
from training.wide_told import HOLE

Json = dict[str, Any]
CLOCK = "{~}"
HOURS = ("hour", "hours", "at_hour", "start_hour", "h", "hh")
MINUTES = ("minute", "minutes", "at_minute", "start_minute", "min", "mm")


def clock(rng: Random) -> tuple[str, int, int]:
    """A time as it is said, its hour and its minute."""
    draw = rng.random()
    if draw < 0.35:
        hour, minute = rng.randint(0, 23), rng.randint(0, 59)
        return rng.choice((f"{hour}:{minute:02}", f"{hour:02}:{minute:02}", f"{hour}.{minute:02}")), hour, minute
    if draw < 0.55:
        hour, minute = rng.randint(1, 12), rng.choice((0, 5, 10, 15, 20, 25, 30, 40, 45, 50, 55))
        late = rng.random() < 0.5
        half = rng.choice(
            ("pm", "p.m.", " pm", " in the evening")
            if late and hour < 12 and hour > 4
            else ("pm", " pm")
            if late
            else ("am", "a.m.", " am")
        )
        return f"{hour}{f':{minute:02}' if minute else ''}{half}", hour % 12 + (12 if late else 0), minute
    if draw < 0.85:
        hour, (words, minute) = (
            rng.randint(1, 12),
            rng.choice(
                (
                    (("half past"), 30),
                    ("quarter past", 15),
                    ("quarter to", 45),
                    ("ten past", 10),
                    ("twenty past", 20),
                    ("five to", 55),
                    ("ten to", 50),
                    ("five past", 5),
                    ("twenty to", 40),
                )
            ),
        )
        told = NUMBERS[hour] if rng.random() < 0.7 else str(hour)
        return f"{words} {told}", (hour - 1 or 12) if minute > 30 else hour, minute
    hour = rng.randint(1, 23)
    return f"{hour} o'clock", hour, 0


@dataclass(frozen=True)
class Errand:
    tools: tuple[str, ...]
    about: tuple[str, ...]
    texts: tuple[str, ...]


@cache
def errands() -> list[Errand]:
    found = []
    for line in wide_errands.LINES.strip().splitlines():
        tools, about, texts = line.split("|")
        names = tuple(free(tools.split()))
        kept = [
            text
            for text in texts.split(";")
            if all(mark + name in wide_told._firsts() for mark, name, _, _ in HOLE.findall(text))
        ]
        if names and kept:
            found.append(Errand(names, tuple(about.split(";")), tuple(kept)))
    return found


def _holes(text: str) -> list[str]:
    return [found[1] + found[2] for found in HOLE.finditer(text)]


class Tool:
    def __init__(self, errand: Errand, rng: Random) -> None:
        self.errand = errand
        self.style = rng.choice((0, 0, 0, 1, 1, 2))
        name = rng.choice(errand.tools)
        if rng.random() < 0.12:
            verb, _, noun = name.partition("_")
            name = rng.choice((f"{noun}_{verb}", f"do_{name}", f"request_{name}")) if noun else name
        name = name if free([name]) else rng.choice(errand.tools)
        self.name = wide_told.styled(name, rng.choice((0, 0, 0, 1, 3)))
        self.about = rng.choice(errand.about)
        self.names: dict[str, str] = {}
        self.values: Json = {}
        self.optional: set[str] = set()
        every = [set(_holes(text)) for text in errand.texts]
        for hole in dict.fromkeys(hole for text in errand.texts for hole in _holes(text)):
            one = wide_told._firsts()[hole]
            base = wide_told._name(one, rng, [plain(each) for each in self.values])
            named = wide_told.styled(base, self.style) if base else ""
            if not named or plain(named) in held_keys() or named in self.values:
                named = next(
                    each for each in ("what", "item", "detail", "value", "argument", "input") if each not in self.values
                )
            self.names[hole] = named
            self.values[named] = self._type(one, rng)
            if not all(hole in holes for holes in every):
                self.optional.add(named)
        if any(CLOCK in text for text in errand.texts):
            at = rng.randrange(len(HOURS))
            self.hour, self.minute = (wide_told.styled(each[at], self.style) for each in (HOURS, MINUTES))
            self.values[self.hour] = self.values[self.minute] = {"type": "integer"}

    @staticmethod
    def _type(one: Field, rng: Random) -> Json:
        if one.type == "string" and one.members and rng.random() < 0.1:
            return {
                "type": "string",
                "enum": [wide_fields.bare(each) for each in rng.sample(one.members, min(5, len(one.members)))],
            }
        return {"type": one.type}

    def signature(self, described: bool, rng: Random) -> Json:
        properties = {}
        for name, value in self.values.items():
            words = plain(name).replace("_", " ")
            about = (
                {"description": rng.choice((capital(words), f"The {words}.", f"Which {words}", f"{words} of it"))}
                if described
                else {}
            )
            properties[name] = value | about
        if rng.random() < 0.3:
            properties = {name: properties[name] for name in rng.sample(list(properties), len(properties))}
        required = [name for name in properties if name not in self.optional]
        parameters = {"type": "object", "properties": properties, "required": required}
        about = {"description": self.about + rng.choice((".", "", "."))}
        return {"type": "function", "function": {"name": self.name} | about | {"parameters": parameters}}

    def call(self, rng: Random) -> tuple[str, Json]:
        text = rng.choice(self.errand.texts)
        found: Json = {}

        def fill(hole: Any) -> str:
            mark, name, _, form = hole.groups()
            one = wide_told._firsts()[mark + name]
            named = self.names[mark + name]
            if mark:
                found[named] = one.draw(rng, (), True)[1]
                return str(found[named])
            choices = self.values[named].get("enum", ())
            member = rng.choice(choices or one.members)
            found[named] = wide_fields.many(member) if form == ".s" and not choices else wide_fields.bare(member)
            return (
                wide_fields.many(member)
                if form == ".s"
                else wide_fields.said("{a}", member, "c")
                if form == ".a"
                else member
            )

        text = HOLE.sub(fill, text)
        if CLOCK in text:
            words, found[self.hour], found[self.minute] = clock(rng)
            text = text.replace(CLOCK, words)
        order = [name for name in self.values if name in found]
        return _said(text, rng), {name: found[name] for name in order}


def _said(text: str, rng: Random) -> str:
    draw = rng.random()
    if draw < 0.12:
        text = f"{rng.choice(wide_talk.OPEN)} {text}"
    elif draw < 0.24:
        text = f"{text}, {rng.choice(wide_kinds.ASIDE)}"
    elif draw < 0.3:
        text = f"{rng.choice(wide_kinds.NOISE)} {capital(text)}"
    text = capital(text) if rng.random() < 0.85 else text
    if text[-1] in "?.!":
        return text
    return text + rng.choice(
        (
            ".",
            ".",
            "",
            "!",
            "?"
            if text.lower().startswith(
                ("can", "could", "is", "how", "who", "will", "do ", "has", "may", "are", "where")
            )
            else ".",
        )
    )


OTHER = wide_talk.lines(
    "list|cancel|change|show|delete|confirm|export|share|rate|archive|print|compare|undo|copy|find|count"
)


def _sibling(one: Tool, rng: Random) -> Json:
    """Something else that is done with the same things."""
    noun = one.errand.tools[0].split("_", 1)[-1]
    verb = rng.choice([each for each in OTHER if not one.errand.tools[0].startswith(each)])
    picked = rng.sample(list(one.values), rng.randint(0, min(2, len(one.values))))
    properties = {name: {"type": one.values[name]["type"]} for name in picked} or {"id": {"type": "string"}}
    function = {
        "name": f"{verb}_{noun}",
        "description": f"To {verb} a {noun.replace('_', ' ')}",
        "parameters": {"type": "object", "properties": properties, "required": list(properties)},
    }
    return {"type": "function", "function": function}


DONE = wide_talk.lines("It is done.|Done.|That is done.")
NONE = "I have no tool for that."


def tool_call(rng: Random) -> Chat:
    chosen = rng.sample(errands(), rng.choice((1, 2, 3, 3, 4, 5, 6, 7, 8)))
    tools = {one.name: one for one in (Tool(errand, rng) for errand in chosen)}
    described = rng.random() < 0.5
    shown = {name: one.signature(described, rng) for name, one in tools.items()}
    order = list(tools.values())
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        other = _sibling(order[0], rng)
        shown.setdefault(other["function"]["name"], other)
    turns: list[Turn] = []
    draw = rng.random()
    if draw < 0.06:  # talk: no tool is needed
        talk = rng.choice((wide_more.greet, wide_more.thank, wide_more.who, wide_talk.arithmetic, wide_talk.three))(rng)
        turns += [Turn("user", typed(talk.user, rng)), Turn("assistant", talk.answer)]
    elif draw < 0.1:  # what is asked for is not there
        missing = Tool(rng.choice([each for each in errands() if each not in chosen]), rng)
        turns += [Turn("user", missing.call(rng)[0]), Turn("assistant", NONE)]
    for at in range(rng.choice((1, 1, 1, 2))):
        one = order[0] if at == 0 else rng.choice(order)
        text, arguments = one.call(rng)
        turns += [Turn("user", text), Turn("assistant", calls=[(one.name, arguments)])]
        if rng.random() < 0.3:
            turns += [
                Turn("tool", json.dumps(rng.choice(({"status": "ok"}, {"ok": True}, {"done": True})))),
                Turn("assistant", rng.choice(DONE)),
            ]
    names = rng.sample(list(shown), len(shown))
    return Chat(
        turns, "wide_tools", (), system(rng) if rng.random() < 0.2 else "", [shown[name] for name in names], expect=None
    )


def told_call(rng: Random, draw: Callable[[Random], Form] = wide_told.form) -> Chat:
    """A text of `wide_told`, for the one tool of several whose values are in it."""
    forms = {one.name: one for one in (draw(rng) for _ in range(rng.choice((1, 1, 2, 3, 4))))}
    verbs = ("add", "save", "store", "register", "create", "record", "file", "note", "keep", "submit")
    verb = rng.choice([verb for verb in verbs if not any(taken(f"{verb}_{plain(name)}") for name in forms)] or ["jot"])
    shown = []
    for name, one in forms.items():
        parameters = {"type": "object", "properties": one.values, "required": list(one.values)}
        words = plain(name).replace("_", " ")
        about = rng.choice(
            (
                f"{capital(verb)}s a {words}.",
                f"Takes down {', '.join(plain(each).replace('_', ' ') for each in list(one.values)[:3])}.",
                f"Use this for every {words}.",
            )
        )
        shown.append(
            {
                "type": "function",
                "function": {"name": f"{verb}_{plain(name)}", "description": about, "parameters": parameters},
            }
        )
    name, one = next(iter(forms.items()))
    text, values = one.told(rng)
    if rng.random() < 0.5:
        order = capital(rng.choice([each for each in wide_kinds.ORDER if "JSON" not in each]))
        text = rng.choice((f"{text} {order}.", f"{order}: {text}", f"{order}.\n{text}", f"{text}\n\n{order}"))
    turns = [Turn("user", text), Turn("assistant", calls=[(f"{verb}_{plain(name)}", values)])]
    if rng.random() < 0.25:
        turns += [Turn("tool", '{"status": "ok"}'), Turn("assistant", rng.choice(DONE))]
    return Chat(
        turns, "wide_tools", (), system(rng) if rng.random() < 0.2 else "", rng.sample(shown, len(shown)), expect=None
    )
