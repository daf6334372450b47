"""Who is prefilled sparsely, what becomes of a sequence on the way, and that nothing is left behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.cache.prefix import PrefixCache
from paceline.engine.in_flight import InFlightStep, Token
from paceline.types import Prompt
from tests.integration.test_sparse_exactness import chosen, compare, prompt
from tests.reference import greedy_text
from tests.sparse.stepper import SparseStepper, kept

TOKENS = 12
PLENTY = 1 << 30


def outcomes(stepper: SparseStepper) -> dict[str, int]:
    return {name: count for name, count in stepper.sparse.counts.outcomes.items() if count}


# -- who


# -- on the way


@pytest.mark.slow
def test_sparse_sequences_do_not_draft_and_others_beside_them_do(hybrid: Path) -> None:
    stepper = SparseStepper(hybrid, speculation=2)
    text = stepper.scored("text", prompt(40, 2), 30)
    stepper.step(6)
    heard = stepper.scored("row", prompt(), TOKENS)
    stepper.finish()
    compare(heard, hybrid, prompt(), chosen(prompt()))
    assert heard.deltas[0].prompt is not None and "sparsely" in heard.deltas[0].prompt.route
    usage = text.deltas[-1].usage
    assert usage is not None and usage.accepted_tokens > 0
    assert text.tokens == greedy_text(hybrid, prompt(40, 2), 30)


@pytest.mark.thin(3)
@pytest.mark.parametrize("steps", [0, 1, 3, 6, 7, 9, 12])
def test_a_sequence_that_is_cancelled_on_the_way_leaves_nothing(hybrid: Path, steps: int) -> None:
    stepper = SparseStepper(hybrid, draft=hybrid, cache=PLENTY, draft_cache=PLENTY, chunk=40)
    stepper.finish()
    heard = stepper.scored("row", prompt(), TOKENS)
    stepper.step(steps)
    seq = next(iter(stepper.engine.seqs.values()), None)
    stepper.abort("row")
    stepper.finish()
    assert heard.finish_reason == "abort"
    assert not stepper.engine.seqs and not stepper.engine.scheduler.running
    assert seq is None or (
        seq.sparse.scorer is None and seq.computed.batch is None and seq.computed.position_ids is None
    )
    assert all(node.pins == 0 for cache in _caches(stepper) for node in cache.nodes())


@pytest.mark.thin(12, first=1)
@pytest.mark.parametrize("steps", [2, 5, 8, 11, 14])
@pytest.mark.parametrize("family", ["hybrid", "llama"])
def test_a_sequence_that_is_preempted_goes_on_with_the_tokens_that_were_chosen(
    family: str, steps: int, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(family)
    stepper = SparseStepper(folder, cache=PLENTY, chunk=40)
    system = prompt(150, 9)
    stepper.greedy("first", Prompt((*system, 5, 6), boundaries=(150,)), 2)
    stepper.finish()
    tokens = [*system, *prompt(400, 10)]
    heard = stepper.scored("row", tokens, TOKENS)
    stepper.step(steps)
    seq = stepper.set_back()
    before = None if seq.sparse.kept is None else seq.sparse.kept.tolist()
    stepper.reuse.cache.clear()
    stepper.finish()
    assert seq.preemptions == 1 and (before is None or seq.sparse.kept.tolist() == before)
    assert seq.sparse.dense_prefix == (0 if before is None else 150), "what was cached is gone"
    compare(heard, folder, tokens, chosen(tokens, whole=seq.sparse.dense_prefix))


def test_what_a_sparse_sequence_computes_is_nobodys_prefix(hybrid: Path) -> None:
    stepper = SparseStepper(hybrid, cache=PLENTY, chunk=64)
    before = stepper.reuse.cache.memory
    sparse = stepper.scored("sparse", prompt(), 20)
    stepper.finish()
    assert stepper.reuse.cache.memory == before == 0
    whole = stepper.scored("whole", [*prompt(), *sparse.tokens], TOKENS, specprefill=False)
    stepper.finish()
    assert whole.cached == 0
    assert whole.tokens == greedy_text(hybrid, [*prompt(), *sparse.tokens], TOKENS)


@pytest.mark.slow
def test_whoever_waits_for_a_sequence_that_turns_sparse_goes_on_by_itself(hybrid: Path) -> None:
    stepper = SparseStepper(hybrid, cache=PLENTY, chunk=64, read=32)
    first = stepper.scored("first", prompt(), TOKENS)
    stepper.step(2)
    second = stepper.scored("second", prompt(), TOKENS)
    third = stepper.scored("third", prompt(), TOKENS, specprefill=False)
    stepper.finish()
    compare(first, hybrid, prompt(), chosen(prompt()))
    compare(second, hybrid, prompt(), chosen(prompt()))
    assert third.tokens == greedy_text(hybrid, prompt(), TOKENS)


@pytest.mark.thin(4, first=2)
@pytest.mark.parametrize("when", ["begin", "read", "scores", "nan"])
def test_where_scoring_fails_the_sequence_reads_all_and_nobody_notices(
    hybrid: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scores(tokens: Sequence[int]) -> NDArray[np.float32]:
        if when == "scores":
            raise RuntimeError("broken")
        return np.full(len(tokens), np.nan, np.float32)

    stepper = SparseStepper(hybrid, scores=scores)
    if when == "begin":
        monkeypatch.setattr(stepper.sparse.draft, "scorer", _broken)
    elif when == "read":
        scout = stepper.sparse.draft.scorer
        monkeypatch.setattr(stepper.sparse.draft, "scorer", lambda *given: _failing(scout(*given)))
    neighbour = stepper.greedy("neighbour", prompt(30, 2), 30)
    stepper.step(4)
    heard = stepper.scored("row", prompt(), TOKENS)
    stepper.finish()
    assert heard.tokens == greedy_text(hybrid, prompt(), TOKENS)
    assert neighbour.tokens == greedy_text(hybrid, prompt(30, 2), 30)
    assert kept(heard) == 420 and outcomes(stepper) == {"short": 1, "failed": 1}


def _broken(*_: object) -> None:
    raise RuntimeError("broken")


def test_nothing_is_decided_for_a_sequence_that_ends_on_its_way_in(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = SparseStepper(llama, cache=PLENTY)
    monkeypatch.setattr(stepper.reuse, "on_admit", _broken)
    heard = stepper.scored("row", prompt(100), TOKENS)
    stepper.finish()
    assert heard.finish_reason == "error" and outcomes(stepper) == {}


class _failing:  # noqa: N801  a scout whose work fails on the device
    restored = 0

    def __init__(self, inner: object) -> None:
        self.left = 1

    def read(self, count: int) -> list[mx.array]:
        raise RuntimeError("[malloc] Unable to allocate 12 bytes.")


def _caches(stepper: SparseStepper) -> list[PrefixCache]:
    draft = stepper.sparse.draft.cache
    assert draft is not None
    return [stepper.reuse.cache, draft]


# -- beside streams


def test_a_step_has_a_chunk_of_scoring_or_of_prefill_and_never_both_beside_streams(llama: Path) -> None:
    stepper = SparseStepper(llama, chunk=16, read=16)
    stepper.engine.scheduler.sparse_budget.share = 1.0
    stepper.greedy("stream", prompt(20, 1), 200)
    stepper.step(4)
    stepper.greedy("short", prompt(200, 2), 4)
    stepper.scored("long", prompt(), 4)
    plans = []
    scheduler = stepper.engine.scheduler
    plan = scheduler.plan
    scheduler.plan = lambda now=0.0: plans.append(plan(now)) or plans[-1]  # type: ignore[method-assign, func-returns-value]
    stepper.finish()
    both = [each for each in plans if each.prefill and each.score is not None]
    assert not [each for each in both if each.decode]
    assert [each for each in plans if each.score is not None and each.decode]
    assert [each for each in plans if each.prefill and each.decode]


@pytest.mark.thin(4)
@pytest.mark.parametrize("lost", range(1, 12))
def test_a_step_that_is_lost_takes_nothing_from_a_prompt_that_is_scored_beside_it(
    llama: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    stepper = SparseStepper(llama, chunk=16, read=64)
    stepper.engine.scheduler.sparse_budget.share = 1.0
    stream = stepper.greedy("stream", prompt(20, 1), 40)
    stepper.step(4)
    long = stepper.scored("long", prompt(), 4)
    collect, calls = stepper.runner.collect, 0

    def fails(launched: InFlightStep) -> list[Token]:
        nonlocal calls
        calls += 1
        if calls == lost:
            raise RuntimeError("a passing fault")
        return collect(launched)

    monkeypatch.setattr(stepper.runner, "collect", fails)
    stepper.finish()
    assert stepper.engine.scheduler.sparse_budget.in_flight == 0
    assert outcomes(stepper)["sparse"] == 1 and len(long.tokens) == 4
    assert stream.tokens == greedy_text(llama, prompt(20, 1), 40)
