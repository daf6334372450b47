from __future__ import annotations

from typing import Any

import pytest

from paceline.errors import InvalidRequest
from paceline.server.anthropic.input import conversation
from paceline.server.common.conversation import Conversation

PIXEL = {"type": "base64", "media_type": "image/png", "data": "aGk="}
PICTURE = {"type": "image", "source": PIXEL}
ADDRESS = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def result(id: str = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, **more}


def call(id: str = "toolu_1", name: str = "look", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def read(*messages: Any, system: Any = None, takes_images: bool = True) -> Conversation:
    return conversation(system, messages, takes_images=takes_images)


def messages_of(*messages: Any, system: Any = None) -> list[dict[str, Any]]:
    return list(read(*messages, system=system).messages)


def test_text_is_text() -> None:
    assert messages_of(
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}, system="be brief"
    ) == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ho"},
    ]


def test_blocks_of_text_are_parts_and_cache_control_is_no_matter() -> None:
    marked = text("b", cache_control={"type": "ephemeral"}, citations=None)
    [system, asked] = messages_of(user(text("a"), marked), system=[text("s"), marked])
    assert system == {"role": "system", "content": [text("s"), text("b")]}
    assert asked == {"role": "user", "content": [text("a"), text("b")]}


def test_a_system_message_may_stand_anywhere() -> None:
    assert messages_of(user(text("a")), {"role": "system", "content": [text("b")]})[1] == {
        "role": "system",
        "content": "b",
    }


def test_a_call_and_its_result_become_messages_of_openais() -> None:
    found = messages_of(
        user(text("go")), assistant(text("I look"), call(at="x")), user(result(content="seen"), text("?"))
    )
    function = {"name": "look", "arguments": {"at": "x"}}
    assert found[1:] == [
        {
            "role": "assistant",
            "content": "I look",
            "tool_calls": [{"id": "toolu_1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "seen", "tool_call_id": "toolu_1", "name": "look"},
        {"role": "user", "content": "?"},
    ]


def test_results_and_text_keep_their_order() -> None:
    found = messages_of(user(text("a"), result("1", content="b"), text("c"), result("2", content=[text("d")])))
    assert [(message["role"], message["content"]) for message in found] == [
        ("user", "a"),
        ("tool", "b"),
        ("user", "c"),
        ("tool", "d"),
    ]


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": ""}, {"content": []}])
def test_a_result_may_be_empty(content: Any) -> None:
    assert messages_of(user(result(**content))) == [{"role": "tool", "content": "", "tool_call_id": "toolu_1"}]


def test_a_result_that_is_an_error_says_so() -> None:
    found = messages_of(
        user(
            result(content="no file", is_error=True),
            result(content=[text("a"), text("b")], is_error=True),
            result(is_error=True),
            result(content="fine", is_error=False),
        )
    )
    contents = [message["content"] for message in found]
    assert contents == ["Error: no file", [text("Error: a"), text("b")], "Error: ", "fine"]


def test_whether_a_result_is_an_error_is_true_or_false() -> None:
    with pytest.raises(InvalidRequest, match="is_error"):
        messages_of(user(result(content="x", is_error="false")))


def test_thoughts_are_given_back_and_redacted_ones_are_dropped() -> None:
    thoughts = [{"type": "thinking", "thinking": words, "signature": "x"} for words in ("one", "two")]
    [answer] = messages_of(assistant(*thoughts, {"type": "redacted_thinking", "data": "?"}, text("so")))
    assert answer == {"role": "assistant", "content": "so", "reasoning_content": "one\n\ntwo"}


def test_an_answer_without_text_is_empty() -> None:
    assert messages_of(assistant())[0] == {"role": "assistant", "content": ""}


def test_an_image_is_an_address() -> None:
    by_url = {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}}
    found = read(user(text("what?"), PICTURE, by_url), system="s")
    assert found.messages[1]["content"] == [
        text("what?"),
        ADDRESS,
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
    ]
    where = "messages[1].content[2].image_url"
    error = InvalidRequest(f"{where} is remote: send it as a data: URL", field=where)
    with pytest.raises(InvalidRequest) as caught, found.renaming_errors():
        raise error
    told = caught.value
    place = "messages[0].content[2].source"
    assert (str(told), told.field) == (f'{place} is remote: send it as a source of the type "base64"', place)
    other = InvalidRequest("messages is bad", field="messages")
    with pytest.raises(InvalidRequest) as caught, found.renaming_errors():
        raise other
    assert caught.value is other


def test_images_in_results_are_shown_behind_them() -> None:
    shots = [result("1", content=[text("a"), PICTURE]), result("2", content=[PICTURE, text("b")])]
    found = read(user(*shots, text("well?")))
    assert [message["role"] for message in found.messages] == ["tool", "tool", "user"]
    assert found.messages[0]["content"] == [text("a"), text("[image 1]")]
    assert found.messages[1]["content"] == [text("[image 2]"), text("b")]
    assert found.messages[2]["content"] == [text("[image 1]"), ADDRESS, text("[image 2]"), ADDRESS, text("well?")]
    assert found.places == {
        "messages[2].content[1].image_url": "messages[0].content[0].content[1].source",
        "messages[2].content[3].image_url": "messages[0].content[1].content[0].source",
    }


def test_documents_of_text_are_text() -> None:
    plain = {"type": "text", "media_type": "text/plain", "data": "body"}
    parts = {"type": "content", "content": [text("one"), PICTURE]}
    search = {"type": "search_result", "title": "T", "source": "S", "content": [text("found")]}
    [message] = messages_of(
        user(
            {"type": "document", "source": plain, "title": "Title", "context": "Context"},
            {"type": "document", "source": parts, "citations": {"enabled": False}},
            {"type": "document", "source": {"type": "content", "content": "two"}},
            search,
        )
    )
    assert message["content"] == [
        *(text("Title\nContext"), text("body"), text("one"), ADDRESS, text("two"), text("T\nS"), text("found"))
    ]


def test_the_tools_that_a_search_has_found_are_named() -> None:
    found = messages_of(user(result(content=[{"type": "tool_reference", "tool_name": "look"}])))
    assert found[0]["content"] == "look"


@pytest.mark.parametrize(
    ("message", "field", "word"),
    [
        ("hi", "messages[0].role", "role"),
        ({"content": "hi"}, "messages[0].role", "missing"),
        ({"role": "tool", "content": "hi"}, "messages[0].role", "tool"),
        ({"role": "user"}, "messages[0].content", "text or a list"),
        ({"role": "user", "content": 5}, "messages[0].content", "text or a list"),
        (user("hi"), "messages[0].content[0]", "must be an object"),
        (user({"type": "video"}), "messages[0].content[0]", "video"),
        (user(text(5)), "messages[0].content[0].text", "text"),  # type: ignore[arg-type]
        (user({"type": "tool_result"}), "messages[0].content[0].tool_use_id", "text"),
        (user(result(content=5)), "messages[0].content[0].content", "list"),
        (user(result(content=[call()])), "messages[0].content[0].content[0]", "tool_use"),
        (user(call()), "messages[0].content[0]", "tool_use"),
        (assistant(PICTURE), "messages[0].content[0]", "image"),
        (assistant({"type": "server_tool_use"}), "messages[0].content[0]", "server_tool_use"),
        (assistant({"type": "tool_use", "id": "1"}), "messages[0].content[0].name", "text"),
        (assistant({**call(), "input": "x"}), "messages[0].content[0].input", "object"),
        (assistant({"type": "thinking"}), "messages[0].content[0].thinking", "text"),
        ({"role": "system", "content": [PICTURE]}, "messages[0].content[0]", "image"),
        (user({"type": "image"}), "messages[0].content[0].source", "object"),
        (
            user({"type": "image", "source": {"type": "file", "file_id": "f"}}),
            "messages[0].content[0].source.type",
            "file",
        ),
        (
            user({"type": "image", "source": {**PIXEL, "media_type": "image/png,"}}),
            "messages[0].content[0].source.media_type",
            "image/png",
        ),
        (user({**PICTURE, "transformations": {"a": "b"}}), "messages[0].content[0]", "transformations"),
        (
            user({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": ""}}),
            "messages[0].content[0].source.type",
            "text only",
        ),
        (
            user({"type": "document", "source": {"type": "text", "data": "x"}, "citations": {"enabled": True}}),
            "messages[0].content[0].citations",
            "citations",
        ),
    ],
)
def test_what_cannot_be_told_is_refused_and_named(message: Any, field: str, word: str) -> None:
    with pytest.raises(InvalidRequest, match=r"messages\[0\]") as caught:
        read(message)
    assert caught.value.field == field
    assert word in str(caught.value)


@pytest.mark.parametrize("system", [5, {"type": "text"}, [PICTURE], [text(None)]])  # type: ignore[arg-type]
def test_a_system_prompt_is_text(system: Any) -> None:
    with pytest.raises(InvalidRequest, match="^system"):
        read(user(text("hi")), system=system)


def test_a_conversation_has_a_message() -> None:
    with pytest.raises(InvalidRequest, match="at least one"):
        read(system="s")


def test_a_model_without_eyes_takes_no_image() -> None:
    with pytest.raises(InvalidRequest, match="takes no images") as caught:
        read(user(text("a"), PICTURE), takes_images=False)
    assert caught.value.field == "messages[0].content[1]"
