"""A prompt of which some tokens are left out gives what mlx-lm's module gives for the others, each at its own place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paceline.sparse.rules import Rules, always, select
from paceline.types import Prompt
from tests.engine.stepper import BUCKETED, Heard
from tests.integration.test_images import CONVERSATIONS
from tests.models.test_vision import built
from tests.reference import greedy_text
from tests.sparse.reference import continued
from tests.sparse.stepper import SparseStepper, kept, ranked

TOKENS = 12
KEEP_RATIO = 0.4
FAMILIES = ["hybrid", "llama", "qwen3"]
PLENTY = 1 << 30


def prompt(count: int = 420, seed: int = 1) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(3, 250, count)]


def chosen(tokens: list[int], whole: int = 0, keep_ratio: float = KEEP_RATIO) -> list[int]:
    """What a stepper with given scores chooses."""
    forced = always(tokens, (), frozenset(), None)
    behind = select(ranked()(tokens)[whole:], forced[whole:], keep_ratio) + whole
    return [*range(whole), *behind.tolist()]


def compare(heard: Heard, folder: Path, tokens: list[int], places: list[int]) -> None:
    said, scores = continued(folder, tokens, places, TOKENS)
    assert heard.tokens == said
    found = [one for delta in heard.deltas for one in delta.logprobs]
    for one, expected in zip(found, scores, strict=True):
        for token, logprob in ((one.token_id, one.logprob), *one.top):
            assert abs(logprob - expected[token]) < 1e-4 * max(1, abs(expected[token]) / 8)
    assert kept(heard) == len(places) < len(tokens)


@pytest.mark.thin(6, first=1)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunk", [17, 500])
def test_a_chosen_subset_is_what_mlx_lm_gives_at_these_places(
    family: str, chunk: int, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(family)
    stepper = SparseStepper(folder, chunk=chunk)
    heard = stepper.scored("row", prompt(), TOKENS)
    stepper.finish()
    compare(heard, folder, prompt(), chosen(prompt()))
    assert stepper.sparse.counts.outcomes["sparse"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layout", ["rows", "padded", "similar", *BUCKETED])
def test_beside_full_sequences_and_other_sparse_sequences_in_one_batch(
    family: str, layout: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(family)
    stepper = SparseStepper(folder, layout, chunk=60)
    full = stepper.greedy("full", prompt(90, 7), 40)
    stepper.step(3)
    rows = {}
    for place in range(3):
        rows[place] = stepper.scored(f"sparse {place}", prompt(300 + 60 * place, place), TOKENS)
        stepper.step(2 * place)
    late = stepper.greedy("late", prompt(33, 8), 20)
    stepper.finish()
    assert full.tokens == greedy_text(folder, prompt(90, 7), 40)
    assert late.tokens == greedy_text(folder, prompt(33, 8), 20)
    for place, heard in rows.items():
        tokens = prompt(300 + 60 * place, place)
        compare(heard, folder, tokens, chosen(tokens))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("speculation", ["off", 2])
def test_with_a_cached_prefix_in_front_only_the_rest_is_chosen_from(
    family: str, speculation: object, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(family)
    stepper = SparseStepper(folder, "similar", chunk=50, cache=PLENTY, speculation=speculation)
    system = prompt(150, 9)
    first = stepper.greedy("first", Prompt((*system, 5, 6, 7), boundaries=(150,)), 4)
    stepper.finish()
    tokens = [*system, *prompt(400, 10)]
    neighbour = stepper.greedy("neighbour", prompt(40, 3), 30)
    heard = stepper.scored("row", tokens, TOKENS)
    stepper.finish()
    assert heard.cached == 150
    compare(heard, folder, tokens, chosen(tokens, whole=150))
    assert first.tokens == greedy_text(folder, [*system, 5, 6, 7], 4)
    assert neighbour.tokens == greedy_text(folder, prompt(40, 3), 30)


@pytest.mark.thin(3, first=1)
@pytest.mark.parametrize("family", FAMILIES)
def test_all_kept_is_full_prefill_token_for_token(family: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(family)
    stepper = SparseStepper(folder, "similar", chunk=60, speculation="auto")
    rows = [stepper.scored(str(place), prompt(280 + place, place), 20, specprefill_keep=1.0) for place in range(3)]
    stepper.finish()
    for place, heard in enumerate(rows):
        assert heard.tokens == greedy_text(folder, prompt(280 + place, place), 20)
        assert kept(heard) == 280 + place
    assert stepper.sparse.counts.scored == 0, "there is nothing to find out"


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_token_at_its_own_place_by_the_sparse_way_is_full_prefill_too(
    family: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(family)
    stepper = SparseStepper(folder, chunk=60, rules=Rules("auto", threshold=256, keep=0.9999))
    heard = stepper.scored("row", prompt(), TOKENS)
    stepper.finish()
    assert stepper.sparse.counts.scored == stepper.sparse.counts.kept == len(prompt())
    assert heard.tokens == greedy_text(folder, prompt(), TOKENS)


@pytest.mark.slow
def test_images_are_kept_at_their_places(hybrid: Path) -> None:
    plain = SparseStepper(hybrid, chunk=40, rules=Rules("off"))
    sparse = SparseStepper(hybrid, chunk=40, rules=Rules("auto", threshold=1, keep=0.9999))
    some = SparseStepper(hybrid, chunk=40, rules=Rules("auto", threshold=1, keep=0.1))
    for name, conversation in CONVERSATIONS.items():
        question = built(hybrid, conversation)
        filled = Prompt((*prompt(300, 4), *question.token_ids), question.media)
        wanted = plain.scored(name, filled, TOKENS)
        found = sparse.scored(name, filled, TOKENS)
        fewer = some.scored(name, filled, TOKENS)
        for stepper in (plain, sparse, some):
            stepper.finish()
        assert found.tokens == wanted.tokens, name
        assert fewer.finish_reason == "length"
        assert (kept(fewer) or 0) < len(filled.token_ids)
