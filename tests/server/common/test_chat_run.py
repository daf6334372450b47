"""One chat run under three APIs: what each tells of calls that are one too many, cut off, or broken off."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from paceline.conversation.parsing.formats import OutputFormat
from tests.server import fake_service
from tests.server.fake_service import FakeService
from tests.server.harness import events, post_chat, user
from tests.server.openai.responses.harness import CALL, PARAMETERS, WEATHER, respond, response_of, stream_of
from tests.waiting import WAIT

TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
CLAUDES = {"name": "weather", "input_schema": PARAMETERS}
BROKEN = '<tool_call>\n{"name": "weather", "arguments": {"city": "a"b"}}\n</tool_call>'
Says = Callable[[str], None]


@pytest.fixture(autouse=True)
def format(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "answer_format", OutputFormat("hermes", "think"))


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Says:
    """The model's answers from now on."""
    return lambda text: monkeypatch.setattr(fake_service, "REPLY", text)


def chat(http: httpx.Client, **fields: Any) -> Any:
    answer = post_chat(http, tools=[TOOL], **fields)
    assert answer.status_code == 200, answer.text
    return ChatCompletion.model_validate(answer.json())


def chat_stream(http: httpx.Client, **fields: Any) -> tuple[list[list[str]], str, str]:
    """The calls as name and arguments, the text, and the reason of the end."""
    calls: dict[int, list[str]] = {}
    text = reason = ""
    for event in events(post_chat(http, tools=[TOOL], stream=True, **fields)):
        [choice] = ChatCompletionChunk.model_validate(event).choices
        text += choice.delta.content or ""
        reason = choice.finish_reason or reason
        for call in choice.delta.tool_calls or ():
            assert call.function is not None
            calls.setdefault(call.index, [call.function.name or "", ""])[1] += call.function.arguments or ""
    return list(calls.values()), text, reason


def message(http: httpx.Client, **fields: Any) -> Any:
    answer = http.post("/v1/messages", json={"max_tokens": 500, "messages": user("hi"), "tools": [CLAUDES], **fields})
    assert answer.status_code == 200, answer.text
    return Message.model_validate(answer.json())


def message_stream(http: httpx.Client, **fields: Any) -> tuple[list[list[str]], str]:
    """The blocks as type and text, and the reason of the end."""
    body = {"max_tokens": 500, "messages": user("hi"), "tools": [CLAUDES], "stream": True, **fields}
    blocks: list[list[str]] = []
    reason = ""
    for line in http.post("/v1/messages", json=body).text.splitlines():
        if not line.startswith("data: "):
            continue
        event = json.loads(line.removeprefix("data: "))
        if event["type"] == "content_block_start":
            blocks.append([event["content_block"]["type"], ""])
        elif event["type"] == "content_block_delta":
            blocks[-1][1] += event["delta"].get("text", event["delta"].get("partial_json", ""))
        elif event["type"] == "message_delta":
            reason = event["delta"]["stop_reason"]
    return blocks, reason


# -- one call at a time


def test_chat_ends_before_a_second_call_where_one_is_allowed(
    http: httpx.Client, service: FakeService, says: Says
) -> None:
    says(f"Look:\n{CALL}\n{CALL}{'and so on' * 50}")
    said = chat(http, parallel_tool_calls=False)
    [choice] = said.choices
    assert (choice.finish_reason, choice.message.content, len(choice.message.tool_calls)) == ("tool_calls", "Look:", 1)
    assert said.usage.completion_tokens < len(f"Look:\n{CALL}\n{CALL}".encode()), "the sequence ended there"
    calls, text, reason = chat_stream(http, parallel_tool_calls=False)
    assert (calls, text, reason) == ([["weather", '{"city": "Zürich"}']], "Look:", "tool_calls")
    assert len(chat(http).choices[0].message.tool_calls) == 2, "and without the field there are two"
    assert service.idle.wait(WAIT)


def test_each_choice_ends_before_its_own_second_call(http: httpx.Client, service: FakeService, says: Says) -> None:
    says(f"{CALL}\n{CALL}")
    for choice in chat(http, parallel_tool_calls=False, n=3).choices:
        assert (choice.finish_reason, len(choice.message.tool_calls)) == ("tool_calls", 1)
    assert service.idle.wait(WAIT)


def test_messages_end_before_a_second_call_where_one_is_allowed(
    http: httpx.Client, service: FakeService, says: Says
) -> None:
    says(f"Look:\n{CALL}\n{CALL}{'and so on' * 50}")
    single = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    said = message(http, **single)
    assert ([block.type for block in said.content], said.stop_reason) == (["text", "tool_use"], "tool_use")
    assert said.usage.output_tokens < len(f"Look:\n{CALL}\n{CALL}".encode())
    blocks, reason = message_stream(http, **single)
    assert (blocks, reason) == ([["text", "Look:"], ["tool_use", '{"city": "Zürich"}']], "tool_use")
    assert service.idle.wait(WAIT)


def test_text_after_the_only_call_is_told(http: httpx.Client, says: Says) -> None:
    says(f"{CALL}\nThat is all.")
    [choice] = chat(http, parallel_tool_calls=False).choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "That is all.")


# -- cut by the length: told as far as it came, and never as if it were whole


def test_chat_hands_over_the_beginning_of_a_call_that_the_length_cut(http: httpx.Client, says: Says) -> None:
    says(f"Look:\n{CALL}")
    [choice] = chat(http, max_tokens=62).choices
    [call] = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content) == ("length", "Look:")
    assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Z')
    calls, text, reason = chat_stream(http, max_tokens=62)
    assert (calls, text, reason) == ([["weather", '{"city": "Z']], "Look:", "length")


def test_responses_call_it_incomplete(http: httpx.Client, says: Says) -> None:
    says(CALL)
    last = stream_of(respond(http, tools=[WEATHER], max_output_tokens=56, stream=True))[-1]["response"]
    for output in (last["output"], respond(http, tools=[WEATHER], max_output_tokens=56).json()["output"]):
        [call] = output
        assert (call["status"], call["arguments"]) == ("incomplete", '{"city": "Z')


def test_messages_close_its_block_in_a_stream_and_tell_it_as_text_in_a_whole(http: httpx.Client, says: Says) -> None:
    """A whole answer's input is an object, and there is none."""
    says(f"Look:\n{CALL}")
    said = message(http, max_tokens=62)
    assert ([block.type for block in said.content], said.stop_reason) == (["text"], "max_tokens")
    assert said.content[0].text == f"Look:\n{CALL}"[:62]
    blocks, reason = message_stream(http, max_tokens=62)
    assert (blocks, reason) == ([["text", "Look:"], ["tool_use", '{"city": "Z']], "max_tokens")


# -- broken off by the model: text


@pytest.mark.parametrize("text", [BROKEN, CALL[:60]])
def test_what_the_model_broke_off_is_text_and_no_call(http: httpx.Client, says: Says, text: str) -> None:
    says(text)
    [choice] = chat(http).choices
    assert (choice.finish_reason, choice.message.tool_calls, choice.message.content) == ("stop", None, text)
    [call], told, reason = chat_stream(http)
    assert (told, reason) == (text, "stop")
    with pytest.raises(ValueError, match="."):
        json.loads(call[1])
    said = message(http)
    assert ([block.type for block in said.content], said.stop_reason) == (["text"], "end_turn")
    assert said.content[0].text == text
    blocks, reason = message_stream(http)
    assert ([block[0] for block in blocks], blocks[1][1], reason) == (["tool_use", "text"], text, "end_turn")
    broken, rest = response_of(respond(http, tools=[WEATHER])).output
    assert broken.type == "function_call" and broken.status == "incomplete"
    assert rest.type == "message" and rest.content[0].type == "output_text" and rest.content[0].text == text
    stream_of(respond(http, tools=[WEATHER], stream=True))


def test_a_call_after_a_broken_one_counts(http: httpx.Client, says: Says) -> None:
    says(f"{BROKEN}\n{CALL}")
    [choice] = chat(http).choices
    assert (choice.finish_reason, len(choice.message.tool_calls)) == ("tool_calls", 1)
    calls, _, reason = chat_stream(http)
    assert ([call[1] for call in calls], reason) == (['{"city": "a"', '{"city": "Zürich"}'], "tool_calls")
