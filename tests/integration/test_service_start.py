"""Starts that do not reach their end: nothing of them is left, and the next one works."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import mlx.core as mx
import pytest

from paceline.errors import LoadError, PacelineError
from paceline.requests import GenerateRequest
from paceline.runtime import Runtime
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling

WAIT = 120.0


def threads() -> set[str]:
    """Of ours: those of a service that another test still runs are not counted."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("paceline-")}


async def until_gone(before: set[str]) -> None:
    """The thread that tells of the end is the last to end."""
    async with asyncio.timeout(WAIT):
        while threads() - before:
            await asyncio.sleep(0.01)


def limits() -> tuple[int, int]:
    """MLX's, which can only be read by setting them."""
    memory = mx.set_memory_limit(1 << 40)
    mx.set_memory_limit(memory)
    cache = mx.set_cache_limit(1 << 40)
    mx.set_cache_limit(cache)
    return memory, cache


async def answers(settings: Settings) -> bool:
    async with Service(settings) as service:
        completion = await service.generate(GenerateRequest([1, 2, 3], Sampling(max_tokens=2, temperature=0)))
    return len(completion.choices[0].token_ids) > 0


@pytest.mark.thin(3)
@pytest.mark.parametrize("part", range(3), ids=["while it reads", "when it has read", "at once"])
async def test_a_cancelled_start_leaves_nothing_behind(
    hybrid: Path, tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, limits_before = threads(), limits()
    reading, ready = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def progress(what: str, done: int, total: int) -> None:
        loop.call_soon_threadsafe(reading.set)

    prepare = Runtime._prepare

    def prepared(self: Runtime) -> None:
        prepare(self)
        loop.call_soon_threadsafe(ready.set)

    monkeypatch.setattr(Runtime, "_prepare", prepared)
    settings = Settings(model=str(hybrid), cache_dir=tmp_path / "cache")
    service = Service(settings, progress)
    starting = asyncio.create_task(service.start())
    async with asyncio.timeout(WAIT):
        if part < 2:
            await (reading, ready)[part].wait()
        else:
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert not service.ready and service.stats().state == "stopped"
    await until_gone(before)
    assert limits() == limits_before
    assert await answers(settings)  # the folder's lock is free


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["disk", "parser", "budget"])
async def test_a_start_that_fails_half_way_leaves_nothing_behind(
    hybrid: Path, tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, limits_before = threads(), limits()
    settings = Settings(model=str(hybrid), cache_dir=tmp_path / "cache")
    failing = settings
    if broken == "budget":
        failing = settings.model_copy(update={"memory_limit_gb": 0.0001})
    with monkeypatch.context() as patch:
        if broken == "disk":
            patch.setattr("paceline.cache.tier.DiskTier.open", _raise)
        elif broken == "parser":
            patch.setattr("paceline.runtime.choose_format", _raise)
        with pytest.raises(PacelineError):
            await Service(failing).start()
    await until_gone(before)
    assert limits() == limits_before
    assert await answers(settings)


def _raise(*arguments: object) -> None:
    raise LoadError("no")


@pytest.mark.slow
async def test_a_second_start_waits_for_the_first_and_finds_its_work_done(hybrid: Path) -> None:
    service = Service(Settings(model=str(hybrid)))
    await asyncio.gather(service.start(), service.start())
    assert service.ready
    await service.stop()


async def test_a_load_that_has_begun_is_the_one_that_start_waits_for(llama: Path, tmp_path: Path) -> None:
    service = Service(Settings(model=str(llama), prefill_chunk=64))
    service.begin()
    service.begin()  # twice is once
    assert len(service._pending_starts) == 1
    await service.start()
    assert service.ready and not service._pending_starts
    await service.stop()

    service.begin()  # nobody waits for it
    await service.stop()
    assert service.stats().state == "stopped" and not service._pending_starts
    await service.start()
    assert service.ready
    await service.stop()

    service = Service(Settings(model=str(tmp_path / "nothing")))
    service.begin()
    with pytest.raises(LoadError):
        await service.start()
    await service.stop()
