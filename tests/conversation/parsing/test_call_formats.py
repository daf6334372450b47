"""Arguments in JSON."""

from __future__ import annotations

import pytest

from paceline.conversation.parsing.events import CallArguments, CallBroken, CallEnd, CallStart, Content, merge
from paceline.conversation.parsing.formats import OutputFormat
from tests.conversation.parsing.cases import (
    FORMATS,
    named,
    parser,
    read,
    stream,
)
from tests.conversation.parsing.test_parser import CODER, NOW, QWEN


def test_a_name_comes_first_and_arguments_follow_letter_by_letter() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Bonn"}}</tool_call>'
    reading = parser(QWEN)
    seen = [(letter, reading.push(letter)) for letter in text]
    begin = text.index('{"city')
    assert [event for _, events in seen[:begin] for event in events] == []
    assert seen[begin][1] == [CallStart(0, "call_0", "get_weather"), CallArguments(0, "{")]
    for letter, events in seen[begin + 1 : text.index("}}")]:
        assert events == [CallArguments(0, letter)]
    assert seen[text.index("}}")][1] == [CallArguments(0, "}"), CallEnd(0)]
    assert [event for _, events in seen[text.index("}}") + 1 :] for event in events] == []


def test_an_object_that_is_no_call_is_let_go_at_its_first_key() -> None:
    reading = parser(OutputFormat("json"))
    assert reading.push('{"') == []
    assert reading.push("x") == [Content('{"x')]


def test_a_call_whose_arguments_stop_being_json_is_no_call_but_text() -> None:
    """Closed where it breaks it would be another call: think of a command that deletes "/tmp/x"."""
    text = 'So:\n<tool_call>{"name": "get_weather", "arguments": {"city": "a"b", "days": 3}}</tool_call>\nx'
    answer = read(text, QWEN)
    assert (answer.calls, answer.content) == ((), text)
    events = stream(text + FORMATS["qwen"].calls(NOW), QWEN)
    broken = [event for event in events if isinstance(event, CallBroken)]
    assert broken == [CallBroken(0, '\n<tool_call>{"name": "get_weather", "arguments": {"city": "a"')]
    assert [event.index for event in events if isinstance(event, CallStart)] == [0, 1], "the next is another call"
    assert named(merge(events)) == [NOW]


def test_arguments_twice_are_the_first_and_the_rest_is_text() -> None:
    again = ', "arguments": {"city": "b"}}</tool_call>'
    answer = read('<tool_call>{"name": "get_weather", "arguments": {"city": "a"}' + again, QWEN)
    assert (named(answer), answer.content) == ([("get_weather", {"city": "a"})], again)
    text = '<tool_call>{"arguments": {"city": "a"}, "arguments": {"city": "b"}, "name": "get_weather"}</tool_call>'
    assert read(text, QWEN).content == text


@pytest.mark.parametrize(
    "inside",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"name": "get_weather"',
        '{"name": 3, "arguments": {}}',
        '{"arguments": {}}',
        '{"name": "get_weather", "arguments": 3}',
        '{"name": "get_weather", "arguments": "no"}',
        '{"name": "get_weather", "arguments": [1]}',
        '{"name": "get_weather", "name": "get_time"}',
        '{"name": get_weather}',
        '{"name": "get_weather", "command": "x"}',
        "<function=get_weather>",
        "get_weather(city=3)",
        "\x00",
    ],
)
def test_what_is_not_a_call_comes_back_as_it_was_written(inside: str) -> None:
    text = f"<tool_call>\n{inside}\n</tool_call>"
    assert read(text, QWEN) == read(text, OutputFormat())
    call = FORMATS["qwen"].calls(NOW)
    assert named(read(text + call, QWEN)) == [NOW], "the next call is a call"


def test_a_json_answer_is_not_taken_for_a_call() -> None:
    json_format = OutputFormat("json")
    for text in ('{"name": "get_time"}', '{"name": "Ada", "arguments": {}}', "[1, 2]", '[{"a": 1}]', "{}", '{"name"'):
        assert read(text, json_format).content == text
    behind = 'See: {"name": "get_time", "arguments": {}}'
    assert read(behind, json_format).content == behind


def test_deep_nesting_is_text_and_does_not_exhaust_the_stack() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"a": ' + "[" * 5_000
    answer = read(text, QWEN)
    assert (answer.calls, answer.content) == ((), text)


def test_a_string_parameter_streams_inside_its_tags() -> None:
    reading = parser(CODER)
    reading.push("<tool_call>\n<function=get_weather>\n<parameter=city>\n")  # the newline is layout
    assert reading.push('Bonn "') == [CallArguments(0, 'Bonn \\"')]
    assert reading.push("am\nRhein\n") == [CallArguments(0, "am\\nRhein")]
    assert reading.push("</parameter>\n<parameter=days>\n1") == [CallArguments(0, '"' + ', "days": ')]
    assert reading.push("2\n</parameter>") == [CallArguments(0, "12")]
    assert reading.push("</function>") == [CallArguments(0, "}"), CallEnd(0)]


def test_a_tag_that_breaks_off_makes_text_of_the_call() -> None:
    for text in (
        "<function=get_weather>\n<parameter=city>\nBonn\n</parameter>\nand so on",
        "<function=get_weather>\n<parameter=city\n</function>",
    ):
        answer = read(text, CODER)
        assert (answer.calls, answer.content) == ((), text)


@pytest.mark.parametrize("end", ["\n</function>\n</tool_call>", "</function></tool_call>\n"])
def test_a_value_that_is_not_closed_ends_where_the_text_ends_with_its_call(end: str) -> None:
    """Qwen3.6 now and then forgets the last mark."""
    call = "<tool_call>\n<function=get_weather>\n<parameter=city>\nBonn\n</parameter>\n<parameter=days>\n2" + end
    assert named(merge(stream(call, CODER))) == [("get_weather", {"city": "Bonn", "days": 2})]
    text = "<tool_call>\n<function=get_weather>\n<parameter=city>\nBonn" + end
    assert named(merge(stream(text, CODER))) == [("get_weather", {"city": "Bonn"})]
    inside = f"<tool_call>\n<function=get_weather>\n<parameter=city>\nA{end}B\n</parameter>\n</function>\n</tool_call>"
    assert named(merge(stream(inside, CODER))) == [("get_weather", {"city": f"A{end}B"})]
