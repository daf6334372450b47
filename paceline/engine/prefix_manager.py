"""What a sequence takes from the prefix cache, and what it leaves there.

When a sequence comes in, the longest prefix of its prompt that is known is restored into a batch of its own, and
prefill goes on from there. Its prefill stops at places where others are likely to go on (`stops`), to leave a
checkpoint; and when it ends, what it said is kept too, for the next turn. If an older sequence is just computing what
it needs, it is held until that sequence has got there: the same prefix is never computed twice at the same time.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import numpy as np

from paceline.cache import kv_snapshot
from paceline.cache.batch import Batch
from paceline.cache.budget import Budget
from paceline.cache.kv_snapshot import Checkpoint, Segment
from paceline.cache.prefix import Hit, PrefixCache
from paceline.cache.radix import Node, PrefixKey, common_length
from paceline.cache.tier import IDLE_STEP, STEP, DiskTier
from paceline.engine.runner import Runner
from paceline.engine.sequence import Sequence
from paceline.stats import PrefixCacheStats
from paceline.types import Prompt

log = logging.getLogger("paceline")
CHECKPOINT_EVERY = 4096  # tokens between two stops of a long prefill, at most
MIN_SPACING = 0.02  # stops nearer to the last one than this share of their place are left out
MIN_SHARED = 16  # tokens that are worth waiting for, or keeping an answer for
SPARE_TOKENS = 64  # tokens that a restored sequence has room for, beyond its prompt
POLL_SECONDS = 0.005  # seconds between two looks at what can be written
MAX_DISK_READS = 4  # times that a sequence waits for files; what it finds may be evicted before its turn
CLOSE_SECONDS = 30.0  # seconds that writing may take when the engine stops
WITH_HEAD = "+head"  # behind the name of a tree whose entries have the MTP head's part
WRITE_SHARE = 16  # of the memory beside the weights, the part that may wait for the disk: one in so many
ROPE_BLOCK = 2048  # a dynamic RoPE's keys depend on the prompt's length but at multiples of this


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a sequence that left the batch had computed: `stop` tokens, of which the segment has those from `start`
    on."""

    start: int
    stop: int
    segment: Segment
    checkpoint: Checkpoint | None

    def arrays(self) -> list[mx.array]:
        return self.segment.all() + ([] if self.checkpoint is None else self.checkpoint.all())

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays())


@dataclass(slots=True)
class PrefixWait:
    """A sequence that is held: until `other` has prefilled `target` tokens, or these files are read."""

    seq: Sequence
    other: Sequence | None = None
    target: int = 0
    files: frozenset[str] = frozenset()
    pinned: tuple[Node, ...] = ()  # what is being read for it must still be there when its turn comes


class PrefixManager:
    """On the engine's thread, but for `keys`."""

    def __init__(
        self,
        cache: PrefixCache,
        runner: Runner,
        *,
        feeds_head: bool = False,
        disk: DiskTier | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.cache = cache
        self.runner = runner
        self.feeds_head = feeds_head and runner.drafter is not None
        self.disk = disk
        self.budget = budget
        self.needs_state = kv_snapshot.needs_checkpoints(runner.language.batch(runner.grouping))
        cache.anywhere = not self.needs_state and runner.drafter is None
        vision = runner.model.vision
        self.image_token = None if vision is None else vision.image_token
        self._active: list[Sequence] = []  # sequences that prefill, oldest first
        self._waits: list[PrefixWait] = []
        self.tolerated_error: Exception | None = (
            None  # the latest error that changed nothing for the sequence it came with
        )
        self._copies = 0  # bytes of what sequences have left, and the cache does not hold yet
        runner.on_checkpoint = self.store_prefix
        runner.on_leave = self.on_leave

    # -- for any thread

    def cache_key(self, prompt: Prompt) -> PrefixKey | None:
        """The costly part of finding a prefix, better done before the sequence reaches the engine; nobody changes
        them."""
        return prompt_cache_key(prompt, self.image_token) if prompt.cached else None

    # -- a sequence comes in

    def on_arrival(self, seq: Sequence) -> None:
        """It may have to wait for its turn: what it needs from disk is read meanwhile."""
        if not seq.prompt.cached or len(seq.prompt.token_ids) < 2:
            seq.prefix.key = None
            return
        if seq.prefix.key is None:
            seq.prefix.key = self.cache_key(seq.prompt)
        seq.draft.mtp_prefill = self.feeds_head
        seq.prefix.tree = _root(seq.prompt.salt, seq.feeds_mtp and self.runner.drafter is not None)
        if self.disk is not None and _may_restore(seq):
            self.disk.read(self.cache.peek(seq.prefix.tree, self._restorable_key(seq)))

    def look_up(self, seq: Sequence) -> None:
        """How many tokens of it are to be computed, as things are now."""
        if seq.prefix.key is not None and _may_restore(seq):
            seq.queue.uncached_tokens = (
                len(seq.prefix.key) - self.cache.peek(seq.prefix.tree, seq.prefix.key[:-1]).length
            )

    def on_admit(self, seq: Sequence) -> None:
        """Its turn has come. What was found when it arrived may be gone: it is looked for again, and pinned."""
        if seq.prefix.key is None:
            return
        self._active.append(seq)
        if _may_restore(seq):
            self.cache.counts.queries += 1
            self.cache.counts.query_tokens += len(seq.prefix.key)
            self._restore_longest(seq)
        else:
            seq.prefix.checkpoint_positions = self._choose_checkpoints(seq, Hit())

    def poll(self, running: Collection[Sequence] = ()) -> None:
        """Between two steps: sequences that have waited long enough go on, and the cache gives back what sequences
        need."""
        if self.disk is not None:
            self.disk.poll(STEP if any(seq.is_decoding for seq in running) else IDLE_STEP)
        self._active = [seq for seq in self._active if seq.finished is None and seq.remaining]
        for waiting in list(self._waits):
            other = waiting.other
            if waiting.seq.finished is not None:
                self._end_wait(waiting)
            elif other is not None and other in self._active and other.computed.tokens < self._target(waiting, other):
                continue
            elif self.disk is None or not self.disk.is_reading(waiting.files):
                waiting.seq.prefix.waiting = False
                try:
                    self._restore_longest(waiting.seq)
                finally:
                    self._end_wait(waiting)

    def _target(self, waiting: PrefixWait, other: Sequence) -> int:
        """How far the other sequence must come; behind its last common token it may have begun to leave out some."""
        return min(waiting.target, len(self._shared_key(other)))

    def _end_wait(self, waiting: PrefixWait) -> None:
        self._waits.remove(waiting)
        for node in waiting.pinned:
            self.cache.release(node)

    @property
    def pause(self) -> float | None:
        """How long the engine may sleep if it has nothing else to do; None: for ever."""
        if self.disk is None or not self.disk.busy:
            return None
        return 0.0 if self.disk.has_reads else POLL_SECONDS

    def _restore_longest(self, seq: Sequence) -> None:
        hit = self.cache.find(seq.prefix.tree, self._restorable_key(seq))
        kept = False
        try:
            if self._wait_for_sequence(seq, hit.length) or self._wait_for_disk(seq, hit):
                return
            asked = [
                stop for stop in seq.prefix.checkpoint_positions if stop > hit.length
            ]  # by sequences that wait for this one
            seq.prefix.checkpoint_positions = sorted({*self._choose_checkpoints(seq, hit), *asked})
            if hit.nodes and self._restored(seq, hit):
                self._pin(seq, hit.nodes[-1])
                kept = True
        finally:
            if hit.nodes and not kept:
                self.cache.release(hit.nodes[-1])

    def _restorable_key(self, seq: Sequence) -> PrefixKey:
        """The part of a prompt that may be restored: one token is left to compute."""
        cache_key = self._shared_key(seq)
        if self.runner.language.dynamic_rope:
            known = self.cache.peek(seq.prefix.tree, cache_key).length
            return cache_key[: known // ROPE_BLOCK * ROPE_BLOCK]
        return cache_key

    @staticmethod
    def _shared_key(seq: Sequence) -> PrefixKey:
        """What its prefill computes that others may share: not what lies behind gaps."""
        cache_key: PrefixKey = seq.prefix.key[
            : len(seq.prefix.key) - 1 if seq.sparse.kept is None else seq.sparse.dense_prefix
        ]
        return cache_key

    def _wait_for_sequence(self, seq: Sequence, have: int) -> bool:
        """Is an older sequence about to compute more of this prompt than is there?"""
        best, found = have + MIN_SHARED - 1, None
        for other in self._active:
            if other is seq:
                break
            if other.finished is not None or other.prefix.tree != seq.prefix.tree or other.prefix.key is None:
                continue
            common = self._checkpoint_within(other, common_length(self._shared_key(seq), self._shared_key(other)))
            if common > max(best, other.computed.tokens):
                best, found = common, other
        if found is None:
            return False
        if best not in found.prefix.checkpoint_positions:  # a branch, seen before it is reached
            found.prefix.checkpoint_positions = sorted([*found.prefix.checkpoint_positions, best])
        seq.prefix.waiting = True
        self._waits.append(PrefixWait(seq, found, best))
        return True

    def _checkpoint_within(self, other: Sequence, common: int) -> int:
        """Where in the first `common` tokens a sequence that prefills can leave a checkpoint."""
        if self.runner.language.dynamic_rope:
            return common // ROPE_BLOCK * ROPE_BLOCK
        near = max((stop for stop in other.prefix.checkpoint_positions if stop <= common), default=0)
        return near if common - near < MIN_SPACING * common else common

    def _wait_for_disk(self, seq: Sequence, hit: Hit) -> bool:
        if self.disk is None or not hit.files or seq.prefix.disk_reads == MAX_DISK_READS:
            return False
        seq.prefix.disk_reads += 1
        self.disk.read(hit)
        seq.prefix.waiting = True
        for node in hit.nodes:
            self.cache.pin(node)
        self._waits.append(PrefixWait(seq, files=hit.files, pinned=hit.nodes))
        return True

    def _restored(self, seq: Sequence, hit: Hit) -> bool:
        begun = time.perf_counter()
        if hit.files or not self._fits(seq, hit):  # it has waited in vain too often, or its copy would be too much
            seq.prefix.checkpoint_positions = sorted(
                {*self._choose_checkpoints(seq, Hit(known=hit.known)), *seq.prefix.checkpoint_positions}
            )
            return False
        try:
            self._restore(seq, hit)
        except Exception as error:  # noqa: BLE001  whatever is wrong with what was kept, it can be computed again
            self.tolerated_error = error
            log.warning("a cached prefix of %d tokens could not be restored: %s", hit.length, error)
            seq.computed.batch = seq.draft.batch = seq.draft.last_hidden = seq.computed.position_ids = None
            seq.computed.tokens = seq.computed.rope_delta = seq.computed.images = seq.computed.skipped_image_tokens = 0
            if not seq.preemptions:
                seq.prefix.cached_tokens = 0
            seq.prefix.checkpoint_positions = sorted(
                {*self._choose_checkpoints(seq, Hit()), *seq.prefix.checkpoint_positions}
            )
            self.cache.forget(hit.nodes[-1:])
            return False
        self.cache.use(hit)
        if self.disk is not None:
            self.disk.used(hit)
        self.cache.counts.restores += 1
        self.cache.counts.restore_seconds += time.perf_counter() - begun
        return True

    def _fits(self, seq: Sequence, hit: Hit) -> bool:
        """Is there memory for the copy that a sequence gets, beside all that is cached? Others give way first. What
        sequences were promised counts as free: they have not taken it yet."""
        if self.budget is None:
            return True
        nbytes = sum(node.segment.nbytes for node in hit.nodes if node.segment is not None)
        state = hit.nodes[-1].checkpoint
        copy = nbytes * (len(seq.prefix.key) + SPARE_TOKENS) // hit.length + (0 if state is None else state.nbytes)
        free = self.budget.room("prefixes") + self.budget.holding("promised") - copy
        if 0 <= free < self.cache.memory:
            self.cache.shrink(to=free)
        return self.cache.memory <= free

    def _restore(self, seq: Sequence, hit: Hit) -> None:
        segments, checkpoint = hit.kv_snapshot()
        room = len(seq.prefix.key) - hit.length + SPARE_TOKENS
        runner = self.runner
        batch = runner.batch_of(seq)
        kv_snapshot.fill(batch, hit.length, [segment.arrays for segment in segments], checkpoint, room)
        waits = batch.arrays()
        if runner.drafter is not None and seq.feeds_mtp:
            seq.draft.batch = runner.drafter.head.batch(runner.grouping)
            pairs = [segment.pairs for segment in segments if segment.pairs]
            count = sum(part[0].shape[2] for part in pairs)
            kv_snapshot.fill(seq.draft.batch, count, pairs, None, room)
            delta = seq.computed.rope_delta - seq.dropped  # the head's part ends before anything is left out
            seq.draft.batch.deltas[0] = delta + hit.length - 1 - count  # where the head has gaps, its places stay true
            seq.draft.last_hidden = checkpoint.carry
            waits += seq.draft.batch.arrays()
        self._skip_pictures(seq, hit.length)
        mx.async_eval(waits)
        seq.computed.tokens = hit.length
        if not seq.preemptions:
            seq.prefix.cached_tokens = hit.length

    def _skip_pictures(self, seq: Sequence, length: int) -> None:
        """Pictures that lie in the restored prefix need no features."""
        if not seq.prompt.images or self.runner.model.vision is None:
            return
        inside = int(np.count_nonzero(np.asarray(seq.prompt.token_ids[:length]) == self.image_token))
        for image in seq.prompt.images:
            count = self.runner.model.vision.tokens(image)
            if seq.computed.skipped_image_tokens + count > inside:
                break
            seq.computed.skipped_image_tokens += count
            seq.computed.images += 1

    def _choose_checkpoints(self, seq: Sequence, hit: Hit) -> list[int]:
        """Where its prefill leaves something: at the prompt's marks and its end, where it left another prompt's path,
        and every few thousand tokens."""
        if seq.sparse.kept is not None:
            return [seq.sparse.dense_prefix] if seq.sparse.dense_prefix > hit.length and self._is_complete(seq) else []
        last = len(seq.prefix.key) - 1
        begin = hit.length
        if self.runner.language.dynamic_rope:
            return list(range(begin // ROPE_BLOCK * ROPE_BLOCK + ROPE_BLOCK, last + 1, ROPE_BLOCK))
        wanted = {last}
        if self.needs_state:
            marks = [mark for mark in seq.prompt.marks if begin < mark <= last]
            wanted.update(marks[:1] + marks[-1:])  # the system prompt's end, if nobody knows it yet; the last turn's
            before = begin
            for mark in marks:
                if mark - before >= MIN_SPACING * mark:
                    wanted.add(mark)
                    before = mark
            if begin < hit.known <= last:
                wanted.add(hit.known)
        stops: list[int] = []
        before = begin
        for stop in sorted(wanted):
            while stop - before > CHECKPOINT_EVERY:
                before += CHECKPOINT_EVERY
                stops.append(before)
            if stop > before:
                stops.append(stop)
                before = stop
        return stops

    def on_kept(self, seq: Sequence) -> None:
        """It reads its prompt sparsely from `seq.whole` on: what it computes behind that is nobody else's prefix."""
        if seq.prefix.key is None:
            return
        seq.prefix.checkpoint_positions = sorted(
            {stop for stop in seq.prefix.checkpoint_positions if stop < seq.sparse.dense_prefix}
            | {seq.sparse.dense_prefix} - {seq.computed.tokens}
        )
        if not seq.prefix.checkpoint_positions:
            self._active = [other for other in self._active if other is not seq]

    def _is_complete(self, seq: Sequence) -> bool:
        """Does it compute all that an entry of its tree has? Without the head's part, it must not leave any."""
        return seq.feeds_mtp or not seq.prefix.tree.endswith(WITH_HEAD)

    # -- what it leaves

    def store_prefix(self, seq: Sequence) -> list[mx.array]:
        """Its prefill has come to a stop; returns what to wait for."""
        if seq.computed.batch is None or seq.prefix.key is None:
            return []
        stop = seq.computed.tokens
        left: list[mx.array] = []
        with self._tolerating(seq):
            start, whole = self.cache.covered(seq.prefix.tree, seq.prefix.key[:stop])
            pairs = 0 if seq.draft.batch is None else min(stop - max(start, 1), seq.draft.batch.lengths[0])
            snapshot = self._copy(
                seq.computed.batch, seq.draft.batch, 0, start, stop, pairs, seq.draft.last_hidden, bare=whole
            )
            if snapshot is not None:
                self._store(seq, seq.prefix.key[:stop], snapshot)
                left = snapshot.arrays()
        if (
            seq.sparse.kept is not None and stop == seq.sparse.dense_prefix
        ):  # what follows has gaps, where the head has nothing to read
            seq.draft.mtp_prefill, seq.draft.batch, seq.draft.last_hidden = False, None, None
        return left

    def on_leave(self, seq: Sequence) -> None:
        """It leaves the common batch, and its last token has not been read yet."""
        if seq.prefix.key is not None:
            with self._tolerating(seq):
                seq.prefix.snapshot = self._snapshot(seq)
                self._hold_copies(0 if seq.prefix.snapshot is None else seq.prefix.snapshot.nbytes)

    def _hold_copies(self, nbytes: int) -> None:
        self._copies += nbytes
        if self.budget is not None:
            self.budget.hold("copies", self._copies)

    def _take_snapshot(self, seq: Sequence) -> Snapshot | None:
        snapshot: Snapshot | None = seq.prefix.snapshot
        if snapshot is not None:
            seq.prefix.snapshot = None
            self._hold_copies(-snapshot.nbytes)
        return snapshot

    def on_finish(self, seq: Sequence, reason: str) -> None:
        """It is over. What it said is the beginning of the next turn's prompt; what went wrong must not be."""
        with self._tolerating(seq):
            snapshot = self._take_snapshot(seq)
            if seq.prefix.key is not None and reason == "error":
                self.cache.forget(seq.prefix.stored)
            elif seq.prefix.key is not None and reason in ("stop", "length"):
                snapshot = snapshot or self._snapshot(seq)
                if snapshot is not None and snapshot.stop <= len(self._full_key(seq)):
                    self._store(seq, self._full_key(seq)[: snapshot.stop], snapshot)
        if seq.prefix.pinned is not None:
            self.cache.release(seq.prefix.pinned)
        seq.prefix.pinned = seq.prefix.key = None
        seq.prefix.stored, seq.prefix.checkpoint_positions, seq.prefix.waiting = [], [], False

    def on_preempt(self, seq: Sequence, *, keep: bool) -> None:
        """It must give way for now; `keep`: what it has computed is left here for its return, if there is room.

        Nothing of it may be under way. Without `keep` nothing that it has computed can be trusted.
        """
        if seq.prefix.key is None:
            return
        self._take_snapshot(seq)
        with self._tolerating(seq):
            if keep and self.cache.limit() > self.cache.memory:
                snapshot = self._snapshot(seq)
                if snapshot is not None:
                    self._store(seq, self._full_key(seq)[: snapshot.stop], snapshot)
            elif not keep:
                self.cache.forget(seq.prefix.stored)
                seq.prefix.stored = []
        for waiting in [waiting for waiting in self._waits if waiting.seq is seq]:
            self._end_wait(waiting)
        self._active = [other for other in self._active if other is not seq]
        if seq.prefix.pinned is not None:
            self.cache.release(seq.prefix.pinned)
            seq.prefix.pinned = None
        seq.prefix.key = self._full_key(seq)

    @staticmethod
    def _full_key(seq: Sequence) -> PrefixKey:
        """All tokens of a sequence, as the cache names them; `seq.keys` are those of its context."""
        cache_key: PrefixKey = np.concatenate(
            [seq.prefix.key, np.asarray(seq.generated[seq.recomputed :], dtype=np.int64)]
        )
        return cache_key

    def _snapshot(self, seq: Sequence) -> Snapshot | None:
        """Cut a sequence out of the common batch; None where it is not known, or not worth it, what its caches hold."""
        runner = self.runner
        place = next((place for place, other in enumerate(runner.seqs) if other is seq), None)
        if place is None or runner.batch is None or self.runner.language.dynamic_rope or seq.sparse.kept is not None:
            return None
        stop = runner.batch.lengths[place]
        if runner.batch.unsynced:  # a round is under way; after an end it keeps nothing but the end itself
            if not seq.generated or seq.generated[-1] not in seq.stop_ids or len(runner.batch.unsynced) > 1:
                return None
            stop += 1
        prompt = len(seq.prefix.key) - 1
        start, _ = self.cache.covered(seq.prefix.tree, seq.prefix.key[:prompt])
        if stop - prompt < min(max(MIN_SPACING * stop, 1), MIN_SHARED):
            return None
        head, carry, pairs = None, None, 0
        if runner.drafter is not None and seq.feeds_mtp and runner.drafter.batch is not None:
            head, carry = runner.drafter.batch, runner.drafter.last_hidden(place)
            of_prompt = max(prompt - max(start, 1), 0)
            pairs = min(
                head.lengths[place] - seq.draft.prompt_pairs + of_prompt, head.lengths[place], stop - max(start, 1)
            )
        return self._copy(runner.batch, head, place, start, stop, pairs, carry)

    def _copy(
        self,
        batch: Batch,
        head: Batch | None,
        place: int,
        start: int,
        stop: int,
        pairs: int,
        carry: Any,
        *,
        bare: bool = False,
    ) -> Snapshot | None:
        """Copies of tokens [start, stop) of a sequence, with the head's last `pairs`; `bare`: without a checkpoint.
        None: there is no memory for them."""
        bare = bare or self.cache.anywhere
        need = kv_snapshot.cut_bytes(batch, max(stop - start, 0), bare=bare)
        if head is not None:
            need += kv_snapshot.cut_bytes(head, max(pairs, 0), bare=True)
        if not self._has_room(need):
            return None
        arrays = kv_snapshot.cut_segment(batch, place, start, stop) if stop > start else ()
        paired: tuple[mx.array, ...] = ()
        if head is not None and pairs > 0:
            paired = kv_snapshot.cut_segment(head, place, head.lengths[place] - pairs, head.lengths[place])
        checkpoint = None
        if not bare:
            kept = None if carry is None else kv_snapshot.own(carry)  # it may be a view of a whole chunk's states
            checkpoint = Checkpoint(kv_snapshot.cut_checkpoint(batch, place, stop), kept)
        snapshot = Snapshot(start, stop, Segment(arrays, paired, int(start == 0)), checkpoint)
        mx.async_eval(snapshot.arrays())  # at once: what is not computed keeps the whole buffer that it is cut from
        return snapshot

    def _has_room(self, nbytes: int) -> bool:
        """Is there memory for so much more? What is worth least gives way first, but nothing that is in use."""
        if self.budget is None:
            return True
        room = self.budget.room("prefixes") - nbytes
        if 0 <= room < self.cache.memory:
            self.cache.shrink(to=room)
        return self.cache.memory <= room

    def _store(self, seq: Sequence, cache_key: PrefixKey, snapshot: Snapshot) -> None:
        have, _ = self.cache.covered(seq.prefix.tree, cache_key)
        if have < snapshot.start:  # what it was cut behind has been cleared away
            return
        if not self._has_room(snapshot.nbytes + self.cache.split_bytes(seq.prefix.tree, cache_key)):
            return
        segment = snapshot.segment
        if snapshot.start < have < len(cache_key):
            segment = segment.take(have - snapshot.start, None)
            mx.async_eval(segment.all())  # or it would hold on to all that it was cut from
        new = segment if have < len(cache_key) else None
        node = self.cache.store(seq.prefix.tree, cache_key, new, snapshot.checkpoint, seq.id)
        seq.prefix.stored.append(node)
        self._pin(seq, node)

    def _pin(self, seq: Sequence, node: Node) -> None:
        """A sequence holds one entry at a time, the longest; it is pinned already."""
        if seq.prefix.pinned is not None:
            self.cache.release(seq.prefix.pinned)
        seq.prefix.pinned = node

    @contextmanager
    def _tolerating(self, seq: Sequence) -> Iterator[None]:
        """What is not kept can be computed again: that is no reason for a sequence to fail."""
        try:
            yield
        except Exception as error:
            self.tolerated_error = error
            log.exception("what request %s leaves behind could not be kept", seq.id)

    # -- the whole

    def clear(self) -> dict[str, int]:
        disk = (0, 0) if self.disk is None else self.disk.clear()
        entries, nbytes = self.cache.clear()
        self.runner.features.clear()
        self.enforce_budget()  # an idle engine makes no plan: the account is to be true now
        return {"entries": entries, "bytes": nbytes, "disk_entries": disk[0], "disk_bytes": disk[1]}

    def close(self) -> None:
        """The engine stops: what is not on disk yet goes there, and all arrays go at once, not when Python's collector
        comes by (a runner and what hooks into it hold each other)."""
        if self.disk is not None:
            self.disk.close(CLOSE_SECONDS)
        self.runner.unhook()
        self.cache.clear()

    def stats(self) -> PrefixCacheStats:
        """For any thread."""
        disk = self.disk
        return replace(
            self.cache.stats(),
            evictions={"memory": self.cache.counts.evictions, "disk": 0 if disk is None else disk.evictions},
            disk=None if disk is None else disk.stats(),
            vision=self.runner.features.stats(),
        )

    def enforce_budget(self) -> None:
        """Write down what is kept, and give back what sequences need: the least useful first, even what is in use if
        need be (a sequence that was restored has a copy of its own)."""
        if self.budget is None:
            return
        features = self.runner.features
        self.budget.hold("pictures", features.nbytes)
        if self.disk is not None:
            self.budget.hold("disk", self.disk.nbytes)
        self.budget.hold("prefixes", self.cache.memory)
        self.cache.shrink()
        self.budget.hold("prefixes", self.cache.memory)
        room = self.budget.room("prefixes")
        if self.cache.memory > room:
            self.cache.shrink(room)
            self.budget.hold("prefixes", self.cache.memory)
        if features.nbytes > self.budget.room("pictures"):
            features.shrink(self.budget.room("pictures"))
            self.budget.hold("pictures", features.nbytes)
        if self.disk is not None:
            self._bound_writes(self.disk)

    def _bound_writes(self, disk: DiskTier) -> None:
        """What waits for the disk is bounded, should it stall, and is given up where sequences need the memory."""
        assert self.budget is not None
        room = self.budget.room("disk")
        share = (self.budget.usable - self.budget.holding("weights")) // WRITE_SHARE
        if disk.nbytes > room:
            disk.cancel_writes()
            self.budget.hold("disk", disk.nbytes)
        disk.write_limit = min(share, room + self.cache.memory)

    def evict(self) -> None:
        """Give back all of it: a step ran out of memory."""
        self.cache.shrink(0)
        self.runner.features.shrink(0)
        if self.budget is not None:
            self.enforce_budget()


def _may_restore(seq: Sequence) -> bool:
    """Whoever wants the prompt's own scores must compute all of it."""
    return seq.sampling.prompt_logprobs is None


def prompt_cache_key(prompt: Prompt, image_token: int | None) -> PrefixKey:
    """Token ids; the tokens of a picture are named after its pixels, so that another picture never matches."""
    cache_key = np.asarray(prompt.token_ids, dtype=np.int64)
    if prompt.images:
        places = np.nonzero(cache_key == image_token)[0]
        sizes = [_size(image.grid) for image in prompt.images]
        merged = sum(sizes) // max(len(places), 1)  # patches that make one token
        names = [-1 - (int(image.digest[:16], 16) >> 2) for image in prompt.images]
        cache_key[places] = np.repeat(names, [size // merged for size in sizes])
    return cache_key


def _size(grid: tuple[int, int, int]) -> int:
    time, height, width = grid
    return time * height * width


def _root(salt: str, with_head: bool) -> str:
    """The name of a tree: who may share, and whether the MTP head's keys are there."""
    return hashlib.sha256(salt.encode()).hexdigest()[:32] + (WITH_HEAD if with_head else "")
