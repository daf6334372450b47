"""A disk that fails, and files that are damaged: entries are lost, never wrong."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.cache import disk_files
from paceline.cache.disk import Disk, Evicted, Read, Written
from paceline.cache.disk_files import LOCK, SUFFIX, DiskError, Entry, Stage
from tests.cache.disks import LIMIT, MODEL, Opened, digest, finished, floats, put, read, same, stored, total

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
    assert disk.stats().write_errors == 2
    assert caplog.text.count("No space left") == 1
    assert {path.name for path in disk.folder.iterdir()} == {LOCK, digest(1) + SUFFIX}
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
    assert {path.name for path in disk.folder.iterdir()} == {LOCK}
    stored(disk, 1, arrays=floats(5000))


@pytest.mark.parametrize("stage", ["writing", "synced", "renamed", "stored"])
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
    assert {path.name for path in disk.folder.iterdir()} == {LOCK, digest(1) + SUFFIX}
    stored(disk, 3, parent=1)
    _, found = opened()
    assert [entry.id for entry in found] == [digest(1), digest(3)]


def test_files_that_cannot_be_deleted_count_and_cost_no_more_entries(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, _ = opened(50_000)
    for name in range(4):
        stored(disk, name, arrays=floats(2500))

    def fail(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        put(disk, 5, arrays=floats(2500))
        assert finished(disk) == [Evicted([digest(0)]), Written(digest(5), False)]
    assert disk.stats().entries == 3
    put(disk, 6, arrays=floats(2500))
    assert finished(disk) == [Evicted([digest(1)]), Written(digest(6), True)]
    assert total(disk.folder) <= 50_000


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


@pytest.mark.parametrize(
    ("number", "text"), [(errno.EROFS, "Read-only file system"), (errno.EACCES, "Permission denied")]
)
def test_a_folder_that_may_not_be_written_to_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, text: str
) -> None:
    real = os.open

    def read_only(path: Any, flags: int, *arguments: Any, **more: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(number, text)
        return real(path, flags, *arguments, **more)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(DiskError, match=text):
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


def opening(chain: Path, folder: Path, damage: Callable[[Path], None]) -> tuple[Disk, list[Entry]]:
    """A copy of the chain, damaged, and opened."""
    shutil.copytree(chain / MODEL, folder / MODEL)
    damage(folder / MODEL)
    disk = Disk(folder, MODEL, LIMIT)
    return disk, disk.open()


def sections(path: Path) -> tuple[int, int, int]:
    """Where the key starts, where it stops, and the end of the file."""
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
        names = {LOCK, digest(1) + SUFFIX, digest(4) + SUFFIX}
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
        assert {path.name for path in disk.folder.iterdir()} == {LOCK, digest(4) + SUFFIX}
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
    assert disk.stats().entries == 0


@pytest.mark.parametrize("field, value", [("layout", "1"), ("fingerprint", "another"), ("id", digest(9))])
def test_a_whole_file_of_another_kind_is_dropped(opened: Opened, field: str, value: str) -> None:
    disk, _ = opened()
    path = stored(disk, 1)
    entry = Entry(digest(1), None, np.arange(3), 0, "root", False)
    metadata = {**disk_files.metadata_of(entry, MODEL, ""), field: value}
    path.unlink()
    disk_files.Encoded(entry.key, [], metadata).write(path, 0.0, lambda stage: None)
    _, found = opened()
    assert found == [] and not path.exists()


def test_entries_that_build_on_each_other_in_a_ring_are_dropped(opened: Opened) -> None:
    disk, _ = opened()
    stored(disk, 3)
    for name, parent in ((1, 2), (2, 1)):
        entry = Entry(digest(name), digest(parent), np.arange(3), 0, "root", False)
        path = disk.folder / (digest(name) + SUFFIX)
        encoded = disk_files.Encoded(entry.key, [], disk_files.metadata_of(entry, MODEL, ""))
        encoded.write(path, 0.0, lambda stage: None)
    disk, found = opened()
    assert [entry.id for entry in found] == [digest(3)]


def test_a_missing_parent_takes_its_descendants_along(chain: Path, tmp_path: Path) -> None:
    disk, found = opening(chain, tmp_path, lambda at: (at / (digest(1) + SUFFIX)).unlink())
    disk.close()
    assert [entry.id for entry in found] == [digest(4)]


@pytest.mark.parametrize("moment", [-1e9, 0.0, 1e12], ids=["before 1970", "zero", "in the future"])
def test_a_file_time_that_is_wrong_loses_no_entry(chain: Path, tmp_path: Path, moment: float) -> None:
    def damage(at: Path) -> None:
        for path in at.glob("*" + SUFFIX):
            os.utime(path, (moment, moment))

    disk, found = opening(chain, tmp_path, damage)
    assert {entry.id for entry in found} == set(map(digest, (1, 2, 3, 4)))
    assert all(entry.last_used <= time.time() for entry in found)
    stored(disk, 5, 3)
    disk.close()


def test_temporaries_are_deleted_and_other_peoples_files_are_not(chain: Path, tmp_path: Path) -> None:
    def litter(at: Path) -> None:
        for name in (f"{digest(8)}.tmp-77", "manifest.tmp-77", "manifest.jsonl", "notes.txt"):
            (at / name).write_text("x")
        (at / f"x{SUFFIX}").write_text("x")

    disk, found = opening(chain, tmp_path, litter)
    disk.close()
    assert len(found) == 4
    names = {path.name for path in disk.folder.iterdir()}
    assert names == {LOCK, "notes.txt", *(digest(name) + SUFFIX for name in (1, 2, 3, 4))}
