from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import jsonschema
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from paceline.errors import InvalidRequest
from paceline.requests import ChatRequest
from paceline.server.openai.sampling import completion_sampling, token_limit
from paceline.server.openai.schema import CompletionBody, SamplingFields
from paceline.server.state import AppState
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests.server.fake_service import FakeService
from tests.server.harness import events, post_chat, post_completion, refused, serve, user
from tests.server.sdk_types import TypedClient


def sampling(**fields: Any) -> Sampling:
    state = cast(AppState, SimpleNamespace(backend=FakeService()))
    return completion_sampling(CompletionBody.model_validate({"prompt": "x", **fields}), state)


def test_every_field_of_the_engines_sampling_can_be_asked_for() -> None:
    """A new knob of the engine that HTTP cannot turn is a mistake."""
    asked = {*SamplingFields.model_fields, "logprobs", "prompt_logprobs"}
    asked |= {"specprefill_keep"}  # which is a share: specprefill_keep_pct
    assert {field.name for field in dataclasses.fields(Sampling)} <= asked


def test_what_is_not_given_is_the_engines_default() -> None:
    assert sampling() == Sampling(max_tokens=16)


def test_an_echo_asks_for_the_prompts_scores_only_with_logprobs() -> None:
    assert sampling(echo=True).prompt_logprobs is None
    assert sampling(echo=True, logprobs=3).prompt_logprobs == 3
    assert sampling(logprobs=3).prompt_logprobs is None


def test_an_echo_of_nothing_new_asks_for_the_prompts_scores() -> None:
    assert sampling(echo=True, max_tokens=0) == Sampling(max_tokens=0, prompt_logprobs=0)


def test_zero_is_a_value() -> None:
    assert sampling(temperature=0, seed=0, logprobs=0) == Sampling(temperature=0, seed=0, logprobs=0, max_tokens=16)


@pytest.mark.parametrize("mode", ["off", "auto", 1, 8, 0, 9])
def test_speculation_passes_as_it_is(mode: str | int) -> None:
    """Also out of range: that is the service's to say."""
    assert sampling(speculation=mode).speculation == mode


@pytest.mark.parametrize("word", [True, False])
def test_a_word_and_a_share_of_sparse_prefill_pass_as_they_are(word: bool) -> None:
    asked = sampling(specprefill=word, specprefill_keep_pct=5)  # out of range: that is the service's to say
    assert (asked.specprefill, asked.specprefill_keep) == (word, 5)
    assert (sampling().specprefill, sampling().specprefill_keep) == (None, None)


@pytest.mark.parametrize("key", ["", " 1", "1.0", "-1", "1e3", "٣", "9" * 11])
def test_a_biased_token_is_a_plain_number(key: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        sampling(logit_bias={key: 1})
    assert caught.value.field == "logit_bias"


CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Weather.", "parameters": CITY}}
NOTHING = {"type": "function", "function": {"name": "nothing"}}
NAMED = {"type": "function", "function": {"name": "weather"}}


@pytest.fixture(scope="module")
def engine_http(hybrid: Path) -> Iterator[httpx.Client]:
    settings = Settings(model=str(hybrid), served_model_name="tiny", max_num_seqs=4)
    with serve(Service(settings), settings) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


def answered(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    choice = ChatCompletion.model_validate(response.json()).choices[0]
    return choice


@pytest.mark.thin(4)
@pytest.mark.parametrize("choice", ["required", NAMED])
@pytest.mark.parametrize("speculation", ["off", 3])
def test_a_call_that_is_forced_comes_with_arguments_that_keep_to_the_schema(
    engine_http: httpx.Client, choice: Any, speculation: Any
) -> None:
    for seed in range(3):
        fields = {"tools": [WEATHER], "tool_choice": choice, "seed": seed, "max_tokens": 400, "temperature": 1.2}
        said = answered(post_chat(engine_http, "How is it there?", speculation=speculation, **fields))
        assert said.finish_reason == "tool_calls" and said.message.content is None
        for call in said.message.tool_calls:
            assert call.function.name == "weather"
            jsonschema.validate(json.loads(call.function.arguments), CITY)


def test_a_stream_of_a_call_is_its_name_and_then_its_arguments(engine_http: httpx.Client) -> None:
    fields = {"tools": [WEATHER, NOTHING], "tool_choice": NAMED, "seed": 4, "max_tokens": 400}
    whole = answered(post_chat(engine_http, **fields))
    chunks = [
        ChatCompletionChunk.model_validate(event) for event in events(post_chat(engine_http, stream=True, **fields))
    ]
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert calls[0].function is not None and calls[0].function.name == "weather" and calls[0].id
    assert all(call.id is None for call in calls[1:])
    text = "".join(call.function.arguments or "" for call in calls if call.function)
    assert text == whole.message.tool_calls[0].function.arguments
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_openais_client_reads_calls_and_sends_their_results(engine_http: httpx.Client) -> None:
    client = openai.OpenAI(base_url=f"{engine_http.base_url}/v1", api_key="none", max_retries=0)
    tools: Any = [WEATHER]
    first: Any = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "Weather?"}], tools=tools, tool_choice="required", seed=1
    )
    call = first.choices[0].message.tool_calls[0]
    history: Any = [
        {"role": "user", "content": "Weather?"},
        first.choices[0].message.to_dict(),
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    second = client.chat.completions.create(model="tiny", messages=history, tools=tools, max_tokens=8)
    assert second.choices[0].finish_reason in ("stop", "length")
    assert second.usage is not None and second.usage.prompt_tokens_details is not None
    assert second.usage.prompt_tokens_details.cached_tokens


def test_an_answer_in_a_format_parses_beside_a_free_one(engine_http: httpx.Client) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": CITY}}
    for seed in range(3):
        said = answered(post_chat(engine_http, response_format=schema, seed=seed, max_tokens=400, temperature=1.5))
        assert said.finish_reason == "stop"
        jsonschema.validate(json.loads(said.message.content), CITY)
    assert answered(post_chat(engine_http, guided_choice=["yes", "no"])).message.content in ("yes", "no")
    assert answered(post_chat(engine_http, structured_outputs={"regex": "[ab]{3}"})).message.content.strip("ab") == ""
    told = post_completion(engine_http, guided_regex="[0-9]{4}", max_tokens=20)
    assert told.status_code == 200 and told.json()["choices"][0]["text"].isdigit()


def test_thinking_is_told_apart_from_the_answer(engine_http: httpx.Client) -> None:
    said = answered(
        post_chat(engine_http, max_tokens=12, chat_template_kwargs={"enable_thinking": True}, temperature=0)
    )
    assert said.message.content == "" and said.message.reasoning_content
    same = answered(post_chat(engine_http, max_tokens=12, reasoning_effort="high", temperature=0))
    assert same.message.reasoning_content == said.message.reasoning_content


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {"name": 'a"b'}}]}, "tools[0].function.name"),
        ({"tools": [WEATHER, WEATHER]}, "tools"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "text", "schema": {}}}, "response_format"),
        ({"response_format": {"type": "json_object", "json_schema": {"schema": {}}}}, "response_format"),
        ({"reasoning_effort": "low", "reasoning": {"effort": "high"}}, "reasoning.effort"),
        ({"enable_thinking": True, "thinking": {"type": "disabled"}}, "thinking.type"),
        (
            {"enable_thinking": False, "chat_template_kwargs": {"enable_thinking": True}},
            "chat_template_kwargs.enable_thinking",
        ),
        ({"enable_thinking": True, "reasoning_effort": "none"}, "reasoning_effort"),
        ({"thinking_token_budget": 5, "reasoning": {"max_tokens": 6}}, "reasoning.max_tokens"),
        ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "guided_regex"),
        ({"response_format": {"type": "json_object"}, "min_tokens": 3}, "min_tokens"),
        ({"response_format": {"type": "json_object"}, "bad_words": ["name"]}, "bad_words"),
        ({"structured_outputs": {"invented": 1}}, "structured_outputs.invented"),
        ({"structured_outputs": {"choice": {"a": "b"}}}, "structured_outputs.choice"),
        ({"guided_choice": {"a": "b"}}, "guided_choice"),
        ({"guided_choice": 5}, "guided_choice"),
        ({"reasoning_effort": "much"}, "reasoning_effort"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    engine_http: httpx.Client, fields: dict[str, Any], param: str
) -> None:
    refused(post_chat(engine_http, **fields), 400, param)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": ["array", "null"]},
        {"enum": [1]},
        {"const": 5},
        {"anyOf": [{"type": "string"}, False]},
    ],
)
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_tool_must_take_an_object(http: httpx.Client, schema: dict[str, Any], choice: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": schema}}
    refused(post_chat(http, tools=[tool], tool_choice=choice), 400, "tools[0].function.parameters", "object")


@pytest.mark.parametrize(
    "schema", [{}, {"properties": {}}, {"type": ["object", "null"]}, {"anyOf": [{"type": "string"}, {}]}]
)
def test_a_schema_that_may_be_an_object_is_taken(http: httpx.Client, schema: dict[str, Any]) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    assert post_chat(http, tools=[tool]).status_code == 200


def test_tool_choice_none_leaves_the_tools_out(engine_http: httpx.Client) -> None:
    plain = engine_http.post(
        "/v1/chat/completions", json={"messages": user("hi"), "max_tokens": 5, "temperature": 0}
    ).json()
    none = post_chat(engine_http, tools=[WEATHER], tool_choice="none", max_tokens=5, temperature=0).json()
    assert none["choices"][0]["message"] == plain["choices"][0]["message"]
    assert none["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]


def options_of(service: FakeService) -> dict[str, Any]:
    request = service.requests[-1]
    assert isinstance(request, ChatRequest)
    return dict(request.template_options)


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
        ({"reasoning": {"effort": "low"}, "reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ({"reasoning": {"enabled": False}}, {"enable_thinking": False}),
        ({"reasoning": {"exclude": False}}, {}),
        ({"thinking": {"type": "enabled"}}, {"enable_thinking": True}),
        ({"thinking": {"type": "auto"}}, {}),
        ({"verbosity": "high"}, {"verbosity": "high"}),
        ({"verbosity": None, "reasoning": None, "thinking": None}, {}),
    ],
)
def test_thinking_and_verbosity_are_told_to_the_template_however_they_are_said(
    http: httpx.Client,
    service: FakeService,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    options: dict[str, Any],
) -> None:
    monkeypatch.setattr(service.tokenizer, "chat_template", "{{ reasoning_effort }} {{ verbosity }}")
    assert post_chat(http, **fields).status_code == 200
    assert options_of(service) == options


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"verbosity": "high"}, "verbosity"),
        ({"verbosity": "loud"}, "verbosity"),
        ({"reasoning": {"max_tokens": "many"}}, "reasoning.max_tokens"),
        ({"reasoning": {"invented": True}}, "reasoning.invented"),
        ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "thinking.budget_tokens"),
        ({"reasoning": {"effort": 5}}, "reasoning"),
        ({"reasoning": "high"}, "reasoning"),
        ({"reasoning": {"effort": "high"}}, "reasoning_effort"),
        ({"thinking": {"type": "on"}}, "thinking"),
        ({"thinking": True}, "thinking"),
    ],
)
def test_what_the_template_has_no_word_for_is_refused(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(post_chat(http, **fields), 400, param)


SAME = {
    "typical_p": 0.5,
    "top_n_sigma": 1.5,
    "xtc_probability": 0.5,
    "xtc_threshold": 0.2,
    "dry_multiplier": 0.8,
    "dry_base": 1.5,
    "dry_allowed_length": 3,
    "dry_penalty_last_n": 64,
    "include_stop_str_in_output": True,
    "thinking_token_budget": 5,
}


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (SAME, SAME),
        ({"dry_sequence_breakers": []}, {"dry_sequence_breakers": ()}),
        ({"allowed_token_ids": [1, 2], "bad_words": ["a"]}, {"allowed_token_ids": (1, 2), "bad_words": ("a",)}),
        ({"top_n_sigma": -1}, {"top_n_sigma": 0}),
        ({"thinking_token_budget": -1}, {}),
        ({"thinking_budget": 7}, {"thinking_token_budget": 7}),
        ({"repeat_penalty": 1.3}, {"repetition_penalty": 1.3}),
        ({"repeat_penalty": 1.0, "repeat_last_n": 64}, {}),
        ({"repetition_penalty": 1.2, "repeat_penalty": 1.2, "repeat_last_n": -1}, {"repetition_penalty": 1.2}),
    ],
)
def test_fields_of_other_servers_are_the_engines(given: dict[str, Any], asked: dict[str, Any]) -> None:
    assert sampling(**given) == Sampling(max_tokens=16, **asked)


@pytest.mark.parametrize(("given", "limit"), [({}, 16), ({"n_predict": 3}, 3), ({"n_predict": -1}, None)])
def test_n_predict_is_max_tokens(given: dict[str, Any], limit: int | None) -> None:
    assert token_limit(CompletionBody.model_validate({"prompt": "x", **given}), 16) == limit
    assert token_limit(CompletionBody.model_validate({"prompt": "x", "max_tokens": 9, **given})) == 9


def test_they_arrive_at_the_engine_over_http(http: httpx.Client, service: FakeService) -> None:
    for post in (post_chat, post_completion):
        assert post(http, **SAME, repeat_penalty=1.1, n_predict=4, cache_prompt=False).status_code == 200
        request = service.requests[-1]
        assert request.sampling == Sampling(**SAME, repetition_penalty=1.1, max_tokens=4)  # type: ignore[arg-type]
        assert request.cache is False


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"repetition_penalty": 1.1, "repeat_penalty": 1.2}, "repeat_penalty"),
        ({"thinking_token_budget": 3, "thinking_budget": 5}, "thinking_budget"),
        ({"cache": True, "cache_prompt": False}, "cache_prompt"),
    ],
)
def test_two_names_of_a_field_that_disagree_are_refused(http: httpx.Client, given: dict[str, Any], param: str) -> None:
    for post in (post_chat, post_completion):
        refused(post(http, **given), 400, param)


def test_an_empty_list_of_allowed_tokens_is_refused(http: httpx.Client) -> None:
    refused(post_chat(http, allowed_token_ids=[]), 400, "allowed_token_ids")


@pytest.mark.parametrize(
    ("name", "value"), [("repeat_penalty", -1), ("repeat_penalty", 0), ("thinking_budget", 2**31), ("n_predict", 10**6)]
)
def test_an_error_names_the_field_that_the_client_wrote(http: httpx.Client, name: str, value: int) -> None:
    for post in (post_chat, post_completion):
        refused(post(http, **{name: value}), 400, name, name)
