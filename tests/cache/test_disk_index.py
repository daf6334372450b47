"""Which entries a store keeps: the bound, the least recently used, and what was used before a restart."""

from __future__ import annotations

import os
import shutil
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.cache.disk import Disk, Evicted, Read, Result, Written
from paceline.cache.disk_files import LOCK, SUFFIX, Arrays, Entry
from tests.cache.disks import MODEL, Opened, digest, finished, floats, put, read, same, stored, total
from tests.lengths import examples
from tests.waiting import WAIT

# -- the bound


def test_the_least_recently_used_leaf_goes_first(opened: Opened) -> None:
    disk, _ = opened(50_000)
    for name, parent in [(1, None), (2, 1), (3, None), (4, None)]:
        stored(disk, name, parent, floats(2500))
    disk.touch(digest(3))
    put(disk, 5, arrays=floats(2500))
    assert finished(disk) == [Evicted([digest(2)]), Written(digest(5), True)]  # not 1, which 2 builds on
    put(disk, 6, arrays=floats(2500))
    assert finished(disk) == [Evicted([digest(1)]), Written(digest(6), True)]
    put(disk, 7, arrays=floats(2500))
    assert finished(disk) == [Evicted([digest(4)]), Written(digest(7), True)]  # 3 was used


def test_the_chain_of_what_is_written_is_never_evicted(opened: Opened) -> None:
    disk, _ = opened(50_000)
    for name, parent in [(1, None), (2, 1), (3, 2), (4, None)]:
        stored(disk, name, parent, floats(2500))
    put(disk, 5, parent=3, arrays=floats(2500))
    assert finished(disk) == [Evicted([digest(4)]), Written(digest(5), True)]
    put(disk, 6, parent=5, arrays=floats(2500))
    assert finished(disk) == [Written(digest(6), False)]  # and nothing was evicted for nothing
    assert disk.stats().entries == 4


def test_a_parent_that_loses_its_last_child_to_eviction_stays_for_the_new_one(opened: Opened) -> None:
    disk, _ = opened(50_000)
    for name, parent in [(1, None), (2, 1), (3, None), (4, None)]:
        stored(disk, name, parent, floats(2500))
    put(disk, 5, parent=1, arrays=floats(5000))
    assert finished(disk) == [Evicted([digest(2), digest(3)]), Written(digest(5), True)]


def test_an_entry_larger_than_the_bound_is_refused(opened: Opened) -> None:
    disk, _ = opened(50_000)
    stored(disk, 1)
    put(disk, 2, arrays=floats(20_000))
    assert finished(disk) == [Written(digest(2), False)]
    assert read(disk, 1) is not None


def test_a_smaller_bound_is_enforced_when_opening(opened: Opened) -> None:
    disk, _ = opened()
    for name, parent in [(1, None), (2, 1), (3, 1), (4, None)]:
        stored(disk, name, parent, floats(2500))
    disk.touch(digest(2))
    disk, found = opened(35_000)
    assert {entry.id for entry in found} == {digest(1), digest(2), digest(4)}
    assert total(disk.folder) <= 35_000
    assert disk.done() == []
    _, found = opened(10)
    assert found == []


def test_numbers_are_told_without_a_walk_over_all_entries(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event loop asks, and the worker waits for the lock meanwhile."""

    class Indexed(dict[str, Any]):
        def never(self) -> Any:
            raise AssertionError("a walk over all entries")

        values = items = __iter__ = never

    disk, _ = opened()
    for name in range(5):
        stored(disk, name)
    monkeypatch.setattr(disk, "_index", Indexed(disk._index.copy()))
    stats = disk.stats()
    assert (stats.entries, stats.bytes) == (5, total(disk.folder))
    monkeypatch.undo()


def test_uses_are_remembered_across_a_restart(opened: Opened) -> None:
    disk, _ = opened()
    for name in range(3):
        stored(disk, name)
    disk.touch(digest(0))
    _, found = opened()
    assert [entry.id for entry in sorted(found, key=lambda entry: entry.last_used)] == list(map(digest, (1, 2, 0)))


def test_a_use_is_written_to_the_time_of_its_file_and_nowhere_else(opened: Opened) -> None:
    disk, _ = opened()
    path = stored(disk, 1)
    size, before = total(disk.folder), path.stat().st_mtime_ns
    for _ in range(100):
        disk.touch(digest(1))
    assert disk.flush(WAIT)
    assert path.stat().st_mtime_ns > before
    assert total(disk.folder) == size and {path.name for path in disk.folder.iterdir()} == {LOCK, path.name}


# -- everything at once

NAMES = st.integers(0, 11)
ACTIONS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.sampled_from([0, 300, 1000, 2000, 4000])),
    st.tuples(st.just("put"), NAMES, st.sampled_from([0, 300, 1000, 2000, 4000])),
    st.tuples(st.just("get"), NAMES, st.just(0)),
    st.tuples(st.just("touch"), NAMES, st.just(0)),
    st.tuples(st.just("remove"), NAMES, st.just(0)),
    st.tuples(st.sampled_from(["flush", "reopen", "clear"]), st.just(0), st.just(0)),
)


class Model:
    """What the owner knows from its own calls and from the results."""

    def __init__(self) -> None:
        self.stored: dict[str, Arrays] = {}
        self.asked: dict[str, Arrays] = {}  # the arrays of every put under way
        self.parents: dict[str, str | None] = {}

    def hear(self, results: list[Result]) -> None:
        for result in results:
            if isinstance(result, Written):
                if result.ok:
                    self.stored.setdefault(result.id, self.asked[result.id])
            elif isinstance(result, Evicted):
                for id in result.ids:
                    del self.stored[id]
            elif result.arrays is not None:
                assert same(result.arrays, self.stored.get(result.id, self.asked.get(result.id, [])))
            else:
                assert result.id not in self.stored


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, min_size=5, max_size=40))
def test_whatever_is_done_the_store_keeps_its_bound_and_its_promises(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    limit = 25_000
    over: list[tuple[str, int]] = []

    def measure(stage: str) -> None:
        if (size := total(folder / MODEL)) > limit:
            over.append((stage, size))

    def start() -> tuple[Disk, list[Entry]]:
        disk = Disk(folder, MODEL, limit)
        disk.stage = measure
        return disk, disk.open()

    model = Model()
    disk, _ = start()
    for action, name, size in actions:
        id = digest(name)
        if action == "put":
            parent = None if name < 3 else digest(name // 3)
            arrays: Arrays = [(np.random.default_rng(name).integers(0, 1 << 16, size, np.uint16), "BF16"), *floats(7)]
            if id not in model.asked:  # an id names one content
                model.asked[id], model.parents[id] = arrays, parent
            disk.put(Entry(id, parent, np.arange(name), 0, "root", False), model.asked[id])
        elif action == "get":
            disk.get(id)
        elif action == "touch":
            disk.touch(id)
        elif action in ("remove", "clear"):
            model.hear(finished(disk))
            if action == "remove":
                disk.remove(id)
                model.stored.pop(id, None)
            else:
                expected = len(model.stored), sum(os.path.getsize(disk.folder / (i + SUFFIX)) for i in model.stored)
                assert disk.clear() == expected
                model.stored.clear()
        else:
            model.hear(finished(disk))
            assert disk.stats().bytes == total(disk.folder)
            if action == "reopen":
                disk.close()
                model.hear(disk.done())
                disk, found = start()
                seen: set[str | None] = {None}
                for entry in found:
                    assert entry.parent in seen and entry.parent == model.parents[entry.id]
                    seen.add(entry.id)
                assert seen == {None, *model.stored}
    model.hear(finished(disk))
    for id in model.stored:
        assert model.parents[id] is None or model.parents[id] in model.stored  # no orphans
        disk.get(id)
    for result in finished(disk):
        assert isinstance(result, Read) and same(result.arrays, model.stored[result.id])
    names = {LOCK, *(id + SUFFIX for id in model.stored)}
    assert {path.name for path in disk.folder.iterdir()} == names
    assert disk.stats().bytes == total(disk.folder)
    disk.close()
    assert not over
    shutil.rmtree(folder)
