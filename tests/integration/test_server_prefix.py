"""The prefix cache as clients see it: over HTTP, with OpenAI's client, on a tiny hybrid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from paceline.service import Service
from paceline.settings import Settings
from tests.conftest import Tiny
from tests.prefixes import ENOUGH, SMALLEST, Message, says, words
from tests.server.harness import Address, events, refused, serve
from tests.server.sdk_types import TypedClient

OPTIONS: dict[str, Any] = {"model": "tiny", "temperature": 0, "max_tokens": 8}


@pytest.fixture(scope="module")
def running(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Address, Path]]:
    folder = tmp_path_factory.mktemp("prefixes")
    model = tiny("hybrid", **SMALLEST)
    settings = Settings(model=str(model), served_model_name="tiny", max_num_seqs=4, prefill_chunk=256, cache_dir=folder)
    service = Service(settings)
    with serve(service, settings) as address:
        yield service, address, folder


@pytest.fixture(scope="module")
def http(running: tuple[Service, Address, Path]) -> Iterator[httpx.Client]:
    with TypedClient(base_url=running[1], timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def client(running: tuple[Service, Address, Path]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running[1]}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture
def chat(running: tuple[Service, Address, Path], request: pytest.FixtureRequest) -> list[Message]:
    """A conversation that no other test has had."""
    text = words(running[0].tokenizer, 250, seed=len(request.node.name))
    return [says("system", f"{request.node.name} {text}"), says("user", "What is the capital?")]


def cached(usage: Any) -> int:
    assert usage is not None and usage.prompt_tokens_details is not None
    return int(usage.prompt_tokens_details.cached_tokens)


def metrics(http: httpx.Client) -> dict[str, float]:
    """By name and labels but the model's."""
    found = {}
    for line in http.get("/metrics").text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[re.sub(r'model_name="[^"]*",?', "", name).replace("{}", "").replace(",}", "}")] = float(value)
    return found


def test_chat_tells_how_many_tokens_were_cached(client: openai.OpenAI, chat: Any) -> None:
    first = client.chat.completions.create(messages=chat, **OPTIONS)
    again = client.chat.completions.create(messages=chat, **OPTIONS)
    assert first.usage is not None and again.usage is not None
    assert cached(again.usage) == again.usage.prompt_tokens - 1 > cached(first.usage)
    assert again.choices[0].message.content == first.choices[0].message.content
    other = client.chat.completions.create(messages=[chat[0], says("user", "7 birds")], **OPTIONS)  # type: ignore[list-item]
    assert cached(other.usage) >= ENOUGH * 250


def test_a_streams_last_chunk_tells_how_many_tokens_were_cached(client: openai.OpenAI, chat: Any) -> None:
    whole = client.chat.completions.create(messages=chat, **OPTIONS)
    stream = client.chat.completions.create(
        messages=chat, stream=True, stream_options={"include_usage": True}, **OPTIONS
    )
    chunks = list(stream)
    assert chunks[-1].usage is not None and all(chunk.usage is None for chunk in chunks[:-1])
    assert cached(chunks[-1].usage) == chunks[-1].usage.prompt_tokens - 1
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content


def test_usage_in_every_chunk_tells_it_from_the_first_on(http: httpx.Client, chat: list[Message]) -> None:
    http.post("/v1/chat/completions", json={"messages": chat, **OPTIONS}).raise_for_status()
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"messages": chat, "stream": True, "stream_options": options, **OPTIONS}
    usages = [chunk["usage"] for chunk in events(http.post("/v1/chat/completions", json=body))]
    tokens = {(usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]) for usage in usages}
    [(prompt, found)] = tokens
    assert found == prompt - 1


def test_completions_tell_the_sum_over_their_prompts(client: openai.OpenAI, chat: list[Message]) -> None:
    prompts = [chat[0]["content"], "7 " + chat[0]["content"]]
    first = client.completions.create(prompt=prompts, **OPTIONS)
    assert cached(first.usage) == 0
    again = client.completions.create(prompt=prompts, **OPTIONS)
    assert again.usage is not None
    assert cached(again.usage) == again.usage.prompt_tokens - 2
    assert [choice.text for choice in again.choices] == [choice.text for choice in first.choices]


def test_a_request_without_cache_leaves_and_finds_nothing(client: openai.OpenAI, chat: Any) -> None:
    def ask(**fields: Any) -> tuple[int, str | None]:
        answer = client.chat.completions.create(messages=chat, extra_body=fields, **OPTIONS)
        return cached(answer.usage), answer.choices[0].message.content

    none, text = ask(cache=False)
    few, same = ask()
    assert few < 10 and same == text  # the template's own first words
    most, same = ask()
    assert most > 250 and same == text
    assert ask(cache=False) == (none, text) == (0, text)


def test_salts_keep_users_apart(client: openai.OpenAI, chat: Any) -> None:
    def ask(salt: str) -> int:
        answer = client.chat.completions.create(messages=chat, extra_body={"cache_salt": salt}, **OPTIONS)
        return cached(answer.usage)

    assert [ask("alice"), ask("bob")] == [0, 0]
    assert ask("alice") == ask("bob") > 250


@pytest.mark.parametrize(
    ("field", "value"),
    [("cache", "no"), ("cache", 0), ("cache_salt", ""), ("cache_salt", "x" * 257), ("cache_salt", 1)],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_field_of_the_wrong_kind_is_refused_and_named(http: httpx.Client, path: str, field: str, value: Any) -> None:
    words = {"messages": [says("user", "hi")]} if "chat" in path else {"prompt": "hi"}
    refused(http.post(path, json={**words, field: value}), 400, field)


def test_null_means_not_given(http: httpx.Client, chat: list[Message]) -> None:
    body = {"messages": chat, **OPTIONS}
    http.post("/v1/chat/completions", json=body).raise_for_status()
    usage = http.post("/v1/chat/completions", json={**body, "cache": None, "cache_salt": None}).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


def test_a_header_that_changes_each_time_does_not_stop_reuse(client: openai.OpenAI, chat: Any) -> None:
    """Claude Code's, the first line of all that it sends."""
    usages, texts = [], set()
    for version in range(4):
        header = f"x-anthropic-billing-header: cc_version=2.1.{version}; cch={version * 7919:05x};\n"
        system = says("system", header + chat[0]["content"])
        answer = client.chat.completions.create(messages=[system, chat[1]], **OPTIONS)  # type: ignore[list-item]
        usages.append(answer.usage)
        texts.add(answer.choices[0].message.content)
    plain = client.chat.completions.create(messages=chat, **OPTIONS)
    for usage in (*usages[1:], plain.usage):
        assert usage is not None
        assert cached(usage) == usage.prompt_tokens - 1
    assert texts == {plain.choices[0].message.content}


def test_status_and_metrics_count_what_the_usages_say(http: httpx.Client, chat: list[Message]) -> None:
    before, status_before = metrics(http), http.get("/v1/status").json()["prefix_cache"]
    usages = [http.post("/v1/chat/completions", json={"messages": chat, **OPTIONS}).json()["usage"] for _ in range(3)]
    after, status = metrics(http), http.get("/v1/status").json()["prefix_cache"]
    asked = sum(usage["prompt_tokens"] for usage in usages)
    found = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)

    def gained(name: str) -> float:
        return after[name] - before[name]

    assert (
        gained("paceline_prefix_cache_queries_total") == status["query_tokens"] - status_before["query_tokens"] == asked
    )
    assert gained("paceline_prefix_cache_hits_total") == status["hit_tokens"] - status_before["hit_tokens"] == found
    assert gained("paceline_prompt_tokens_total") == asked
    assert after['paceline_prefix_cache_bytes{tier="memory"}'] == status["memory_bytes"] > 0
    assert after['paceline_prefix_cache_limit_bytes{tier="memory"}'] > status["memory_bytes"]
    assert after['paceline_prefix_cache_entries{tier="memory"}'] == status["entries"] > 0
    assert after['paceline_prefix_cache_limit_bytes{tier="disk"}'] == status["disk"]["limit_bytes"]
    assert status["enabled"] and status["queries"] - status_before["queries"] == 3
    assert status["restores"] == after["paceline_prefix_cache_restores_total"]


def test_to_clear_forgets_everything_and_says_what_that_freed(
    running: tuple[Service, Address, Path], http: httpx.Client, chat: list[Message]
) -> None:
    body = {"messages": chat, **OPTIONS}
    first = http.post("/v1/chat/completions", json=body).json()
    status = http.get("/v1/status").json()["prefix_cache"]
    response = http.post("/v1/cache/clear")
    assert response.status_code == 200 and set(response.json()) == {"cleared"}
    freed = response.json()["cleared"]
    assert (freed["entries"], freed["bytes"]) == (status["entries"], status["memory_bytes"])
    assert freed["disk_entries"] > 0 < freed["disk_bytes"]
    after = http.get("/v1/status").json()["prefix_cache"]
    assert (after["entries"], after["memory_bytes"], after["disk"]["entries"]) == (0, 0, 0)
    again = http.post("/v1/chat/completions", json=body).json()
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert again["choices"] == first["choices"]


def test_a_page_of_another_machine_may_not_clear(http: httpx.Client) -> None:
    response = http.post("/v1/cache/clear", headers={"Origin": "https://example.com"})
    assert response.status_code == 403
