"""The proposer on the device: drafting for all sequences of a batch with the MTP head.

After every step the head has pending pairs: a hidden state of the target, and the token that followed. `propose` feeds
them and drafts from there; the keys and values of draft tokens are rolled back by length. Pairs of steps without
drafting are skipped, not caught up with: the head then has a gap, its positions stay right, and its drafts may be
poorer. Draft tokens are never delivered unverified.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline.cache import stacking
from paceline.cache.batch import Batch
from paceline.cache.layers import joined, take_rows
from paceline.cache.slot_plan import Grouping, Placement
from paceline.engine.forward import Forward
from paceline.engine.proposer import DeviceProposer
from paceline.engine.sequence import Sequence
from paceline.models.mtp import MTPHead
from paceline.models.positions import Positions

# Logits, position in the draft, draft tokens before -> tokens
Choose = Callable[[mx.array, int, list[mx.array]], mx.array]


@dataclass(slots=True)
class PendingPairs:
    """Pairs that the head has not read: row i's are the first `counts[i]`."""

    tokens: mx.array  # (rows, width)
    hidden: mx.array  # (rows, width, hidden)
    counts: list[int] | mx.array  # an array: the host has not read them yet


class Drafter(DeviceProposer):
    method = "mtp"

    def __init__(self, head: MTPHead, grouping: Grouping, *, traces: bool = False) -> None:
        self.head = head
        self.grouping = grouping
        self.forward = Forward(self._draft, traces=traces)
        padded = bool(grouping.buckets.widths)
        self.first_chunks = Forward(self._read, traces=traces and padded)  # of prompts
        self.later_chunks = Forward(self._read, traces=traces and padded)
        self.batch: Batch | None = None
        self.pending: PendingPairs | None = None
        self._consumed = False

    def _draft(self, inputs: list[mx.array], batch: Batch) -> list[mx.array]:
        """Of each row's pairs, the hidden state at `last`, and its logits."""
        tokens, hidden, last = inputs
        states = self.head.hidden(self.head.language.embed(tokens), hidden, batch)
        if states.shape[1] > 1:
            states = mx.take_along_axis(states, last[:, None, None], axis=1)
        return [states, self.head.logits(states)[:, 0]]

    # -- prefill

    def _read(self, inputs: list[mx.array], batch: Batch) -> list[mx.array]:
        """Pairs of prompts: only the head's keys and values are used of it."""
        tokens, hidden, *before = inputs
        embeddings = self.head.language.embed(tokens) if tokens.ndim == 2 else tokens
        if before:
            hidden = mx.concatenate([*before, hidden[:, :-1]], axis=1)
        self.head.hidden(embeddings, hidden, batch)
        return []

    def prefill(
        self,
        seqs: list[Sequence],
        inputs: NDArray[np.int32] | mx.array,
        hidden: mx.array,
        sizes: list[int],
        positions: Positions | None,
        *,
        traced: bool = False,
    ) -> list[list[mx.array]]:
        """Read the next chunk of prompts: token ids, or embeddings as the target got them, and the target's hidden
        states; of each sequence so many, the others are padding. Either all sequences begin here, or none does.

        `positions` are those of the chunk's tokens but the last, after the one before the chunk. The last hidden state
        is kept: its pair waits for the next token. Returns arrays to wait for.
        """
        begins = seqs[0].draft.last_hidden is None
        last = [mx.contiguous(hidden[row : row + 1, size - 1 : size]) for row, size in enumerate(sizes)]
        for seq in seqs:
            if seq.draft.batch is None:
                seq.draft.batch = self.head.batch(self.grouping)
                seq.draft.batch.deltas[0] = seq.computed.rope_delta
        own = [seq.draft.batch for seq in seqs if seq.draft.batch is not None]
        rows, width = inputs.shape[:2]
        counts = [size - begins for size in sizes]
        before: list[mx.array] = []
        if not begins:
            known = [seq.draft.last_hidden for seq in seqs if seq.draft.last_hidden is not None]
            before = [mx.concatenate([*known, *[self.head.blank] * (rows - len(seqs))]) if rows > 1 else known[0]]
        elif self.grouping.buckets.widths:  # the last pair is padding: its token is not there yet
            inputs = _shifted(inputs)
        else:
            inputs, hidden, width = inputs[:, 1:], hidden[:, :-1], width - 1
        if max(counts):
            batch = own[0] if len(own) == 1 else stacking.stack(own, rows)
            valid = [*counts, *[0] * (rows - len(seqs))]
            read = self.first_chunks if begins else self.later_chunks
            pairs = [mx.array(inputs), hidden, *before]
            _, close = read(batch, width, pairs, positions=positions, valid=valid, traced=traced)
            close()
            batch.advance(valid)
            if len(own) > 1:
                stacking.unstack(batch, own)
        for seq, state in zip(seqs, last, strict=True):
            seq.draft.last_hidden = state
        return [[state, *batch.arrays()] for state, batch in zip(last, own, strict=True)]

    # -- batch membership

    def join(self, seq: Sequence, at: Placement) -> None:
        batch = seq.draft.batch if seq.draft.batch is not None else self.head.batch(self.grouping)
        hidden = self.head.blank if seq.draft.last_hidden is None else seq.draft.last_hidden
        token, count = mx.array([seq.context[-1:]], dtype=mx.int32), int(seq.draft.last_hidden is not None)
        seq.draft.batch, seq.draft.last_hidden, seq.draft.prompt_pairs = None, None, batch.lengths[0]
        if self.batch is None or self.pending is None:
            batch.trim()
            self.batch, self.pending, self._consumed = batch, PendingPairs(token, hidden, [count]), False
            return
        self.batch.join(batch, at)
        self._consumed = False  # in case a step failed after it was fed
        old = self.pending
        width = old.tokens.shape[1]
        known = list(_known(old.counts))
        at.put(known, count, 0)
        tokens = joined(old.tokens, mx.pad(token, [(0, 0), (0, width - 1)]), at)
        self.pending = PendingPairs(
            tokens, joined(old.hidden, mx.pad(hidden, [(0, 0), (0, width - 1), (0, 0)]), at), known
        )

    def clear(self) -> None:
        self.batch = self.pending = None

    def keep(self, rows: list[int], seqs: Collection[Sequence]) -> None:
        if self.batch is None or self.pending is None:
            return
        order = self.batch.keep(rows)
        known = _known(self.pending.counts)
        counts = [0 if row is None else known[row] for row in order]
        tokens, hidden = take_rows(self.pending.tokens, order), take_rows(self.pending.hidden, order)
        self.pending = PendingPairs(tokens, hidden, counts)

    def last_hidden(self, place: int) -> mx.array:
        """The target's hidden state at a row's last token, (1, 1, hidden); at the first token of a step in flight."""
        assert self.pending is not None
        counts = self.pending.counts
        last = 0 if isinstance(counts, mx.array) else max(counts[place] - 1, 0)
        return mx.contiguous(self.pending.hidden[place : place + 1, last : last + 1])

    # -- a step

    def can_run_ahead(self, length: int) -> bool:
        """Can the head read a step's pairs, and draft on, before the host knows how many count?"""
        batch = self.batch
        if batch is None:
            return False
        batch.reserve(2 * (length + 1))  # the pairs, and draft tokens beyond them
        guesses_on = length == 1 or self.forward.is_traced(batch, 1)
        return guesses_on and self.forward.is_traced(batch, length + 1)

    def propose(self, length: int, choose: Choose, rows: list[Sequence | None], inputs: mx.array) -> list[mx.array]:
        """`length` draft tokens for every row, each (rows,). Nothing is committed before `add_pending`: a failed step
        can be retried."""
        batch, pending = self.batch, self.pending
        assert batch is not None and pending is not None
        mark = batch.rollback_point()
        missing = length + 1 - pending.tokens.shape[1]
        if missing > 0 and self.forward.traces:  # after steps with shorter drafts: the same shape as among its like
            tokens = mx.pad(pending.tokens, [(0, 0), (0, missing)])
            pending = PendingPairs(tokens, mx.pad(pending.hidden, [(0, 0), (0, missing), (0, 0)]), pending.counts)
        try:
            return self._propose(batch, pending, length, choose)
        finally:
            batch.roll_back(mark)

    def _propose(self, batch: Batch, pending: PendingPairs, length: int, choose: Choose) -> list[mx.array]:
        if isinstance(pending.counts, mx.array):
            last = pending.counts - 1
        else:
            last = mx.array([max(count - 1, 0) for count in pending.counts], dtype=mx.int32)
        outputs, close = self.forward(batch, pending.tokens.shape[1], [pending.tokens, pending.hidden, last])
        close()
        self._advance(batch, pending)
        self._consumed = True
        zero = mx.zeros_like(last)
        draft_tokens: list[mx.array] = []
        while True:
            hidden, logits = outputs
            draft_tokens.append(choose(logits, len(draft_tokens), draft_tokens))
            if len(draft_tokens) == length:
                return draft_tokens
            outputs, close = self.forward(batch, 1, [draft_tokens[-1][:, None], hidden, zero])
            close()
            batch.advance([1] * batch.rows)

    @staticmethod
    def _advance(batch: Batch, pending: PendingPairs) -> None:
        if isinstance(pending.counts, mx.array):
            batch.advance_on_device(pending.counts, pending.tokens.shape[1])
        else:
            batch.advance(pending.counts)

    def add_pending(self, tokens: mx.array, hidden: mx.array, counts: list[int] | mx.array) -> None:
        """Results of a step: hidden states (rows, width, hidden) and the tokens that followed them."""
        if self.batch is not None and self.pending is not None:
            if self._consumed:
                self._advance(self.batch, self.pending)
            else:  # a gap: later tokens keep their positions
                deltas = zip(self.batch.deltas, _known(self.pending.counts), strict=True)
                self.batch.deltas = [delta + count for delta, count in deltas]
        self.pending, self._consumed = PendingPairs(tokens, hidden, counts), False

    def sync_lengths(self, kept: list[int]) -> None:
        """Of the oldest unread step, row i keeps its first `kept[i]` pairs."""
        if self.batch is not None and self.batch.unsynced:
            self.batch.sync_lengths(kept)
        elif self.pending is not None:
            self.pending.counts = kept

    def arrays(self) -> list[mx.array]:
        """Arrays to evaluate with each step, so that no graph grows."""
        pending = [] if self.pending is None else [self.pending.tokens, self.pending.hidden]
        return pending if self.batch is None else pending + self.batch.arrays()


def _shifted(inputs: NDArray[np.int32] | mx.array) -> NDArray[np.int32] | mx.array:
    """Each token in the place of the one before."""
    if isinstance(inputs, mx.array):
        return mx.pad(inputs[:, 1:], [(0, 0), (0, 1), (0, 0)])
    return np.pad(inputs[:, 1:], [(0, 0), (0, 1)])


def _known(counts: list[int] | mx.array) -> list[int]:
    if isinstance(counts, mx.array):
        raise RuntimeError("rows cannot change before the host has read the last step")
    return counts
