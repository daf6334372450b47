"""The disk tier: writes the tree's nodes to disk between steps, and reads them back when a request needs them.

Runs on the engine's thread. Arrays go to the disk's thread as copies in host memory, a few megabytes a step, so that no
step waits for long; arrays that were read come back the same way. A node is written once, after its parent. A node
that was evicted from memory stays in the tree as long as its file exists.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline.cache.disk import Disk, Evicted, Read, Written
from paceline.cache.disk_files import Arrays, Entry
from paceline.cache.kv_snapshot import Checkpoint, Segment
from paceline.cache.prefix import Hit, PrefixCache
from paceline.cache.radix import Node
from paceline.stats import DiskCacheStats

log = logging.getLogger("paceline")

STEP = 16 << 20  # bytes copied to or from host memory between two steps while requests decode
IDLE_STEP = 256 << 20  # the same when none decodes

# Safetensors' names; numpy has no bfloat16, so its bits are stored as integers.
NAMES = {
    mx.float32: "F32",
    mx.float16: "F16",
    mx.bfloat16: "BF16",
    mx.int32: "I32",
    mx.uint32: "U32",
    mx.int64: "I64",
    mx.uint8: "U8",
}
TYPES = {name: dtype for dtype, name in NAMES.items()}


@dataclass(slots=True)
class _Outgoing:
    """A node on its way to the disk: its arrays are copied one after another."""

    node: Node
    entry: Entry
    arrays: list[mx.array]
    copied: Arrays


@dataclass(slots=True)
class _Incoming:
    """A file on its way to the device."""

    name: str
    shape: list[int]
    waiting: deque[tuple[NDArray[Any], str]]
    arrays: list[mx.array] = field(default_factory=list)


class DiskTier:
    def __init__(self, cache: PrefixCache, disk: Disk) -> None:
        self.cache = cache
        self.disk = disk
        self._files: dict[str, tuple[int, list[Node]]] = {}  # first token of the segment; nodes that rely on the file
        self._unsaved: OrderedDict[Node, str] = OrderedDict()  # each with its root, in the order to be written
        self._outgoing: _Outgoing | None = None
        self._writing: dict[str, _Outgoing] = {}
        self._incoming: deque[_Incoming] = deque()
        self._reading: set[str] = set()
        self._wanted: set[str] = set()  # files whose checkpoint is to be restored, not their segment alone
        self.evictions = 0
        self.write_limit: int | None = None  # bytes that may wait for the disk; None: as the disk's queue allows

    def open(self) -> int:
        """Add what earlier runs have stored; returns the number of entries."""
        self.cache.on_stored, self.cache.on_split, self.cache.on_gone = self._stored, self._split, self._gone
        for entry in self.disk.open():
            self._take(entry)
        return len(self._files)

    def _take(self, entry: Entry) -> None:
        nodes = self.cache.add_file(entry.root, entry.key, entry.start, entry.id, entry.has_checkpoint)
        mine = [node for node in nodes if entry.id in (node.segment_file, node.checkpoint_file)]
        if mine:
            self._files[entry.id] = entry.start, mine
        else:
            self.disk.remove(entry.id)

    # -- between two steps

    def poll(self, limit: int = STEP) -> None:
        for result in self.disk.done():
            match result:
                case Written(name, ok):
                    self._written(name, ok)
                case Read(name, arrays):
                    self._read(name, arrays)
                case Evicted(names):
                    self.evictions += len(names)
                    for name in names:
                        self._lost(name)
        self._receive(limit)
        self._send(limit)

    @property
    def has_reads(self) -> bool:
        """Has a file been read that is not on the device yet?"""
        return bool(self._incoming)

    @property
    def busy(self) -> bool:
        """Is there work that need not wait for the disk?"""
        return self.has_reads or self._can_send

    @property
    def _can_send(self) -> bool:
        if not self.disk.accepts(0):
            return False
        if self._outgoing is not None:
            return True
        if not self._unsaved or self.write_limit is None:
            return bool(self._unsaved)
        waiting = self.disk.pending_bytes
        if not waiting and self.write_limit > 0:
            return True  # a single node may exceed the limit
        return waiting + next(iter(self._unsaved)).nbytes <= self.write_limit

    @property
    def nbytes(self) -> int:
        """Bytes in transfer that the cache does not count: copies in host memory, and arrays of a node that was evicted
        during the transfer."""
        total = self.disk.pending_bytes
        if (outgoing := self._outgoing) is not None:
            total += sum(array.nbytes for array, _ in outgoing.copied)
            total += 0 if outgoing.node.in_memory else sum(array.nbytes for array in outgoing.arrays)
        for incoming in self._incoming:
            total += sum(array.nbytes for array, _ in incoming.waiting) + sum(array.nbytes for array in incoming.arrays)
        return total

    def cancel_writes(self) -> None:
        """Free memory: writes that have not begun are made later, if their nodes still exist."""
        given_up = [self._writing.pop(name) for name in self.disk.give_up_writes() if name in self._writing]
        if self._outgoing is not None:
            given_up.append(self._outgoing)
            self._outgoing = None
        for outgoing in given_up:
            if outgoing.node.alive and outgoing.node.in_memory:
                self._unsaved[outgoing.node] = outgoing.entry.root

    def close(self, timeout: float) -> None:
        """Write what is not on disk yet, as far as time allows."""
        end = time.monotonic() + timeout
        self.write_limit = None  # no request needs the memory any more
        while time.monotonic() < end and (self._outgoing is not None or self._unsaved):
            if self._can_send:
                self.poll()
            else:
                time.sleep(0.01)
                self.poll(0)
        self.disk.close(max(end - time.monotonic(), 1.0))
        self.cache.unhook()

    # -- reading

    def read(self, hit: Hit) -> None:
        self._wanted.update(node.checkpoint_file for node in hit.nodes[-1:] if node.checkpoint_file is not None)
        for name in hit.files:
            if name not in self._reading:
                self._reading.add(name)
                self.disk.get(name)

    def is_reading(self, names: Iterable[str]) -> bool:
        return not self._reading.isdisjoint(names)

    def used(self, hit: Hit) -> None:
        names = [node.segment_file for node in hit.nodes] + [node.checkpoint_file for node in hit.nodes[-1:]]
        for name in names:
            if name is not None:
                self.disk.touch(name)

    def _read(self, name: str, arrays: Arrays | None) -> None:
        if arrays is None:
            self._reading.discard(name)
            self._wanted.discard(name)
            self._lost(name)
            return
        shape: list[int] = arrays[0][0].tolist()
        if name not in self._wanted:
            shape, arrays = [*shape[:3], -1], arrays[: 1 + sum(shape[:2])]
        self._wanted.discard(name)
        self._incoming.append(_Incoming(name, shape, deque(arrays[1:])))

    def _receive(self, limit: int) -> None:
        """From host memory to the device, a few arrays at a time."""
        while self._incoming and limit > 0:
            incoming = self._incoming[0]
            while incoming.waiting and limit > 0:
                array = _to_device(*incoming.waiting.popleft())
                incoming.arrays.append(array)
                limit -= array.nbytes
            if incoming.waiting:
                return
            self._incoming.popleft()
            self._reading.discard(incoming.name)
            if len(incoming.arrays) == _count(incoming.shape):
                self._load(incoming)
            else:
                log.warning("the cached prefix %s has the wrong number of arrays, and is removed", incoming.name)
                self._lost(incoming.name)
                self.disk.remove(incoming.name)

    def _load(self, incoming: _Incoming) -> None:
        segment, checkpoint = _unpacked(incoming.shape, incoming.arrays)
        start, nodes = self._files.get(incoming.name, (0, []))
        for node in nodes:
            mine = None
            if node.segment_file == incoming.name and segment is not None and node.segment is None:
                mine = segment.take(node.start - start, node.stop - start)
            self.cache.load(node, mine, checkpoint if node.checkpoint_file == incoming.name else None)

    # -- writing

    def _send(self, limit: int) -> None:
        tries = len(self._unsaved) + 1  # a node may have to wait for its parent
        while limit > 0 and self._can_send and tries > 0:
            if self._outgoing is None:
                self._outgoing = self._next()
                tries -= 1
                continue
            outgoing = self._outgoing
            if outgoing.node.invalid:
                self._outgoing = None
                continue
            self._outgoing = None  # if a copy fails, what is left is no whole file
            while outgoing.arrays and limit > 0:
                array = outgoing.arrays.pop(0)
                outgoing.copied.append(_to_host(array))
                limit -= array.nbytes
            if outgoing.arrays:
                self._outgoing = outgoing
                return
            parent = self._parent(outgoing.node, outgoing.entry.start)
            if parent is not None and parent not in self._files:
                continue  # gone while the arrays were copied
            self._writing[outgoing.entry.id] = outgoing
            self.disk.put(replace(outgoing.entry, parent=parent), outgoing.copied)

    def _next(self) -> _Outgoing | None:
        """The next node whose segment or checkpoint is not on disk; its parent first."""
        node, root = self._unsaved.popitem(last=False)
        segment = node.segment if node.segment_file is None else None
        checkpoint = node.checkpoint if node.checkpoint_file is None else None
        if not node.alive or node.refused or (segment is None and checkpoint is None):
            return None
        above = node.parent
        if any(writing.node in (node, above) for writing in self._writing.values()):
            self._unsaved[node] = root  # after that write
            return None
        if segment is not None and above is not None and above.parent is not None and above.segment_file is None:
            node.refused = above.refused  # the disk has no room for its parent
            if not above.refused:
                self._unsaved[node] = root
                self._unsaved[above] = root
                self._unsaved.move_to_end(above, last=False)
            return None
        start = node.start if segment is not None else node.stop
        shape, arrays = _packed(segment, checkpoint)
        key = node.prefix()
        digest = hashlib.sha256(f"{root}/{start}/{checkpoint is not None}/".encode() + key.tobytes())
        entry = Entry(digest.hexdigest()[:40], None, key, start, root, checkpoint is not None)
        return _Outgoing(node, entry, arrays, [(np.asarray(shape, dtype=np.int64), "I64")])

    @staticmethod
    def _parent(node: Node, start: int) -> str | None:
        """The file that has the token before `start`."""
        above: Node | None = node
        while above is not None and above.start >= start and above.parent is not None:
            above = above.parent
        return None if above is None else above.segment_file

    def _written(self, name: str, ok: bool) -> None:
        outgoing = self._writing.pop(name, None)
        if outgoing is not None:
            outgoing.node.refused = not ok
        if ok and outgoing is not None and not outgoing.node.invalid:
            self._take(outgoing.entry)
        elif ok:
            self.disk.remove(name)

    # -- what happens in the tree

    def _stored(self, node: Node, root: str) -> None:
        node.refused = False
        self._unsaved[node] = root

    def _split(self, upper: Node, lower: Node) -> None:
        if upper.segment_file is not None and upper.segment_file in self._files:
            self._files[upper.segment_file][1].append(upper)

    def _gone(self, node: Node) -> None:
        self._unsaved.pop(node, None)  # or a stalled disk would keep it in memory
        for name in {node.segment_file, node.checkpoint_file}:
            if name is None or name not in self._files:
                continue
            start, nodes = self._files.pop(name)
            left = [other for other in nodes if other is not node]
            if left:
                self._files[name] = start, left
            else:
                self.disk.remove(name)

    def _lost(self, name: str) -> None:
        _, nodes = self._files.pop(name, (0, []))
        for node in nodes:
            self.cache.remove_file(node, name)

    def clear(self) -> tuple[int, int]:
        self._files.clear()
        self._unsaved.clear()
        self._outgoing = None
        self._writing.clear()
        return self.disk.clear()

    def stats(self) -> DiskCacheStats:
        return self.disk.stats()


def _packed(segment: Any, checkpoint: Any) -> tuple[list[int], list[mx.array]]:
    """Segment and checkpoint as one list of arrays, and the numbers that say which is which."""
    arrays: list[mx.array] = []
    shape = [0, 0, 0, -1]
    if segment is not None:
        shape[:3] = [len(segment.arrays), len(segment.pairs), segment.unpaired]
        arrays += segment.all()
    if checkpoint is not None:
        shape[3] = int(checkpoint.carry is not None)
        shape += [-1 if layer is None else len(layer) for layer in checkpoint.layers]
        arrays += checkpoint.all()
    return shape, arrays


def _count(shape: list[int]) -> int:
    """How many arrays `_packed` has put behind this shape."""
    keys, pairs, _, carries, *layers = shape
    return keys + pairs + max(carries, 0) + sum(max(count, 0) for count in layers)


def _unpacked(shape: list[int], arrays: list[mx.array]) -> tuple[Segment | None, Checkpoint | None]:
    rest: Iterator[mx.array] = iter(arrays)
    keys, pairs, unpaired, carries, *layers = shape
    segment = Segment(_taken(rest, keys), _taken(rest, pairs), unpaired) if keys else None
    if carries < 0:
        return segment, None
    kept = tuple(None if count < 0 else _taken(rest, count) for count in layers)
    return segment, Checkpoint(kept, next(rest) if carries else None)


def _taken(arrays: Iterator[mx.array], count: int) -> tuple[mx.array, ...]:
    return tuple(next(arrays) for _ in range(count))


def _to_host(array: mx.array) -> tuple[NDArray[Any], str]:
    name = NAMES[array.dtype]
    return np.array(array.view(mx.uint16) if name == "BF16" else array), name


def _to_device(array: NDArray[Any], name: str) -> mx.array:
    made = mx.array(array)
    return made.view(mx.bfloat16) if name == "BF16" else made.astype(TYPES[name])
