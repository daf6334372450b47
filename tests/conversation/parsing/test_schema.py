from __future__ import annotations

import json
from typing import Any

import pytest

from paceline.conversation.parsing import schema


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", {"type": "integer"}, 3),
        (" 3\n", {"type": "integer"}, 3),
        ("3.0", {"type": "integer"}, 3),
        ("3.5", {"type": "integer"}, "3.5"),
        ("+3", {"type": "number"}, 3),
        ("-3.5e2", {"type": "number"}, -350.0),
        ("nan", {"type": "number"}, "nan"),
        ("1e999", {"type": "number"}, "1e999"),
        ("1_000", {"type": "number"}, "1_000"),
        ("9" * 5000, {"type": "integer"}, "9" * 5000),
        ("True", {"type": "boolean"}, True),
        ("yes", {"type": "boolean"}, "yes"),
        ("null", {"type": "string"}, "null"),
        ("null", {"type": ["string", "null"]}, None),
        ("None", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ("3", {"type": "string"}, "3"),
        ("3", {"type": ["string", "integer"]}, 3),
        (' {"a": [1]}\n', {"type": "object"}, {"a": [1]}),
        ("[1, 2]", {"type": "array"}, [1, 2]),
        ("[1, 2]", {"type": "object"}, "[1, 2]"),
        ("[1, ", {"type": "array"}, "[1, "),
        ("[NaN]", {"type": "array"}, "[NaN]"),
        ("[1e999]", {"type": "array"}, "[1e999]"),
        ("[" * 5000 + "]" * 5000, {"type": "array"}, "[" * 5000 + "]" * 5000),
        ("[1]", {"oneOf": [{"type": "array"}, {"type": "string"}]}, [1]),
        ("2", {"enum": [1, 2]}, 2),
        ("2", {"const": "2"}, "2"),
        ('{"a": 1}', {}, {"a": 1}),
        ("3", {}, "3"),
        ("3", None, "3"),
        ("3", {"type": 5}, "3"),
        ("3", {"anyOf": 5, "enum": 3}, "3"),
    ],
)
def test_a_value_is_what_the_schema_says(text: str, kind: Any, value: Any) -> None:
    assert json.loads(schema.convert(text, kind)) == value


def test_half_a_character_stays_an_escape() -> None:
    assert schema.convert('["\\ud800"]', {"type": "array"}) == '["\\ud800"]'


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {}}}}},
        {"type": "function", "name": "f", "parameters": {"properties": {"a": {}}}},
        {"name": "f", "input_schema": {"properties": {"a": {}}}},
    ],
)
def test_a_tool_is_understood_in_the_shape_of_every_api(tool: Any) -> None:
    assert schema.tool_name(tool) == "f"
    assert schema.properties(tool) == {"a": {}}


@pytest.mark.parametrize("tool", [{}, {"function": 3}, {"function": {"name": 3, "parameters": 4}}, {"name": ""}])
def test_a_tool_that_is_none_has_no_name_and_no_parameters(tool: Any) -> None:
    assert schema.tool_name(tool) is None
    assert schema.properties(tool) == {}
