from __future__ import annotations

from typing import Any

import httpx
import pytest

from paceline.server.openai.more_sampling import token_limit
from paceline.server.openai.schema import CompletionBody
from paceline.types import Sampling
from tests.server.fake_service import FakeService
from tests.server.harness import post_chat, post_completion, refused
from tests.server.openai.test_sampling import sampling

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
