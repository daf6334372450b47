"""/v1/responses over the real service: what only an engine can show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import openai
import pytest
from pydantic import BaseModel, Field

from paceline.service import Service
from paceline.settings import Settings
from tests.conftest import Tiny
from tests.integration.test_server import until_idle
from tests.integration.test_server_images import png, url
from tests.prefixes import SMALLEST
from tests.server.harness import serve
from tests.server.openai.responses.harness import PARAMETERS, WEATHER, checked, respond, response_of, stream_of
from tests.server.sdk_types import TypedClient

SCHEMA = {
    "type": "object",
    "properties": {"yes": {"type": "boolean"}, "digit": {"enum": [1, 2, 3]}},
    "required": ["yes", "digit"],
    "additionalProperties": False,
}
CODEX: dict[str, Any] = {  # as Codex sends it, in its own words' stead
    "model": "tiny",
    "instructions": "You are an agent in a terminal. " * 20,
    "tools": [
        {**WEATHER, "name": "shell", "strict": False},
        {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": {"type": "text"}},
        {"type": "web_search", "external_web_access": False},
        {"type": "local_shell"},
        {"type": "namespace", "name": "agents", "description": "Helpers.", "tools": [{**WEATHER, "strict": False}]},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "a session",
    "client_metadata": {"x": "y"},
    "max_output_tokens": 12,
    "temperature": 0,
}


def said(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


@pytest.fixture(scope="module")
def http(tiny: Tiny) -> Iterator[httpx.Client]:
    model: Path = tiny("hybrid", **SMALLEST)
    settings = Settings(model=str(model), served_model_name="tiny", max_num_seqs=4)
    with serve(Service(settings), settings) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def client(http: httpx.Client) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


def test_a_stream_adds_up_to_the_whole_answer(http: httpx.Client) -> None:
    for fields in ({"temperature": 0}, {"seed": 7}, {"seed": 7, "enable_thinking": True}):
        whole = respond(http, "Tell me", max_output_tokens=20, **fields).json()
        last = stream_of(respond(http, "Tell me", max_output_tokens=20, stream=True, **fields))[-1]["response"]
        for one, other in zip(whole["output"], last["output"], strict=True):
            assert one.pop("id") != other.pop("id")
            assert one == other
        assert whole["usage"]["output_tokens"] == last["usage"]["output_tokens"]


def test_a_forced_call_makes_a_round_trip(http: httpx.Client) -> None:
    fields: dict[str, Any] = {"tools": [WEATHER], "temperature": 1.2, "seed": 3}
    for stream in (False, True):
        answer = respond(http, "Weather?", tool_choice={"type": "function", "name": "weather"}, stream=stream, **fields)
        first = stream_of(answer)[-1]["response"] if stream else answer.json()
        call = first["output"][-1]
        assert call["type"] == "function_call" and call["name"] == "weather", first
        if call["status"] == "completed":
            jsonschema.validate(json.loads(call["arguments"]), PARAMETERS)
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sun"}
        second = response_of(respond(http, [output], previous_response_id=first["id"], max_output_tokens=5, **fields))
        assert second.usage is not None and second.usage.input_tokens > first["usage"]["input_tokens"]


def test_a_schema_is_kept_to(http: httpx.Client) -> None:
    given = {"type": "json_schema", "name": "thing", "schema": SCHEMA, "strict": True}
    for seed in range(3):
        response = response_of(respond(http, "?", text={"format": given}, temperature=1.5, seed=seed))
        assert response.status == "completed"
        jsonschema.validate(json.loads(response.output_text), SCHEMA)
    bad = respond(http, "?", text={"format": {**given, "schema": {"type": "telepathy"}}})
    assert bad.status_code == 400 and bad.json()["error"]["param"] == "text.format.schema"


def test_the_openai_client_parses_an_answer(client: openai.OpenAI) -> None:
    class Thing(BaseModel):
        yes: bool
        digit: int = Field(ge=1, le=3)

    answer = client.responses.parse(model="tiny", input="?", text_format=Thing, temperature=1.5)
    assert answer.output_parsed is not None and 1 <= answer.output_parsed.digit <= 3
    with client.responses.stream(model="tiny", input="?", text_format=Thing) as stream:
        parsed = stream.get_final_response().output_parsed
    assert parsed is not None and 1 <= parsed.digit <= 3


def test_an_image_is_answered(http: httpx.Client) -> None:
    parts = [{"type": "input_text", "text": "What?"}, {"type": "input_image", "image_url": url(png(64, 64))}]
    first = response_of(respond(http, [{"role": "user", "content": parts}], max_output_tokens=4))
    without = response_of(respond(http, "What?", max_output_tokens=4))
    assert first.usage is not None and without.usage is not None
    assert first.usage.input_tokens > without.usage.input_tokens
    second = response_of(respond(http, "And?", previous_response_id=first.id, max_output_tokens=4))
    assert second.usage is not None and second.usage.input_tokens > first.usage.input_tokens


def test_an_agents_second_request_reuses_its_first(http: httpx.Client) -> None:
    items = [said("developer", "Permissions: all."), said("user", "<cwd>/tmp</cwd>"), said("user", "List the files.")]
    first = stream_of(http.post("/v1/responses", json={**CODEX, "input": items}))[-1]["response"]
    again = [*items, *first["output"], said("user", "Once more.")]
    second = stream_of(http.post("/v1/responses", json={**CODEX, "input": again}))[-1]["response"]
    cached = second["usage"]["input_tokens_details"]["cached_tokens"]
    assert cached >= first["usage"]["input_tokens"] // 2 > 50
    assert [tool["type"] for tool in second["tools"]] == ["function", "custom", "namespace"]


def test_a_stream_that_is_cancelled_frees_its_sequence(http: httpx.Client) -> None:
    body = {"input": "Go on", "stream": True, "ignore_eos": True}
    events: list[Any] = []
    with openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="none", max_retries=0, timeout=120) as other:
        for event in other.responses.create(
            model="tiny", input="Go on", stream=True, extra_body={"ignore_eos": True, "temperature": 0}
        ):
            events.append(event.model_dump(exclude_unset=True))
            if event.type == "response.output_text.delta" and len(events) == 6:
                assert other.responses.cancel(events[0]["response"]["id"]).status == "cancelled"
    last = checked(events)[-1]
    assert last["type"] == "response.incomplete" and last["response"]["status"] == "cancelled"
    until_idle(http)
    with http.stream("POST", "/v1/responses", json=body) as response:
        next(response.iter_bytes())
    until_idle(http)
