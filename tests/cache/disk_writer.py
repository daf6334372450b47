"""The process that `test_disk_kill` kills: it writes a known list of entries and dies at a given stage of one of them.

Run as a program, it reads `folder seed stage` lines, forks a writer for each (importing numpy 100 times would take most
of the test's time), and answers with the signal that ended the writer.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paceline.cache.disk import Disk
from paceline.cache.disk_files import Arrays, Entry, Stage

FINGERPRINT = "model-1"
LIMIT = 64 << 20
COUNT = 5  # entries of a plan


@dataclass(frozen=True, eq=False)
class Planned:
    entry: Entry
    arrays: Arrays

    def put(self, disk: Disk) -> None:
        disk.put(self.entry, self.arrays)


def plan(seed: int) -> list[Planned]:
    """Entries of a random tree, the same for the same seed."""
    random = np.random.default_rng(seed)
    entries: list[Planned] = []
    for index in range(COUNT):
        parent = entries[int(random.integers(len(entries)))].entry if entries and random.random() < 0.8 else None
        before = parent.key if parent else np.zeros(0, np.int64)
        key = np.concatenate([before, random.integers(0, 1 << 40, int(random.integers(0, 50)))])
        size = int(random.integers(0, 20_000))
        arrays: Arrays = [
            (random.integers(0, 1 << 16, (2, size), np.uint16), "BF16"),
            (random.standard_normal((size, 3), np.float32), "F32"),
            (random.integers(0, 255, int(random.integers(0, 9)), np.uint8), "U8"),
        ]
        id = hashlib.sha256(f"{seed} {index}".encode()).hexdigest()
        root = parent.root if parent else f"root {index}"
        entry = Entry(id, parent.id if parent else None, key, len(before), root, bool(index % 2))
        entries.append(Planned(entry, arrays))
    return entries


def victim(seed: int) -> int:
    """The index of the entry at which the writer dies."""
    return seed % COUNT


def _write_and_die(folder: Path, seed: int, stage: Stage) -> None:
    times = seed % 4 if stage == "writing" else 0  # after the header, or a later part of the file

    def die(now: Stage) -> None:
        nonlocal times
        if now == stage:
            if times == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            times -= 1

    entries = plan(seed)
    disk = Disk(folder, FINGERPRINT, LIMIT, "a model")
    disk.open()
    for entry in entries[: victim(seed)]:
        entry.put(disk)
    disk.flush()
    disk.stage = die
    for entry in entries[victim(seed) :]:
        entry.put(disk)
    disk.close()


def main() -> None:
    for line in sys.stdin:
        folder, seed, stage = line.split()
        child = os.fork()
        if child == 0:
            _write_and_die(Path(folder), int(seed), stage)  # type: ignore[arg-type]
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)


if __name__ == "__main__":
    main()
