"""/v1/messages over the real service: what only an engine can show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import jsonschema
import pytest

from paceline.service import Service
from paceline.settings import Settings
from tests.conftest import Tiny
from tests.integration.test_server_images import png
from tests.prefixes import ENOUGH, SMALLEST
from tests.server.anthropic.harness import events, message, picture, post, refused
from tests.server.harness import serve, user
from tests.server.sdk_types import TypedClient

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "maxLength": 20},
        "limit": {"type": "integer", "minimum": 0, "maximum": 999},
        "mode": {"enum": ["read", "write"]},
    },
    "required": ["path", "mode"],
    "additionalProperties": False,
}
TOOL = {"name": "file", "description": "Reads or writes a file.", "input_schema": SCHEMA}
FIELDS: dict[str, Any] = {"model": "tiny", "max_tokens": 300}


@pytest.fixture(scope="module")
def http(tiny: Tiny) -> Iterator[httpx.Client]:
    model = tiny("hybrid", **SMALLEST)
    settings = Settings(model=str(model), served_model_name="tiny", max_num_seqs=4, prefill_chunk=256)
    with serve(Service(settings), settings) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def claude(http: httpx.Client) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=str(http.base_url), api_key="none", max_retries=0, timeout=120) as client:
        yield client


def test_a_stream_adds_up_to_the_whole_answer(claude: anthropic.Anthropic) -> None:
    fields: Any = {"model": "tiny", "max_tokens": 20, "messages": user("Tell me"), "extra_body": {"temperature": 0}}
    whole = claude.messages.create(**fields)
    with claude.messages.stream(**fields) as stream:
        final = stream.get_final_message()
    assert [block.to_dict() for block in whole.content] == [
        {name: value for name, value in block.to_dict().items() if name != "parsed_output"} for block in final.content
    ]
    assert final.usage.output_tokens == whole.usage.output_tokens


@pytest.mark.thin(4)
@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "file"}])
@pytest.mark.parametrize("thinking", [None, {"type": "disabled"}])
def test_a_forced_call_has_valid_input_and_its_result_is_answered(
    claude: anthropic.Anthropic, choice: Any, thinking: Any
) -> None:
    asked: Any = user("Read it")
    more: dict[str, Any] = {**FIELDS, "tools": [TOOL]} | ({} if thinking is None else {"thinking": thinking})
    one: Any = {**choice, "disable_parallel_tool_use": True}
    with claude.messages.stream(messages=asked, tool_choice=one, **more) as stream:
        answer = stream.get_final_message()
    [call] = answer.content
    assert call.type == "tool_use" and call.name == "file" and answer.stop_reason == "tool_use"
    jsonschema.validate(call.input, SCHEMA)
    result: Any = {"type": "tool_result", "tool_use_id": call.id, "content": "no such file", "is_error": True}
    conversation = [*asked, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    after = claude.messages.create(messages=conversation, tool_choice={"type": "none"}, **more)
    assert all(block.type != "tool_use" for block in after.content)


def test_an_answer_in_a_format_parses(claude: anthropic.Anthropic) -> None:
    schema = {**SCHEMA, "required": list(SCHEMA["properties"])}
    asked: Any = user("A file")
    format: Any = {"type": "json_schema", "schema": schema}
    answer = claude.messages.create(messages=asked, output_config={"format": format}, **FIELDS)
    [block] = answer.content
    assert block.type == "text"
    jsonschema.validate(json.loads(block.text), schema)


def test_a_model_that_is_told_to_think_thinks_first(http: httpx.Client) -> None:
    """Greedy: a random token may end the thoughts, or the answer, before they begin."""
    fields: dict[str, Any] = {
        "max_tokens": 30,
        "temperature": 0,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    answer = message(post(http, "Why?", **fields))
    assert answer.content[0].type == "thinking"
    found = events(post(http, "Why?", stream=True, **fields))
    assert found[1]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}


def test_a_stop_sequence_ends_the_answer(http: httpx.Client) -> None:
    fields: dict[str, Any] = {"max_tokens": 40, "temperature": 0}
    [block] = message(post(http, "Tell me", **fields)).content
    assert block.type == "text"
    stop = block.text[len(block.text) // 2 :][:2]
    answer = message(post(http, "Tell me", stop_sequences=[stop], **fields))
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", stop)
    said = "".join(block.text for block in answer.content if block.type == "text")
    assert said == block.text.partition(stop)[0]


def test_images_count_also_in_a_tools_result(http: httpx.Client) -> None:
    def counted(*blocks: dict[str, Any]) -> int:
        response = http.post("/v1/messages/count_tokens", json={"messages": user(list(blocks))})
        return int(response.json()["input_tokens"])

    text, shot = {"type": "text", "text": "What?"}, picture(png(64, 64))
    assert counted(text, shot) > counted(text)
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [shot]}
    assert counted(result, text) >= counted(text, shot)
    usage = message(post(http, [text, shot], max_tokens=3)).usage
    assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == counted(text, shot)
    refused(post(http, [picture(b"x")]), 400, "invalid_request_error", "messages[0].content[0].source")


def test_more_tokens_than_the_context_holds_may_be_asked_for(http: httpx.Client) -> None:
    forced = {"type": "tool", "name": "file"}  # so that it ends soon
    assert message(post(http, "Hi", max_tokens=10**9, tools=[TOOL], tool_choice=forced)).stop_reason == "tool_use"


def claude_code(turn: int, *more: Any) -> dict[str, Any]:
    """A request as Claude Code makes it: another header line every time, in front of the same long prompt."""
    header = f"x-anthropic-billing-header: cc_version=2.1.{turn}; cc_entrypoint=cli; cch={turn:05x};"
    kept = {"type": "ephemeral"}
    properties = {f"argument_{number}": {"type": "string", "description": "Says what. " * 5} for number in range(4)}
    tools = [
        {
            "name": f"Tool{number}",
            "description": f"Does {number}. " * 20,
            "input_schema": {"type": "object", "properties": properties},
        }
        for number in range(12)
    ]
    return {
        "model": "tiny",
        "max_tokens": 32000,
        "temperature": 0,
        "system": [
            {"type": "text", "text": header},
            {"type": "text", "text": "You are an agent.", "cache_control": kept},
            {"type": "text", "text": "Be careful with files. " * 50, "cache_control": kept},
        ],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>"},
                    {"type": "text", "text": "List the files.", "cache_control": kept},
                ],
            },
            *more,
        ],
        "tools": tools,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "medium"},
        "metadata": {"user_id": '{"device_id":"d","session_id":"s"}'},
        "stream": True,
    }


def test_claude_code_is_served_and_its_second_turn_reuses_the_first(http: httpx.Client) -> None:
    headers = {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "claude-code-20250219,context-management-2025-06-27",
    }

    def ask(body: dict[str, Any]) -> list[dict[str, Any]]:
        response = http.post("/v1/messages?beta=true", json=body, headers=headers)
        assert response.status_code == 200, response.text
        return events(response)

    def usage(events: list[dict[str, Any]]) -> tuple[int, int]:
        told = events[-2]["usage"]
        return told["input_tokens"], told["cache_read_input_tokens"]

    first = ask(claude_code(1) | {"tool_choice": {"type": "tool", "name": "Tool3"}, "max_tokens": 400})
    new, cached = usage(first)
    assert new > 2000 and cached < 10  # other conversations begin with the same tag
    call = {"type": "tool_use", "id": "toolu_1", "name": "Tool3", "input": {"argument_0": "."}}
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "README.md",
        "cache_control": {"type": "ephemeral"},
    }
    turns = ({"role": "assistant", "content": [call]}, {"role": "user", "content": [result]})
    second = ask(claude_code(2, *turns) | {"max_tokens": 50})
    assert usage(second)[1] > ENOUGH * new
    assert second[0]["message"]["usage"]["cache_read_input_tokens"] == usage(second)[1]
