"""Sampling for all rows at once, each by its own rules, on the device: no host read per row.

A row's noise comes from its seed and the place of the token in its answer, and belongs to token ids, so the sample
is the same whoever rides beside it. Order, as in vLLM: penalties and bias, temperature, top_k, top_p, min_p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from paceline.engine.row import MASK64, Row

NOT_A_NUMBER = -1  # the token of a row whose logits are broken
COLDEST = 1e-5  # a lower temperature is greedy: to divide by it overflows
EVERYTHING = 1 << 30  # a top_k that no vocabulary reaches


@dataclass(frozen=True, slots=True)
class Sampled:
    """Lazy arrays of one step, in the batch's order. Log probabilities are the model's own, before any rule."""

    tokens: mx.array  # (rows,)
    logprobs: mx.array | None = None  # (rows,) of the chosen tokens
    top_ids: mx.array | None = None  # (rows, k) most likely first
    top_logprobs: mx.array | None = None

    def arrays(self) -> list[mx.array]:
        parts = (self.tokens, self.logprobs, self.top_ids, self.top_logprobs)
        return [part for part in parts if part is not None]


class Sampler:
    """`arrange` when rows join or leave; then call it with each step's logits (rows, vocabulary)."""

    def __init__(self, vocab_size: int, end_ids: Callable[[Row], frozenset[int]]) -> None:
        self.vocab_size = vocab_size
        self.end_ids = end_ids
        self.rows: list[Row] = []
        self._adjusted = _Adjusted([])
        self._drawn = _Drawn([])
        self._top: int | None = None

    def arrange(self, rows: Sequence[Row]) -> None:
        self._adjusted = _Adjusted([(i, row) for i, row in enumerate(rows) if _is_adjusted(row)], self._adjusted, self)
        self._drawn = _Drawn([(i, row) for i, row in enumerate(rows) if row.sampling.temperature >= COLDEST])
        asked = [row.sampling.logprobs for row in rows if row.sampling.logprobs is not None]
        self._top = max(asked) if asked else None
        self.rows = list(rows)

    def __call__(self, logits: mx.array) -> Sampled:
        logits = logits.astype(mx.float32)
        scores = self._adjusted.apply(logits)
        tokens = mx.argmax(scores, axis=-1)
        if self._drawn.rows:
            tokens = self._drawn.draw(scores, tokens)
        tokens = tokens.astype(mx.int32)
        self._adjusted.count(tokens)
        broken = mx.isnan(logits.sum(axis=-1))
        chosen = mx.where(broken, NOT_A_NUMBER, tokens)
        if self._top is None:
            return Sampled(chosen)
        return Sampled(chosen, *token_logprobs(logits, tokens, self._top))

    def state(self) -> list[mx.array]:
        """What must be evaluated with each step so that no graph grows."""
        return self._adjusted.state()

    def needs_arranging(self) -> bool:
        """Has a row just reached its min_tokens, so that it may end from here on?"""
        return any(row.launched == row.sampling.min_tokens > 0 for row in self.rows)


def token_logprobs(logits: mx.array, tokens: mx.array, top: int) -> tuple[mx.array, ...]:
    """Log probabilities of `tokens` under `logits` (n, vocabulary), and of the `top` most likely ones."""
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    chosen = mx.take_along_axis(logprobs, tokens[:, None].astype(mx.int32), axis=-1)[:, 0]
    if top == 0:
        return (chosen,)
    ids = mx.argpartition(-logprobs, top - 1, axis=-1)[:, :top]
    values = mx.take_along_axis(logprobs, ids, axis=-1)
    order = mx.argsort(-values, axis=-1)
    return chosen, mx.take_along_axis(ids, order, axis=-1), mx.take_along_axis(values, order, axis=-1)


def _is_adjusted(row: Row) -> bool:
    s = row.sampling
    penalised = s.repetition_penalty != 1 or s.presence_penalty != 0 or s.frequency_penalty != 0
    return penalised or bool(s.logit_bias) or row.launched < s.min_tokens


def _column(values: list[float]) -> mx.array:
    return mx.array(values, dtype=mx.float32)[:, None]


class _Adjusted:
    """Rows whose logits are changed before the choice: penalties, bias, end tokens banned below min_tokens."""

    counts: mx.array  # (rows, vocabulary): how often each token has been generated

    def __init__(
        self, rows: list[tuple[int, Row]], before: _Adjusted | None = None, sampler: Sampler | None = None
    ) -> None:
        self.rows = [row for _, row in rows]
        if not rows or sampler is None:
            return
        size = sampler.vocab_size
        self.index = mx.array([i for i, _ in rows])
        rules = [row.sampling for row in self.rows]
        self.repetition = _column([s.repetition_penalty for s in rules])
        self.presence = _column([s.presence_penalty for s in rules])
        self.frequency = _column([s.frequency_penalty for s in rules])
        self.bias = mx.stack([_bias(row, sampler.end_ids(row), size) for row in self.rows])
        self.prompted = mx.stack([_prompted(row, size) for row in self.rows])
        known = {id(row): i for i, row in enumerate(before.rows)} if before else {}
        counts = [
            before.counts[known[id(row)]] if before and id(row) in known else _counts(row, size) for row in self.rows
        ]
        self.counts = mx.stack(counts)

    def apply(self, logits: mx.array) -> mx.array:
        if not self.rows:
            return logits
        mine = logits[self.index]
        seen = self.prompted | (self.counts > 0)
        punished = mx.where(mine > 0, mine / self.repetition, mine * self.repetition)
        mine = mx.where(seen, punished, mine)
        mine = mine - self.presence * (self.counts > 0) - self.frequency * self.counts + self.bias
        return _replaced(logits, self.index, mine)

    def count(self, tokens: mx.array) -> None:
        if self.rows:
            self.counts = self.counts.at[mx.arange(len(self.rows)), tokens[self.index]].add(1.0)

    def state(self) -> list[mx.array]:
        return [self.counts] if self.rows else []


class _Drawn:
    """Rows that sample (all but the greedy ones)."""

    def __init__(self, rows: list[tuple[int, Row]]) -> None:
        self.rows = [row for _, row in rows]
        if not rows:
            return
        self.index = mx.array([i for i, _ in rows])
        rules = [row.sampling for row in self.rows]
        self.temperature = _column([s.temperature for s in rules])
        self.filters = any(s.top_k > 0 or s.top_p < 1 for s in rules)
        self.top_k = mx.array([min(s.top_k or EVERYTHING, EVERYTHING) for s in rules])[:, None]
        self.top_p = _column([s.top_p if s.top_p < 1 else 2.0 for s in rules])
        self.has_min_p = any(s.min_p > 0 for s in rules)
        self.min_p = _column([float(np.log(s.min_p)) if s.min_p > 0 else -np.inf for s in rules])

    def draw(self, scores: mx.array, tokens: mx.array) -> mx.array:
        mine = scores[self.index] / self.temperature
        if self.filters:
            mine = _filtered(mine, self.top_k, self.top_p)
        if self.has_min_p:
            mine = mx.where(mine >= mine.max(axis=-1, keepdims=True) + self.min_p, mine, -mx.inf)
        keys = mx.array(np.array([_key(row.seed, row.launched) for row in self.rows], dtype=np.uint32))
        noise = mx.vmap(lambda key: mx.random.gumbel((scores.shape[-1],), key=key))(keys)
        return _replaced(tokens, self.index, mx.argmax(mine + noise, axis=-1).astype(tokens.dtype))


def _replaced(values: mx.array, index: mx.array, rows: mx.array) -> mx.array:
    if rows.shape[0] == values.shape[0]:
        return rows
    values = values + 0  # the caller's array stays as it is
    values[index] = rows
    return values


def _filtered(scores: mx.array, top_k: mx.array, top_p: mx.array) -> mx.array:
    """Keep the top_k most likely, and of those the fewest whose probability reaches top_p; -inf elsewhere."""
    ordered = -mx.sort(-scores, axis=-1)
    ranked = mx.arange(scores.shape[-1])[None]
    ordered = mx.where(ranked < top_k, ordered, -mx.inf)
    chances = mx.softmax(ordered, axis=-1)
    before = mx.cumsum(chances, axis=-1) - chances
    kept = ((before < top_p) & (ranked < top_k)).sum(axis=-1, keepdims=True)
    threshold = mx.take_along_axis(ordered, mx.maximum(kept - 1, 0), axis=-1)
    return mx.where(scores >= threshold, scores, -mx.inf)


def _key(seed: int, place: int) -> tuple[int, int]:
    """A random key for one token of one row (splitmix64 of the seed and the token's place)."""
    z = (seed + (place + 1) * 0x9E3779B97F4A7C15) & MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    z ^= z >> 31
    return z >> 32, z & 0xFFFFFFFF


def _bias(row: Row, end_ids: frozenset[int], size: int) -> mx.array:
    bias = np.zeros(size, dtype=np.float32)
    for token, value in row.sampling.logit_bias.items():
        bias[token] += value
    if row.launched < row.sampling.min_tokens:
        bias[[token for token in end_ids if token < size]] = -np.inf  # some checkpoints name ends beyond it
    return mx.array(bias)


def _prompted(row: Row, size: int) -> mx.array:
    seen = np.zeros(size, dtype=np.bool_)
    if row.sampling.repetition_penalty != 1:
        seen[np.asarray(row.prompt.token_ids)] = True
    return mx.array(seen)


def _counts(row: Row, size: int) -> mx.array:
    counts: Any = np.bincount(np.asarray(row.generated, dtype=np.int64), minlength=size)
    return mx.array(counts.astype(np.float32))
