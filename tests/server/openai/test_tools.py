"""Tools, formats and reasoning in /v1/chat/completions, on a real engine with OpenAI's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from paceline.service import Service
from paceline.settings import Settings
from tests.server.harness import events, post_chat, post_completion, refused, serve, user
from tests.server.sdk_types import TypedClient

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Weather.", "parameters": CITY}}
NOTHING = {"type": "function", "function": {"name": "nothing"}}
NAMED = {"type": "function", "function": {"name": "weather"}}


@pytest.fixture(scope="module")
def http(hybrid: Path) -> Iterator[httpx.Client]:
    settings = Settings(model=str(hybrid), served_model_name="tiny", max_num_seqs=4)
    with serve(Service(settings), settings) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


def answered(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    choice = ChatCompletion.model_validate(response.json()).choices[0]
    return choice


@pytest.mark.thin(4)
@pytest.mark.parametrize("choice", ["required", NAMED])
@pytest.mark.parametrize("speculation", ["off", 3])
def test_a_call_that_is_forced_comes_with_arguments_that_keep_to_the_schema(
    http: httpx.Client, choice: Any, speculation: Any
) -> None:
    for seed in range(3):
        fields = {"tools": [WEATHER], "tool_choice": choice, "seed": seed, "max_tokens": 400, "temperature": 1.2}
        said = answered(post_chat(http, "How is it there?", speculation=speculation, **fields))
        assert said.finish_reason == "tool_calls" and said.message.content is None
        for call in said.message.tool_calls:
            assert call.function.name == "weather"
            jsonschema.validate(json.loads(call.function.arguments), CITY)


def test_a_stream_of_a_call_is_its_name_and_then_its_arguments(http: httpx.Client) -> None:
    fields = {"tools": [WEATHER, NOTHING], "tool_choice": NAMED, "seed": 4, "max_tokens": 400}
    whole = answered(post_chat(http, **fields))
    chunks = [ChatCompletionChunk.model_validate(event) for event in events(post_chat(http, stream=True, **fields))]
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert calls[0].function is not None and calls[0].function.name == "weather" and calls[0].id
    assert all(call.id is None for call in calls[1:])
    text = "".join(call.function.arguments or "" for call in calls if call.function)
    assert text == whole.message.tool_calls[0].function.arguments
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_openais_client_reads_calls_and_sends_their_results(http: httpx.Client) -> None:
    client = openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="none", max_retries=0)
    tools: Any = [WEATHER]
    first: Any = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "Weather?"}], tools=tools, tool_choice="required", seed=1
    )
    call = first.choices[0].message.tool_calls[0]
    history: Any = [
        {"role": "user", "content": "Weather?"},
        first.choices[0].message.to_dict(),
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    second = client.chat.completions.create(model="tiny", messages=history, tools=tools, max_tokens=8)
    assert second.choices[0].finish_reason in ("stop", "length")
    assert second.usage is not None and second.usage.prompt_tokens_details is not None
    assert second.usage.prompt_tokens_details.cached_tokens


def test_an_answer_in_a_format_parses_beside_a_free_one(http: httpx.Client) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": CITY}}
    for seed in range(3):
        said = answered(post_chat(http, response_format=schema, seed=seed, max_tokens=400, temperature=1.5))
        assert said.finish_reason == "stop"
        jsonschema.validate(json.loads(said.message.content), CITY)
    assert answered(post_chat(http, guided_choice=["yes", "no"])).message.content in ("yes", "no")
    assert answered(post_chat(http, structured_outputs={"regex": "[ab]{3}"})).message.content.strip("ab") == ""
    told = post_completion(http, guided_regex="[0-9]{4}", max_tokens=20)
    assert told.status_code == 200 and told.json()["choices"][0]["text"].isdigit()


def test_thinking_is_told_apart_from_the_answer(http: httpx.Client) -> None:
    said = answered(post_chat(http, max_tokens=12, chat_template_kwargs={"enable_thinking": True}, temperature=0))
    assert said.message.content == "" and said.message.reasoning_content
    same = answered(post_chat(http, max_tokens=12, reasoning_effort="high", temperature=0))
    assert same.message.reasoning_content == said.message.reasoning_content


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {"name": 'a"b'}}]}, "tools[0].function.name"),
        ({"tools": [WEATHER, WEATHER]}, "tools"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "guided_regex"),
        ({"response_format": {"type": "json_object"}, "min_tokens": 3}, "min_tokens"),
        ({"tools": [WEATHER], "tool_choice": "required", "response_format": {"type": "json_object"}}, "tool_choice"),
        ({"structured_outputs": {"invented": 1}}, "structured_outputs.invented"),
        ({"reasoning_effort": "much"}, "reasoning_effort"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(post_chat(http, **fields), 400, param)


def test_tool_choice_none_leaves_the_tools_out(http: httpx.Client) -> None:
    plain = http.post("/v1/chat/completions", json={"messages": user("hi"), "max_tokens": 5, "temperature": 0}).json()
    none = post_chat(http, tools=[WEATHER], tool_choice="none", max_tokens=5, temperature=0).json()
    assert none["choices"][0]["message"] == plain["choices"][0]["message"]
    assert none["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]
