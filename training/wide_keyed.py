"""JSON whose keys stand in the prompt in any of the ways people name them: lists, skeletons, types, an example that was done."""

# ruff: noqa: E501  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
from random import Random
from typing import Any

from training import wide_orders, wide_prompted
from training.data_chat import Chat, Turn
from training.wide_facts import capital
from training.wide_kinds import NOISE
from training.wide_listed import listed
from training.wide_long import system
from training.wide_prompted import FENCE, Form
from training.wide_talk import lines

ORDER = lines("""Turn this into JSON with {k}.|I want an object with {k}.|JSON, keys {k}.|Only JSON. Keys: {k}.|Pick out {k} and give them as JSON.|Give {k} in a JSON object.|Make a JSON object of it; its keys
are {k}.|From this I need {k}, as JSON.|Write the facts as JSON under {k}.|Your answer is one JSON object with {k}.|What are {k} here? Answer as JSON.|Collect {k} in JSON.|Represent it in JSON, with {k} as
keys.|Serialize this: {k}.|Please read it and hand me {k} in JSON.|Give me back JSON. It has {k}.|A JSON object, please, holding {k}.|json ({k})|Could I have that as JSON with {k}?|Use JSON and name the keys
{k}.|I parse your answer by machine: JSON with {k}.|Put what you read into JSON under the names {k}.|Let me have {k} as a JSON object, nothing around it.|Reduce this to JSON: {k}.|The JSON should contain {k}.|
Find {k} in it and answer with JSON only.|Return {k} (JSON).|An object with {k} is all I want.|Fetch {k} from the text. Output: JSON.|Express this with the keys {k} in JSON.""")
FORM = lines(
    """Fill this in:\n{k}|Complete this JSON:\n{k}|Same shape as\n{k}|Answer in the shape of {k}|The answer looks like this, with real values: {k}|Replace the placeholders: {k}|Use this as a
template.\n{k}|Put the values into {k}|Format your answer like {k}|Shape: {k}|I expect {k}|Your JSON has this layout:\n\n{k}|Take this form and enter the values.\n{k}|Keep this structure: {k}""".replace(
        "\\n", "\n"
    )
)
MANY = lines("""One object for each, in an array. Keys: {k}.|A JSON array of objects with {k}.|List them as JSON objects ({k}) in an array.|Make an array; every entry has {k}.|Return a list in JSON, an entry
each, with {k}.|There is more than one. Give me an array of {k} objects.|JSON array, please; each element has {k}.""")
BEFORE = lines(
    """Text:|Here it is:|The message:|Input:|This is the text:|What came in:|Read:|From a mail:|Note:|From my notebook:|Somebody wrote:"""
)
TYPES = {
    "string": ("string", "text", "str"),
    "integer": ("integer", "whole number", "int", "number"),
    "number": ("number", "float", "decimal"),
    "boolean": ("boolean", "true or false", "bool", "yes/no as true/false"),
    "array": ("list", "array"),
}


def _type(schema: dict[str, Any], rng: Random) -> str:
    return "one of " + ", ".join(map(str, schema["enum"])) if "enum" in schema else rng.choice(TYPES[schema["type"]])


def keys(one: Form, rng: Random, block: bool = True) -> str:
    return listed(list(one.values), rng, [_type(schema, rng) for schema in one.values.values()], block)


def _filled(order: str, one: Form, rng: Random) -> str:
    """The order with its keys; in lines of their own only where they stand last."""
    shown = keys(one, rng, order.endswith("{k}."))
    return order.removesuffix("." if "\n" in shown else "").replace("{k}", shown)


def _skeleton(value: Any, schemas: dict[str, Any], rng: Random) -> Any:
    style = rng.randrange(4)

    def hole(name: str, part: Any) -> Any:
        if isinstance(part, dict):
            return {inner: hole(inner, one) for inner, one in part.items()}
        kind = schemas.get(name, {"type": "string"})
        empty: Any = {"string": "", "integer": 0, "number": 0.0, "boolean": False, "array": []}[kind["type"]]
        return (empty, "...", f"<{name.replace('_', ' ')}>", _type(kind, rng))[style]

    return {name: hole(name, part) for name, part in value.items()}


def json_answer(rng: Random, form: Form | None = None) -> Chat:
    one = form or wide_prompted.form(rng)
    text, value = one.told(rng)
    answer: Any = value
    draw = rng.random()
    if draw < 0.12:  # several of them
        more = [(text, value), *(one.told(rng) for _ in range(rng.choice((1, 1, 2))))]
        text = rng.choice(("\n", "\n\n", " ")).join(each for each, _ in more)
        answer = [values for _, values in more]
        order = _filled(rng.choice(MANY), one, rng)
    elif draw < 0.4:
        names = list(value)
        if draw < 0.2 and len(names) > 1:  # some inside of another object
            cut = rng.randint(1, len(names) - 1)
            inside = rng.choice([name for name in wide_prompted.INSIDE if name not in names])
            answer = {name: value[name] for name in names[:cut]} | {inside: {name: value[name] for name in names[cut:]}}
        shape = _skeleton(answer, one.values, rng)
        order = rng.choice(FORM).replace("{k}", json.dumps(shape, indent=rng.choice((None, None, 2))))
    else:
        order = _filled(rng.choice(ORDER), one, rng)
    if rng.random() < 0.1:
        text = rng.choice((f"{rng.choice(NOISE)} {text}", f"{text} {rng.choice(NOISE)}"))
    fence = rng.random() < 0.1
    if fence:
        order += " " + rng.choice(FENCE)
    said = json.dumps(answer, ensure_ascii=False)
    said = f"```json\n{said}\n```" if fence else said
    opening = system(rng) if rng.random() < 0.2 else ""
    if not fence and draw >= 0.4 and rng.random() < 0.15:  # one that was done, then this one
        other, values = one.told(rng)
        done = json.dumps(values, ensure_ascii=False)
        if rng.random() < 0.5:
            user = f"{order}\n\n{other}\n{done}\n\n{text}"
        else:
            sign = rng.choice((" -> ", "\n=> ", "\nJSON: ", "\nOutput: "))
            user = f"{order} For example:\n{other}{sign}{done}\n\nNow this:\n{text}"
    elif not fence and draw >= 0.4 and rng.random() < 0.4:
        names = list(one.values)
        types = [_type(schema, rng) for schema in one.values.values()]
        user = wide_orders.around(text, wide_orders.order(rng, names, types), rng, text, names)
        return Chat([Turn("user", user), Turn("assistant", said)], "wide_json", (), opening, expect=answer)
    elif rng.random() < 0.15:
        opening, user = order, text
    else:
        before = rng.choice(BEFORE)
        quoted = rng.choice((text, text, text, f'"{text}"', f"<text>{text}</text>", f"'''\n{text}\n'''"))
        user = rng.choice(
            (
                f"{quoted}\n\n{order}",
                f"{text} {order}",
                f"{order}\n\n{quoted}",
                f"{order} {before} {quoted}",
                f"{order}\n{before}\n{quoted}",
                f"{before} {quoted}\n{order}",
            )
        )
    user = capital(user) if rng.random() < 0.8 else user
    return Chat([Turn("user", user), Turn("assistant", said)], "wide_json", (), opening, expect=answer)
