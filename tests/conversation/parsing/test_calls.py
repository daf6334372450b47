"""What every reader of calls shares."""

from __future__ import annotations

import re

from paceline.conversation.parsing.events import CallArguments, CallBroken, CallStart, Content, merge
from paceline.conversation.parsing.parser import call_id, parse_output
from tests.conversation.parsing.cases import (
    FORMATS,
    TOOLS,
    named,
    parser,
    read,
    stream,
)
from tests.conversation.parsing.test_parser import NOW, QWEN


def test_a_call_whose_name_is_no_tool_is_let_go_at_the_first_wrong_letter() -> None:
    reading = parser(QWEN)
    assert reading.push('<tool_call>{"name": "get_') == []
    assert reading.push("s") == [Content('<tool_call>{"name": "get_s')]


def test_a_tool_whose_name_begins_another_is_told_from_it() -> None:
    tools = [{"name": "get"}, {"name": "get_all"}, {"function": {"name": "ge"}}]
    for name in ("ge", "get", "get_all"):
        for case in FORMATS.values():
            assert named(read(case.calls((name, {})), case.format, tools)) == [(name, {})], case


def test_a_started_call_that_is_cut_off_has_no_end_and_comes_back_as_text() -> None:
    text = 'So:\n<tool_call>{"name": "get_weather", "arguments": {"city": "Bo'
    events = stream([text], QWEN)
    assert events == [
        Content("So:"),
        CallStart(0, "call_0", "get_weather"),
        CallArguments(0, '{"city": "Bo'),
        CallBroken(0, "\n" + text.removeprefix("So:\n")),
    ]
    assert merge(events).calls == ()


def test_a_call_without_its_closing_mark_is_a_call() -> None:
    for cut in range(len("\n</tool_call>") + 1):
        text = FORMATS["qwen"].calls(NOW)
        assert named(read(text[: len(text) - cut], QWEN)) == [NOW]
    unclosed = '<tool_call>{"name": "get_time", "arguments": {}}'
    assert named(read(unclosed * 2, QWEN)) == [NOW, NOW]


def test_ids_are_like_openais_and_all_different() -> None:
    ids = {call_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"call_[A-Za-z0-9]{24}", id) for id in ids)
    assert parse_output(FORMATS["qwen"].calls(NOW), QWEN, TOOLS).calls[0].id.startswith("call_")
