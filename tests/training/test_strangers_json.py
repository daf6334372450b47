"""Records that are read from a sentence."""

from __future__ import annotations

import json

from training import strangers_json
from training.strangers_ask import Answer


def test_the_text_states_every_value_and_the_right_record_passes() -> None:
    for with_schema in (True, False):
        for question in strangers_json.questions(60, 0, "json", with_schema=with_schema):
            text = question.body["messages"][0]["content"]
            values = [value for value in question.expected.values() if not isinstance(value, bool)]
            assert all(str(value) in text for value in values)
            assert question.verdict(Answer(json.dumps(question.expected))) == ""
            assert ("response_format" in question.body) is with_schema


def test_another_value_or_key_is_wrong() -> None:
    verdict = strangers_json.is_record({"a": "Oslo", "b": 3}, strict=True)
    assert verdict(Answer('{"a": "oslo.", "b": 3.0}')) == ""
    assert verdict(Answer('{"a": "Oslo", "b": 4}')).startswith("wrong")
    assert verdict(Answer('{"a": "Oslo"}')).startswith("keys")
    assert verdict(Answer('{"a": "Oslo", "b": 3')) == "not JSON"


def test_without_a_schema_the_object_may_be_fenced() -> None:
    verdict = strangers_json.is_record({"a": True}, strict=False)
    assert verdict(Answer('Sure:\n```json\n{"a": "yes"}\n```')) == ""
    assert verdict(Answer("a is true")) == "no JSON object"
