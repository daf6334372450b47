"""The process that `test_prefix_restart` kills: a service that dies at a given stage of the disk's work.

Run as a program, it reads a line of JSON for each service, forks a process for it (before MLX is used: importing all of
this again would take most of the test's time), and passes on the lines that the child prints. The last one is the
signal that ended it, 0 for an orderly end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline import platform

platform.prepare()

import paceline.conversation.prompt  # noqa: E402
import paceline.engine.startup  # noqa: E402, F401
from paceline.cache.disk import Disk  # noqa: E402
from paceline.cache.disk_files import Stage  # noqa: E402
from paceline.engine import memory  # noqa: E402
from paceline.models import check  # noqa: E402
from paceline.requests import ChatRequest  # noqa: E402
from paceline.service import Service  # noqa: E402
from paceline.settings import Settings  # noqa: E402
from tests.prefixes import ANSWER, says, words  # noqa: E402

PATIENCE = 120.0  # seconds until a process that should be dead gives up


class Fate:
    """Dies at `stage`: of the `entry`-th entry that is written once it is `armed`, at the `part`-th such call."""

    def __init__(self, stage: Stage | None, entry: int, part: int) -> None:
        self.stage, self.entry, self.part = stage, entry, part
        self.armed = False

    def __call__(self, now: Stage) -> None:
        if not self.armed:
            return
        if now == self.stage and self.entry == 0:
            if self.part == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.part -= 1
        if now == "stored":
            self.entry -= 1


def request_of(service: Service, seed: int) -> ChatRequest:
    """A conversation that shares nothing with those of other seeds, not even the template's first words."""
    system, user = words(service.tokenizer, 200, seed), words(service.tokenizer, 40, seed + 1)
    return ChatRequest([says("system", system), says("user", user)], ANSWER, cache_salt=str(seed))


async def live(model: str, folder: str, known: list[int], new: list[int], fate: Fate) -> None:
    """Ask what was asked in earlier lives, then something new; dies on the way, or stops in order."""
    settings = Settings(model=model, cache_dir=Path(folder), max_num_seqs=4, prefill_chunk=256, speculation="off")
    async with Service(settings) as service:
        disk = service.stats().prefix_cache.disk
        say(found=0 if disk is None else disk.entries)
        for seed in known:
            request = request_of(service, seed)
            cached = await service.chat(request)
            plain = await service.chat(replace(request, cache=False))
            say(
                seed=seed,
                right=cached.choices == plain.choices,
                cached=cached.usage.cached_tokens,
                prompt=cached.usage.prompt_tokens,
            )
        await written(service)
        fate.armed = True
        for seed in new:
            await service.chat(request_of(service, seed))
        deadline = time.monotonic() + PATIENCE
        while fate.stage is not None and time.monotonic() < deadline:
            await asyncio.sleep(0.01)


async def written(service: Service) -> None:
    """Wait until all nodes are on disk. Asked between steps, on the engine's thread, where no step is half done."""
    engine = service._get_runtime().engine
    core = engine.core
    assert core.prefix is not None and core.prefix.disk is not None
    tier, runner = core.prefix.disk, core.runner

    def rests() -> bool:
        waits = tier._outgoing, tier._unsaved, tier._writing
        return not (core.seqs or runner.seqs or any(waits) or tier.disk.stats().pending)

    while not await asyncio.wrap_future(engine.call(rests)):
        await asyncio.sleep(0.002)
    assert await asyncio.to_thread(tier.disk.flush, PATIENCE)  # deletions too


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def _be(life: dict[str, Any]) -> None:
    fate = Fate(life["stage"], life["entry"], life["part"])

    class Mortal(Disk):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.stage = fate

    memory.Disk = Mortal  # type: ignore[attr-defined]
    # The start-up check is the same every time, and others test it.
    check.choose_layout = lambda model, choices: choices[0]
    asyncio.run(live(life["model"], life["folder"], life["known"], life["new"], fate))


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                _be(json.loads(line))
            except BaseException as error:  # noqa: BLE001
                say(error=repr(error))
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        say(signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
