from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.conversation.messages import checked
from paceline.conversation.volatile import HEADERS, without_headers
from paceline.errors import InvalidRequest

HEADER = "x-anthropic-billing-header: cc_version=2.1.15.c5a; cc_entrypoint=cli; cch=00000;"
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

NAMES = st.sampled_from(HEADERS).flatmap(lambda name: st.sampled_from([name, name.upper(), name.title()]))
LINES = st.builds("{}:{}".format, NAMES, st.text(st.characters(exclude_characters="\n"), max_size=10))
TEXTS = st.text(max_size=20) | st.text(st.sampled_from("\n\r :x-"), max_size=8) | LINES.map(lambda line: f" {line}\n")


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


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


def test_a_picture_behind_a_header_stays_and_ends_the_front() -> None:
    (content,) = said([text(HEADER), PICTURE, text(HEADER)])
    assert content == [{"type": "image"}, text(HEADER)]


def test_places_in_errors_and_of_pictures_are_the_clients() -> None:
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


def test_the_callers_messages_stay_as_they_are() -> None:
    messages = [{"role": "system", "content": [text(f"{HEADER}\nx")]}]
    checked(messages, takes_images=False)
    assert messages == [{"role": "system", "content": [text(f"{HEADER}\nx")]}]
