"""Sparse prefill over HTTP: the request's two fields and the usage's one, in all four APIs alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from paceline.settings import Settings
from tests.server.fake_service import FakeService, kept
from tests.server.harness import Address, post_completion, refused, serve, user
from tests.server.sdk_types import TypedClient

KEPT = "specprefill_kept_tokens"
ASKS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": user("a long question")},
    "/v1/completions": {"prompt": "a long text"},
    "/v1/responses": {"input": "a long question"},
    "/v1/messages": {"messages": user("a long question"), "max_tokens": 50},
}
AUTO = Settings(specprefill="auto", specprefill_draft_model="small")

every_api = pytest.mark.parametrize("path", ASKS)


def ask(http: httpx.Client, path: str, **fields: Any) -> httpx.Response:
    return http.post(path, json={**ASKS[path], **fields})


def usage(http: httpx.Client, path: str, **fields: Any) -> dict[str, Any]:
    answer = ask(http, path, **fields)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["usage"]
    return found


def streamed_usages(http: httpx.Client, path: str, **fields: Any) -> list[dict[str, Any]]:
    """The usages that a stream's events carry, in order."""
    if path.endswith("completions"):
        fields["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    answer = ask(http, path, stream=True, **fields)
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    found = []
    for event in map(json.loads, lines):
        holder = event.get("response") or event.get("message") or event
        if holder.get("usage") is not None:
            found.append(holder["usage"])
    return found


def told(path: str, usage: dict[str, Any]) -> int | None:
    """The tokens that were kept, from where this API tells them."""
    details = {"/v1/messages": "", "/v1/responses": "input_tokens_details"}.get(path, "prompt_tokens_details")
    holder: dict[str, int] = usage[details] if details else usage
    return holder.get(KEPT)


def prompt_tokens(path: str, usage: dict[str, Any]) -> int:
    if path == "/v1/messages":
        return int(usage["input_tokens"] + usage["cache_read_input_tokens"])
    return int(usage["input_tokens" if path == "/v1/responses" else "prompt_tokens"])


def refused_by(path: str, answer: httpx.Response, field: str, *words: str) -> None:
    if path != "/v1/messages":
        refused(answer, 400, field, *words)
        return
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"
    for word in (field, *words):
        assert word in answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def auto_service() -> FakeService:
    return FakeService(AUTO)


@pytest.fixture(scope="module")
def auto(auto_service: FakeService) -> Iterator[httpx.Client]:
    """A server that reads long prompts sparsely by itself."""
    with serve(auto_service, AUTO) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def without() -> Iterator[Address]:
    """A server without a draft."""
    service = FakeService(Settings())
    service.no_sparse = "no draft model is loaded (--specprefill-draft-model)"
    with serve(service, Settings()) as address:
        yield address


@every_api
def test_the_word_and_the_share_reach_the_engine(http: httpx.Client, service: FakeService, path: str) -> None:
    for fields, expected in (
        ({}, (None, None)),
        ({"specprefill": None, "specprefill_keep_pct": None}, (None, None)),
        ({"specprefill": False}, (False, None)),
        ({"specprefill": True}, (True, None)),
        ({"specprefill": True, "specprefill_keep_pct": 0.1}, (True, 0.1)),
        ({"specprefill": True, "specprefill_keep_pct": 1}, (True, 1)),
    ):
        usage(http, path, **fields)
        sampling = service.requests[-1].sampling
        assert (sampling.specprefill, sampling.specprefill_keep) == expected


@every_api
def test_usage_tells_what_was_kept_and_nothing_where_nobody_wanted_fewer(http: httpx.Client, path: str) -> None:
    for fields in ({}, {"specprefill": False}):
        assert KEPT not in json.dumps(usage(http, path, **fields))
    sparse = usage(http, path, specprefill=True, specprefill_keep_pct=0.5)
    whole = prompt_tokens(path, usage(http, path))
    assert prompt_tokens(path, sparse) == whole  # the prompt is as long as it was written
    assert told(path, sparse) == kept(whole, 0.5) < whole


@every_api
def test_a_streams_last_usage_is_that_of_the_whole_answer(http: httpx.Client, path: str) -> None:
    fields = {"specprefill": True, "specprefill_keep_pct": 0.5}
    usages = streamed_usages(http, path, **fields)
    assert usages[-1] == usage(http, path, **fields)
    assert told(path, usages[-1]) is not None
    assert not any(KEPT in json.dumps(found) for found in streamed_usages(http, path))


@every_api
def test_a_server_set_to_auto_needs_no_word_and_takes_a_share_alone(
    auto: httpx.Client, auto_service: FakeService, path: str
) -> None:
    found = usage(auto, path)
    assert told(path, found) == kept(prompt_tokens(path, found), 0.3)
    assert told(path, usage(auto, path, specprefill_keep_pct=0.8)) == kept(prompt_tokens(path, found), 0.8)
    assert auto_service.requests[-1].sampling.specprefill_keep == 0.8
    assert told(path, usage(auto, path, specprefill=False)) is None


@every_api
@pytest.mark.parametrize("share", [0, 0.09, 1.01, 30, -0.5, 10**400, "0.3", True, [0.3], {}])
def test_a_share_out_of_range_or_no_number_is_refused_by_name(http: httpx.Client, path: str, share: Any) -> None:
    answer = ask(http, path, specprefill=True, specprefill_keep_pct=share)
    refused_by(path, answer, "specprefill_keep_pct")


@every_api
@pytest.mark.parametrize("word", ["true", "auto", 1, 0, [], 0.3])
def test_a_word_that_is_not_true_or_false_is_refused_by_name(http: httpx.Client, path: str, word: Any) -> None:
    refused_by(path, ask(http, path, specprefill=word), "specprefill", "boolean")


@every_api
def test_a_share_that_would_have_no_effect_is_refused_by_name(http: httpx.Client, path: str) -> None:
    off = ask(http, path, specprefill_keep_pct=0.5)  # the server is set to off
    refused_by(path, off, "specprefill_keep_pct", "specprefill: true", "off")
    contradiction = ask(http, path, specprefill=False, specprefill_keep_pct=0.5)
    refused_by(path, contradiction, "specprefill_keep_pct", "specprefill: false")


@every_api
@pytest.mark.parametrize("stream", [False, True])
def test_without_a_draft_whoever_asks_is_refused_and_whoever_does_not_is_served(
    without: Address, path: str, stream: bool
) -> None:
    with httpx.Client(base_url=without, timeout=120) as http:
        asked = ask(http, path, specprefill=True, stream=stream)
        refused_by(path, asked, "specprefill", "no draft model is loaded", "--specprefill-draft-model")
        share = ask(http, path, specprefill_keep_pct=0.5, stream=stream)
        refused_by(path, share, "specprefill_keep_pct", "no draft model is loaded")
        for fields in ({}, {"specprefill": False}):
            assert ask(http, path, stream=stream, **fields).status_code == 200


@pytest.mark.parametrize("fields", [{"logprobs": 0}, {"logprobs": 3}, {"max_tokens": 0}])
def test_a_prompt_whose_scores_are_wanted_cannot_be_read_sparsely(
    http: httpx.Client, auto: httpx.Client, fields: dict[str, Any]
) -> None:
    asked = post_completion(http, echo=True, specprefill=True, **fields)
    refused(asked, 400, "specprefill", "echo", "whole prompt")
    refused(post_completion(auto, echo=True, specprefill_keep_pct=0.5, **fields), 400, "specprefill_keep_pct", "echo")
    for word in (None, False):  # a server set to auto reads them whole by itself
        assert post_completion(auto, echo=True, specprefill=word, **fields).status_code == 200


def test_an_echo_without_scores_may_be_read_sparsely(http: httpx.Client) -> None:
    answer = post_completion(http, "a long text", echo=True, specprefill=True).json()
    assert answer["choices"][0]["text"].startswith("a long text")
    assert told("/v1/completions", answer["usage"])


def test_what_was_kept_is_summed_over_prompts_and_told_of_first_choices(http: httpx.Client) -> None:
    prompts = ["one text", "another, longer text"]
    answer = post_completion(http, prompts, n=2, specprefill=True, specprefill_keep_pct=0.5).json()
    lengths = [len(prompt) + 1 for prompt in prompts]
    assert answer["usage"]["prompt_tokens"] == sum(lengths)
    assert told("/v1/completions", answer["usage"]) == sum(kept(length, 0.5) for length in lengths)


def test_the_openai_client_asks_for_it_and_reads_what_was_kept(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(
        model="fake/model",
        messages=[{"role": "user", "content": "a long question"}],
        extra_body={"specprefill": True, "specprefill_keep_pct": 0.5},
    )
    assert completion.usage is not None and completion.usage.prompt_tokens_details is not None
    assert completion.usage.prompt_tokens_details.model_extra == {KEPT: kept(completion.usage.prompt_tokens, 0.5)}


@pytest.mark.parametrize(("path", "given"), [("/v1/embeddings", {"input": "a"}), ("/v1/score", {"text_1": "a"})])
def test_a_text_that_becomes_a_vector_is_read_whole(http: httpx.Client, path: str, given: dict[str, Any]) -> None:
    body = {**given, "text_2": "b"} if path == "/v1/score" else given
    for field, value in (("specprefill", True), ("specprefill_keep_pct", 0.5)):
        refused(http.post(path, json={**body, field: value}), 400, field)
    for field, harmless in (("specprefill", False), ("specprefill", None), ("specprefill_keep_pct", None)):
        assert http.post(path, json={**body, field: harmless}).status_code == 200


def test_the_document_has_the_fields(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    for path in ASKS:
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert {"specprefill", "specprefill_keep_pct"} <= schema["properties"].keys()
    for name in ("CachedTokens", "InputTokens", "MessageUsage"):
        schema = document["components"]["schemas"][name]
        assert KEPT in schema["properties"] and KEPT not in schema["required"]
