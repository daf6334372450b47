from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.conversation.messages import (
    AUDIO_PARTS,
    HEADERS,
    LONG_TEXT,
    REFUSED,
    ROLES,
    VIDEO_PARTS,
    AudioPart,
    ImagePart,
    VideoPart,
    check_calls,
    checked,
    is_heavy,
    video_part,
    without_headers,
)
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
    error = refused([{"content": "x"}])
    assert error.field == "messages[0].role" and "messages[0].role is missing; it must be one of" in str(error)


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
        {"type": "image_url", "image_url": {"url": "data:,x", "detail": None}},
        {"type": "input_image", "image_url": "data:,x", "detail": "original"},
        {"type": "image_url", "image_url": "data:,x"},
        {"type": "input_image", "image_url": "data:,x"},
    ],
)
def test_an_image_is_found_however_it_is_written(part: dict[str, Any]) -> None:
    conversation, images = checked([user([text("what is"), part, text("this?")])], takes_images=True)
    assert conversation[0]["content"] == [text("what is"), {"type": "image"}, text("this?")]
    assert images == [ImagePart("data:,x", "messages[0].content[1].image_url")]


def test_images_of_several_messages_come_in_their_order() -> None:
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


def test_a_model_without_eyes_refuses_images() -> None:
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
        (
            {"type": "image_url", "image_url": {"url": "data:,x", "detail": "tiny"}},
            "messages[0].content[0].image_url.detail",
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:,x", "detail": 5}},
            "messages[0].content[0].image_url.detail",
        ),
        ({"type": "input_image", "image_url": "data:,x", "detail": "tiny"}, "messages[0].content[0].detail"),
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


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "video_url", "video_url": {"url": "a"}}, VideoPart(("a",), "p.video_url")),
        ({"type": "video_url", "video_url": {"url": "a", "fps": 3}}, VideoPart(("a",), "p.video_url", fps=3)),
        ({"type": "input_video", "video_url": "a"}, VideoPart(("a",), "p.video_url")),
        ({"type": "video", "video": "a", "fps": 1.5}, VideoPart(("a",), "p.video", fps=1.5)),
        ({"type": "video", "video": ["a", "b"]}, VideoPart(("a", "b"), "p.video", frames=True)),
    ],
)
def test_every_way_to_write_a_video_is_read(part: dict[str, object], expected: VideoPart) -> None:
    assert video_part(part, "p") == expected


@pytest.mark.parametrize("given", [None, 3, [], ["a", 3], {"url": 3}, {}])
def test_what_is_no_address_is_refused(given: object) -> None:
    with pytest.raises(InvalidRequest, match=r"p\.video must be an address"):
        video_part({"type": "video", "video": given}, "p")


@pytest.mark.parametrize("fps", [0, -1, 1000, "2", True, float("nan")])
def test_a_rate_that_makes_no_sense_is_refused(fps: object) -> None:
    with pytest.raises(InvalidRequest, match=r"p\.fps"):
        video_part({"type": "video", "video": "a", "fps": fps}, "p")


@pytest.mark.parametrize("field", REFUSED)
def test_fields_that_are_not_honoured_are_refused_by_name(field: str) -> None:
    with pytest.raises(InvalidRequest, match=field):
        video_part({"type": "video", "video": "a", field: 1}, "p")


def test_a_model_without_video_names_the_part() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "video", "video": "b"}]}
    with pytest.raises(InvalidRequest, match="takes no video") as caught:
        checked([message], takes_images=True)
    assert caught.value.field == "messages[0].content[1]"


# -- volatile headers

HEADER = "x-anthropic-billing-header: cc_version=2.1.15.c5a; cc_entrypoint=cli; cch=00000;"

NAMES = st.sampled_from(HEADERS).flatmap(lambda name: st.sampled_from([name, name.upper(), name.title()]))
LINES = st.builds("{}:{}".format, NAMES, st.text(st.characters(exclude_characters="\n"), max_size=10))
TEXTS = st.text(max_size=20) | st.text(st.sampled_from("\n\r :x-"), max_size=8) | LINES.map(lambda line: f" {line}\n")


def said(content: Any, role: str = "system") -> list[Any]:
    """What the template gets of a message; the user's question behind it is left out."""
    messages = [{"role": role, "content": content}, {"role": "user", "content": "hello"}]
    conversation, _ = checked(messages, takes_images=True)
    assert conversation[-1] == messages[-1]
    return [message["content"] for message in conversation[:-1]]


@given(lines=st.lists(LINES, max_size=3), rest=TEXTS)
def test_only_the_header_lines_at_the_front_go(lines: list[str], rest: str) -> None:
    assert without_headers("".join(f"{line}\n" for line in lines) + rest) == (rest or (None if lines else ""))


@given(words=TEXTS)
def test_a_text_without_a_header_at_its_front_stays_as_it_is(words: str) -> None:
    assert without_headers(words) == words
    assert without_headers([text(words), text(HEADER)]) == [text(words), text(HEADER)]


@given(lines=st.lists(LINES, min_size=1, max_size=3), rest=st.lists(TEXTS, max_size=3))
def test_parts_that_hold_only_headers_go_and_all_others_stay(lines: list[str], rest: list[str]) -> None:
    parts = [text(words) for words in rest]
    kept = without_headers([text(line) for line in lines] + parts)
    assert kept == (parts if any(rest) else None)


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize(
    "content",
    [
        f"{HEADER}\nBe brief.",
        f"{HEADER}\r\nBe brief.",
        f"{HEADER.upper()}\n{HEADER}\nBe brief.",
        [text(f"{HEADER}\nBe brief.")],
        [text(HEADER), text("Be brief.")],
        [text(f"{HEADER}\n"), text(f"{HEADER}\nBe brief.")],
    ],
)
def test_a_system_prompt_is_the_same_with_and_without_the_header(role: str, content: Any) -> None:
    assert said(content, role) == ["Be brief."]


@pytest.mark.parametrize(
    "content, kept",
    [
        (f"{HEADER}\n\n  Be brief.\n ", "\n  Be brief.\n "),  # whitespace that is not the line's own
        (f" {HEADER}\nBe brief.", f" {HEADER}\nBe brief."),  # not at the very front
        (f"Be brief.\n{HEADER}\n", f"Be brief.\n{HEADER}\n"),
        ("x-anthropic-billing-header\nBe brief.", "x-anthropic-billing-header\nBe brief."),  # no header
        ("x-anthropic-billing-header-too: 1\n", "x-anthropic-billing-header-too: 1\n"),
        ([text("Be brief."), text(HEADER)], f"Be brief.\n{HEADER}"),
        ([text(""), text(HEADER)], f"\n{HEADER}"),
        ("", ""),
        ([], ""),
    ],
)
def test_everything_else_stays(content: Any, kept: str) -> None:
    assert said(content) == [kept]


@pytest.mark.parametrize(
    "content", [HEADER, f"{HEADER}\n", [text(HEADER)], [text(HEADER), text(f"{HEADER}\n")], [text(HEADER), text("")]]
)
def test_a_system_message_of_headers_only_goes(content: Any) -> None:
    assert said(content) == []


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_what_others_say_is_never_touched(role: str) -> None:
    assert said(f"{HEADER}\nhello", role) == [f"{HEADER}\nhello"]
    assert said([text(HEADER), text("hello")], role) == [f"{HEADER}\nhello"]


def test_an_image_behind_a_header_stays_and_ends_the_front() -> None:
    (content,) = said([text(HEADER), PICTURE, text(HEADER)])
    assert content == [{"type": "image"}, text(HEADER)]


def test_places_in_errors_and_of_images_are_the_clients() -> None:
    headers = {"role": "system", "content": [text(HEADER)]}
    with pytest.raises(InvalidRequest) as caught:
        checked([headers, {"role": "user", "content": 5}], takes_images=True)
    assert caught.value.field == "messages[1].content"
    _, images = checked([{"role": "system", "content": [text(HEADER), PICTURE]}], takes_images=True)
    assert images[0].place == "messages[0].content[1].image_url"
    _, images = checked([headers, {"role": "user", "content": [PICTURE]}], takes_images=True)
    assert images[0].place == "messages[1].content[0].image_url"


def test_a_conversation_of_headers_only_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="header lines") as caught:
        checked([{"role": "system", "content": HEADER}], takes_images=False)
    assert caught.value.field == "messages"


def test_the_callers_messages_keep_their_headers() -> None:
    messages = [{"role": "system", "content": [text(f"{HEADER}\nx")]}]
    checked(messages, takes_images=False)
    assert messages == [{"role": "system", "content": [text(f"{HEADER}\nx")]}]


def test_audio_is_taken_in_openais_form_and_by_address() -> None:
    parts = [
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,QUJD"}},
    ]
    conversation, media = checked([user(parts)], takes_images=True, takes_audio=True)
    assert conversation[0]["content"] == [{"type": "audio"}] * 2
    assert media == [
        AudioPart("data:audio/wav;base64,UklGRg==", "messages[0].content[0].input_audio.data"),
        AudioPart("data:audio/wav;base64,QUJD", "messages[0].content[1].audio_url"),
    ]


@pytest.mark.parametrize(
    ("part", "field", "why"),
    [
        ({"type": "input_audio"}, ".input_audio", "must be an object"),
        ({"type": "input_audio", "input_audio": {"data": 3, "format": "wav"}}, ".input_audio", "must be an object"),
        (
            {"type": "input_audio", "input_audio": {"data": "x", "format": "ogg"}},
            ".input_audio.format",
            "'ogg'; it must",
        ),
        ({"type": "input_audio", "input_audio": {"data": "x"}}, ".input_audio.format", "None; it must be 'wav'"),
        ({"type": "audio_url", "audio_url": {}}, ".audio_url", "must be an address"),
    ],
)
def test_audio_in_another_form_is_refused_by_name(part: dict[str, Any], field: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as caught:
        checked([user([part])], takes_images=True, takes_audio=True)
    assert caught.value.field == f"messages[0].content[0]{field}"


HALF = "x" * (LONG_TEXT // 2 + 1)


@pytest.mark.parametrize(
    ("messages", "heavy"),
    [
        ([user(HALF)], False),
        ([user(HALF), user(HALF)], True),
        ([user([text(HALF)])], False),
        ([user([text(HALF), text(HALF)])], True),
        ([user([text(HALF)]), user(HALF)], True),
        ([user([text("x"), PICTURE])], True),
        ([user([{"type": "text", "text": 5}, "x", None, {}]), user(None), "x", None], True),
        ([user([{"type": "text", "text": 5}, "x", None]), user(None), "x", None], False),
        (None, False),
    ],
)
def test_long_texts_and_media_are_heavy_wherever_they_stand(messages: Any, heavy: bool) -> None:
    assert is_heavy(messages) == heavy
