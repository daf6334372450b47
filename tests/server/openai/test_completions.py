from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest
from openai.types import Completion

from paceline.types import Sampling
from tests.server.fake_service import END, REPLY, FakeService
from tests.server.harness import events, post_chat, post_completion, refused
from tests.waiting import WAIT

LENGTH = len(REPLY.encode()) + 1


def test_a_completion_validates_as_openais_type(http: httpx.Client) -> None:
    response = post_completion(http, "hi", max_tokens=50, logprobs=2)
    completion = Completion.model_validate(response.json(), strict=True)
    assert completion.id.startswith("cmpl-")
    assert completion.object == "text_completion"
    assert completion.choices[0].text == REPLY
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (3, LENGTH)


def test_sixteen_tokens_are_the_default(http: httpx.Client, service: FakeService) -> None:
    [choice] = post_completion(http, "hi").json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == (
        REPLY.encode()[:16].decode(errors="replace"),
        "length",
    )
    assert service.requests[-1].sampling == Sampling(max_tokens=16)


def test_the_openai_client_reads_a_stream(client: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    stream = client.completions.create(
        model="fake/model", prompt="hi", max_tokens=50, stream=True, stream_options=options
    )
    *chunks, last = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks) == REPLY
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"
    assert last.choices == [] and last.usage is not None and last.usage.completion_tokens == LENGTH


def test_usage_sums_the_drafted_tokens_of_all_choices(http: httpx.Client) -> None:
    fields: dict[str, Any] = {"n": 2, "speculation": 1, "max_tokens": 3}
    whole = post_completion(http, ["a", "b"], **fields)
    completion = Completion.model_validate(whole.json(), strict=True)
    assert completion.usage is not None and completion.usage.completion_tokens_details is not None
    details = completion.usage.completion_tokens_details
    assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (4, 8)
    options = {"include_usage": True}
    streamed = events(post_completion(http, ["a", "b"], stream=True, stream_options=options, **fields))
    assert streamed[-1]["usage"] == whole.json()["usage"]


@pytest.mark.parametrize("post", [post_chat, post_completion])
def test_without_include_usage_a_stream_has_none(http: httpx.Client, post: Any) -> None:
    options = {"include_usage": False, "continuous_usage_stats": True}
    chunks = events(post(http, stream=True, stream_options=options))
    assert chunks and not any(chunk.get("usage") for chunk in chunks)


def test_cached_tokens_are_summed_over_prompts_and_known_from_the_first_chunk(http: httpx.Client) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = events(post_completion(http, ["a", "b"], n=2, max_tokens=3, stream=True, stream_options=options))
    counts = [chunk["usage"]["prompt_tokens_details"]["cached_tokens"] for chunk in chunks]
    assert counts == sorted(counts) and counts[0] == 1 and counts[-1] == 2


def test_every_prompt_says_whether_and_with_whom_it_shares_prefixes(http: httpx.Client, service: FakeService) -> None:
    post_completion(http, ["a", "b"], cache=False, cache_salt="alice")
    assert [(of.cache, of.cache_salt) for of in service.requests[-2:]] == [(False, "alice")] * 2
    post_completion(http, "a")
    assert (service.requests[-1].cache, service.requests[-1].cache_salt) == (True, "")


def test_usage_has_zeros_where_nothing_was_drafted(http: httpx.Client) -> None:
    none = {"reasoning_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
    assert post_completion(http, "hi").json()["usage"]["completion_tokens_details"] == none


@pytest.mark.parametrize(
    ("prompt", "seen"),
    [
        ("ab", ["ab"]),
        (["ab", "c"], ["ab", "c"]),
        ([97, 98], [[97, 98]]),
        ([[97, 98], [99]], [[97, 98], [99]]),
    ],
)
def test_a_prompt_is_text_or_token_ids_alone_or_in_a_list(
    http: httpx.Client, service: FakeService, prompt: Any, seen: list[Any]
) -> None:
    before = len(service.requests)
    response = post_completion(http, prompt, max_tokens=2)
    assert [choice["text"] for choice in response.json()["choices"]] == ["He"] * len(seen)
    requests: list[Any] = service.requests[before:]
    assert [request.prompt for request in requests] == seen


@pytest.mark.parametrize("prompt", [None, 5, [], [[]], ["a", 5], [97, "a"], [97, [98]], [True], [1.5], [["a"]], {}])
def test_any_other_prompt_is_refused(http: httpx.Client, prompt: Any) -> None:
    refused(post_completion(http, prompt), 400, "prompt")


def test_a_missing_prompt_is_refused(http: httpx.Client) -> None:
    refused(http.post("/v1/completions", json={}), 400, "prompt")


@pytest.mark.parametrize("prompt", [[258], [[97], [-1]], [2**70]])
def test_a_token_id_outside_the_vocabulary_is_refused(http: httpx.Client, prompt: Any) -> None:
    refused(post_completion(http, prompt), 400, "prompt", "257")


def test_too_many_prompts_are_refused(http: httpx.Client) -> None:
    refused(post_completion(http, ["a"] * 3000), 400, "prompt", "3000", "2048")


def test_a_choices_index_counts_prompts_then_choices(http: httpx.Client) -> None:
    response = post_completion(http, ["a", "b", "c"], n=2, echo=True, max_tokens=1).json()
    assert [choice["index"] for choice in response["choices"]] == [0, 1, 2, 3, 4, 5]
    assert [choice["text"] for choice in response["choices"]] == ["aH", "aH", "bH", "bH", "cH", "cH"]
    assert response["usage"]["prompt_tokens"] == 6  # each prompt once, with its begin token
    assert response["usage"]["completion_tokens"] == 6


def test_streamed_prompts_are_told_apart_by_index(http: httpx.Client) -> None:
    texts: dict[int, str] = {}
    for chunk in events(post_completion(http, ["a", "b"], n=2, echo=True, max_tokens=3, stream=True)):
        [choice] = chunk["choices"]
        texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    assert texts == {0: "aHel", 1: "aHel", 2: "bHel", 3: "bHel"}


def test_one_bad_prompt_refuses_the_list_and_frees_the_others(http: httpx.Client, service: FakeService) -> None:
    refused(post_completion(http, ["!hang 0", "x" * 5000]), 400, "prompt", "4096", "5001")
    assert service.idle.wait(WAIT)


def score(prompt: Any, **fields: Any) -> dict[str, Any]:
    """A loglikelihood request as lm-eval sends it."""
    return {
        "prompt": prompt,
        "temperature": 0,
        "max_tokens": 1,
        "logprobs": 1,
        "seed": 1234,
        "echo": True,
        **fields,
    }


def lm_eval_parse(response: dict[str, Any], contexts: list[int]) -> list[tuple[float, bool]]:
    """As lm-eval 0.4 does it: everything between the context and the one generated token."""
    results = []
    for choice, context in zip(sorted(response["choices"], key=lambda c: c["index"]), contexts, strict=True):
        logprobs = choice["logprobs"]["token_logprobs"][context:-1]
        tops = choice["logprobs"]["top_logprobs"][context:-1]
        greedy = all(value == max(top.values()) for value, top in zip(logprobs, tops, strict=True))
        results.append((sum(logprobs), greedy))
    return results


def test_lm_eval_scores_token_ids(http: httpx.Client) -> None:
    prompts = [list(b"ab cd"), list(b"ab Cd")]
    response = http.post("/v1/completions", json=score(prompts)).json()
    assert lm_eval_parse(response, [2, 2]) == [(-0.75, True), (-2.0, False)]


def test_an_echo_with_logprobs_lines_up_with_its_text(http: httpx.Client) -> None:
    [choice] = http.post("/v1/completions", json=score("aB")).json()["choices"]
    assert choice["text"] == "aBH"
    assert choice["logprobs"] == {
        "tokens": ["<begin>", "a", "B", "H"],
        "text_offset": [0, 0, 1, 2],
        "token_logprobs": [None, -0.25, -1.5, -1.5],
        "top_logprobs": [None, {"a": -0.25}, {"b": -0.5, "B": -1.5}, {"h": -0.5, "H": -1.5}],
    }


def test_scoring_needs_no_new_token(http: httpx.Client) -> None:
    response = http.post("/v1/completions", json=score(list(b"ab"), max_tokens=0)).json()
    [choice] = response["choices"]
    assert (choice["text"], choice["logprobs"]["tokens"]) == ("ab", ["a", "b"])
    assert response["usage"]["completion_tokens"] == 0


def test_max_tokens_0_without_echo_is_refused(http: httpx.Client) -> None:
    refused(post_completion(http, "hi", max_tokens=0), 400, "max_tokens", "echo")


def test_a_streamed_echo_is_the_whole_one(http: httpx.Client) -> None:
    [whole] = http.post("/v1/completions", json=score("aé", max_tokens=30)).json()["choices"]
    text = ""
    logprobs: dict[str, list[Any]] = {name: [] for name in whole["logprobs"]}
    for chunk in events(http.post("/v1/completions", json=score("aé", max_tokens=30, stream=True))):
        [choice] = chunk["choices"]
        text += choice["text"]
        for name, values in logprobs.items():
            values.extend(choice["logprobs"][name])
    assert text == whole["text"] == "aé" + REPLY
    assert logprobs == whole["logprobs"]


def test_a_token_that_is_part_of_a_character_starts_where_the_character_does(http: httpx.Client) -> None:
    [choice] = post_completion(http, "hi", max_tokens=50, logprobs=0).json()["choices"]
    tokens, offsets = choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"]
    assert tokens[-5:] == ["bytes:\\xf0", "bytes:\\x9f", "bytes:\\x99", "bytes:\\x82", "<end>"]
    assert offsets[-5:] == [len(REPLY) - 1] * 4 + [len(REPLY)]


def test_an_impossible_token_has_a_finite_number(http: httpx.Client) -> None:
    [choice] = post_completion(http, "hi", max_tokens=2, logprobs=3).json()["choices"]
    assert choice["logprobs"]["top_logprobs"][1] == {"e": -0.25, "f": -9999.0}


def test_an_end_token_in_the_prompt_is_echoed(http: httpx.Client) -> None:
    [choice] = http.post("/v1/completions", json=score([97, END, 98])).json()["choices"]
    assert choice["text"] == "a<end>bH"
    assert choice["logprobs"]["text_offset"] == [0, 1, 6, 7]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"best_of": 2}, "best_of"),
        ({"include_reasoning": False}, "include_reasoning"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 10**12}, "max_tokens"),
        ({"n": 1000}, "n"),
        ({"temperature": -1}, "temperature"),
        ({"prompt_embeds": "AA=="}, "prompt_embeds"),
        ({"speculation": 0}, "speculation"),
        ({"speculation": 9}, "speculation"),
        ({"speculation": "on"}, "speculation"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(post_completion(http, "hi", **fields), 400, param)


def test_best_of_n_is_n(http: httpx.Client) -> None:
    assert post_completion(http, "hi", best_of=2, n=2).status_code == 200
