from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.sparse.select import CHUNK, HEAD, TAIL, always, select


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
    assert len(chosen) < max(wanted + CHUNK, kept.sum() + 1)
    assert keep_ratio < 1.0 or len(chosen) == count


@given(st.integers(0, 2**32 - 1), st.integers(2, 20), st.integers(1, 19))
def test_the_best_chunks_are_kept(seed: int, chunks: int, wanted: int) -> None:
    wanted = min(wanted, chunks)
    means = np.random.default_rng(seed).permutation(chunks).astype(np.float32)
    scores = np.repeat(means, CHUNK)
    chosen = select(scores, np.zeros(len(scores), np.bool_), wanted / chunks)
    assert set((chosen // CHUNK).tolist()) == set(np.argsort(-means)[:wanted].tolist())
    assert len(chosen) == wanted * CHUNK


def test_a_last_chunk_that_is_short_counts_by_its_mean() -> None:
    scores = np.ones(2 * CHUNK + 3, np.float32)
    scores[-3:] = 5
    assert select(scores, np.zeros(len(scores), np.bool_), 0.01).tolist() == [64, 65, 66]


def test_head_tail_special_and_media_tokens_are_always_kept() -> None:
    ids = np.full(3000, 7)
    ids[1000], ids[1500:1520] = 1, 2
    kept = always(ids.tolist(), (), {1}, 2)
    assert kept[:HEAD].all() and kept[-TAIL:].all() and kept[1000] and kept[1500:1520].all()
    assert kept.sum() == HEAD + TAIL + 1 + 20
    assert always(ids.tolist(), (100, 2700), {9}, None)[2700:].all(), "the last turn"
    assert always(ids.tolist(), (100,), {9}, None).sum() == HEAD + TAIL, "of a long last turn its tail"
    assert always([7] * 40, (), frozenset(), None).all()
