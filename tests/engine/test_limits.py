from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine.limits import Limits, validate, validate_choices
from paceline.errors import InvalidRequest
from paceline.types import Sampling, SpeculationMethod

NO_METHOD: dict[SpeculationMethod, str] = {"grammar": "a test says so"}
LIMITS = Limits(
    100, 50, max_choices=4, max_stop_strings=3, max_stop_length=8, max_logprobs=5, max_draft=6, no_method=NO_METHOD
)
NAN, INFINITY = float("nan"), float("inf")

ALLOWED: dict[str, list[Any]] = {
    "temperature": [0, 1e-9, 0.7, 2.0, 100],
    "top_p": [1e-9, 0.5, 1],
    "top_k": [0, 1, 50, 10**12],
    "min_p": [0, 0.1, 1],
    "typical_p": [1e-9, 0.5, 1],
    "top_n_sigma": [0, 1.5],
    "xtc_probability": [0, 0.5, 1],
    "xtc_threshold": [0, 0.1, 1],
    "dry_multiplier": [0, 0.8, 100],
    "dry_base": [1, 1.75],
    "dry_allowed_length": [1, 20],
    "dry_penalty_last_n": [-1, 0, 512],
    "dry_sequence_breakers": [(), ("\n", "x" * 128)],
    "allowed_token_ids": [(), (0, 49)],
    "bad_words": [(), ("a", "b c")],
    "thinking_token_budget": [None, 0, 10**6],
    "include_stop_str_in_output": [True, False],
    "repetition_penalty": [0.01, 1, 100],
    "presence_penalty": [-2, 0, 2],
    "frequency_penalty": [-2, 0, 2],
    "logit_bias": [{}, {0: 100}, {49: -100, 3: 0.5}],
    "seed": [None, 0, -5, 2**64, 2**200],
    "max_tokens": [None, 1, 100],
    "min_tokens": [0, 1, 100],
    "stop": [(), ("a",), ("a", "bb", "12345678")],
    "stop_token_ids": [(), (0, 49), tuple(range(50))],
    "ignore_eos": [True, False],
    "logprobs": [None, 0, 5],
    "logprob_token_ids": [()],
    "prompt_logprobs": [None, 0, 5],
    "speculation": [None, "off", "auto", 1, 6],
    "speculation_method": [None, "mtp", "lookup"],
    "specprefill": [None, True, False],
    "specprefill_keep": [None],
}
REFUSED: dict[str, list[Any]] = {
    "temperature": [-1e-9, -1, 100.1, NAN, INFINITY, -INFINITY],
    "top_p": [0, -0.1, 1.0001, NAN, INFINITY],
    "top_k": [-1],
    "min_p": [-0.1, 1.1, NAN],
    "typical_p": [0, 1.1, NAN],
    "top_n_sigma": [-1, 101, INFINITY],
    "xtc_probability": [-0.1, 1.1, NAN],
    "xtc_threshold": [-0.1, 1.1],
    "dry_multiplier": [-1, 101, NAN],
    "dry_base": [0.9, 101, NAN],
    "dry_allowed_length": [0, -1],
    "dry_penalty_last_n": [-2, 2**40],
    "dry_sequence_breakers": [("",), ("x" * 129,), ("x",) * 65],
    "allowed_token_ids": [(50,), (-1,)],
    "bad_words": [("",), ("x",) * 65],
    "thinking_token_budget": [-1, 2**40],
    "repetition_penalty": [0, -1, 101, NAN, INFINITY],
    "presence_penalty": [-2.1, 2.1, NAN],
    "frequency_penalty": [-2.1, 2.1, NAN],
    "logit_bias": [{50: 1}, {-1: 1}, {0: 100.5}, {0: -101}, {0: NAN}, {0: -INFINITY}],
    "max_tokens": [0, -1, 101, 10**12],
    "min_tokens": [-1],
    "stop": [("a",) * 4, ("",), ("a", ""), ("123456789",), ("a",) * 10_000],
    "stop_token_ids": [(50,), (-1,), (3, 10**12)],
    "logprobs": [-1, 6, 10**9],
    "prompt_logprobs": [-1, 6],
    "logprob_token_ids": [(1,)],  # without logprobs
    "speculation": [0, -1, 7, 10**9],
    "speculation_method": ["", "eagle", "grammar"],  # unknown, or not to be had here
}


def cases(table: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(field, value) for field, values in table.items() for value in values]


@pytest.mark.parametrize("field, value", cases(ALLOWED), ids=str)
def test_a_value_in_its_range_is_taken(field: str, value: Any) -> None:
    validate(Sampling(**{field: value}), LIMITS)


@pytest.mark.parametrize("field, value", cases(REFUSED), ids=lambda value: str(value)[:30])
def test_a_value_out_of_its_range_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate(Sampling(**{field: value}), LIMITS)
    assert caught.value.field == field
    assert field in str(caught.value) or field == "stop" and "stop string" in str(caught.value)


@pytest.mark.parametrize("ids, more", [((50,), {}), ((-1,), {}), ((1,) * 129, {}), ((1,), {"max_tokens": 0})], ids=str)
def test_token_ids_to_score_are_limited(ids: tuple[int, ...], more: dict[str, Any]) -> None:
    validate(Sampling(logprobs=0, logprob_token_ids=(0, 49)), LIMITS)
    with pytest.raises(InvalidRequest, match="logprob_token_ids"):
        validate(Sampling(logprobs=0, prompt_logprobs=0, logprob_token_ids=ids, **more), LIMITS)


def test_the_defaults_are_in_range() -> None:
    validate(Sampling(), LIMITS)
    assert set(ALLOWED) | {"skip_special_tokens"} == set(Sampling.__slots__)


def test_the_numbers_that_were_exceeded_are_in_the_message() -> None:
    with pytest.raises(InvalidRequest, match=r"1000000000000.*100"):
        validate(Sampling(max_tokens=10**12), LIMITS)
    with pytest.raises(InvalidRequest, match=r"10000.*3"):
        validate(Sampling(stop=("a",) * 10_000), LIMITS)
    with pytest.raises(InvalidRequest, match=r"token 50.*0 to 49"):
        validate(Sampling(logit_bias={50: 1.0}), LIMITS)


def test_a_method_is_refused_where_nothing_is_drafted() -> None:
    validate(Sampling(speculation_method="lookup", speculation=2), replace(LIMITS, speculation="off"))
    with pytest.raises(InvalidRequest, match="speculation_method has no effect: speculation is off"):
        validate(Sampling(speculation_method="lookup", speculation="off"), LIMITS)
    with pytest.raises(InvalidRequest, match="speculation_method has no effect: this server's default is off"):
        validate(Sampling(speculation_method="lookup"), replace(LIMITS, speculation="off"))


def test_min_tokens_may_not_pass_max_tokens() -> None:
    validate(Sampling(min_tokens=7, max_tokens=7), LIMITS)
    with pytest.raises(InvalidRequest) as caught:
        validate(Sampling(min_tokens=8, max_tokens=7), LIMITS)
    assert caught.value.field == "min_tokens"


def test_no_tokens_at_all_may_be_asked_for_when_the_prompt_is_to_be_scored() -> None:
    validate(Sampling(max_tokens=0, prompt_logprobs=0), LIMITS)


def test_no_more_log_probabilities_are_given_than_there_are_tokens() -> None:
    small = Limits(context_length=100, vocab_size=3)
    validate(Sampling(logprobs=3), small)
    with pytest.raises(InvalidRequest):
        validate(Sampling(logprobs=4), small)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"min_tokens": 3, "stop_token_ids": (1, 2)}, "min_tokens"),
        ({"min_tokens": 3, "stop_token_ids": (1,)}, None),
        ({"stop_token_ids": (1, 2)}, None),
        ({"thinking_token_budget": 3}, "thinking_token_budget"),
    ],
)
def test_some_allowed_token_is_left_at_every_step(fields: dict[str, Any], named: str | None) -> None:
    sampling = Sampling(allowed_token_ids=(1, 2), **fields)
    if named is None:
        validate(sampling, LIMITS)
        return
    with pytest.raises(InvalidRequest) as caught:
        validate(sampling, LIMITS)
    assert caught.value.field == named


def test_tokens_that_end_the_models_answers_are_no_tokens_to_go_on_with() -> None:
    limits = replace(LIMITS, eos_ids=frozenset({2}))
    with pytest.raises(InvalidRequest, match="min_tokens"):
        validate(Sampling(allowed_token_ids=(2,), min_tokens=1), limits)
    validate(Sampling(allowed_token_ids=(2,), min_tokens=1, ignore_eos=True), limits)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_so_many_choices_may_be_asked_for(n: int) -> None:
    validate_choices(n, LIMITS)


@pytest.mark.parametrize("n", [0, -1, 5, 1000])
def test_a_number_of_choices_out_of_range_is_refused(n: int) -> None:
    with pytest.raises(InvalidRequest, match=f"n is {n}.*1 and 4") as caught:
        validate_choices(n, LIMITS)
    assert caught.value.field == "n"


# -- sparse prefill

SHARES = st.none() | st.floats() | st.sampled_from([0.1, 0.3, 1, 1.0])


@given(st.sampled_from([None, True, False]), SHARES, st.booleans(), st.sampled_from([None, "no draft"]), st.booleans())
def test_what_is_said_of_sparse_prefill_has_an_effect_or_is_refused_by_name(
    word: bool | None, share: float | None, prefills_sparsely: bool, no_sparse: str | None, scored: bool
) -> None:
    sampling = Sampling(specprefill=word, specprefill_keep=share, prompt_logprobs=0 if scored else None)
    wanted = word is True or (word is None and prefills_sparsely)
    possible = no_sparse is None and not scored
    asks = word is True or share is not None
    takes = (share is None or 0.1 <= share <= 1.0) and (not asks or (wanted and possible))
    try:
        validate(sampling, Limits(100, 50, no_sparse=no_sparse, prefills_sparsely=prefills_sparsely))
    except InvalidRequest as error:
        assert not takes
        assert error.field in ("specprefill", "specprefill_keep_pct") and error.field in str(error)
        assert share is not None or error.field == "specprefill"  # never a field that was not given
        assert word is not None or error.field == "specprefill_keep_pct"
    else:
        assert takes


@pytest.mark.parametrize("no_sparse", [None, "no draft model is loaded"])
@pytest.mark.parametrize("prefills_sparsely", [False, True])
def test_to_read_a_prompt_whole_may_always_be_asked_for(no_sparse: str | None, prefills_sparsely: bool) -> None:
    limits = Limits(100, 50, no_sparse=no_sparse, prefills_sparsely=prefills_sparsely)
    for scores in (None, 0):
        validate(Sampling(specprefill=False, prompt_logprobs=scores), limits)


def test_why_no_prompt_is_read_sparsely_is_in_the_message() -> None:
    limits = Limits(100, 50, no_sparse="this model's layers look back through a window", prefills_sparsely=True)
    with pytest.raises(InvalidRequest, match="look back through a window"):
        validate(Sampling(specprefill=True), limits)
    with pytest.raises(InvalidRequest, match="0.05.*0.1.*1.0"):
        validate(Sampling(specprefill=True, specprefill_keep=0.05), LIMITS)
