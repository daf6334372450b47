"""Copies of sequences' caches for the prefix cache, made where the budget has memory for them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from paceline.cache import kv_snapshot
from paceline.cache.batch import Batch
from paceline.cache.budget import Budget
from paceline.cache.kv_snapshot import Checkpoint, Segment
from paceline.cache.prefix import PrefixCache
from paceline.cache.radix import Node, PrefixKey
from paceline.engine.checkpoints import CHEAP, MIN_SHARED, Worth
from paceline.engine.runner import Runner
from paceline.engine.sequence import Sequence
from paceline.types import Prompt

MIN_SPACING = 0.02  # checkpoints closer to the previous one than this share of their position are skipped
WITH_HEAD = "+head"  # suffix of a tree whose entries include the MTP head's cache


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of a sequence's first `stop` tokens, of which the segment has those from `start` on."""

    start: int
    stop: int
    segment: Segment
    checkpoint: Checkpoint | None

    def arrays(self) -> list[mx.array]:
        return self.segment.all() + ([] if self.checkpoint is None else self.checkpoint.all())

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays())


class PrefixStore:
    """On the engine's thread."""

    def __init__(self, cache: PrefixCache, runner: Runner, budget: Budget | None, worth: Worth = CHEAP) -> None:
        self.cache = cache
        self.runner = runner
        self.budget = budget
        self.worth = worth
        self._copies = 0  # bytes of snapshots that the cache does not hold yet

    def snapshot(self, seq: Sequence) -> Snapshot | None:
        """Copy a sequence out of the common batch. None where its length is unknown, or too little is new."""
        runner = self.runner
        place = next((place for place, other in enumerate(runner.rows) if other is seq), None)
        if place is None or runner.batch is None or self.runner.language.dynamic_rope or seq.sparse.kept is not None:
            return None
        stop = runner.batch.lengths[place]
        if runner.batch.unsynced:  # a speculative step is in flight; after a stop token it keeps nothing but that token
            if not seq.generated or seq.generated[-1] not in seq.stop_ids or len(runner.batch.unsynced) > 1:
                return None
            stop += 1
        prompt = len(seq.prefix.key) - 1
        start, _ = self.cache.covered(seq.prefix.tree, seq.prefix.key[:prompt], seq.prefix.pinned)
        if stop - prompt < min(max(MIN_SPACING * stop, 1), MIN_SHARED) or stop < self.worth.stored:
            return None
        head, carry, pairs = None, None, range(0)
        if runner.drafter is not None and seq.feeds_mtp and runner.drafter.batch is not None:
            head, carry = runner.drafter.batch, runner.drafter.last_hidden(place)
            of_prompt = max(prompt - max(start, 1), 0)
            have = head.lengths[place]
            pairs = range(have - min(have - seq.draft.prompt_pairs + of_prompt, have, stop - max(start, 1)), have)
        return self.copy(runner.batch, head, place, start, stop, pairs, carry)

    def copy(
        self,
        batch: Batch,
        head: Batch | None,
        place: int,
        start: int,
        stop: int,
        pairs: range,
        carry: Any,
        *,
        bare: bool = False,
    ) -> Snapshot | None:
        """Copy tokens [start, stop) of a row, with these `pairs` of the head; `bare`: without a checkpoint. None: there
        is no memory for it."""
        bare = bare or self.cache.anywhere
        need = kv_snapshot.cut_bytes(batch, max(stop - start, 0), bare=bare)
        if head is not None:
            need += kv_snapshot.cut_bytes(head, len(pairs), bare=True)
        if not self._has_room(need):
            return None
        arrays = kv_snapshot.cut_segment(batch, place, start, stop) if stop > start else ()
        paired: tuple[mx.array, ...] = ()
        if head is not None and pairs:
            paired = kv_snapshot.cut_segment(head, place, pairs.start, pairs.stop)
        checkpoint = None
        if not bare:
            kept = None if carry is None else kv_snapshot.own(carry)  # it may be a view of a whole chunk's states
            checkpoint = Checkpoint(kv_snapshot.cut_checkpoint(batch, place, stop), kept)
        snapshot = Snapshot(start, stop, Segment(arrays, paired, int(start == 0)), checkpoint)
        mx.async_eval(snapshot.arrays())  # an unevaluated copy would keep the whole buffer alive
        return snapshot

    def store(self, seq: Sequence, cache_key: PrefixKey, snapshot: Snapshot) -> None:
        near = seq.prefix.pinned
        have, _ = self.cache.covered(seq.prefix.tree, cache_key, near)
        if have < snapshot.start:  # the prefix before this copy was evicted meanwhile
            return
        if not self._has_room(snapshot.nbytes + self.cache.split_bytes(seq.prefix.tree, cache_key, near)):
            return
        segment = snapshot.segment
        if snapshot.start < have < len(cache_key):
            segment = segment.take(have - snapshot.start, None)
            mx.async_eval(segment.all())  # an unevaluated slice would keep its source alive
        new = segment if have < len(cache_key) else None
        node = self.cache.store(seq.prefix.tree, cache_key, new, snapshot.checkpoint, seq.id, near)
        seq.prefix.stored.append(node)
        self.pin(seq, node)

    def put_aside(self, seq: Sequence) -> None:
        """Keep a snapshot of a sequence that leaves the batch until it is known how the sequence continues."""
        snapshot = seq.prefix.snapshot = self.snapshot(seq)
        self._hold(0 if snapshot is None else snapshot.nbytes)

    def take(self, seq: Sequence) -> Snapshot | None:
        snapshot: Snapshot | None = seq.prefix.snapshot
        if snapshot is not None:
            seq.prefix.snapshot = None
            self._hold(-snapshot.nbytes)
        return snapshot

    def pin(self, seq: Sequence, node: Node) -> None:
        """A sequence pins one node at a time, the longest. `node` is pinned already."""
        if seq.prefix.pinned is not None:
            self.cache.release(seq.prefix.pinned)
        seq.prefix.pinned = node

    @staticmethod
    def full_key(seq: Sequence) -> PrefixKey:
        """The key of all tokens of a sequence; `seq.prefix.key` is that of its context."""
        cache_key: PrefixKey = np.concatenate(
            [seq.prefix.key, np.asarray(seq.generated[seq.recomputed :], dtype=np.int64)]
        )
        return cache_key

    def _has_room(self, nbytes: int) -> bool:
        """Is there memory for `nbytes` more? Unpinned entries are evicted first."""
        if self.budget is None:
            return True
        room = self.budget.room("prefixes") - nbytes
        if 0 <= room < self.cache.memory:
            self.cache.shrink(to=room)
        return self.cache.memory <= room

    def _hold(self, nbytes: int) -> None:
        self._copies += nbytes
        if self.budget is not None:
            self.budget.hold("copies", self._copies)


def prompt_cache_key(prompt: Prompt) -> PrefixKey:
    """Token ids; a medium's tokens are replaced by a hash of its content, so that another one never matches."""
    cache_key = np.asarray(prompt.token_ids, dtype=np.int64)
    if prompt.media:
        names = [-1 - (int(medium.digest[:16], 16) >> 2) for medium in prompt.media]
        cache_key[prompt.media_mask] = np.repeat(names, [medium.tokens for medium in prompt.media])
    return cache_key


def tree_name(salt: str, with_head: bool) -> str:
    """A tree is named by who may share it, and whether its entries include the MTP head's cache."""
    return hashlib.sha256(salt.encode()).hexdigest()[:32] + (WITH_HEAD if with_head else "")
