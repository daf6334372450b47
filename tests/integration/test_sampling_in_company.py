"""A row's sampling is its own: what rides beside it, and when, changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.types import Sampling, SamplingTokens, ThinkMarks
from tests.engine.stepper import NO_TOKENS, Stepper
from tests.reference import greedy_text

Tiny = Callable[..., Path]
FAMILIES = ["hybrid", "llama"]
TOKENS = 10
COMPANY = [
    Sampling(temperature=2, max_tokens=6),
    Sampling(temperature=0, max_tokens=14, presence_penalty=1.5),
    Sampling(temperature=1, top_p=0.8, top_k=40, max_tokens=8, logprobs=3, logprob_token_ids=(7, 5, 6)),
    Sampling(temperature=0.5, min_p=0.1, repetition_penalty=1.2, max_tokens=9, logit_bias={5: 4.0}),
    Sampling(temperature=1, typical_p=0.7, xtc_probability=0.5, top_n_sigma=2.0, dry_multiplier=1.0, max_tokens=8),
]
# Rules that each touch another part of the sampler.
RULES: dict[str, dict[str, Any]] = {
    "hot": {"temperature": 2},
    "xtc, typical_p, top_n_sigma": {
        "temperature": 2,
        "xtc_probability": 0.5,
        "xtc_threshold": 0.01,
        "typical_p": 0.8,
        "top_n_sigma": 2.5,
    },
    "everything": {"temperature": 1.2, "top_p": 0.9, "top_k": 50, "repetition_penalty": 1.3, "frequency_penalty": 0.5},
}
PENALTIES: dict[str, dict[str, Any]] = {
    "repetition": {"repetition_penalty": 5.0},
    "presence": {"presence_penalty": -2.0},
    "frequency": {"frequency_penalty": -2.0},
    "dry": {"dry_multiplier": 40.0, "dry_allowed_length": 1},
}
THINK = SamplingTokens(think=ThinkMarks((498,), 499, (499, 7), begins_open=True))


def prompt(length: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(np.random.default_rng([length, seed, 3]).integers(0, 480, length).tolist())


def alone(folder: Path, text: Sequence[int], sampling: Sampling, *, tokens: SamplingTokens = NO_TOKENS) -> list[int]:
    stepper = Stepper(folder)
    heard = stepper.submit("alone", text, sampling, tokens=tokens)
    stepper.finish()
    assert heard.finish_reason == "length"
    return heard.tokens


def in_company(
    folder: Path,
    text: Sequence[int],
    sampling: Sampling,
    *,
    after: int,
    layout: str = "rows",
    tokens: SamplingTokens = NO_TOKENS,
) -> list[int]:
    """The same row joins when the others have stepped `after` times; another comes later, and all leave in turn."""
    stepper = Stepper(folder, layout, chunk=24)
    for index, other in enumerate(COMPANY[:3]):
        stepper.submit(str(index), prompt(3 + 20 * index), other)
    stepper.step(after)
    heard = stepper.submit("mine", text, sampling, tokens=tokens)
    stepper.step(3)
    stepper.submit("late", prompt(50), COMPANY[3])
    stepper.submit("later", prompt(40), COMPANY[4])
    stepper.finish()
    assert heard.finish_reason == "length"
    return heard.tokens


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layout", ["rows", "padded"])
def test_a_greedy_sequence_beside_a_hot_one_is_unchanged(tiny: Tiny, family: str, layout: str) -> None:
    folder = tiny(family)
    stepper = Stepper(folder, layout)
    heard = stepper.greedy("greedy", prompt(12), TOKENS)
    hot = stepper.submit("hot", prompt(12), Sampling(temperature=2, max_tokens=TOKENS, ignore_eos=True))
    stepper.finish()
    assert heard.tokens == greedy_text(folder, prompt(12), TOKENS)
    assert hot.tokens != heard.tokens


@pytest.mark.thin(6, first=3)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rules", RULES)
def test_a_seeded_sequence_gives_the_same_tokens_alone_and_in_batch_whenever_it_joins(
    tiny: Tiny, family: str, rules: str
) -> None:
    folder = tiny(family)
    sampling = Sampling(seed=11, max_tokens=TOKENS, ignore_eos=True, **RULES[rules])
    tokens = alone(folder, prompt(12), sampling)
    assert alone(folder, prompt(12), sampling) == tokens
    for after, layout in ((0, "padded"), (5, "rows")):
        assert in_company(folder, prompt(12), sampling, after=after, layout=layout) == tokens


@pytest.mark.thin(8, first=6)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rules", PENALTIES)
def test_a_penalised_sequence_gives_the_same_tokens_alone_and_in_batch(tiny: Tiny, family: str, rules: str) -> None:
    folder = tiny(family)
    count = 3 if rules == "dry" else 20  # of few tokens, some repeat
    few = {token: 50.0 for token in range(count)}  # a choice among these, so that penalties decide
    free = Sampling(temperature=0, max_tokens=TOKENS, ignore_eos=True, logit_bias=few)
    sampling = replace(free, **PENALTIES[rules])
    tokens = alone(folder, prompt(12), sampling)
    assert tokens != alone(folder, prompt(12), free)
    assert in_company(folder, prompt(12), sampling, after=5) == tokens


@pytest.mark.thin(2, first=1)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_thinking_budget_changes_its_own_sequence_and_only_where_it_is_spent(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    free = Sampling(temperature=0, max_tokens=TOKENS, ignore_eos=True)
    natural = alone(folder, prompt(12), free)
    for budget in (0, 4, TOKENS):
        sampling = replace(free, thinking_token_budget=budget)
        tokens = alone(folder, prompt(12), sampling, tokens=THINK)
        assert tokens[: budget + 2] == [*natural[:budget], 499, 7][:TOKENS]
        assert in_company(folder, prompt(12), sampling, after=5, layout="padded", tokens=THINK) == tokens
    stepper = Stepper(folder)
    spent = replace(free, thinking_token_budget=0)
    beside = [stepper.greedy("free", prompt(12), TOKENS), stepper.submit("spent", prompt(9), spent, tokens=THINK)]
    stepper.finish()
    assert beside[0].tokens == natural and beside[1].tokens[:2] == [499, 7]


@pytest.mark.parametrize("family", FAMILIES)
def test_another_seed_gives_another_text(tiny: Tiny, family: str) -> None:
    rules: dict[str, Any] = {"temperature": 2, "max_tokens": TOKENS, "ignore_eos": True}
    texts = [alone(tiny(family), prompt(12), Sampling(seed=seed, **rules)) for seed in (1, 2, 2**64 - 1)]
    assert len(set(map(tuple, texts))) == 3
    assert alone(tiny(family), prompt(12), Sampling(seed=-1, **rules)) == texts[2]  # seeds count modulo 2**64


@pytest.mark.thin(2, first=1)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_choices_of_one_prompt_ride_together(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    rules: dict[str, Any] = {"max_tokens": TOKENS, "ignore_eos": True}
    stepper = Stepper(folder)
    greedy = [stepper.submit(f"greedy {i}", prompt(20), Sampling(temperature=0, **rules)) for i in range(3)]
    drawn = [stepper.submit(f"drawn {i}", prompt(20), Sampling(temperature=3, seed=i, **rules)) for i in range(3)]
    stepper.finish()
    expected = greedy_text(folder, prompt(20), TOKENS)
    assert [heard.tokens for heard in greedy] == [expected] * 3
    assert [heard.tokens for heard in drawn] == [
        alone(folder, prompt(20), Sampling(temperature=3, seed=i, **rules)) for i in range(3)
    ]
    assert len({tuple(heard.tokens) for heard in drawn}) == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_no_sequence_ends_before_its_own_min_tokens(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    natural = greedy_text(folder, prompt(12), TOKENS)
    ends = frozenset({natural[2]})
    heard = {}
    stepper = Stepper(folder, end_ids=ends)
    for least in (0, 2, 3, 10):
        sampling = Sampling(temperature=0, max_tokens=TOKENS, min_tokens=least)
        heard[least] = stepper.submit(str(least), prompt(12), sampling)
    stepper.finish()
    for least in (0, 2):
        assert heard[least].tokens == natural[:3]
        assert heard[least].finish_reason == "stop"
    for least in (3, 10):
        assert len(heard[least].tokens) >= least
        assert ends.isdisjoint(heard[least].tokens[:least])
        assert heard[least].tokens[:2] == natural[:2]


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_are_the_same_alone_and_in_batch(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    sampling = Sampling(temperature=0, max_tokens=8, ignore_eos=True, logprobs=4)

    def scores(stepper: Stepper) -> list[Any]:
        heard = stepper.submit("mine", prompt(12), sampling)
        stepper.finish()
        return [score for delta in heard.deltas for score in delta.logprobs]

    single, company = Stepper(folder), Stepper(folder)
    for index, other in enumerate(COMPANY):
        company.submit(str(index), prompt(3 + 20 * index), other)
    company.step(4)
    expected, found = scores(single), scores(company)
    assert len(expected) == 8
    for one, other in zip(expected, found, strict=True):
        assert one.token_id == other.token_id == one.top[0][0]
        assert [token for token, _ in one.top] == [token for token, _ in other.top]
        np.testing.assert_allclose([p for _, p in one.top], [p for _, p in other.top], atol=1e-4)
        assert one.logprob == pytest.approx(one.top[0][1])
        assert len(one.top) == 4


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_of_tokens_by_id_are_the_same_alone_and_in_batch(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    ids = (11, 2, 30)

    def tops(stepper: Stepper, **rules: Any) -> list[tuple[tuple[int, float], ...]]:
        heard = stepper.submit("mine", prompt(12), Sampling(temperature=0, max_tokens=8, ignore_eos=True, **rules))
        stepper.finish()
        return [score.top for delta in heard.deltas for score in delta.logprobs]

    company = Stepper(folder)
    for index, other in enumerate(COMPANY):
        company.submit(str(index), prompt(3 + 20 * index), other)
    company.step(4)
    both = [tops(each, logprobs=2, logprob_token_ids=ids) for each in (Stepper(folder), company)]
    assert len(both[0]) == 8
    for one, other in zip(*both, strict=True):
        assert [token for token, _ in one] == [token for token, _ in other]
        assert [token for token, _ in one[1:]] == [token for token in ids if token != one[0][0]]
        np.testing.assert_allclose([p for _, p in one], [p for _, p in other], atol=1e-4)
