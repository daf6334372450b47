"""Calls of tools: the right one, with what was said."""

from __future__ import annotations

import json

from training import strangers_tools
from training.strangers_ask import Answer


def test_the_right_call_passes_and_others_do_not() -> None:
    for question in strangers_tools.questions(60, 0, "tools"):
        if question.expected == "no call":
            assert question.verdict(Answer("Bye!")) == "" and question.verdict(Answer(""))
            assert question.verdict(Answer('<tool_call>{"name": ')) == "begins a call"
            continue
        call = {"name": question.expected["name"], "arguments": json.dumps(question.expected["arguments"])}
        assert question.verdict(Answer("", (call,))) == ""
        assert question.verdict(Answer("", (call, call))) == "2 calls"
        assert question.verdict(Answer("", ({**call, "name": "other"},))) == "calls other"
        assert question.verdict(Answer("", ({**call, "arguments": "{}"},))).startswith("keys")
        names = [tool["function"]["name"] for tool in question.body["tools"]]
        assert question.expected["name"] in names and len(set(names)) == len(names)


def test_one_message_in_ten_asks_for_no_tool() -> None:
    assert sum(question.expected == "no call" for question in strangers_tools.questions(100, 0, "tools")) == 10
