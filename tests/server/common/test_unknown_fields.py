from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from paceline.server.common import unknown_fields
from paceline.server.common.unknown_fields import HEADER, Occasionally
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import post_chat, post_completion, refused, serve, user
from tests.server.sdk_types import TypedClient

TOOL = {"type": "function", "function": {"name": "f"}}
RESULT = {"type": "tool_result", "tool_use_id": "c"}
PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"prompt": "hi"},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5},
    "/v1/embeddings": {"input": "hi"},
}


@pytest.fixture(autouse=True)
def _nothing_logged_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown_fields, "LOGGED", Occasionally(600, 16))


@pytest.fixture(scope="module")
def strict() -> Iterator[httpx.Client]:
    settings = Settings(strict_fields=True)
    with serve(FakeService(settings), settings) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
def test_an_unknown_field_is_named_in_a_header_and_in_the_log_once(
    http: httpx.Client, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    with caplog.at_level(logging.WARNING, "paceline.server"):
        for _ in range(3):
            answer = http.post(path, json={**PATHS[path], "invented_by_nobody": 1})
            assert answer.status_code == 200 and answer.headers[HEADER] == "invented_by_nobody"
    lines = [record.getMessage() for record in caplog.records if "invented_by_nobody" in record.getMessage()]
    assert len(lines) == 1 and path in lines[0]
    assert HEADER not in http.post(path, json=PATHS[path]).headers


@pytest.mark.parametrize(
    ("path", "fields", "named"),
    [
        ("/v1/messages", {**PATHS["/v1/messages"], "structured_outputs": {"choice": ["a"]}}, "structured_outputs"),
        ("/v1/embeddings", {**PATHS["/v1/embeddings"], "guided_choice": ["a"]}, "guided_choice"),
        ("/detokenize", {"tokens": [71], "invented_by_nobody": 1}, "invented_by_nobody"),
        ("/v1/conversations", {"invented_by_nobody": 1}, "invented_by_nobody"),
    ],
)
def test_no_endpoint_passes_over_what_it_does_not_know(
    http: httpx.Client, strict: httpx.Client, path: str, fields: dict[str, Any], named: str
) -> None:
    assert http.post(path, json=fields).headers[HEADER].startswith(named)
    answer = strict.post(path, json=fields)
    assert answer.status_code == 400 and named in answer.text


def test_the_nearest_known_name_is_suggested(http: httpx.Client) -> None:
    told = post_chat(http, max_tokns=5, temprature=0).headers[HEADER]
    assert told == "max_tokns (did you mean max_tokens?), temprature (did you mean temperature?)"
    assert "max_tokens" in post_completion(http, max_token=5, stream=True).headers[HEADER]


def test_an_options_nearest_name_is_one_of_its_own_object(http: httpx.Client) -> None:
    tools = [{"type": "function", "function": {"name": "f", "odd": 1}}]
    assert post_chat(http, tools=tools).headers[HEADER] == "tools.function.odd"
    assert post_chat(http, prediction={"type": "content", "content": "a", "odd": 1}).headers[HEADER] == "prediction.odd"


def test_a_name_that_no_header_can_have_is_not_repeated(http: httpx.Client) -> None:
    fields = {"a\r\nb": 1, "ü" * 90: 1, **{f"invented_{place}": 1 for place in range(20)}}
    told = post_chat(http, **fields).headers[HEADER]
    assert told.startswith("?, ?, invented_0") and told.endswith("and 14 more") and len(told) < 400


@pytest.mark.parametrize(
    ("path", "options", "named"),
    [
        ("/v1/chat/completions", {"stream_options": {"include_usge": True}}, "stream_options.include_usge"),
        ("/v1/completions", {"stream_options": {"odd": 1}}, "stream_options.odd"),
        ("/v1/responses", {"text": {"verbositty": "low"}}, "text.verbositty"),
        ("/v1/responses", {"text": {"format": {"type": "json_object", "scheme": {}}}}, "text.format.scheme"),
        ("/v1/responses", {"tools": [{"type": "function", "name": "f", "paramters": {}}]}, "tools.paramters"),
        ("/v1/chat/completions", {"response_format": {"type": "json_object", "scheme": {}}}, "response_format.scheme"),
        ("/v1/completions", {"response_format": {"type": "text", "typ": 1}}, "response_format.typ"),
        (
            "/v1/chat/completions",
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "stric": True}}},
            "response_format.json_schema.stric",
        ),
        (
            "/v1/chat/completions",
            {"tools": [{"type": "function", "function": {"name": "f", "paramters": {}}}]},
            "tools.function.paramters (did you mean tools.function.parameters?)",
        ),
        ("/v1/chat/completions", {"thinking": {"type": "enabled", "budget": 5}}, "thinking.budget"),
        ("/v1/chat/completions", {"tools": [{**TOOL, "strict": True}]}, "tools.strict"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a", "odd": 1}]}, "messages.odd"),
        (
            "/v1/chat/completions",
            {"messages": user("a") + user([{"type": "text", "text": "a", "fps": 1}])},
            "messages.content.fps",
        ),
        ("/v1/responses", {"input": [{"role": "user", "content": "a", "odd": 1}]}, "input.odd"),
        (
            "/v1/responses",
            {"input": user([{"type": "input_text", "text": "a", "txt": "b"}])},
            "input.content.txt (did you mean input.content.text?)",
        ),
    ],
)
def test_an_unknown_option_inside_a_field_is_named_too(
    http: httpx.Client, strict: httpx.Client, path: str, options: dict[str, Any], named: str
) -> None:
    body = {**PATHS[path], **options, "stream": True}
    assert http.post(path, json=body).headers[HEADER].startswith(named)
    refused(strict.post(path, json=body), 400, named.split()[0])


def test_tools_that_the_server_has_not_got_may_have_options_of_their_own(http: httpx.Client) -> None:
    tools = [{"type": "web_search", "search_context_size": "low"}]
    assert HEADER not in http.post("/v1/responses", json={**PATHS["/v1/responses"], "tools": tools}).headers


def test_what_clients_send_in_messages_and_items_is_not_named(strict: httpx.Client) -> None:
    function = {"name": "f", "arguments": "{}"}
    answer: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, "annotations": [], "audio": None}
    thought: dict[str, Any] = {"reasoning_content": "b", "reasoning_details": [], "function_call": None}
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "name": "me", "content": "a", "id": "1"},
        {**answer, **thought, "tool_calls": [{"id": "c", "type": "function", "function": function, "index": 0}]},
        {"role": "tool", "tool_call_id": "c", "name": "f", "content": "d"},
        {**answer, "content": "a"},
        *user("more"),
    ]
    assert strict.post("/v1/chat/completions", json={"messages": messages, "tools": [TOOL]}).status_code == 200
    output: dict[str, Any] = {"type": "output_text", "text": "a", "annotations": [], "logprobs": [], "parsed": None}
    items = [
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [output],
            "phase": None,
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": None, "status": None},
        {"type": "function_call", "id": "fc_1", "status": None, "call_id": "c", "namespace": None, **function},
        {"type": "function_call_output", "call_id": "c", "output": "d", "id": None, "status": None},
        *user("more"),
    ]
    assert strict.post("/v1/responses", json={"input": items}).status_code == 200


def test_known_options_inside_a_field_are_not_named(http: httpx.Client) -> None:
    options = {"include_usage": True, "include_obfuscation": False}
    body = {**PATHS["/v1/chat/completions"], "stream": True, "stream_options": options}
    assert HEADER not in http.post("/v1/chat/completions", json=body).headers


@pytest.mark.parametrize("path", PATHS)
def test_a_strict_server_refuses_it(strict: httpx.Client, path: str) -> None:
    assert strict.post(path, json=PATHS[path]).status_code == 200
    answer = strict.post(path, json={**PATHS[path], "temprature": 1})
    assert answer.status_code == 400 and "temprature" in answer.text
    if "messages" not in path or "chat" in path:
        refused(answer, 400, "temprature")


def test_a_strict_server_takes_what_is_harmless(strict: httpx.Client) -> None:
    fields: dict[str, Any] = {
        "metadata": {"a": "b"},
        "client_metadata": {},
        "service_tier": "auto",
        "mirostat_tau": 5,
        "guided_decoding_backend": "auto",
    }
    assert post_chat(strict, store=True, **fields).status_code == 200


def test_names_are_logged_again_later_and_only_so_many() -> None:
    now = 0.0
    told = Occasionally(10, 2, clock=lambda: now)
    assert [told.is_due(name) for name in ("a", "a", "b", "c")] == [True, False, True, False]
    now = 11
    assert [told.is_due(name) for name in ("c", "a", "b")] == [True, True, False]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"output_config": {"efort": "low"}}, "output_config.efort (did you mean output_config.effort?)"),
        ({"context_management": {"odd": 1}}, "context_management.odd"),
        ({"tool_choice": {"type": "auto", "odd": 1}}, "tool_choice.odd"),
        ({"thinking": {"type": "disabled", "odd": 1}}, "thinking.odd"),
        ({"tools": [{"name": "f", "input_schema": {}, "stric": True}]}, "tools.stric"),
        ({"messages": [{"role": "user", "content": "a", "odd": 1}]}, "messages.odd"),
        ({"system": [{"type": "text", "text": "a", "cache_contrl": {}}]}, "system.cache_contrl (did you mean"),
        ({"messages": user([{"type": "text", "text": "a", "title": "b"}])}, "messages.content.title"),
        ({"messages": user([RESULT | {"is_eror": True}])}, "messages.content.is_eror (did you mean"),
        (
            {"messages": user([RESULT | {"content": [{"type": "text", "text": "a", "txt": "b"}]}])},
            "messages.content.content.txt (did you mean messages.content.content.text?)",
        ),
        (
            {"messages": user([{"type": "document", "source": {"type": "text", "data": "a", "odd": 1}}])},
            "messages.content.source.odd",
        ),
    ],
)
def test_an_unknown_option_of_anthropics_is_named_too(
    http: httpx.Client, strict: httpx.Client, options: dict[str, Any], named: str
) -> None:
    body = {**PATHS["/v1/messages"], **options}
    assert http.post("/v1/messages", json=body).headers[HEADER].startswith(named)
    refusal = strict.post("/v1/messages", json=body)
    assert refusal.status_code == 400 and named.split()[0] in refusal.json()["error"]["message"]


def test_what_anthropics_clients_send_in_messages_is_not_named(strict: httpx.Client) -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    thought = {"type": "thinking", "thinking": "a", "signature": ""}
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {"odd": 1}, "caller": {"type": "direct"}}
    found = {"type": "search_result", "source": "a", "title": "b", "content": [{"type": "text", "text": "c"}]}
    messages = [
        *user([{"type": "text", "text": "a", **cached}]),
        {"role": "assistant", "content": [thought, {"type": "text", "text": "a", "citations": None}, call]},
        *user([{**RESULT, "content": [found], "is_error": False, **cached}]),
        {"role": "assistant", "content": "a", "id": "m", "type": "message", "model": "m", "stop_reason": None},
        *user(
            [{"type": "document", "title": "a", "source": {"type": "text", "media_type": "text/plain", "data": "b"}}]
        ),
    ]
    body = {"messages": messages, "max_tokens": 5, "system": [{"type": "text", "text": "a", **cached}]}
    assert strict.post("/v1/messages", json=body).status_code == 200


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (
            {"messages": [{"role": "user", "content": "a", "image": []}]},
            "messages.image (did you mean messages.images?)",
        ),
        ({"messages": user("a"), "tools": [{**TOOL, "strict": True}]}, "tools.strict"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "args": {}}}]}, *user("a")]},
            "messages.tool_calls.function.args",
        ),
    ],
)
def test_an_unknown_field_in_ollamas_messages_is_named(
    http: httpx.Client, strict: httpx.Client, fields: dict[str, Any], named: str
) -> None:
    assert http.post("/api/chat", json=fields).headers[HEADER].startswith(named)
    refusal = strict.post("/api/chat", json=fields)
    assert refusal.status_code == 400 and named.split()[0] in refusal.json()["error"]


def test_what_ollamas_clients_send_in_messages_is_not_named(strict: httpx.Client) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"odd": 1}, "index": 0}}
    messages = [
        {"role": "user", "content": "a", "images": []},
        {"role": "assistant", "content": "", "thinking": "a", "tool_calls": [call]},
        {"role": "tool", "content": "a", "tool_name": "f", "tool_call_id": "c"},
    ]
    assert strict.post("/api/chat", json={"messages": messages, "tools": [TOOL], "stream": False}).status_code == 200
