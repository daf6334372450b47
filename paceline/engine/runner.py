"""Runs a plan on MLX: one forward for all decoding rows, prefill chunks, pictures; one host read a step.

Work is submitted, not waited for. A plain step's tokens are collected while the device is already busy with the next
step; a row that turns out to have ended rode one step too many, and its token is dropped. A round (a step that drafts
and verifies) is read before the next step is built, for how far each row came decides where it goes on; but where
the same rows go on in the same traced shapes, the device knows enough, and rounds follow each other like plain steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline import platform
from paceline.cache.batch import Batch, Placement
from paceline.cache.features import Features
from paceline.cache.slot_plan import Grouping
from paceline.engine import pooling
from paceline.engine.forward import Forward
from paceline.engine.row import Row
from paceline.engine.sampler import Sampled, Sampler, token_logprobs
from paceline.engine.speculate import Drafter
from paceline.models.loader import LoadedModel
from paceline.models.positions import Positions, dynamic_reach
from paceline.types import TokenLogprob

SCORED_CHUNK = 128  # tokens at a time where every prompt token's logits are wanted: they are wide


@dataclass(frozen=True, slots=True)
class Token:
    row: Row
    token_id: int
    logprob: TokenLogprob | None
    guessed: bool = False  # by the draft, and found right


class PromptWork:
    """What a step did for a row that does not decode yet, and the arrays to wait for."""

    __slots__ = ("_setbacks", "arrays", "row")

    def __init__(self, row: Row, arrays: list[mx.array]) -> None:
        self.row, self.arrays, self._setbacks = row, arrays, row.setbacks

    @property
    def stands(self) -> bool:
        """Is it of use still? A row that was set back meanwhile begins again without it."""
        return self.row.finished is None and self.row.setbacks == self._setbacks


@dataclass(slots=True)
class Launched:
    """A step on its way. `waits` must be evaluated before the step counts as done."""

    rows: list[Row] = field(default_factory=list)
    sampled: Sampled | None = None
    waits: list[PromptWork] = field(default_factory=list)
    depth: int = 0  # of a round: the most draft tokens a row had
    depths: list[int] = field(default_factory=list)  # of a round, by row
    kept: list[int] = field(default_factory=list)  # of a round, once it was read: tokens by row
    alone: bool = True  # nothing but decoding ran in this step
    steady: bool = True  # no part of it was traced, or waits to be: its time is what it costs
    prompt_tokens: int = 0  # that were read in this step, beside decoding
    pooled: list[PromptWork] = field(default_factory=list)  # rows whose vectors are ready with this step
    side: float | None = None  # seconds that chunks of sparse prompts have taken so far beside streams; None: none
    scouted: list[PromptWork] = field(default_factory=list)  # rows whose prompts a draft has read on

    @property
    def binding(self) -> bool:
        """Must its tokens be known before anything else is decoded? A grammar goes by them."""
        return any(row.grammar for row in self.rows)

    @property
    def unread(self) -> bool:
        """A round whose outcome the host does not know yet."""
        return self.depth > 0 and not self.kept


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
        *,
        traces: bool = False,
        features: Features | None = None,
    ) -> None:
        self.model = model
        self.language = model.language
        self.grouping = grouping
        self.drafter = None if isinstance(model.head, str) else Drafter(model.head, grouping, traces=traces)
        self.forward = Forward(self._states_and_logits if self.drafter else self._logits, traces=traces)
        self.sampler = Sampler(self.language.vocab_size)
        self.batch: Batch | None = None
        self.rows: list[Row] = []
        self.tokens: mx.array = mx.array([], dtype=mx.int32)  # each row's next input
        self.features = features if features is not None else Features(0)
        self.low_memory = False  # memory is short: buffers are copied layer by layer
        # Is work that went wrong told of later, by whatever is waited for next? On a CPU it is by the call itself.
        self.reports_late = platform.device_kind() != "cpu"
        self.unhook()

    def unhook(self) -> None:
        self.on_stop: Callable[[Row], list[mx.array]] = lambda row: []  # a prefill has come to one of its stops
        self.on_leave: Callable[[Row], None] = lambda row: None  # a row that has not ended leaves the batch

    # -- pictures and prompts

    def encode(self, row: Row) -> None:
        """One picture of the row."""
        if self.model.vision is None:
            raise RuntimeError("a picture reached a model without a vision tower")
        image = row.prompt.images[row.pictured]
        key = f"{row.prompt.salt}/{image.digest}"  # tenants that share nothing do not share this either
        features = self.features.get(key) if row.prompt.cached else None
        if features is None:
            features = self.model.vision.encode(image)
            mx.eval(features)
            if row.prompt.cached:
                self.features.put(key, features)
        row.encoded.append(features)
        row.pictured += 1

    def prefill(self, row: Row, tokens: int) -> list[mx.array]:
        """The next tokens of a row's prompt, in a batch of its own. Returns what to wait for."""
        stop = row.prefilled + tokens
        waits: list[mx.array] = []
        left: list[mx.array] = []  # with others, at a stop inside the chunk
        while row.prefilled < stop:
            size = min(stop, row.stops[0] if row.stops else stop) - row.prefilled
            if row.sampling.prompt_logprobs is not None and not row.greeted:
                size = min(size, SCORED_CHUNK)
            waits = self._prefill(row, row.prefilled, row.prefilled + size)
            row.prefilled += size
            if row.stops and row.prefilled == row.stops[0]:
                del row.stops[0]
                left += self.on_stop(row)
        return waits + left

    def batch_of(self, row: Row) -> Batch:
        """The batch in which a row is prefilled; a new one where it has none."""
        if row.batch is None:
            row.batch = self.language.batch(self.grouping)
            self._place(row, row.batch)
        row.batch.low_memory = self.low_memory
        return row.batch

    def choose(self, row: Row, chosen: NDArray[np.int64], whole: int) -> None:
        """The row's prompt is read sparsely from `whole` on (see `Row.choose`); what was read before stays."""
        row.choose(chosen, whole)
        self._place(row, self.batch_of(row))

    def _place(self, row: Row, batch: Batch) -> None:
        """Where the tokens of a row's context stand, if not simply one behind the other."""
        prompt = len(row.prompt.token_ids)
        if row.prompt.images and self.model.vision is not None:
            places, row.delta = self.model.vision.positions(row.prompt.token_ids, row.prompt.images)
        elif row.chosen is not None:
            places, row.delta = np.arange(prompt, dtype=np.int32), 0
        else:
            return
        said = np.arange(prompt, prompt + row.said, dtype=places.dtype) + row.delta
        if row.chosen is not None:
            places = places[..., row.chosen]
            row.delta += row.dropped
        row.places = np.concatenate([places, np.broadcast_to(said, (*places.shape[:-1], len(said)))], axis=-1)
        batch.deltas[0] = row.delta

    def _prefill(self, row: Row, start: int, stop: int) -> list[mx.array]:
        batch = self.batch_of(row)
        tokens = mx.array([row.context[start:stop]])
        embeddings = self._embeddings(row, tokens, start, stop) if row.encoded else None
        batch.begin(stop - start, self._prompt_positions(row, start, stop))
        if row.prompt.pooling is not None:
            hidden = self.language.hidden(tokens, batch.layers, embeddings)
            batch.commit()
            row.pooled = pooling.gathered(row.pooled, hidden, row.prompt.pooling)
            waits = [*batch.arrays(), row.pooled]
            mx.async_eval(waits)
            return waits
        if self.drafter is not None:
            hidden = self.language.hidden(tokens, batch.layers, embeddings)
            logits = self.language.logits(hidden)
        else:
            inputs = {} if embeddings is None else {"input_embeddings": embeddings}
            logits = self.language.module(tokens, cache=batch.layers, **inputs)
        batch.commit()
        waits = batch.arrays()
        if self.drafter is not None and row.reads:
            if embeddings is None:
                embeddings = self.language.embed(tokens)
            waits += self.drafter.read(row, embeddings, hidden, self._pair_positions(row, start, stop))
        if row.sampling.prompt_logprobs is not None and not row.greeted:
            self._score_prompt(row, logits[0], start, stop)
        mx.async_eval(waits)
        return waits

    def _embeddings(self, row: Row, tokens: mx.array, start: int, stop: int) -> mx.array:
        """Token embeddings, with the pictures' features at their placeholders."""
        if self.model.vision is None:
            raise RuntimeError("a picture reached a model without a vision tower")
        embedded = self.language.embed(tokens)
        is_image = np.asarray(row.context) == self.model.vision.image_token
        is_image[len(row.context) - row.said :] = False
        if not is_image[start:stop].any():
            return embedded
        features = row.encoded[0] if len(row.encoded) == 1 else mx.concatenate(row.encoded)
        place = np.maximum(np.cumsum(is_image) - 1 - row.skipped, 0)[start:stop]
        pictured = features[mx.array(place)][None].astype(embedded.dtype)
        return mx.where(mx.array(is_image[start:stop])[None, :, None], pictured, embedded)

    def _prompt_positions(self, row: Row, start: int, stop: int) -> Positions | None:
        if row.places is not None:
            return Positions(mx.array(row.places[..., None, start:stop]))
        if self.language.dynamic_rope:
            reach = dynamic_reach(start, stop, len(row.prompt.token_ids))
            return Positions(mx.arange(start, stop)[None], mx.array(reach)[None])
        return None

    def _pair_positions(self, row: Row, start: int, stop: int) -> Positions | None:
        """The MTP head's: a pair stands where its hidden state stands. It reads no further than the first gap."""
        if row.places is None or not row.prompt.images:
            return None
        return Positions(mx.array(row.places[:, None, max(start - 1, 0) : stop - 1]))

    def _score_prompt(self, row: Row, logits: mx.array, start: int, stop: int) -> None:
        """Log probabilities of tokens start + 1 to stop, read at once: this request asked for them."""
        following = list(row.prompt.token_ids[start + 1 : stop + 1])
        scored = token_logprobs(logits.astype(mx.float32), mx.array(following), row.sampling.prompt_logprobs or 0)
        if row.prompt_logprobs is not None:
            row.prompt_logprobs += _logprobs(following, *scored)

    # -- decoding

    def decode(self, rows: Sequence[Row], depth: int = 0) -> Launched:
        """A step for each of `rows`: one token, or with `depth` a round. Rows join and leave here, between steps.

        What it raises leaves the rows as they were, and they can be tried again; unless it is a StepLost.
        """
        for batch in self._batches():
            batch.low_memory = self.low_memory
        try:
            self._arrange(rows)
        except Exception as error:  # some may have joined by halves
            raise StepLost(Launched(list(rows))) from error
        if self.batch is None:
            return Launched()
        if depth and self.drafter is not None:
            return self._round(self.batch, self.drafter, depth)
        return self._plain(self.batch)

    def _plain(self, batch: Batch) -> Launched:
        positions = None
        if self.language.dynamic_rope:
            lengths = mx.array(batch.lengths)[:, None]
            positions = Positions(lengths, lengths + 1)
        (logits, *hidden), close = self.forward(batch, 1, [self.tokens[:, None]], positions=positions)
        sampled = self.sampler(logits[:, -1], self._allowed(()))
        launched = Launched(list(self.rows), sampled, steady=self.forward.steady)
        with _counting(launched):  # up to here a fault changes nothing, and the step can be run again
            close()
            batch.advance([1] * batch.rows)
            self.tokens = sampled.tokens
            for row in self.rows:
                row.launched += 1
            if self.drafter is not None:
                self.drafter.set_pending(sampled.tokens[:, None], hidden[0], [1] * batch.rows)
            mx.async_eval(self._unevaluated(launched))
        return launched

    def _round(self, batch: Batch, drafter: Drafter, depth: int) -> Launched:
        """Draft, verify all guesses in one pass, keep what was right: all of it on the device."""
        guesses = drafter.propose(depth, self.sampler.propose)
        tokens = mx.stack([self.tokens, *guesses], axis=1)
        (logits, hidden), close = self.forward(batch, depth + 1, [tokens], tentative=True)
        sampled = self.sampler.verify(logits, self.tokens, guesses, self._allowed(guesses))
        assert sampled.kept is not None and sampled.last is not None
        steady = self.forward.steady and drafter.forward.steady
        depths = [row.depth for row in self.rows]
        launched = Launched(list(self.rows), sampled, depth=depth, depths=depths, steady=steady)
        with _counting(launched):  # up to here a fault changes nothing, and the round can be run again
            close()
            batch.apply_accepted(sampled.kept)
            batch.advance_on_device(sampled.kept, depth + 1)
            self.tokens = sampled.last
            drafter.set_pending(sampled.tokens, hidden, sampled.kept)
            mx.async_eval(self._unevaluated(launched))
        return launched

    def _allowed(self, guesses: Sequence[mx.array]) -> mx.array | None:
        """What the rows' grammars let them say, now and after each guess. They must see the guesses: a host read."""
        if not any(row.grammar for row in self.rows):
            return None
        read: Any = mx.stack(list(guesses), axis=1).tolist() if guesses else [[]] * len(self.rows)
        allowed = np.ones((len(self.rows), len(guesses) + 1, self.language.vocab_size), dtype=np.bool_)
        for place, row in enumerate(self.rows):
            if row.grammar is not None and row.failure is None:
                try:
                    depth = row.depth if guesses else 0
                    allowed[place, : depth + 1] = row.grammar.allowed(read[place][:depth])
                except Exception as error:  # noqa: BLE001  a grammar that fails is its own row's trouble
                    row.failure = str(error) or type(error).__name__
        return mx.array(allowed if guesses else allowed[:, 0])

    def _unevaluated(self, launched: Launched) -> list[mx.array]:
        """All that a step computes."""
        assert launched.sampled is not None and self.batch is not None
        drafted = [] if self.drafter is None else self.drafter.arrays()
        return [*launched.sampled.arrays(), *self.batch.states(), *self.sampler.state(), *drafted]

    @property
    def runs_ahead(self) -> bool:
        """May a round be submitted before the last one was read? Not where a row's rules go by its tokens so far."""
        return self.forward.traces and not self.sampler.counts_tokens and not any(row.grammar for row in self.rows)

    def follows(self, launched: Launched, rows: Sequence[Row], depth: int) -> bool:
        """Is a round of `rows` just like the unread one, so that the device needs no word from the host?"""
        if not self.runs_ahead or self.drafter is None or self.batch is None or depth != launched.depth:
            return False
        if len(self.batch.unsynced) > 1 or set(map(id, rows)) != set(map(id, self.rows)):
            return False
        known = self.forward.is_traced(self.batch, depth + 1, tentative=True)
        return known and self.drafter.can_run_ahead(depth)

    def read(self, launched: Launched) -> None:
        """A round's outcome: how many tokens each row keeps. Until then nothing else may be decoded."""
        assert launched.sampled is not None and self.batch is not None and self.drafter is not None
        try:
            kept: Any = launched.sampled.kept.tolist() if launched.sampled.kept is not None else []
        except Exception as error:
            raise StepLost(launched) from error
        launched.kept = kept
        self.batch.sync_lengths(kept)
        self.drafter.sync_lengths(kept)
        for row, count in zip(launched.rows, kept, strict=True):
            row.launched += count

    def _states_and_logits(self, inputs: Sequence[mx.array], batch: Batch) -> list[mx.array]:
        hidden = self.language.hidden(inputs[0], batch.layers)
        return [self.language.logits(hidden), hidden]

    def _logits(self, inputs: Sequence[mx.array], batch: Batch) -> list[mx.array]:
        return [self.language.module(inputs[0], cache=batch.layers)]

    def collect(self, launched: Launched) -> list[Token]:
        """The step's tokens, each row's in order: the one host read."""
        if launched.sampled is None:
            return []
        sampled = launched.sampled
        tokens: Any = sampled.tokens.tolist()
        if not launched.kept:
            tokens = [[token] for token in tokens]
        counts = launched.kept or [1] * len(tokens)
        scores = None if sampled.logprobs is None else _scores(sampled)
        result = []
        for place, (row, count) in enumerate(zip(launched.rows, counts, strict=True)):
            asked = row.sampling.logprobs
            for step, token in enumerate(tokens[place][:count]):
                kept = None
                if scores is not None and asked is not None:
                    score = scores[place][step]
                    kept = TokenLogprob(token, score.logprob, score.top[:asked])
                result.append(Token(row, token, kept, guessed=step < count - 1))
        return result

    def await_step(self, launched: Launched) -> None:
        """Have a decode step done before anything else is submitted."""
        if launched.sampled is not None:
            with _counting(launched):
                self.wait(self._unevaluated(launched))

    def wait(self, arrays: list[mx.array]) -> None:
        """For what was submitted; raises what went wrong with it."""
        mx.eval(arrays)

    def probe(self) -> None:
        """The plainest work there is; raises if the device cannot do even that."""
        mx.eval(mx.zeros(1) + 1)

    def _arrange(self, rows: Sequence[Row]) -> None:
        wanted = set(map(id, rows))
        kept = [place for place, row in enumerate(self.rows) if id(row) in wanted]
        if len(kept) < len(self.rows):
            for row in self.rows:
                if id(row) not in wanted and row.finished is None:
                    self.on_leave(row)
            self._keep(kept)
        present = set(map(id, self.rows))
        for row in rows:
            if id(row) not in present:
                self._join(row)
        if self.sampler.rows != self.rows or self.sampler.needs_arranging():  # also after a fault in between
            self.sampler.arrange(self.rows)

    def take_out(self, gone: Sequence[Row]) -> None:
        """These leave the batch; nothing of theirs may be under way."""
        self._keep([place for place, row in enumerate(self.rows) if not any(row is other for other in gone)])
        self.sampler.forget()
        with contextlib.suppress(Exception):  # then the next step computes it, and says what is wrong
            for batch in self._batches():
                batch.evaluate()  # or what they held stays until that step

    def _batches(self) -> list[Batch]:
        """Of the rows that decode: the model's, and the head's."""
        both = (self.batch, None if self.drafter is None else self.drafter.batch)
        return [batch for batch in both if batch is not None]

    def reset(self) -> None:
        """Nothing that the batch holds can be trusted any more: all rows leave."""
        self._keep([])
        self.sampler.forget()

    def _keep(self, places: list[int]) -> None:
        self.rows = [self.rows[place] for place in places]
        if not places or self.batch is None:
            self.batch, self.tokens = None, mx.array([], dtype=mx.int32)
            if self.drafter is not None:
                self.drafter.keep([])
            return
        self.batch.keep(places)
        self.tokens = self.tokens[mx.array(places)]
        if self.drafter is not None:
            self.drafter.keep(places)

    def _join(self, row: Row) -> None:
        batch = row.batch if row.batch is not None else self.language.batch(self.grouping)
        first = mx.array(row.context[-1:], dtype=mx.int32)
        at = Placement(0, None)
        row.group = row.number  # groups are named after their first row
        if self.batch is None:
            batch.trim()
            self.batch, self.rows, self.tokens = batch, [row], first
        else:
            at = self.batch.join(batch)
            if at.group is not None:
                row.group = self.rows[at.row - 1].group
            self.rows.insert(at.row, row)
            self.tokens = mx.concatenate([self.tokens[: at.row], first, self.tokens[at.row :]])
        if self.drafter is not None:
            self.drafter.join(row, at)
        row.batch, row.encoded, row.places = None, [], None


@contextmanager
def _counting(launched: Launched) -> Iterator[None]:
    """A step that begins to count: whatever breaks now, breaks it for good."""
    try:
        yield
    except Exception as error:
        raise StepLost(launched) from error


def _scores(sampled: Sampled) -> list[list[TokenLogprob]]:
    """By row and token."""
    rows = sampled.tokens.shape[0]
    parts = [sampled.tokens, sampled.logprobs, sampled.top_ids, sampled.top_logprobs]
    deep = sampled.tokens.ndim  # (rows,) or (rows, width), and for the top ones an axis more
    flat = [None if part is None else part.reshape(sampled.tokens.size, *part.shape[deep:]) for part in parts]
    assert flat[0] is not None and flat[1] is not None
    tokens: Any = flat[0].tolist()
    scores = _logprobs(tokens, flat[1], flat[2], flat[3])
    width = len(scores) // rows
    return [scores[row * width : (row + 1) * width] for row in range(rows)]


def _logprobs(
    tokens: list[int], chosen: mx.array, ids: mx.array | None = None, values: mx.array | None = None
) -> list[TokenLogprob]:
    scores: Any = chosen.tolist()
    if ids is None or values is None:
        return [TokenLogprob(token, score) for token, score in zip(tokens, scores, strict=True)]
    columns: tuple[Any, Any] = ids.tolist(), values.tolist()
    tops = [tuple(zip(*pair, strict=True)) for pair in zip(*columns, strict=True)]
    return [TokenLogprob(*item) for item in zip(tokens, scores, tops, strict=True)]
