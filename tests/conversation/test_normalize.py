from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.conversation.messages import ImagePart, checked
from paceline.conversation.normalize import arguments_of, normalized, with_arguments
from paceline.errors import InvalidRequest
from tests.conversation import fuzz

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLS: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "1", "content": "12"}


def says(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def picture(name: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": name}}


IMAGE = {"type": "image"}


def shaped(*messages: dict[str, Any], names: bool = False) -> list[dict[str, Any]]:
    return normalized(*checked(messages, takes_images=True), names=names)[0]


# -- what is well-formed stays


@pytest.mark.parametrize(
    "messages",
    [
        [says("user", "one")],
        [says("system", " be brief\n"), says("user", "one", name="ann"), says("assistant", "two"), says("user", "")],
        [says("user", "one"), CALLS, RESULT, RESULT, says("assistant", "two"), says("user", "three")],
        [says("user", "one"), CALLS, CALLS, RESULT],
        [says("assistant", "<think>a</think>b", reasoning_content="c"), says("user", "x")],
        [says("assistant", "first")],
    ],
)
def test_well_formed_messages_pass_unchanged(messages: list[dict[str, Any]]) -> None:
    assert shaped(*messages) == messages


def test_the_callers_messages_stay_as_they_are() -> None:
    messages = [says("user", "a"), says("system", "b"), says("user", [text("c"), picture("d")]), dict(CALLS)]
    before = json.dumps(messages)
    shaped(*messages)
    assert json.dumps(messages) == before


# -- system messages


def test_every_system_message_comes_to_the_front_in_its_order() -> None:
    messages = [
        says("user", "1"),
        says("developer", "a"),
        says("assistant", "2"),
        says("system", "b"),
        says("user", "3"),
    ]
    assert shaped(*messages) == [says("system", "a\n\nb"), says("user", "1"), says("assistant", "2"), says("user", "3")]


def test_what_a_system_message_stood_between_becomes_one() -> None:
    assert shaped(says("user", "1"), says("system", "a"), says("user", "2")) == [
        says("system", "a"),
        says("user", "1\n\n2"),
    ]


@pytest.mark.parametrize("empty", ["", " \n", [], [text("")]])
def test_an_empty_system_message_goes(empty: Any) -> None:
    assert shaped(says("system", empty), says("user", "x"), says("developer", empty)) == [says("user", "x")]
    with pytest.raises(InvalidRequest, match="empty system messages"):
        shaped(says("system", empty))


# -- neighbours


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_neighbours_of_one_role_are_one_message(role: str) -> None:
    other = says("assistant" if role == "user" else "user", "x")
    assert shaped(says(role, "a"), says(role, ""), says(role, "b"), other, says(role, "c")) == [
        says(role, "a\n\nb"),
        other,
        says(role, "c"),
    ]


@pytest.mark.parametrize(
    "one, other, both",
    [
        ([text("a"), picture("p")], [picture("q"), text("b")], [text("a"), IMAGE, IMAGE, text("b")]),
        ("a", [picture("p"), text("b")], [text("a"), IMAGE, text("b")]),
        ([picture("p")], "b", [IMAGE, text("b")]),
        ([picture("p"), text("a")], "b", [IMAGE, text("a\n\nb")]),
        ("", [picture("p")], [IMAGE]),
    ],
)
def test_parts_are_appended_and_text_beside_parts_becomes_one(one: Any, other: Any, both: Any) -> None:
    assert shaped(says("user", one), says("user", other)) == [says("user", both)]


def test_calls_and_results_are_never_merged_or_dropped() -> None:
    messages = [says("assistant", "a"), CALLS, CALLS, says("assistant", "b"), RESULT, RESULT]
    assert shaped(*messages) == messages


def test_thoughts_of_merged_messages_are_merged_too() -> None:
    found = shaped(says("assistant", "a", reasoning_content="x"), says("assistant", "b", reasoning_content="y"))
    assert found == [says("assistant", "a\n\nb", reasoning_content="x\n\ny")]


def test_speakers_stay_apart_only_where_the_template_names_them() -> None:
    messages = [says("user", "a", name="ann"), says("user", "b", name="bob")]
    assert shaped(*messages, names=True) == messages
    assert shaped(*messages) == [says("user", "a\n\nb", name="ann")]


# -- one message


def test_a_thought_that_was_not_ended_is_closed() -> None:
    assert shaped(says("assistant", "<think>hm"))[0]["content"] == "<think>hm\n</think>\n\n"
    assert shaped(says("assistant", "<think>a</think>b<think>c"))[0]["content"].endswith("c\n</think>\n\n")
    assert shaped(says("assistant", [text("<think>"), picture("p")]))[0]["content"][-1] == text("\n</think>\n\n")
    assert shaped(says("user", "<think>hm"))[0]["content"] == "<think>hm"


def test_null_fields_and_empty_lists_of_calls_go() -> None:
    message = says("assistant", "a", tool_calls=[], function_call=None, audio=None, refusal=None)
    assert shaped(message) == [says("assistant", "a")]


def test_yesterdays_names_become_todays() -> None:
    old = says("assistant", None, function_call={"name": "f", "arguments": "{}"})
    assert shaped(says("user", "x"), old, says("function", "12", name="f")) == [
        says("user", "x"),
        says("assistant", "", tool_calls=[{"type": "function", "function": {"name": "f", "arguments": "{}"}}]),
        says("tool", "12", name="f"),
    ]


@pytest.mark.parametrize(
    "given, expected",
    [
        ('{"a": [1, "é"]}', {"a": [1, "é"]}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        (None, {}),
        ("[1]", "[1]"),
        (r'{"a": "\u00e9"}', {"a": "é"}),
        (r'{"a": "\ud800"}', r'{"a": "\ud800"}'),
        ("{", "{"),
        ('{"a": NaN}', '{"a": NaN}'),
        ("[" * 100_000, "[" * 100_000),
        ('{"a": ' + "9" * 5000 + "}", '{"a": ' + "9" * 5000 + "}"),
    ],
)
def test_arguments_are_an_object_where_they_are_one(given: Any, expected: Any) -> None:
    call = {"function": {"name": "f", "arguments": given}}
    assert arguments_of(call) == expected
    message = with_arguments(says("assistant", "", tool_calls=[call]), as_objects=False)
    (as_text,) = message["tool_calls"]
    assert as_text["function"]["arguments"] == (given if given and isinstance(given, str) else json.dumps(expected))


# -- pictures

CONTENTS = st.lists(st.booleans(), max_size=3)  # pictures among texts


@settings(deadline=None)
@given(messages=st.lists(st.tuples(st.sampled_from(["system", "developer", "user", "assistant", "tool"]), CONTENTS)))
def test_every_image_keeps_the_words_before_it(messages: list[tuple[str, list[bool]]]) -> None:
    count = 0
    sent = [says("user", "x")]
    for role, kinds in messages:
        parts: list[dict[str, Any]] = []
        for seen in kinds:
            count += 1
            parts += [text(f"w{count}z"), picture(f"w{count}z")] if seen else [text(f"w{count}z")]
        sent.append(says(role, parts or "y"))
    conversation, images = normalized(*checked(sent, takes_images=True))
    found = [
        before["text"].split()[-1].split("\n")[-1]
        for message in conversation
        if isinstance(message["content"], list)
        for before, part in zip(message["content"], message["content"][1:], strict=False)
        if part == IMAGE
    ]
    assert found == [image.url for image in images if isinstance(image, ImagePart)]


# -- words


@settings(deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_no_word_is_lost_and_those_of_a_role_keep_their_order(random: Any) -> None:
    writer = fuzz.Writer(random)
    messages, tools = writer.conversation()
    for name in fuzz.NAMES:
        assert fuzz.lost(fuzz.render(name, messages, tools), writer.words) == []


@settings(deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_normalizing_twice_is_normalizing_once(random: Any) -> None:
    messages, _ = fuzz.Writer(random).conversation()
    once = shaped(*messages)
    assert shaped(*once) == once


def test_two_thousand_random_conversations_lose_nothing_and_raise_nothing_but_our_refusal() -> None:
    for seed in range(2000):
        fuzz.run(seed)


def test_arguments_of_more_values_than_any_call_has_stay_the_text_that_they_are() -> None:
    """They are not taken apart: that would hold up everybody."""
    text = '{"list": [' + ", ".join(["[]"] * 100_000) + "]}"
    assert arguments_of({"function": {"arguments": text}}) == text
    assert arguments_of({"function": {"arguments": '{"list": [[], []]}'}}) == {"list": [[], []]}
