"""How long `paceline serve` takes until `/ready`: the real command, in a process of its own, again and again.

The first start finds an empty cache folder: it compiles kernels and runs every check. Later ones find what it has kept.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import ServerProcess

STARTED = re.compile(r"the engine started in ([\d.]+) s: (.*)")


@dataclass(frozen=True, slots=True)
class Start:
    ready: float  # seconds until /ready
    processor: float  # seconds of all cores, of the process's end too
    engine: float  # seconds, as the log has them
    phases: Mapping[str, float]  # of the engine

    def line(self) -> str:
        phases = ", ".join(f"{name} {seconds:g}" for name, seconds in self.phases.items())
        return (
            f"ready after {self.ready:.1f} s, {self.processor:.1f} s of processor; engine {self.engine:g} s: {phases}"
        )


def phases_of(log: str) -> tuple[float, dict[str, float]]:
    """The engine's seconds, and those of its parts."""
    found = STARTED.search(log)
    if found is None:
        raise ValueError("the log does not say how the engine started")
    parts = (part.rsplit(" ", 1) for part in found[2].strip().split(", "))
    return float(found[1]), {name: float(seconds) for name, seconds in parts}


async def one(flags: Sequence[str], env: Mapping[str, str]) -> Start:
    before, begun = _children(), time.monotonic()
    async with ServerProcess(flags, env) as server:
        ready = time.monotonic() - begun
        engine, phases = phases_of(server.log())
        await asyncio.to_thread(server.stop)
    return Start(ready, _children() - before, engine, phases)


async def measure(model: str | None, flags: Sequence[str], starts: int) -> list[Start]:
    home = os.environ.get("HF_HOME") or str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    with tempfile.TemporaryDirectory() as caches:
        env = {"XDG_CACHE_HOME": caches, "HF_HOME": str(Path(home).expanduser())}
        return [await one([*([model] if model else []), *flags], env) for _ in range(starts)]


def _children() -> float:
    """Processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
