from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.conversation.messages import AUDIO_PARTS, ROLES, ImagePart, check_calls, checked
from paceline.conversation.video_part import VIDEO_PARTS
from paceline.errors import InvalidRequest

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def refused(messages: Any, *, takes_images: bool = True) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        checked(messages, takes_images=takes_images)
    return caught.value


@pytest.mark.parametrize("messages", [[], (), None, "hello", b"hello", {"role": "user", "content": "x"}, 5])
def test_what_is_no_list_of_messages_is_refused(messages: Any) -> None:
    assert refused(messages).field == "messages"


@pytest.mark.parametrize("message", ["hello", None, 5, ["user", "hello"]])
def test_a_message_that_is_no_object_is_named_by_its_place(message: Any) -> None:
    assert refused([user("x"), message]).field == "messages[1]"


@pytest.mark.parametrize("role", ["robot", None, 5, "", "User", ["user"], {"a": 1}])
def test_an_unknown_role_is_refused_with_the_known_ones(role: Any) -> None:
    error = refused([user("x"), {"role": role, "content": "x"}])
    assert error.field == "messages[1].role"
    assert all(known in str(error) for known in ROLES)


def test_a_message_without_a_role_is_refused() -> None:
    assert refused([{"content": "x"}]).field == "messages[0].role"


@pytest.mark.parametrize("content", [5, 1.5, True, {"type": "text", "text": "x"}])
def test_content_of_the_wrong_type_is_refused(content: Any) -> None:
    assert refused([user(content)]).field == "messages[0].content"


@pytest.mark.parametrize("role", ["user", "system"])
def test_content_is_needed_of_everyone_but_the_assistant_and_tools(role: str) -> None:
    for message in ({"role": role}, {"role": role, "content": None}):
        assert refused([message]).field == "messages[0].content"


def test_an_assistant_that_only_calls_tools_may_have_no_content() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    conversation, _ = checked(
        [user("x"), {"role": "assistant", "content": None, "tool_calls": [call]}], takes_images=False
    )
    assert conversation[1] == {"role": "assistant", "content": "", "tool_calls": [call]}


def test_the_developers_words_are_the_systems() -> None:
    conversation, _ = checked([{"role": "developer", "content": "be brief"}], takes_images=False)
    assert conversation == [{"role": "system", "content": "be brief"}]


def test_other_fields_reach_the_template() -> None:
    message = {"role": "tool", "content": "12", "tool_call_id": "1", "name": "clock"}
    assert checked([message], takes_images=False)[0] == [message]


def test_the_callers_messages_stay_as_they_are() -> None:
    messages = [{"role": "developer", "content": [text("a"), PICTURE]}]
    checked(messages, takes_images=True)
    assert messages == [{"role": "developer", "content": [text("a"), PICTURE]}]


@settings(deadline=None)
@given(words=st.lists(st.text(max_size=10), max_size=5))
def test_parts_of_text_become_one_text_and_lose_nothing(words: list[str]) -> None:
    conversation, images = checked([user([text(word) for word in words])], takes_images=False)
    assert conversation[0]["content"] == "\n".join(words)
    assert images == []


@pytest.mark.parametrize("kind", ["text", "input_text", "output_text"])
def test_text_parts_go_by_several_names(kind: str) -> None:
    conversation, _ = checked([user([{"type": kind, "text": "x"}])], takes_images=False)
    assert conversation[0]["content"] == "x"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:,x"}},
        {"type": "image_url", "image_url": {"url": "data:,x", "detail": "low"}},
        {"type": "image_url", "image_url": "data:,x"},
        {"type": "input_image", "image_url": "data:,x"},
    ],
)
def test_a_picture_is_found_however_it_is_written(part: dict[str, Any]) -> None:
    conversation, images = checked([user([text("what is"), part, text("this?")])], takes_images=True)
    assert conversation[0]["content"] == [text("what is"), {"type": "image"}, text("this?")]
    assert images == [ImagePart("data:,x", "messages[0].content[1].image_url")]


def test_pictures_of_several_messages_come_in_their_order() -> None:
    def picture(name: str) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": name}}

    messages = [
        user([picture("a"), picture("b")]),
        {"role": "assistant", "content": "nice"},
        user([text("and"), picture("c")]),
    ]
    conversation, images = checked(messages, takes_images=True)
    assert [part.url for part in images if isinstance(part, ImagePart)] == ["a", "b", "c"]
    assert images[2].place == "messages[2].content[1].image_url"
    assert conversation[1]["content"] == "nice"


def test_a_model_without_eyes_refuses_pictures() -> None:
    error = refused([user([text("x"), PICTURE])], takes_images=False)
    assert "no images" in str(error)
    assert error.field == "messages[0].content[1]"


def test_the_media_that_clients_send_are_known() -> None:
    assert {"input_audio", "audio_url", "video_url", "video"} <= {*AUDIO_PARTS, *VIDEO_PARTS}


@pytest.mark.parametrize("takes_images", [True, False])
@pytest.mark.parametrize("kind", (*AUDIO_PARTS, *VIDEO_PARTS))
def test_media_that_a_model_does_not_take_are_refused_by_name(kind: str, takes_images: bool) -> None:
    error = refused([user([text("x"), {"type": kind, kind: {"url": "x"}}])], takes_images=takes_images)
    assert error.field == "messages[0].content[1]"
    assert ("audio" if "audio" in kind else "video") in str(error)


@pytest.mark.parametrize(
    "part, place",
    [
        ("words", "messages[0].content[0]"),
        (None, "messages[0].content[0]"),
        (5, "messages[0].content[0]"),
        ({"text": "x"}, "messages[0].content[0]"),
        ({"type": "poem", "text": "x"}, "messages[0].content[0]"),
        ({"type": ["text"], "text": "x"}, "messages[0].content[0]"),
        ({"type": "text"}, "messages[0].content[0].text"),
        ({"type": "text", "text": 5}, "messages[0].content[0].text"),
        ({"type": "text", "text": None}, "messages[0].content[0].text"),
        ({"type": "image_url"}, "messages[0].content[0].image_url"),
        ({"type": "image_url", "image_url": {}}, "messages[0].content[0].image_url"),
        ({"type": "image_url", "image_url": {"url": 5}}, "messages[0].content[0].image_url"),
        ({"type": "image_url", "image_url": ["x"]}, "messages[0].content[0].image_url"),
    ],
)
def test_a_part_that_cannot_be_read_is_named_by_its_place(part: Any, place: str) -> None:
    assert refused([user([part])]).field == place


def test_a_refusal_is_what_the_assistant_said() -> None:
    refusal = {"role": "assistant", "content": None, "refusal": "no"}
    parts = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    conversation, _ = checked([user("x"), refusal, parts], takes_images=False)
    assert [message["content"] for message in conversation] == ["x", "no", "no"]


@pytest.mark.parametrize(
    "fields, place",
    [
        ({"tool_calls": "f"}, ".tool_calls"),
        ({"tool_calls": {"a": 1}}, ".tool_calls"),
        ({"tool_calls": [5]}, ".tool_calls[0].function"),
        ({"tool_calls": [{"id": "1"}]}, ".tool_calls[0].function"),
        ({"tool_calls": [{"function": {"name": 5}}]}, ".tool_calls[0].function.name"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}, ".tool_calls[0].function.arguments"),
        ({"function_call": "f"}, ".function_call"),
        ({"role": "user", "tool_calls": [{"function": {"name": "f"}}]}, ""),
    ],
)
def test_a_tool_call_that_cannot_be_read_is_named_by_its_place(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_calls([user("x"), {"role": "assistant", "content": "", **fields}])
    assert caught.value.field == f"messages[1]{place}"


def test_tool_calls_that_are_none_need_no_check() -> None:
    check_calls([{"role": "assistant", "tool_calls": None, "function_call": None}])
    check_calls([{"role": "assistant", "tool_calls": []}])
    check_calls([{**user("x"), "tool_calls": []}])
