from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from paceline.cache.disk_files import LOCK, SUFFIX, DiskError
from paceline.cache.disk_summary import clear, summaries
from tests.cache.disks import MODEL, Opened, digest, stored, total


def test_summaries_tell_what_is_stored(tmp_path: Path, opened: Opened) -> None:
    assert summaries(tmp_path / "nowhere") == []
    before = time.time()
    disk, _ = opened()
    stored(disk, 1, stop=5)
    stored(disk, 2, stop=9)
    (tmp_path / "unrelated").mkdir()
    (tmp_path / "unrelated" / LOCK).write_text("")
    (summary,) = summaries(tmp_path)
    assert (summary.model, summary.fingerprint, summary.entries) == ("org/model", MODEL, 2)
    assert summary.tokens == 9 and summary.damaged == 0 and summary.in_use
    assert summary.bytes == total(disk.folder) == disk.stats().bytes
    assert summary.last_used > before - 1  # files have coarser times
    disk.close()
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
