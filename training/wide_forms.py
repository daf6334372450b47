"""JSON and tool calls with schemas that no two chats share: random names, types, nesting, choices and lists."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from training import facts, wide, wide_records, wide_talk
from training.data_chat import Chat, Turn
from training.wide_facts import capital, typed
from training.wide_listed import listed
from training.wide_long import joined, system
from training.wide_talk import lines

Draw = Callable[[Random], Any]


@dataclass(frozen=True)
class Field:
    """`words` is how people speak of it, `name` how the schema spells it."""

    words: str
    name: str
    kind: str  # string, integer, number, boolean, array, enum
    value: Any
    choices: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        if self.kind == "enum":
            return {"type": "string", "enum": list(self.choices)}
        if self.kind == "array":
            return {"type": "array", "items": {"type": "integer" if isinstance(self.value[0], int) else "string"}}
        return {"type": self.kind}

    @property
    def said(self) -> str:
        if self.kind == "boolean":
            return "true" if self.value else "false"
        return joined([str(one) for one in self.value]) if self.kind == "array" else str(self.value)


TEXTS: dict[str, wide.Value] = {
    "name": wide.person, "first name": wide.first_name, "last name": wide.last_name, "city": wide.town, "country": lambda rng:
    rng.choice(facts.countries())[0], "job": lambda rng: rng.choice(facts.JOBS), "color": wide.colour, "email": wide.mail, "date": wide.date,
    "start date": wide.date, "time": wide.clock, "address": wide.address, "title": wide.phrase, "item": wide.phrase, "product": wide.phrase,
    "owner": wide.person, "customer": wide.person, "author": wide.person, "sender": wide.person, "recipient": wide.person, "origin":
    wide.town, "destination": wide.town, "location": wide.site, "venue": wide.site, "street": wide.site, "code": wide.code, "reference":
    wide.code, "order id": wide.code, "file": wide.path, "path": wide.path, "language": lambda rng: rng.choice(("French", "German", "English")),
    "day": lambda rng: rng.choice(facts.DAYS), "month": lambda rng: rng.choice(facts.MONTHS), "animal": lambda rng: rng.choice(facts.ANIMALS),
    "material": lambda rng: rng.choice(facts.MATERIALS), "topic": wide.noun, "keyword": wide.word, "tag": wide.word, "query": wide.phrase,
    "subject": wide.phrase, "message": wide.deed, "note": wide.deed, "password": wide.code, "phone": wide.phone, "team": wide.word,
    "instrument": lambda rng: rng.choice(facts.INSTRUMENTS), "fruit": lambda rng: rng.choice(facts.FRUITS), "plate": wide.code,
    "brand": lambda rng: capital(wide.made_up(rng)), "model": wide.code, "host": wide.ip, "user": wide.first_name, "patient": wide.person,
}  # fmt: skip
COUNTS = lines("""age|price|quantity|amount|weight|height|width|count|year|score|level|room|floor|duration|distance|limit|size|number of
guests|seats|pages|volume|temperature|speed|port|rating|stock|total|points|days|minutes|capacity|rank|version|priority|budget""")
FLAGS = lines(
    "active|urgent|paid|available|verified|open|public|enabled|done|visible|in stock|approved|member|round trip|confirmed"
)
CHOICES = {
    "status": lines("open|closed|pending|done|failed"), "size": lines("small|medium|large"), "unit": lines("celsius|fahrenheit|kelvin"),
    "priority": lines("low|normal|high"), "mode": lines("auto|manual|off"), "category": lines("food|travel|work|home"), "format":
    lines("pdf|csv|html|txt"), "gender": lines("female|male|other"), "level": lines("beginner|intermediate|expert"), "type":
    lines("car|bike|train|plane"), "sentiment": lines("positive|negative|neutral"), "shift": lines("morning|evening|night"),
}  # fmt: skip
LISTS: dict[str, wide.Value] = {
    "items": wide.noun, "tags": wide.word, "guests": wide.first_name, "colors": wide.colour, "cities": wide.town, "ingredients":
    lambda rng: rng.choice(facts.FOODS + facts.VEGETABLES), "members": wide.first_name, "files": wide.path, "keywords": wide.noun,
    "animals": lambda rng: rng.choice(facts.ANIMALS), "days": lambda rng: rng.choice(facts.DAYS), "codes": wide.code,
}  # fmt: skip


def _spelled(words: str, style: int) -> str:
    parts = words.split(" ")
    if style == 1 and len(parts) > 1:
        return parts[0] + "".join(map(capital, parts[1:]))
    return "-".join(parts) if style == 2 else "_".join(parts)


def field(rng: Random, style: int) -> Field:
    draw = rng.random()
    prefix = f"{wide.noun(rng)} " if rng.random() < 0.2 else ""
    if draw < 0.48:
        words = rng.choice(list(TEXTS))
        if rng.random() < 0.12:  # a name that says nothing of its values
            words, prefix = wide.noun(rng), ""
            return Field(words, _spelled(words, style), "string", wide.word(rng))
        return Field(prefix + words, _spelled(prefix + words, style), "string", TEXTS[words](rng))
    if draw < 0.7:
        words = prefix + rng.choice(COUNTS)
        return Field(words, _spelled(words, style), "integer", rng.randint(0, rng.choice((9, 99, 999, 9999))))
    if draw < 0.77:
        words = prefix + rng.choice(COUNTS)
        return Field(
            words, _spelled(words, style), "number", round(rng.uniform(0, rng.choice((5, 99, 999))), rng.choice((1, 2)))
        )
    if draw < 0.85:
        words = rng.choice(FLAGS)
        return Field(words, _spelled(rng.choice(("is ", "", "")) + words, style), "boolean", rng.random() < 0.5)
    if draw < 0.92:
        words = rng.choice(list(CHOICES))
        chosen = tuple(rng.sample(CHOICES[words], rng.randint(2, len(CHOICES[words]))))
        return Field(prefix + words, _spelled(prefix + words, style), "enum", rng.choice(chosen), chosen)
    words = rng.choice(list(LISTS))
    values = list(dict.fromkeys(LISTS[words](rng) for _ in range(rng.randint(1, 4))))
    if rng.random() < 0.15:
        words, values = "numbers", [rng.randint(0, 99) for _ in range(rng.randint(2, 4))]
    return Field(words, _spelled(words, style), "array", values)


def fields(rng: Random, least: int = 1, most: int = 6) -> list[Field]:
    style = rng.randrange(3) if rng.random() < 0.5 else 0
    found: dict[str, Field] = {}
    for _ in range(rng.randint(least, most)):
        one = field(rng, style)
        if all(one.words not in other.words and other.words not in one.words for other in found.values()):
            found[one.name] = one
    return list(found.values())


# -- how values are told

TOLD = lines("""the {w} is {v}|its {w} is {v}|{w}: {v}|{w} {v}|with {v} as {w}|{w} = {v}|{v} is the {w}|it has the {w} {v}|the {w} was {v}|
as {w} we have {v}|{w} should be {v}|set the {w} to {v}|for {w} take {v}|use {v} for {w}|{w} is {v}|the {w} must be {v}""")
FLAGGED = {
    True: lines("it is {w}|the {w} flag is true|{w}: yes|{w} is true|{w} = true|yes, it is {w}|this one is {w}"),
    False: lines(
        "it is not {w}|the {w} flag is false|{w}: no|{w} is false|{w} = false|no, it is not {w}|this one is not {w}"
    ),
}


def _told(one: Field, rng: Random, form: str = "") -> str:
    if one.kind == "boolean":
        return rng.choice(FLAGGED[one.value]).format(w=one.words)
    if one.kind == "array":
        return rng.choice(("the {w} are {v}", "{w}: {v}", "{w} are {v}", "its {w}: {v}")).format(
            w=one.words, v=one.said
        )
    return (form or rng.choice(TOLD)).format(w=one.words, v=one.said)


def text_of(found: list[Field], rng: Random) -> str:
    form = rng.choice(TOLD) if rng.random() < 0.5 else ""
    parts = [_told(one, rng, form) for one in rng.sample(found, len(found))]
    draw = rng.random()
    if draw < 0.3:
        return "\n".join(capital(part) for part in parts)
    if draw < 0.6:
        return ". ".join(capital(part) for part in parts) + "."
    return capital(", ".join(parts)) + rng.choice((".", ""))


# -- JSON

WANT = lines("""return JSON with {k}|answer in JSON with the keys {k}|give me a JSON object with {k}|extract {k} as JSON|JSON only, fields: {k}|
output a JSON object with the following keys: {k}|convert this to JSON ({k})|write it as JSON, keys {k}|I need JSON with {k}|respond with
valid JSON containing {k}|make JSON out of this, use the keys {k}|parse this into JSON with {k}|put it into a JSON structure: {k}|turn the text
into JSON using {k}|please produce JSON having {k}|your reply must be a JSON object with exactly these keys: {k}|json with {k} please|as JSON:
{k}|give back only JSON with {k}|fill in this JSON: {k}|from the text, build JSON with {k}|structure the data as JSON with fields {k}|can you
format this as JSON with {k}|I want the output in JSON, including {k}|create a record in JSON: {k}|read the text and return {k} in JSON|respond
in JSON format with {k}|reply with JSON and nothing else: {k}|no prose, just a JSON object with {k}|summarize this as JSON: {k}""")
SCHEMA = lines("""return JSON that matches this schema: {s}|answer with JSON that follows the schema {s}|JSON schema: {s} Fill it in.|use this
schema: {s}|the answer must validate against {s}|produce an object for this JSON schema: {s}|output JSON conforming to {s}|here is the schema:
{s} Give me the object.""")
LIKE = lines("""return JSON in this form: {s}|answer in this format: {s}|use exactly this structure: {s}|fill in this template: {s}|the output
should look like {s}|follow this example of the format: {s}|complete: {s}|JSON like {s}""")


def _schema(found: list[Field]) -> dict[str, Any]:
    names = [one.name for one in found]
    return {"type": "object", "properties": {one.name: one.schema for one in found}, "required": names}


def _keys(found: list[Field], rng: Random) -> str:
    types = [one.kind if one.kind != "enum" else "one of " + ", ".join(one.choices) for one in found]
    return listed([one.name for one in found], rng, types, block=False)


def _of(name: str, value: Any) -> Field:
    return Field(name.replace("_", " "), name, "integer" if isinstance(value, int) else "string", value)


def json_record(rng: Random) -> Chat:
    """A sentence of everyday, or some about different things of one kind."""
    drawn = wide_records.draw(rng)
    found = [_of(name, value) for name, value in drawn.values.items()]
    wanted = found if rng.random() < 0.65 else rng.sample(found, rng.randint(1, len(found)))
    value = {one.name: one.value for one in wanted}
    draw = rng.random()
    if draw < 0.2:
        order = rng.choice(SCHEMA).replace("{s}", json.dumps(_schema(wanted)))
    elif draw < 0.35:
        order = rng.choice(LIKE).replace("{s}", json.dumps(_template(value)))
    else:
        order = rng.choice(WANT).replace("{k}", _keys(wanted, rng))
    return _json_chat(drawn.text, capital(order), value, rng)


def json_answer(rng: Random) -> Chat:
    if rng.random() < 0.4:
        return json_record(rng)
    found = fields(rng, 1, rng.choice((3, 5, 7)))
    text = text_of(found, rng)
    wanted = found if rng.random() < 0.6 else rng.sample(found, rng.randint(1, len(found)))
    value: Any = {one.name: one.value for one in wanted}
    draw = rng.random()
    if draw < 0.14 and len(wanted) > 1:  # an object inside
        cut, name = rng.randint(1, len(wanted) - 1), wide.noun(rng)
        inside = {one.name: one.value for one in wanted[cut:]}
        value = {one.name: one.value for one in wanted[:cut]} | {name: inside}
        order = f"{rng.choice(LIKE)}".replace("{s}", json.dumps(_template(value)))
    elif draw < 0.24:  # a list of objects
        return _json_list(rng)
    elif draw < 0.45:
        shown = json.dumps(_schema(wanted), indent=rng.choice((None, None, 2)))
        order = rng.choice(SCHEMA).replace("{s}", shown)
    elif draw < 0.6:
        order = rng.choice(LIKE).replace("{s}", json.dumps(_template(value)))
    else:
        order = rng.choice(WANT).replace("{k}", _keys(wanted, rng))
    return _json_chat(text, capital(order), value, rng)


def _template(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _template(part) for name, part in value.items()}
    if isinstance(value, list):
        return ["..."]
    return {bool: "true or false", int: "number", float: "number"}.get(type(value), "string")


def _json_list(rng: Random) -> Chat:
    form = fields(rng, 2, 3)
    rows = []
    for _ in range(rng.randint(2, 4)):
        rows.append([Field(one.words, one.name, one.kind, redrawn(one, rng), one.choices) for one in form])
    text = "\n".join(", ".join(f"{one.words} {one.said}" for one in row) for row in rows)
    value = [{one.name: one.value for one in row} for row in rows]
    want = rng.choice(("return a JSON array of objects with {k}", "JSON list, one object for each line, keys {k}",
                       "make an array of JSON objects ({k})", "convert each line to JSON with {k}, as one array"))  # fmt: skip
    return _json_chat(text, capital(want.replace("{k}", _keys(form, rng))), value, rng)


def redrawn(one: Field, rng: Random) -> Any:
    if one.kind == "string":
        known = next((draw for words, draw in TEXTS.items() if one.words.endswith(words)), wide.word)
        return known(rng)
    if one.kind == "integer":
        return rng.randint(0, 999)
    if one.kind == "number":
        return round(rng.uniform(0, 99), 1)
    return rng.random() < 0.5 if one.kind == "boolean" else rng.choice(one.choices) if one.kind == "enum" else one.value


def _json_chat(text: str, order: str, value: Any, rng: Random) -> Chat:
    draw = rng.random()
    indent = rng.random() < 0.12
    if indent:
        order += rng.choice((" Use indentation.", " Pretty-print it.", " Indent it by two spaces."))
    order += "" if order[-1] in ".}?" else rng.choice((".", "", "."))
    answer = json.dumps(value, ensure_ascii=False, indent=2 if indent else None)
    opening = system(rng) if rng.random() < 0.25 else ""
    if draw < 0.1:
        opening, user = order, text
    elif draw < 0.55:
        user = f"{text}\n\n{order}"
    elif draw < 0.7:
        user = f"{text} {order}"
    else:
        user = f"{order}{rng.choice((chr(10), chr(10) * 2, ' Text: ', chr(10) + 'Text: '))}{text}"
    return Chat([Turn("user", user), Turn("assistant", answer)], "wide_json", (), opening, expect=value)


# -- tools

VERBS = lines("""get|create|update|delete|find|search|send|book|order|cancel|check|start|stop|open|close|add|remove|list|calculate|convert|
schedule|play|set|fetch|read|write|move|copy|rename|print|translate|reserve|track|lock|unlock|register|assign|measure|compare|lookup|query|
submit|upload|download|verify|notify|log|store|load|plan|estimate""")
ASK = lines("""{d}: {p}|please {d}, {p}|I want to {d}. {P}|can you {d}? {P}|could you {d} with {p}|{d} with {p}|{d}, {p}|I need you to {d}: {p}|
would you {d}? {P}|{d} where {p}|let's {d}. {P}|I'd like to {d}; {p}|use {f} with {p}|call {f}: {p}|run {f}, {p}|{P}. Please {d}|help me {d}.
{P}|{d} now, {p}|go ahead and {d}. {P}|time to {d}: {p}|{P} - {d} for me""")


@dataclass(frozen=True)
class Tool:
    name: str
    deed: str  # such as: book a flight
    fields: list[Field]
    optional: frozenset[str]

    def signature(self, described: bool) -> dict[str, Any]:
        properties = {}
        for one in self.fields:
            properties[one.name] = one.schema | ({"description": f"The {one.words}."} if described else {})
        required = [one.name for one in self.fields if one.name not in self.optional]
        parameters = {"type": "object", "properties": properties, "required": required}
        function = {"name": self.name, "description": capital(self.deed) + ".", "parameters": parameters}
        return {"type": "function", "function": function}


def tool(rng: Random, most: int = 4) -> Tool:
    verb, noun = rng.choice(VERBS), wide.noun(rng)
    style = rng.randrange(5)
    name = (
        f"{verb}_{noun}",
        f"{verb}_{noun}",
        f"{verb}{capital(noun)}",
        f"{noun}_{verb}",
        f"{verb}_{wide.adjective(rng)}_{noun}",
    )[style]
    own = fields(rng, 1, most)
    optional = frozenset(one.name for one in own[1:] if rng.random() < 0.25)
    return Tool(name, f"{verb} {rng.choice((facts.an(noun), f'the {noun}', facts.an(noun)))}", own, optional)


def _everyday(drawn: wide_records.Drawn) -> Tool:
    deed = drawn.tool.replace("_", " ")
    return Tool(drawn.tool, deed, [_of(name, value) for name, value in drawn.asked.items()], frozenset())


def _ask(one: Tool, given: list[Field], rng: Random) -> str:
    text = rng.choice(ASK)
    form = rng.choice(("{w} {v}", "{w}: {v}", "the {w} is {v}", "{w}={v}", "{v} as {w}", ""))
    pairs = ", ".join(_told(part, rng, form) for part in rng.sample(given, len(given)))
    text = text.replace("{d}", one.deed).replace("{f}", one.name)
    text = text.replace("{p}", pairs).replace("{P}", capital(pairs))
    return (
        typed(
            capital(text) + ("" if text[-1] in ".?!" else rng.choice((".", "", "."))),
            rng,
            [part.said for part in given],
        )
        if all(part.kind in ("integer", "number", "boolean") for part in given)
        else capital(text) + rng.choice((".", "", "."))
    )


RESULT = lines("the {w} is {v}|{w}: {v}")


def tool_call(rng: Random) -> Chat:
    """One to six tools and a request that needs one; mostly the tool's answer and what is said of it."""
    tools: dict[str, Tool] = {}
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4, 5))):
        one = tool(rng) if rng.random() < 0.6 else _everyday(wide_records.draw(rng))
        tools[one.name] = one
    turns: list[Turn] = []
    if rng.random() < 0.15:
        other = rng.choice((wide_talk.greet, wide_talk.who, wide_talk.thanks, wide_talk.arithmetic, wide_talk.stated))(
            rng
        )
        turns += [Turn("user", other.user), Turn("assistant", other.answer)]
    for _ in range(rng.choice((1, 1, 1, 2))):
        if rng.random() < 0.45:
            drawn = wide_records.draw(rng)
            if all(drawn.tool != name for name in tools) and not turns:
                tools[drawn.tool] = _everyday(drawn)
                text = capital(drawn.request) + rng.choice((".", "?", "", "!"))
                turns.append(Turn("user", text))
                turns.append(Turn("assistant", calls=[(drawn.tool, dict(drawn.asked))]))
                continue
        chosen = rng.choice(list(tools.values()))
        given = [
            Field(one.words, one.name, one.kind, redrawn(one, rng), one.choices)
            for one in chosen.fields
            if one.name not in chosen.optional or rng.random() < 0.5
        ]
        turns.append(Turn("user", _ask(chosen, given, rng)))
        turns.append(Turn("assistant", calls=[(chosen.name, {one.name: one.value for one in given})]))
        if rng.random() < 0.6:
            found = [one for one in fields(rng, 1, 2) if one.kind != "array"] or [
                Field("status", "status", "string", "ok")
            ]
            turns.append(Turn("tool", json.dumps({one.name: one.value for one in found})))
            said = joined([f"the {one.words} is {one.said}" for one in found])
            turns.append(Turn("assistant", capital(said) + "."))
    shown = rng.sample(list(tools.values()), len(tools))
    described = rng.random() < 0.4
    signatures = [one.signature(described) for one in shown]
    return Chat(turns, "wide_tools", (), system(rng) if rng.random() < 0.3 else "", signatures, expect=None)
