"""The prefix cache: keeps what was computed for a prefix, and finds it again. One owner, one lock.

The engine's thread stores, finds and evicts; other threads may `peek` and take a `snapshot` at any time. What a peek
returns may be evicted a moment later: only `find` pins what it returns.

Eviction is by benefit per byte (greedy-dual): a checkpoint's value is the tokens that would have to be computed again
without it, times how often it was used, over the bytes it frees. Unused entries age, because the clock to which values
are added goes up with every eviction.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from paceline.cache.radix import EMPTY, Checkpoint, Match, Node, PrefixKey, Segment
from paceline.stats import CachedPrefix, PrefixCacheStats

MAX_HITS = 16  # uses that count: a prefix that was popular once must not stay for ever
SLACK = 0.05  # of the limit, freed beyond what is needed: frequent small evictions would cost more


@dataclass(frozen=True, slots=True)
class Hit:
    """A prefix that can be restored: `length` tokens along `nodes`, from the root down; the last may extend further."""

    nodes: tuple[Node, ...] = ()
    length: int = 0
    known: int = 0  # tokens whose keys and values are stored; past `length` there is no checkpoint for them

    def kv_snapshot(self) -> tuple[list[Any], Any]:
        """The segments, the last one cut where the hit ends, and the checkpoint there; None: this model needs none."""
        segments: list[Any] = [node.segment for node in self.nodes]
        last = self.nodes[-1]
        if last.stop > self.length:
            segments[-1] = segments[-1].take(0, self.length - last.start)
        return segments, last.checkpoint

    @property
    def files(self) -> frozenset[str]:
        """What must be read from disk first."""
        missing = {node.segment_file for node in self.nodes if node.segment is None}
        missing |= {node.checkpoint_file for node in self.nodes[-1:] if node.checkpoint is None}
        return frozenset(name for name in missing if name is not None)


@dataclass(slots=True)
class PrefixCounts:
    queries: int = 0
    query_tokens: int = 0
    hits: int = 0
    hit_tokens: int = 0
    stored: int = 0
    evictions: int = 0
    restores: int = 0
    restore_seconds: float = 0.0


def _nothing(*_: object) -> None: ...


_Sized = tuple[int, int, Node]  # size, negative so that the largest comes first; a unique number, to break ties


class Sizes:
    """Finds the largest nodes without a walk over all: a heap, whose entries with a node's old size are skipped."""

    def __init__(self) -> None:
        self._heap: list[_Sized] = []
        self._numbers = itertools.count()
        self._least = 64  # entries before the outdated ones are removed

    def add(self, node: Node) -> None:
        """A node's size has changed."""
        if not node.nbytes:
            return
        heapq.heappush(self._heap, (-node.nbytes, next(self._numbers), node))
        if len(self._heap) > self._least:
            self._heap = list(_current(self._heap).values())
            heapq.heapify(self._heap)
            self._least = max(2 * len(self._heap), 64)

    def largest(self, count: int) -> list[Node]:
        found: dict[int, _Sized] = {}
        while self._heap and len(found) < count:
            found |= _current([heapq.heappop(self._heap)])
        for item in found.values():
            heapq.heappush(self._heap, item)
        return [node for _, _, node in found.values()]


def _current(items: list[_Sized]) -> dict[int, _Sized]:
    """One item for each node, with its present size."""
    return {id(item[2]): item for item in items if item[2].nbytes == -item[0]}


@dataclass(slots=True)
class PrefixCache:
    """`anywhere`: the model has no state but keys and values, so a prefix can be restored at any token.

    `limit` returns how many bytes may be held now; it may change from call to call. `most_entries` counts entries of
    any size.
    """

    limit: Callable[[], int]
    anywhere: bool = False
    most_entries: int | None = None
    counts: PrefixCounts = field(default_factory=PrefixCounts)
    memory: int = 0  # bytes held
    entries: int = 0  # nodes that hold some of them
    on_stored: Callable[[Node, str], None] = _nothing  # node, root: the disk tier's
    on_split: Callable[[Node, Node], None] = _nothing  # upper, lower
    on_gone: Callable[[Node], None] = _nothing
    _trees: dict[str, Node] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _clock: float = 0.0
    _sizes: Sizes = field(default_factory=Sizes)

    # -- for any thread

    def peek(self, root: str, key: PrefixKey) -> Hit:
        """What `find` would find now. A hint: nothing is pinned, so the hit must not be used."""
        with self._lock:
            return self._best(root, key)

    def stats(self, largest: int = 10) -> PrefixCacheStats:
        """Costs the same however many entries there are: it blocks the owner."""
        now = time.monotonic()
        with self._lock:
            counts = self.counts
            return PrefixCacheStats(
                enabled=True,
                reason="prefixes are kept and shared",
                queries=counts.queries,
                query_tokens=counts.query_tokens,
                hits=counts.hits,
                hit_tokens=counts.hit_tokens,
                stored=counts.stored,
                entries=self.entries,
                memory_bytes=self.memory,
                memory_limit_bytes=self.limit(),
                restores=counts.restores,
                restore_seconds=counts.restore_seconds,
                largest=tuple(
                    CachedPrefix(
                        tokens=node.stop,
                        bytes=node.nbytes,
                        hits=node.hits,
                        tier="memory" if node.segment is not None else "disk",
                        in_use=node.pins > 0,
                        idle_seconds=round(now - node.used, 3),
                    )
                    for node in self._sizes.largest(largest)
                ),
            )

    # -- for the owner

    def find(self, root: str, key: PrefixKey) -> Hit:
        """The longest prefix of `key` that can be restored; its last node is pinned until `release`."""
        with self._lock:
            hit = self._best(root, key)
            if hit.nodes:
                self.pin(hit.nodes[-1])
            return hit

    def use(self, hit: Hit) -> None:
        """Count a hit that was restored: its value goes up."""
        with self._lock:
            self.counts.hits += bool(hit.length)
            self.counts.hit_tokens += hit.length
            if hit.nodes:
                self._touch(hit.nodes[-1])
                hit.nodes[-1].hits += 1

    def covered(self, root: str, key: PrefixKey, near: Node | None = None) -> tuple[int, bool]:
        """How many tokens of `key` have a segment; and whether there is a checkpoint at its end. `near`: where to
        start, as in `Node.match`."""
        with self._lock:
            match = self._match(root, key, near)
            whole = match.length == len(key) and match.rest is None and bool(match.nodes)
            return match.length, whole and match.nodes[-1].restorable

    def split_bytes(self, root: str, key: PrefixKey, near: Node | None = None) -> int:
        """Bytes of the segment that storing `key` will split, which copies it."""
        with self._lock:
            rest = self._match(root, key, near).rest
            return 0 if rest is None or rest.segment is None else rest.segment.nbytes

    def store(
        self,
        root: str,
        key: PrefixKey,
        segment: Segment | None,
        checkpoint: Checkpoint | None,
        maker: object = None,
        near: Node | None = None,
    ) -> Node:
        """Keep what was computed for `key`: the segment of what was not `covered`, and a checkpoint at the end.

        `maker` is the request that computed it, for `forget`. Returns the node that ends there, pinned. What is stored
        already is not replaced.
        """
        with self._lock:
            node, match = self._end(root, key, near)
            if match.length < len(key):
                assert segment is not None
                node = node.grow(key[match.length :])
                node.maker = maker or object()
                self._hold(node, segment, None)
            if checkpoint is not None and not node.restorable:
                self._hold(node, node.segment, checkpoint)
            self._touch(node)
            self.pin(node)
            self.counts.stored += 1
        self.on_stored(node, root)
        self.shrink()
        return node

    def pin(self, node: Node) -> None:
        with self._lock:
            node.pins += 1

    def release(self, node: Node) -> None:
        with self._lock:
            node.pins -= 1
        self.shrink()

    def forget(self, nodes: Iterable[Node]) -> None:
        """Remove these and all that builds on them: the request that computed them has failed."""
        with self._lock:
            for made in nodes:
                node = made
                while made.maker is not None and node.parent is not None and node.parent.maker == made.maker:
                    node = node.parent  # the upper part of a node that was split
                for part in node.subtree():
                    part.invalid = True
                if node.alive:
                    self._remove(node)

    def clear(self) -> tuple[int, int]:
        """Remove everything; running requests have copies. Returns the number of entries and bytes removed."""
        with self._lock:
            freed = sum(1 for _ in self.nodes()), self.memory
            for tree in list(self._trees.values()):
                for node in list(tree.children.values()):
                    self._remove(node)
            self._trees.clear()
            self._sizes = Sizes()
            return freed

    def unhook(self) -> None:
        """Stop calling the disk tier."""
        self.on_stored = self.on_split = self.on_gone = _nothing

    def nodes(self) -> Iterator[Node]:
        """All nodes but the roots, children before parents."""
        return (node for tree in self._trees.values() for node in tree.subtree() if node is not tree)

    def shrink(self, to: int | None = None, *, pinned: bool = False) -> None:
        """Evict down to `to`, or to the limit. `pinned`: pinned nodes too, if the others are not enough."""
        with self._lock:
            limit = self.limit() if to is None else to
            if not self._exceeds(limit):
                return
            in_use = False
            while self._exceeds(limit, 1 - SLACK):
                ranked = sorted(self._candidates(in_use), key=lambda pair: pair[0])
                if not ranked and (in_use or not pinned):
                    return
                in_use = in_use or not ranked
                for value, node in ranked:
                    if not self._exceeds(limit, 1 - SLACK):
                        return
                    if node.alive:
                        self._clock = max(self._clock, value)
                        self._evict(node, in_use)

    def _exceeds(self, limit: int, share: float = 1.0) -> bool:
        """Is more held than this share of `limit` bytes, or of the entries that may be?"""
        too_many = self.most_entries is not None and self.entries > int(self.most_entries * share)
        return too_many or self.memory > int(limit * share)

    # -- what the disk tier brings back

    def add_file(self, root: str, key: PrefixKey, start: int, file: str, checkpoint: bool) -> list[Node]:
        """The disk has the segment [start, end of key) in `file`; returns the nodes that rely on it (none: the tokens
        before it are not known)."""
        with self._lock:
            if self._match(root, key).length < start:
                return []
            node, match = self._end(root, key)
            if match.length < len(key):
                node = node.grow(key[match.length :])
                node.segment_file = file
                node.used, node.base = time.monotonic(), self._clock
            mine = [part for part in node.path() if part.start >= start]
            for part in mine:
                part.segment_file = part.segment_file or file
            if checkpoint and node.checkpoint_file is None:
                node.checkpoint_file = file
            return mine if start < len(key) else [node]

    def load(self, node: Node, segment: Segment | None, checkpoint: Checkpoint | None) -> None:
        """A node's segment or checkpoint was read from disk."""
        with self._lock:
            if node.alive:
                self._hold(node, node.segment or segment, node.checkpoint or checkpoint)

    def remove_file(self, node: Node, file: str) -> None:
        """A file is gone: a node whose only copy was there is removed."""
        with self._lock:
            if not node.alive:
                return
            if node.checkpoint_file == file:
                node.checkpoint_file = None
            if node.segment_file == file:
                node.segment_file = None
                if node.segment is None:
                    self._remove(node)

    # -- inside

    def _match(self, root: str, key: PrefixKey, near: Node | None = None) -> Match:
        return self._trees[root].match(key, near) if root in self._trees else Match(())

    def _best(self, root: str, key: PrefixKey) -> Hit:
        match = self._match(root, key)
        if self.anywhere:
            nodes = match.nodes if match.rest is None else (*match.nodes, match.rest)
            return Hit(nodes, match.length, match.length)
        nodes = match.nodes
        while nodes and not nodes[-1].restorable:
            nodes = nodes[:-1]
        return Hit(nodes, nodes[-1].stop if nodes else 0, match.length)

    def _end(self, root: str, key: PrefixKey, near: Node | None = None) -> tuple[Node, Match]:
        """The node that ends where the longest known prefix of `key` ends, split off if need be; and that prefix."""
        tree = self._trees.setdefault(root, Node(EMPTY))
        match = tree.match(key, near)
        if match.rest is None:
            return (match.nodes[-1] if match.nodes else tree), match
        lower, before, held = match.rest, match.rest.nbytes, match.rest.in_memory
        upper = lower.split(match.into)
        self.memory += upper.nbytes + lower.nbytes - before
        self.entries += upper.in_memory + lower.in_memory - held
        self._sizes.add(upper)
        self._sizes.add(lower)
        self.on_split(upper, lower)
        return upper, match

    def _hold(self, node: Node, segment: Segment | None, checkpoint: Checkpoint | None) -> None:
        """Set what a node has in memory. Bytes are counted here, and where a node is split."""
        before, held = node.nbytes, node.in_memory
        node.segment, node.checkpoint = segment, checkpoint
        self.entries += node.in_memory - held
        if node.nbytes != before:
            self.memory += node.nbytes - before
            self._sizes.add(node)

    def _touch(self, node: Node) -> None:
        node.base, node.used = self._clock, time.monotonic()

    def _candidates(self, in_use: bool = False) -> Iterator[tuple[float, Node]]:
        """What can be freed, with its value: nodes that nothing in memory builds on, and checkpoints of other nodes."""
        for node in self.nodes():
            if (node.pins and not in_use) or not node.nbytes:
                continue
            inner = _carries(node, in_use)
            freed = (node.checkpoint.nbytes if node.checkpoint is not None else 0) if inner else node.nbytes
            if freed:
                saved = node.stop - self._anchor(node) if node.restorable or self.anywhere else 0
                yield node.base + (1 + min(node.hits, MAX_HITS)) * saved / freed, node

    def _anchor(self, node: Node) -> int:
        """The token from which prefill would have to start without this node."""
        if self.anywhere:
            return node.start
        above = node.parent
        while above is not None and not above.restorable:
            above = above.parent
        return 0 if above is None else above.stop

    def _evict(self, node: Node, in_use: bool) -> None:
        self.counts.evictions += 1
        if _carries(node, in_use):
            self._hold(node, node.segment, None)
            return
        self._hold(node, None, None)
        if node.segment_file is None:
            self._remove(node)

    def _remove(self, node: Node) -> None:
        """Take a node out of the tree, with all under it."""
        for part in node.subtree():
            self._hold(part, None, None)
            part.alive = False
            self.on_gone(part)
        parent = node.parent
        if parent is not None:
            del parent.children[int(node.key[0])]
            if parent.parent is None and not parent.children:
                self._trees = {name: tree for name, tree in self._trees.items() if tree is not parent}


def _carries(node: Node, in_use: bool) -> bool:
    """Does anything in memory build on this node? `in_use`: pins do not count."""
    return any(child.segment is not None or (child.pins and not in_use) for child in node.children.values())
