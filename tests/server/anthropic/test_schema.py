"""Every field of /v1/messages is honoured, or refused by name."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from paceline.types import Sampling
from tests.server.anthropic.harness import REST, TOOL, Scripted, events, message, post, refused
from tests.server.fake_service import FakeService
from tests.server.harness import user


def test_tools_reach_the_template_in_openais_form(stage: httpx.Client, actor: Scripted) -> None:
    examples = [{"at": "y"}]
    mine = {
        **TOOL,
        "type": "custom",
        "strict": True,
        "input_examples": examples,
        "cache_control": {},
        "defer_loading": True,
    }
    typed = {**REST, "type": "bash_20250124", "allowed_callers": ["direct"]}
    assert post(stage, tools=[mine, typed]).status_code == 200
    request: Any = actor.requests[-1]
    description = 'Looks.\nExamples of its input:\n{"at": "y"}'
    look = {"name": "look", "description": description, "parameters": TOOL["input_schema"], "strict": True}
    rest = {"name": "rest", "parameters": REST["input_schema"]}
    assert list(request.tools) == [{"type": "function", "function": look}, {"type": "function", "function": rest}]


@pytest.mark.parametrize(
    ("choice", "offered", "forced"),
    [
        (None, True, False),
        ({"type": "auto"}, True, False),
        ({"type": "none"}, False, False),
        ({"type": "any"}, True, True),
        ({"type": "tool", "name": "rest"}, True, True),
    ],
)
def test_a_choice_of_tool_is_honoured(
    stage: httpx.Client, actor: Scripted, choice: Any, offered: bool, forced: bool
) -> None:
    assert post(stage, tools=[TOOL, REST], tool_choice=choice).status_code == 200
    request: Any = actor.requests[-1]
    assert (request.tools is not None, request.grammar is not None) == (offered, forced)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"tools": ["look"]}, "tools[0]"),
        ({"service_tier": "gold"}, "service_tier"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "bash_20250124"),
        ({"tools": [{"name": "look"}]}, "tools[0].input_schema"),
        ({"tools": [{"name": "look", "input_schema": {"type": "string"}}]}, "tools[0].input_schema"),
        ({"tools": [{**TOOL, "name": "a b"}]}, "tools[0].name"),
        ({"tools": [TOOL, {**TOOL, "strict": "yes"}]}, "tools[1]"),
        ({"tools": [TOOL, TOOL]}, "same name"),
        ({"tools": [{**TOOL, "allowed_callers": ["code_execution_20250825"]}]}, "tools[0].allowed_callers"),
        ({"tools": [{**TOOL, "input_examples": "x"}]}, "tools[0].input_examples"),
        ({"tool_choice": {"type": "any"}}, "no tools"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "fly"}}, "fly"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [TOOL], "tool_choice": {"type": "required"}}, "required"),
        ({"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}}, "disable_parallel"),
        ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice"),
    ],
)
def test_bad_tools_are_refused_and_named(http: httpx.Client, fields: dict[str, Any], word: str) -> None:
    refused(post(http, **fields), 400, "invalid_request_error", word)


@pytest.mark.parametrize(
    ("thinking", "options"),
    [
        (None, {}),
        ({"type": "adaptive"}, {}),
        ({"type": "enabled", "budget_tokens": 2048}, {"enable_thinking": True}),
        ({"type": "disabled"}, {"enable_thinking": False}),
    ],
)
def test_thinking_is_told_to_the_template(stage: httpx.Client, actor: Scripted, thinking: Any, options: Any) -> None:
    assert post(stage, thinking=thinking).status_code == 200
    request: Any = actor.requests[-1]
    assert request.template_options == options


@pytest.mark.parametrize("template", ["", "{{ reasoning_effort }}"])
def test_effort_is_for_templates_that_know_levels(
    http: httpx.Client, service: FakeService, monkeypatch: pytest.MonkeyPatch, template: str
) -> None:
    monkeypatch.setattr(service.tokenizer, "chat_template", template)
    assert post(http, output_config={"effort": "max"}).status_code == 200
    request: Any = service.requests[-1]
    assert request.template_options == ({"reasoning_effort": "high"} if template else {})


@pytest.mark.parametrize("place", ["output_config", "output_format"])
def test_a_format_of_the_answer_is_a_grammar(http: httpx.Client, service: FakeService, place: str) -> None:
    format = {"type": "json_schema", "schema": {"type": "object"}}
    fields: dict[str, Any] = {"output_format": format} if place == "output_format" else {place: {"format": format}}
    assert post(http, **fields).status_code == 200
    request: Any = service.requests[-1]
    assert request.grammar is not None and request.grammar.kind == "json_schema"


def test_every_sampling_field_reaches_the_engine(http: httpx.Client, service: FakeService) -> None:
    fields = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "max_tokens": 3,
        "stop_sequences": ["x", "y"],
        "seed": -1,
        "speculation": 3,
        "cache": False,
        "cache_salt": "alice",
    }
    assert post(http, **fields).status_code == 200
    request = service.requests[-1]
    assert (request.cache, request.cache_salt) == (False, "alice")
    assert request.sampling == Sampling(
        temperature=0.5, top_p=0.9, top_k=40, max_tokens=3, stop=("x", "y"), seed=2**64 - 1, speculation=3
    )


def test_null_is_the_same_as_not_given(http: httpx.Client, service: FakeService) -> None:
    names = (
        "model system tools tool_choice thinking output_config output_format context_management metadata "
        "stop_sequences stream temperature top_p top_k seed speculation cache cache_salt container mcp_servers "
        "specprefill specprefill_keep_pct"
    )
    assert post(http, **dict.fromkeys(names.split())).status_code == 200
    assert service.requests[-1].sampling == Sampling(max_tokens=100)


def test_fields_that_ask_for_nothing_are_tolerated(http: httpx.Client) -> None:
    fields = {
        "metadata": {"user_id": "u"},
        "service_tier": "auto",
        "cache_control": {"type": "ephemeral"},
        "speed": "standard",
        "mcp_servers": [],
        "invented": {"deeply": ["nested"]},
    }
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "a-2025-01-01,b"}
    body = {"max_tokens": 5, "messages": user("hi"), **fields}
    response = http.post("/v1/messages?beta=true", json=body, headers=headers)
    assert "context_management" not in response.json()
    message(response)


def test_edits_that_only_clear_are_taken_and_said_not_to_be_applied(http: httpx.Client) -> None:
    edits = [{"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}}]
    edits += [{"type": "clear_thinking_20251015", "keep": "all"}]
    response = post(http, context_management={"edits": edits})
    assert response.json()["context_management"] == {"applied_edits": []}
    last = events(post(http, context_management={"edits": edits}, stream=True))[-2]
    assert last["context_management"] == {"applied_edits": []}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_k": -5}, "top_k"),
        ({"stop_sequences": "x"}, "stop_sequences"),
        ({"stop_sequences": ["x"] * 1000}, "stop_sequences"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"speculation": "much"}, "speculation"),
        ({"speculation": []}, "speculation"),
        ({"system": 5}, "system"),
        ({"stream": "yes"}, "stream"),
        ({"thinking": {"type": "between_tools"}}, "thinking.type"),
        ({"thinking": {"type": ["enabled"]}}, "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": "many"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "adaptive", "display": "loud"}}, "thinking.display"),
        ({"output_config": {"effort": "extreme"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
        ({"output_config": {"task_budget": {"type": "tokens", "total": 5}}}, "output_config.task_budget"),
        ({"output_format": {"type": "json_schema"}}, "output_format"),
        ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, "compact_20260112"),
        ({"context_management": {"edits": {}}}, "context_management.edits"),
        ({"container": "c"}, "container"),
        ({"mcp_servers": [{"type": "url"}]}, "mcp_servers"),
        ({"speed": "fast"}, "speed"),
    ],
)
def test_what_cannot_be_done_is_refused_and_named(http: httpx.Client, fields: dict[str, Any], name: str) -> None:
    refused(post(http, **fields), 400, "invalid_request_error", name)
