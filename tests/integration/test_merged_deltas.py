"""Deltas that waited are merged. What an API tells of them may not depend on that: not the text, not whose token is
whose, not the usage."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from paceline.conversation.parsing.formats import OutputFormat
from paceline.delta_stream import merged
from paceline.settings import Settings
from paceline.types import Delta
from tests.server import fake_service
from tests.server.fake_service import FakeService
from tests.server.harness import events, serve
from tests.server.openai.responses.harness import CALL, PARAMETERS, WEATHER
from tests.server.sdk_types import TypedClient

THOUGHT = "<think>two and two</think>It is four."
CALLS = f"<think>Where?</think>Look:\n{CALL}\n{CALL}"
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
MESSAGES = [{"role": "user", "content": "hi"}]
CHAT = {"messages": MESSAGES, "max_tokens": 500, "logprobs": True, "top_logprobs": 1, "return_token_ids": True}
RESPONSE = {"input": "hi", "include": ["message.output_text.logprobs"]}
OWN = ("id", "created", "created_at", "completed_at", "item_id", "call_id", "sequence_number")
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", CHAT),
    "chat without reasoning": ("/v1/chat/completions", {**CHAT, "include_reasoning": False}),
    "chat, two choices": ("/v1/chat/completions", {**CHAT, "n": 2}),
    "chat with tools": ("/v1/chat/completions", {**CHAT, "tools": [TOOL]}),
    "chat, one call": ("/v1/chat/completions", {**CHAT, "tools": [TOOL], "parallel_tool_calls": False}),
    "chat, one call, no reasoning": (
        "/v1/chat/completions",
        {**CHAT, "tools": [TOOL], "parallel_tool_calls": False, "include_reasoning": False},
    ),
    "chat, cut": ("/v1/chat/completions", {**CHAT, "tools": [TOOL], "max_tokens": 80}),
    "responses": ("/v1/responses", RESPONSE),
    "responses with tools": ("/v1/responses", {**RESPONSE, "tools": [WEATHER]}),
    "messages": (
        "/v1/messages",
        {"messages": MESSAGES, "max_tokens": 500, "tools": [{"name": "weather", "input_schema": PARAMETERS}]},
    ),
    "completions": ("/v1/completions", {"prompt": "hi", "max_tokens": 500, "logprobs": 1, "return_token_ids": True}),
    "ollama": ("/api/chat", {"model": "fake/model", "messages": MESSAGES, "stream": False}),
}
Merge = Callable[[int], None]


@pytest.fixture(scope="module")
def service() -> FakeService:
    """Its model thinks, and calls as Hermes does."""
    fake = FakeService(Settings())
    fake.answer_format = OutputFormat("hermes", "think")
    return fake


@pytest.fixture(scope="module")
def http(service: FakeService) -> Iterator[httpx.Client]:
    with serve(service, Settings()) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


@pytest.fixture
def merge(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Merge:
    """So many deltas wait whenever they are read."""

    def patch(count: int) -> None:
        for name in ("stream_chat", "stream_generate"):
            original = getattr(FakeService, name)

            async def stream(request: Any, original: Any = original) -> AsyncGenerator[Delta, None]:
                waiting: list[Delta] = []
                async with aclosing(original(service, request)) as deltas:
                    async for delta in deltas:
                        waiting.append(delta)
                        if len(waiting) == count or delta.accepted is not None:
                            for each in merged(waiting):
                                yield each
                            waiting = []
                for each in merged(waiting):
                    yield each

            monkeypatch.setattr(service, name, stream)

    return patch


def without_own(value: Any) -> Any:
    """Without what differs between two answers to one request."""
    if isinstance(value, dict):
        return {name: without_own(each) for name, each in value.items() if name not in OWN}
    return [without_own(each) for each in value] if isinstance(value, list) else value


def whole(http: httpx.Client, path: str, body: dict[str, Any]) -> Any:
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    found = {name: each for name, each in answer.json().items() if not name.endswith("_duration")}
    return without_own(found)


@pytest.mark.parametrize("said", [THOUGHT, CALLS], ids=["a thought", "calls"])
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_whole_answer_is_the_same(
    http: httpx.Client, merge: Merge, monkeypatch: pytest.MonkeyPatch, kind: str, said: str
) -> None:
    monkeypatch.setattr(fake_service, "REPLY", said)
    path, body = REQUESTS[kind]
    expected = whole(http, path, body)
    for count in (2, 3, 8, 13, 1000):
        merge(count)
        assert whole(http, path, body) == expected, count


@pytest.mark.parametrize("said", [THOUGHT, CALLS], ids=["a thought", "calls"])
@pytest.mark.parametrize("kind", [kind for kind, (path, _) in REQUESTS.items() if "chat" in path and "api" not in path])
def test_the_chunks_of_a_chat_say_the_same(
    http: httpx.Client, merge: Merge, monkeypatch: pytest.MonkeyPatch, kind: str, said: str
) -> None:
    monkeypatch.setattr(fake_service, "REPLY", said)
    path, body = REQUESTS[kind]
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}

    def told() -> dict[str, Any]:
        found: dict[str, Any] = {}
        for event in events(http.post(path, json=asked)):
            found["usage"] = event.get("usage")
            for choice in event["choices"]:
                mine = found.setdefault(str(choice["index"]), {"ids": [], "scores": [], "text": {}, "calls": {}})
                mine["ids"] += choice.get("token_ids") or []
                mine["scores"] += (choice.get("logprobs") or {}).get("content") or []
                mine["reason"] = choice["finish_reason"]
                for name in ("content", "reasoning_content"):
                    mine["text"][name] = mine["text"].get(name, "") + (choice["delta"].get(name) or "")
                for call in choice["delta"].get("tool_calls") or ():
                    before = mine["calls"].get(call["index"], "")
                    mine["calls"][call["index"]] = before + call["function"]["arguments"]
        return found

    expected = told()
    assert expected["0"]["ids"] and expected["0"]["reason"]
    for count in (2, 3, 8, 13, 1000):
        merge(count)
        assert json.dumps(told()) == json.dumps(expected), count
