"""Helpers for the tests of the disk store: putting entries, reading them back, comparing them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from paceline.cache import disk_files
from paceline.cache.disk import Disk, Read, Result, Written
from paceline.cache.disk_files import SUFFIX, Arrays, Entry, Stage
from tests.waiting import WAIT

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
    disk.put(Entry(digest(name), above, np.arange(stop), start, "root", False), arrays)
    return digest(name)


def finished(disk: Disk) -> list[Result]:
    assert disk.flush(WAIT)
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
        self.open.wait(WAIT)


Opened = Callable[..., tuple[Disk, list[Entry]]]
