"""The forms in which a template that refuses a conversation is shown it again."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from paceline.conversation import template as module
from paceline.conversation.template import Templates
from paceline.conversation.template_fallbacks import FALLBACKS, FallbackChange, apply_fallback
from paceline.errors import InvalidRequest
from tests.conversation.test_template import ALTERNATING, PLAIN, TOOL, call, called, rendered, result, says


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


KIMI = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% for c in m.tool_calls or [] %}"
    "<{{ c.id }}|{{ c.function.arguments | tojson }}>{% endfor %}{{ m.tool_call_id }}\n{% endfor %}"
)


def test_where_ids_stand_for_names_they_hold_the_name_and_a_number() -> None:
    twice = [*called("", call(id="x"), call("clock", "{}", id="y")), says("assistant", "", tool_calls=[call(id="z")])]
    text = rendered(KIMI, [*twice[:2], result("sunny", "x"), result("noon", "y"), twice[-1], result("rain", "z")])
    assert '<functions.weather:0|{"city": "Rome"}><functions.clock:1|{}>' in text
    assert "sunnyfunctions.weather:0" in text and "noonfunctions.clock:1" in text
    assert "<functions.weather:2|" in text and "rainfunctions.weather:2" in text


def test_results_without_an_id_get_those_of_the_calls_in_their_order() -> None:
    messages = [*called("", call(id="x"), call("clock", "{}", id="y"))[:2], says("tool", "a"), result("b", "y")]
    found, _ = apply_fallback(frozenset({FallbackChange.NAMED_IDS}), messages, None)
    assert [message["tool_call_id"] for message in found[2:]] == ["functions.weather:0", "functions.clock:1"]
    stray = [says("user", "ask"), result("a", "unknown")]
    assert apply_fallback(frozenset({FallbackChange.NAMED_IDS}), stray, None) == (stray, None)


def test_an_empty_answer_is_left_out_where_the_template_refuses_it() -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'assistant' and not m.content %}{{ raise_exception('empty') }}"
        "{% endif %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    )
    messages = [says("user", "one"), says("assistant", " "), says("assistant", ""), says("user", "two")]
    assert rendered(source, messages) == "[user] one\n\ntwo\n"


def test_calls_are_written_as_lfm2_does_where_its_template_leaves_them_out() -> None:
    source = (
        "{% if tools %}List of tools: {{ tools | tojson }}\n{% endif %}"
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    )
    arguments = '{"city": "R\\"m", "days": 2, "wet": true, "at": ["x"]}'
    text = rendered(source, called("Let me see.", call(arguments=arguments)))
    written = 'weather(city="R\\"m", days=2, wet=True, at=[\'x\'])'
    assert f"[assistant] <|tool_call_start|>[{written}]<|tool_call_end|>\n\nLet me see.\n[tool] sunny\n" in text
    assert 'weather(arguments="?")' in rendered(source, called("", call(arguments="?")))
    assert "tool_call_start" not in rendered(source.replace("List of tools", "Tools"), called())


def test_the_default_template_tells_of_the_tools_that_the_other_one_refuses() -> None:
    templates = Templates.of({"default": PLAIN, "tool_use": "{{ raise_exception('no description') }}"})
    text = templates.render([says("user", "x")], [TOOL])
    assert "of a {city}" in text and "[user] x" in text


def test_a_system_message_that_stands_in_the_last_question_is_kept_while_tools_answer() -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'user' %}{% if loop.last and messages[0].role == 'system' %}"
        "[system] {{ messages[0].content }}\n{% endif %}[user] {{ m.content }}\n{% elif m.role != 'system' %}"
        "[{{ m.role }}] {{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}\n{% endif %}{% endfor %}"
    )
    asked = [says("system", "be brief"), says("user", "ask")]
    assert rendered(source, asked).startswith("[system] be brief\n[user] ask")
    text = rendered(source, [says("system", "be brief"), *called()])
    assert text.startswith("[user] be brief\n\nask\n[assistant] ") and "sunny" in text


def test_a_call_at_the_front_gets_an_empty_question_where_it_would_be_taken_for_one() -> None:
    source = (
        "[user] {{ messages[0].content }} {{ tools | tojson }}\n{% for m in messages[1:] %}"
        "[{{ m.role }}] {{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}\n{% endfor %}"
    )
    text = rendered(source, called()[1:], [TOOL])
    assert text.startswith("[user]  [") and "[assistant] [{" in text and text.endswith("[tool] sunny\n")
