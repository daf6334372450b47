from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from paceline.cache import disk_files
from paceline.cache.disk import Disk, Evicted, Read, Written
from paceline.cache.disk_files import LOCK, SUFFIX, Arrays, Entry, Stage
from paceline.cache.disk_summary import summaries
from tests.cache.disks import (
    LIMIT,
    MODEL,
    Gate,
    Opened,
    digest,
    finished,
    floats,
    put,
    read,
    same,
    stored,
)
from tests.waiting import WAIT, until

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
    key = random.integers(-(1 << 62), 1 << 62, 9)
    disk.put(Entry(digest(1), None, key, 4, "röot", True), arrays)
    assert finished(disk) == [Written(digest(1), True)]
    assert same(read(disk, 1), arrays)

    disk, found = opened()
    (entry,) = found
    assert (entry.id, entry.parent, entry.start, entry.stop, entry.root) == (digest(1), None, 4, 9, "röot")
    assert entry.has_checkpoint and entry.nbytes == os.path.getsize(disk.folder / (digest(1) + SUFFIX))
    np.testing.assert_array_equal(entry.key, key)
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
    np.testing.assert_array_equal(tensors.pop("key"), np.arange(4))
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
    assert gate.reached.wait(WAIT)
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
    assert disk.stats().writes == 1


def test_a_put_whose_parent_is_missing_is_refused(opened: Opened) -> None:
    disk, _ = opened()
    put(disk, 2, parent=1)
    assert finished(disk) == [Written(digest(2), False)]
    assert disk.stats().write_errors == 0


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
        disk.put(Entry(id, None, np.arange(2), 0, "", False), [])


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
    assert disk.stats().pending == 3
    gate.open.set()
    assert finished(disk) == [Written(digest(1), True), Written(digest(2), False), Written(digest(3), True)]
    assert disk.pending_bytes == 0 and disk.stats().pending == 0


def test_the_owner_is_woken_for_each_result(opened: Opened) -> None:
    woken = threading.Semaphore(0)
    disk, _ = opened(on_done=woken.release)
    put(disk, 1)
    assert woken.acquire(timeout=WAIT) and disk.done() == [Written(digest(1), True)]
    disk.get(digest(1))
    assert woken.acquire(timeout=WAIT) and len(disk.done()) == 1


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
    assert disk.flush(WAIT)


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
    stored(disk, "before")
    disk.stage = lambda stage: until(lambda: not disk._running)
    for name in range(50):
        put(disk, name)
    disk.close(0.1)
    results = disk.done()
    assert len(results) == 50 and results[-1] == Written(digest(49), False)
    assert disk.pending_bytes == 0
    again = Disk(tmp_path, MODEL, LIMIT)
    assert len(again.open()) == 1 + sum(Written(digest(name), True) in results for name in range(50))
    again.close()


def test_closing_does_not_wait_for_ever_for_a_write_that_hangs(opened: Opened) -> None:
    disk, _ = opened()
    reached, open_again, over = threading.Event(), threading.Event(), threading.Event()

    def hang(stage: str) -> None:
        reached.set()
        open_again.wait(WAIT)
        over.set()

    disk.stage = hang
    put(disk, 1)
    assert reached.wait(WAIT)
    disk.close(0.01)
    closed_first = not over.is_set()
    open_again.set()
    assert closed_first and over.wait(WAIT)


# -- removing


def test_removing_takes_descendants_along_and_names_them(opened: Opened) -> None:
    disk, _ = opened()
    for name, parent in [(1, None), (2, 1), (3, 2), (4, None)]:
        stored(disk, name, parent)
    disk.remove(digest(1))
    assert read(disk, 4) is not None
    disk.remove(digest(4))
    assert finished(disk) == []
    assert {path.name for path in disk.folder.iterdir()} == {LOCK}
    stored(disk, 5)
    _, found = opened()
    assert [entry.id for entry in found] == [digest(5)]


def test_the_descendants_of_a_removed_entry_are_named(opened: Opened) -> None:
    disk, _ = opened()
    for name, parent in [(1, None), (2, 1), (3, 2)]:
        stored(disk, name, parent)
    disk.remove(digest(1))
    assert finished(disk) == [Evicted([digest(2), digest(3)])]


@pytest.mark.parametrize("stage", ["writing", "renamed", "stored"])
def test_an_entry_removed_while_it_is_written_is_gone(opened: Opened, stage: Stage) -> None:
    disk, _ = opened()
    stored(disk, 0)

    def remove(now: Stage) -> None:
        if now == stage:
            disk.remove(digest(1))

    disk.stage = remove
    put(disk, 1)
    finished(disk)
    assert {path.name for path in disk.folder.iterdir()} == {LOCK, digest(0) + SUFFIX}
    assert read(disk, 1) is None


def test_an_entry_whose_parent_is_removed_while_it_is_written_is_refused(opened: Opened) -> None:
    disk, _ = opened()
    stored(disk, 1)
    disk.stage = lambda stage: disk.remove(digest(1))
    put(disk, 2, parent=1)
    assert finished(disk) == [Written(digest(2), False)]
    assert {path.name for path in disk.folder.iterdir()} == {LOCK}


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
    assert gate.reached.wait(WAIT)
    assert disk.clear() == (1, size)
    disk.get(digest(1))
    gate.open.set()
    results = finished(disk)
    assert Written(digest(2), False) in results and Written(digest(3), False) in results
    assert [result.arrays for result in results if isinstance(result, Read)] == [None]
    assert {path.name for path in disk.folder.iterdir()} == {LOCK}
    assert disk.stats().entries == 0
    stored(disk, 4)
