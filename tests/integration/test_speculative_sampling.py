"""Drawn text keeps its distribution under speculation, and a seed its text.

Noise is fixed, so every run draws the same samples. Sequences under test have no seed of the request's own: they take
the path of rejection sampling.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.engine import sampler as sampling_module
from paceline.engine import sequence
from paceline.engine.sampler import Sampled, Sampler
from paceline.types import Prompt, Sampling, SamplingTokens, Speculation, ThinkMarks
from tests.engine.stepper import Heard, Stepper
from tests.engine.test_sampler import seq as new_row
from tests.engine.watched import SMALL, Watched, prompt, usage
from tests.reference import greedy_text

Tiny = Callable[..., Path]
Text = tuple[int, ...]
SAMPLES = 20_000
SERVED = 10_000  # of the engine: a sample takes ten times as long
TOKENS = 3
SETTINGS: dict[str, dict[str, Any]] = {
    "as the model says": {"temperature": 1.0},
    "cool, top_p": {"temperature": 0.7, "top_p": 0.9},
    "xtc, typical_p, dry": {
        "temperature": 1.2,
        "xtc_probability": 0.4,
        "xtc_threshold": 0.15,
        "typical_p": 0.95,
        "dry_multiplier": 1.0,
        "dry_allowed_length": 1,
    },
    "hot, top_p, top_k, min_p": {"temperature": 1.3, "top_p": 0.8, "top_k": 5, "min_p": 0.05},
}


def chance(one: Iterable[Text], other: Iterable[Text]) -> float:
    """How probable two samples of one distribution are at least as different as these (chi-square, by the cube root
    of Wilson and Hilferty). Rare texts count together."""
    counts = Counter(one), Counter(other)
    pairs = [(counts[0][text], counts[1][text]) for text in counts[0].keys() | counts[1].keys()]
    rare = [pair for pair in pairs if sum(pair) < 20]
    pairs = [pair for pair in pairs if sum(pair) >= 20]
    if sum(map(sum, rare)) >= 20:
        pairs.append((sum(a for a, _ in rare), sum(b for _, b in rare)))
    totals = sum(a for a, _ in pairs), sum(b for _, b in pairs)
    scale = math.sqrt(totals[1] / totals[0])
    distance = sum((a * scale - b / scale) ** 2 / (a + b) for a, b in pairs)
    freedom = len(pairs) - 1
    assert freedom > 20
    part = 2 / (9 * freedom)
    return 1 - statistics.NormalDist(1 - part, math.sqrt(part)).cdf((distance / freedom) ** (1 / 3))


ALIKE = 1e-3  # less is a difference; a test of right code at fixed noise is far from it or will never be
APART = 1e-9


def test_the_test_of_distributions_tells_a_small_difference_from_none() -> None:
    random = np.random.default_rng(1)
    weights = random.dirichlet(np.ones(60))
    moved = weights.copy()
    moved[0], moved[1] = moved[0] + 0.02, moved[1] - min(0.02, moved[1])
    draws = [[(int(x),) for x in random.choice(60, SAMPLES, p=p / p.sum())] for p in (weights, weights, moved)]
    assert chance(draws[0], draws[1]) > ALIKE
    assert chance(draws[0], draws[2]) < APART


@pytest.fixture
def broken_residual(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a rejection the token is drawn from all that the target may say, not from what it says more often."""
    verify = sampling_module._Drawn.verify

    def broken(
        self: sampling_module._Drawn, scores: mx.array, tokens: mx.array, place: int, guesses: list[mx.array]
    ) -> mx.array:
        right = verify(self, scores, tokens, place, guesses)
        if place >= len(guesses):
            return right
        return mx.where(right == guesses[place], right, self.draw(scores, tokens, place))

    monkeypatch.setattr(sampling_module._Drawn, "verify", broken)


# -- the sampler, with a target and a draft of a few tokens

VOCABULARY = 8
_random = np.random.default_rng(0)
TARGET = mx.array(_random.normal(size=(VOCABULARY, VOCABULARY)).astype(np.float32) * 1.2)  # by the token before
DRAFT = TARGET + mx.array(_random.normal(size=(VOCABULARY, VOCABULARY)).astype(np.float32))
Depth = Callable[[sequence.Sequence], int]


class Chain:
    """Sequences whose next token depends on their last one, stepped as the runner steps them."""

    def __init__(self, seqs: Sequence[sequence.Sequence]) -> None:
        self.rows = list(seqs)
        self.sampler = Sampler(VOCABULARY)
        self.sampler.arrange(self.rows)
        self.last = mx.array([seq.prompt.token_ids[-1] for seq in seqs])

    def plain(self) -> None:
        self._take(self.sampler(TARGET[self.last]))

    def round(self) -> None:
        depth = max(seq.draft.length for seq in self.rows)
        guesses: list[mx.array] = []
        while len(guesses) < depth:
            before = guesses[-1] if guesses else self.last
            guesses.append(self.sampler.propose(DRAFT[before], len(guesses), guesses))
        self._take(self.sampler.verify(TARGET[mx.stack([self.last, *guesses], axis=1)], self.last, guesses))

    def _take(self, sampled: Sampled) -> None:
        mx.eval(sampled.arrays(), self.sampler.state())
        tokens: Any = sampled.tokens.tolist()
        kept: Any = [1] * len(tokens) if sampled.kept is None else sampled.kept.tolist()
        tokens = [[token] for token in tokens] if sampled.kept is None else tokens
        self.last = sampled.tokens if sampled.last is None else sampled.last
        for seq, new, count in zip(self.rows, tokens, kept, strict=True):
            seq.scheduled += count
            seq.generated += new[:count]
            seq.accepted += count - 1
            seq.rejected += seq.draft.length - count + 1


def drawn(
    rules: dict[str, Any], first: int, depth: Depth | None, others: Sequence[Sampling] = ()
) -> list[sequence.Sequence]:
    """Sequences with at least three tokens each, from seeds `first` on; beside every other one rides one of
    `others`."""
    result = []
    size = 500
    for start in range(first, first + SAMPLES, size):
        mine = [new_row(Sampling(**rules), (3,)) for _ in range(size)]
        for place, seq in enumerate(mine):
            seq.seed = start + place
        seqs = []
        for place, seq in enumerate(mine):
            seqs.append(seq)
            if others and place % 2 == 0:
                seqs.append(new_row(others[place // 2 % len(others)], (place % VOCABULARY,)))
        chain = Chain(seqs)
        while min(len(seq.generated) for seq in mine) < TOKENS:
            if depth is None:
                chain.plain()
                continue
            for seq in seqs:
                seq.draft.length = depth(seq)
            chain.round()
        result += mine
    return result


def texts(seqs: Sequence[sequence.Sequence]) -> list[Text]:
    return [tuple(seq.generated[:TOKENS]) for seq in seqs]


_plain: dict[str, list[Text]] = {}


def plainly(name: str) -> list[Text]:
    if name not in _plain:
        _plain[name] = texts(drawn(SETTINGS[name], 1_000_000, None))
    return _plain[name]


def two(seq: sequence.Sequence) -> int:
    return 2


def by_success(seq: sequence.Sequence) -> int:
    """As an adaptive depth does: the further the last guesses came, the more of them. Sequences differ in it."""
    return min(seq.accepted + seq.seed % 2, 3) if seq.generated else seq.seed % 4


OTHERS = [
    Sampling(temperature=0),
    Sampling(temperature=1, seed=5, top_p=0.7),
    Sampling(temperature=2),
    Sampling(temperature=0, presence_penalty=1.0),
    Sampling(temperature=0.8, top_k=3, frequency_penalty=0.5),
    Sampling(temperature=1, xtc_probability=0.5, dry_multiplier=1.0, dry_allowed_length=1),
    Sampling(temperature=0.6, seed=9, min_p=0.2, logit_bias={2: 1.0}),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_draft_tokens_that_are_kept_or_replaced_are_distributed_as_plain_samples(name: str) -> None:
    seqs = drawn(SETTINGS[name], 0, two)
    assert chance(texts(seqs), plainly(name)) > ALIKE
    right = sum(seq.accepted for seq in seqs) / sum(seq.accepted + seq.rejected for seq in seqs)
    assert 0.3 < right < 0.8  # both happen often


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_so_are_they_among_greedy_seeded_and_other_sequences_of_different_draft_lengths(name: str) -> None:
    assert chance(texts(drawn(SETTINGS[name], 0, by_success, OTHERS)), plainly(name)) > ALIKE


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_residual_is_found(name: str, broken_residual: None) -> None:
    assert chance(texts(drawn(SETTINGS[name], 0, two)), plainly(name)) < APART


@pytest.mark.slow
def test_penalties_and_bias_hold_within_a_speculative_step() -> None:
    """They look at the guesses before: what they do at the third token depends on the first two."""
    rules = {"temperature": 1.0, "frequency_penalty": 1.5, "repetition_penalty": 1.4, "logit_bias": {1: 1.0, 6: -100.0}}
    speculated = texts(drawn(rules, 0, two))
    assert chance(speculated, texts(drawn(rules, 1_000_000, None))) > ALIKE
    assert chance(speculated, plainly("as the model says")) < APART


# -- the engine, with the smallest model that has a head

SMALLEST: dict[str, Any] = {
    "layers": 2,
    "attention_every": 2,
    "hidden": 32,
    "intermediate": 32,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 32,
    "state_key_heads": 1,
    "state_value_heads": 2,
    "state_head_dim": 16,
    "vision_layers": 1,
    "vision_hidden": 16,
    "vocab": 270,
    "sharpness": 3.0,
}
FEW = {token: 60.0 for token in range(40, 46)}  # the whole vocabulary, so to speak
RULES: dict[str, Any] = {"temperature": 2.5, "logit_bias": FEW, "ignore_eos": True}


def served(
    folder: Path, seeds: range, depths: Sequence[Speculation], company: Sequence[Sampling] = ()
) -> tuple[list[Text], float]:
    """Three tokens after the first one (a prompt of one token gives the head nothing to guess it from), and how many
    guesses were right. A sequence of the company rides beside every fourth."""
    result: list[Text] = []
    accepted = drafted = 0
    for start in seeds[::250]:
        stepper = Watched(folder, "padded", max_rows=500)
        heard: list[Heard] = []
        for place in range(250):
            sampling = Sampling(max_tokens=TOKENS + 1, speculation=depths[place % len(depths)], **RULES)
            heard.append(stepper.submit(str(start + place), (7,), sampling))
            if company and place % 4 == 0:
                stepper.submit(str(start + 10 * SAMPLES + place), (place,), company[place // 4 % len(company)])
        for name, seq in stepper.engine.seqs.items():
            if seq.sampling.seed is None:
                seq.seed = int(name)
        stepper.finish()
        for each in heard:
            assert len(each.tokens) == TOKENS + 1
            result.append(tuple(each.tokens[1:]))
            accepted += usage(each).accepted_tokens
            drafted += usage(each).accepted_tokens + usage(each).rejected_tokens
    return result, accepted / max(drafted, 1)


COMPANY = [
    Sampling(temperature=0, max_tokens=3, speculation=3, ignore_eos=True),
    Sampling(temperature=1.5, seed=3, max_tokens=4, speculation=1, ignore_eos=True),
    Sampling(temperature=1, top_k=9, max_tokens=2, speculation="off", ignore_eos=True),
    Sampling(temperature=0.9, max_tokens=5, speculation="auto", ignore_eos=True),
    Sampling(temperature=0, max_tokens=6, speculation=2, frequency_penalty=1.0, ignore_eos=True),
]
_served: dict[Path, list[Text]] = {}


def served_plainly(folder: Path) -> list[Text]:
    if folder not in _served:
        _served[folder] = served(folder, range(1_000_000, 1_000_000 + SERVED), ["off"])[0]
    return _served[folder]


@pytest.mark.slow
def test_the_engine_draws_the_same_distribution_in_a_mixed_batch(tiny: Tiny) -> None:
    folder = tiny("hybrid", **SMALLEST)
    found, right = served(folder, range(SERVED), [1, 3, "auto", 2], COMPANY)
    assert chance(found, served_plainly(folder)) > ALIKE
    assert 0.3 < right < 0.7


@pytest.mark.slow
def test_the_engine_draws_the_same_distribution_in_a_batch_of_its_kind(tiny: Tiny) -> None:
    folder = tiny("hybrid", **SMALLEST)
    assert chance(served(folder, range(SERVED // 2), [2])[0], served_plainly(folder)) > ALIKE


@pytest.mark.slow
def test_a_wrong_residual_is_found_in_the_engine(tiny: Tiny, broken_residual: None) -> None:
    folder = tiny("hybrid", **SMALLEST)
    assert chance(served(folder, range(SERVED // 2), [2])[0], served_plainly(folder)) < APART


# -- requests with a seed

LENGTH = 20
FIELDS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 1.5},
    "top_p": {"temperature": 1.2, "top_p": 0.8},
    "top_k": {"temperature": 2.0, "top_k": 12},
    "min_p": {"temperature": 1.5, "min_p": 0.1},
    "penalties": {
        "temperature": 1.0,
        "repetition_penalty": 1.3,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.4,
        "logit_bias": {token: 9.0 for token in range(20)},
    },
    "filters": {
        "temperature": 1.5,
        "typical_p": 0.9,
        "top_n_sigma": 3.0,
        "xtc_probability": 0.5,
        "xtc_threshold": 0.05,
    },
    "dry": {
        "temperature": 1.0,
        "dry_multiplier": 5.0,
        "dry_allowed_length": 1,
        "logit_bias": {token: 9.0 for token in range(20)},
    },
    "bias": {"temperature": 1.0, "logit_bias": {7: 12.0, 8: -100.0}},
    "all": {
        "temperature": 1.1,
        "top_p": 0.95,
        "top_k": 40,
        "min_p": 0.01,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.3,
        "frequency_penalty": 0.2,
        "logit_bias": {7: 5.0},
    },
}
COMPANIONS = [
    Sampling(temperature=2, max_tokens=6, speculation=5),
    Sampling(temperature=0, max_tokens=14, presence_penalty=1.5, speculation=2),
    Sampling(temperature=1, top_p=0.8, top_k=40, max_tokens=8, logprobs=3, speculation="off"),
    Sampling(temperature=0.5, min_p=0.1, seed=4, repetition_penalty=1.2, max_tokens=9, speculation="auto"),
]


def seeded(name: str, **changes: Any) -> Sampling:
    return Sampling(**{"seed": 11, "max_tokens": LENGTH, "ignore_eos": True} | FIELDS[name] | changes)


def alone(folder: Path, sampling: Sampling, text: Sequence[int] = prompt(9)) -> Heard:
    stepper = Watched(folder, chunk=64)
    heard = stepper.submit("alone", Prompt(tuple(text)), sampling)
    stepper.finish()
    return heard


@pytest.mark.thin(11)
@pytest.mark.parametrize(
    ("family", "name"), [*(("hybrid", name) for name in FIELDS), ("hybrid_moe", "temperature"), ("hybrid_moe", "all")]
)
def test_a_seed_gives_the_same_text_at_every_draft_length_alone_and_in_batch(
    tiny: Tiny, family: str, name: str
) -> None:
    folder = tiny(family, **SMALL)
    plain = alone(folder, seeded(name, speculation="off")).tokens
    assert alone(folder, seeded(name, speculation="off")).tokens == plain
    assert alone(folder, seeded(name, speculation=3)).tokens == plain
    assert alone(folder, seeded(name, speculation=3)).tokens == plain
    stepper = Watched(folder, "similar", chunk=24)
    depths: list[Speculation] = [1, "auto", 2, 5, "off", 3]
    heard = []
    for place, depth in enumerate(depths):
        other = COMPANIONS[place % len(COMPANIONS)]
        stepper.submit(f"other {place}", prompt(3 + 7 * place), replace(other, ignore_eos=True))
        heard.append(stepper.submit(str(depth), prompt(9), seeded(name, speculation=depth)))
        stepper.step(place % 3)
    stepper.finish()
    assert [each.tokens for each in heard] == [plain] * len(depths)
    assert plain != greedy_text(folder, prompt(9), LENGTH)
    assert sum(usage(each).accepted_tokens for each in heard) > 5


@pytest.mark.thin(2)
@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_a_thinking_budget_is_spent_at_the_same_token_at_every_draft_length(tiny: Tiny, temperature: float) -> None:
    folder = tiny("hybrid", **SMALL)
    think = SamplingTokens(think=ThinkMarks((498,), 499, (499, 7), begins_open=True))
    stepper = Watched(folder, "similar", chunk=24)
    heard = []
    for draft in ("off", 1, 3, 5):
        rules: dict[str, Any] = {"temperature": temperature, "thinking_token_budget": 6, "speculation": draft}
        sampling = Sampling(**{"seed": 11, "max_tokens": LENGTH, "ignore_eos": True} | rules)
        heard.append(stepper.submit(str(draft), prompt(9), sampling, tokens=think))
    stepper.finish()
    assert heard[0].tokens[6:8] == [499, 7] and 499 not in heard[0].tokens[:6]
    assert [each.tokens for each in heard] == [heard[0].tokens] * 4


def test_another_seed_gives_another_text(tiny: Tiny) -> None:
    folder = tiny("hybrid", **SMALL)
    found = [alone(folder, seeded("temperature", seed=seed, speculation=3)).tokens for seed in range(5)]
    assert len(set(map(tuple, found))) == 5


@pytest.mark.parametrize("depth", [1, 3, "auto"])
def test_two_requests_without_a_seed_differ(tiny: Tiny, depth: Speculation) -> None:
    folder = tiny("hybrid", **SMALL)
    stepper = Stepper(folder, speculation=depth)
    heard = [stepper.submit(str(i), prompt(9), seeded("temperature", seed=None)) for i in range(4)]
    stepper.finish()
    assert len({tuple(each.tokens) for each in heard}) == 4


@pytest.mark.parametrize("only", [{"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}])
def test_a_sequence_that_may_only_say_the_best_token_says_it_at_every_place(tiny: Tiny, only: dict[str, Any]) -> None:
    """Nothing that the rules shut out gets in as a guess."""
    folder = tiny("hybrid", **SMALL)
    sampling = Sampling(temperature=3, max_tokens=LENGTH, ignore_eos=True, speculation=3, **only)
    heard = alone(folder, sampling)
    assert heard.tokens == greedy_text(folder, prompt(9), LENGTH)
    assert usage(heard).accepted_tokens > 3
