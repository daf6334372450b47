from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from paceline.cache import disk as disk_module
from paceline.cache import disk_files
from paceline.cache.disk import (
    Arrays,
    Disk,
    DiskError,
    Entry,
    Evicted,
    Read,
    Result,
    Written,
    clear,
    summaries,
)
from paceline.cache.disk_files import JOURNAL, LOCK, SUFFIX, Stage

MODEL = "fingerprint"
LIMIT = 1 << 20


def digest(name: object) -> str:
    return hashlib.sha256(str(name).encode()).hexdigest()


def floats(size: int, seed: int = 0) -> Arrays:
    return [(np.random.default_rng(seed).standard_normal(size, np.float32), "F32")]


def put(
    disk: Disk, name: object, parent: object = None, arrays: Arrays | None = None, stop: int = 4, start: int = 0
) -> str:
    above = None if parent is None else digest(parent)
    arrays = floats(100, stop) if arrays is None else arrays
    disk.put(digest(name), above, np.arange(stop), start, "root", False, arrays)
    return digest(name)


def finished(disk: Disk) -> list[Result]:
    assert disk.flush(20)
    return disk.done()


def stored(disk: Disk, name: object, parent: object = None, arrays: Arrays | None = None, stop: int = 4) -> Path:
    id = put(disk, name, parent, arrays, stop)
    assert finished(disk) == [Written(id, True)]
    return disk.folder / (id + SUFFIX)


def read(disk: Disk, name: object) -> Arrays | None:
    disk.get(digest(name))
    (result,) = (result for result in finished(disk) if isinstance(result, Read))
    assert result.id == digest(name)
    return result.arrays


def same(left: Arrays | None, right: Arrays) -> bool:
    """Bit by bit: NaNs and negative zeros too."""
    return left is not None and [(a.dtype, a.shape, a.tobytes(), name) for a, name in left] == [
        (a.dtype, a.shape, a.tobytes(), name) for a, name in right
    ]


def total(folder: Path) -> int:
    return disk_files.size_of(folder)


class Gate:
    """Holds the worker in the middle of its next write."""

    def __init__(self, disk: Disk) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        disk.stage = self._hold

    def _hold(self, stage: Stage) -> None:
        self.reached.set()
        self.open.wait(10)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., tuple[Disk, list[Entry]]]]:
    disks: list[Disk] = []

    def open_(limit: int = LIMIT, fingerprint: str = MODEL, **options: Any) -> tuple[Disk, list[Entry]]:
        for disk in disks:
            disk.close()
        disks.append(Disk(tmp_path, fingerprint, limit, "org/model", **options))
        return disks[-1], disks[-1].open()

    yield open_
    for disk in disks:
        disk.close()


Opened = Callable[..., tuple[Disk, list[Entry]]]


# -- what goes in comes out


def test_an_entry_comes_back_bit_by_bit_and_after_a_restart_too(opened: Opened) -> None:
    disk, found = opened()
    assert found == []
    random = np.random.default_rng(1)
    arrays: Arrays = [
        (random.integers(0, 1 << 16, (2, 3, 5), np.uint16), "BF16"),
        (np.array([np.nan, -0.0, np.inf], np.float32), "F32"),
        (np.zeros((0, 4), np.float16), "F16"),
        (np.array(7, np.int32), "I32"),
        (random.integers(0, 256, 3, np.uint8), "F8_E4M3"),
        (np.array([True, False]), "BOOL"),
    ]
    keys = random.integers(-(1 << 62), 1 << 62, 9)
    disk.put(digest(1), None, keys, 4, "röot", True, arrays)
    assert finished(disk) == [Written(digest(1), True)]
    assert same(read(disk, 1), arrays)

    disk, found = opened()
    (entry,) = found
    assert (entry.id, entry.parent, entry.start, entry.stop, entry.root) == (digest(1), None, 4, 9, "röot")
    assert entry.has_checkpoint and entry.nbytes == os.path.getsize(disk.folder / (digest(1) + SUFFIX))
    np.testing.assert_array_equal(entry.keys, keys)
    assert same(read(disk, 1), arrays)


def test_every_type_has_the_width_that_it_is_read_as(opened: Opened) -> None:
    disk, _ = opened()
    arrays: Arrays = [(np.arange(3).astype(dtype), name) for name, dtype in disk_files.DTYPES.items()]
    stored(disk, 1, arrays=arrays)
    assert same(read(disk, 1), arrays)


def test_an_array_that_is_not_contiguous_is_stored_as_it_looks(opened: Opened) -> None:
    disk, _ = opened()
    array = np.arange(24, dtype=np.float32).reshape(4, 6)[::2, 1::2]
    stored(disk, 1, arrays=[(array, "F32")])
    assert same(read(disk, 1), [(array, "F32")])


def test_other_tools_can_read_an_entry(opened: Opened) -> None:
    disk, _ = opened()
    arrays: Arrays = [*floats(33), *floats(0), (np.arange(3, dtype=np.uint8), "U8"), *floats(5, 1)]
    tensors = load_file(stored(disk, 1, arrays=arrays))
    np.testing.assert_array_equal(tensors.pop("keys"), np.arange(4))
    assert list(tensors) == ["0000", "0001", "0002", "0003"]
    for (array, _), tensor in zip(arrays, tensors.values(), strict=True):
        np.testing.assert_array_equal(array, tensor)


def test_a_segment_may_be_empty(opened: Opened) -> None:
    disk, _ = opened()
    put(disk, 1, arrays=[], stop=3, start=3)
    finished(disk)
    assert read(disk, 1) == []
    _, (entry,) = opened()
    assert (entry.start, entry.stop) == (3, 3)


def test_an_entry_is_readable_while_it_waits_to_be_written(opened: Opened) -> None:
    disk, _ = opened()
    gate = Gate(disk)
    put(disk, 1)
    assert gate.reached.wait(10)
    arrays: Arrays = [(np.arange(5, dtype=np.int16), "BF16")]
    put(disk, 2, arrays=arrays)
    disk.get(digest(2))
    gate.open.set()
    first, second, third = finished(disk)
    assert first == Written(digest(1), True) and third == Written(digest(2), True)
    assert isinstance(second, Read) and same(second.arrays, [(arrays[0][0].view(np.uint16), "BF16")])


def test_what_is_not_there_reads_as_none(opened: Opened) -> None:
    disk, _ = opened()
    assert read(disk, 1) is None


def test_a_put_of_what_is_there_is_no_work(opened: Opened) -> None:
    disk, _ = opened()
    path = stored(disk, 1)
    before = path.stat().st_mtime_ns, path.stat().st_ino
    stored(disk, 1)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert disk.stats()["writes"] == 1


def test_a_put_whose_parent_is_missing_is_refused(opened: Opened) -> None:
    disk, _ = opened()
    put(disk, 2, parent=1)
    assert finished(disk) == [Written(digest(2), False)]
    assert disk.stats()["write_errors"] == 0


@pytest.mark.parametrize("array, name", [(np.zeros(2), "F32"), (np.zeros(2, ">f4"), "F32"), (np.zeros(2), "F31")])
def test_arrays_that_do_not_fit_their_type_name_are_the_callers_mistake(
    opened: Opened, array: np.ndarray[Any, Any], name: str
) -> None:
    disk, _ = opened()
    with pytest.raises(ValueError, match=name):
        put(disk, 1, arrays=[(array, name)])


@pytest.mark.parametrize("id", ["", "../1", "ABC", "0" * 200, "1.prefix"])
def test_an_id_that_is_not_a_digest_is_refused(opened: Opened, id: str) -> None:
    disk, _ = opened()
    with pytest.raises(ValueError, match="digest"):
        disk.put(id, None, np.arange(2), 0, "", False, [])


@pytest.mark.parametrize("fingerprint", ["", "..", ".hidden", "a/b", "a\0b"])
def test_a_fingerprint_that_leaves_the_folder_is_refused(tmp_path: Path, fingerprint: str) -> None:
    with pytest.raises(ValueError):
        Disk(tmp_path, fingerprint, LIMIT)


def test_prompts_are_readable_by_their_user_only(opened: Opened) -> None:
    disk, _ = opened()
    stored(disk, 1)
    assert disk.folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in disk.folder.iterdir())


# -- the queue


def test_the_queue_is_bounded_by_bytes_and_an_empty_one_takes_anything(opened: Opened) -> None:
    disk, _ = opened(pending_limit=1000)
    gate = Gate(disk)
    assert disk.accepts(5000)
    put(disk, 1, arrays=floats(200))
    assert disk.pending_bytes == 800
    assert disk.accepts(200) and not disk.accepts(201)
    put(disk, 2, arrays=floats(51))
    put(disk, 3, arrays=floats(50))
    assert disk.stats()["pending"] == 3
    gate.open.set()
    assert finished(disk) == [Written(digest(1), True), Written(digest(2), False), Written(digest(3), True)]
    assert disk.pending_bytes == 0 and disk.stats()["pending"] == 0


def test_the_owner_is_woken_for_each_result(opened: Opened) -> None:
    woken = threading.Semaphore(0)
    disk, _ = opened(on_done=woken.release)
    put(disk, 1)
    assert woken.acquire(timeout=10) and disk.done() == [Written(digest(1), True)]
    disk.get(digest(1))
    assert woken.acquire(timeout=10) and len(disk.done()) == 1


def test_an_owner_that_cannot_be_woken_stops_nothing(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("closed")

    disk, _ = opened(on_done=fail)
    stored(disk, 1)
    stored(disk, 2)
    assert "could not be told" in caplog.text


def test_flush_says_when_it_took_too_long(opened: Opened) -> None:
    disk, _ = opened()
    gate = Gate(disk)
    put(disk, 1)
    assert not disk.flush(0.05)
    gate.open.set()
    assert disk.flush(10)


def test_a_closed_store_answers_and_does_nothing(tmp_path: Path) -> None:
    disk = Disk(tmp_path, MODEL, LIMIT)
    disk.close()
    disk.open()
    stored(disk, 1)
    disk.close()
    disk.close()
    put(disk, 2)
    disk.get(digest(1))
    disk.touch(digest(1))
    disk.remove(digest(1))
    assert disk.clear() == (0, 0)
    written, got = disk.done()
    assert written == Written(digest(2), False) and isinstance(got, Read) and got.arrays is None
    assert [entry.entries for entry in summaries(tmp_path)] == [1]
    with pytest.raises(RuntimeError, match="once"):
        disk.open()


def test_closing_in_a_hurry_gives_up_what_waits(tmp_path: Path) -> None:
    disk = Disk(tmp_path, MODEL, LIMIT)
    disk.open()
    disk.stage = lambda stage: time.sleep(0.05)
    for name in range(50):
        put(disk, name)
    disk.close(0.1)
    results = disk.done()
    assert len(results) == 50 and results[-1] == Written(digest(49), False)
    assert disk.pending_bytes == 0
    again = Disk(tmp_path, MODEL, LIMIT)
    assert len(again.open()) == sum(Written(digest(name), True) in results for name in range(50))
    again.close()


# -- removing


def test_removing_takes_descendants_along_and_names_them(opened: Opened) -> None:
    disk, _ = opened()
    for name, parent in [(1, None), (2, 1), (3, 2), (4, None)]:
        stored(disk, name, parent)
    disk.remove(digest(1))
    assert read(disk, 4) is not None
    disk.remove(digest(4))
    assert finished(disk) == []
    assert {path.name for path in disk.folder.iterdir()} == {JOURNAL, LOCK}
    stored(disk, 5)
    _, found = opened()
    assert [entry.id for entry in found] == [digest(5)]


def test_the_descendants_of_a_removed_entry_are_named(opened: Opened) -> None:
    disk, _ = opened()
    for name, parent in [(1, None), (2, 1), (3, 2)]:
        stored(disk, name, parent)
    disk.remove(digest(1))
    assert finished(disk) == [Evicted([digest(2), digest(3)])]


@pytest.mark.parametrize("stage", ["writing", "renamed", "journaled"])
def test_an_entry_removed_while_it_is_written_is_gone(opened: Opened, stage: Stage) -> None:
    disk, _ = opened()
    stored(disk, 0)

    def remove(now: Stage) -> None:
        if now == stage:
            disk.remove(digest(1))

    disk.stage = remove
    put(disk, 1)
    finished(disk)
    assert {path.name for path in disk.folder.iterdir()} == {JOURNAL, LOCK, digest(0) + SUFFIX}
    assert read(disk, 1) is None


def test_an_entry_whose_parent_is_removed_while_it_is_written_is_refused(opened: Opened) -> None:
    disk, _ = opened()
    stored(disk, 1)
    disk.stage = lambda stage: disk.remove(digest(1))
    put(disk, 2, parent=1)
    assert finished(disk) == [Written(digest(2), False)]
    assert {path.name for path in disk.folder.iterdir()} == {JOURNAL, LOCK}


def test_what_was_removed_can_be_put_again_at_once(opened: Opened) -> None:
    disk, _ = opened()
    stored(disk, 1, arrays=floats(9, 1))
    disk.remove(digest(1))
    put(disk, 1, arrays=floats(9, 2))
    assert finished(disk) == [Written(digest(1), True)]
    assert same(read(disk, 1), floats(9, 2))


def test_clearing_takes_what_waits_too(opened: Opened) -> None:
    disk, _ = opened()
    path = stored(disk, 1)
    size = path.stat().st_size
    gate = Gate(disk)
    put(disk, 2)
    put(disk, 3)
    assert gate.reached.wait(10)
    assert disk.clear() == (1, size)
    disk.get(digest(1))
    gate.open.set()
    results = finished(disk)
    assert Written(digest(2), False) in results and Written(digest(3), False) in results
    assert [result.arrays for result in results if isinstance(result, Read)] == [None]
    assert {path.name for path in disk.folder.iterdir()} == {JOURNAL, LOCK}
    assert disk.stats()["entries"] == 0
    stored(disk, 4)


# -- the bound

OVERHEAD = 3 * disk_module.HEAD


def test_the_least_recently_used_leaf_goes_first(opened: Opened) -> None:
    disk, _ = opened(OVERHEAD + 50_000)
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
    disk, _ = opened(OVERHEAD + 50_000)
    for name, parent in [(1, None), (2, 1), (3, 2), (4, None)]:
        stored(disk, name, parent, floats(2500))
    put(disk, 5, parent=3, arrays=floats(2500))
    assert finished(disk) == [Evicted([digest(4)]), Written(digest(5), True)]
    put(disk, 6, parent=5, arrays=floats(2500))
    assert finished(disk) == [Written(digest(6), False)]  # and nothing was evicted for nothing
    assert disk.stats()["entries"] == 4


def test_a_parent_that_loses_its_last_child_to_eviction_stays_for_the_new_one(opened: Opened) -> None:
    disk, _ = opened(OVERHEAD + 50_000)
    for name, parent in [(1, None), (2, 1), (3, None), (4, None)]:
        stored(disk, name, parent, floats(2500))
    put(disk, 5, parent=1, arrays=floats(5000))
    assert finished(disk) == [Evicted([digest(2), digest(3)]), Written(digest(5), True)]


def test_an_entry_larger_than_the_bound_is_refused(opened: Opened) -> None:
    disk, _ = opened(OVERHEAD + 50_000)
    stored(disk, 1)
    put(disk, 2, arrays=floats(20_000))
    assert finished(disk) == [Written(digest(2), False)]
    assert read(disk, 1) is not None


def test_a_smaller_bound_is_enforced_when_opening(opened: Opened) -> None:
    disk, _ = opened()
    for name, parent in [(1, None), (2, 1), (3, 1), (4, None)]:
        stored(disk, name, parent, floats(2500))
    disk.touch(digest(2))
    disk, found = opened(OVERHEAD + 35_000)
    assert {entry.id for entry in found} == {digest(1), digest(2), digest(4)}
    assert total(disk.folder) <= OVERHEAD + 35_000
    assert disk.done() == []
    _, found = opened(10)
    assert found == []


def test_uses_are_remembered_across_a_restart(opened: Opened) -> None:
    disk, _ = opened()
    for name in range(3):
        stored(disk, name)
    disk.touch(digest(0))
    _, found = opened()
    assert [entry.id for entry in sorted(found, key=lambda entry: entry.last_used)] == list(map(digest, (1, 2, 0)))


def test_uses_are_journaled_after_a_while(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "TOUCH_DELAY", 0.05)
    disk, _ = opened()
    stored(disk, 1)
    disk.touch(digest(1))
    deadline = time.monotonic() + 10
    while b"touch" not in (disk.folder / JOURNAL).read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_journal_does_not_grow_for_ever(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "TOUCH_DELAY", 0.0)
    disk, _ = opened()
    stored(disk, 1)
    stages: list[Stage] = []
    disk.stage = stages.append
    for _ in range(400):
        disk.touch(digest(1))
        put(disk, 2)
        disk.remove(digest(2))
    finished(disk)
    for _ in range(200):
        disk.touch(digest(1))
        stored(disk, 2)
        disk.remove(digest(2))
        finished(disk)
    assert "compacting" in stages
    assert (disk.folder / JOURNAL).stat().st_size <= 2 * (disk_module.HEAD + 2 * disk_module.LINE)


# -- a disk that fails


def test_a_full_disk_fails_the_put_and_nothing_else(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk, _ = opened()
    stored(disk, 1)
    real, room = os.write, 1000

    def full(file: int, data: Any) -> int:
        nonlocal room
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        room -= len(data)
        return real(file, data[: max(room, 1)])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for name in (2, 3):
            put(disk, name, arrays=floats(5000))
        assert finished(disk) == [Written(digest(2), False), Written(digest(3), False)]
    assert disk.stats()["write_errors"] == 2
    assert caplog.text.count("No space left") == 1
    assert {path.name for path in disk.folder.iterdir()} == {JOURNAL, LOCK, digest(1) + SUFFIX}
    assert read(disk, 1) is not None
    stored(disk, 2)


def test_a_limit_on_file_size_fails_the_put_and_nothing_else(opened: Opened) -> None:
    disk, _ = opened()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        put(disk, 1, arrays=floats(5000))
        results = finished(disk)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert results == [Written(digest(1), False)]
    assert {path.name for path in disk.folder.iterdir()} == {JOURNAL, LOCK}
    stored(disk, 1, arrays=floats(5000))


@pytest.mark.parametrize("stage", ["writing", "synced", "renamed", "journaling"])
def test_an_error_at_any_stage_leaves_nothing_of_the_put(opened: Opened, stage: Stage) -> None:
    disk, _ = opened()
    stored(disk, 1)

    def fail(now: Stage) -> None:
        if now == stage:
            raise OSError(errno.EIO, "Input/output error")

    disk.stage = fail
    put(disk, 2, parent=1)
    assert finished(disk) == [Written(digest(2), False)]
    disk.stage = lambda now: None
    assert {path.name for path in disk.folder.iterdir()} == {JOURNAL, LOCK, digest(1) + SUFFIX}
    stored(disk, 3, parent=1)
    for text in (disk.folder / JOURNAL).read_text().splitlines():
        json.loads(text)  # a torn line was taken back
    _, found = opened()
    assert [entry.id for entry in found] == [digest(1), digest(3)]


def test_files_that_cannot_be_deleted_count_and_cost_no_more_entries(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, _ = opened(OVERHEAD + 50_000)
    for name in range(4):
        stored(disk, name, arrays=floats(2500))

    def fail(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        put(disk, 5, arrays=floats(2500))
        assert finished(disk) == [Evicted([digest(0)]), Written(digest(5), False)]
    assert disk.stats()["entries"] == 3
    put(disk, 6, arrays=floats(2500))
    assert finished(disk) == [Evicted([digest(1)]), Written(digest(6), True)]
    assert total(disk.folder) <= OVERHEAD + 50_000


def test_a_folder_that_vanishes_fails_puts_and_reads_only(opened: Opened) -> None:
    disk, _ = opened()
    stored(disk, 1)
    shutil.rmtree(disk.folder)
    assert read(disk, 1) is None
    put(disk, 2)
    assert finished(disk) == [Written(digest(2), False)]
    disk.touch(digest(1))
    disk.close()


def test_a_folder_that_is_a_file_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(DiskError, match="cannot be used"):
        Disk(tmp_path / "cache", MODEL, LIMIT).open()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_cannot_be_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DiskError, match="Permission denied"):
            Disk(tmp_path, MODEL, LIMIT).open()
    finally:
        tmp_path.chmod(0o700)


def test_a_read_only_folder_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def read_only(path: Any, flags: int, *arguments: Any, **more: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, flags, *arguments, **more)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(DiskError, match="Read-only"):
        Disk(tmp_path, MODEL, LIMIT).open()


def test_a_full_disk_at_the_start_still_reads(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, _ = opened()
    stored(disk, 1)
    disk.close()

    def full(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    disk, found = opened()
    assert len(found) == 1 and read(disk, 1) is not None


def test_a_second_server_is_told_that_the_folder_is_in_use(tmp_path: Path, opened: Opened) -> None:
    disk, _ = opened()
    stored(disk, 1)
    with pytest.raises(DiskError, match="in use by another server"):
        Disk(tmp_path, MODEL, LIMIT).open()
    assert read(disk, 1) is not None
    other = Disk(tmp_path, "another", LIMIT)
    assert other.open() == []
    other.close()
    disk.close()
    _, found = opened()
    assert len(found) == 1


# -- damage


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 1 <- 2 <- 3 and 4, closed."""
    folder = tmp_path_factory.mktemp("chain")
    disk = Disk(folder, MODEL, LIMIT)
    disk.open()
    for name, parent in [(1, None), (2, 1), (3, 2), (4, None)]:
        stored(disk, name, parent, floats(40, name), stop=8)
    disk.close()
    return folder


def opening(chain: Path, folder: Path, damage: Callable[[Path], None]) -> tuple[Disk, list[Entry]]:
    """A copy of the chain, damaged, and opened."""
    shutil.copytree(chain / MODEL, folder / MODEL)
    damage(folder / MODEL)
    disk = Disk(folder, MODEL, LIMIT)
    return disk, disk.open()


def sections(path: Path) -> tuple[int, int, int]:
    """Where the keys start, where they stop, and the end."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    return start, start + 64, len(data)


def test_a_file_cut_anywhere_is_dropped_with_what_builds_on_it(chain: Path, tmp_path: Path) -> None:
    path = chain / MODEL / (digest(2) + SUFFIX)
    keys, arrays, end = sections(path)
    cuts = [0, 1, 7, 8, 9, keys // 2, keys - 1, keys, keys + 1, arrays - 1, arrays, arrays + 1, end // 2, end - 1]
    for cut in cuts:
        disk, found = opening(chain, tmp_path / str(cut), lambda at: os.truncate(at / path.name, cut))  # noqa: B023
        assert {entry.id for entry in found} == {digest(1), digest(4)}, cut
        names = {JOURNAL, LOCK, digest(1) + SUFFIX, digest(4) + SUFFIX}
        assert {path.name for path in disk.folder.iterdir()} == names
        stored(disk, 2, 1)
        disk.close()


def test_a_file_with_more_at_its_end_is_dropped(chain: Path, tmp_path: Path) -> None:
    def damage(at: Path) -> None:
        with (at / (digest(1) + SUFFIX)).open("ab") as file:
            file.write(b"\0")

    disk, found = opening(chain, tmp_path, damage)
    disk.close()
    assert [entry.id for entry in found] == [digest(4)]


def test_a_flipped_bit_anywhere_in_the_head_is_found_when_opening(chain: Path, tmp_path: Path) -> None:
    path = chain / MODEL / (digest(4) + SUFFIX)
    data = path.read_bytes()
    folder = tmp_path / MODEL
    folder.mkdir()
    copy = folder / path.name
    copy.write_bytes(data)
    assert disk_files.survey(folder).useless == []
    for place in range(sections(path)[1]):
        copy.write_bytes(data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :])
        assert disk_files.survey(folder).useless == [copy], place


def test_a_flipped_bit_in_the_arrays_is_found_when_reading(
    chain: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = digest(1) + SUFFIX
    _, arrays, end = sections(chain / MODEL / name)
    for place in (arrays, (arrays + end) // 2, end - 1):

        def damage(at: Path) -> None:
            data = bytearray((at / name).read_bytes())
            data[place] ^= 4  # noqa: B023
            (at / name).write_bytes(data)

        disk, found = opening(chain, tmp_path / str(place), damage)
        assert len(found) == 4
        disk.get(digest(1))
        got, evicted = finished(disk)
        assert isinstance(got, Read) and got.arrays is None
        assert evicted == Evicted([digest(2), digest(3)])
        assert {path.name for path in disk.folder.iterdir()} == {JOURNAL, LOCK, digest(4) + SUFFIX}
        assert same(read(disk, 4), floats(40, 4))
        disk.close()
    assert "checksum" in caplog.text


def test_a_file_cut_while_the_store_is_open_reads_as_none(opened: Opened) -> None:
    disk, _ = opened()
    for name in (1, 2):
        path = stored(disk, name)
        if name == 1:
            os.truncate(path, path.stat().st_size - 1)
        else:
            path.unlink()
        assert read(disk, name) is None
        assert not path.exists()
    assert disk.stats()["entries"] == 0


@pytest.mark.parametrize("field, value", [("layout", "0"), ("fingerprint", "another"), ("id", digest(9))])
def test_a_whole_file_of_another_kind_is_dropped(opened: Opened, field: str, value: str) -> None:
    disk, _ = opened()
    path = stored(disk, 1)
    metadata = {**disk_files.metadata_of(digest(1), None, 0, "root", False, MODEL, ""), field: value}
    path.unlink()
    disk_files.Encoded(np.arange(3), [], metadata).write(path, lambda stage: None)
    _, found = opened()
    assert found == [] and not path.exists()


def test_entries_that_build_on_each_other_in_a_ring_are_dropped(opened: Opened) -> None:
    disk, _ = opened()
    stored(disk, 3)
    for name, parent in ((1, 2), (2, 1)):
        metadata = disk_files.metadata_of(digest(name), digest(parent), 0, "root", False, MODEL, "")
        path = disk.folder / (digest(name) + SUFFIX)
        disk_files.Encoded(np.arange(3), [], metadata).write(path, lambda stage: None)
    disk, found = opened()
    assert [entry.id for entry in found] == [digest(3)]


def test_a_missing_parent_takes_its_descendants_along(chain: Path, tmp_path: Path) -> None:
    disk, found = opening(chain, tmp_path, lambda at: (at / (digest(1) + SUFFIX)).unlink())
    disk.close()
    assert [entry.id for entry in found] == [digest(4)]


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 20)


@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        _cut,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\0\xff\n" * 1000),
        lambda path: path.write_bytes(b"[" * 100_000),
        lambda path: path.write_bytes(
            b'{"put":1}\n{"put":"a"}\n{"put":"a","used":"x"}\n3\nnull\n{"paceline":1,"model":2}'
        ),
        lambda path: path.write_text(f'{{"put":"{digest(1)}","used":NaN}}\n{{"touch":"{digest(1)}","used":1e999}}'),
        lambda path: path.write_text(f'{{"put":"{digest(1)}","used":1{"0" * 4000}}}\n'),
    ],
    ids=["missing", "torn", "empty", "garbage", "deep", "other", "not-finite", "huge"],
)
def test_a_damaged_journal_loses_no_entry(chain: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    disk, found = opening(chain, tmp_path, lambda at: damage(at / JOURNAL))
    assert {entry.id for entry in found} == set(map(digest, (1, 2, 3, 4)))
    assert all(entry.last_used <= time.time() for entry in found)
    for text in (disk.folder / JOURNAL).read_text().splitlines():
        json.loads(text)
    stored(disk, 5, 3)
    disk.close()


def test_temporaries_are_deleted_and_other_peoples_files_are_not(chain: Path, tmp_path: Path) -> None:
    def litter(at: Path) -> None:
        for name in (f"{digest(8)}.tmp-77", "manifest.tmp-77", "notes.txt"):
            (at / name).write_text("x")
        (at / f"x{SUFFIX}").write_text("x")

    disk, found = opening(chain, tmp_path, litter)
    disk.close()
    assert len(found) == 4
    names = {path.name for path in disk.folder.iterdir()}
    assert names == {JOURNAL, LOCK, "notes.txt", *(digest(name) + SUFFIX for name in (1, 2, 3, 4))}


# -- the command line's functions


def test_summaries_tell_what_is_stored(tmp_path: Path, opened: Opened) -> None:
    assert summaries(tmp_path / "nowhere") == []
    disk, _ = opened()
    stored(disk, 1, stop=5)
    stored(disk, 2, stop=9)
    (tmp_path / "unrelated").mkdir()
    (tmp_path / "unrelated" / LOCK).write_text("")
    (summary,) = summaries(tmp_path)
    assert (summary.model, summary.fingerprint, summary.entries) == ("org/model", MODEL, 2)
    assert summary.tokens == 9 and summary.damaged == 0 and summary.in_use
    assert summary.bytes == total(disk.folder) == disk.stats()["bytes"]
    assert abs(summary.last_used - time.time()) < 60
    disk.close()
    (tmp_path / MODEL / JOURNAL).unlink()
    os.truncate(tmp_path / MODEL / (digest(2) + SUFFIX), 30)
    (summary,) = summaries(tmp_path)
    assert (summary.model, summary.entries, summary.tokens, summary.damaged) == ("org/model", 1, 5, 1)
    assert not summary.in_use


def test_looking_at_a_store_leaves_it_as_it_was(chain: Path, tmp_path: Path) -> None:
    shutil.copytree(chain, tmp_path / "copy")
    (tmp_path / "copy" / MODEL / LOCK).unlink()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "copy").rglob("*")}
    assert summaries(tmp_path / "copy")[0].entries == 4
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "copy").rglob("*")} == before


def test_clearing_deletes_one_store_or_all(tmp_path: Path, opened: Opened) -> None:
    sizes = {}
    for name in ("a", "b", "c"):
        disk, _ = opened(fingerprint=name)
        stored(disk, 1)
        stored(disk, 2)
        disk.close()
        sizes[name] = total(disk.folder)
    (tmp_path / "c" / "notes.txt").write_text("mine")
    with pytest.raises(DiskError, match="no d in"):
        clear(tmp_path, "d")
    with pytest.raises(DiskError):
        clear(tmp_path, "../" + tmp_path.name)
    assert clear(tmp_path, "b") == (2, sizes["b"])
    assert not (tmp_path / "b").exists()
    assert clear(tmp_path) == (4, sizes["a"] + sizes["c"])
    assert [path.name for path in tmp_path.rglob("*")] == ["c", "notes.txt"]
    assert clear(tmp_path) == (0, 0)


def test_clearing_stops_at_a_running_server_before_anything_is_deleted(tmp_path: Path, opened: Opened) -> None:
    disk, _ = opened(fingerprint="a")
    stored(disk, 1)
    other, _ = opened(fingerprint="b")
    stored(other, 1)
    with pytest.raises(DiskError, match="running server"):
        clear(tmp_path)
    assert [summary.entries for summary in summaries(tmp_path)] == [1, 1]
    assert clear(tmp_path, "a")[0] == 1


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
    """What the owner knows from what it did and was told."""

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


@pytest.fixture(scope="module")
def short_journal() -> Iterator[None]:
    """The journal's share as small as it can be: it is rewritten often, and the bound is tight."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk_module, "HEAD", 200)
        patch.setattr(disk_module, "LINE", 120)
        yield


@pytest.mark.usefixtures("short_journal")
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
            disk.put(id, parent, np.arange(name), 0, "root", False, model.asked[id])
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
    names = {JOURNAL, LOCK, *(id + SUFFIX for id in model.stored)}
    assert {path.name for path in disk.folder.iterdir()} == names
    assert disk.stats()["bytes"] == total(disk.folder)
    disk.close()
    assert not over
    shutil.rmtree(folder)
