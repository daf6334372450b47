"""Prefix caching for sequences: what each takes from the cache, and where it leaves checkpoints.

An admitted sequence starts from the longest cached prefix of its prompt, restored into a batch of its own. Its prefill
stops at positions where other prompts are likely to branch off, and stores a checkpoint there. When it finishes, its
output is stored too, for the next turn. If an older sequence is computing a prefix that a new one needs, the new one
waits for it: no prefix is computed twice at the same time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from paceline.cache import kv_snapshot
from paceline.cache.budget import Budget
from paceline.cache.prefix import Hit, PrefixCache
from paceline.cache.radix import Node, PrefixKey, common_length
from paceline.cache.tier import IDLE_STEP, STEP, DiskTier
from paceline.engine import checkpoints
from paceline.engine.checkpoints import CHEAP, ROPE_BLOCK, Worth
from paceline.engine.prefix_store import MIN_SPACING, WITH_HEAD, PrefixStore, prompt_cache_key, tree_name
from paceline.engine.runner import Runner
from paceline.engine.sequence import Sequence
from paceline.stats import PrefixCacheStats
from paceline.types import Prompt

log = logging.getLogger("paceline")
SPARE_TOKENS = 64  # tokens of capacity that a restored sequence gets beyond its prompt
POLL_SECONDS = 0.005  # between two checks for files to write
MAX_DISK_READS = 4  # that a sequence waits for: an entry that was read may be evicted before the sequence runs
CLOSE_SECONDS = 30.0  # for pending writes when the engine stops
WRITE_SHARE = 16  # pending writes may take 1 / WRITE_SHARE of the memory beside the weights


@dataclass(slots=True)
class PrefixWait:
    """A sequence that waits until `other` has prefilled `target` tokens, or until these files are read."""

    seq: Sequence
    other: Sequence | None = None
    target: int = 0
    files: frozenset[str] = frozenset()
    pinned: tuple[Node, ...] = ()  # nodes that must not be evicted before the sequence restores them


class PrefixManager:
    """On the engine's thread, except `cache_key`."""

    def __init__(
        self,
        cache: PrefixCache,
        runner: Runner,
        *,
        feeds_head: bool = False,
        disk: DiskTier | None = None,
        budget: Budget | None = None,
        worth: Worth = CHEAP,
    ) -> None:
        self.cache = cache
        self.runner = runner
        self.feeds_head = feeds_head and runner.drafter is not None
        self.disk = disk
        self.budget = budget
        self.worth = worth
        self.store = PrefixStore(cache, runner, budget, worth)
        self.needs_state = kv_snapshot.needs_checkpoints(runner.language.batch(runner.grouping))
        cache.anywhere = not self.needs_state and runner.drafter is None
        self._active: list[Sequence] = []  # sequences in prefill, oldest first
        self._waits: list[PrefixWait] = []
        self.tolerated_error: Exception | None = None  # the latest error that cost no sequence anything
        self.clearing: Callable[[], AbstractContextManager[None]] = nullcontext  # around `clear`
        runner.on_checkpoint = self.store_prefix
        runner.on_leave = self.on_leave

    # -- for any thread

    def cache_key(self, prompt: Prompt) -> PrefixKey | None:
        """The expensive part of a lookup, for any thread. The result is never modified."""
        return prompt_cache_key(prompt) if prompt.cached else None

    # -- restoring

    def on_arrival(self, seq: Sequence) -> None:
        """Start reading what the sequence needs from disk while it waits in the queue."""
        if not seq.prompt.cached or len(seq.prompt.token_ids) < 2:
            seq.prefix.key = None
            return
        if seq.prefix.key is None:
            seq.prefix.key = self.cache_key(seq.prompt)
        seq.draft.mtp_prefill = self.feeds_head
        seq.prefix.tree = tree_name(seq.prompt.scope, seq.feeds_mtp and self.runner.drafter is not None)
        if self.disk is not None and _may_restore(seq):
            self.disk.read(self.cache.peek(seq.prefix.tree, self._restorable_key(seq)))

    def look_up(self, seq: Sequence) -> None:
        """Update how many tokens of the sequence's prompt are not cached."""
        if seq.prefix.key is not None and _may_restore(seq):
            seq.queue.uncached_tokens = (
                len(seq.prefix.key) - self.cache.peek(seq.prefix.tree, seq.prefix.key[:-1]).length
            )

    def on_admit(self, seq: Sequence) -> None:
        """Restore the longest prefix that is cached now: what was found on arrival may have been evicted."""
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
        """Between two steps: resume sequences whose wait is over, and let the disk tier work."""
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
        """How many tokens `other` must prefill. Beyond its dense prefix it may skip tokens."""
        return min(waiting.target, len(self._shared_key(other)))

    def _end_wait(self, waiting: PrefixWait) -> None:
        self._waits.remove(waiting)
        for node in waiting.pinned:
            self.cache.release(node)

    @property
    def pause(self) -> float | None:
        """How long the engine may sleep when idle; None: until a message comes."""
        if self.disk is None or not self.disk.busy:
            return None
        return 0.0 if self.disk.has_reads else POLL_SECONDS

    def _restore_longest(self, seq: Sequence) -> None:
        hit = self.cache.find(seq.prefix.tree, self._restorable_key(seq))
        kept = False
        try:
            if self._wait_for_sequence(seq, hit.length) or self._wait_for_disk(seq, hit):
                return
            # What sequences that wait for this one have asked for.
            asked = [stop for stop in seq.prefix.checkpoint_positions if stop > hit.length]
            seq.prefix.checkpoint_positions = sorted({*self._choose_checkpoints(seq, hit), *asked})
            if hit.nodes and self._restored(seq, hit):
                self.store.pin(seq, hit.nodes[-1])
                kept = True
        finally:
            if hit.nodes and not kept:
                self.cache.release(hit.nodes[-1])

    def _restorable_key(self, seq: Sequence) -> PrefixKey:
        """The part of a prompt that may be restored: at least one token is always computed."""
        cache_key = self._shared_key(seq)
        if self.runner.language.dynamic_rope:
            known = self.cache.peek(seq.prefix.tree, cache_key).length
            return cache_key[: known // ROPE_BLOCK * ROPE_BLOCK]
        return cache_key

    @staticmethod
    def _shared_key(seq: Sequence) -> PrefixKey:
        """The part of a sequence's key that other sequences can share: nothing behind skipped tokens."""
        cache_key: PrefixKey = seq.prefix.key[
            : len(seq.prefix.key) - 1 if seq.sparse.kept is None else seq.sparse.dense_prefix
        ]
        return cache_key

    def _wait_for_sequence(self, seq: Sequence, have: int) -> bool:
        """Wait if an older sequence is about to compute more of this prompt than the cache has."""
        best, found = have + self.worth.awaited - 1, None
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
        if best not in found.prefix.checkpoint_positions:  # a branch that `found` has not reached yet
            found.prefix.checkpoint_positions = sorted([*found.prefix.checkpoint_positions, best])
        seq.prefix.waiting = True
        self._waits.append(PrefixWait(seq, found, best))
        return True

    def _checkpoint_within(self, other: Sequence, common: int) -> int:
        """The last position among the first `common` tokens where `other` can store a checkpoint."""
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
        # The sequence has waited for files too often, or there is no memory for its copy.
        if hit.files or not self._fits(seq, hit):
            seq.prefix.checkpoint_positions = sorted(
                {*self._choose_checkpoints(seq, Hit(known=hit.known)), *seq.prefix.checkpoint_positions}
            )
            return False
        try:
            self._restore(seq, hit)
        except Exception as error:  # noqa: BLE001  whatever is wrong with the entry, it can be recomputed
            self.tolerated_error = error
            log.warning("a cached prefix of %d tokens could not be restored: %s", hit.length, error)
            seq.computed.batch = seq.draft.batch = seq.draft.last_hidden = seq.computed.position_ids = None
            seq.computed.tokens = seq.computed.rope_delta = seq.computed.media = seq.computed.skipped_media_tokens = 0
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
        """Is there memory for the copy that the sequence gets? Unused prefixes are evicted first. Memory that is
        reserved for sequences counts as free: they do not use it yet."""
        if self.budget is None:
            return True
        nbytes = sum(node.segment.nbytes for node in hit.nodes if node.segment is not None)
        state = hit.nodes[-1].checkpoint
        copy = nbytes * (len(seq.prefix.key) + SPARE_TOKENS) // hit.length + (0 if state is None else state.nbytes)
        free = self.budget.room("prefixes") + self.budget.holding("reserved") - copy
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
            delta = seq.computed.rope_delta - seq.dropped  # the head's cache ends before the first skipped token
            seq.draft.batch.deltas[0] = delta + hit.length - 1 - count  # positions stay right where the head has gaps
            seq.draft.last_hidden = checkpoint.carry
            waits += seq.draft.batch.arrays()
        self._skip_media(seq, hit.length)
        mx.async_eval(waits)
        seq.computed.tokens = hit.length
        if not seq.preemptions:
            seq.prefix.cached_tokens = hit.length

    def _skip_media(self, seq: Sequence, length: int) -> None:
        """Media inside the restored prefix need no features."""
        if not seq.prompt.media:
            return
        inside = int(np.count_nonzero(seq.prompt.media_mask[:length]))
        for medium in seq.prompt.media:
            if seq.computed.skipped_media_tokens + medium.tokens > inside:
                break
            seq.computed.skipped_media_tokens += medium.tokens
            seq.computed.media += 1

    def _choose_checkpoints(self, seq: Sequence, hit: Hit) -> list[int]:
        """Where the prefill stores checkpoints."""
        if seq.sparse.kept is not None:
            return [seq.sparse.dense_prefix] if seq.sparse.dense_prefix > hit.length and self._is_complete(seq) else []
        last = len(seq.prefix.key) - 1
        if self.runner.language.dynamic_rope:
            return checkpoints.rope_blocks(hit.length, last)
        boundaries, known = (seq.prompt.boundaries, hit.known) if self.needs_state else ((), 0)
        return checkpoints.choose(hit.length, last, boundaries, known, self.worth)

    def on_kept(self, seq: Sequence) -> None:
        """The sequence skips tokens from its dense prefix on: nothing that it computes there can be shared."""
        if seq.prefix.key is None:
            return
        seq.prefix.checkpoint_positions = sorted(
            {stop for stop in seq.prefix.checkpoint_positions if stop < seq.sparse.dense_prefix}
            | {seq.sparse.dense_prefix} - {seq.computed.tokens}
        )
        if not seq.prefix.checkpoint_positions:
            self._active = [other for other in self._active if other is not seq]

    def _is_complete(self, seq: Sequence) -> bool:
        """Does the sequence compute all that an entry of its tree must have? Without the head's cache it must not store
        any."""
        return seq.feeds_mtp or not seq.prefix.tree.endswith(WITH_HEAD)

    # -- storing

    def store_prefix(self, seq: Sequence, stop: int) -> list[mx.array]:
        """The prefill has reached a checkpoint position, the last or one inside its last pass. Returns arrays to wait
        for."""
        if seq.computed.batch is None or seq.prefix.key is None:
            return []
        carry = seq.draft.inner_hidden.get(stop, seq.draft.last_hidden)
        left: list[mx.array] = []
        with self._tolerating(seq):
            start, whole = self.cache.covered(seq.prefix.tree, seq.prefix.key[:stop], seq.prefix.pinned)
            pairs = range(0)
            if seq.draft.batch is not None:
                end = seq.draft.batch.lengths[0] - (seq.computed.tokens - stop)
                pairs = range(end - min(stop - max(start, 1), end), end)
            snapshot = self.store.copy(seq.computed.batch, seq.draft.batch, 0, start, stop, pairs, carry, bare=whole)
            if snapshot is not None:
                self.store.store(seq, seq.prefix.key[:stop], snapshot)
                left = snapshot.arrays()
        # Skipped tokens follow, which the head cannot read.
        if seq.sparse.kept is not None and stop == seq.sparse.dense_prefix:
            seq.draft.mtp_prefill, seq.draft.batch, seq.draft.last_hidden = False, None, None
        return left

    def on_leave(self, seq: Sequence) -> None:
        """The sequence leaves the batch, and its last token has not been read yet."""
        if seq.prefix.key is not None:
            with self._tolerating(seq):
                self.store.put_aside(seq)

    def on_finish(self, seq: Sequence, reason: str) -> None:
        """Store the output of a finished sequence as the start of the next turn's prompt, unless it failed."""
        with self._tolerating(seq):
            snapshot = self.store.take(seq)
            if seq.prefix.key is not None and reason == "error":
                self.cache.forget(seq.prefix.stored)
            elif seq.prefix.key is not None and reason == "abort":
                self._store_unfinished(seq)
            elif seq.prefix.key is not None and reason in ("stop", "length"):
                snapshot = snapshot or self.store.snapshot(seq)
                if snapshot is not None and snapshot.stop <= len(self.store.full_key(seq)):
                    self.store.store(seq, self.store.full_key(seq)[: snapshot.stop], snapshot)
        if seq.prefix.pinned is not None:
            self.cache.release(seq.prefix.pinned)
        seq.prefix.pinned = seq.prefix.key = None
        seq.prefix.stored, seq.prefix.checkpoint_positions, seq.prefix.waiting = [], [], False

    def _store_unfinished(self, seq: Sequence) -> None:
        """Clients that give up on a long prompt ask again: the next attempt continues where this one was cancelled."""
        read, media = seq.computed.tokens, bool(seq.prompt.media)
        if media or seq.sparse.kept is not None or not self._is_complete(seq) or self.runner.language.dynamic_rope:
            return
        stored = 0 if seq.prefix.pinned is None else seq.prefix.pinned.stop
        if read < len(seq.prefix.key) - 1 and read - stored >= self.worth.apart:
            try:
                mx.eval(self.store_prefix(seq, read))  # nobody will notice later if this step fails
            except Exception:
                self.cache.forget(seq.prefix.stored)
                raise

    def on_preempt(self, seq: Sequence, *, keep: bool) -> None:
        """Release what the sequence holds. `keep`: store what it has computed, if there is room; otherwise its results
        cannot be trusted, and what it stored is dropped. Nothing of it may be in flight."""
        if seq.prefix.key is None:
            return
        self.store.take(seq)
        with self._tolerating(seq):
            if keep and self.cache.limit() > self.cache.memory:
                snapshot = self.store.snapshot(seq)
                if snapshot is not None:
                    self.store.store(seq, self.store.full_key(seq)[: snapshot.stop], snapshot)
            elif not keep:
                self.cache.forget(seq.prefix.stored)
                seq.prefix.stored = []
        for waiting in [waiting for waiting in self._waits if waiting.seq is seq]:
            self._end_wait(waiting)
        self._active = [other for other in self._active if other is not seq]
        if seq.prefix.pinned is not None:
            self.cache.release(seq.prefix.pinned)
            seq.prefix.pinned = None
        seq.prefix.key = self.store.full_key(seq)

    @contextmanager
    def _tolerating(self, seq: Sequence) -> Iterator[None]:
        """An error while storing costs a recomputation later, and must not fail the sequence."""
        try:
            yield
        except Exception as error:
            self.tolerated_error = error
            log.exception("what request %s leaves behind could not be kept", seq.id)

    # -- memory

    def clear(self) -> dict[str, int]:
        with self.clearing():
            disk = (0, 0) if self.disk is None else self.disk.clear()
            entries, nbytes = self.cache.clear()
            self.runner.features.clear()
            self.enforce_budget()  # an idle engine makes no plan that would update the budget
        return {"entries": entries, "bytes": nbytes, "disk_entries": disk[0], "disk_bytes": disk[1]}

    def close(self) -> None:
        """Write what is not on disk yet, and free all arrays at once: runner and manager reference each other, and a
        garbage collection may be far away."""
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
        """Report what the cache holds to the budget, and evict what sequences need: unused entries first, then pinned
        ones (a restored sequence has its own copy)."""
        if self.budget is None:
            return
        features = self.runner.features
        self.budget.hold("images", features.nbytes)
        if self.disk is not None:
            self.budget.hold("disk", self.disk.nbytes)
        self.budget.hold("prefixes", self.cache.memory)
        self.cache.shrink()
        self.budget.hold("prefixes", self.cache.memory)
        room = self.budget.room("prefixes")
        if self.cache.memory > room:
            self.cache.shrink(room, pinned=True)
            self.budget.hold("prefixes", self.cache.memory)
        if features.nbytes > self.budget.room("images"):
            features.shrink(self.budget.room("images"))
            self.budget.hold("images", features.nbytes)
        if self.disk is not None:
            self._bound_writes(self.disk)

    def _bound_writes(self, disk: DiskTier) -> None:
        """Pending writes are bounded, in case the disk stalls, and are cancelled where sequences need the memory."""
        assert self.budget is not None
        room = self.budget.room("disk")
        share = (self.budget.usable - self.budget.holding("weights")) // WRITE_SHARE
        if disk.nbytes > room:
            disk.cancel_writes()
            self.budget.hold("disk", disk.nbytes)
        disk.write_limit = min(share, room + self.cache.memory)

    def evict(self) -> None:
        """Evict everything: a step ran out of memory."""
        self.cache.shrink(0, pinned=True)
        self.runner.features.shrink(0)
        if self.budget is not None:
            self.enforce_budget()


def _may_restore(seq: Sequence) -> bool:
    """A request for prompt logprobs must compute the whole prompt."""
    return seq.sampling.prompt_logprobs is None
