"""Executes plans on MLX: one forward for all decoding sequences, prefill chunks, images; one host read per step.

Work is submitted, not waited for. A plain step's tokens are read while the device runs the next step; a sequence that
turns out to have ended ran one step too many, and that token is dropped. A speculative step (draft and verify) is read
before the next is built, because the accepted lengths decide where sequences continue; but where the same sequences
repeat the same traced shapes, the device has all it needs, and speculative steps follow each other like plain ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline import platform
from paceline.cache.batch import Batch, Placement
from paceline.cache.features import Features
from paceline.cache.slot_plan import Grouping
from paceline.engine import pooling
from paceline.engine.drafter import Drafter
from paceline.engine.forward import Forward
from paceline.engine.in_flight import InFlightStep, StepLost, Token
from paceline.engine.sampler import Sampled, Sampler, token_logprobs
from paceline.engine.sequence import Sequence
from paceline.models.loader import LoadedModel
from paceline.models.positions import Positions, dynamic_reach
from paceline.types import TokenLogprob

SCORED_CHUNK = 128  # tokens per chunk when logits of every prompt token are needed


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
        self.seqs: list[Sequence] = []
        self.tokens: mx.array = mx.array([], dtype=mx.int32)  # each sequence's next input
        self.features = features if features is not None else Features(0)
        self.low_memory = False  # copy buffers layer by layer
        # Are errors of submitted work reported by a later call? On a CPU they are raised by the call itself.
        self.reports_late = platform.device_kind() != "cpu"
        self.unhook()

    def unhook(self) -> None:
        self.on_checkpoint: Callable[[Sequence, int], list[mx.array]] = (
            lambda seq, stop: []
        )  # the prefill has reached a checkpoint position, or has just passed it
        self.on_leave: Callable[[Sequence], None] = lambda seq: (
            None
        )  # a sequence that has not finished leaves the batch

    # -- images and prompts

    def encode(self, seq: Sequence) -> None:
        """Encode the sequence's next image."""
        if self.model.vision is None:
            raise RuntimeError("an image reached a model without a vision tower")
        image = seq.prompt.images[seq.computed.images]
        key = f"{seq.prompt.salt}/{image.digest}"  # tenants that share no prefixes share no features
        features = self.features.get(key) if seq.prompt.cached else None
        if features is None:
            features = self.model.vision.encode(image)
            mx.eval(features)
            if seq.prompt.cached:
                self.features.put(key, features)
        seq.computed.image_features.append(features)
        seq.computed.images += 1

    def prefill(self, seq: Sequence, tokens: int) -> list[mx.array]:
        """Prefill the next tokens of a sequence, in a batch of its own. Returns arrays to wait for."""
        stop = seq.computed.tokens + tokens
        waits: list[mx.array] = []
        left: list[mx.array] = []  # of checkpoints inside the chunk
        # Every pass costs as much as many tokens. Before skipped tokens it must end: the head does not read on.
        splits = seq.sparse.kept is not None or not self.batch_of(seq).can_record
        while seq.computed.tokens < stop:
            start, end = seq.computed.tokens, stop
            if seq.sampling.prompt_logprobs is not None and not seq.first_delta_sent:
                end = min(end, start + SCORED_CHUNK)
            reached = [position for position in seq.prefix.checkpoint_positions if position <= end]
            if splits and reached:
                end, reached = reached[0], reached[:1]
            waits = self._prefill(seq, start, end, tuple(position for position in reached if position < end))
            seq.computed.tokens = end
            del seq.prefix.checkpoint_positions[: len(reached)]
            for position in reached:
                left += self.on_checkpoint(seq, position)
            seq.draft.inner_hidden = {}  # slices, which hold a whole pass's states
        return waits + left

    def batch_of(self, seq: Sequence) -> Batch:
        """The batch in which a sequence is prefilled; a new one if it has none."""
        if seq.computed.batch is None:
            seq.computed.batch = self.language.batch(self.grouping)
            self._set_position_ids(seq, seq.computed.batch)
        seq.computed.batch.low_memory = self.low_memory
        return seq.computed.batch

    def keep_only(self, seq: Sequence, chosen: NDArray[np.int64], whole: int) -> None:
        """Prefill only these tokens from `dense_prefix` on (see `Sequence.keep_only`); what was prefilled before
        stays."""
        seq.keep_only(chosen, whole)
        self._set_position_ids(seq, self.batch_of(seq))

    def _set_position_ids(self, seq: Sequence, batch: Batch) -> None:
        """Set the positions of a sequence's context where they are not consecutive."""
        prompt = len(seq.prompt.token_ids)
        if seq.prompt.images and self.model.vision is not None:
            places, seq.computed.rope_delta = self.model.vision.positions(seq.prompt.token_ids, seq.prompt.images)
        elif seq.sparse.kept is not None:
            places, seq.computed.rope_delta = np.arange(prompt, dtype=np.int32), 0
        else:
            return
        said = np.arange(prompt, prompt + seq.recomputed, dtype=places.dtype) + seq.computed.rope_delta
        if seq.sparse.kept is not None:
            places = places[..., seq.sparse.kept]
            seq.computed.rope_delta += seq.dropped
        seq.computed.position_ids = np.concatenate(
            [places, np.broadcast_to(said, (*places.shape[:-1], len(said)))], axis=-1
        )
        batch.deltas[0] = seq.computed.rope_delta

    def _prefill(self, seq: Sequence, start: int, stop: int, checkpoints: tuple[int, ...] = ()) -> list[mx.array]:
        """One forward pass, with these positions inside it where a checkpoint can be cut afterwards."""
        batch = self.batch_of(seq)
        tokens = mx.array([seq.context[start:stop]])
        embeddings = self._embeddings(seq, tokens, start, stop) if seq.computed.image_features else None
        inner = tuple(position - start for position in checkpoints)
        batch.begin(stop - start, self._prompt_positions(seq, start, stop), checkpoints=inner)
        if seq.prompt.pooling is not None:
            hidden = self.language.hidden(tokens, batch.layers, embeddings)
            batch.commit()
            seq.computed.pooled = pooling.gathered(seq.computed.pooled, hidden, seq.prompt.pooling)
            waits = [*batch.arrays(), *batch.recorded(), seq.computed.pooled]
            mx.async_eval(waits)
            return waits
        if self.drafter is not None:
            hidden = self.language.hidden(tokens, batch.layers, embeddings)
            logits = self.language.logits(hidden)
        else:
            inputs = {} if embeddings is None else {"input_embeddings": embeddings}
            logits = self.language.module(tokens, cache=batch.layers, **inputs)
        batch.commit()
        waits = batch.arrays() + batch.recorded()
        if self.drafter is not None and seq.feeds_mtp:
            if embeddings is None:
                embeddings = self.language.embed(tokens)
            seq.draft.inner_hidden = {start + count: hidden[:, count - 1 : count] for count in inner}
            waits += self.drafter.prefill(seq, embeddings, hidden, self._pair_positions(seq, start, stop))
        if seq.sampling.prompt_logprobs is not None and not seq.first_delta_sent:
            self._score_prompt(seq, logits[0], start, stop)
        mx.async_eval(waits)
        return waits

    def _embeddings(self, seq: Sequence, tokens: mx.array, start: int, stop: int) -> mx.array:
        """Token embeddings, with image features at their placeholders."""
        if self.model.vision is None:
            raise RuntimeError("an image reached a model without a vision tower")
        embedded = self.language.embed(tokens)
        is_image = np.asarray(seq.context) == self.model.vision.image_token
        is_image[len(seq.context) - seq.recomputed :] = False
        if not is_image[start:stop].any():
            return embedded
        features = (
            seq.computed.image_features[0]
            if len(seq.computed.image_features) == 1
            else mx.concatenate(seq.computed.image_features)
        )
        place = np.maximum(np.cumsum(is_image) - 1 - seq.computed.skipped_image_tokens, 0)[start:stop]
        image_embeddings = features[mx.array(place)][None].astype(embedded.dtype)
        return mx.where(mx.array(is_image[start:stop])[None, :, None], image_embeddings, embedded)

    def _prompt_positions(self, seq: Sequence, start: int, stop: int) -> Positions | None:
        if seq.computed.position_ids is not None:
            return Positions(mx.array(seq.computed.position_ids[..., None, start:stop]))
        if self.language.dynamic_rope:
            reach = dynamic_reach(start, stop, len(seq.prompt.token_ids))
            return Positions(mx.arange(start, stop)[None], mx.array(reach)[None])
        return None

    def _pair_positions(self, seq: Sequence, start: int, stop: int) -> Positions | None:
        """Positions for the MTP head: a pair has the position of its hidden state. The head stops at the first skipped
        token."""
        if seq.computed.position_ids is None or not seq.prompt.images:
            return None
        return Positions(mx.array(seq.computed.position_ids[:, None, max(start - 1, 0) : stop - 1]))

    def _score_prompt(self, seq: Sequence, logits: mx.array, start: int, stop: int) -> None:
        """Logprobs of tokens start + 1 to stop, read at once."""
        following = list(seq.prompt.token_ids[start + 1 : stop + 1])
        scored = token_logprobs(logits.astype(mx.float32), mx.array(following), seq.sampling.prompt_logprobs or 0)
        if seq.prompt_logprobs is not None:
            seq.prompt_logprobs += _logprobs(following, *scored)

    # -- decoding

    def decode(self, seqs: Collection[Sequence], draft_length: int = 0) -> InFlightStep:
        """A decode step for `seqs`, plain or with `draft_length` speculative. Sequences join and leave the batch here.

        If it raises, the sequences are unchanged and can be retried; unless it raises StepLost.
        """
        for batch in self._batches():
            batch.low_memory = self.low_memory
        try:
            self._arrange(seqs)
        except Exception as error:  # some may have joined half-way
            raise StepLost(InFlightStep(list(seqs))) from error
        if self.batch is None:
            return InFlightStep()
        if draft_length and self.drafter is not None:
            return self._speculative_step(self.batch, self.drafter, draft_length)
        return self._plain_step(self.batch)

    def _plain_step(self, batch: Batch) -> InFlightStep:
        positions = None
        if self.language.dynamic_rope:
            lengths = mx.array(batch.lengths)[:, None]
            positions = Positions(lengths, lengths + 1)
        (logits, *hidden), close = self.forward(batch, 1, [self.tokens[:, None]], positions=positions)
        sampled = self.sampler(logits[:, -1], self._allowed([]))
        step = InFlightStep(list(self.seqs), sampled, steady=self.forward.steady)
        with _counting(step):  # before this point a fault changes nothing, and the step can be retried
            close()
            batch.advance([1] * batch.rows)
            self.tokens = sampled.tokens
            for seq in self.seqs:
                seq.scheduled += 1
            if self.drafter is not None:
                self.drafter.add_pending(sampled.tokens[:, None], hidden[0], [1] * batch.rows)
            mx.async_eval(self._unevaluated(step))
        return step

    def _speculative_step(self, batch: Batch, drafter: Drafter, draft_length: int) -> InFlightStep:
        """Draft, verify all draft tokens in one pass, keep the accepted ones: all on the device."""
        draft_tokens = drafter.propose(draft_length, self.sampler.propose)
        tokens = mx.stack([self.tokens, *draft_tokens], axis=1)
        (logits, hidden), close = self.forward(batch, draft_length + 1, [tokens], tentative=True)
        sampled = self.sampler.verify(logits, self.tokens, draft_tokens, self._allowed(draft_tokens))
        assert sampled.kept is not None and sampled.last is not None
        steady = self.forward.steady and drafter.forward.steady
        draft_lengths = [seq.draft.length for seq in self.seqs]
        step = InFlightStep(
            list(self.seqs), sampled, draft_length=draft_length, draft_lengths=draft_lengths, steady=steady
        )
        with _counting(step):  # before this point a fault changes nothing, and the step can be retried
            close()
            batch.apply_accepted(sampled.kept)
            batch.advance_on_device(sampled.kept, draft_length + 1)
            self.tokens = sampled.last
            drafter.add_pending(sampled.tokens, hidden, sampled.kept)
            mx.async_eval(self._unevaluated(step))
        return step

    def _allowed(self, draft_tokens: list[mx.array]) -> mx.array | None:
        """Allowed tokens by the sequences' grammars, now and after each draft token, which the host must read for
        it."""
        if not any(seq.grammar for seq in self.seqs):
            return None
        read: Any = mx.stack(list(draft_tokens), axis=1).tolist() if draft_tokens else [[]] * len(self.seqs)
        allowed = np.ones((len(self.seqs), len(draft_tokens) + 1, self.language.vocab_size), dtype=np.bool_)
        for place, seq in enumerate(self.seqs):
            if seq.grammar is not None and seq.failure is None:
                try:
                    draft_length = seq.draft.length if draft_tokens else 0
                    allowed[place, : draft_length + 1] = seq.grammar.allowed(read[place][:draft_length])
                except Exception as error:  # noqa: BLE001  a failing grammar fails its own sequence only
                    seq.failure = str(error) or type(error).__name__
        return mx.array(allowed if draft_tokens else allowed[:, 0])

    def _unevaluated(self, step: InFlightStep) -> list[mx.array]:
        """All arrays that a step computes."""
        assert step.sampled is not None and self.batch is not None
        drafted = [] if self.drafter is None else self.drafter.arrays()
        return [*step.sampled.arrays(), *self.batch.states(), *self.sampler.state(), *drafted]

    @property
    def can_run_ahead(self) -> bool:
        """May a speculative step be submitted before the last one is read? Not if a sequence's sampling depends on
        it."""
        return self.forward.traces and not self.sampler.counts_tokens and not any(seq.grammar for seq in self.seqs)

    def can_follow(self, step: InFlightStep, seqs: Collection[Sequence], draft_length: int) -> bool:
        """Does a step of `seqs` repeat the pending one, so that the device needs nothing from the host?"""
        if not self.can_run_ahead or self.drafter is None or self.batch is None or draft_length != step.draft_length:
            return False
        if len(self.batch.unsynced) > 1 or set(map(id, seqs)) != set(map(id, self.seqs)):
            return False
        known = self.forward.is_traced(self.batch, draft_length + 1, tentative=True)
        return known and self.drafter.can_run_ahead(draft_length)

    def read(self, step: InFlightStep) -> None:
        """Read how many tokens each sequence keeps of a speculative step. Until then nothing else may be decoded."""
        assert step.sampled is not None and self.batch is not None and self.drafter is not None
        try:
            kept: Any = step.sampled.kept.tolist() if step.sampled.kept is not None else []
        except Exception as error:
            raise StepLost(step) from error
        step.kept = kept
        self.batch.sync_lengths(kept)
        self.drafter.sync_lengths(kept)
        for seq, count in zip(step.seqs, kept, strict=True):
            seq.scheduled += count

    def _states_and_logits(self, inputs: list[mx.array], batch: Batch) -> list[mx.array]:
        hidden = self.language.hidden(inputs[0], batch.layers)
        return [self.language.logits(hidden), hidden]

    def _logits(self, inputs: list[mx.array], batch: Batch) -> list[mx.array]:
        return [self.language.module(inputs[0], cache=batch.layers)]

    def collect(self, step: InFlightStep) -> list[Token]:
        """The step's tokens, in order for each sequence: the one host read."""
        if step.sampled is None:
            return []
        sampled = step.sampled
        tokens: Any = sampled.tokens.tolist()
        if not step.kept:
            tokens = [[token] for token in tokens]
        counts = step.kept or [1] * len(tokens)
        scores = None if sampled.logprobs is None else _scores(sampled)
        result = []
        for place, (seq, count) in enumerate(zip(step.seqs, counts, strict=True)):
            asked = seq.sampling.logprobs
            for column, token in enumerate(tokens[place][:count]):
                kept = None
                if scores is not None and asked is not None:
                    score = scores[place][column]
                    kept = TokenLogprob(token, score.logprob, score.top[:asked])
                result.append(Token(seq, token, kept, drafted=column < count - 1))
        return result

    def await_step(self, step: InFlightStep) -> None:
        """Complete a decode step before anything else is submitted."""
        if step.sampled is not None:
            with _counting(step):
                self.wait(self._unevaluated(step))

    def wait(self, arrays: list[mx.array]) -> None:
        """Wait for submitted work; raises its errors."""
        mx.eval(arrays)

    def probe(self) -> None:
        """The simplest computation; raises if the device is gone."""
        mx.eval(mx.zeros(1) + 1)

    def _arrange(self, seqs: Collection[Sequence]) -> None:
        wanted = set(map(id, seqs))
        kept = [place for place, seq in enumerate(self.seqs) if id(seq) in wanted]
        if len(kept) < len(self.seqs):
            for seq in self.seqs:
                if id(seq) not in wanted and seq.finished is None:
                    self.on_leave(seq)
            self._keep(kept)
        present = set(map(id, self.seqs))
        for seq in seqs:
            if id(seq) not in present:
                self._join(seq)
        if self.sampler.seqs != self.seqs or self.sampler.needs_arranging():  # also after a fault in between
            self.sampler.arrange(self.seqs)

    def remove(self, gone: Collection[Sequence]) -> None:
        """These sequences leave the batch. Nothing of theirs may be in flight."""
        self._keep([place for place, seq in enumerate(self.seqs) if not any(seq is other for other in gone)])
        self.sampler.forget()
        with contextlib.suppress(Exception):  # then the next step evaluates it, and raises the error
            for batch in self._batches():
                batch.evaluate()  # or their buffers stay until that step

    def _batches(self) -> list[Batch]:
        """Of the decoding sequences: the model's, and the MTP head's."""
        both = (self.batch, None if self.drafter is None else self.drafter.batch)
        return [batch for batch in both if batch is not None]

    def reset(self) -> None:
        """The batch cannot be trusted any more: all sequences leave."""
        self._keep([])
        self.sampler.forget()

    def _keep(self, places: list[int]) -> None:
        self.seqs = [self.seqs[place] for place in places]
        if not places or self.batch is None:
            self.batch, self.tokens = None, mx.array([], dtype=mx.int32)
            if self.drafter is not None:
                self.drafter.keep([])
            return
        self.batch.keep(places)
        self.tokens = self.tokens[mx.array(places)]
        if self.drafter is not None:
            self.drafter.keep(places)

    def _join(self, seq: Sequence) -> None:
        batch = seq.computed.batch if seq.computed.batch is not None else self.language.batch(self.grouping)
        first = mx.array(seq.context[-1:], dtype=mx.int32)
        at = Placement(0, None)
        seq.computed.group = seq.number  # groups are named after their first sequence
        if self.batch is None:
            batch.trim()
            self.batch, self.seqs, self.tokens = batch, [seq], first
        else:
            at = self.batch.join(batch)
            if at.group is not None:
                seq.computed.group = self.seqs[at.row - 1].computed.group
            self.seqs.insert(at.row, seq)
            self.tokens = mx.concatenate([self.tokens[: at.row], first, self.tokens[at.row :]])
        if self.drafter is not None:
            self.drafter.join(seq, at)
        seq.computed.batch, seq.computed.image_features, seq.computed.position_ids = None, [], None


@contextmanager
def _counting(step: InFlightStep) -> Iterator[None]:
    """From here on the step is committed: an error loses it."""
    try:
        yield
    except Exception as error:
        raise StepLost(step) from error


def _scores(sampled: Sampled) -> list[list[TokenLogprob]]:
    """Per sequence and token."""
    seqs = sampled.tokens.shape[0]
    parts = [sampled.tokens, sampled.logprobs, sampled.top_ids, sampled.top_logprobs]
    deep = sampled.tokens.ndim  # (rows,) or (rows, width), and one more axis for the top ones
    flat = [None if part is None else part.reshape(sampled.tokens.size, *part.shape[deep:]) for part in parts]
    assert flat[0] is not None and flat[1] is not None
    tokens: Any = flat[0].tolist()
    scores = _logprobs(tokens, flat[1], flat[2], flat[3])
    width = len(scores) // seqs
    return [scores[seq * width : (seq + 1) * width] for seq in range(seqs)]


def _logprobs(
    tokens: list[int], chosen: mx.array, ids: mx.array | None = None, values: mx.array | None = None
) -> list[TokenLogprob]:
    scores: Any = chosen.tolist()
    if ids is None or values is None:
        return [TokenLogprob(token, score) for token, score in zip(tokens, scores, strict=True)]
    columns: tuple[Any, Any] = ids.tolist(), values.tolist()
    tops = [tuple(zip(*pair, strict=True)) for pair in zip(*columns, strict=True)]
    return [TokenLogprob(*item) for item in zip(tokens, scores, tops, strict=True)]
