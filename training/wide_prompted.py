"""JSON by a schema that stands in the prompt, as libraries for structured output write it, and tools named as classes.

Schemas are printed as pydantic, zod and people do: compact or indented, with titles, descriptions, `$defs`, choices, lists and
values that may be missing. The answer is the bare object, or a ```json block where one is asked for.
"""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from random import Random
from typing import Any

from training import wide_forms, wide_kinds, wide_more, wide_talk
from training.data_chat import Chat, Turn
from training.wide_facts import capital
from training.wide_kinds import NOISE, Yes
from training.wide_talk import lines

Json = dict[str, Any]

# -- what is told, by a form that several texts share


@dataclass(frozen=True)
class Form:
    """A class: its name, and the schema of every value by its name. `lines` of it can be told again and again."""

    name: str
    values: dict[str, Json]
    record: wide_kinds.Record | None
    letters: dict[str, str]  # slot to name
    fields: tuple[wide_forms.Field, ...] = ()

    def told(self, rng: Random) -> tuple[str, Json]:
        """A text, and its values by name, in the schema's order."""
        if self.record is None:
            drawn = [
                wide_forms.Field(one.words, one.name, one.kind, wide_forms.redrawn(one, rng), one.choices)
                for one in self.fields
            ]
            return wide_forms.text_of(drawn, rng), {one.name: one.value for one in drawn}
        slots = self.record.slots
        found = {at: rng.random() < 0.5 if isinstance(slot.how, Yes) else slot.how(rng) for at, slot in slots.items()}
        said = {at: wide_kinds.told(found[at], slot, rng) for at, slot in slots.items()}
        sentence = rng.choice([text for text in self.record.told if all(f"{{{at}}}" in text for at in self.letters)])
        return " ".join(sentence.format(**said).split()), {name: found[at] for at, name in self.letters.items()}


NAMES = lines(
    """Record|Entry|Item|Info|Data|Details|Note|Report|Card|Form|Row|Result|Extract|Answer|Message|Case|Profile|Model|Object"""
)


def _class(text: str, rng: Random) -> str:
    words = re.sub(r"[^a-z]+", " ", text.lower()).split()
    words = [word for word in words if word not in ("add", "save", "new", "log", "get", "set", "register")] or words
    name = "".join(map(capital, words[:3]))
    return name + rng.choice(("", "", "", "", rng.choice(NAMES)))


def _of_record(rng: Random) -> Form:
    """A record of `wide_schemas` or `wide_short`, under names drawn for this schema."""
    one = rng.choice(wide_kinds.known())
    whole = [text for text in one.told if all(f"{{{at}}}" in text for at in one.slots)]
    if not whole:
        return _of_record(rng)
    style = rng.choice((0, 0, 0, 0, 0, 1, 2))
    letters: dict[str, str] = {}
    for at, slot in one.slots.items():
        free = [name for name in slot.names if wide_kinds.styled(name, style) not in letters.values()]
        letters[at] = wide_kinds.styled(rng.choice(free or [at]), style)
    order = rng.sample(list(letters), len(letters)) if rng.random() < 0.7 else list(letters)
    if rng.random() < 0.3:
        order = order[: rng.randint(1, len(order))]
    values: dict[str, Json] = {}
    for at in order:
        slot = one.slots[at]
        example = True if isinstance(slot.how, Yes) else slot.how(rng)
        values[letters[at]] = wide_kinds.type_of(example)
        if slot.choices and rng.random() < 0.35:
            shown = list(slot.choices)
            rng.shuffle(shown)
            values[letters[at]] = {"type": "string", "enum": shown}
    return Form(_class(rng.choice(one.tools), rng), values, one, {at: letters[at] for at in order})


def _of_fields(rng: Random) -> Form:
    """Values of any name."""
    found = wide_forms.fields(rng, 1, rng.choice((2, 3, 4, 5)))
    return Form(
        _class(rng.choice((*NAMES, *(one.words for one in found))), rng),
        {one.name: one.schema for one in found},
        None,
        {},
        tuple(found),
    )


def form(rng: Random) -> Form:
    from training import wide_things

    draw = rng.random()
    return wide_things.form(rng) if draw < 0.5 else _of_record(rng) if draw < 0.85 else _of_fields(rng)


# -- a schema as it is printed


def _title(name: str) -> str:
    return " ".join(capital(part) for part in re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]", " ", name).split())


ABOUT = lines(
    """The {w}.|The {w} in the text|{W}|{W} as written|What the text gives as {w}|{w}|Name or value of the {w}|The {w}, copied from the text"""
)
OF = lines(
    """A {c}.|One {c}.|Describes a {c}.|What is known of a {c}.|Information about a {c}.|{c}, as found in a text."""
)


@dataclass(frozen=True)
class Look:
    """How a schema is printed: the same everywhere in one prompt."""

    titles: bool
    described: bool
    closed: bool  # additionalProperties
    last: bool  # `type` behind the properties, as pydantic has it


def look(rng: Random) -> Look:
    draw = rng.random()
    if draw < 0.6:
        return Look(True, rng.random() < 0.25, rng.random() < 0.1, True)
    return Look(rng.random() < 0.1, rng.random() < 0.3, rng.random() < 0.4, rng.random() < 0.2)


def _property(name: str, schema: Json, how: Look, rng: Random) -> Json:
    extra: Json = {}
    words = _title(name).lower()
    if how.described and rng.random() < 0.7:
        extra["description"] = rng.choice(ABOUT).format(w=words, W=capital(words))
    if how.titles and "$ref" not in schema:
        extra["title"] = _title(name)
    return extra | schema if how.titles else schema | extra


def _object(name: str, values: dict[str, Json], how: Look, rng: Random, optional: frozenset[str] = frozenset()) -> Json:
    properties = {}
    for one, schema in values.items():
        if one in optional:
            schema = {"anyOf": [schema, {"type": "null"}], "default": None}
        properties[one] = _property(one, schema, how, rng)
    about = {"description": rng.choice(OF).format(c=_title(name).lower())} if how.described else {}
    closed = {"additionalProperties": False} if how.closed else {}
    required = [one for one in values if one not in optional]
    needed = {"required": required} if required else {}
    titled = {"title": name} if how.titles else {}
    if how.last:
        return about | closed | {"properties": properties} | needed | titled | {"type": "object"}
    return titled | {"type": "object"} | about | {"properties": properties} | needed | closed


@dataclass(frozen=True)
class Asked:
    """A schema, and how a text with its answer is drawn for it."""

    schema: Json
    form: Form
    kind: str = "one"  # one, list, inside
    name: str = ""  # of the list or of the object inside
    outer: tuple[str, ...] = ()  # with an object inside: the values that stay outside
    missing: tuple[str, ...] = ()  # may be null, and no text has them

    def draw(self, rng: Random) -> tuple[str, Json]:
        if self.kind == "list":
            drawn = [self.form.told(rng) for _ in range(rng.choice((1, 2, 2, 2, 3)))]
            joint = rng.choice((" ", "\n", "\n- ", "; "))
            text = joint.join(text for text, _ in drawn)
            return ("- " + text if joint == "\n- " else text), {self.name: [values for _, values in drawn]}
        text, values = self.form.told(rng)
        if self.kind == "inside":
            inner = {one: value for one, value in values.items() if one not in self.outer}
            return text, {one: values[one] for one in self.outer} | {self.name: inner}
        return text, {one: values.get(one) for one in [*values, *self.missing]}


LISTS = lines("items|entries|records|results|list|all|rows|elements|found|data|objects")
INSIDE = lines("details|info|data|extra|properties|rest|more|record|content|entry|inner|part")
MISSING = lines(
    "comment|remark|nickname|middle_name|website|fax|discount|footnote|second_email|warning|alias|suffix|homepage|motto|hint"
)


def asked(rng: Random, one: Form | None = None) -> Asked:
    one, how = one or form(rng), look(rng)
    draw = rng.random()
    ref = {"$ref": f"#/$defs/{one.name}"}
    if draw < 0.16:
        inner = _object(one.name, one.values, how, rng)
        name = rng.choice(LISTS) if rng.random() < 0.6 else _plural(one.name)
        outer = rng.choice(("List", "All", "Result", "Response", "Collection")) + rng.choice(("", one.name))
        if rng.random() < 0.65:
            schema = _object(outer, {name: {"items": ref, "type": "array"}}, how, rng)
            schema = {"$defs": {one.name: inner}} | schema
        else:
            schema = _object(outer, {name: {"type": "array", "items": inner}}, how, rng)
        return Asked(schema, one, "list", name)
    if draw < 0.28 and len(one.values) > 1:
        names = list(one.values)
        cut = rng.randint(1, len(names) - 1)
        name = rng.choice([text for text in INSIDE if text not in names])
        inside = capital(name)
        held = _object(inside, {text: one.values[text] for text in names[cut:]}, how, rng)
        defs = rng.random() < 0.65
        values = {text: one.values[text] for text in names[:cut]}
        schema = _object(one.name, values | {name: {"$ref": f"#/$defs/{inside}"} if defs else held}, how, rng)
        return Asked({"$defs": {inside: held}} | schema if defs else schema, one, "inside", name, tuple(names[:cut]))
    missing = (rng.choice([text for text in MISSING if text not in one.values]),) if rng.random() < 0.1 else ()
    values = one.values | {text: {"type": "string"} for text in missing}
    kinds: dict[str, Json] = {}
    for text, schema in values.items():
        if "enum" in schema and rng.random() < 0.4:  # a class of choices of its own
            kind = capital(re.sub(r"[^A-Za-z]", "", _title(text)))
            kinds[kind] = {"enum": schema["enum"], "type": "string"} | ({"title": kind} if how.titles else {})
            values[text] = {"$ref": f"#/$defs/{kind}"}
    schema = _object(one.name, values, how, rng, frozenset(missing))
    return Asked({"$defs": kinds} | schema if kinds else schema, one, missing=missing)


def _plural(name: str) -> str:
    text = name[0].lower() + name[1:]
    return text[:-1] + "ies" if text.endswith("y") else text + ("es" if text.endswith(("s", "x", "ch")) else "s")


TYPES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
PYTHON = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def _sketch(one: Form, rng: Random) -> str:
    """The same in a programmer's words: a TypeScript interface, a Python class, an example, a list of keys."""
    draw = rng.randrange(4)
    if draw == 0:
        rows = []
        for name, schema in one.values.items():
            kind = (
                " | ".join(map(json.dumps, schema["enum"]))
                if "enum" in schema
                else TYPES.get(schema["type"], "string[]")
            )
            rows.append(f"  {name if '-' not in name else json.dumps(name)}: {kind};")
        return "interface " + one.name + " {\n" + "\n".join(rows) + "\n}"
    if draw == 1 and all("-" not in name for name in one.values):
        rows = []
        for name, schema in one.values.items():
            kind = (
                f"Literal{json.dumps(schema['enum'])}" if "enum" in schema else PYTHON.get(schema["type"], "list[str]")
            )
            rows.append(f"    {name}: {kind}")
        return f"class {one.name}(BaseModel):\n" + "\n".join(rows)
    if draw == 2:
        shown = {
            name: "<" + "/".join(map(str, schema.get("enum", [schema["type"]]))) + ">"
            for name, schema in one.values.items()
        }
        return json.dumps(shown, indent=rng.choice((None, 2)))
    return "\n".join(
        f"- {name} ({'one of ' + ', '.join(map(str, schema['enum'])) if 'enum' in schema else schema['type']})"
        for name, schema in one.values.items()
    )


# -- the prompt

TASK = lines("""Read what the user writes and return it as JSON in this shape:|You turn messages into objects. An object must fit this JSON Schema:|Fill in one JSON
object. Its schema is|Every reply is a JSON object that validates against the schema below.|Your output is read by a program. It expects JSON of this schema:|Take the facts
out of the text and write them as JSON. Schema:|Extract the following structure from the conversation:|The reply has to be an instance of this schema, in JSON:|Use the
schema to structure the information that you are given.|Please respond only with JSON. The JSON Schema is:|Pull the values out of the user's message. Schema of the result:|
Here is the JSON Schema of your answer:|Answer with one object that obeys this schema and nothing else:|You are an extraction service. Output schema:|We store records of this
form. Make one out of the message:|Parse the input into the model that is described here:|Convert natural language into this JSON structure:|Structured output is required.
Schema:|You know how to read texts closely. Give back their content as JSON by this definition:|Response format (JSON Schema):|The format of your response is
given by a schema:|As a careful clerk you write down data. Each sheet has this layout:|Return a valid instance of the schema that follows.|For every text, produce the matching
object:|output schema|Think of the schema as a form and of the text as what is to be entered:|Find these properties in the text:|Do not talk. Emit JSON for:|The following
schema tells you which keys are needed and of which type they are:|Your task: text in, JSON out. The JSON must follow|You will get a text. Give the data in it, typed as here:""")
RULES = lines("""Give the object, not its schema.|Do not repeat the schema.|Only JSON, no explanation.|No other text.|Return an instance, never the schema itself.|Use the keys exactly
as they are written.|Copy values from the text.|Do not add keys.|All required keys must be there.|Numbers are numbers, not strings.|Do not wrap it in anything.|The reply starts with a brace.|
Respond with the filled object only.|Keep to the types.""")
BARE = lines("Do not wrap it in anything.|The reply starts with a brace.|No other text.|Only JSON, no explanation.")
FENCE = lines("""Put the JSON into a ```json block.|Write the object inside a code block that begins with ```json.|Return it as a markdown code block of type json.|Answer with a ```json
fenced block.|Wrap the JSON in ```json and ```.|The JSON goes between ```json and ```.|Give me the JSON in a json codeblock.|Your answer is one fenced code block, marked json.|Show the
result as ```json ... ```.|Use a markdown code fence (json) for the object.|Format: a ```json code block with the object, not with its schema.|I read only what stands in the ```json block.|Enclose the object in triple backticks with the tag json.|Respond in markdown: one json code block.""")
GIVE = lines(
    """Extract: {t}|{t}|{t}|{t}|{t}|Text: {t}|Here is the text: {t}|Parse this: {t}|Message: {t}|Input: {t}|<text>{t}</text>|"{t}"|Get the data out of: {t}|What is in
here? {t}|Convert: {t}|Please extract from this sentence: {t}|The text:\n\n{t}|Read this and fill in the object. {t}|{t} Extract it.|{t} Give me the object.""".replace(
        "\\n", "\n"
    )
)
ROLE = lines("""You are a helpful assistant.|You are a precise assistant.|You work for an archive.|You help with forms.|Be exact.|You read texts closely.|You are an API.|
You are good with data.|Today you process messages.""")


def _fenced(value: Any, fence: bool) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return f"```json\n{text}\n```" if fence else text


def _printed(schema: Any, rng: Random) -> str:
    draw = rng.random()
    if draw < 0.5:
        return json.dumps(schema, indent=2, ensure_ascii=False)
    if draw < 0.6:
        return json.dumps(schema, indent=4)
    return json.dumps(schema) if draw < 0.85 else json.dumps(schema, separators=(",", ":"))


def _shown(text: str, rng: Random) -> str:
    return rng.choice(
        (
            f"\n\n{text}",
            f"\n\n{text}",
            f"\n{text}",
            f" {text}",
            f"\n\n```json\n{text}\n```",
            f"\n<schema>\n{text}\n</schema>",
        )
    )


def _order(schema: str, fence: bool, rng: Random) -> str:
    task = rng.choice(TASK) + _shown(schema, rng)
    if rng.random() < 0.55:
        rules = [rule for rule in RULES if not fence or rule not in BARE]
        task += rng.choice(("\n\n", "\n", " ")) + " ".join(rng.sample(rules, rng.choice((1, 1, 2))))
    if fence and rng.random() < 0.6:
        return f"{task}\n\n{rng.choice(FENCE)}" if rng.random() < 0.8 else f"{rng.choice(FENCE)} {task}"
    return task


def json_answer(rng: Random, one: Form | None = None) -> Chat:
    """The schema in the system turn, mostly; one to three texts."""
    if rng.random() < 0.1 and one is None:
        return answered(rng)
    fence = rng.random() < 0.3
    wanted = asked(rng, one)
    plain = wanted.kind == "one" and not wanted.missing and rng.random() < 0.15
    printed = _sketch(wanted.form, rng) if plain else _printed(wanted.schema, rng)
    order = _order(printed, fence, rng)
    late = rng.choice(FENCE) if fence and not any(text in order for text in FENCE) else ""
    turns: list[Turn] = []
    opening, draw = "", rng.random()
    if draw < 0.68:
        opening = order if rng.random() < 0.75 else f"{rng.choice(ROLE)}{rng.choice((' ', chr(10) * 2))}{order}"
    value: Any = None
    for at in range(rng.choice((1, 1, 1, 1, 2, 3)) if opening else 1):
        text, value = wanted.draw(rng)
        if rng.random() < 0.12:
            text = rng.choice((f"{rng.choice(NOISE)} {text}", f"{text} {rng.choice(NOISE)}"))
        user = rng.choice(GIVE).replace("{t}", text)
        if not opening:
            user = rng.choice((f"{order}\n\n{user}", f"{text}\n\n{order}", f"{order}\nText: {text}"))
        if late and at == 0:
            user += rng.choice(("\n\n", "\n\n", " ", "\n")) + late
        turns += [Turn("user", user), Turn("assistant", _fenced(value, fence))]
    return Chat(turns, "wide_prompted", (), opening, expect=value)


ANSWER = lines("answer|reply|response|text|result|message|output|value")


def answered(rng: Random) -> Chat:
    """A question or a sum, answered inside an object."""
    how, fence = look(rng), rng.random() < 0.25
    name = rng.choice(ANSWER)
    if rng.random() < 0.6:
        one = rng.choice((wide_talk.arithmetic, wide_more.word_sum))(rng)
        found = re.search(r"(-?\d+)\.?$", one.answer)
        value: Json = {name: int(found[1])} if found else {name: one.answer}
        values: dict[str, Json] = {name: {"type": "integer" if found else "string"}}
    else:
        one = rng.choice((wide_talk.three, wide_more.define, wide_more.who, wide_more.greet))(rng)
        value, values = {name: one.answer}, {name: {"type": "string"}}
    schema = _object(rng.choice(("Answer", "Reply", "Response", "Result", "Output")), values, how, rng)
    order = _order(_printed(schema, rng), fence, rng)
    user = one.user
    if fence and not any(text in order for text in FENCE):
        user += "\n\n" + rng.choice(FENCE)
    opening = order if rng.random() < 0.75 else ""
    user = user if opening else f"{order}\n\n{user}"
    return Chat(
        [Turn("user", user), Turn("assistant", _fenced(value, fence))], "wide_prompted", (), opening, expect=value
    )


# -- tools named as classes

MADE = lines("""A {c}, as far as the text gives it|The {c} that the text describes|Creates a {c}.|Fills in a {c}.|A {c} found in the text|Store a {c}|{c}|Return the {c}.|
Makes a {c} out of what was said.""")


def tool_call(rng: Random) -> Chat:
    """A class as the only tool, or some of them: the text is told, and nobody says that something is to be called."""
    tools: dict[str, Json] = {}
    described = rng.random() < 0.7
    how = look(rng)
    chosen = asked(rng)
    while chosen.missing:
        chosen = asked(rng)
    text, value = chosen.draw(rng)
    name = str(chosen.schema.get("title") or chosen.form.name)
    tools[name] = chosen.schema
    for _ in range(rng.choice((0, 0, 0, 1, 2, 3))):
        other = form(rng)
        tools.setdefault(other.name, _object(other.name, other.values, how, rng))
    turns = [Turn("user", rng.choice(GIVE).replace("{t}", text)), Turn("assistant", calls=[(name, value)])]
    if rng.random() < 0.25:
        turns += [
            Turn("tool", rng.choice(('{"status": "ok"}', "ok", '{"ok": true}', "done"))),
            Turn("assistant", "It is done."),
        ]
    shown = []
    for one in rng.sample(list(tools), len(tools)):
        about = rng.choice(MADE).format(c=rng.choice((one, _title(one).lower())))
        parameters = {key: part for key, part in tools[one].items() if key != "title"}
        function: Json = {"name": one} | ({"description": about} if described else {}) | {"parameters": parameters}
        shown.append({"type": "function", "function": function})
    return Chat(turns, "wide_tools", (), rng.choice(ROLE) if rng.random() < 0.25 else "", shown, expect=None)
