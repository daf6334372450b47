from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from paceline.requests import ChatRequest
from paceline.types import Sampling
from tests.server.fake_service import REPLY, FakeService
from tests.server.harness import events, post_chat, refused, user

LENGTH = len(REPLY.encode()) + 1  # tokens of the answer, with the end token


def test_an_answer_validates_as_openais_type(http: httpx.Client) -> None:
    response = post_chat(http, "hi", model="fake/model")
    completion = ChatCompletion.model_validate(response.json(), strict=True)
    assert completion.id.startswith("chatcmpl-")
    assert completion.model == "fake/model"
    [choice] = completion.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", REPLY, "stop")
    assert completion.usage is not None and completion.usage.prompt_tokens_details is not None
    prompt = len("<begin>user: hi|assistant: ") - len("<begin>") + 1
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (prompt, LENGTH)
    assert completion.usage.total_tokens == prompt + LENGTH
    assert completion.usage.prompt_tokens_details.cached_tokens == 1


def test_the_openai_client_reads_an_answer(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model="fake/model", messages=[{"role": "user", "content": "hi"}])
    assert completion.choices[0].message.content == REPLY


def test_the_openai_client_reads_a_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="fake/model", messages=[{"role": "user", "content": "hi"}], stream=True
    )
    chunks = [chunk for chunk in stream if chunk.choices]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == REPLY
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_every_chunk_validates_as_openais_type(http: httpx.Client) -> None:
    response = post_chat(http, "hi", stream=True, n=2, logprobs=True, stream_options={"include_usage": True})
    chunks = [ChatCompletionChunk.model_validate(event, strict=True) for event in events(response)]
    assert len({chunk.id for chunk in chunks}) == 1


def test_usage_is_null_on_every_chunk_but_the_last(http: httpx.Client) -> None:
    *chunks, last = events(post_chat(http, "hi", stream=True, stream_options={"include_usage": True}))
    assert all(chunk["usage"] is None for chunk in chunks)
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == LENGTH


def test_usage_is_left_out_when_it_is_not_asked_for(http: httpx.Client) -> None:
    assert not any("usage" in chunk for chunk in events(post_chat(http, "hi", stream=True)))


def test_continuous_usage_counts_up(http: httpx.Client) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = events(post_chat(http, "hi", stream=True, stream_options=options))
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts) and counts[:2] == [0, 1] and counts[-1] == LENGTH
    assert len({chunk["usage"]["prompt_tokens"] for chunk in chunks}) == 1
    assert {chunk["usage"]["prompt_tokens_details"]["cached_tokens"] for chunk in chunks} == {1}


def test_usage_sums_the_drafted_tokens_of_all_choices(http: httpx.Client) -> None:
    fields: dict[str, Any] = {"n": 2, "speculation": 3}
    whole = post_chat(http, "hi", **fields).json()["usage"]
    assert whole["completion_tokens_details"] == {
        "reasoning_tokens": 0,
        "accepted_prediction_tokens": 6,
        "rejected_prediction_tokens": 12,
    }
    options = {"include_usage": True}
    assert events(post_chat(http, "hi", stream=True, stream_options=options, **fields))[-1]["usage"] == whole


def test_usage_has_zeros_where_nothing_was_drafted(http: httpx.Client) -> None:
    none = {"reasoning_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
    assert post_chat(http, "hi").json()["usage"]["completion_tokens_details"] == none


def test_the_openai_client_asks_for_drafts_and_reads_their_usage(client: openai.OpenAI, service: FakeService) -> None:
    completion = client.chat.completions.create(
        model="fake/model", messages=[{"role": "user", "content": "hi"}], extra_body={"speculation": 4}
    )
    assert service.requests[-1].sampling.speculation == 4
    assert completion.usage is not None and completion.usage.completion_tokens_details is not None
    details = completion.usage.completion_tokens_details
    assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (4, 8)


@pytest.mark.parametrize(
    ("fields", "cache", "salt"),
    [
        ({}, True, ""),
        ({"cache": None, "cache_salt": None}, True, ""),
        ({"cache": True, "cache_salt": "alice"}, True, "alice"),
        ({"cache": False}, False, ""),
    ],
)
def test_a_request_says_whether_and_with_whom_it_shares_prefixes(
    http: httpx.Client, service: FakeService, fields: dict[str, Any], cache: bool, salt: str
) -> None:
    assert post_chat(http, **fields).status_code == 200
    assert (service.requests[-1].cache, service.requests[-1].cache_salt) == (cache, salt)


def test_streamed_choices_carry_their_index(http: httpx.Client) -> None:
    texts = {0: "", 1: "", 2: ""}
    chunks = events(post_chat(http, "hi", stream=True, n=3))
    roles = [chunk["choices"][0] for chunk in chunks if "role" in chunk["choices"][0]["delta"]]
    assert [role["index"] for role in roles] == [0, 1, 2] and roles == [chunk["choices"][0] for chunk in chunks[:3]]
    for chunk in chunks:
        [choice] = chunk["choices"]
        texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == {0: REPLY, 1: REPLY, 2: REPLY}


def test_several_choices_count_their_prompt_once(http: httpx.Client) -> None:
    alone, three = post_chat(http, "hi").json(), post_chat(http, "hi", n=3).json()
    assert [choice["index"] for choice in three["choices"]] == [0, 1, 2]
    assert three["usage"]["prompt_tokens"] == alone["usage"]["prompt_tokens"]
    assert three["usage"]["completion_tokens"] == 3 * LENGTH
    assert three["usage"]["prompt_tokens_details"] == alone["usage"]["prompt_tokens_details"] == {"cached_tokens": 1}


def test_logprobs_list_every_token_with_its_bytes(http: httpx.Client) -> None:
    response = post_chat(http, "hi", logprobs=True, top_logprobs=2)
    completion = ChatCompletion.model_validate(response.json(), strict=True)
    logprobs = completion.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert len(logprobs.content) == LENGTH
    first = logprobs.content[0]
    assert (first.token, first.logprob, first.bytes) == ("H", -1.5, [72])
    assert [(top.token, top.logprob) for top in first.top_logprobs] == [("h", -0.5), ("H", -1.5)]
    assert bytes(byte for entry in logprobs.content[:-1] for byte in entry.bytes or []).decode() == REPLY


def test_streamed_logprobs_are_the_whole_ones(http: httpx.Client) -> None:
    whole = post_chat(http, "hi", logprobs=True, top_logprobs=1).json()["choices"][0]["logprobs"]["content"]
    streamed: list[Any] = []
    for chunk in events(post_chat(http, "hi", logprobs=True, top_logprobs=1, stream=True)):
        streamed += (chunk["choices"][0]["logprobs"] or {"content": []})["content"]
    assert streamed == whole


def test_every_sampling_field_reaches_the_engine(http: httpx.Client, service: FakeService) -> None:
    fields = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "presence_penalty": -1,
        "frequency_penalty": 2,
        "logit_bias": {"65": -100},
        "seed": 7,
        "stop": ["x", "y"],
        "stop_token_ids": [10],
        "min_tokens": 1,
        "max_completion_tokens": 3,
        "max_tokens": 9,
        "ignore_eos": True,
        "skip_special_tokens": False,
        "speculation": 3,
        "logprobs": True,
        "top_logprobs": 5,
    }
    assert post_chat(http, "hi", **fields).status_code == 200
    assert service.requests[-1].sampling == Sampling(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=-1,
        frequency_penalty=2,
        logit_bias={65: -100},
        seed=7,
        stop=("x", "y"),
        stop_token_ids=(10,),
        min_tokens=1,
        max_tokens=3,
        ignore_eos=True,
        skip_special_tokens=False,
        speculation=3,
        logprobs=5,
    )


def test_null_is_the_same_as_not_given(http: httpx.Client, service: FakeService) -> None:
    names = (
        "model temperature top_p top_k min_p repetition_penalty presence_penalty frequency_penalty "
        "logit_bias seed stop stop_token_ids min_tokens max_tokens max_completion_tokens ignore_eos n stream "
        "stream_options logprobs top_logprobs skip_special_tokens speculation chat_template_kwargs tools tool_choice "
        "response_format user audio specprefill specprefill_keep_pct"
    )
    assert post_chat(http, "hi", **dict.fromkeys(names.split())).status_code == 200
    assert service.requests[-1].sampling == Sampling()


def test_template_options_and_messages_pass_unchanged(http: httpx.Client, service: FakeService) -> None:
    messages = [
        {"role": "developer", "content": "be brief", "name": "boss"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "3", "tool_call_id": "1"},
    ]
    body = {"messages": messages, "chat_template_kwargs": {"enable_thinking": False}}
    assert http.post("/v1/chat/completions", json=body).status_code == 200
    request: Any = service.requests[-1]
    assert request.messages == messages
    assert request.template_options == {"enable_thinking": False}


def test_unknown_and_harmless_fields_are_tolerated(http: httpx.Client) -> None:
    fields = {
        "user": "u",
        "metadata": {"a": "b"},
        "store": True,
        "service_tier": "auto",
        "invented": {"deeply": ["nested"]},
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "length_penalty": 1.0,
        "prediction": {"type": "content", "content": "x"},
        "mirostat": 0,
        "mirostat_tau": 5.0,
        "mm_processor_kwargs": {},
    }
    assert post_chat(http, "hi", **fields).status_code == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("functions", [{"name": "f"}]),
        ("audio", {"voice": "alloy"}),
        ("modalities", ["text", "audio"]),
        ("use_beam_search", True),
        ("guided_invented", "x"),
        ("best_of", 3),
        ("documents", [{"text": "x"}]),
        ("mm_processor_kwargs", {"max_pixels": 9}),
        ("mirostat", 2),
        ("samplers", ["top_k"]),
        ("dynatemp_range", 0.5),
        ("n_probs", 3),
        ("truncation_side", "right"),
        ("kv_transfer_params", {"do_remote_prefill": True}),
        ("reasoning_format", "none"),
    ],
)
def test_what_is_not_built_yet_is_refused_by_name(http: httpx.Client, field: str, value: Any) -> None:
    refused(post_chat(http, "hi", **{field: value}), 400, field, "not supported")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.01}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.5}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"max_tokens": 10**12}, "max_tokens"),
        ({"max_completion_tokens": 10**12}, "max_completion_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"stop": ["x"] * 10_000}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": 5}, "stop"),
        ({"stop": "x" * 5000}, "stop"),
        ({"stop_token_ids": [258]}, "stop_token_ids"),
        ({"seed": 2**64}, "seed"),
        ({"logit_bias": {"258": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"word": 1}}, "logit_bias"),
        ({"logit_bias": {"²": 1}}, "logit_bias"),
        ({"logit_bias": {str(i): 1 for i in range(100_000)}}, "logit_bias"),
        ({"logit_bias": {"65": 101}}, "logit_bias"),
        ({"logit_bias": {"65": "x"}}, "logit_bias.65"),
        ({"temperature": 10**400}, "temperature"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"chat_template_kwargs": {"chat_template": "{{ evil }}"}}, "chat_template_kwargs"),
        ({"stream": "yes"}, "stream"),
        ({"speculation": 0}, "speculation"),
        ({"speculation": 9}, "speculation"),
        ({"speculation": -1}, "speculation"),
        ({"speculation": 10**400}, "speculation"),
        ({"typical_p": 0}, "typical_p"),
        ({"top_n_sigma": 1000}, "top_n_sigma"),
        ({"xtc_probability": 1.5}, "xtc_probability"),
        ({"xtc_threshold": -1}, "xtc_threshold"),
        ({"dry_multiplier": -1}, "dry_multiplier"),
        ({"dry_base": 0.5}, "dry_base"),
        ({"dry_allowed_length": 0}, "dry_allowed_length"),
        ({"dry_penalty_last_n": -2}, "dry_penalty_last_n"),
        ({"dry_sequence_breakers": [""]}, "dry_sequence_breakers"),
        ({"dry_sequence_breakers": ["x"] * 65}, "dry_sequence_breakers"),
        ({"allowed_token_ids": [258]}, "allowed_token_ids"),
        ({"bad_words": ["x" * 200]}, "bad_words"),
        ({"thinking_token_budget": -2}, "thinking_token_budget"),
        ({"repetition_penalty": 1.1, "repeat_penalty": 1.2}, "repeat_penalty"),
        ({"repeat_penalty": 1.2, "repeat_last_n": 64}, "repeat_last_n"),
        ({"n_predict": -2}, "n_predict"),
        ({"n_predict": 0}, "n_predict"),
        ({"grammar": 5}, "grammar"),
        ({"prompt_logprobs": 1000}, "prompt_logprobs"),
        ({"prediction": {"type": "other", "content": ""}}, "prediction.type"),
        ({"chat_template": "{{ 1 }}"}, "chat_template"),
        ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(post_chat(http, "hi", **fields), 400, param, param.split(".")[0])


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ("hi", "messages"),
        (None, "messages"),
        ([{"role": "wizard", "content": "hi"}], "messages[0].role"),
        ([{"content": "hi"}], "messages[0].role"),
        (["hi"], "messages[0]"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": {"type": "text"}}], "messages[0].content"),
        ([{"role": "user", "content": ["hi"]}], "messages[0].content[0]"),
        (
            user("a") + [{"role": "user", "content": [{"type": "text", "text": 5}]}],
            "messages[1].content[0].text",
        ),
    ],
)
def test_messages_of_the_wrong_shape_are_refused_by_name(http: httpx.Client, messages: Any, param: str) -> None:
    refused(http.post("/v1/chat/completions", json={"messages": messages}), 400, param)


@pytest.mark.parametrize("seed", [-1, -(2**63), 2**63, 0])
def test_any_64_bit_seed_is_a_seed(http: httpx.Client, service: FakeService, seed: int) -> None:
    assert post_chat(http, "hi", seed=seed).status_code == 200
    assert service.requests[-1].sampling.seed == seed % 2**64


def test_a_part_must_be_an_object(http: httpx.Client) -> None:
    refused(post_chat(http, ["hello"]), 400, "messages[0].content[0]", "must be an object")


def test_top_k_of_minus_one_is_off(http: httpx.Client, service: FakeService) -> None:
    refused(post_chat(http, "hi", top_k=-5), 400, "top_k", "-1 or 0 (off)")
    assert post_chat(http, "hi", top_k=-1).status_code == 200
    assert service.requests[-1].sampling.top_k == 0


def test_prompt_and_max_tokens_together_may_exceed_the_context(http: httpx.Client) -> None:
    assert post_chat(http, "hi", max_tokens=4096).status_code == 200


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(http: httpx.Client) -> None:
    error = refused(post_chat(http, "x" * 5000), 400, "messages", "4096", "5019")
    assert error["code"] == "context_length_exceeded"


def test_a_length_limit_is_its_own_finish_reason(http: httpx.Client) -> None:
    [choice] = post_chat(http, "hi", max_tokens=5).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello", "length")


def test_another_model_is_not_found(http: httpx.Client) -> None:
    names = "--served-model-name NAME, repeated for several"
    error = refused(post_chat(http, "hi", model="gpt-4"), 404, "model", "gpt-4", "fake/model", names)
    assert error["code"] == "model_not_found"


def test_a_row_that_fails_before_its_first_token_is_a_status_or_an_event_behind_the_role(http: httpx.Client) -> None:
    error = refused(post_chat(http, "!fail 0"), 500, None, "the sampler broke")
    assert error["type"] == "server_error"
    role, last = events(post_chat(http, "!fail 0", stream=True))
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert last == {"error": error}


def test_a_row_that_fails_late_is_an_error_status_when_nothing_was_streamed(http: httpx.Client) -> None:
    refused(post_chat(http, "!fail 3"), 500, None, "the sampler broke")


def test_a_row_that_fails_late_is_an_error_event_in_a_stream(http: httpx.Client) -> None:
    response = post_chat(http, "!fail 3", stream=True)
    assert response.status_code == 200
    *chunks, last = events(response)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "Hel"
    assert last["error"]["message"] == "the sampler broke"


def test_the_openai_client_raises_the_error_in_a_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="fake/model", messages=[{"role": "user", "content": "!fail 3"}], stream=True
    )
    with pytest.raises(openai.APIError, match="the sampler broke"):
        list(stream)


def test_a_row_that_the_engine_ended_is_unavailable(http: httpx.Client) -> None:
    response = post_chat(http, "!abort 2")
    refused(response, 503, None)
    assert int(response.headers["retry-after"]) > 0


def test_a_crash_is_a_500_that_keeps_its_detail_to_the_log(http: httpx.Client) -> None:
    for stream in (False, True):
        error = refused(post_chat(http, "!crash", stream=stream), 500, None)
        assert "secret" not in error["message"]
    assert post_chat(http, "hi").status_code == 200


# --- what clients of other servers say ---------------------------------------------------------------


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def allowed(mode: Any, *names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [function(name) for name in names]}}


def test_only_allowed_tools_are_offered(http: httpx.Client, service: FakeService) -> None:
    tools = [function("one"), function("two")]
    assert post_chat(http, tools=tools, tool_choice=allowed("auto", "two")).status_code == 200
    request = service.requests[-1]
    assert isinstance(request, ChatRequest)
    assert [tool["function"]["name"] for tool in request.tools or ()] == ["two"] and request.grammar is None
    assert post_chat(http, tools=tools, tool_choice=allowed("required", "one")).status_code == 200
    assert service.requests[-1].grammar is not None
    for choice in (allowed("auto", "three"), allowed("none", "one"), allowed("required"), {"type": "allowed_tools"}):
        refused(post_chat(http, tools=tools, tool_choice=choice), 400, "tool_choice")


def test_a_tools_result_of_nothing_is_empty(http: httpx.Client) -> None:
    call = {"id": "a", **function("f")}
    messages = [*user("x"), {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a"}]
    assert http.post("/v1/chat/completions", json={"messages": messages}).status_code == 200
    refused(http.post("/v1/chat/completions", json={"messages": [{"role": "user"}]}), 400, "messages[0].content")
