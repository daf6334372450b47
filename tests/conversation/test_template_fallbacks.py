"""The forms in which a template that refuses a conversation is shown it again."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from paceline.conversation import template as module
from paceline.conversation.template import Templates
from paceline.conversation.template_fallbacks import FALLBACKS, FallbackChange, apply_fallback
from paceline.errors import InvalidRequest
from tests.conversation.test_template import ALTERNATING, call, called, rendered, result, says


def test_a_refusal_is_answered_with_a_safer_form_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    templates = Templates.of(ALTERNATING)
    messages = [says("system", "be brief"), says("assistant", "hi"), says("user", "ask"), *called()[1:]]
    with caplog.at_level(logging.WARNING, logger=module.__name__):
        first = templates.render(messages)
        assert templates.render(messages) == first
    assert first.startswith("[user] be brief\n[assistant] hi\n[user] ask\n[assistant] {")
    assert len(caplog.records) == 1
    assert "system message as the user's" in caplog.messages[0]


def test_an_answer_at_the_front_gets_an_empty_question() -> None:
    assert rendered(ALTERNATING, [says("assistant", "hi")]) == "[user] \n[assistant] hi\n"


def test_a_template_that_refuses_every_form_is_quoted_with_its_first_words() -> None:
    source = "{{ raise_exception('I refuse ' ~ messages | length) }}"
    with pytest.raises(InvalidRequest, match="refuses this: I refuse 2") as caught:
        rendered(source, [says("system", "a"), says("user", "b")])
    assert caught.value.field == "messages"
    with pytest.raises(InvalidRequest, match="fails: "):
        rendered("{{ 1 / 0 }}", [says("user", "b")])
    with pytest.raises(InvalidRequest, match="recursion"):
        rendered("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", [says("user", "b")])


@pytest.mark.parametrize("fallback", FALLBACKS)
def test_no_form_changes_what_needs_no_change(fallback: Any) -> None:
    messages = [says("user", "a"), says("assistant", "b"), says("user", "c")]
    assert apply_fallback(fallback, messages, None) == (messages, None)


def test_ids_become_short_ones_and_find_their_calls() -> None:
    calls = [call(id="call_1"), call(id="abcdefgh9"), {"function": {"name": "f", "arguments": "{}"}}]
    messages = [says("assistant", "", tool_calls=calls), result(id="abcdefgh9"), result(id="call_1"), says("tool", "x")]
    found, _ = apply_fallback(frozenset({FallbackChange.IDS}), messages, None)
    first, second, third = (given["id"] for given in found[0]["tool_calls"])
    assert [answer["tool_call_id"] for answer in found[1:]] == [second, first, third]
    assert second == "abcdefgh9" and all(len(id) == 9 and id.isalnum() for id in (first, third))
