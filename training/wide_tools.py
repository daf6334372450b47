"""Tools to choose from: acts of `wide_acts` that people need without naming them, beside others of the same names or things."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from training import wide, wide_acts, wide_kinds, wide_more, wide_talk, wide_things
from training.data_chat import Chat, Turn
from training.wide_facts import capital, typed
from training.wide_kinds import Slot, Yes
from training.wide_long import joined, system
from training.wide_talk import lines

Json = dict[str, Any]


@dataclass(frozen=True)
class Act:
    tools: tuple[str, ...]
    about: tuple[str, ...]
    slots: tuple[Slot, ...]
    phrases: tuple[tuple[str, ...], ...]  # of every slot but the first, which stands in the needs
    optional: frozenset[int]
    needs: tuple[str, ...]


def _slot(text: str) -> tuple[Slot, tuple[str, ...]]:
    head, _, rest = text.lstrip("?").partition("=")
    if rest.startswith("b "):
        return wide_kinds._slot(f"a: {head}={rest}")[1], ()
    how, _, phrases = rest.partition(": ")
    return wide_kinds._slot(f"a: {head}={how}")[1], tuple(phrases.split("|"))


@cache
def acts() -> list[Act]:
    found = []
    for line in wide_acts.LINES.strip().splitlines():
        head, first, *others, needs = line.split(";")
        tools, *about = head.split("|")
        parts = [_slot(one) for one in (first, *others)]
        optional = frozenset(at for at, one in enumerate(others, 1) if one.startswith("?"))
        slots, phrases = tuple(slot for slot, _ in parts), tuple(phrase for _, phrase in parts)
        found.append(Act(tuple(tools.split()), tuple(about), slots, phrases, optional, tuple(needs.split("|"))))
    return found


@dataclass(frozen=True)
class Tool:
    """An act under a name of its own: the names of its values, their types."""

    act: Act
    name: str
    names: tuple[str, ...]
    about: str
    types: tuple[Json, ...]

    def signature(self, described: bool, rng: Random) -> Json:
        properties = {}
        order = list(range(len(self.names)))
        if rng.random() < 0.3:
            rng.shuffle(order)
        for at in order:
            words = self.names[at].replace("_", " ").replace("-", " ")
            about = {"description": rng.choice((capital(words), f"The {words}.", f"the {words}"))} if described else {}
            properties[self.names[at]] = self.types[at] | about
        required = [self.names[at] for at in order if at not in self.act.optional]
        parameters = {"type": "object", "properties": properties, "required": required}
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.about, "parameters": parameters},
        }

    def call(self, rng: Random) -> tuple[str, Json]:
        """What somebody says, and the arguments that it means."""
        arguments: Json = {}
        said: list[str] = []
        need = rng.choice(self.act.needs)
        for at, slot in enumerate(self.act.slots):
            if at in self.act.optional and rng.random() < 0.5:
                continue
            value: Any = rng.random() < 0.5 if isinstance(slot.how, Yes) else slot.how(rng)
            if "enum" in self.types[at]:
                value = rng.choice([one for one in slot.choices if _bare(one) in self.types[at]["enum"]])
            arguments[self.names[at]] = _bare(value)
            words = wide_kinds.told(value, slot, rng)
            if at == 0:
                need = need.replace("{a}", words)
            elif isinstance(slot.how, Yes):
                said.append(words)
            else:
                said.append(rng.choice(self.act.phrases[at]).replace("{v}", words))
        rng.shuffle(said)
        return _joined(need, said, rng), arguments


def _bare(value: Any) -> Any:
    """Without its article."""
    return value.removeprefix("the ").removeprefix("a ") if isinstance(value, str) else value


def _joined(need: str, said: list[str], rng: Random) -> str:
    mark = "?" if need.split(" ")[0] in ASKING else rng.choice((".", ".", "!"))
    if not said:
        text = need + (mark if rng.random() < 0.85 else "")
    else:
        draw = rng.random()
        if draw < 0.45:
            text = f"{need}, {', '.join(said)}{rng.choice(('.', '.', '', '!'))}"
        elif draw < 0.75:
            text = f"{need}{mark} {capital(joined(said))}{rng.choice(('.', '.', ''))}"
        elif draw < 0.9:
            text = f"{capital(', '.join(said))}{rng.choice(('. ', ' - ', ': '))}{capital(need)}{mark}"
        else:
            text = f"{need}{mark} " + " ".join(capital(one) + "." for one in said)
    draw = rng.random()
    if draw < 0.12:
        text = f"{rng.choice(wide_talk.OPEN)} {text}"
    elif draw < 0.24:
        text = f"{text.rstrip()} {capital(rng.choice(wide_kinds.ASIDE))}."
    return capital(text) if rng.random() < 0.85 else text


ASKING = frozenset("what how where which is am are do does did will can could should has have when who on".split())


def tool(act: Act, rng: Random) -> Tool:
    style = rng.choice((0, 0, 0, 0, 1, 2))
    names: list[str] = []
    for slot in act.slots:
        free = [name for name in slot.names if wide_kinds.styled(name, style) not in names]
        names.append(wide_kinds.styled(rng.choice(free or [slot.names[0] + "_2"]), style))
    types: list[Json] = []
    for slot in act.slots:
        kind = wide_kinds.type_of(True if isinstance(slot.how, Yes) else slot.how(rng))
        if slot.choices and rng.random() < 0.25:
            kind = {
                "type": "string",
                "enum": [_bare(one) for one in rng.sample(slot.choices, rng.randint(2, len(slot.choices)))],
            }
        types.append(kind)
    name = rng.choice(act.tools)
    if rng.random() < 0.25:
        name = wide_kinds.styled(name, 1)
    about = rng.choice(act.about) + rng.choice((".", "", "."))
    return Tool(act, name, tuple(names), about, tuple(types))


OTHER = lines(
    "list|cancel|change|show|delete|confirm|count|export|share|rate|archive|print|compare|history_of|undo|copy"
)


def sibling(one: Tool, rng: Random) -> Json:
    """A tool about the same thing that does something else."""
    noun = one.name.split("_", 1)[-1] if "_" in one.name else one.act.slots[0].names[0]
    verb = rng.choice(OTHER)
    picked = rng.sample(range(len(one.names)), rng.randint(0, min(2, len(one.names))))
    properties = {one.names[at]: one.types[at] for at in picked} or {"id": {"type": "string"}}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    about = capital(f"{verb.replace('_', ' ')} {noun.replace('_', ' ')}")
    return {"type": "function", "function": {"name": f"{verb}_{noun}", "description": about, "parameters": parameters}}


NONE = "I have no tool for that."
DONE = lines("It is done.|Done.|That is done.")


def tool_call(rng: Random) -> Chat:
    """Some tools and something that one of them is for; now and then something that none of them is for."""
    chosen = rng.sample(acts(), rng.choice((1, 2, 2, 3, 4, 5, 6)))
    tools = [tool(act, rng) for act in chosen]
    one, opening = tools[0], system(rng) if rng.random() < 0.25 else ""
    described = rng.random() < 0.5
    shown = [each.signature(described, rng) for each in tools]
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        shown.append(sibling(one, rng))
    for _ in range(rng.choice((0, 0, 1))):
        other = wide_kinds.draw(rng)
        shown.append(wide_kinds._signature(other.tool, other.asked, rng, described))
    turns: list[Turn] = []
    draw = rng.random()
    if draw < 0.08:  # talk: no tool is needed
        talk = rng.choice(
            (wide_more.greet, wide_more.thank, wide_more.who, wide_talk.arithmetic, wide_talk.three, wide_more.word_sum)
        )(rng)
        turns += [Turn("user", typed(talk.user, rng)), Turn("assistant", talk.answer)]
    elif draw < 0.15 and len(tools) > 1:  # what is asked for is not there
        names = {each["function"]["name"] for each in shown}
        shown = [
            each
            for each in shown
            if each["function"]["name"] not in (one.name,)
            and not each["function"]["name"].endswith(one.name.split("_", 1)[-1])
        ]
        if shown and len(shown) < len(names):
            return Chat(
                [Turn("user", one.call(rng)[0]), Turn("assistant", NONE)],
                "wide_tools",
                (),
                opening,
                _unique(shown, rng),
            )
        shown = [each.signature(described, rng) for each in tools]
    for _ in range(rng.choice((1, 1, 1, 2))):
        each = one if not turns or rng.random() < 0.4 else rng.choice(tools)
        text, arguments = each.call(rng)
        order = list(arguments)
        if rng.random() < 0.2:
            rng.shuffle(order)
        turns += [Turn("user", text), Turn("assistant", calls=[(each.name, {name: arguments[name] for name in order})])]
        if rng.random() < 0.4:
            answer = rng.choice(({"status": "ok"}, {"ok": True}, {"result": "done"}, {"id": wide.code(rng)}))
            said = f"It is done. The id is {answer['id']}." if "id" in answer else rng.choice(DONE)
            turns += [Turn("tool", json.dumps(answer)), Turn("assistant", said)]
    return Chat(turns, "wide_tools", (), opening, _unique(shown, rng), expect=None)


def _unique(shown: list[Json], rng: Random) -> list[Json]:
    found = {each["function"]["name"]: each for each in reversed(shown)}  # the first of a name counts
    return rng.sample(list(found.values()), len(found))


def thing_call(rng: Random) -> Chat:
    """A text about a thing, for the one tool of several that keeps such things."""
    kinds = {one.kind: one for one in (wide_things.form(rng) for _ in range(rng.choice((1, 2, 3, 4))))}
    forms = {one.name: one for one in kinds.values()}
    verb = rng.choice(("add", "save", "store", "register", "create", "record", "update", "log", "file"))
    shown = []
    for name, one in forms.items():
        parameters = {"type": "object", "properties": one.values, "required": list(one.values)}
        about = rng.choice(
            ("{V}s a {n}.", "{V} a {n}", "Use this for every {n}.", "Keeps what is known of a {n}.")
        ).format(V=capital(verb), n=name.lower())
        shown.append(
            {
                "type": "function",
                "function": {"name": f"{verb}_{name.lower()}", "description": about, "parameters": parameters},
            }
        )
    name, one = rng.choice(list(forms.items()))
    text, values = one.told(rng)
    if rng.random() < 0.5:
        order = capital(rng.choice([text for text in wide_kinds.ORDER if "JSON" not in text]))
        text = rng.choice((f"{text} {order}.", f"{order}: {text}", f"{order}.\n{text}", f"{text}\n\n{order}"))
    turns = [Turn("user", text), Turn("assistant", calls=[(f"{verb}_{name.lower()}", values)])]
    if rng.random() < 0.3:
        turns += [Turn("tool", '{"status": "ok"}'), Turn("assistant", rng.choice(DONE))]
    return Chat(
        turns, "wide_tools", (), system(rng) if rng.random() < 0.2 else "", rng.sample(shown, len(shown)), expect=None
    )
