"""The disk tier writes between steps, parents first; reads back the same bits; never writes what has failed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.cache import tier
from paceline.cache.disk import Disk
from paceline.cache.disk_files import Arrays, Entry
from paceline.cache.kv_snapshot import Checkpoint, Segment
from paceline.cache.prefix import PrefixCache
from paceline.cache.radix import Node
from paceline.cache.tier import DiskTier
from tests.cache.disks import Gate
from tests.cache.test_radix import Text, key
from tests.waiting import WAIT, until

ROOT = "root"
PLENTY = 1 << 30


class World:
    def __init__(self, folder: Path, memory: int = PLENTY, disk: int = PLENTY) -> None:
        self.memory = memory
        self.cache = PrefixCache(lambda: self.memory)
        self.disk = Disk(folder, "fingerprint", disk)
        self.tier = DiskTier(self.cache, self.disk)
        self.found = self.tier.open()

    def keep(self, text: Text, *, checkpoint: bool = True, root: str = ROOT, release: bool = True) -> Node:
        have, _ = self.cache.covered(root, key(text))
        segment = segment_of(text[have:], have) if have < len(text) else None
        node = self.cache.store(root, key(text), segment, checkpoint_of(text) if checkpoint else None)
        if release:
            self.cache.release(node)
        return node

    def settle(self) -> None:
        """Wait until the disk is idle and all its results are read."""

        def rests() -> bool:
            self.tier.poll()
            if self.tier.busy or self.disk.stats().pending or self.disk._results:
                return False
            self.tier.poll()
            return not self.tier.busy and not self.tier._writing

        until(rests)

    def evict(self) -> None:
        self.memory = 0
        self.cache.shrink()
        assert self.cache.memory == 0
        self.memory = PLENTY

    def restored(self, text: Text, root: str = ROOT) -> int:
        """How many tokens can be restored; all arrays are compared."""

        def has_read(files: frozenset[str]) -> bool:
            self.tier.poll()
            return not self.tier.is_reading(files)

        while (hit := self.cache.peek(root, key(text))).files:
            self.tier.read(hit)
            until(partial(has_read, hit.files))
        at = 0
        for node in hit.nodes:
            assert same(node.segment, segment_of(text[at : node.stop], at))
            at = node.stop
        if hit.nodes:
            assert same(hit.nodes[-1].checkpoint, checkpoint_of(text[: hit.length]))
        return hit.length


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.tier.close(5)


@contextmanager
def reopened(folder: Path, memory: int = PLENTY) -> Iterator[World]:
    made = World(folder, memory)
    yield made
    made.tier.close(5)


def segment_of(text: Text, start: int) -> Segment:
    """Every number encodes its token and its position."""
    places = np.asarray(text, dtype=np.float32) * 100 + np.arange(start, start + len(text))
    array = mx.broadcast_to(mx.array(places)[None, None, :, None], (1, 2, len(text), 3))
    return Segment((array, array.astype(mx.bfloat16)), (array.astype(mx.float16),))


def checkpoint_of(text: Text) -> Checkpoint:
    number = float(sum(place * token for place, token in enumerate(text, 1)))
    return Checkpoint((None, (mx.full((1, 4), number), mx.full((1, 2), 7, mx.bfloat16)), None), mx.full((1, 1, 2), 3.0))


def same(found: Any, wanted: Segment | Checkpoint) -> bool:
    pairs = list(zip(found.all(), wanted.all(), strict=True))
    return type(found) is type(wanted) and all(a.dtype == b.dtype and bool(mx.array_equal(a, b)) for a, b in pairs)


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.prefix"))


A, AB, ABC = (1, 2, 3), (1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6)


def test_what_memory_forgot_comes_back_from_disk(world: World) -> None:
    for text in (A, AB, ABC, (9, 8)):
        world.keep(text)
    world.settle()
    assert len(files(world.disk.folder)) == 4
    world.evict()
    assert world.restored((*ABC, 7)) == 6 and world.restored((9, 8, 7)) == 2
    assert world.cache.memory == sum(node.nbytes for node in world.cache.nodes())


def test_a_new_server_finds_what_the_last_one_left(tmp_path: Path) -> None:
    with reopened(tmp_path) as first:
        first.keep(ABC)
        first.keep(A)
        first.keep((1, 2, 9), root="salted")
    with reopened(tmp_path) as second:
        assert second.found == 3 and second.cache.memory == 0
        assert second.restored((*ABC, 7)) == 6
        assert second.restored((1, 2, 3, 7)) == 3
        assert second.restored((1, 2, 9)) == 0 and second.restored((1, 2, 9), "salted") == 3


def test_a_file_that_was_split_since_is_read_by_both_its_parts(world: World) -> None:
    world.keep(ABC)
    world.settle()
    world.keep((1, 2, 7, 7), checkpoint=True)  # leaves it after two tokens
    world.settle()
    world.evict()
    assert world.restored((*ABC, 1)) == 6
    world.evict()
    assert world.restored((1, 2, 7, 7, 1)) == 4
    assert len(files(world.disk.folder)) == 2


def test_a_node_that_is_split_while_it_is_written_is_whole_afterwards(world: World) -> None:
    world.keep(ABC)
    world.tier.poll()  # on its way
    world.keep((1, 2, 7, 7))
    world.settle()
    world.evict()
    assert world.restored((*ABC, 1)) == 6
    assert world.restored((1, 2, 7, 7, 1)) == 4


def test_a_checkpoint_that_comes_later_is_written_alone(world: World) -> None:
    world.keep(ABC, checkpoint=False)
    world.settle()
    assert world.restored(ABC) == 0
    world.keep(ABC)
    world.keep(A)
    world.settle()
    assert len(files(world.disk.folder)) == 3
    world.evict()
    assert world.restored(ABC) == 6 and world.restored(A) == 3


def test_a_parent_is_written_before_its_children(tmp_path: Path) -> None:
    world = World(tmp_path)
    order: list[tuple[int, int, str | None]] = []
    put = world.disk.put

    def seen(entry: Entry, arrays: Arrays) -> None:
        order.append((entry.start, entry.stop, entry.parent))
        put(entry, arrays)

    world.disk.put = seen  # type: ignore[method-assign]
    world.keep(ABC)
    world.keep(A)
    world.keep((*ABC, 7))
    for node in list(world.tier._unsaved):  # the other way round
        world.tier._unsaved.move_to_end(node, last=False)
    world.settle()
    assert [(start, stop) for start, stop, _ in order] == [(0, 3), (3, 6), (6, 7)]
    assert [parent is None for _, _, parent in order] == [True, False, False]
    world.tier.close(5)


@pytest.mark.parametrize("polls", [0, 1])
def test_what_went_wrong_is_never_written(tmp_path: Path, polls: int) -> None:
    with reopened(tmp_path) as world:
        good = world.keep(A)
        bad = world.keep(ABC)
        for _ in range(polls):
            world.tier.poll()
        world.cache.forget([bad])
        assert good.alive
    with reopened(tmp_path) as world:
        assert world.restored(ABC) == 3


def test_what_is_forgotten_leaves_the_disk(tmp_path: Path) -> None:
    with reopened(tmp_path) as world:
        world.keep(A)
        bad = world.keep(AB)
        world.keep(ABC)
        world.settle()
        world.cache.forget([bad])
        world.settle()
    with reopened(tmp_path) as world:
        assert world.restored(ABC) == 3 and len(files(tmp_path)) == 1


def damaged(change: Callable[[bytearray], None]) -> Callable[[Path], None]:
    def work(file: Path) -> None:
        content = bytearray(file.read_bytes())
        change(content)
        file.write_bytes(content)

    return work


def flip(content: bytearray) -> None:
    content[-5] ^= 1


def cut(content: bytearray) -> None:
    del content[len(content) // 2 :]


@pytest.mark.parametrize("harm", [damaged(flip), damaged(cut), Path.unlink], ids=["flipped", "cut", "deleted"])
def test_a_damaged_file_is_as_if_it_had_never_been(world: World, harm: Callable[[Path], None]) -> None:
    world.keep(A)
    world.settle()
    (kept,) = files(world.disk.folder)
    world.keep(AB)
    world.settle()
    (bad,) = set(files(world.disk.folder)) - {kept}
    world.keep(ABC)
    world.settle()
    world.evict()
    harm(bad)
    check_forgotten(world, kept)


def check_forgotten(world: World, kept: Path) -> None:
    """Of A, AB and ABC, only the file of A is left, and the others are made again."""
    assert world.restored((*AB, 7)) == 3
    world.settle()
    world.disk.flush()
    assert files(world.disk.folder) == [kept]
    world.keep(ABC)
    world.settle()
    world.evict()
    assert world.restored((*ABC, 7)) == 6


@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_copy_that_fails_is_no_part_of_a_file_and_is_made_again_for_its_children(
    world: World, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    copied = 0
    real = tier._to_host

    def fails(array: mx.array) -> Any:
        nonlocal copied
        copied += 1
        if copied == place + 1:
            raise RuntimeError("the device lost its way")
        return real(array)

    monkeypatch.setattr(tier, "_to_host", fails)
    world.keep(A)
    with pytest.raises(RuntimeError, match="lost its way"):
        world.tier.poll()
    assert not world.tier.busy
    world.settle()
    assert files(world.disk.folder) == []
    world.keep(AB)
    world.settle()
    assert len(files(world.disk.folder)) == 2
    world.evict()
    assert world.restored((*AB, 7)) == 5


@pytest.mark.parametrize("more", [-1, 1], ids=["too few", "too many"])
def test_a_file_with_another_number_of_arrays_is_as_if_it_had_never_been(
    world: World, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    world.keep(A)
    world.settle()
    (kept,) = files(world.disk.folder)
    put = world.disk.put
    with monkeypatch.context() as patch:
        patch.setattr(
            world.disk, "put", lambda entry, arrays: put(entry, arrays[:-1] if more < 0 else [*arrays, arrays[-1]])
        )
        world.keep(AB)
        world.settle()
    world.keep(ABC)
    world.settle()
    world.evict()
    check_forgotten(world, kept)


def test_clear_empties_both(world: World) -> None:
    world.keep(A)
    world.settle()
    world.keep(ABC)
    assert world.tier.clear()[0] == 1
    world.cache.clear()
    world.settle()
    world.disk.flush()
    assert files(world.disk.folder) == [] and world.restored(ABC) == 0
    world.keep(ABC)
    world.settle()
    assert len(files(world.disk.folder)) == 1


@pytest.mark.parametrize("written", [False, True], ids=["being written", "written and not told yet"])
def test_clear_also_forgets_what_is_on_its_way_to_the_disk(world: World, written: bool) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def stage(name: str) -> None:
        begun.set()
        go_on.wait(WAIT)

    world.disk.stage = stage
    world.keep(ABC)
    world.tier.poll()
    assert begun.wait(WAIT)
    if written:
        go_on.set()
        assert world.disk.flush(WAIT)
    world.tier.clear()
    world.cache.clear()
    go_on.set()
    world.settle()
    assert world.disk.flush(WAIT)
    assert files(world.disk.folder) == [] and list(world.cache.nodes()) == []


def test_a_disk_without_room_stops_nobody(tmp_path: Path) -> None:
    """A refused write is not repeated for ever: neither for its children, nor at the end."""
    world = World(tmp_path, disk=100)
    puts = 0
    put = world.disk.put

    def counted(*arguments: Any) -> None:
        nonlocal puts
        puts += 1
        put(*arguments)

    world.disk.put = counted  # type: ignore[method-assign, assignment]
    for text in (A, AB, ABC, (9, 8)):
        world.keep(text)

    def rests() -> bool:
        world.tier.poll()
        return not world.tier.busy and not world.tier._writing

    until(rests)
    assert puts <= 8
    world.tier.close(2)
    assert files(tmp_path) == []


def test_the_oldest_files_make_room_and_memory_stays(tmp_path: Path) -> None:
    world = World(tmp_path, disk=40_000)
    for seed in range(40):
        world.keep((100 + seed, *range(20)))
        world.settle()
    kept = [seed for seed in range(40) if world.restored((100 + seed, *range(20), 1)) == 21]
    assert kept == list(range(40))  # in memory
    assert world.tier.evictions > 0
    world.evict()
    stored = [seed for seed in range(40) if world.restored((100 + seed, *range(20), 1)) == 21]
    assert 0 < len(stored) < 40 and stored == list(range(40))[-len(stored) :]
    world.tier.close(5)


def test_copying_is_spread_over_steps(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.keep(tuple(range(50)))
    world.tier.poll(limit=1)
    assert world.tier.busy and not world.tier._writing
    for _ in range(10):
        world.tier.poll(limit=1)
    world.settle()
    assert len(files(tmp_path)) == 1
    world.tier.close(5)


def test_nodes_that_wait_for_a_slow_disk_wait_once_each(tmp_path: Path) -> None:
    world = World(tmp_path)
    slow = threading.Event()
    world.disk.stage = lambda stage: None if slow.wait(WAIT) else None
    text: Text = ()
    for token in range(12):
        text = (*text, token)
        world.keep(text)
    try:
        for _ in range(8):
            world.tier.poll()
            assert len(world.tier._unsaved) <= 12
    finally:
        slow.set()
    world.settle()
    world.evict()
    assert world.restored((*text, 99)) == 12
    world.tier.close(5)


def test_a_disk_that_stalls_keeps_no_dead_nodes(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.disk._pending_limit = 1  # its queue is full with the first
    gate = Gate(world.disk)
    for first in range(20):
        world.keep((first, 1, 2))
        world.tier.poll()
        world.evict()
    assert gate.reached.wait(5)
    assert not world.tier._unsaved and list(world.cache.nodes()) == []
    gate.open.set()
    world.tier.close(5)


def test_writes_that_are_given_up_are_made_later_if_their_nodes_are_still_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    gate = Gate(world.disk)
    texts = [(first, 1, 2) for first in range(5)]
    for text in texts:
        world.keep(text)
    world.tier.poll()
    assert gate.reached.wait(5)
    written = world.tier.nbytes
    assert written > 0
    world.tier.cancel_writes()
    assert 0 < world.tier.nbytes < written / 4  # the one that is being written
    world.tier.write_limit = 0
    world.tier.poll()
    assert world.tier.nbytes < written / 4 and not world.tier.busy  # nothing more, as long as there is no memory
    world.tier.write_limit = None
    gate.open.set()
    world.settle()
    world.evict()
    assert [world.restored((*text, 9)) for text in texts] == [3] * 5
    world.tier.close(5)


@pytest.mark.parametrize("evicted", [False, True])
def test_what_waits_for_the_disk_is_counted_and_bounded(tmp_path: Path, evicted: bool) -> None:
    world = World(tmp_path)
    gate = Gate(world.disk)
    one = world.keep((0, 1, 2)).nbytes
    world.tier.write_limit = 3 * one
    for first in range(1, 12):
        world.keep((first, 1, 2))
        world.tier.poll()
        if evicted:
            world.evict()
        assert world.tier.nbytes <= 3 * one + 64 * 4  # with a few numbers that say which array is which
    assert gate.reached.wait(5)
    gate.open.set()
    world.tier.close(5)
