"""Prefixes on disk: what a service leaves there, in order or killed, serves the next one; and only that."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from paceline import cli
from paceline.cache.disk import Disk
from paceline.cache.disk_files import STAGES, SUFFIX, Stage
from paceline.engine import memory
from paceline.requests import ChatRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.stats import DiskCacheStats
from tests.conftest import Tiny
from tests.lengths import turns
from tests.prefix_lives import written
from tests.prefixes import ANSWER, ENOUGH, SMALLEST, Client, Message, next_turn, says, words
from tests.waiting import WAIT

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def model(tiny: Tiny) -> Path:
    return tiny("hybrid", **SMALLEST, mtp=False)


def over(folder: Path, model: Path, **fields: Any) -> Service:
    return Service(Settings(model=str(model), cache_dir=folder, max_num_seqs=4, prefill_chunk=256, **fields))


def chat_of(service: Service, seed: int, turns: int = 1) -> list[Message]:
    system = says("system", f"{seed} {words(service.tokenizer, 250, seed)}")
    user = says("user", words(service.tokenizer, 40, seed + 1))
    return [system, user, *([says("assistant", "It is 42."), user] * (turns - 1))]


def disk_stats(service: Service) -> DiskCacheStats:
    disk = service.stats().prefix_cache.disk
    assert disk is not None
    return disk


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*/*{SUFFIX}"), key=lambda path: path.stat().st_size)


def size(folder: Path) -> int:
    """Files may go while they are counted."""
    total = 0
    for path in folder.glob("*/*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


# -- killed


class Nursery:
    def __init__(self, model: Path) -> None:
        self.model = model
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.prefix_lives"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=ENVIRONMENT,
        )

    def life(
        self, folder: Path, stage: Stage | None, known: list[int], new: list[int], entry: int = 0, part: int = 0
    ) -> list[dict[str, Any]]:
        """What a process said that served from this folder until it was killed at this stage (None: until it was
        done): how many entries it found, and how it answered what is known."""
        assert self._process.stdin is not None and self._process.stdout is not None
        life = {"model": str(self.model), "folder": str(folder), "known": known, "new": new}
        print(json.dumps(life | {"stage": stage, "entry": entry, "part": part}), file=self._process.stdin, flush=True)
        said: list[dict[str, Any]] = []
        for line in self._process.stdout:
            words = json.loads(line)
            if "signal" in words:
                assert words["signal"] == (0 if stage is None else signal.SIGKILL), (words, said)
                return said
            said.append(words)
        raise AssertionError(said)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@pytest.fixture(scope="module")
def nursery(model: Path) -> Iterator[Nursery]:
    nursery = Nursery(model)
    yield nursery
    nursery.close()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, turns(20, 6)])
@pytest.mark.parametrize("stage", STAGES)
def test_a_service_killed_at_any_stage_of_a_write_leaves_what_the_next_one_can_use(
    stage: Stage, kills: int, nursery: Nursery, tmp_path: Path
) -> None:
    """Each life is also the check of the one before it; the kill hits the first, second or third entry of a chat."""
    first, latest, whole = 1000, 1000, 9
    nursery.life(tmp_path, None, [], [first])
    for kill in range(kills + 1):
        entry, part = kill % 3, kill % 4 if stage == "writing" else 0
        dies = stage if kill < kills else None
        found, oldest, newest = nursery.life(tmp_path, dies, [first, latest], [2000 + kill], entry, part)
        assert found["found"] >= min(whole, 3)
        assert oldest["right"] and newest["right"]
        assert oldest["cached"] == oldest["prompt"] - 1
        assert (newest["cached"] > 0) == (whole > 0)
        latest = 2000 + kill
        whole = entry + (stage in ("renamed", "stored"))  # entries that it had finished


# -- stopped in order


@pytest.mark.slow
@pytest.mark.parametrize("mtp", [True, False])
async def test_after_a_restart_the_first_request_reuses_what_it_shares(tiny: Tiny, tmp_path: Path, mtp: bool) -> None:
    folder = tiny("hybrid", **SMALLEST, mtp=mtp)
    async with over(tmp_path, folder) as service:
        client = Client(service, "salt")
        for seed in (1, 2):
            await client.chat(chat_of(service, seed))
        said = await client.generate(next_turn(service, client.answers[0].prompt, says("user", "7 riders")))
        assert disk_stats(service).folder.startswith(str(tmp_path))
    async with over(tmp_path, folder) as service:
        client.service = service
        disk = disk_stats(service)
        assert disk.entries == len(entries(tmp_path)) > 0 == service.stats().prefix_cache.memory_bytes
        turn = await client.generate(next_turn(service, said.prompt + said.said, says("user", "What is it?")))
        assert turn.shared >= len(said.prompt) + len(said.said) - 1
        assert turn.reused >= ENOUGH
        assert (await client.chat(chat_of(service, 2))).computed == 0
        stats = service.stats().prefix_cache
        assert stats.restores > 0 < stats.restore_seconds
        other = await service.chat(ChatRequest(chat_of(service, 2), ANSWER, cache_salt="another"))
        assert other.usage.cached_tokens == 0


@pytest.mark.slow
async def test_what_memory_has_no_room_for_comes_back_from_the_disk(model: Path, tmp_path: Path) -> None:
    async with over(tmp_path, model, cache_memory_gb=0.0002) as service:
        client = Client(service, "")
        for seed in range(8):
            await client.chat(chat_of(service, seed))
            await written(service)
        assert service.stats().prefix_cache.evictions["memory"] > 0
        for seed in range(8):
            assert (await client.chat(chat_of(service, seed))).computed == 0
            stats = service.stats().prefix_cache
            assert stats.memory_bytes <= stats.memory_limit_bytes


@pytest.mark.slow
async def test_another_model_in_the_same_folder_never_uses_it(tiny: Tiny, model: Path, tmp_path: Path) -> None:
    async with over(tmp_path, model) as service:
        await service.chat(ChatRequest(chat_of(service, 1), ANSWER))
    async with over(tmp_path, tiny("hybrid", **SMALLEST, mtp=False, seed=1)) as service:
        other = Client(service, "")
        assert disk_stats(service).entries == 0
        assert (await other.chat(chat_of(service, 1))).cached == 0
    assert len(list(tmp_path.iterdir())) == 2
    async with over(tmp_path, model) as service:
        again = await service.chat(ChatRequest(chat_of(service, 1), ANSWER))
        assert again.usage.cached_tokens == again.usage.prompt_tokens - 1


@pytest.mark.thin(6)
@pytest.mark.parametrize("damage", ["a truncated file", "an empty file", "a wrong byte", "no times", "garbage"])
async def test_damage_costs_time_but_no_answer(model: Path, tmp_path: Path, damage: str) -> None:
    async with over(tmp_path, model) as service:
        clients = [Client(service, salt) for salt in ("one", "two")]  # two chats that share nothing
        for client in clients:
            await client.chat(chat_of(service, 1))
    largest = entries(tmp_path)[-1]
    content = largest.read_bytes()
    match damage:
        case "a truncated file":
            largest.write_bytes(content[: len(content) // 2])
        case "an empty file":
            largest.write_bytes(b"")
        case "a wrong byte":
            largest.write_bytes(content[:-100] + bytes([content[-100] ^ 0x40]) + content[-99:])
        case "no times":
            for path in entries(tmp_path):
                os.utime(path, (0, 0))
        case _:
            for path in entries(tmp_path):
                path.write_bytes(os.urandom(2000))
    async with over(tmp_path, model) as service:
        answers = []
        for client in clients:
            client.service = service
            answers.append(await client.chat(chat_of(service, 1)))
        computed = [answer.computed for answer in answers]
        if damage == "no times":
            assert computed == [0, 0]
        elif damage == "garbage":
            assert [answer.cached for answer in answers] == [0, 0]
        else:
            assert min(computed) == 0 < max(computed)  # the other chat is whole
        for client in clients:
            assert (await client.chat(chat_of(service, 1))).computed == 0


@pytest.mark.slow
async def test_the_bound_of_the_folder_is_kept_at_every_moment(model: Path, tmp_path: Path) -> None:
    limit = 400_000
    sizes: list[int] = []

    async def watch() -> None:
        while True:
            sizes.append(size(tmp_path))
            await asyncio.sleep(0.001)

    async with over(tmp_path, model, cache_disk_gb=limit / 1e9) as service:
        watcher = asyncio.create_task(watch())
        client = Client(service, "")
        for seed in range(10):
            await client.chat(chat_of(service, seed))
        await written(service)
        watcher.cancel()
        sizes.append(size(tmp_path))
        disk = disk_stats(service)
        assert disk.limit_bytes == limit and disk.bytes <= limit and disk.write_errors == 0
        assert service.stats().prefix_cache.evictions["disk"] > 0
    assert limit / 4 < max(sizes) <= limit
    assert size(tmp_path) <= limit
    async with over(tmp_path, model, cache_disk_gb=limit / 2e9) as service:  # smaller than what is there
        assert size(tmp_path) <= limit / 2
        await Client(service, "").chat(chat_of(service, 9))


@pytest.mark.slow
async def test_to_clear_empties_the_folder_too(model: Path, tmp_path: Path) -> None:
    async with over(tmp_path, model) as service:
        client = Client(service, "")
        await client.chat(chat_of(service, 1))
        await written(service)
        stored = len(entries(tmp_path))
        freed = await service.clear_cache()
        assert freed["disk_entries"] == stored > 0 < freed["disk_bytes"]
        await written(service)
        assert entries(tmp_path) == []
        client.answers.clear()
        assert (await client.chat(chat_of(service, 1))).cached == 0
    async with over(tmp_path, model) as service:
        client.service = service
        assert (await client.chat(chat_of(service, 1))).computed == 0


# -- a folder that cannot be used


@pytest.mark.slow
def test_a_folder_that_cannot_be_used_ends_the_server_with_one_line(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    refused(serve(model, tmp_path / "file" / "under"), "cannot be used")
    service = over(tmp_path / "taken", model)
    asyncio.run(service.start())
    try:
        refused(serve(model, tmp_path / "taken"), "in use by another server")
    finally:
        asyncio.run(service.stop())


def serve(model: Path, folder: Path) -> Result:
    command = ["serve", str(model), "--port", "0", "--cache-dir", str(folder), "--prefill-chunk", "256"]
    return CliRunner().invoke(cli.app, command)


def refused(result: Result, words: str) -> None:
    assert result.exit_code == 2, result.output
    [line] = [line for line in result.stderr.splitlines() if line.startswith("paceline: error:")]
    assert words in line
    assert "Traceback" not in result.output


@pytest.mark.slow
async def test_writing_to_a_slow_disk_holds_nobody_up(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = threading.Event()

    class Slow(Disk):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.stage = lambda stage: None if stage != "written" or quick.wait(WAIT) else None

    monkeypatch.setattr(memory, "Disk", Slow)
    service = over(tmp_path, model)
    async with service:
        assert service._runtime is not None and service._runtime.engine.core.prefix is not None
        tier = service._runtime.engine.core.prefix.disk
        assert tier is not None
        client = Client(service, "")
        for seed in range(6):
            await client.chat(chat_of(service, seed))
            assert len(tier._unsaved) <= service.stats().prefix_cache.stored
        assert disk_stats(service).writes == 0 < service.stats().prefix_cache.entries
        quick.set()
    async with over(tmp_path, model) as service:  # what waited was written before it stopped
        client.service = service
        for seed in range(6):
            assert (await client.chat(chat_of(service, seed))).computed == 0
