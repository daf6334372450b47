"""The sampler against numpy: each rule by itself, all of them mixed in one batch, and the distribution it draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine import sequence
from paceline.engine.sampler import NOT_A_NUMBER, Sampled, Sampler, _key
from paceline.types import Prompt, RequestId, Sampling, SamplingTokens
from tests.lengths import examples

Floats = NDArray[np.float64]
ENDS = frozenset({1, 3})
NO_TOKENS = SamplingTokens()


def seq(sampling: Sampling, prompt: Sequence[int] = (0,), tokens: SamplingTokens = NO_TOKENS) -> sequence.Sequence:
    text = TextStream(ByteDetokenizer(lambda token: b""))
    return sequence.Sequence(
        sequence.EngineRequest(RequestId("row"), Prompt(tuple(prompt)), sampling, 1000, tokens=tokens),
        text,
        lambda delta: None,
    )


def greedy(**rules: Any) -> sequence.Sequence:
    prompt = rules.pop("prompt", (0,))
    return seq(Sampling(temperature=0, **rules), prompt)


class Steps:
    """Sequences and their sampler, stepped as the runner steps them."""

    def __init__(self, seqs: Sequence[sequence.Sequence], vocabulary: int, ends: frozenset[int] = frozenset()) -> None:
        self.sampler = Sampler(vocabulary)
        for seq in seqs:
            seq.stop_ids = seq.stop_ids | ends
        self.rows: list[sequence.Sequence] = []
        self.arrange(seqs)

    def arrange(self, seqs: Sequence[sequence.Sequence]) -> None:
        self.rows = list(seqs)
        self.sampler.arrange(self.rows)

    def sampled(self, logits: Any) -> Sampled:
        if self.sampler.needs_arranging():
            self.sampler.arrange(self.rows)
        return self.sampler(mx.array(np.asarray(logits, dtype=np.float32)))

    def __call__(self, logits: Any) -> list[int]:
        tokens = numbers(self.sampled(logits).tokens)
        for each, token in zip(self.rows, tokens, strict=True):
            each.scheduled += 1
            each.generated.append(token)
        return tokens


def numbers(tokens: mx.array) -> list[int]:
    return [int(token) for token in np.array(tokens)]


def one(each: sequence.Sequence, logits: Sequence[float], ends: frozenset[int] = frozenset()) -> int:
    return Steps([each], len(logits), ends)([logits])[0]


def random_logits(*shape: int, seed: int = 0, scale: float = 2.0) -> Floats:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32).astype(np.float64) * scale


# -- the reference


def softmax(scores: Floats) -> Floats:
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def adjusted(logits: Floats, each: sequence.Sequence, ends: frozenset[int]) -> Floats:
    s, scores = each.sampling, logits.copy()
    counts = np.bincount(np.asarray(each.generated, dtype=int), minlength=len(logits))
    for token in {*each.prompt.token_ids, *each.generated}:
        scores[token] *= 1 / s.repetition_penalty if scores[token] > 0 else s.repetition_penalty
    scores -= s.presence_penalty * (counts > 0) + s.frequency_penalty * counts
    for token, bias in s.logit_bias.items():
        scores[token] += bias
    if len(each.generated) < s.min_tokens:
        scores[list(ends)] = -np.inf
    return scores


def filtered(scores: Floats, s: Sampling) -> Floats:
    """-inf where a token may not be drawn."""
    order = np.argsort(-scores, kind="stable")
    kept = order[: s.top_k or len(order)]
    if s.top_p < 1:
        before = np.cumsum(softmax(scores[kept])) - softmax(scores[kept])
        kept = kept[: int((before < s.top_p).sum())]
    result = np.where(scores >= scores[kept[-1]], scores, -np.inf)
    if s.min_p > 0:
        result = np.where(softmax(scores) >= s.min_p * softmax(scores).max(), result, -np.inf)
    return np.asarray(result)


def expected(logits: Floats, each: sequence.Sequence, ends: frozenset[int] = frozenset()) -> tuple[int, float]:
    """The token, and by how much it beats the next one (rounding decides where that is nothing)."""
    scores = adjusted(logits, each, ends)
    if each.sampling.temperature > 0:
        noise = mx.random.gumbel((len(logits),), key=mx.array(_key(each.seed, each.scheduled), dtype=mx.uint32))
        scores = filtered(scores / each.sampling.temperature, each.sampling) + np.array(noise, dtype=np.float64)
    best = int(scores.argmax())
    return best, float(scores[best] - np.delete(scores, best).max())


RULES = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.0, 0.3, 1.0, 2.0]),
    top_p=st.sampled_from([1.0, 1.0, 0.9, 0.35, 1e-9]),
    top_k=st.sampled_from([0, 0, 1, 3, 10, 100_000]),
    min_p=st.sampled_from([0.0, 0.0, 0.05, 0.5, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.5, 0.7]),
    presence_penalty=st.sampled_from([0.0, 0.0, 2.0, -1.0]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.8, -0.5]),
    logit_bias=st.just({}) | st.dictionaries(st.integers(0, 19), st.sampled_from([-100.0, -1.5, 3.0]), max_size=4),
    seed=st.integers(-(2**63), 2**64),
    min_tokens=st.sampled_from([0, 0, 1, 3]),
    logprobs=st.sampled_from([None, None, 0, 2]),
)


@settings(max_examples=examples(60), deadline=None)
@given(
    rules=st.lists(RULES, min_size=1, max_size=7),
    prompts=st.lists(st.lists(st.integers(0, 19), min_size=1, max_size=6), min_size=7, max_size=7),
    seed=st.integers(0, 10_000),
    keep=st.integers(0, 127),
)
def test_sequences_with_any_rules_mixed_in_a_batch_choose_as_numpy_chooses_for_each_alone(
    rules: list[Sampling], prompts: list[list[int]], seed: int, keep: int
) -> None:
    seqs = [seq(rule, prompt) for rule, prompt in zip(rules, prompts, strict=False)]
    steps = Steps(seqs, 20, ENDS)
    for step in range(5):
        logits = random_logits(len(seqs), 20, seed=seed + step)
        wanted = [expected(logits[i], each, ENDS) for i, each in enumerate(seqs)]
        tokens = steps(logits)
        for i, (token, (best, lead)) in enumerate(zip(tokens, wanted, strict=True)):
            assert token == best or lead < 1e-4, seqs[i].sampling
        if step == 2:  # some leave, and the others' places change
            seqs = [each for i, each in enumerate(seqs) if keep >> i & 1] or seqs
            seqs = seqs[::-1]
            steps.arrange(seqs)


# -- each rule by itself


def test_without_rules_the_most_likely_token_is_taken_and_of_equals_the_first() -> None:
    assert one(greedy(), [0.0, 2.0, 1.0]) == 1
    assert one(greedy(), [1.0, 3.0, 3.0, 3.0]) == 1
    assert one(greedy(), [5.0] * 9) == 0


def test_a_repetition_penalty_weakens_tokens_of_prompt_and_answer_whatever_their_sign() -> None:
    assert one(greedy(repetition_penalty=2.0, prompt=(1,)), [3.0, 5.0, 1.0]) == 0
    assert one(greedy(repetition_penalty=2.0, prompt=(1,)), [-3.0, -2.0, -9.0]) == 0
    steps = Steps([greedy(repetition_penalty=2.0, prompt=(2,))], 3)
    assert [steps([[5.0, 4.0, 4.5]])[0] for _ in range(3)] == [0, 1, 0]


def test_presence_is_charged_once_and_frequency_every_time_over_the_answer_only() -> None:
    presence = Steps([greedy(presence_penalty=1.0, prompt=(0,))], 3)
    assert [presence([[3.0, 2.5, 2.2]])[0] for _ in range(5)] == [0, 1, 2, 0, 0]
    frequency = Steps([greedy(frequency_penalty=1.0, prompt=(0,))], 3)
    assert [frequency([[3.0, 2.5, 2.2]])[0] for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_a_bias_lifts_and_bans() -> None:
    assert one(greedy(logit_bias={2: 100.0}), [9.0, 8.0, -50.0]) == 2
    assert one(greedy(logit_bias={0: -100.0, 1: -100.0}), [9.0, 8.0, -50.0]) == 2


def test_no_end_token_comes_before_min_tokens_and_it_may_come_right_after() -> None:
    for rules in ({}, {"repetition_penalty": 1.0001}, {"logit_bias": {1: 5.0}}):
        steps = Steps([greedy(min_tokens=3, **rules)], 5, ENDS)
        assert [steps([[1.0, 9.0, 2.0, 8.0, 1.5]])[0] for _ in range(5)] == [2, 2, 2, 1, 1]


def test_a_ban_ends_for_each_sequence_in_its_own_step() -> None:
    seqs = [greedy(min_tokens=n) for n in (0, 1, 2, 4)]
    steps = Steps(seqs, 4, ENDS)
    logits = [[1.0, 9.0, 2.0, 8.0]] * 4
    assert [steps(logits) for _ in range(5)] == [[1, 2, 2, 2], [1, 1, 2, 2], [1, 1, 1, 2], [1, 1, 1, 2], [1, 1, 1, 1]]


def test_an_end_token_that_the_model_has_no_logit_for_is_no_trouble() -> None:
    """Some checkpoints name end tokens beyond their vocabulary."""
    assert one(greedy(min_tokens=2), [1.0, 9.0, 2.0, 8.0], frozenset({1, 3, 4, 900})) == 2


def draws(sampling: dict[str, Any], logits: Sequence[float], count: int = 600) -> NDArray[np.int64]:
    """How often each token comes, over `count` seeds."""
    seqs = [seq(Sampling(seed=seed, **sampling)) for seed in range(count)]
    tokens = Steps(seqs, len(logits))([logits] * count)
    return np.bincount(tokens, minlength=len(logits))


LADDER = [2.0, 1.5, 1.0, 0.5, 0.0]  # each about 0.6 times as likely as the one before


@pytest.mark.parametrize(
    "rules, allowed",
    [
        ({}, {0, 1, 2, 3, 4}),
        ({"top_k": 2}, {0, 1}),
        ({"top_k": 1}, {0}),
        ({"top_k": 99}, {0, 1, 2, 3, 4}),
        ({"top_k": 10**30}, {0, 1, 2, 3, 4}),
        ({"top_p": 0.5}, {0, 1}),
        ({"top_p": 0.4}, {0}),
        ({"top_p": 1e-12}, {0}),
        ({"top_p": 0.999}, {0, 1, 2, 3, 4}),
        ({"min_p": 0.3}, {0, 1, 2}),
        ({"min_p": 1.0}, {0}),
        ({"top_k": 3, "top_p": 0.75}, {0, 1}),  # top_p counts among the three
        ({"top_k": 4, "min_p": 0.3}, {0, 1, 2}),
        ({"temperature": 0.1, "top_p": 0.999}, {0, 1}),  # the filters see the tempered distribution
        ({"temperature": 1e-6}, {0}),
    ],
)
def test_only_the_tokens_that_the_filters_leave_are_drawn_and_all_of_them(
    rules: dict[str, Any], allowed: set[int]
) -> None:
    assert set(np.flatnonzero(draws(rules, LADDER)).tolist()) == allowed


@pytest.mark.parametrize("temperature", [1e-5, 1e-9, 1e-37, 1e-45])
def test_a_temperature_near_zero_is_greedy(temperature: float) -> None:
    for rules in ({}, {"top_p": 0.9, "min_p": 0.1}):
        counts = draws({"temperature": temperature, **rules}, [1.0, 2.0, 4.0, 3.0], 50)
        assert counts.tolist() == [0, 0, 50, 0]


def test_tokens_as_likely_as_the_last_one_kept_are_kept_too() -> None:
    counts = draws({"top_k": 2}, [1.0, 3.0, 2.0, 2.0, 2.0])
    assert counts[0] == 0 and all(counts[1:] > 0)
    assert all(draws({"top_p": 0.3}, [1.0] * 4) > 0)


# For 5 degrees of freedom, 99.9% of honest samplers stay below.
CHI_SQUARE = 20.5
UNEVEN = [1.7, 0.9, 0.4, 0.0, -0.6, -1.0]


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    "rules",
    [
        {"temperature": 1.0},
        {"temperature": 2.0, "logit_bias": {5: 1.0}},
        {"temperature": 0.8, "top_p": 0.9999999, "min_p": 1e-6, "repetition_penalty": 1.3},
    ],
)
def test_what_is_drawn_follows_the_distribution(rules: dict[str, Any]) -> None:
    count = 4000
    each = seq(Sampling(**rules))
    chances = softmax(adjusted(np.array(UNEVEN), each, frozenset()) / each.sampling.temperature)
    over_seeds = draws(rules, UNEVEN, count)
    seqs = [seq(Sampling(seed=5, **rules)) for _ in range(count)]
    for place, other in enumerate(seqs):
        other.scheduled = place
    over_places = np.bincount(Steps(seqs, 6)([UNEVEN] * count), minlength=6)
    for counts in (over_seeds, over_places):
        assert ((counts - count * chances) ** 2 / (count * chances)).sum() < CHI_SQUARE


# -- who rides beside whom


@settings(max_examples=examples(25), deadline=None)
@given(rule=RULES, others=st.lists(RULES, min_size=1, max_size=6), place=st.integers(0, 6), seed=st.integers(0, 999))
def test_a_seeded_sequence_draws_the_same_alone_and_in_any_place_beside_others(
    rule: Sampling, others: list[Sampling], place: int, seed: int
) -> None:
    def tokens(company: Sequence[Sampling], place: int) -> list[list[int]]:
        mine = seq(rule, (4, 5))
        seqs = [seq(other) for other in company]
        seqs.insert(place, mine)
        steps = Steps(seqs, 50, ENDS)
        result = []
        for step in range(4):
            logits = random_logits(len(seqs), 50, seed=seed + 50 * step)
            logits[seqs.index(mine)] = random_logits(50, seed=seed + 7 * step)
            result.append([steps(logits)[seqs.index(mine)]])
        return result

    alone = tokens([], 0)
    assert tokens(others, place % (len(others) + 1)) == alone


def test_without_a_seed_two_sequences_differ() -> None:
    seqs = [seq(Sampling()) for _ in range(2)]
    steps = Steps(seqs, 1000)
    first, second = zip(*[steps(np.zeros((2, 1000))) for _ in range(8)], strict=True)
    assert first != second


def test_the_places_of_an_answer_have_noise_of_their_own() -> None:
    steps = Steps([seq(Sampling(seed=3))], 1000)
    assert len({steps(np.zeros((1, 1000)))[0] for _ in range(8)}) > 6


def test_counts_follow_their_sequences_when_others_leave_and_join() -> None:
    logits = [3.0, 2.5, 2.2, 2.1]
    rules = {"frequency_penalty": 1.0}
    alone = Steps([greedy(**rules)], 4)
    tokens = [alone([logits])[0] for _ in range(8)]
    mine, early, late = greedy(**rules), greedy(presence_penalty=2.0), greedy(repetition_penalty=1.5)
    steps = Steps([early, mine], 4)
    heard = []
    for step in range(8):
        if step == 2:
            steps.arrange([late, early, mine])
        if step == 4:
            steps.arrange([mine, late])
        if step == 6:
            steps.arrange([greedy(), late, mine])
        heard.append(steps([logits] * len(steps.rows))[steps.rows.index(mine)])
    assert heard == tokens


def test_a_sequence_that_rejoins_as_another_request_starts_with_counts_of_its_own() -> None:
    logits = [[3.0, 2.5, 2.2]]
    steps = Steps([greedy(presence_penalty=2.0)], 3)
    assert [steps(logits)[0] for _ in range(2)] == [0, 1]
    steps.arrange([greedy(presence_penalty=2.0)])
    assert steps(logits) == [0]


# -- what is reported


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_log_probabilities_are_the_models_own_before_any_rule(temperature: float) -> None:
    rules = [
        Sampling(temperature=temperature, seed=1, logprobs=4, top_k=3, logit_bias={7: 20.0}),
        Sampling(temperature=temperature, seed=2),
        Sampling(temperature=temperature, seed=3, logprobs=0, repetition_penalty=9.0),
    ]
    logits = random_logits(3, 30)
    sampled = Steps([seq(rule) for rule in rules], 30).sampled(logits)
    assert sampled.logprobs is not None and sampled.top_ids is not None and sampled.top_logprobs is not None
    tokens = numbers(sampled.tokens)
    for i in range(3):
        scores = np.log(softmax(logits[i]))
        assert sampled.logprobs[i].item() == pytest.approx(scores[tokens[i]], abs=1e-5)
        assert sampled.top_ids[i].tolist() == np.argsort(-scores)[:4].tolist()
        np.testing.assert_allclose(np.array(sampled.top_logprobs[i]), -np.sort(-scores)[:4], atol=1e-5)


def test_log_probabilities_are_made_only_where_somebody_asks() -> None:
    logits = random_logits(2, 9)
    none = Steps([greedy(), greedy()], 9).sampled(logits)
    assert (none.logprobs, none.top_ids, none.top_logprobs) == (None, None, None)
    assert len(none.arrays()) == 1
    chosen_only = Steps([greedy(), greedy(logprobs=0)], 9).sampled(logits)
    assert chosen_only.logprobs is not None and chosen_only.top_ids is None
    everything = Steps([greedy(logprobs=9), greedy()], 9).sampled(logits)
    assert everything.top_ids is not None and everything.top_ids.shape == (2, 9)


def test_log_probabilities_of_tokens_by_id_are_each_rows_own() -> None:
    logits = random_logits(3, 30)
    rules: list[dict[str, Any]] = [
        {"logprob_token_ids": (29, 0, 7)},
        {},
        {"logprob_token_ids": (3,), "temperature": 1.0, "logit_bias": {3: 9.0}},
    ]
    sampled = Steps([seq(Sampling(**{"temperature": 0, "logprobs": 0, **rule})) for rule in rules], 30).sampled(logits)
    assert sampled.id_logprobs is not None and sampled.top_ids is None
    for i, rule in enumerate(rules):
        ids = list(rule.get("logprob_token_ids", ()))
        found = np.array(sampled.id_logprobs[i])[: len(ids)]
        np.testing.assert_allclose(found, np.log(softmax(logits[i]))[ids], atol=1e-5)


def test_half_precision_logits_are_scored_in_single() -> None:
    logits = mx.array(random_logits(1, 30)).astype(mx.bfloat16)
    steps = Steps([greedy(logprobs=30)], 30)
    sampled = steps.sampler(logits)
    assert sampled.top_logprobs is not None and sampled.top_logprobs.dtype == mx.float32
    assert np.exp(np.array(sampled.top_logprobs)).sum() == pytest.approx(1, abs=1e-5)


def test_logits_that_are_not_numbers_break_their_own_sequence_only() -> None:
    seqs = [
        greedy(),
        seq(Sampling(seed=1, top_p=0.9)),
        greedy(presence_penalty=1.0),
        seq(Sampling(seed=2, min_p=0.1)),
        greedy(logprobs=2),
    ]
    logits = random_logits(5, 12)
    healthy = numbers(Steps(seqs, 12).sampled(logits).tokens)
    for broken in range(5):
        for spoil in (slice(None), slice(3, 4)):
            spoiled = logits.copy()
            spoiled[broken, spoil] = np.nan
            tokens = numbers(Steps(seqs, 12).sampled(spoiled).tokens)
            assert tokens == [*healthy[:broken], NOT_A_NUMBER, *healthy[broken + 1 :]]


def test_a_vocabulary_with_masked_tokens_is_not_broken() -> None:
    assert one(greedy(), [-np.inf, 1.0, 2.0, -np.inf]) == 2
    assert one(seq(Sampling(seed=0, top_p=0.5)), [-np.inf, 1.0, 9.0, -np.inf]) == 2


def test_the_callers_logits_stay_as_they_are() -> None:
    logits = mx.array(random_logits(3, 12).astype(np.float32))
    before = np.array(logits)
    seqs = [greedy(), greedy(logit_bias={1: 50.0}), seq(Sampling(top_k=2, seed=1))]
    mx.eval(Steps(seqs, 12).sampler(logits).arrays())
    assert np.array_equal(np.array(logits), before)
