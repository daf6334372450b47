"""Ollama's conversations in OpenAI's form."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.errors import InvalidRequest
from paceline.server.ollama.input import conversation, single_turn

CALL = {"function": {"name": "look", "arguments": {"at": "x"}}}
OTHER = {"function": {"name": "rest", "arguments": {}}}


def read(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    return list(conversation(messages).messages)


def test_plain_messages_stay_as_they_are() -> None:
    messages = [{"role": role, "content": "x"} for role in ("system", "user", "assistant")]
    assert read(*messages) == messages


def test_thoughts_and_calls_have_openais_names() -> None:
    (message,) = read(
        {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [CALL, {**OTHER, "id": "7"}]}
    )
    assert message["reasoning_content"] == "hm"
    first, second = message["tool_calls"]
    assert first == {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": {"at": "x"}}}
    assert second["id"] == "7"


def test_a_result_belongs_to_the_call_of_its_id_its_name_or_its_place() -> None:
    said = {"role": "assistant", "tool_calls": [CALL, OTHER, {**CALL, "id": "mine"}]}
    results = [
        {"role": "tool", "content": "r", **named} for named in ({"tool_call_id": "mine"}, {"tool_name": "rest"}, {})
    ]
    read_results = read(said, *results)[1:]
    assert [(result["tool_call_id"], result["name"]) for result in read_results] == [
        ("mine", "look"),
        ("call_1", "rest"),
        ("call_0", "look"),
    ]
    assert read({"role": "tool", "content": "r", "tool_name": "gone"})[0] == {
        "role": "tool",
        "content": "r",
        "name": "gone",
    }


def test_images_come_before_the_text_and_errors_name_them() -> None:
    talk = conversation([{"role": "user", "content": "What?", "images": ["QUJD", "data:image/jpeg;base64,QUJD"]}])
    first, second, text = talk.messages[0]["content"]
    assert first["image_url"]["url"] == "data:image/png;base64,QUJD"
    assert second["image_url"]["url"] == "data:image/jpeg;base64,QUJD"
    assert text == {"type": "text", "text": "What?"}
    with pytest.raises(InvalidRequest) as caught, talk.renaming_errors():
        raise InvalidRequest.at("messages[0].content[1].image_url", "is no image.")
    assert caught.value.field == "messages[0].images[1]" and str(caught.value) == "messages[0].images[1] is no image."
    with pytest.raises(InvalidRequest, match="x is wrong"), talk.renaming_errors():
        raise InvalidRequest.at("x", "is wrong.")


def test_a_single_turn_may_have_instructions_and_images() -> None:
    assert single_turn(None, "hi", None).messages == ({"role": "user", "content": "hi"},)
    talk = single_turn("Be short.", "", ["QUJD"])
    assert [part["type"] for part in talk.messages[1]["content"]] == ["image_url"]
    assert talk.places["messages[1].content[0].image_url"] == "images[0]"


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("x", "messages[0]"),
        ({"role": "robot"}, "messages[0].role"),
        ({"role": "user", "content": 1}, "messages[0].content"),
        ({"role": "user", "images": "QUJD"}, "messages[0].images"),
        ({"role": "user", "images": [1]}, "messages[0].images"),
        ({"role": "assistant", "thinking": []}, "messages[0].thinking"),
        ({"role": "assistant", "tool_calls": {}}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [1]}, "messages[0].tool_calls[0].function"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, "messages[0].tool_calls[0].function.name"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": 1}}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"role": "tool", "tool_name": 1}, "messages[0].tool_name"),
    ],
)
def test_what_is_not_in_ollamas_form_is_named(message: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        conversation([message])
    assert caught.value.field == field


def test_an_error_about_a_single_turn_names_its_prompt() -> None:
    with (
        pytest.raises(InvalidRequest, match="prompt: too long") as caught,
        single_turn("s", "x", None).renaming_errors(),
    ):
        raise InvalidRequest("messages: too long", field="messages", code="context_length_exceeded")
    assert (caught.value.field, caught.value.code) == ("prompt", "context_length_exceeded")
