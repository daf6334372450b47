"""Starts that are broken off or fail half-way: nothing of them stays, and the next one works."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.errors import PacelineError
from paceline.requests import ChatRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests.hostile.test_prompts import said

WAIT = 60.0  # seconds: a tiny model loads in one or two
GONE_SECONDS = 20.0
GREEDY = ChatRequest(said("Tell me about riders."), Sampling(temperature=0, max_tokens=8))


def limits() -> tuple[int, int]:
    """MLX's limits, which can only be asked by setting them."""
    memory, pool = mx.set_memory_limit(10**12), mx.set_cache_limit(10**12)
    mx.set_memory_limit(memory)
    mx.set_cache_limit(pool)
    return memory, pool


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("paceline")}


@asynccontextmanager
async def nothing_stays() -> AsyncIterator[None]:
    """Soon after what happens inside, no thread of the package is left of it, and MLX's limits are as they were."""
    before, limits_before = threads(), limits()
    yield
    deadline = time.monotonic() + GONE_SECONDS
    while (left := threads() - before) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert not left, [thread.name for thread in left]
    assert limits() == limits_before


async def serves(settings: Settings) -> str:
    async with Service(settings) as service:
        return (await service.chat(GREEDY)).choices[0].text


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def locks(folder: Path) -> list[Path]:
    return list(folder.rglob("lock"))


# When a start is broken off: the task has hardly begun; the engine's thread is there; the cache folder is locked.
MOMENTS: dict[str, Callable[[Path, set[threading.Thread]], bool]] = {
    "at_once": lambda folder, before: True,
    "with_a_thread": lambda folder, before: bool(threads() - before),
    "with_a_lock": lambda folder, before: bool(locks(folder)),
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_start_that_is_cancelled_leaves_no_thread_no_lock_and_no_limit(
    hybrid: Path, tmp_path: Path, moment: str
) -> None:
    settings = Settings(model=str(hybrid), cache_dir=tmp_path / "cache", memory_limit_gb=1.0)
    before = threads()
    async with nothing_stays():
        starting = asyncio.create_task(Service(settings).start())
        await asyncio.sleep(0)
        await until(lambda: MOMENTS[moment](tmp_path, before))
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        assert starting.cancelled()
    assert await serves(settings)


@pytest.mark.slow
async def test_a_service_whose_start_was_cancelled_can_be_started_again_and_stopped(
    hybrid: Path, tmp_path: Path
) -> None:
    settings = Settings(model=str(hybrid), cache_dir=tmp_path / "cache")
    service, before = Service(settings), threads()
    async with nothing_stays(), asyncio.timeout(WAIT):
        starting = asyncio.create_task(service.start())
        await until(lambda: bool(threads() - before))
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await service.start()
        assert (await service.chat(GREEDY)).choices[0].text
        await service.stop()
    assert service.stats().state == "stopped"


@pytest.mark.slow
async def test_a_service_that_is_stopped_while_it_starts_does_not_come_up_afterwards(
    hybrid: Path, tmp_path: Path
) -> None:
    settings = Settings(model=str(hybrid), cache_dir=tmp_path / "cache")
    service, before = Service(settings), threads()
    async with nothing_stays():
        starting = asyncio.create_task(service.start())
        await until(lambda: bool(threads() - before))
        await service.stop()
        await asyncio.gather(starting, return_exceptions=True)
    assert not service.ready
    assert await serves(settings)


def _a_file(folder: Path) -> Path:
    (folder / "file").write_text("not a folder")
    return folder / "file"


# What a start trips over, each later than the one before.
BROKEN: dict[str, Callable[[Path], dict[str, Any]]] = {
    "no_model": lambda folder: {"model": str(folder / "nothing")},
    "no_draft": lambda folder: {"specprefill_draft_model": str(folder / "nothing")},
    "another_tokenizers_draft": lambda folder: {"specprefill_draft_model": "paceline-mini-draft"},
    "another_tokenizers_draft_model": lambda folder: {"draft_model": "paceline-mini-draft"},
    "weights_over_the_limit": lambda folder: {"memory_limit_gb": 0.0001},
    "cache_dir_is_a_file": lambda folder: {"cache_dir": _a_file(folder)},
    "cache_dir_under_a_file": lambda folder: {"cache_dir": _a_file(folder) / "cache"},
    "no_template": lambda folder: {"chat_template": folder / "nothing.jinja"},
    "no_such_parser": lambda folder: {"tool_parser": "nobody_knows_this"},
}


@pytest.mark.thin(len(BROKEN), first=len(BROKEN) - 1)
@pytest.mark.parametrize("broken", BROKEN)
async def test_a_start_that_fails_half_way_leaves_nothing_and_the_next_one_works(
    hybrid: Path, tmp_path: Path, broken: str
) -> None:
    good: dict[str, Any] = {"model": str(hybrid), "cache_dir": tmp_path / "cache"}
    async with nothing_stays():
        with pytest.raises(PacelineError) as refusal:
            await Service(Settings(**{**good, **BROKEN[broken](tmp_path)})).start()
        assert str(refusal.value)
    assert await serves(Settings(**good))


@pytest.mark.slow
async def test_two_services_on_one_folder_are_told_and_the_first_is_not_harmed(hybrid: Path, tmp_path: Path) -> None:
    settings = Settings(model=str(hybrid), cache_dir=tmp_path / "cache")
    async with Service(settings) as first:
        said = (await first.chat(GREEDY)).choices[0].text
        try:
            assert await serves(settings) == said  # it may go without the folder,
        except PacelineError as refusal:
            assert "cache" in str(refusal)  # or refuse, and say why
        assert (await first.chat(GREEDY)).choices[0].text == said
