"""Fields of vLLM's and llama.cpp's requests over the real engine: what they ask for is what comes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest

from paceline.server.common.unknown_fields import HEADER
from paceline.service import Service
from paceline.settings import Settings
from tests.server.harness import post_chat, post_completion, refused, serve, user
from tests.server.sdk_types import TypedClient

GREEDY = {"temperature": 0, "max_tokens": 12}


@pytest.fixture(scope="module")
def http(hybrid: Path) -> Iterator[httpx.Client]:
    settings = Settings(model=str(hybrid), served_model_name="tiny", max_num_seqs=4, trust_request_chat_template=True)
    with serve(Service(settings), settings) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


def answered(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    choice: dict[str, Any] = response.json()["choices"][0]
    return choice


def tokens(http: httpx.Client, text: str) -> list[int]:
    ids: list[int] = http.post("/tokenize", json={"prompt": text, "add_special_tokens": False}).json()["tokens"]
    return ids


def test_a_thinking_budget_ends_the_reasoning_after_so_many_tokens(http: httpx.Client) -> None:
    [close] = tokens(http, "</think>")
    thinks = {**GREEDY, "enable_thinking": True, "return_token_ids": True, "ignore_eos": True}
    free = answered(post_chat(http, **thinks))
    for budget, draft in ((0, "off"), (5, "off"), (5, 3)):
        cut = answered(post_chat(http, **thinks, thinking_token_budget=budget, speculation=draft))
        assert cut["token_ids"][: budget + 1] == [*free["token_ids"][:budget], close]
        assert close not in cut["token_ids"][budget + 1 :]
    assert answered(post_chat(http, **thinks, thinking_token_budget=500))["token_ids"] == free["token_ids"]
    body = {"messages": user("hi"), "max_tokens": 12, "temperature": 0}
    thought = http.post("/v1/messages", json={**body, "thinking": {"type": "enabled", "budget_tokens": 2}}).json()
    assert [block["type"] for block in thought["content"]] == ["thinking", "text"]


def test_a_begun_answer_is_continued(http: httpx.Client) -> None:
    plain = {**GREEDY, "chat_template_kwargs": {"enable_thinking": False}, "ignore_eos": True}
    begun = [*user("hi"), {"role": "assistant", "content": "I am a"}]
    fields = {**GREEDY, "ignore_eos": True, "return_token_ids": True, "messages": begun}
    answer = http.post("/v1/chat/completions", json={**fields, "continue_final_message": True}).json()
    prompt = http.post("/detokenize", json={"tokens": answer["prompt_token_ids"]}).json()["prompt"]
    assert prompt.endswith("I am a")
    same = answered(post_completion(http, answer["prompt_token_ids"], **GREEDY, ignore_eos=True))
    assert answer["choices"][0]["message"]["content"] == same["text"]
    client = anthropic.Anthropic(base_url=str(http.base_url), api_key="none", max_retries=0)
    messages: Any = begun
    said = client.messages.create(model="tiny", max_tokens=12, messages=messages, extra_body={"temperature": 0})
    assert said.usage.input_tokens + (said.usage.cache_read_input_tokens or 0) == len(answer["prompt_token_ids"])
    assert said.content[0].type == "text" and same["text"].startswith(said.content[0].text)
    refused(post_chat(http, continue_final_message=True, **plain), 400, "messages")


def test_formats_of_other_servers_are_enforced(http: httpx.Client) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    for fields in (
        {"response_format": {"type": "json_object", "schema": schema}},
        {"json_schema": schema},
        {"grammar": 'root ::= "{\\"a\\": " [12] "}"'},
    ):
        said = answered(post_chat(http, max_tokens=60, seed=1, **fields))
        assert json.loads(said["message"]["content"])["a"] in (1, 2)
    refused(post_chat(http, grammar="root ::= ((("), 400, "grammar")
    refused(post_chat(http, grammar='root ::= "a"', json_schema=schema), 400, "grammar")


def test_tokens_and_words_are_allowed_and_banned(http: httpx.Client) -> None:
    free = answered(post_completion(http, "Once upon", return_token_ids=True, ignore_eos=True, **GREEDY))
    allowed = sorted(set(free["token_ids"]))[:3]
    few = answered(
        post_completion(http, "Once upon", return_token_ids=True, allowed_token_ids=allowed, ignore_eos=True, **GREEDY)
    )
    assert set(few["token_ids"]) <= set(allowed)
    texts = [http.post("/detokenize", json={"tokens": [token]}).json()["prompt"] for token in free["token_ids"]]
    banned = next(place for place, text in enumerate(texts) if tokens(http, text) == [free["token_ids"][place]])
    clean = answered(
        post_completion(http, "Once upon", bad_words=[texts[banned]], return_token_ids=True, ignore_eos=True, **GREEDY)
    )
    assert clean["token_ids"][:banned] == free["token_ids"][:banned]
    assert free["token_ids"][banned] not in clean["token_ids"]


def test_a_stop_string_may_stay(http: httpx.Client) -> None:
    free = answered(post_completion(http, "Once upon", ignore_eos=True, **GREEDY))["text"]
    stop = free[3:5]
    cut = answered(post_completion(http, "Once upon", stop=stop, ignore_eos=True, **GREEDY))
    kept = answered(
        post_completion(http, "Once upon", stop=stop, include_stop_str_in_output=True, ignore_eos=True, **GREEDY)
    )
    assert kept["text"] == cut["text"] + stop and kept["stop_reason"] == stop


def test_a_prompt_is_truncated_to_its_end(http: httpx.Client) -> None:
    ids = tokens(http, "one two three four five six seven")
    for prompt in (ids, "x " * 100_000):
        cut = answered(post_completion(http, prompt, truncate_prompt_tokens=3, return_token_ids=True, **GREEDY))
        assert len(cut["prompt_token_ids"]) == 3
    assert (
        answered(post_completion(http, ids, truncate_prompt_tokens=3, return_token_ids=True, **GREEDY))[
            "prompt_token_ids"
        ]
        == ids[-3:]
    )
    refused(post_completion(http, ids, truncate_prompt_tokens=0), 400, "truncate_prompt_tokens")


def test_a_request_may_bring_its_template(http: httpx.Client) -> None:
    answer = post_chat(http, chat_template="Q: {{ messages[0].content }}", return_token_ids=True, **GREEDY).json()
    assert answer["prompt_token_ids"] == tokens(http, "Q: hi")
    refused(post_chat(http, chat_template="{% for %}"), 400, "chat_template")


def test_a_suffix_needs_tokens_for_it(http: httpx.Client) -> None:
    refused(post_completion(http, "a", suffix="b"), 400, "suffix", "no tokens for it")


def test_the_prompts_own_scores_are_those_of_an_echo(http: httpx.Client) -> None:
    ids = tokens(http, "one two three")
    scored = answered(post_completion(http, ids, prompt_logprobs=1, max_tokens=1))["prompt_logprobs"]
    echo = answered(post_completion(http, ids, echo=True, logprobs=1, max_tokens=1))["logprobs"]["token_logprobs"]
    assert scored[0] is None
    found = [scores[str(token)]["logprob"] for token, scores in zip(ids[1:], scored[1:], strict=True)]
    assert found == pytest.approx(echo[1 : len(ids)], abs=1e-4)


def test_tokens_are_scored_by_their_ids(http: httpx.Client) -> None:
    fields = {
        "logprob_token_ids": [5, 3, 5],
        "return_tokens_as_token_ids": True,
        "allowed_token_ids": [9],
        "max_tokens": 1,
    }
    names = ["token_id:9", "token_id:5", "token_id:3"]
    [scored] = answered(post_chat(http, logprobs=True, top_logprobs=1, **fields))["logprobs"]["content"]
    assert [top["token"] for top in scored["top_logprobs"]] == names
    [top] = answered(post_completion(http, "a", logprobs=1, **fields))["logprobs"]["top_logprobs"]
    assert list(top) == names
    refused(post_chat(http, **fields), 400, "logprob_token_ids", "needs logprobs")
    refused(post_completion(http, "a", logprobs=1, logprob_token_ids=[10**6]), 400, "logprob_token_ids")


def test_samplers_of_other_servers_give_a_seed_its_text(http: httpx.Client) -> None:
    rules = {"typical_p": 0.8, "top_n_sigma": 2.0, "xtc_probability": 0.5, "dry_multiplier": 0.8, "seed": 3}
    texts = {
        answered(post_completion(http, "Once", **rules, speculation=draft, max_tokens=12, ignore_eos=True))["text"]
        for draft in ("off", 1, 3)
    }
    assert len(texts) == 1
    assert "temperature" in post_completion(http, "Once", temprature=0, max_tokens=1).headers[HEADER]
