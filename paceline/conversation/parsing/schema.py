"""From a parameter's text to its value, by the tool's JSON schema. For formats that write values without quotes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.conversation.parsing.json_text import DEPTH, SCALAR

_integer = re.compile(r"[+-]?[0-9]+(?:\.0*)?")
_kinds = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}


def properties(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a tool, in OpenAI's chat shape, in its responses shape or in Anthropic's; {} if it has none."""
    function = tool.get("function")
    inside = function if isinstance(function, Mapping) else tool
    schema = inside.get("parameters") or inside.get("input_schema")
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def tool_name(tool: Mapping[str, Any]) -> str | None:
    function = tool.get("function")
    name = (function if isinstance(function, Mapping) else tool).get("name")
    return name if isinstance(name, str) and name else None


def kinds(schema: Any, depth: int = 0) -> frozenset[str]:
    """The JSON types a value may have; none where the schema does not say."""
    if not isinstance(schema, Mapping) or depth > 8:
        return frozenset()
    named = schema.get("type")
    found = {named} if isinstance(named, str) else set()
    if isinstance(named, Sequence) and not isinstance(named, str):
        found |= {kind for kind in named if isinstance(kind, str)}
    if not found:
        enum = schema.get("enum")
        values = list(enum) if isinstance(enum, list) else []
        values += [schema["const"]] if "const" in schema else []
        found |= {"null" if value is None else _kinds.get(type(value), "string") for value in values}
    if not found:
        for word in ("anyOf", "oneOf", "allOf"):
            branches = schema.get(word)
            for branch in branches if isinstance(branches, list) else []:
                found |= kinds(branch, depth + 1)
    return frozenset(found)


def is_text(schema: Any, known: bool) -> bool:
    """Whether the value is a string, whatever is written. A parameter that the schema does not know is one."""
    return not known or kinds(schema) == {"string"}


def convert(text: str, schema: Any) -> str:
    """The value as JSON: of the types that the schema allows, the first that the text is; a string if it is none."""
    allowed = kinds(schema)
    word = text.strip()
    lower = word.lower()
    if "null" in allowed and lower in ("null", "none"):
        return "null"
    if "boolean" in allowed and lower in ("true", "false"):
        return lower
    if "integer" in allowed and len(word) <= SCALAR and _integer.fullmatch(word):
        return str(int(word.partition(".")[0]))
    if "number" in allowed and len(word) <= SCALAR and (number := _number(word)):
        return number
    if (not allowed or allowed & {"object", "array"}) and word[:1] in ("{", "["):
        kind = "object" if word[0] == "{" else "array"
        value = container(word)
        if value is not None and (not allowed or kind in allowed):
            return value
    return json.dumps(text, ensure_ascii=False)


def _number(word: str) -> str | None:
    if _integer.fullmatch(word):
        return str(int(word.partition(".")[0]))
    try:
        value = float(word)
    except ValueError:
        return None
    return json.dumps(value) if math.isfinite(value) and "_" not in word else None


def container(word: str) -> str | None:
    """The text of an object or array, written anew as JSON that every client can read; None if it is none."""
    try:
        value = json.loads(word, strict=False, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return dump(value) if isinstance(value, dict | list) else None


def dump(value: Any) -> str | None:
    """JSON for a value from outside; None where JSON has no word for it."""
    try:
        if _depth(value) > DEPTH:
            return None
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:  # half of a character, which only an escape can write
        return json.dumps(value, allow_nan=False)
    except (ValueError, TypeError):
        return None
    return text


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _depth(value: Any) -> int:
    level, deepest = [value] if isinstance(value, dict | list | tuple) else [], 0
    while level and deepest <= DEPTH:
        deepest += 1
        inside = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
        level = [inner for inner in inside if isinstance(inner, dict | list | tuple)]
    return deepest


def string(text: str) -> str:
    value = json.loads(text)
    return value if isinstance(value, str) else ""
