"""A writer is killed with SIGKILL at each stage of a write; it must leave a valid store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from paceline.cache.disk import Disk, Read, Written
from paceline.cache.disk_files import LOCK, STAGES, SUFFIX, Stage
from tests.cache.disk_writer import FINGERPRINT, LIMIT, plan, victim

ROOT = Path(__file__).parents[2]
KILLS = 20


@pytest.fixture(scope="module")
def nursery() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cache.disk_writer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.thin(8)
@pytest.mark.parametrize("stage", STAGES)
def test_a_writer_killed_at_any_stage_leaves_every_entry_whole_or_absent(
    stage: Stage, nursery: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert nursery.stdin is not None and nursery.stdout is not None
    for seed in range(KILLS):
        folder = tmp_path / str(seed)
        print(folder, seed, stage, file=nursery.stdin, flush=True)
        assert int(nursery.stdout.readline()) == signal.SIGKILL
        # An entry is there from its rename on; all that were finished before it are.
        expected = plan(seed)[: victim(seed) + (stage in ("renamed", "stored"))]
        later = plan(1000 + seed)[0]

        disk = Disk(folder, FINGERPRINT, LIMIT)
        entries = disk.open()
        try:
            seen: set[str | None] = {None}
            for entry in entries:
                assert entry.parent in seen
                seen.add(entry.id)
            assert seen == {None, *(wanted.entry.id for wanted in expected)}
            files = {LOCK, *(wanted.entry.id + SUFFIX for wanted in expected)}
            assert set(os.listdir(folder / FINGERPRINT)) == files
            for wanted in expected:
                disk.get(wanted.entry.id)
            assert disk.flush()
            for result, wanted in zip(disk.done(), expected, strict=True):
                assert isinstance(result, Read) and result.arrays is not None
                for (array, name), (original, original_name) in zip(result.arrays, wanted.arrays, strict=True):
                    assert name == original_name and array.dtype == original.dtype
                    np.testing.assert_array_equal(array, original)
            by_id = {entry.id: entry for entry in entries}
            for wanted in expected:
                found, put = by_id[wanted.entry.id], wanted.entry
                np.testing.assert_array_equal(found.key, put.key)
                assert (found.parent, found.start, found.root) == (put.parent, put.start, put.root)
                assert found.has_checkpoint == put.has_checkpoint
            later.put(disk)
            assert disk.flush()
            assert disk.done() == [Written(later.entry.id, True)]
        finally:
            disk.close()
