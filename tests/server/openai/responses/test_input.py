from __future__ import annotations

import contextlib
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import InvalidRequest
from paceline.server.openai.responses.input import conversation, input_items, shortened
from tests.integration.test_server_images import png, url
from tests.server.fake_service import FakeService
from tests.server.harness import refused
from tests.server.openai.responses.harness import respond, response_of

Item = dict[str, Any]


def nothing(id: str) -> None:
    return None


def talk(*items: Any, **options: Any) -> list[Item]:
    return conversation(None, [], input_items(list(items), nothing), **options).messages


def user(text: str) -> Item:
    return {"role": "user", "content": text}


def call(id: str, kind: str = "function_call") -> Item:
    return {"type": kind, "call_id": id, "name": "f", "arguments": "{}", "input": "x"}


def result(id: str, kind: str = "function_call_output") -> Item:
    return {"type": kind, "call_id": id, "output": f"result of {id}"}


def thought(text: str) -> Item:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def test_one_turn_of_the_assistant_is_one_message() -> None:
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Look:"}]}
    calls = [call("a"), call("b"), result("a"), result("b"), call("c"), result("c")]
    made = talk(user("q"), thought("mh"), answer, *calls)
    assert [message["role"] for message in made] == ["user", "assistant", "tool", "tool", "assistant", "tool"]
    assert made[1]["reasoning_content"] == "mh" and made[1]["content"][0]["text"] == "Look:"
    assert [each["id"] for each in made[1]["tool_calls"]] == ["a", "b"]
    assert "reasoning_content" not in made[4] and made[4]["content"] is None


def test_a_thought_begins_a_new_message() -> None:
    made = talk(user("q"), thought("one"), call("a"), thought("two"), call("b"), result("a"), result("b"))
    assert [message.get("reasoning_content") for message in made[:3]] == [None, "one", "two"]
    assert talk(user("q"), thought("lost"), user("r"), {"role": "assistant", "content": "x"})[-1].keys() == {
        "role",
        "content",
    }


def test_calls_of_both_kinds_may_mix() -> None:
    made = talk(call("a"), call("b", "custom_tool_call"), result("b", "custom_tool_call_output"), result("a"))
    assert [each["function"]["arguments"] for each in made[0]["tool_calls"]] == ["{}", '{"input": "x"}']


def test_system_messages_and_instructions_keep_their_order() -> None:
    items = input_items([{"role": "developer", "content": "b"}, {"role": "system", "content": "c"}, user("d")], nothing)
    made = conversation("a", [], items).messages
    assert [message["role"] for message in made] == ["system", "developer", "system", "user"]


@pytest.mark.parametrize(
    ("item", "param"),
    [
        (5, "input[1]"),
        ({}, "input[1].type"),
        ({"type": "telepathy"}, "input[1].type"),
        ({"type": "web_search_call", "id": "ws_1"}, "input[1].type"),
        ({"type": "local_shell_call_output", "output": "x"}, "input[1].type"),
        ({"type": "mcp_list_tools"}, "input[1].type"),
        ({"role": "wizard", "content": "x"}, "input[1].role"),
        ({"role": "user"}, "input[1].content"),
        ({"role": "user", "content": [5]}, "input[1].content[0]"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input[1].content[0].text"),
        ({"role": "user", "content": [{"type": "smell"}]}, "input[1].content[0]"),
        ({"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}, "input[1].content[0]"),
        ({"role": "user", "content": [{"type": "input_image", "file_id": "x"}]}, "input[1].content[0].file_id"),
        ({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}, "input[1].content[0].image_url"),
        ({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}, "input[1].content[0]"),
        ({"type": "function_call", "call_id": "a", "name": "f"}, "input[1].arguments"),
        ({"type": "function_call", "call_id": "a", "name": "f", "arguments": {}}, "input[1].arguments"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "input[1].call_id"),
        ({"type": "function_call_output", "output": "x"}, "input[1].call_id"),
        ({"type": "function_call_output", "call_id": "a", "output": "x"}, "input[1].call_id"),
        ({"type": "function_call_output", "call_id": "a", "output": 5}, "input[1].output"),
        ({"type": "custom_tool_call", "call_id": "a", "name": "f"}, "input[1].input"),
        ({"type": "reasoning", "summary": "x"}, "input[1].summary"),
        ({"type": "reasoning", "content": [5]}, "input[1].content"),
        ({"type": "item_reference", "id": "msg_0"}, "input[1].id"),
    ],
)
def test_a_bad_item_is_refused_by_its_place(http: httpx.Client, item: Any, param: str) -> None:
    refused(respond(http, [user("hi"), item]), 400, param, param.split(".")[0])


@pytest.mark.parametrize("input", [None, [], 5, {"role": "user"}])
def test_input_must_be_something(http: httpx.Client, input: Any) -> None:
    refused(respond(http, input), 400, "input")


def test_images_are_taken_in_messages_and_in_results(http: httpx.Client, service: FakeService) -> None:
    picture = {"type": "input_image", "image_url": url(png())}
    shown = {"role": "user", "content": [{"type": "input_text", "text": "What?"}, picture]}
    looked = {"type": "function_call_output", "call_id": "a", "output": [picture]}
    first = response_of(respond(http, [shown, call("a"), looked]))
    items = http.get(f"/v1/responses/{first.id}/input_items").json()["data"]
    assert items[0]["output"][0]["detail"] == "auto"
    bad = {"type": "input_image", "image_url": url(b"no picture")}
    looked = {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "x"}, bad]}
    error = refused(respond(http, [user("hi"), call("a"), looked]), 400, "input[2].output[1].image_url")
    assert "messages" not in error["message"]
    refused(respond(http, [user("hi")] * 2, instructions="x" * 5000), 400, "input", "4096")


steps = st.sampled_from(["user", "assistant", "system", "call", "reasoning"])


@given(st.lists(steps, max_size=12), st.floats(0, 1), st.integers(1, 4))
def test_a_shortened_conversation_keeps_what_it_must(kinds: list[str], share: float, least: int) -> None:
    items: list[Item] = []
    for number, kind in enumerate(kinds):
        if kind == "call":
            items += [call(str(number)), result(str(number))]
        elif kind == "reasoning":
            items.append(thought(str(number)))
        else:
            items.append({"role": kind, "content": f"{number} {'x' * number}"})
    whole = conversation(None, [], input_items([*items, user("now?")], nothing))
    shorter = shortened(whole, share, least)
    if shorter is None:
        return
    assert len(shorter.messages) == len(shorter.places) < len(whole.messages)
    kept = iter(whole.messages)
    assert all(any(message is other for other in kept) for message in shorter.messages)  # in order
    assert shorter.messages[-1] is whole.messages[-1]
    systems = [message for message in whole.messages if message["role"] == "system"]
    assert [message for message in shorter.messages if message["role"] == "system"] == systems
    ids = {each["id"] for message in shorter.messages for each in message.get("tool_calls", ())}
    assert {message["tool_call_id"] for message in shorter.messages if message["role"] == "tool"} == ids
    again = shorter
    while (following := shortened(again, share, least)) is not None:
        assert len(following.messages) < len(again.messages)
        again = following


NAMES = ("role", "content", "call_id", "name", "arguments", "output", "input", "summary", "id", "status")

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["message", "function_call", "function_call_output", "custom_tool_call", "reasoning", "item_reference"]
        )
        | anything,
        **{name: anything for name in NAMES},
    },
)


@given(st.lists(fields, max_size=4) | anything)
def test_any_input_is_read_or_refused(given: Any) -> None:
    with contextlib.suppress(InvalidRequest):
        conversation("x", [], input_items(given, nothing))
