"""What a row takes from the prefix cache, and what it leaves there.

When a row comes in, the longest prefix of its prompt that is known is restored into a batch of its own, and prefill
goes on from there. Its prefill stops at places where others are likely to go on (`stops`), to leave a checkpoint; and
when it ends, what it said is kept too, for the next turn. If an older row is just computing what it needs, it is held
until that row has got there: the same prefix is never computed twice at the same time.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from paceline.engine.row import Row
from paceline.engine.runner import Runner
from paceline.types import Prompt

log = logging.getLogger("paceline")
EVERY = 4096  # tokens between two stops of a long prefill, at most
GRAIN = 0.02  # stops nearer to the last one than this share of their place are left out
LEAST = 16  # tokens that are worth waiting for, or keeping an answer for
SPARE = 64  # tokens that a restored row has room for, beyond its prompt
GLANCE = 0.005  # seconds between two looks at what can be written
PATIENT_READS = 4  # times that a row waits for files; what it finds may be evicted before its turn
PATIENCE = 30.0  # seconds that writing may take when the engine stops
WITH_HEAD = "+head"  # behind the name of a tree whose entries have the MTP head's part
WRITES = 16  # of the memory beside the weights, the part that may wait for the disk: one in so many
SCHEDULE = 2048  # a dynamic RoPE's keys depend on the prompt's length but at multiples of this


@dataclass(frozen=True, slots=True)
class Remains:
    """What a row that left the batch had computed: `stop` tokens, of which the segment has those from `start` on."""

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
class Waiting:
    """A row that is held: until `other` has prefilled `target` tokens, or these files are read."""

    row: Row
    other: Row | None = None
    target: int = 0
    files: frozenset[str] = frozenset()
    pinned: tuple[Node, ...] = ()  # what is being read for it must still be there when its turn comes


class Reuse:
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
        self._active: list[Row] = []  # rows that prefill, oldest first
        self._held: list[Waiting] = []
        self.forgiven: Exception | None = None  # the latest error that changed nothing for the row it came with
        self._loose = 0  # bytes of what rows have left, and the cache does not hold yet
        runner.on_stop = self.publish
        runner.on_leave = self.leave

    # -- for any thread

    def cache_key(self, prompt: Prompt) -> PrefixKey | None:
        """The costly part of finding a prefix, better done before the row reaches the engine; nobody changes them."""
        return prompt_cache_key(prompt, self.image_token) if prompt.cached else None

    # -- a row comes in

    def arrive(self, row: Row) -> None:
        """It may have to wait for its turn: what it needs from disk is read meanwhile."""
        if not row.prompt.cached or len(row.prompt.token_ids) < 2:
            row.cache_key = None
            return
        if row.cache_key is None:
            row.cache_key = self.cache_key(row.prompt)
        row.feeds = self.feeds_head
        row.root = _root(row.prompt.salt, row.reads and self.runner.drafter is not None)
        if self.disk is not None and _may_restore(row):
            self.disk.read(self.cache.peek(row.root, self._findable(row)))

    def look_up(self, row: Row) -> None:
        """How many tokens of it are to be computed, as things are now."""
        if row.cache_key is not None and _may_restore(row):
            row.uncached = len(row.cache_key) - self.cache.peek(row.root, row.cache_key[:-1]).length

    def enter(self, row: Row) -> None:
        """Its turn has come. What was found when it arrived may be gone: it is looked for again, and pinned."""
        if row.cache_key is None:
            return
        self._active.append(row)
        if _may_restore(row):
            self.cache.stats.queries += 1
            self.cache.stats.query_tokens += len(row.cache_key)
            self._seek(row)
        else:
            row.stops = self._stops(row, Hit())

    def poll(self, running: Sequence[Row] = ()) -> None:
        """Between two steps: rows that have waited long enough go on, and the cache gives back what rows need."""
        if self.disk is not None:
            self.disk.poll(STEP if any(row.decodes for row in running) else IDLE_STEP)
        self._active = [row for row in self._active if row.finished is None and row.remaining]
        for waiting in list(self._held):
            other = waiting.other
            if waiting.row.finished is not None:
                self._let_go(waiting)
            elif other is not None and other in self._active and other.prefilled < self._reach(waiting, other):
                continue
            elif self.disk is None or not self.disk.is_reading(waiting.files):
                waiting.row.held = False
                try:
                    self._seek(waiting.row)
                finally:
                    self._let_go(waiting)

    def _reach(self, waiting: Waiting, other: Row) -> int:
        """How far the other row must come; behind its last common token it may have begun to leave out some."""
        return min(waiting.target, len(self._path(other)))

    def _let_go(self, waiting: Waiting) -> None:
        self._held.remove(waiting)
        for node in waiting.pinned:
            self.cache.release(node)

    @property
    def pause(self) -> float | None:
        """How long the engine may sleep if it has nothing else to do; None: for ever."""
        if self.disk is None or not self.disk.busy:
            return None
        return 0.0 if self.disk.has_reads else GLANCE

    def _seek(self, row: Row) -> None:
        hit = self.cache.find(row.root, self._findable(row))
        kept = False
        try:
            if self._waits_for_another(row, hit.length) or self._waits_for_files(row, hit):
                return
            asked = [stop for stop in row.stops if stop > hit.length]  # by rows that wait for this one
            row.stops = sorted({*self._stops(row, hit), *asked})
            if hit.nodes and self._restored(row, hit):
                self._pin(row, hit.nodes[-1])
                kept = True
        finally:
            if hit.nodes and not kept:
                self.cache.release(hit.nodes[-1])

    def _findable(self, row: Row) -> PrefixKey:
        """The part of a prompt that may be restored: one token is left to compute."""
        cache_key = self._path(row)
        if self.runner.language.dynamic_rope:
            known = self.cache.peek(row.root, cache_key).length
            return cache_key[: known // SCHEDULE * SCHEDULE]
        return cache_key

    @staticmethod
    def _path(row: Row) -> PrefixKey:
        """What its prefill computes that others may share: not what lies behind gaps."""
        cache_key: PrefixKey = row.cache_key[: len(row.cache_key) - 1 if row.chosen is None else row.whole]
        return cache_key

    def _waits_for_another(self, row: Row, have: int) -> bool:
        """Is an older row about to compute more of this prompt than is there?"""
        best, found = have + LEAST - 1, None
        for other in self._active:
            if other is row:
                break
            if other.finished is not None or other.root != row.root or other.cache_key is None:
                continue
            common = self._stop_within(other, common_length(self._path(row), self._path(other)))
            if common > max(best, other.prefilled):
                best, found = common, other
        if found is None:
            return False
        if best not in found.stops:  # a branch, seen before it is reached
            found.stops = sorted([*found.stops, best])
        row.held = True
        self._held.append(Waiting(row, found, best))
        return True

    def _stop_within(self, other: Row, common: int) -> int:
        """Where in the first `common` tokens a row that prefills can leave a checkpoint."""
        if self.runner.language.dynamic_rope:
            return common // SCHEDULE * SCHEDULE
        near = max((stop for stop in other.stops if stop <= common), default=0)
        return near if common - near < GRAIN * common else common

    def _waits_for_files(self, row: Row, hit: Hit) -> bool:
        if self.disk is None or not hit.files or row.reads_asked == PATIENT_READS:
            return False
        row.reads_asked += 1
        self.disk.read(hit)
        row.held = True
        for node in hit.nodes:
            self.cache.pin(node)
        self._held.append(Waiting(row, files=hit.files, pinned=hit.nodes))
        return True

    def _restored(self, row: Row, hit: Hit) -> bool:
        begun = time.perf_counter()
        if hit.files or not self._fits(row, hit):  # it has waited in vain too often, or its copy would be too much
            row.stops = sorted({*self._stops(row, Hit(known=hit.known)), *row.stops})
            return False
        try:
            self._restore(row, hit)
        except Exception as error:  # noqa: BLE001  whatever is wrong with what was kept, it can be computed again
            self.forgiven = error
            log.warning("a cached prefix of %d tokens could not be restored: %s", hit.length, error)
            row.batch = row.head = row.carry = row.places = None
            row.prefilled = row.delta = row.pictured = row.skipped = 0
            if not row.setbacks:
                row.cached = 0
            row.stops = sorted({*self._stops(row, Hit()), *row.stops})
            self.cache.forget(hit.nodes[-1:])
            return False
        self.cache.use(hit)
        if self.disk is not None:
            self.disk.used(hit)
        self.cache.stats.restores += 1
        self.cache.stats.restore_seconds += time.perf_counter() - begun
        return True

    def _fits(self, row: Row, hit: Hit) -> bool:
        """Is there memory for the copy that a row gets, beside all that is cached? Others give way first. What rows
        were promised counts as free: they have not taken it yet."""
        if self.budget is None:
            return True
        nbytes = sum(node.segment.nbytes for node in hit.nodes if node.segment is not None)
        state = hit.nodes[-1].checkpoint
        copy = nbytes * (len(row.cache_key) + SPARE) // hit.length + (0 if state is None else state.nbytes)
        free = self.budget.room("prefixes") + self.budget.holding("promised") - copy
        if 0 <= free < self.cache.memory:
            self.cache.shrink(to=free)
        return self.cache.memory <= free

    def _restore(self, row: Row, hit: Hit) -> None:
        segments, checkpoint = hit.kv_snapshot()
        room = len(row.cache_key) - hit.length + SPARE
        runner = self.runner
        batch = runner.batch_of(row)
        kv_snapshot.fill(batch, hit.length, [segment.arrays for segment in segments], checkpoint, room)
        waits = batch.arrays()
        if runner.drafter is not None and row.reads:
            row.head = runner.drafter.head.batch(runner.grouping)
            pairs = [segment.pairs for segment in segments if segment.pairs]
            count = sum(part[0].shape[2] for part in pairs)
            kv_snapshot.fill(row.head, count, pairs, None, room)
            delta = row.delta - row.dropped  # the head's part ends before anything is left out
            row.head.deltas[0] = delta + hit.length - 1 - count  # where the head has gaps, its places stay true
            row.carry = checkpoint.carry
            waits += row.head.arrays()
        self._skip_pictures(row, hit.length)
        mx.async_eval(waits)
        row.prefilled = hit.length
        if not row.setbacks:
            row.cached = hit.length

    def _skip_pictures(self, row: Row, length: int) -> None:
        """Pictures that lie in the restored prefix need no features."""
        if not row.prompt.images or self.runner.model.vision is None:
            return
        inside = int(np.count_nonzero(np.asarray(row.prompt.token_ids[:length]) == self.image_token))
        for image in row.prompt.images:
            count = self.runner.model.vision.tokens(image)
            if row.skipped + count > inside:
                break
            row.skipped += count
            row.pictured += 1

    def _stops(self, row: Row, hit: Hit) -> list[int]:
        """Where its prefill leaves something: at the prompt's marks and its end, where it left another prompt's path,
        and every few thousand tokens."""
        if row.chosen is not None:
            return [row.whole] if row.whole > hit.length and self._is_complete(row) else []
        last = len(row.cache_key) - 1
        begin = hit.length
        if self.runner.language.dynamic_rope:
            return list(range(begin // SCHEDULE * SCHEDULE + SCHEDULE, last + 1, SCHEDULE))
        wanted = {last}
        if self.needs_state:
            marks = [mark for mark in row.prompt.marks if begin < mark <= last]
            wanted.update(marks[:1] + marks[-1:])  # the system prompt's end, if nobody knows it yet; the last turn's
            before = begin
            for mark in marks:
                if mark - before >= GRAIN * mark:
                    wanted.add(mark)
                    before = mark
            if begin < hit.known <= last:
                wanted.add(hit.known)
        stops: list[int] = []
        before = begin
        for stop in sorted(wanted):
            while stop - before > EVERY:
                before += EVERY
                stops.append(before)
            if stop > before:
                stops.append(stop)
                before = stop
        return stops

    def turned(self, row: Row) -> None:
        """It reads its prompt sparsely from `row.whole` on: what it computes behind that is nobody else's prefix."""
        if row.cache_key is None:
            return
        row.stops = sorted({stop for stop in row.stops if stop < row.whole} | {row.whole} - {row.prefilled})
        if not row.stops:
            self._active = [other for other in self._active if other is not row]

    def _is_complete(self, row: Row) -> bool:
        """Does it compute all that an entry of its tree has? Without the head's part, it must not leave any."""
        return row.reads or not row.root.endswith(WITH_HEAD)

    # -- what it leaves

    def publish(self, row: Row) -> list[mx.array]:
        """Its prefill has come to a stop; returns what to wait for."""
        if row.batch is None or row.cache_key is None:
            return []
        stop = row.prefilled
        left: list[mx.array] = []
        with self._forgiving(row):
            start, whole = self.cache.covered(row.root, row.cache_key[:stop])
            pairs = 0 if row.head is None else min(stop - max(start, 1), row.head.lengths[0])
            remains = self._cut(row.batch, row.head, 0, start, stop, pairs, row.carry, bare=whole)
            if remains is not None:
                self._keep(row, row.cache_key[:stop], remains)
                left = remains.arrays()
        if row.chosen is not None and stop == row.whole:  # what follows has gaps, where the head has nothing to read
            row.feeds, row.head, row.carry = False, None, None
        return left

    def leave(self, row: Row) -> None:
        """It leaves the common batch, and its last token has not been read yet."""
        if row.cache_key is not None:
            with self._forgiving(row):
                row.remains = self._remains(row)
                self._hold_loose(0 if row.remains is None else row.remains.nbytes)

    def _hold_loose(self, nbytes: int) -> None:
        self._loose += nbytes
        if self.budget is not None:
            self.budget.hold("copies", self._loose)

    def _take_remains(self, row: Row) -> Remains | None:
        remains: Remains | None = row.remains
        if remains is not None:
            row.remains = None
            self._hold_loose(-remains.nbytes)
        return remains

    def end(self, row: Row, reason: str) -> None:
        """It is over. What it said is the beginning of the next turn's prompt; what went wrong must not be."""
        with self._forgiving(row):
            remains = self._take_remains(row)
            if row.cache_key is not None and reason == "error":
                self.cache.forget(row.made)
            elif row.cache_key is not None and reason in ("stop", "length"):
                remains = remains or self._remains(row)
                if remains is not None and remains.stop <= len(self._said(row)):
                    self._keep(row, self._said(row)[: remains.stop], remains)
        if row.pinned_node is not None:
            self.cache.release(row.pinned_node)
        row.pinned_node = row.cache_key = None
        row.made, row.stops, row.held = [], [], False

    def set_back(self, row: Row, *, keep: bool) -> None:
        """It must give way for now; `keep`: what it has computed is left here for its return, if there is room.

        Nothing of it may be under way. Without `keep` nothing that it has computed can be trusted.
        """
        if row.cache_key is None:
            return
        self._take_remains(row)
        with self._forgiving(row):
            if keep and self.cache.limit() > self.cache.memory:
                remains = self._remains(row)
                if remains is not None:
                    self._keep(row, self._said(row)[: remains.stop], remains)
            elif not keep:
                self.cache.forget(row.made)
                row.made = []
        for waiting in [waiting for waiting in self._held if waiting.row is row]:
            self._let_go(waiting)
        self._active = [other for other in self._active if other is not row]
        if row.pinned_node is not None:
            self.cache.release(row.pinned_node)
            row.pinned_node = None
        row.cache_key = self._said(row)

    @staticmethod
    def _said(row: Row) -> PrefixKey:
        """All tokens of a row, as the cache names them; `row.keys` are those of its context."""
        cache_key: PrefixKey = np.concatenate([row.cache_key, np.asarray(row.generated[row.said :], dtype=np.int64)])
        return cache_key

    def _remains(self, row: Row) -> Remains | None:
        """Cut a row out of the common batch; None where it is not known, or not worth it, what its caches hold."""
        runner = self.runner
        place = next((place for place, other in enumerate(runner.rows) if other is row), None)
        if place is None or runner.batch is None or self.runner.language.dynamic_rope or row.chosen is not None:
            return None
        stop = runner.batch.lengths[place]
        if runner.batch.unsynced:  # a round is under way; after an end it keeps nothing but the end itself
            if not row.generated or row.generated[-1] not in row.ends or len(runner.batch.unsynced) > 1:
                return None
            stop += 1
        prompt = len(row.cache_key) - 1
        start, _ = self.cache.covered(row.root, row.cache_key[:prompt])
        if stop - prompt < min(max(GRAIN * stop, 1), LEAST):
            return None
        head, carry, pairs = None, None, 0
        if runner.drafter is not None and row.reads and runner.drafter.batch is not None:
            head, carry = runner.drafter.batch, runner.drafter.last_hidden(place)
            of_prompt = max(prompt - max(start, 1), 0)
            pairs = min(head.lengths[place] - row.paired + of_prompt, head.lengths[place], stop - max(start, 1))
        return self._cut(runner.batch, head, place, start, stop, pairs, carry)

    def _cut(
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
    ) -> Remains | None:
        """Copies of tokens [start, stop) of a row, with the head's last `pairs`; `bare`: without a checkpoint. None:
        there is no memory for them."""
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
        remains = Remains(start, stop, Segment(arrays, paired, int(start == 0)), checkpoint)
        mx.async_eval(remains.arrays())  # at once: what is not computed keeps the whole buffer that it is cut from
        return remains

    def _has_room(self, nbytes: int) -> bool:
        """Is there memory for so much more? What is worth least gives way first, but nothing that is in use."""
        if self.budget is None:
            return True
        room = self.budget.room("prefixes") - nbytes
        if 0 <= room < self.cache.memory:
            self.cache.shrink(to=room)
        return self.cache.memory <= room

    def _keep(self, row: Row, cache_key: PrefixKey, remains: Remains) -> None:
        have, _ = self.cache.covered(row.root, cache_key)
        if have < remains.start:  # what it was cut behind has been cleared away
            return
        if not self._has_room(remains.nbytes + self.cache.split_bytes(row.root, cache_key)):
            return
        segment = remains.segment
        if remains.start < have < len(cache_key):
            segment = segment.take(have - remains.start, None)
            mx.async_eval(segment.all())  # or it would hold on to all that it was cut from
        new = segment if have < len(cache_key) else None
        node = self.cache.store(row.root, cache_key, new, remains.checkpoint, row.id)
        row.made.append(node)
        self._pin(row, node)

    def _pin(self, row: Row, node: Node) -> None:
        """A row holds one entry at a time, the longest; it is pinned already."""
        if row.pinned_node is not None:
            self.cache.release(row.pinned_node)
        row.pinned_node = node

    @contextmanager
    def _forgiving(self, row: Row) -> Iterator[None]:
        """What is not kept can be computed again: that is no reason for a row to fail."""
        try:
            yield
        except Exception as error:
            self.forgiven = error
            log.exception("what request %s leaves behind could not be kept", row.id)

    # -- the whole

    def clear(self) -> dict[str, int]:
        disk = (0, 0) if self.disk is None else self.disk.clear()
        entries, nbytes = self.cache.clear()
        self.runner.features.clear()
        self.give_way()  # an idle engine makes no plan: the account is to be true now
        return {"entries": entries, "bytes": nbytes, "disk_entries": disk[0], "disk_bytes": disk[1]}

    def close(self) -> None:
        """The engine stops: what is not on disk yet goes there, and all arrays go at once, not when Python's collector
        comes by (a runner and what hooks into it hold each other)."""
        if self.disk is not None:
            self.disk.close(PATIENCE)
        self.runner.unhook()
        self.cache.clear()

    def stats(self) -> dict[str, Any]:
        """For any thread."""
        stats = self.cache.snapshot()
        disk_evictions = 0 if self.disk is None else self.disk.evictions
        return {
            **stats,
            "evictions": {"memory": self.cache.stats.evictions, "disk": disk_evictions},
            "disk": None if self.disk is None else self.disk.stats(),
            "vision": self.runner.features.stats(),
        }

    def give_way(self) -> None:
        """Write down what is kept, and give back what rows need: the least useful first, even what is in use if need
        be (a row that was restored has a copy of its own)."""
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
            self.cache.shrink(room, pinned=True)
            self.budget.hold("prefixes", self.cache.memory)
        if features.nbytes > self.budget.room("pictures"):
            features.shrink(self.budget.room("pictures"))
            self.budget.hold("pictures", features.nbytes)
        if self.disk is not None:
            self._bound_writes(self.disk)

    def _bound_writes(self, disk: DiskTier) -> None:
        """What waits for the disk is bounded, should it stall, and is given up where rows need the memory."""
        assert self.budget is not None
        room = self.budget.room("disk")
        share = (self.budget.usable - self.budget.holding("weights")) // WRITES
        if disk.nbytes > room:
            disk.cancel_writes()
            self.budget.hold("disk", disk.nbytes)
        disk.write_limit = min(share, room + self.cache.memory)

    def evict(self) -> None:
        """Give back all of it: a step ran out of memory."""
        self.cache.shrink(0, pinned=True)
        self.runner.features.shrink(0)
        if self.budget is not None:
            self.give_way()


def _may_restore(row: Row) -> bool:
    """Whoever wants the prompt's own scores must compute all of it."""
    return row.sampling.prompt_logprobs is None


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
