"""A draft model scores a prompt's tokens by how much they matter for the output, as in SpecPrefill.

The draft prefills the prompt in chunks and decodes a few look-ahead tokens. Their attention over the prompt is the
published score: smoothed along the prompt, the maximum over layers and heads, the mean over the look-ahead. The same is
computed for the prompt's last tokens, which usually are the question, and the larger of the two counts: the answer of a
small draft is often wrong, and attends to the wrong places. Work is submitted and not waited for; only `scores` waits.

The draft has a small prefix cache of its own, so that a shared system prompt is read once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline.cache import kv_snapshot
from paceline.cache.kv_snapshot import Checkpoint, Segment
from paceline.cache.prefix import PrefixCache
from paceline.cache.radix import PrefixKey
from paceline.cache.slot_plan import ROWS
from paceline.models.adapter import Adapted

LOOK_AHEAD = 8
OBSERVED = 32  # last tokens of the prompt whose attention counts too
POOL = 13  # tokens over which scores are smoothed


@dataclass(slots=True)
class AttentionScores:
    """The attention of each token of a forward pass over the prompt: called with every layer's queries and keys, it
    keeps the maximum. One token after another, because many at once would take memory for each; all in the same shape,
    because a GPU pays for new ones."""

    prompt: int
    first: int  # the first token's position
    most: mx.array | None = None

    def __call__(self, queries: mx.array, keys: mx.array, scale: float) -> None:
        tokens = range(queries.shape[2])
        found = mx.stack([self._attention(queries[0, :, place], keys[0], place, scale) for place in tokens])
        self.most = found if self.most is None else mx.maximum(self.most, found)

    def _attention(self, queries: mx.array, keys: mx.array, place: int, scale: float) -> mx.array:
        heads, size = queries.shape
        kv_heads = keys.shape[0]
        grouped = queries.reshape(kv_heads, heads // kv_heads, size)
        weights = (grouped @ keys[:, : self.prompt].swapaxes(1, 2)).astype(mx.float32) * scale
        seen = mx.arange(self.prompt) <= self.first + place
        probabilities = mx.softmax(mx.where(seen, weights, -mx.inf).reshape(heads, self.prompt), axis=-1)
        return mx.max(smooth(probabilities), axis=0)


def smooth(probabilities: mx.array) -> mx.array:
    """The mean over POOL neighbours along the last axis, over fewer at the ends."""
    count = probabilities.shape[-1]
    side = POOL // 2
    sums = mx.pad(mx.cumsum(probabilities, axis=-1), [(0, 0)] * (probabilities.ndim - 1) + [(1, 0)])
    low = mx.maximum(mx.arange(count) - side, 0)
    high = mx.minimum(mx.arange(count) + side + 1, count)
    return (sums[..., high] - sums[..., low]) / (high - low)


class Draft:
    """The draft model and its prefix cache.

    `window`: in prefill a token attends only to its chunk and so many tokens before it, so that the cost is linear in
    the prompt's length. The last tokens and the look-ahead always see the whole prompt.
    """

    def __init__(self, language: Adapted, cache: PrefixCache | None = None, window: int | None = None) -> None:
        self.language = language
        self.window = window
        self.cache = cache
        if cache is not None:
            cache.anywhere = not kv_snapshot.needs_checkpoints(language.batch(ROWS))

    def scorer(self, tokens: Sequence[int], boundaries: Sequence[int] = (), salt: str | None = "") -> PromptScorer:
        """A scorer for one prompt. It shares prefixes only with prompts of the same `salt`; None: with none."""
        return PromptScorer(self, tokens, boundaries, salt)


class PromptScorer:
    """Scores one prompt: `read` until nothing is `left`, then `scores`."""

    def __init__(self, draft: Draft, tokens: Sequence[int], boundaries: Sequence[int], salt: str | None) -> None:
        self.draft = draft
        self.tokens = np.asarray(tokens, dtype=np.int64)
        self.batch = draft.language.batch(ROWS)
        self.batch.near = draft.window
        self.done = self.restored = 0
        self._observed = max(len(self.tokens) - OBSERVED, 0)  # where the last tokens begin
        self._last: list[mx.array] = []  # their scores, once they are read
        self._scores: Any = None
        self._root = None if salt is None or draft.cache is None else hashlib.sha256(salt.encode()).hexdigest()[:32]
        self._restore()
        # Other prompts share the system prompt and turns; the end is for an exact repeat.
        ahead = [boundary for boundary in boundaries if self.done < boundary < self._observed]
        self._stops = sorted({*ahead[:1], *ahead[-2:], self._observed})

    @property
    def left(self) -> int:
        return len(self.tokens) - self.done

    def read(self, count: int) -> list[mx.array]:
        """Prefill the next tokens and, after the last one, the look-ahead. Returns the arrays to wait for."""
        stop = min(self.done + count, len(self.tokens))
        while self.done < stop:
            ahead = [place for place in self._stops if place > self.done]
            if ahead:
                end = min(stop, ahead[0])
                self._forward(mx.array(self.tokens[None, self.done : end]))
            else:
                end = len(self.tokens)  # in one pass, whatever is left of the chunk
                self.batch.near = None
                logits = self._observe(mx.array(self.tokens[None, self.done : end]), self._last)
            self.done = end
            if ahead and end == ahead[0]:
                self._publish()
        if self.left:
            waits = self.batch.arrays()
        else:
            self._scores = self._look_ahead(logits)
            waits = [self._scores]
        mx.async_eval(waits)
        return waits

    def scores(self) -> NDArray[np.float32]:
        """A score for every token of the prompt. Waits for the device."""
        return np.array(self._scores, dtype=np.float32)

    def _forward(self, tokens: mx.array) -> mx.array:
        self.batch.begin(tokens.shape[1])
        logits: mx.array = self.draft.language.module(tokens, cache=self.batch.layers)
        self.batch.commit()
        return logits[:, -1]

    def _observe(self, tokens: mx.array, found: list[mx.array]) -> mx.array:
        self.batch.watch = watch = AttentionScores(len(self.tokens), self.batch.lengths[0])
        logits = self._forward(tokens)
        self.batch.watch = None
        if watch.most is None:
            raise RuntimeError("the draft has no layer that sees all of a prompt")
        found.append(watch.most)
        return logits

    def _look_ahead(self, logits: mx.array) -> mx.array:
        found: list[mx.array] = []
        for _ in range(LOOK_AHEAD):
            logits = self._observe(mx.argmax(logits, axis=-1)[:, None], found)
        last, ahead = (mx.mean(mx.concatenate(each), axis=0) for each in (self._last, found))
        return mx.maximum(last, ahead)

    # -- prefix cache

    def _restore(self) -> None:
        cache = self.draft.cache
        if cache is None or self._root is None:
            return
        hit = cache.find(self._root, self.tokens[: self._observed])
        if not hit.nodes:
            return
        try:
            segments, checkpoint = hit.kv_snapshot()
            room = len(self.tokens) - hit.length + LOOK_AHEAD
            kv_snapshot.fill(self.batch, hit.length, [segment.arrays for segment in segments], checkpoint, room)
            cache.use(hit)
            self.done = self.restored = hit.length
        finally:
            cache.release(hit.nodes[-1])

    def _publish(self) -> None:
        cache = self.draft.cache
        if cache is None or self._root is None:
            return
        key: PrefixKey = self.tokens[: self.done]
        start, whole = cache.covered(self._root, key)
        segment = None
        if start < self.done:
            segment = Segment(kv_snapshot.cut_segment(self.batch, 0, start, self.done))
        checkpoint = None
        if not whole and not cache.anywhere:
            checkpoint = Checkpoint(kv_snapshot.cut_checkpoint(self.batch, 0, self.done))
        if segment is None and checkpoint is None:
            return
        mx.async_eval([*([] if segment is None else segment.all()), *([] if checkpoint is None else checkpoint.all())])
        cache.release(cache.store(self._root, key, segment, checkpoint, ""))
