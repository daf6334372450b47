"""JSON values in a model's output: copied as they stream, or made from text by a tool's schema.

`copy_value` copies one value exactly to its end. Its output is at every moment the beginning of valid JSON. Valid text
is copied byte for byte; slips with only one meaning are corrected: control characters in strings, backslashes before
characters that need none, a comma before a closing bracket, and Python's True, False and None.

`convert` is for formats that write values without quotes.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.conversation.parsing.source import Source, Steps

DEPTH = 128  # Python's parser fails at about a thousand levels, those of other languages sooner
PYTHON = 20_000  # characters of a value in Python's notation
SCALAR = 256  # characters; Python parses integers of up to 4,300 digits

_space = re.compile(r"[ \t\n\r]+")
_plain = re.compile(r'(?:[^"\\\x00-\x1f]+|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})+')
_word = re.compile(r"[A-Za-z0-9.+-]*")
_number = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_words = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}


class NotJSON(Exception):
    """The text is not JSON."""


class Incomplete(Exception):
    """The text ended before the value did."""


def copy_value(source: Source, write: Callable[[str], None]) -> Steps[None]:
    """Takes one value that begins here and writes it. Raises NotJSON or Incomplete."""
    brackets: list[str] = []
    held = ""  # a comma and the space after it, until something follows
    expected = "value"  # value, first value, key, first key, colon, comma
    while True:
        yield from _need(source)
        if space := source.match(_space):
            source.take(len(space))
            if held:
                held += space
            else:
                write(space)
            continue
        character = source.peek()
        if character in "}]":
            closes = brackets and brackets[-1] == ("{" if character == "}" else "[")
            if not closes or expected == "colon" or (expected == "value" and brackets[-1] == "{"):
                raise NotJSON
            source.take(1)
            write(held[1:] + character)  # without the trailing comma
            held = ""
            brackets.pop()
            if not brackets:
                return
            expected = "comma"
        elif expected == "comma":
            if character != ",":
                raise NotJSON
            held = source.take(1)
            expected = "key" if brackets[-1] == "{" else "value"
        elif expected == "colon":
            if character != ":":
                raise NotJSON
            write(source.take(1))
            expected = "value"
        elif expected in ("key", "first key"):
            if character != '"':
                raise NotJSON
            write(held)
            held = ""
            yield from _copy_string(source, write)
            expected = "colon"
        elif character in "{[":
            if len(brackets) == DEPTH:
                raise NotJSON
            write(held + source.take(1))
            held = ""
            brackets.append(character)
            expected = "first key" if character == "{" else "first value"
        else:
            if character == '"':
                write(held)
                yield from _copy_string(source, write)
            else:
                word = yield from _scalar(source)
                if word is None:
                    raise NotJSON
                write(held + word)
            held = ""
            if not brackets:
                return
            expected = "comma"


def _copy_string(source: Source, write: Callable[[str], None]) -> Steps[None]:
    write(source.take(1))
    while True:
        yield from _need(source)
        if plain := source.match(_plain):
            write(source.take(len(plain)))
            continue
        character = source.peek()
        if character == '"':
            write(source.take(1))
            return
        if character != "\\":
            write(json.dumps(source.take(1))[1:-1])
            continue
        yield from _need(source, 2)
        source.take(1)
        escaped = source.peek()
        if escaped == "u":
            source.take(1)
            digits = yield from _hex_digits(source)
            write(("\\u" if len(digits) == 4 else "\\\\u") + digits)
        elif escaped in '"\\/bfnrt':
            write("\\" + source.take(1))
        else:
            write("\\\\")


def _hex_digits(source: Source) -> Steps[str]:
    digits = ""
    while len(digits) < 4:
        yield from _need(source)
        if source.peek() not in "0123456789abcdefABCDEF":
            break
        digits += source.take(1)
    return digits


def _scalar(source: Source) -> Steps[str | None]:
    """Takes a number or a word and returns it as JSON; None, with nothing taken, if it is neither."""
    text = source.match(_word)
    while len(text) == source.available and len(text) <= SCALAR:
        yield from _need(source, len(text) + 1)
        text = source.match(_word)
    if text in _words:
        source.take(len(text))
        return _words[text]
    if len(text) <= SCALAR and _number.fullmatch(text):
        return source.take(len(text))
    return None


def _need(source: Source, count: int = 1) -> Steps[None]:
    if not (yield from source.want(count)):
        raise Incomplete


_integer = re.compile(r"[+-]?[0-9]+(?:\.0*)?")
_kinds = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}


def properties(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a tool as OpenAI's chat, OpenAI's responses or Anthropic write it; {} if it has none."""
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
    """The JSON types that a value may have; empty if the schema does not say."""
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
    """Whether the value is a string whatever is written. A parameter that is not in the schema is a string."""
    return not known or kinds(schema) == {"string"}


def convert(text: str, schema: Any) -> str:
    """The value as JSON: of the first allowed type that the text has, else a string."""
    allowed = kinds(schema)
    word = text.strip()
    lower = word.lower()
    if "null" in allowed and lower in ("null", "none"):
        return "null"
    if "boolean" in allowed and lower in ("true", "false"):
        return lower
    if "integer" in allowed and len(word) <= SCALAR and _integer.fullmatch(word):
        return str(int(word.partition(".")[0]))
    if "number" in allowed and len(word) <= SCALAR and (number := _as_number(word)):
        return number
    if (not allowed or allowed & {"object", "array"}) and word[:1] in ("{", "["):
        kind = "object" if word[0] == "{" else "array"
        value = container(word) or _python_container(word)
        if value is not None and (not allowed or kind in allowed):
            return value
    return json.dumps(text, ensure_ascii=False)


def _as_number(word: str) -> str | None:
    if _integer.fullmatch(word):
        return str(int(word.partition(".")[0]))
    try:
        value = float(word)
    except ValueError:
        return None
    return json.dumps(value) if math.isfinite(value) and "_" not in word else None


def container(word: str) -> str | None:
    """The text of an object or array, written again as strict JSON; None if it is neither."""
    try:
        value = json.loads(word, strict=False, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return dump(value) if isinstance(value, dict | list) else None


def _python_container(word: str) -> str | None:
    """The same of Python's notation, which models also write: templates show them such values."""
    if len(word) > PYTHON:
        return None
    try:
        value = ast.literal_eval(word)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return dump(value) if isinstance(value, dict | list) else None


def dump(value: Any) -> str | None:
    """A parsed value as JSON; None if JSON cannot express it."""
    try:
        if _depth(value) > DEPTH:
            return None
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can write
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
