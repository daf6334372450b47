"""Runs a plan on MLX: one forward for all decoding rows, prefill chunks, pictures; one host read a step.

Work is submitted, not waited for: `launch` returns at once, and `collect` reads a step's tokens while the device is
already busy with the next one. A row that turns out to have ended rode one step too many; its token is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from paceline.cache.batch import Batch
from paceline.cache.grouping import Grouping
from paceline.engine.compiled import CompiledStep
from paceline.engine.request import TokenLogprob
from paceline.engine.row import Row
from paceline.engine.sampler import Sampled, Sampler, token_logprobs
from paceline.engine.scheduler import Chunk
from paceline.models.loader import LoadedModel
from paceline.models.positions import Positions, dynamic_reach

SCORED_CHUNK = 128  # tokens at a time where every prompt token's logits are wanted: they are wide


@dataclass(frozen=True, slots=True)
class Token:
    row: Row
    token_id: int
    logprob: TokenLogprob | None


@dataclass(slots=True)
class Launched:
    """A step on its way. `wait` are arrays to be evaluated before the step counts as done."""

    rows: list[Row] = field(default_factory=list)
    sampled: Sampled | None = None
    wait: list[mx.array] = field(default_factory=list)


class StepLost(Exception):
    """A step broke after it counted: its tokens are lost, and its rows cannot go on."""

    def __init__(self, launched: Launched) -> None:
        super().__init__("a step was lost")
        self.launched = launched


class Runner:
    def __init__(
        self,
        model: LoadedModel,
        grouping: Grouping,
        end_ids: Callable[[Row], frozenset[int]],
        compiled: CompiledStep | None = None,
    ) -> None:
        self.model = model
        self.language = model.language
        self.grouping = grouping
        self.compiled = compiled
        self.sampler = Sampler(self.language.vocab_size, end_ids)
        self.batch: Batch | None = None
        self.rows: list[Row] = []
        self.tokens: mx.array = mx.array([], dtype=mx.int32)  # each row's next input

    # -- pictures and prompts

    def encode(self, row: Row) -> None:
        """One picture of the row."""
        if self.model.vision is None:
            raise RuntimeError("a picture reached a model without a vision tower")
        features = self.model.vision.encode(row.prompt.images[len(row.encoded)])
        mx.eval(features)
        row.encoded.append(features)

    def prefill(self, chunk: Chunk) -> list[mx.array]:
        """The next tokens of a row's prompt, in a batch of its own. Returns what to wait for."""
        row = chunk.row
        stop = row.prefilled + chunk.tokens
        waits: list[mx.array] = []
        while row.prefilled < stop:
            size = stop - row.prefilled
            if row.sampling.prompt_logprobs is not None:
                size = min(size, SCORED_CHUNK)
            waits = self._prefill(row, row.prefilled, row.prefilled + size)
            row.prefilled += size
        return waits

    def _prefill(self, row: Row, start: int, stop: int) -> list[mx.array]:
        if row.batch is None:
            row.batch = self.language.batch(self.grouping)
            if row.prompt.images and self.model.vision is not None:
                row.places, row.delta = self.model.vision.positions(row.prompt.token_ids, row.prompt.images)
                row.batch.deltas[0] = row.delta
        batch = row.batch
        tokens = mx.array([row.prompt.token_ids[start:stop]])
        inputs: dict[str, Any] = {}
        if row.encoded:
            inputs["input_embeddings"] = self._embeddings(row, tokens, start, stop)
        batch.begin(stop - start, self._prompt_positions(row, start, stop))
        logits = self.language.module(tokens, cache=batch.layers, **inputs)
        batch.commit()
        waits = batch.arrays()
        if row.sampling.prompt_logprobs is not None:
            self._score_prompt(row, logits[0], start, stop)
        mx.async_eval(waits)
        return waits

    def _embeddings(self, row: Row, tokens: mx.array, start: int, stop: int) -> mx.array:
        """Token embeddings, with the pictures' features at their placeholders."""
        if self.model.vision is None:
            raise RuntimeError("a picture reached a model without a vision tower")
        embedded = self.language.embed(tokens)
        is_image = np.asarray(row.prompt.token_ids) == self.model.vision.image_token
        if not is_image[start:stop].any():
            return embedded
        features = row.encoded[0] if len(row.encoded) == 1 else mx.concatenate(row.encoded)
        place = np.maximum(np.cumsum(is_image) - 1, 0)[start:stop]
        pictured = features[mx.array(place)][None].astype(embedded.dtype)
        return mx.where(mx.array(is_image[start:stop])[None, :, None], pictured, embedded)

    def _prompt_positions(self, row: Row, start: int, stop: int) -> Positions | None:
        if row.places is not None:
            return Positions(mx.array(row.places[:, None, start:stop]))
        if self.language.dynamic_rope:
            reach = dynamic_reach(start, stop, len(row.prompt.token_ids))
            return Positions(mx.arange(start, stop)[None], mx.array(reach)[None])
        return None

    def _score_prompt(self, row: Row, logits: mx.array, start: int, stop: int) -> None:
        """Log probabilities of tokens start + 1 to stop, read at once: this request asked for them."""
        following = list(row.prompt.token_ids[start + 1 : stop + 1])
        scored = token_logprobs(logits.astype(mx.float32), mx.array(following), row.sampling.prompt_logprobs or 0)
        if row.prompt_logprobs is not None:
            row.prompt_logprobs += _logprobs(following, *scored)

    # -- decoding

    def decode(self, rows: Sequence[Row]) -> Launched:
        """One token for each of `rows`. Rows join and leave here, between two steps."""
        self._arrange(rows)
        batch = self.batch
        if batch is None:
            return Launched()
        logits, commit = self._logits(batch)
        sampled = self.sampler(logits)
        commit()  # up to here a fault changes nothing, and the step can be run again
        self.tokens = sampled.tokens
        for row in self.rows:
            row.launched += 1
        launched = Launched(list(self.rows), sampled)
        try:
            mx.async_eval(*sampled.arrays(), *batch.states(), *self.sampler.state())
        except Exception as error:
            raise StepLost(launched) from error
        return launched

    def _logits(self, batch: Batch) -> tuple[mx.array, Callable[[], None]]:
        """Logits of every row's next token, and what makes the step count."""
        if self.compiled is not None:
            quick = self.compiled(self.tokens, batch)
            if quick is not None:
                return quick
        positions = None
        if self.language.dynamic_rope:
            lengths = mx.array(batch.lengths)[:, None]
            positions = Positions(lengths, lengths + 1)
        batch.begin(1, positions)
        return self.language.module(self.tokens[:, None], cache=batch.layers)[:, -1], batch.commit

    def collect(self, launched: Launched) -> list[Token]:
        """The step's tokens: the one host read."""
        if launched.wait:
            mx.eval(launched.wait)
        if launched.sampled is None:
            return []
        sampled = launched.sampled
        tokens: Any = sampled.tokens.tolist()
        if sampled.logprobs is None:
            return [Token(row, token, None) for row, token in zip(launched.rows, tokens, strict=True)]
        scores = _logprobs(tokens, sampled.logprobs, sampled.top_ids, sampled.top_logprobs)
        result = []
        for row, token, score in zip(launched.rows, tokens, scores, strict=True):
            asked = row.sampling.logprobs
            kept = None if asked is None else TokenLogprob(token, score.logprob, score.top[:asked])
            result.append(Token(row, token, kept))
        return result

    def _arrange(self, rows: Sequence[Row]) -> None:
        wanted = set(map(id, rows))
        kept = [place for place, row in enumerate(self.rows) if id(row) in wanted]
        changed = len(kept) < len(self.rows)
        if changed:
            self._keep(kept)
        present = set(map(id, self.rows))
        for row in rows:
            if id(row) not in present:
                self._join(row)
                changed = True
        if changed or self.sampler.needs_arranging():
            self.sampler.arrange(self.rows)

    def _keep(self, places: list[int]) -> None:
        self.rows = [self.rows[place] for place in places]
        if not places or self.batch is None:
            self.batch, self.tokens = None, mx.array([], dtype=mx.int32)
            return
        self.batch.keep(places)
        self.tokens = self.tokens[mx.array(places)]

    def _join(self, row: Row) -> None:
        batch = row.batch if row.batch is not None else self.language.batch(self.grouping)
        first = mx.array(row.prompt.token_ids[-1:], dtype=mx.int32)
        if self.batch is None:
            self.batch, self.rows, self.tokens = batch, [row], first
        else:
            place = self.batch.join(batch)
            self.rows.insert(place, row)
            self.tokens = mx.concatenate([self.tokens[:place], first, self.tokens[place:]])
        row.batch, row.encoded, row.places = None, [], None


def _logprobs(
    tokens: list[int], chosen: mx.array, ids: mx.array | None = None, values: mx.array | None = None
) -> list[TokenLogprob]:
    scores: Any = chosen.tolist()
    if ids is None or values is None:
        return [TokenLogprob(token, score) for token, score in zip(tokens, scores, strict=True)]
    columns: tuple[Any, Any] = ids.tolist(), values.tolist()
    tops = [tuple(zip(*pair, strict=True)) for pair in zip(*columns, strict=True)]
    return [TokenLogprob(*item) for item in zip(tokens, scores, tops, strict=True)]
