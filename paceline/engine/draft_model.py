"""A draft model as a proposer: a smaller model with the target's tokenizer, in a batch of its own.

It reads a sequence by itself, in chunks beside the steps in which the sequence decodes already (`read`); then the
sequence joins the draft's batch. So it depends on nothing that the target computed: prefixes that were restored, and
sequences that were preempted, are read again. A sequence that it has not read drafts with others meanwhile.

`propose` first reads the tokens that were accepted since, and then drafts from there. What it computed for draft tokens
that are accepted stays: keys and values by length, and recurrent states because every one on the way is kept until the
step is read. An error of the draft model ends drafting with it for the sequences concerned, and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from paceline.cache.batch import Batch
from paceline.cache.layers import StateCache
from paceline.cache.slot_plan import Grouping, Placement
from paceline.engine.drafter import Choose
from paceline.engine.forward import Forward
from paceline.engine.proposer import DeviceProposer
from paceline.engine.sequence import Sequence
from paceline.models import check
from paceline.models.adapter import Adapted

log = logging.getLogger("paceline")
MAX_FAILURES = 3  # in a row, before it is not used any more

States = list[list[mx.array | None]]  # of the recurrent layers


@dataclass(slots=True)
class _Proposal:
    counts: list[int]  # tokens of each of the draft's rows that were read before drafting
    trail: list[States]  # the states then, and after each draft token that was read
    drafted: dict[int, int]  # by the sequence's identity: its row in the target's batch
    committed: bool = False


class DraftModelProposer(DeviceProposer):
    method = "draft_model"

    def __init__(self, model: Adapted, vocab_size: int, grouping: Grouping, *, traces: bool = False) -> None:
        """`vocab_size`: the target's; logits are cut or padded to it."""
        self.model = model
        self.vocab_size = vocab_size
        self.grouping = grouping
        self.forward = Forward(self._last_logits, traces=traces)
        self.batch: Batch | None = None
        self.rows: list[Sequence | None] = []  # of its batch; None: padding
        self.failures = 0  # in a row
        self._has_states = check.hidden_size(model) is not None
        self._proposal: _Proposal | None = None
        self._read: list[Sequence] = []  # they join the batch before the next step

    def _last_logits(self, inputs: list[mx.array], batch: Batch) -> list[mx.array]:
        """Of each row's tokens, the logits at `last`."""
        tokens, last = inputs
        tokens = mx.minimum(tokens, self.model.vocab_size - 1)  # the target may have padding that can be sampled
        outputs = self.model.hidden(tokens, batch.layers) if self._has_states else self._logits(tokens, batch)
        if outputs.shape[1] > 1:
            outputs = mx.take_along_axis(outputs, last[:, None, None], axis=1)
        return [(self.model.logits(outputs) if self._has_states else outputs)[:, 0]]

    def _logits(self, tokens: mx.array, batch: Batch) -> mx.array:
        logits: mx.array = self.model.module(tokens, cache=batch.layers)
        return logits

    @property
    def broken(self) -> bool:
        return self.failures >= MAX_FAILURES

    # -- reading

    def read(self, seq: Sequence, tokens: int) -> None:
        """Read the next tokens of a sequence. Never raises: a sequence that cannot be read does not draft with it."""
        try:
            if self.broken:
                seq.draft_model_off = True
            elif not seq.draft.joined:
                self._read_alone(seq, tokens)
            elif self._proposal is None:
                self._read_on(tokens)
        except Exception as error:  # noqa: BLE001  no draft is worth a sequence
            self._failed(error, [seq])

    def _read_alone(self, seq: Sequence, tokens: int) -> None:
        batch = seq.draft.reader or self.model.batch(self.grouping)
        ids = _tokens(seq, seq.draft.read, min(seq.draft.read + tokens, _known(seq) - 1))
        if ids:
            width = self.grouping.buckets.width(len(ids))
            batch.begin(width, valid=[len(ids)])
            self._last_logits([mx.array([ids + [0] * (width - len(ids))]), mx.array([0])], batch)
            batch.commit()
            mx.async_eval(batch.arrays())
        seq.draft.reader, seq.draft.read = batch, seq.draft.read + len(ids)
        if seq.draft_is_near:
            self._read.append(seq)

    def _read_on(self, tokens: int) -> None:
        """All rows of the batch: they fall behind together while something else drafts, or nothing does."""
        batch = self.batch
        assert batch is not None
        pairs = list(zip(self.rows, batch.lengths, strict=True))
        counts = [0 if seq is None else max(min(tokens, _known(seq) - 1 - length), 0) for seq, length in pairs]
        if max(counts) == 0:
            return
        width = self.grouping.buckets.width(max(counts))
        ids = np.zeros((len(counts), width), dtype=np.int32)
        for row, ((seq, length), count) in enumerate(zip(pairs, counts, strict=True)):
            if seq is not None and count:
                ids[row, :count] = _tokens(seq, length, length + count)
        _, close = self.forward(batch, width, [mx.array(ids), mx.zeros((len(counts),), dtype=mx.int32)], valid=counts)
        close()
        self._advance(counts)
        mx.async_eval(batch.arrays())

    # -- batch membership

    def begin_step(self, seqs: Collection[Sequence]) -> None:
        """Sequences that were read join. Nothing that it proposed is waiting to be read."""
        self._proposal = None
        joining, self._read = self._read, []
        decoding = set(map(id, seqs))
        for seq in joining:
            if id(seq) in decoding and seq.draft.reader is not None and not seq.draft.joined:
                try:
                    self._join(seq, seq.draft.reader)
                except Exception as error:  # noqa: BLE001
                    self._failed(error, [seq])

    def _join(self, seq: Sequence, batch: Batch) -> None:
        if self.batch is None:
            batch.trim()
            self.batch, self.rows = batch, [seq]
        else:
            at = self.batch.join(batch)
            at.put(self.rows, seq, None)
        seq.draft.reader, seq.draft.joined = None, True

    def join(self, seq: Sequence, at: Placement) -> None:
        """It has rows of its own, which sequences join later."""

    def keep(self, rows: list[int], seqs: Collection[Sequence]) -> None:
        kept = set(map(id, seqs))
        mine = [row for row, seq in enumerate(self.rows) if seq is not None and id(seq) in kept]
        if not mine or self.batch is None:
            self.clear()
            return
        for seq in self.rows:
            if seq is not None and id(seq) not in kept:
                seq.draft.joined, seq.draft.read = False, 0
        before, order = self.rows, self.batch.keep(mine)
        self.rows = [None if row is None else before[row] for row in order]
        self._proposal = None

    def clear(self) -> None:
        for seq in self.rows:
            if seq is not None:
                seq.draft.joined, seq.draft.read = False, 0
        self.batch, self.rows, self._proposal = None, [], None

    # -- a step

    def can_run_ahead(self, length: int) -> bool:
        """It reads tokens that the host knows."""
        return False

    def propose(self, length: int, choose: Choose, rows: list[Sequence | None], inputs: mx.array) -> list[mx.array]:
        """Empty after an error: then the step does without."""
        drafting = {id(seq): row for row, seq in enumerate(rows) if seq is not None and seq.drafts_on_device}
        try:
            found = self._propose(length, choose, rows, inputs, drafting)
            self.failures = 0
            return found
        except Exception as error:  # noqa: BLE001  no draft is worth a step
            self._failed(error, [seq for seq in rows if seq is not None and id(seq) in drafting])
            return []

    def _propose(
        self,
        length: int,
        choose: Choose,
        rows: list[Sequence | None],
        inputs: mx.array,
        drafting: dict[int, int],
    ) -> list[mx.array]:
        batch = self.batch
        assert batch is not None
        lags = [0 if seq is None else seq.length + 1 - n for seq, n in zip(self.rows, batch.lengths, strict=True)]
        most = max(lag for seq, lag in zip(self.rows, lags, strict=True) if id(seq) in drafting)
        width = self._width(most)
        counts = [min(lag, most) for lag in lags]
        ids = np.zeros((len(counts), width), dtype=np.int32)
        for row, (seq, count) in enumerate(zip(self.rows, counts, strict=True)):
            if seq is not None:
                known = _tokens(seq, batch.lengths[row], batch.lengths[row] + count)
                ids[row, : len(known)] = known
        places = {id(seq): row for row, seq in enumerate(rows) if seq is not None}
        to_target = mx.array([places.get(id(seq), 0) for seq in self.rows])
        # The last token of a row that is read to its end is the step's input, which the host may not have read yet.
        ends = [count - 1 if count == lag else -1 for count, lag in zip(counts, lags, strict=True)]
        is_input = mx.arange(width)[None] == mx.array(ends)[:, None]
        tokens = mx.where(is_input, inputs[to_target][:, None], mx.array(ids))
        mine = {id(seq): row for row, seq in enumerate(self.rows) if seq is not None}
        spread = mx.array([0 if seq is None else mine.get(id(seq), 0) for seq in rows])
        last = mx.array([max(count - 1, 0) for count in counts], dtype=mx.int32)
        point, states = batch.rollback_point(), self._states()
        try:
            batch.reserve(width + length)
            (logits,), close = self.forward(batch, width, [tokens, last], valid=counts)
            close()
            batch.advance(counts)
            trail, drafted, zero = [self._states()], list[mx.array](), mx.zeros_like(last)
            while True:
                drafted.append(choose(self._fitted(logits)[spread], len(drafted), drafted))
                if len(drafted) == length:
                    break
                (logits,), close = self.forward(batch, 1, [drafted[-1][to_target][:, None], zero])
                close()
                batch.advance([1] * batch.rows)
                trail.append(self._states())
        finally:
            batch.roll_back(point)
            self._put_states(states)
        self._proposal = _Proposal(counts, trail, drafting)
        return drafted

    def _width(self, tokens: int) -> int:
        """Few widths where shapes are traced: as many as drafts have, and then those of prompts."""
        buckets = self.grouping.buckets
        return buckets.draft_length(tokens) if tokens <= self.longest else buckets.width(tokens)

    def _fitted(self, logits: mx.array) -> mx.array:
        short = self.vocab_size - logits.shape[-1]
        if short > 0:
            return mx.pad(logits, [(0, 0), (0, short)], constant_values=-mx.inf)
        return logits[:, : self.vocab_size]

    def add_pending(self, tokens: mx.array, hidden: Any, counts: list[int] | mx.array) -> None:
        """The step is committed: so is what was read for it."""
        if self._proposal is not None:
            self._put_states(self._proposal.trail[0])
            self._advance(self._proposal.counts)
            self._proposal.committed = True

    def sync_lengths(self, kept: list[int]) -> None:
        """Draft tokens that were accepted, and read to draft the next, need not be read again."""
        proposal, batch, self._proposal = self._proposal, self.batch, None
        if proposal is None or batch is None or not proposal.committed:
            return
        most = len(proposal.trail) - 1
        more = [0] * batch.rows
        for row, seq in enumerate(self.rows):
            if id(seq) in proposal.drafted:
                more[row] = min(kept[proposal.drafted[id(seq)]] - 1, most)
        if max(more):
            self._put_states(_chosen(proposal.trail, more))
            self._advance(more)

    def arrays(self) -> list[mx.array]:
        """What the step's proposal has computed."""
        proposal = self._proposal
        if proposal is None or self.batch is None:
            return []
        states = [array for states in proposal.trail for layer in states for array in layer if array is not None]
        return [*states, *self.batch.arrays()]

    # -- internal

    def _advance(self, counts: list[int]) -> None:
        assert self.batch is not None
        self.batch.advance(counts)
        for seq, length in zip(self.rows, self.batch.lengths, strict=True):
            if seq is not None:
                seq.draft.read = length

    def _state_caches(self) -> list[StateCache]:
        return [] if self.batch is None else [cache for cache in self.batch.flat if isinstance(cache, StateCache)]

    def _states(self) -> States:
        return [list(cache.current) for cache in self._state_caches()]

    def _put_states(self, states: States) -> None:
        for cache, values in zip(self._state_caches(), states, strict=True):
            cache.current = list(values)

    def _failed(self, error: Exception, seqs: Collection[Sequence]) -> None:
        self.failures += 1
        log.warning("the draft model failed, and %d sequences draft without it: %s", len(seqs), error)
        if self.broken:
            log.error("the draft model failed %d times in a row, and is not used any more", self.failures)
        for seq in seqs:
            seq.draft_model_off, seq.draft.reader = True, None
        self.clear()


def why_not(model: Adapted) -> str | None:
    """Why a model cannot draft in a batch; None: it can."""
    if model.dynamic_rope:
        return "its positions depend on the length of the text"
    if not model.skips_tokens:
        return "its recurrent layers cannot read rows of different lengths together"
    return None


def _known(seq: Sequence) -> int:
    """Tokens of a sequence that the host knows."""
    return len(seq.context) + len(seq.generated) - seq.recomputed


def _tokens(seq: Sequence, start: int, stop: int) -> list[int]:
    """A sequence's tokens as its target has read them, as far as the host knows them."""
    size, shift = len(seq.context), seq.recomputed - len(seq.context)
    later = seq.generated[max(start, size) + shift : max(stop, size) + shift]
    return [*seq.context[start:stop], *later]


def _chosen(trail: list[States], steps: list[int]) -> States:
    """The states of row i after step `steps[i]`."""
    if len(set(steps)) == 1:
        return trail[steps[0]]
    index, rows = mx.array(steps), mx.arange(len(steps))
    found: States = []
    for layers in zip(*trail, strict=True):
        arrays = [mx.stack(list(values))[index, rows] for values in zip(*layers, strict=True)]
        found.append(list(arrays))
    return found
