from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from paceline.front.worker_process import WorkerProcess, ended_by
from paceline.settings import Settings
from tests.front.harness import COMMAND
from tests.waiting import until_async

SETTINGS = Settings(model="m", drain_seconds=0.0)


async def test_a_process_is_loaded_asked_and_leaves(tmp_path: Path) -> None:
    worker = await WorkerProcess.start(SETTINGS, tmp_path / "s", "a", COMMAND)
    answer = await worker.client.get("/health")  # at once: its socket listens before it does
    assert answer.status == 200
    await worker.loaded
    assert worker.progress == ("reading weights", 1, 2)
    assert await worker.leave()
    assert worker.ended.done() and worker.stopping
    assert not (tmp_path / "s").exists()
    await worker.stop()  # again: nothing


@pytest.mark.slow
async def test_what_keeps_a_model_from_loading_is_raised(tmp_path: Path) -> None:
    worker = await WorkerProcess.start(SETTINGS, tmp_path / "s", "fails", COMMAND)
    with pytest.raises(ChildProcessError, match="its weights are damaged"):
        await worker.loaded
    await worker.ended


async def test_a_process_that_is_stopped_while_it_loads_ends(tmp_path: Path) -> None:
    worker = await WorkerProcess.start(SETTINGS, tmp_path / "s", "slow", COMMAND)
    await until_async(lambda: worker.progress)
    await worker.stop()
    assert worker.ended.done() and isinstance(worker.loaded.exception(), ChildProcessError)


async def test_a_process_that_cannot_be_started_raises_and_leaves_nothing_open(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        await WorkerProcess.start(SETTINGS, tmp_path / "s", "a", [str(tmp_path / "no-such-program")])
    await asyncio.sleep(0)


@pytest.mark.parametrize(("code", "words"), [(7, "with code 7"), (-9, "SIGKILL, as by a lack"), (-11, "SIGSEGV")])
def test_how_a_process_ended_is_told(code: int, words: str) -> None:
    assert words in ended_by(code)
