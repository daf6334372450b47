"""The tools of /v1/responses."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.fake_service import FakeService
from tests.server.harness import refused
from tests.server.openai.responses.harness import CALL, WEATHER, kinds, respond, response_of, stream_of
from tests.server.openai.responses.test_endpoint import asked, messages


def test_free_text_tools_are_functions_to_the_model(
    http: httpx.Client, service: FakeService, format: None, says: Any
) -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}
    patch = {"type": "custom", "name": "apply_patch", "description": "Edits.", "format": grammar}
    says('<tool_call>\n{"name": "apply_patch", "arguments": {"input": "*** Begin\\n\\"x\\""}}\n</tool_call>')
    first = response_of(respond(http, tools=[patch]))
    [call] = first.output
    assert call.type == "custom_tool_call" and (call.name, call.input) == ("apply_patch", '*** Begin\n"x"')
    tools = asked(service).tools
    assert tools is not None and 'start: "x"' in tools[0]["function"]["description"]
    events = stream_of(respond(http, tools=[patch], stream=True))
    assert kinds(events)[2:6] == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Done"}
    response_of(respond(http, [output], previous_response_id=first.id, tools=[patch]))
    assert messages(service)[1]["tool_calls"][0]["function"]["arguments"] == '{"input": "*** Begin\\n\\"x\\""}'


def test_a_namespace_is_part_of_the_name_to_the_model(
    http: httpx.Client, service: FakeService, format: None, says: Any
) -> None:
    agents = {"type": "namespace", "name": "agents", "description": "Helpers.", "tools": [{**WEATHER, "name": "ask"}]}
    says(CALL.replace("weather", "agents__ask"))
    first = response_of(respond(http, tools=[agents, WEATHER]))
    [call] = first.output
    assert call.type == "function_call" and (call.name, call.namespace) == ("ask", "agents")
    output = {"type": "function_call_output", "call_id": call.call_id, "output": [{"type": "input_text", "text": "y"}]}
    response_of(respond(http, [output], previous_response_id=first.id, tools=[agents]))
    answer, result = messages(service)[1:]
    assert answer["tool_calls"][0]["function"]["name"] == "agents__ask" == result["name"]
    named = {"type": "function", "name": "ask", "namespace": "agents"}
    assert response_of(respond(http, tools=[agents], tool_choice=named)).status == "completed"


def test_a_tool_that_the_server_would_have_to_run_is_left_out(http: httpx.Client, service: FakeService) -> None:
    hosted = [{"type": kind} for kind in ("web_search", "local_shell", "tool_search", "image_generation")]
    response = response_of(respond(http, tools=[*hosted, WEATHER]))
    assert [tool.type for tool in response.tools] == ["function"]
    tools = asked(service).tools
    assert tools is not None and [tool["function"]["name"] for tool in tools] == ["weather"]
    response_of(respond(http, tools=hosted))
    assert asked(service).tools is None
    refused(respond(http, tools=hosted, tool_choice="required"), 400, "tool_choice", "required")
    refused(respond(http, tools=hosted, tool_choice={"type": "web_search_preview"}), 400, "tool_choice", "web_search")


def test_the_choice_of_tools_is_honoured(http: httpx.Client, service: FakeService, format: None) -> None:
    other = {**WEATHER, "name": "other", "strict": False}
    tools = [WEATHER, other]

    def offered(choice: Any) -> list[str] | None:
        response_of(respond(http, tools=tools, tool_choice=choice))
        found = asked(service).tools
        return None if found is None else [tool["function"]["name"] for tool in found]

    assert offered("auto") == offered(None) == ["weather", "other"]
    assert asked(service).grammar is None
    assert offered("none") is None
    assert offered("required") == ["weather", "other"]
    assert asked(service).grammar is not None
    assert offered({"type": "function", "name": "other"}) == ["weather", "other"]
    assert asked(service).grammar is not None
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "other"}]}
    assert offered(allowed) == ["other"]
    assert asked(service).grammar is None
    assert offered({**allowed, "mode": "required"}) == ["other"]
    assert asked(service).grammar is not None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{**WEATHER, "parameters": 5}]}, "tools[0].parameters"),
        ({"tools": [{**WEATHER, "parameters": {"type": "array"}}]}, "tools[0].parameters"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1]"),
        ({"tools": [5]}, "tools[0].type"),
        ({"tools": [{"type": "telepathy"}]}, "tools[0].type"),
        ({"tools": [{"type": "custom", "name": "x", "format": {"type": "xml"}}]}, "tools[0].format"),
        ({"tools": [{"type": "namespace", "name": "x"}]}, "tools[0]"),
        ({"tools": [{"type": "namespace", "name": "x", "tools": [{"type": "mcp"}]}]}, "tools[0].tools[0].type"),
        ({"tools": [WEATHER], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "custom", "name": "weather"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "mode": "auto"}}, "tool_choice.tools"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [5]}},
            "tool_choice.tools[0]",
        ),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "mode": "none", "tools": []}},
            "tool_choice.mode",
        ),
        ({"tool_choice": "required"}, "tool_choice"),
    ],
)
def test_a_bad_tool_is_refused_by_name(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(respond(http, **fields), 400, param)
