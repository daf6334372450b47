"""A plain 5-gram model with interpolated back-off (absolute discounting): what perplexity is compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ORDER = 5
DISCOUNT = 0.75


def cross_entropy(
    text: NDArray[np.uint16], passages: NDArray[np.uint16], vocabulary: int, *, order: int = ORDER, skip: int = 4
) -> float:
    """Nats a token of `passages` [n, length] under a model of `text`; the first `skip` of each are context only.

    p_n(w | h) = max(c(hw) - d, 0) / c(h) + d * kinds(h) / c(h) * p_{n-1}(w | shorter h), down to a uniform p_0.
    """
    if vocabulary**order >= 2**64:
        raise ValueError(f"an n-gram of {order} tokens out of {vocabulary} does not fit 64 bits")
    rows, length = passages.shape
    probability = np.full((rows, length - skip), 1.0 / vocabulary)
    for n in range(1, order + 1):
        keys, counts = np.unique(_keys(text[None], n, vocabulary)[0], return_counts=True)
        before = np.concatenate([[0], np.cumsum(counts)])
        wanted = _keys(passages, n, vocabulary)[:, skip - n + 1 :]
        history = wanted - wanted % np.uint64(vocabulary)
        first, last = np.searchsorted(keys, history), np.searchsorted(keys, history + np.uint64(vocabulary))
        seen = (before[last] - before[first]).astype(float)
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        count = np.where(keys[place] == wanted, counts[place], 0)
        known = seen > 0
        seen[~known] = 1.0
        mixed = np.maximum(count - DISCOUNT, 0) / seen + DISCOUNT * (last - first) / seen * probability
        probability = np.where(known, mixed, probability)
    return float(-np.log(probability).mean())


def _keys(rows: NDArray[np.uint16], n: int, vocabulary: int) -> NDArray[np.uint64]:
    """Every run of n tokens as one number, the last token in its lowest digit; [rows, length - n + 1]."""
    width = rows.shape[1] - n + 1
    keys = np.zeros((len(rows), width), np.uint64)
    for place in range(n):
        keys = keys * np.uint64(vocabulary) + rows[:, place : place + width].astype(np.uint64)
    return keys
