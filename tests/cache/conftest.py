from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.cache import memory_model, slot_plan
from paceline.cache.disk import Disk
from paceline.cache.disk_files import Entry
from tests.cache.disks import LIMIT, MODEL, floats, stored


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


@pytest.fixture(scope="module")
def small_steps() -> Iterator[None]:
    """Buffers that grow by four slots and groups of rows up to six tokens, so that short scripts meet every border."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slot_plan, "STEP", 4)
        patch.setattr(slot_plan, "MARGIN", 2)
        patch.setattr(memory_model, "MARGIN", 2)
        patch.setattr(slot_plan, "SMALL", 6)
        yield
