"""Tools with a format, on the model that the package carries: it calls, then answers in the format, in every API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from paceline.models.files import EMBEDDED
from paceline.service import Service
from paceline.settings import Settings
from tests.server.harness import events, serve
from tests.server.sdk_types import TypedClient

QUESTION = {"role": "user", "content": "What is the weather in Paris?"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ABOUT = {"name": "get_weather", "description": "Get the current weather in a city."}
SCHEMA = {
    "type": "object",
    "properties": {"temperature": {"type": "integer"}, "sky": {"enum": ["sunny", "cloudy"]}},
    "required": ["temperature", "sky"],
    "additionalProperties": False,
}
CALL = {"city": "Paris"}
RESULT = '{"temperature": 21, "sky": "sunny"}'
ANSWER = {"temperature": 21, "sky": "sunny"}


@pytest.fixture(scope="module")
def mini() -> Iterator[httpx.Client]:
    settings = Settings(model=str(EMBEDDED / "paceline-mini"), max_num_seqs=4)
    with serve(Service(settings), settings) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


def chat(mini: httpx.Client, messages: list[Any], **fields: Any) -> Any:
    tools = [{"type": "function", "function": {**ABOUT, "parameters": PARAMETERS}}]
    format = {"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA}}
    body = {"messages": messages, "tools": tools, "response_format": format, "temperature": 0, "max_tokens": 80}
    response = mini.post("/v1/chat/completions", json={**body, **fields})
    assert response.status_code == 200, response.text
    return response


@pytest.mark.thin(2)
@pytest.mark.parametrize("speculation", ["off", 2])
def test_chat_calls_first_and_then_answers_in_the_format(mini: httpx.Client, speculation: Any) -> None:
    said = ChatCompletion.model_validate(chat(mini, [QUESTION], speculation=speculation).json()).choices[0]
    assert said.finish_reason == "tool_calls" and said.message.content is None and said.message.tool_calls
    [call] = said.message.tool_calls
    assert call.type == "function" and json.loads(call.function.arguments) == CALL
    turn = said.message.model_dump(exclude_none=True)
    told = [QUESTION, turn, {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
    said = ChatCompletion.model_validate(chat(mini, told, speculation=speculation).json()).choices[0]
    assert said.finish_reason == "stop" and not said.message.tool_calls
    assert json.loads(said.message.content or "") == ANSWER
    streamed = events(chat(mini, told, stream=True, speculation=speculation))
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in streamed if chunk["choices"])
    assert text == said.message.content


@pytest.mark.thin(2)
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
@pytest.mark.parametrize("format", [None, {"type": "json_object"}])
def test_a_forced_call_wins_over_the_format(mini: httpx.Client, choice: Any, format: Any) -> None:
    more = {} if format is None else {"response_format": format}
    said = ChatCompletion.model_validate(chat(mini, [QUESTION], tool_choice=choice, **more).json()).choices[0]
    assert said.finish_reason == "tool_calls" and said.message.tool_calls


def test_without_tools_to_call_there_is_only_the_format(mini: httpx.Client) -> None:
    said = ChatCompletion.model_validate(chat(mini, [QUESTION], tool_choice="none").json()).choices[0]
    assert said.finish_reason == "stop" and set(json.loads(said.message.content or "")) == set(ANSWER)


def test_responses_call_first_and_then_answer_in_the_format(mini: httpx.Client) -> None:
    tools = [{"type": "function", **ABOUT, "parameters": PARAMETERS}]
    format = {"type": "json_schema", "name": "weather", "schema": SCHEMA}
    fields = {"tools": tools, "text": {"format": format}, "temperature": 0, "max_output_tokens": 80}

    def respond(**more: Any) -> Response:
        response = mini.post("/v1/responses", json={**fields, **more})
        assert response.status_code == 200, response.text
        return Response.model_validate(response.json())

    first = respond(input=QUESTION["content"])
    [call] = first.output
    assert call.type == "function_call" and json.loads(call.arguments) == CALL
    result = {"type": "function_call_output", "call_id": call.call_id, "output": RESULT}
    assert json.loads(respond(input=[result], previous_response_id=first.id).output_text) == ANSWER
    [call] = respond(input="Hello!", tool_choice="required").output
    assert call.type == "function_call"


def test_messages_call_first_and_then_answer_in_the_format(mini: httpx.Client) -> None:
    fields = {
        "tools": [{**ABOUT, "input_schema": PARAMETERS}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        "temperature": 0,
        "max_tokens": 80,
    }

    def ask(*messages: Any, **more: Any) -> Message:
        response = mini.post("/v1/messages", json={**fields, "messages": list(messages), **more})
        assert response.status_code == 200, response.text
        return Message.model_validate(response.json())

    first = ask(QUESTION)
    [call] = first.content
    assert first.stop_reason == "tool_use" and call.type == "tool_use" and call.input == CALL
    turn = {"role": "assistant", "content": [{"type": "tool_use", "id": call.id, "name": call.name, "input": CALL}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT}]}
    [text] = ask(QUESTION, turn, result).content
    assert text.type == "text" and json.loads(text.text) == ANSWER
    [call] = ask(QUESTION, tool_choice={"type": "any"}).content
    assert call.type == "tool_use"
