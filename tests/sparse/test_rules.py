"""Which prompts are prefilled sparsely."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.sparse.rules import CHUNK, HEAD, SPAN, TAIL, Rules, always, select
from paceline.types import Sampling
from tests.engine.test_sparse_prefill import PLENTY, TOKENS, outcomes
from tests.integration.test_sparse_exactness import chosen, prompt
from tests.reference import greedy_text
from tests.sparse.stepper import SparseStepper, kept


def test_auto_prefills_sparsely_from_the_threshold_on(llama: Path) -> None:
    stepper = SparseStepper(llama, rules=Rules("auto", threshold=300, keep=0.4))
    rows = {count: stepper.scored(str(count), prompt(count), 3) for count in (299, 300, 500)}
    stepper.finish()
    assert [kept(rows[count]) == count for count in rows] == [True, False, False]
    assert outcomes(stepper) == {"sparse": 2, "short": 1}


def test_a_prompt_that_is_too_long_is_read_whole_and_counted(llama: Path) -> None:
    stepper = SparseStepper(llama, rules=Rules("auto", threshold=260, most=400))
    long = stepper.scored("long", prompt(401), TOKENS)
    stepper.scored("fits", prompt(400), 2)
    stepper.finish()
    assert long.tokens == greedy_text(llama, prompt(401), TOKENS)
    assert outcomes(stepper) == {"sparse": 1, "long": 1}


def test_the_requests_word_is_stronger_than_the_servers(llama: Path) -> None:
    stepper = SparseStepper(llama, rules=Rules("off", threshold=10_000))
    asked = stepper.scored("asked", prompt(), 3, specprefill=True)
    silent = stepper.scored("silent", prompt(), 3)
    stepper.finish()
    assert (kept(asked) or 0) < 420 and kept(silent) is None
    stepper = SparseStepper(llama)
    refuses = stepper.scored("refuses", prompt(), 3, specprefill=False)
    more = stepper.scored("more", prompt(), 3, specprefill_keep=0.8)
    stepper.finish()
    assert kept(refuses) is None and len(chosen(prompt(), keep_ratio=0.8)) == kept(more)


def test_what_needs_the_whole_prompt_gets_it(llama: Path) -> None:
    stepper = SparseStepper(llama)
    scores = stepper.submit("scores", prompt(), Sampling(temperature=0, max_tokens=2, prompt_logprobs=0))
    stepper.finish()
    assert kept(scores) is None and outcomes(stepper) == {}


def test_only_what_is_not_cached_counts(hybrid: Path) -> None:
    stepper = SparseStepper(hybrid, cache=PLENTY, chunk=100)
    first = stepper.scored("first", prompt(400), 2, specprefill=False)
    stepper.finish()
    again = stepper.scored("again", [*prompt(400), *prompt(200, 5)], 2)
    stepper.finish()
    assert first.finish_reason == "length" and again.cached >= 399 and kept(again) == 600
    assert outcomes(stepper) == {"short": 1}


@given(st.integers(1, 700), st.floats(0.1, 1.0), st.integers(0, 2**32 - 1), st.floats(0, 0.3))
def test_what_is_kept_is_in_order_and_enough_and_not_much_more(
    count: int, keep_ratio: float, seed: int, forced: float
) -> None:
    rng = np.random.default_rng(seed)
    scores, kept = rng.random(count, dtype=np.float32), rng.random(count) < forced
    chosen = select(scores, kept, keep_ratio)
    assert (np.diff(chosen) > 0).all()
    assert set(np.flatnonzero(kept)) <= set(chosen.tolist())
    wanted = int(np.ceil(keep_ratio * count))
    assert len(chosen) >= min(wanted, count)
    assert len(chosen) < max(wanted + SPAN, kept.sum() + 1)
    assert keep_ratio < 1.0 or len(chosen) == count


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.floats(0.1, 1.0))
def test_the_best_chunks_are_kept_with_their_neighbours(seed: int, chunks: int, keep_ratio: float) -> None:
    means = np.random.default_rng(seed).permutation(chunks).astype(np.float32)
    expected: set[int] = set()
    for best in np.argsort(-means).tolist():
        if len(expected) < keep_ratio * chunks:
            expected |= {place for place in (best - 1, best, best + 1) if 0 <= place < chunks}
    chosen = select(np.repeat(means, CHUNK), np.zeros(chunks * CHUNK, np.bool_), keep_ratio)
    assert chosen.tolist() == [place for place in range(chunks * CHUNK) if place // CHUNK in expected]


def test_a_sentence_at_the_border_of_two_chunks_is_kept_whole() -> None:
    scores = np.zeros(20 * CHUNK, np.float32)
    scores[5 * CHUNK : 5 * CHUNK + 3] = 1  # its end
    assert set(range(4 * CHUNK, 6 * CHUNK)) <= set(select(scores, np.zeros(len(scores), np.bool_), 0.1).tolist())


def test_a_last_chunk_that_is_short_counts_by_its_mean() -> None:
    scores = np.ones(3 * CHUNK + 3, np.float32)
    scores[-3:] = 5
    chosen = select(scores, np.zeros(len(scores), np.bool_), 0.01)
    assert chosen.tolist() == list(range(2 * CHUNK, 3 * CHUNK + 3))


def test_head_tail_special_and_media_tokens_are_always_kept() -> None:
    ids = np.full(3000, 7)
    ids[1000], ids[1500:1520] = 1, 2
    kept = always(ids.tolist(), (), {1}, ids == 2)
    assert kept[:HEAD].all() and kept[-TAIL:].all() and kept[1000] and kept[1500:1520].all()
    assert kept.sum() == HEAD + TAIL + 1 + 20
    assert always(ids.tolist(), (100, 2700), {9})[2700:].all(), "the last turn"
    assert always(ids.tolist(), (100,), {9}).sum() == HEAD + TAIL, "of a long last turn its tail"
    assert always([7] * 40, (), frozenset()).all()
