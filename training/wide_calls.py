"""Other people's tools and schemas, and what they asked of them (`sources_calls`). Names and numbers are drawn anew."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from training import wide, wide_choose, wide_keyed, wide_kinds, wide_prompted
from training.data_chat import Chat, Turn
from training.held_words import plain, taken
from training.sources import records
from training.wide_facts import capital
from training.wide_long import system
from training.wide_prompted import Form

Json = dict[str, Any]
PERSONS = re.compile(r"(^|_)(person|name|user|customer|artist|author|player|director|cast|recipient|assignee)$")
MAX_SHOWN = 2600  # characters of all signatures


@cache
def known() -> tuple[list[Json], list[Json]]:
    """The questions with a call, and those that none of their tools is for; without the examiner's names."""
    path = records() / "calls.json"
    every = json.loads(path.read_text()) if path.exists() else []
    found = []
    for one in every:
        tools = [tool for tool in one["tools"] if not taken(_named(tool)) and not any(map(taken, tool["values"]))]
        if any(tool["name"] == one["name"] for tool in tools) or (tools and not one["name"]):
            found.append(one | {"tools": tools})
    return [one for one in found if one["name"]], [one for one in found if not one["name"]]


def _named(tool: Json) -> str:
    return re.sub(r"\W+", "_", tool["name"])


@cache
def pool() -> dict[str, list[str]]:
    """Values by the names of their keys."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in known()[0]:
        for name, value in one["arguments"].items():
            if isinstance(value, str) and value in one["text"] and len(value) < 32:
                found[plain(name)].add(value)
    return {name: sorted(values) for name, values in found.items() if len(values) > 3}


def _other(name: str, value: Any, schema: Json, text: str, rng: Random) -> Any:
    """Another value for the same place, where it stands in the text once."""
    said = f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, bool | list) or "enum" in schema or len(re.findall(rf"\b{re.escape(said)}\b", text)) != 1:
        return value
    if isinstance(value, int) and value >= 0:
        low = 10 ** (len(said) - 1) if value > 9 else 1
        return rng.randint(low, 10 ** len(said) - 1) if not 1900 < value < 2100 else rng.randint(1900, 2030)
    if isinstance(value, str) and value[:1].isupper():
        if PERSONS.search(plain(name)) and rng.random() < 0.5:
            return wide.person(rng)
        return rng.choice(pool().get(plain(name), [value]))
    return value


def asked(one: Json, rng: Random) -> tuple[str, Json]:
    """The question and the call's values, some of them others than in the source."""
    text = one["text"]
    values = dict(one["arguments"])
    schemas = next(tool for tool in one["tools"] if tool["name"] == one["name"])["values"]
    for name, value in one["arguments"].items():
        if rng.random() < 0.6:
            new = _other(name, value, schemas[name], text, rng)
            said, other = (f"{each:g}" if isinstance(each, float) else str(each) for each in (value, new))
            if new != value and not any(other in str(each) or str(each) in other for each in values.values()):
                text = re.sub(rf"\b{re.escape(said)}\b", lambda _, other=other: other, text)
                values[name] = new
    return text, values


def _signature(tool: Json, described: bool) -> Json:
    values = {
        name: {key: part for key, part in value.items() if key != "description" or (described and part)}
        for name, value in tool["values"].items()
    }
    parameters = {"type": "object", "properties": values, "required": tool["required"]}
    return {
        "type": "function",
        "function": {"name": _named(tool), "description": tool["description"], "parameters": parameters},
    }


def signature(rng: Random) -> Json:
    """Of any of the tools, to stand beside others."""
    return _signature(rng.choice(rng.choice(known()[0])["tools"]), rng.random() < 0.4)


def tool_call(rng: Random) -> Chat:
    right, none = known()
    one = rng.choice(none if rng.random() < 0.12 else right)
    described = rng.random() < 0.4
    first = next((tool for tool in one["tools"] if tool["name"] == one["name"]), one["tools"][0])
    others = [tool for tool in one["tools"] if tool is not first]
    rng.shuffle(others)
    others = others[: rng.randint(0, 5)] if one["name"] else others[:2]
    for _ in range(rng.choice((0, 0, 1, 2, 3, 4)) if one["name"] else 0):
        others.append(rng.choice(rng.choice(right)["tools"]))
    shown = {_named(first): _signature(first, described)}
    size = len(json.dumps(shown))
    for tool in others:
        size += len(json.dumps(shape := _signature(tool, described)))
        if size < MAX_SHOWN:
            shown.setdefault(_named(tool), shape)
    if one["name"]:
        text, values = asked(one, rng)
        order = [name for name in first["values"] if name in values]
        answer = Turn("assistant", calls=[(_named(first), {name: values[name] for name in order})])
    else:
        text, answer = one["text"], Turn("assistant", wide_choose.NONE)
    tools = rng.sample(list(shown.values()), len(shown))
    return Chat([Turn("user", text), answer], "called_tools", (), system(rng) if rng.random() < 0.2 else "", tools)


# -- several calls at once


@cache
def several() -> list[Json]:
    """The questions that want more than one call; without the examiner's names."""
    path = records() / "calls_many.json"
    every = json.loads(path.read_text()) if path.exists() else []
    found = []
    for one in every:
        tools = [tool for tool in one["tools"] if not taken(_named(tool)) and not any(map(taken, tool["values"]))]
        if {call["name"] for call in one["calls"]} <= {tool["name"] for tool in tools}:
            found.append(one | {"tools": tools})
    return found


def many_calls(rng: Random) -> Chat:
    """All calls that a question wants, in one answer."""
    one = rng.choice(several())
    text, tools = one["text"], {tool["name"]: tool for tool in one["tools"]}
    calls = [(call["name"], dict(call["arguments"])) for call in one["calls"]]
    every = [str(value) for _, values in calls for value in values.values()]
    for name, values in calls:
        for key, value in values.items():
            new = _other(key, value, tools[name]["values"][key], text, rng) if rng.random() < 0.5 else value
            if new != value and every.count(str(value)) == 1 and not any(str(new) in each for each in every):
                text = re.sub(rf"\b{re.escape(str(value))}\b", lambda _, new=new: str(new), text)
                values[key] = new
                every.append(str(new))
    described = rng.random() < 0.4
    shown = {_named(tools[name]): _signature(tools[name], described) for name, _ in calls}
    size = len(json.dumps(shown))
    others = [*one["tools"], *(rng.choice(rng.choice(known()[0])["tools"]) for _ in range(rng.choice((0, 0, 1, 2))))]
    for tool in others:
        size += len(json.dumps(shape := _signature(tool, described)))
        if size < MAX_SHOWN:
            shown.setdefault(_named(tool), shape)
    ordered = [
        (_named(tools[name]), {key: values[key] for key in tools[name]["values"] if key in values})
        for name, values in calls
    ]
    signatures = rng.sample(list(shown.values()), len(shown))
    opening = system(rng) if rng.random() < 0.2 else ""
    return Chat([Turn("user", text), Turn("assistant", calls=ordered)], "called_tools", (), opening, signatures)


def draw(rng: Random) -> Chat:
    return many_calls(rng) if several() and rng.random() < 0.2 else tool_call(rng)


@dataclass(frozen=True)
class CallForm(Form):
    """The values of one call, as JSON."""

    call: Json = field(default_factory=dict)

    def told(self, rng: Random) -> tuple[str, Json]:
        text, values = asked(self.call, rng)
        return text, {name: values[name] for name in self.values}


def form(rng: Random) -> CallForm:
    one = rng.choice(known()[0])
    tool = next(tool for tool in one["tools"] if tool["name"] == one["name"])
    names = [name for name in tool["values"] if name in one["arguments"]]
    if rng.random() < 0.5:
        rng.shuffle(names)
    title = "".join(capital(word) for word in plain(_named(tool)).split("_") if word)
    values = {name: {key: part for key, part in tool["values"][name].items() if key != "description"} for name in names}
    return CallForm(title, values, None, {}, (), one)


def json_answer(rng: Random) -> Chat:
    one = form(rng)
    draw = rng.random()
    if draw < 0.4:
        text, values = one.told(rng)
        return wide_kinds.json_answer(rng, wide_kinds.Drawn(text, text, plain(one.name), values, values))
    return (wide_keyed if draw < 0.8 else wide_prompted).json_answer(rng, one)
