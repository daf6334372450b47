"""/api/chat and /api/generate over a service without a model, over HTTP."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.integration.test_server_images import png
from tests.server.anthropic.harness import Scripted
from tests.server.fake_service import REPLY, FakeService
from tests.server.harness import user
from tests.server.ollama.harness import lines, post, refused, whole

LENGTH = len(REPLY.encode()) + 1
ENDS = {"done", "done_reason", "total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration"}
ENDS |= {"eval_count", "eval_duration"}
LOOK = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
}
CALLS = (
    '<think>\nhm\n</think>\n\nI look.\n<tool_call>\n{"name": "look", "arguments": {"at": "x"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
)


def generate(http: httpx.Client, prompt: str = "hi", **fields: Any) -> httpx.Response:
    return http.post("/api/generate", json={"model": "fake/model", "prompt": prompt, **fields})


# -- chat


def test_a_whole_answer_has_a_message_counts_and_durations(http: httpx.Client) -> None:
    answer = whole(http)
    assert set(answer) == {"model", "created_at", "message"} | ENDS
    assert answer["model"] == "fake/model" and answer["message"] == {"role": "assistant", "content": REPLY}
    assert datetime.fromisoformat(answer["created_at"]).utcoffset() is not None
    assert (answer["done"], answer["done_reason"]) == (True, "stop")
    assert answer["prompt_eval_count"] == len("user: hi|assistant: ") + 1
    assert answer["eval_count"] == LENGTH
    assert answer["total_duration"] >= answer["prompt_eval_duration"] > 0 and answer["eval_duration"] > 0


def test_an_answer_is_streamed_unless_the_client_says_no(http: httpx.Client) -> None:
    for fields in ({}, {"stream": True}):
        *parts, end = lines(post(http, **fields))
        assert "".join(part["message"]["content"] for part in parts) == REPLY
        assert all(set(part) == {"model", "created_at", "message", "done"} and not part["done"] for part in parts)
        assert set(end) == {"model", "created_at", "message"} | ENDS and end["done"]
        assert end["message"] == {"role": "assistant", "content": ""} and end["eval_count"] == LENGTH


def test_an_answer_that_is_cut_off_says_so(http: httpx.Client) -> None:
    answer = whole(http, options={"num_predict": 3})
    assert (answer["done_reason"], answer["eval_count"]) == ("length", 3)
    assert lines(post(http, options={"num_predict": 3}))[-1]["done_reason"] == "length"


def test_no_messages_load_the_model_and_no_time_unloads_it(http: httpx.Client) -> None:
    for path in ("/api/chat", "/api/generate"):
        answer = http.post(path, json={"model": "fake/model"}).json()
        assert (answer["done"], answer["done_reason"]) == (True, "load")
        assert http.post(path, json={"keep_alive": 0}).json()["done_reason"] == "unload"
        assert http.post(path, json={"keep_alive": "5m"}).json()["done_reason"] == "load"


def test_thoughts_and_whole_calls_have_places_of_their_own(stage: httpx.Client, actor: Scripted) -> None:
    actor.says = CALLS
    answer = whole(stage, tools=[LOOK])
    message = answer["message"]
    assert (message["thinking"], message["content"]) == ("hm", "I look.")
    first, second = (call["function"] for call in message["tool_calls"])
    assert first == {"index": 0, "name": "look", "arguments": {"at": "x"}}
    assert second == {"index": 1, "name": "look", "arguments": {}}
    assert answer["done_reason"] == "stop"
    parts = lines(post(stage, tools=[LOOK]))
    assert "".join(part["message"]["content"] for part in parts) == "I look."
    assert "".join(part["message"].get("thinking", "") for part in parts) == "hm"
    calls = [call["function"] for part in parts for call in part["message"].get("tool_calls", ())]
    assert calls == [first, second]


def test_a_call_that_is_broken_off_is_text(stage: httpx.Client, actor: Scripted) -> None:
    actor.says = '<tool_call>\n{"name": "look", "arguments": {"at": '
    for reason in ("stop", "length"):
        actor.ends = {"finish_reason": reason}
        message = whole(stage, tools=[LOOK])["message"]
        assert "tool_calls" not in message and '"look"' in message["content"]


def test_a_format_is_a_grammar(http: httpx.Client, service: FakeService) -> None:
    whole(http, format="json")
    json_grammar = service.requests[-1].grammar
    whole(http, format={"type": "object", "properties": {"a": {"type": "integer"}}})
    schema_grammar = service.requests[-1].grammar
    whole(http, format="")
    assert json_grammar is not None and json_grammar.kind == "json_object"
    assert schema_grammar is not None and schema_grammar.kind == "json_schema"
    assert service.requests[-1].grammar is None
    refused(post(http, format="yaml"), 400, "format", "json")


def test_a_stream_that_fails_ends_with_a_line_that_says_why(http: httpx.Client) -> None:
    *parts, end = lines(post(http, "!fail 3"))
    assert len(parts) == 1 + 3 and end == {"error": "the sampler broke"}  # after a line that it is accepted
    assert lines(post(http, "!fail 0"))[1:] == [{"error": "the sampler broke"}]
    refused(post(http, "!fail 0", stream=False), 500, "the sampler broke")
    refused(post(http, "!refuse-queue_full 0", stream=False), 429, "not now")


def test_an_answer_is_cancelled_by_its_request_id(http: httpx.Client, service: FakeService) -> None:
    with http.stream(
        "POST", "/api/chat", json={"messages": user("!hang 2")}, headers={"X-Request-Id": "mine-1"}
    ) as response:
        rows = response.iter_lines()
        next(rows), next(rows)
        assert http.delete("/v1/requests/mine-1").status_code == 200
        assert list(rows)[-1] == '{"error":"The request was cancelled."}'


# -- generate


def test_a_prompt_is_a_question_with_instructions_in_front_of_it(http: httpx.Client, service: FakeService) -> None:
    answer = generate(http, stream=False, system="Be short.").json()
    assert set(answer) == {"model", "created_at", "response"} | ENDS and answer["response"] == REPLY
    request: Any = service.requests[-1]
    assert request.messages == (
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "hi"},
    )
    *parts, end = lines(generate(http))
    assert "".join(part["response"] for part in parts) == REPLY and end["response"] == "" and end["done"]


def test_a_raw_prompt_has_no_template(http: httpx.Client, service: FakeService) -> None:
    answer = generate(http, "one two", raw=True, stream=False).json()
    request: Any = service.requests[-1]
    assert request.prompt == "one two" and answer["response"] == REPLY
    assert answer["prompt_eval_count"] == len("one two") + 1
    fields: list[dict[str, Any]] = [{"system": "x"}, {"images": ["aGVsbG8="]}, {"think": True}, {"think": "high"}]
    for given in fields:
        refused(generate(http, raw=True, **given), 400, *given, "template")
    assert generate(http, raw=True, think=False, stream=False).status_code == 200


def test_a_model_without_a_template_takes_prompts_as_they_are(
    http: httpx.Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "takes_chat", False)
    assert generate(http, "one two", stream=False).json()["response"] == REPLY
    request: Any = service.requests[-1]
    assert request.prompt == "one two"


def test_images_go_with_the_prompt(http: httpx.Client, service: FakeService) -> None:
    image = base64.b64encode(png()).decode()
    assert generate(http, images=[image], stream=False).status_code == 200
    request: Any = service.requests[-1]
    assert [part["type"] for part in request.messages[0]["content"]] == ["image_url", "text"]
    refused(generate(http, images=["aGVsbG8="]), 400, "images[0]")
