from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from paceline.settings import Settings
from tests.server import fake_service
from tests.server.fake_service import FakeService
from tests.server.harness import events, post_chat, post_completion, refused, serve, user
from tests.server.sdk_types import TypedClient

BEGUN = [*user("hi"), {"role": "assistant", "content": "I am"}]


def chat(http: httpx.Client, **fields: Any) -> httpx.Response:
    return http.post("/v1/chat/completions", json={"messages": BEGUN, **fields})


def options(service: FakeService) -> dict[str, Any]:
    request: Any = service.requests[-1]
    return dict(request.template_options)


def test_the_end_of_the_prompt_is_the_requests_to_say(http: httpx.Client, service: FakeService) -> None:
    assert chat(http, continue_final_message=True, add_generation_prompt=False).status_code == 200
    assert options(service) == {"continue_final_message": True, "add_generation_prompt": False}
    assert chat(http, add_generation_prompt=False).status_code == 200
    assert options(service) == {"add_generation_prompt": False}
    assert chat(http, add_generation_prompt=True, continue_final_message=False).status_code == 200
    assert options(service) == {}


@pytest.mark.parametrize("name", ["prefix", "partial"])
def test_other_ways_to_continue_a_message_are_refused_by_name(http: httpx.Client, name: str) -> None:
    for asked, status in ((True, 400), (False, 200)):
        messages = [*user("hi"), {"role": "assistant", "content": "I am", name: asked}]
        answer = http.post("/v1/chat/completions", json={"messages": messages})
        assert answer.status_code == status
    refused(http.post("/v1/chat/completions", json={"messages": [{**BEGUN[0], name: 1}]}), 400, f"messages[0].{name}")


def test_an_echo_is_what_the_answer_continues(http: httpx.Client) -> None:
    fields = {"continue_final_message": True, "echo": True}
    whole = chat(http, **fields).json()["choices"][0]["message"]["content"]
    assert whole == "I am" + fake_service.REPLY
    chunks = events(chat(http, **fields, stream=True))
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == whole
    assert post_chat(http, echo=True).json()["choices"][0]["message"]["content"] == fake_service.REPLY


def test_token_ids_are_told_where_they_are_asked_for(http: httpx.Client) -> None:
    answer = post_chat(http, return_token_ids=True).json()
    ids = [*fake_service.REPLY.encode(), fake_service.END]
    assert answer["choices"][0]["token_ids"] == ids
    assert len(answer["prompt_token_ids"]) == answer["usage"]["prompt_tokens"]
    chunks = events(post_chat(http, return_token_ids=True, stream=True))
    assert chunks[0]["prompt_token_ids"] == answer["prompt_token_ids"]
    assert [token for chunk in chunks for token in chunk["choices"][0].get("token_ids", ())] == ids
    [choice] = post_completion(http, "ab", return_token_ids=True, max_tokens=50).json()["choices"]
    assert choice["token_ids"] == ids and choice["prompt_token_ids"] == [fake_service.BEGIN, *b"ab"]
    assert "token_ids" not in post_completion(http, "ab").json()["choices"][0]


def test_the_prompts_scores_are_told_by_token(http: httpx.Client) -> None:
    for found in (
        post_chat(http, prompt_logprobs=1).json(),
        post_completion(http, "ab", prompt_logprobs=1).json()["choices"][0],
    ):
        first, *rest = found["prompt_logprobs"]
        assert first is None and rest
        for scores in rest:
            assert all(set(score) == {"logprob", "rank", "decoded_token"} for score in scores.values())


@pytest.mark.parametrize("count", [-1, 21])
def test_the_number_of_the_prompts_scores_is_limited(http: httpx.Client, count: int) -> None:
    refused(post_chat(http, prompt_logprobs=count), 400, "prompt_logprobs")
    refused(post_completion(http, "ab", prompt_logprobs=count), 400, "prompt_logprobs")
    refused(post_completion(http, "ab", prompt_logprobs=count, echo=True, logprobs=1), 400, "prompt_logprobs")


@pytest.fixture(scope="module")
def trusting() -> Iterator[httpx.Client]:
    settings = Settings(trust_request_chat_template=True)
    with serve(FakeService(settings), settings) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


def test_a_template_is_taken_where_the_server_trusts_requests(trusting: httpx.Client) -> None:
    assert post_chat(trusting, chat_template="{{ messages }}").status_code == 200


def test_truncation_and_a_suffix_arrive_at_the_service(http: httpx.Client, service: FakeService) -> None:
    assert post_completion(http, truncate_prompt_tokens=5, suffix="end").status_code == 200
    request: Any = service.requests[-1]
    assert (request.truncate_prompt_tokens, request.suffix) == (5, "end")


def test_reasoning_may_be_left_out(http: httpx.Client, format: None, says: Any) -> None:
    says("<think>hm</think>So.")
    answer = post_chat(http).json()
    assert answer["choices"][0]["message"]["reasoning_content"] == "hm"
    assert 0 < answer["usage"]["completion_tokens_details"]["reasoning_tokens"] < answer["usage"]["completion_tokens"]
    for fields in ({"include_reasoning": False}, {"reasoning": {"exclude": True}}):
        message = post_chat(http, **fields).json()["choices"][0]["message"]
        assert message["content"] == "So." and "reasoning_content" not in message
        deltas = [chunk["choices"][0]["delta"] for chunk in events(post_chat(http, stream=True, **fields))]
        assert "".join(delta.get("content", "") for delta in deltas) == "So."
        assert not any("reasoning_content" in delta for delta in deltas)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"reasoning": {"exclude": "true"}}, "reasoning.exclude"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "strict": "x"}}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "name": 5}}}, "response_format"),
    ],
)
def test_nested_fields_have_a_type_too(http: httpx.Client, fields: dict[str, Any], named: str) -> None:
    refused(post_chat(http, **fields), 400, named)


def test_reasoning_that_is_left_out_shows_in_no_token(http: httpx.Client, format: None, says: Any) -> None:
    says("<think>hm</think>So.")
    fields = {"include_reasoning": False, "logprobs": True, "return_token_ids": True}
    [choice] = post_chat(http, **fields).json()["choices"]
    said = [entry["token"] for entry in choice["logprobs"]["content"]]
    assert "".join(said).startswith("So.") and len(said) == len(choice["token_ids"])
    chunks = [chunk["choices"][0] for chunk in events(post_chat(http, stream=True, **fields))]
    streamed = [entry["token"] for chunk in chunks if chunk["logprobs"] for entry in chunk["logprobs"]["content"]]
    assert streamed == said
    assert [token for chunk in chunks for token in chunk.get("token_ids", [])] == choice["token_ids"]


@pytest.mark.parametrize(
    ("fields", "budget"),
    [
        ({"reasoning_effort": "low"}, 1024),
        ({"reasoning_effort": "medium"}, 8192),
        ({"reasoning_effort": "high"}, None),
        ({"reasoning_effort": "none"}, 0),
        ({"reasoning_effort": "low", "thinking_token_budget": 9}, 9),
        ({"reasoning": {"max_tokens": 100}}, 100),
        ({"thinking": {"type": "enabled", "budget_tokens": 50}}, 50),
        ({}, None),
    ],
)
def test_an_effort_is_a_budget_where_the_template_has_no_levels(
    http: httpx.Client, service: FakeService, format: None, fields: dict[str, Any], budget: int | None
) -> None:
    assert post_chat(http, **fields).status_code == 200
    assert service.requests[-1].sampling.thinking_token_budget == budget


def test_an_effort_is_the_templates_where_it_has_levels(
    http: httpx.Client, service: FakeService, format: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.tokenizer, "chat_template", "{{ reasoning_effort }}")
    assert post_chat(http, reasoning_effort="low").status_code == 200
    assert service.requests[-1].sampling.thinking_token_budget is None
    assert options(service) == {"reasoning_effort": "low"}
