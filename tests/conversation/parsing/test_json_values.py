from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.conversation.parsing import json_values
from paceline.conversation.parsing.json_values import Incomplete, NotJSON, copy_value
from paceline.conversation.parsing.source import Source
from tests.lengths import examples

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=3)


def copy(pieces: list[str]) -> tuple[str, str]:
    """What was written out, and what was left."""
    source = Source()
    written: list[str] = []
    steps = copy_value(source, written.append)
    for place, piece in enumerate(pieces):
        source.feed(piece)
        if next(steps, StopIteration) is StopIteration:
            source.feed("".join(pieces[place + 1 :]))
            return "".join(written), source.take(source.available)
    source.ended = True
    try:
        next(steps)
    except StopIteration:
        return "".join(written), ""
    raise AssertionError("it waits for text behind the end")


@settings(max_examples=examples(100), deadline=None)
@given(OBJECTS, st.booleans(), st.sampled_from([None, 1]), st.text(max_size=4))
def test_valid_json_is_copied_byte_for_byte_and_to_its_end(
    value: dict[str, Any], ascii: bool, indent: int | None, rest: str
) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=indent)
    assert copy([text + rest]) == (text, rest)
    assert copy(list(text + rest)) == (text, rest)


@settings(max_examples=examples(60), deadline=None)
@given(OBJECTS)
def test_an_object_that_is_cut_off_is_incomplete_wherever_it_is(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    for end in range(len(text)):
        with pytest.raises(Incomplete):
            copy([text[:end]])


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ('{"a": "x\ny\t"}', '{"a": "x\\ny\\t"}'),
        (r'{"a": "\d+ \'x\'"}', r'{"a": "\\d+ \\' + r"'x\\'" + '"}'),
        (r'{"a": "C:\users"}', r'{"a": "C:\\users"}'),
        (r'{"a": "\u12"}', r'{"a": "\\u12"}'),
        ('{"a": 1,}', '{"a": 1}'),
        ('{"a": [1, ]}', '{"a": [1 ]}'),
        ('{"a": True, "b": None, "c": [False]}', '{"a": true, "b": null, "c": [false]}'),
    ],
)
def test_a_slip_with_one_meaning_is_put_right(slip: str, meant: str) -> None:
    json.loads(meant)
    assert copy([slip]) == copy(list(slip)) == (meant, "")


@pytest.mark.parametrize(
    ("broken", "written"),
    [
        ('{"a" 1}', '{"a" '),
        ('{"a": }', '{"a": '),
        ('{"a": 01}', '{"a": '),
        ('{"a": NaN}', '{"a": '),
        ('{"a": [1, 2}', '{"a": [1, 2'),
        ('{"a": [1, x]}', '{"a": [1'),
        ('{"a": 1, b: 2}', '{"a": 1'),
        ('{"a": "b"c"}', '{"a": "b"'),
        ("{a: 1}", "{"),
        ('{"a": ' + "9" * 5000 + "}", '{"a": '),
        ('{"a": ' + "[" * 200, '{"a": ' + "[" * 127),
    ],
)
def test_what_is_no_json_is_written_up_to_there(broken: str, written: str) -> None:
    pieces: list[str] = []
    source = Source()
    source.feed(broken)
    with pytest.raises(NotJSON):
        next(copy_value(source, pieces.append))
    assert "".join(pieces) == written


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
        ("['a', 'it\\'s', None]", {"type": "array"}, ["a", "it's", None]),
        ("{'a': True}", {"type": "object"}, {"a": True}),
        ("['a', b]", {"type": "array"}, "['a', b]"),
        ("{1, 2}", {"type": "array"}, "{1, 2}"),
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
    assert json.loads(json_values.convert(text, kind)) == value


def test_half_a_character_stays_an_escape() -> None:
    assert json_values.convert('["\\ud800"]', {"type": "array"}) == '["\\ud800"]'


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {}}}}},
        {"type": "function", "name": "f", "parameters": {"properties": {"a": {}}}},
        {"name": "f", "input_schema": {"properties": {"a": {}}}},
    ],
)
def test_a_tool_is_understood_in_the_shape_of_every_api(tool: Any) -> None:
    assert json_values.tool_name(tool) == "f"
    assert json_values.properties(tool) == {"a": {}}


@pytest.mark.parametrize("tool", [{}, {"function": 3}, {"function": {"name": 3, "parameters": 4}}, {"name": ""}])
def test_a_tool_that_is_none_has_no_name_and_no_parameters(tool: Any) -> None:
    assert json_values.tool_name(tool) is None
    assert json_values.properties(tool) == {}
