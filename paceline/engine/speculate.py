"""Drafting for all rows of a batch with the MTP head.

After every step the head is owed pairs: a hidden state of the target, and the token that followed. `propose` feeds
them and lets the head guess on from there; its guesses' own keys and values are rolled back by length. Pairs that
nobody asked for (steps without drafting) are skipped, not caught up with: the head then has a gap, its positions
stay true, and its guesses may be poorer. What it guesses is never delivered unverified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from paceline.cache.batch import Batch, Placement
from paceline.cache.slot_plan import Grouping
from paceline.engine.forward import Forward
from paceline.engine.row import Row
from paceline.models.mtp import Head
from paceline.models.positions import Positions

Choose = Callable[[mx.array, int, Sequence[mx.array]], mx.array]  # logits, place, the guesses before -> tokens


@dataclass(slots=True)
class Feed:
    """Pairs the head is owed: row i's are the first `counts[i]`."""

    tokens: mx.array  # (rows, width)
    hidden: mx.array  # (rows, width, hidden)
    counts: list[int] | mx.array  # an array: the host does not know them yet


class Drafter:
    """Its batch has the same rows, in the same places, as the target's."""

    def __init__(self, head: Head, grouping: Grouping, *, traces: bool = False) -> None:
        self.head = head
        self.grouping = grouping
        self.forward = Forward(self._guess, traces=traces)
        self.batch: Batch | None = None
        self.feed: Feed | None = None
        self._fed = False

    def _guess(self, inputs: Sequence[mx.array], batch: Batch) -> list[mx.array]:
        """Of each row's pairs, the hidden state at `last`, and its logits."""
        tokens, hidden, last = inputs
        states = self.head.hidden(self.head.language.embed(tokens), hidden, batch)
        if states.shape[1] > 1:
            states = mx.take_along_axis(states, last[:, None, None], axis=1)
        return [states, self.head.language.logits(states)[:, 0]]

    # -- a row's prompt

    def read(self, row: Row, embeddings: mx.array, hidden: mx.array, positions: Positions | None) -> list[mx.array]:
        """The next chunk of a row's prompt: embeddings as the target got them, and the target's hidden states.

        `positions` are those of the chunk's tokens but the last, after the one before the chunk. The last hidden
        state is carried: its pair waits for the token that follows. Returns what to wait for.
        """
        if row.head is None:
            row.head = self.head.batch(self.grouping)
            row.head.deltas[0] = row.delta
        if row.carry is None:
            embeddings = embeddings[:, 1:]
        else:
            hidden = mx.concatenate([row.carry, hidden], axis=1)
        row.carry = mx.contiguous(hidden[:, -1:])
        width = embeddings.shape[1]
        if width:
            row.head.begin(width, positions)
            self.head.hidden(embeddings, hidden[:, :-1], row.head)
            row.head.commit()
        return [row.carry, *row.head.arrays()]

    # -- membership

    def join(self, row: Row, at: Placement) -> None:
        batch = row.head if row.head is not None else self.head.batch(self.grouping)
        hidden = self.head.blank if row.carry is None else row.carry
        token, count = mx.array([row.context[-1:]], dtype=mx.int32), int(row.carry is not None)
        row.head, row.carry, row.paired = None, None, batch.lengths[0]
        if self.batch is None or self.feed is None:
            self.batch, self.feed, self._fed = batch, Feed(token, hidden, [count]), False
            return
        self.batch.join(batch, at)
        self._fed = False  # should a round have failed after it was fed
        old = self.feed
        width = old.tokens.shape[1]
        tokens = mx.concatenate([old.tokens, mx.pad(token, [(0, 0), (0, width - 1)])])
        states = mx.concatenate([old.hidden, mx.pad(hidden, [(0, 0), (0, width - 1), (0, 0)])])
        known = _known(old.counts)
        counts = [*known[: at.row], count, *known[at.row :]]
        if at.row < len(known):
            order = mx.array([*range(at.row), len(known), *range(at.row, len(known))])
            tokens, states = tokens[order], states[order]
        self.feed = Feed(tokens, states, counts)

    def keep(self, places: Sequence[int]) -> None:
        if not places or self.batch is None or self.feed is None:
            self.batch = self.feed = None
            return
        self.batch.keep(places)
        index = mx.array(list(places))
        known = _known(self.feed.counts)
        counts = [known[place] for place in places]
        self.feed = Feed(self.feed.tokens[index], self.feed.hidden[index], counts)

    def last_hidden(self, place: int) -> mx.array:
        """The target's hidden state at a row's last token, (1, 1, hidden); of a round under way, at its first."""
        assert self.feed is not None
        counts = self.feed.counts
        last = 0 if isinstance(counts, mx.array) else max(counts[place] - 1, 0)
        return mx.contiguous(self.feed.hidden[place : place + 1, last : last + 1])

    # -- a step

    def can_run_ahead(self, depth: int) -> bool:
        """Could the head be fed a round's pairs, and guess on, while the host does not know how many count?"""
        batch = self.batch
        if batch is None:
            return False
        batch.reserve(2 * (depth + 1))  # the pairs, and guesses beyond them
        guesses_on = depth == 1 or self.forward.is_traced(batch, 1)
        return guesses_on and self.forward.is_traced(batch, depth + 1)

    def propose(self, depth: int, choose: Choose) -> list[mx.array]:
        """`depth` guesses for every row, each (rows,). Nothing counts before `owe`: a failed round can run again."""
        batch, feed = self.batch, self.feed
        assert batch is not None and feed is not None
        mark = batch.rollback_point()
        try:
            return self._propose(batch, feed, depth, choose)
        finally:
            batch.roll_back(mark)

    def _propose(self, batch: Batch, feed: Feed, depth: int, choose: Choose) -> list[mx.array]:
        if isinstance(feed.counts, mx.array):
            last = feed.counts - 1
        else:
            last = mx.array([max(count - 1, 0) for count in feed.counts], dtype=mx.int32)
        outputs, close = self.forward(batch, feed.tokens.shape[1], [feed.tokens, feed.hidden, last])
        close()
        self._advance(batch, feed)
        self._fed = True
        zero = mx.zeros_like(last)
        guesses: list[mx.array] = []
        while True:
            hidden, logits = outputs
            guesses.append(choose(logits, len(guesses), guesses))
            if len(guesses) == depth:
                return guesses
            outputs, close = self.forward(batch, 1, [guesses[-1][:, None], hidden, zero])
            close()
            batch.advance([1] * batch.rows)

    @staticmethod
    def _advance(batch: Batch, feed: Feed) -> None:
        if isinstance(feed.counts, mx.array):
            batch.advance_on_device(feed.counts, feed.tokens.shape[1])
        else:
            batch.advance(feed.counts)

    def set_pending(self, tokens: mx.array, hidden: mx.array, counts: list[int] | mx.array) -> None:
        """What a step brought: hidden states (rows, width, hidden) and the tokens that followed them."""
        if self.batch is not None and self.feed is not None:
            if self._fed:
                self._advance(self.batch, self.feed)
            else:  # a gap: what comes after keeps its own positions
                deltas = zip(self.batch.deltas, _known(self.feed.counts), strict=True)
                self.batch.deltas = [delta + count for delta, count in deltas]
        self.feed, self._fed = Feed(tokens, hidden, counts), False

    def sync_lengths(self, kept: list[int]) -> None:
        """Of what the oldest unread step brought, row i keeps its first `kept[i]`."""
        if self.batch is not None and self.batch.unsynced:
            self.batch.sync_lengths(kept)
        elif self.feed is not None:
            self.feed.counts = kept

    def arrays(self) -> list[mx.array]:
        """What must be evaluated with each step so that no graph grows."""
        pending = [] if self.feed is None else [self.feed.tokens, self.feed.hidden]
        return pending if self.batch is None else pending + self.batch.arrays()


def _known(counts: list[int] | mx.array) -> list[int]:
    if isinstance(counts, mx.array):
        raise RuntimeError("rows cannot change before the host has read the last round")
    return counts
