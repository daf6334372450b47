"""Random JSON schemas of the kinds that clients send, and what they are checked by."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

Schema = dict[str, Any]
NAMES = st.sampled_from(["name", "age", "city", "days", "unit", "tags", "a b", "é", 'q"', "content", "type", "$ref"])
WORDS = st.text(alphabet='ab é"\\\n人/{}', max_size=6)
PATTERNS = ("^[a-c]{2,4}$", "^\\d{3}-\\d{4}$", "^(red|green)?$", "^[A-Z][a-z]*$", "^x+y*$")
CHECKED = ("date", "uuid", "ipv4", "email")  # jsonschema's own idea of a time has no zone
FORMATS = ("date", "time", "date-time", "uuid", "ipv4", "email")


@st.composite
def strings(draw: st.DrawFn) -> Schema:
    kind = draw(st.sampled_from(["plain", "length", "pattern", "format"]))
    if kind == "pattern":
        return {"type": "string", "pattern": draw(st.sampled_from(PATTERNS))}
    if kind == "format":
        return {"type": "string", "format": draw(st.sampled_from(FORMATS))}
    if kind == "length":
        least = draw(st.integers(0, 4))
        return {"type": "string", "minLength": least, "maxLength": least + draw(st.integers(0, 8))}
    return {"type": "string", "maxLength": 30}


@st.composite
def numbers(draw: st.DrawFn) -> Schema:
    schema: Schema = {"type": draw(st.sampled_from(["integer", "number"]))}
    low = draw(st.integers(-1000, 1000))
    high = low + draw(st.integers(2, 2000))
    if draw(st.booleans()):
        schema[draw(st.sampled_from(["minimum", "exclusiveMinimum"]))] = low
    if draw(st.booleans()):
        schema[draw(st.sampled_from(["maximum", "exclusiveMaximum"]))] = high
    if schema["type"] == "integer" and draw(st.integers(0, 3)) == 0:
        schema = {"type": "integer", "multipleOf": draw(st.integers(2, 12))}
    return schema


def values() -> st.SearchStrategy[Any]:
    return st.none() | st.booleans() | st.integers(-50, 50) | WORDS | st.lists(st.integers(0, 9), max_size=3)


def leaves() -> st.SearchStrategy[Schema]:
    fixed = st.lists(values(), min_size=1, max_size=4, unique_by=json.dumps).map(lambda found: {"enum": found})
    const = values().map(lambda value: {"const": value})
    simple = st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["integer", "null"]}])
    return st.one_of(strings(), numbers(), fixed, const, simple)


@st.composite
def objects(draw: st.DrawFn, children: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(NAMES, children, max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    schema: Schema = {"type": "object", "properties": properties, "required": required}
    more = draw(st.sampled_from(["closed", "closed", "typed", "described"]))
    if more == "closed":
        schema["additionalProperties"] = False
    elif more == "typed":
        schema["additionalProperties"] = {"type": "integer"}
    else:
        schema |= {"title": "a thing", "description": "with words", "additionalProperties": False}
    return schema


@st.composite
def arrays(draw: st.DrawFn, children: st.SearchStrategy[Schema]) -> Schema:
    least = draw(st.integers(0, 2))
    schema: Schema = {"type": "array", "minItems": least, "maxItems": least + draw(st.integers(0, 3))}
    if draw(st.integers(0, 3)) == 0:
        schema["prefixItems"] = draw(st.lists(children, min_size=1, max_size=2))
    return {**schema, "items": draw(children)}


def trees(depth: int) -> st.SearchStrategy[Schema]:
    if depth == 0:
        return leaves()
    children = trees(depth - 1)
    either = st.lists(children, min_size=1, max_size=3).map(lambda found: {"anyOf": found})
    both = strings().map(lambda found: {"allOf": [found, {"type": "string"}]})
    return st.one_of(leaves(), objects(children), objects(children), arrays(children), either, both)


SMALL_TREES, TREES = trees(1), trees(3)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    kind = draw(st.sampled_from(["tree", "tree", "tree", "tree", "definitions", "recursion"]))
    if kind == "tree":
        return draw(TREES)
    if kind == "definitions":
        shared = draw(SMALL_TREES)
        body = draw(objects(st.one_of(st.just({"$ref": "#/$defs/shared"}), leaves())))
        return {"$defs": {"shared": shared}, **body}
    value, name = draw(leaves()), draw(st.sampled_from(["definitions", "$defs"]))
    node = {
        "type": "object",
        "properties": {"value": value, "next": {"anyOf": [{"$ref": f"#/{name}/node"}, {"type": "null"}]}},
        "required": ["value", "next"],
        "additionalProperties": False,
    }
    return {name: {"node": node}, "$ref": f"#/{name}/node"}


def gathered(count: int) -> list[Schema]:
    """`count` different schemas, the same ones in every run."""
    found: dict[str, Schema] = {}
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

    @settings(max_examples=count + count // 2, phases=[Phase.generate], suppress_health_check=checks, database=None)
    @given(schemas())
    def gather(schema: Schema) -> None:
        if len(found) < count:
            found[json.dumps(schema)] = schema

    gather()
    assert len(found) == count
    return list(found.values())


def complaint(schema: Schema, text: str) -> str | None:
    """What is wrong with an answer; None: nothing."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"{text!r} is no JSON: {error}"
    errors = list(Draft202012Validator(schema, format_checker=FormatChecker(CHECKED)).iter_errors(value))
    return f"{text!r} does not fit {json.dumps(schema)}: {errors[0].message}" if errors else None
