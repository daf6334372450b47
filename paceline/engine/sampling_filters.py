"""Filters of a distribution, vectorized over rows: each row has its own parameters, and none sees another's scores.

Scores are log probabilities up to a constant, (rows, vocabulary); a filter sets those to -inf that may not be chosen.
The most likely token, or for typical_p and XTC some token, always remains.
"""

from __future__ import annotations

import mlx.core as mx


def filtered(scores: mx.array, top_k: mx.array, top_p: mx.array) -> mx.array:
    """Keep the top_k most likely, and of those the fewest whose probability reaches top_p; -inf elsewhere."""
    ordered = -mx.sort(-scores, axis=-1)
    ranked = mx.arange(scores.shape[-1])[None]
    ordered = mx.where(ranked < top_k, ordered, -mx.inf)
    chances = mx.softmax(ordered, axis=-1)
    before = mx.cumsum(chances, axis=-1) - chances
    kept = ((before < top_p) & (ranked < top_k)).sum(axis=-1, keepdims=True)
    threshold = mx.take_along_axis(ordered, mx.maximum(kept - 1, 0), axis=-1)
    return mx.where(scores >= threshold, scores, -mx.inf)


def sigma_filtered(scores: mx.array, sigmas: mx.array) -> mx.array:
    """Keep what lies within so many standard deviations of the best score. The temperature does not matter to it."""
    possible = scores > -mx.inf
    count = mx.maximum(possible.sum(axis=-1, keepdims=True), 1)
    known = mx.where(possible, scores, 0)
    mean = known.sum(axis=-1, keepdims=True) / count
    spread = mx.sqrt((mx.where(possible, known - mean, 0) ** 2).sum(axis=-1, keepdims=True) / count)
    return mx.where(scores >= scores.max(axis=-1, keepdims=True) - sigmas * spread, scores, -mx.inf)


def typical_filtered(scores: mx.array, mass: mx.array) -> mx.array:
    """Locally typical sampling: keep the tokens whose surprise is nearest to the expected one, the fewest whose
    probability reaches `mass`."""
    logs = scores - mx.logsumexp(scores, axis=-1, keepdims=True)
    chances = mx.exp(logs)
    possible = chances > 0
    entropy = -mx.where(possible, chances * logs, 0).sum(axis=-1, keepdims=True)
    distance = mx.where(possible, mx.abs(logs + entropy), mx.inf)
    order = mx.argsort(distance, axis=-1)
    ordered = mx.take_along_axis(chances, order, axis=-1)
    kept = (mx.cumsum(ordered, axis=-1) - ordered < mass).sum(axis=-1, keepdims=True)
    last = mx.take_along_axis(order, mx.maximum(kept - 1, 0), axis=-1)
    return mx.where(distance <= mx.take_along_axis(distance, last, axis=-1), scores, -mx.inf)


def xtc_filtered(scores: mx.array, probability: mx.array, threshold: mx.array, luck: mx.array) -> mx.array:
    """XTC (exclude top choices): where `luck` is below `probability`, of the tokens at or above the threshold only the
    least likely remains."""
    chances = mx.softmax(scores, axis=-1)
    above = chances >= threshold
    least = mx.where(above, chances, mx.inf).min(axis=-1, keepdims=True)
    return mx.where(above & (chances > least) & (luck < probability), -mx.inf, scores)
