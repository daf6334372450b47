from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from paceline.errors import InvalidRequest
from paceline.server.openai.sampling import completion_sampling
from paceline.server.openai.schema import CompletionBody, SamplingFields
from paceline.types import Sampling


def sampling(**fields: Any) -> Sampling:
    return completion_sampling(CompletionBody.model_validate({"prompt": "x", **fields}))


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
