"""`python -m benchmarks prefix`: the time to the first token of a prompt whose beginning is known.

Every turn is four things on the same prefix of N tokens, each with another tail: *cold*, nothing is known; *warm*, the
prefix is in memory; its *restore* by itself, with the engine idle and the device waited for; and *disk*, memory was
dropped and the files are out of the system's page cache. Ratios are those of a turn. A turn that did not find exactly
what it should have found is an error, not a figure.

The disk writes nothing while a turn's cold and warm parts are timed: neither pays for what the third one needs.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx

from benchmarks.models import Bench
from paceline.bench.offline import random_prompts
from paceline.cache.disk import Disk
from paceline.cache.prefix import PrefixCache
from paceline.cache.tier import DiskTier
from paceline.engine.core import EngineCore
from paceline.engine.prefix_manager import PrefixManager
from paceline.errors import PacelineError
from paceline.types import Delta, Sampling, Speculation

TAIL = 32  # tokens of a prompt that are its own
GIGABYTES = 8.0  # that prefixes may take, in memory and on disk
TRACE_AFTER = 120.0  # seconds for all that waits to be written
RESTORES = 3  # of which the median is a turn's figure: one takes milliseconds


class PrefixBenchError(PacelineError):
    """What a turn found in the cache is not what it should have found."""


@dataclass(slots=True)
class Line:
    """One length of the shared prefix; lists by turn, times in seconds."""

    shared: int
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    disk: list[float] = field(default_factory=list)
    restore: list[float] = field(default_factory=list)
    nbytes: int = 0  # of the prefix in memory

    @property
    def warm_ratios(self) -> list[float]:
        return [cold / warm for cold, warm in zip(self.cold, self.warm, strict=True)]

    @property
    def disk_ratios(self) -> list[float]:
        return [cold / disk for cold, disk in zip(self.cold, self.disk, strict=True)]

    @property
    def shares(self) -> list[float]:
        """The restore's cost as a share of the prefill that it stands for: cold less what warm has beside it."""
        turns = zip(self.cold, self.warm, self.restore, strict=True)
        return [restore / (cold - warm + restore) for cold, warm, restore in turns]

    def figures(self) -> dict[str, object]:
        median = statistics.median
        return {
            "shared_tokens": self.shared,
            "cold_s": median(self.cold),
            "warm_s": median(self.warm),
            "disk_s": median(self.disk),
            "cold_to_warm": {"median": median(self.warm_ratios), "lowest": min(self.warm_ratios)},
            "cold_to_disk": {"median": median(self.disk_ratios), "lowest": min(self.disk_ratios)},
            "restore_s": median(self.restore),
            "restore_share_of_prefill": {"median": median(self.shares), "highest": max(self.shares)},
            "prefix_bytes": self.nbytes,
            "turns": {"cold_s": self.cold, "warm_s": self.warm, "disk_s": self.disk, "restore_s": self.restore},
        }


class _PatientDisk(Disk):
    """Takes nothing while `holds`."""

    holds = False

    def accepts(self, nbytes: int) -> bool:
        return not self.holds and super().accepts(nbytes)


class PrefixBench(Bench):
    """A bench whose engine has a prefix cache, in memory and in `folder`."""

    def __init__(
        self,
        source: str,
        folder: Path,
        layout: str = "auto",
        prefill_chunk: int | None = None,
        compile: bool = True,
        gigabytes: float = GIGABYTES,
    ) -> None:
        super().__init__(source, layout, prefill_chunk, compile)
        self.folder = folder
        self.limit = self._room = int(gigabytes * 1e9)
        self.reuse: PrefixManager
        self.cache: PrefixCache
        self.tier: DiskTier
        self.disk: _PatientDisk
        self.speculation: Speculation  # as a server that is told nothing: a head, where there is one, reads along

    def __exit__(self, *error: object) -> None:
        self.disk.holds = False
        super().__exit__(*error)

    def _build(self, wake: Callable[[], None]) -> EngineCore:
        core = super()._build(wake)
        self.speculation = "off" if isinstance(self.model.head, str) else "auto"
        self.cache = PrefixCache(lambda: self.limit)
        self.disk = _PatientDisk(self.folder, "bench", self._room, on_done=wake)
        self.tier = DiskTier(self.cache, self.disk)
        self.reuse = PrefixManager(self.cache, core.runner, feeds_head=self.speculation != "off", disk=self.tier)
        self.tier.open()
        core.prefix = self.reuse
        return core

    def between(self, work: Callable[[], Any]) -> Any:
        return self.engine.call(work).result(timeout=600)

    def clear(self) -> None:
        """Forget everything, here and on disk."""
        self.between(self.reuse.clear)
        self.between(mx.clear_cache)
        if not self.disk.flush(TRACE_AFTER):
            raise PrefixBenchError("The disk did not get done with deleting.")

    def write_all(self) -> None:
        """Return when all that is in memory is on disk too."""
        end = time.monotonic() + TRACE_AFTER
        while time.monotonic() < end:
            if not self.disk.flush(TRACE_AFTER):
                break
            if self.between(self._settled):
                return
            time.sleep(0.005)
        raise PrefixBenchError(f"Not all prefixes were written to disk within {TRACE_AFTER:g} s.")

    def _settled(self) -> bool:
        """On the engine's thread: take in what was written, give out what is not."""
        self.tier.poll()
        return not self.tier.busy and self.disk.stats().pending == 0

    def drop_memory(self) -> None:
        """What is on disk stays known; it has to be read again, and from the disk itself."""

        def drop() -> None:
            self.limit = 0
            self.cache.shrink()
            self.limit = self._room
            mx.clear_cache()

        self.between(drop)
        if self.cache.memory:
            raise PrefixBenchError(f"{self.cache.memory} bytes of prefixes are still in memory, in use by nobody.")
        if hasattr(os, "posix_fadvise"):  # macOS keeps what it likes
            for path in self.folder.rglob("*"):
                if path.is_file():
                    with path.open("rb") as file:
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def held(self, shared: int) -> int:
        """Bytes in memory of the first `shared` tokens."""
        total: int = self.between(lambda: sum(node.nbytes for node in self.cache.nodes() if node.stop <= shared))
        return total

    def first_token(self, prompt: tuple[int, ...], shared: int, found: int) -> float:
        """Seconds to the first token. `found`: tokens of the prompt that must come from the cache."""
        trace, _ = self.engine_run([prompt], 1, self.speculation, boundaries=(shared,))
        if trace.failures:
            raise PrefixBenchError(f"A prompt of {len(prompt)} tokens failed: {trace.failures[0]}")
        if trace.cached[0] != found:
            raise PrefixBenchError(f"{trace.cached[0]} tokens of a prompt came from the cache, not {found}.")
        return trace.times[0][0] - trace.begun

    def restore(self, prompt: tuple[int, ...], shared: int) -> float:
        """Seconds on the engine's thread, until the device has what a row that goes on after `shared` needs."""
        sampling = Sampling(temperature=0, max_tokens=1, speculation=self.speculation)

        def run() -> float:
            row = self.sequence("bench", prompt, sampling, _ignore, boundaries=(shared,))
            self.reuse.on_arrival(row)
            mx.synchronize()
            begun = time.perf_counter()
            self.reuse.on_admit(row)
            batches = [batch for batch in (row.computed.batch, row.draft.batch) if batch is not None]
            mx.eval([array for batch in batches for array in batch.arrays()])
            mx.synchronize()
            seconds = time.perf_counter() - begun
            row.finished = "abort"
            self.reuse.on_finish(row, "abort")
            if row.prefix.cached_tokens != shared:
                raise PrefixBenchError(f"{row.prefix.cached_tokens} tokens were restored, not {shared}.")
            return seconds

        seconds: float = self.between(run)
        return seconds


def compare(
    bench: PrefixBench,
    lengths: Sequence[int],
    turns: int,
    tail: int = TAIL,
    watch: Callable[[str], None] = lambda text: None,
) -> list[Line]:
    """For each length, `turns` turns after one that warms up; where no step is traced, one for all lengths does."""
    vocab = bench.model.language.vocab_size
    lines = []
    for shared in lengths:
        line = Line(shared)
        warm_up = bench.runner.forward.traces or shared == lengths[0]
        for turn in range(0 if warm_up else 1, turns + 1):
            prefix = random_prompts(1, shared, vocab, seed=turn)[0]
            tails = distinct_tails(4, tail, vocab, seed=turn)
            figures = _turn(
                bench, prefix, tails, partial(_say, watch, f"{shared} tokens shared, turn {turn} of {turns}")
            )
            if turn:
                for into, seconds in zip((line.cold, line.warm, line.disk, line.restore), figures, strict=True):
                    into.append(seconds)
        line.nbytes = bench.held(shared)
        lines.append(line)
    bench.clear()
    return lines


def distinct_tails(count: int, tokens: int, vocab: int, seed: int = 0) -> list[tuple[int, ...]]:
    """No two begin with the same token, so that they have nothing in common but what is before them."""
    drawn = random_prompts(count, tokens, vocab, seed=1_000_000 + seed)
    return [(place, *rest[1:]) for place, rest in enumerate(drawn)]


def _turn(
    bench: PrefixBench, prefix: tuple[int, ...], tails: Sequence[tuple[int, ...]], watch: Callable[[str], None]
) -> tuple[float, float, float, float]:
    shared = len(prefix)
    watch("cold")
    bench.clear()
    bench.disk.holds = True
    cold = bench.first_token(prefix + tails[0], shared, 0)
    watch("warm")
    warm = bench.first_token(prefix + tails[1], shared, shared)
    restores = [bench.restore(prefix + tails[2], shared) for _ in range(RESTORES)]
    watch("from disk")
    bench.disk.holds = False
    bench.write_all()
    bench.drop_memory()
    disk = bench.first_token(prefix + tails[3], shared, shared)
    return cold, warm, disk, statistics.median(restores)


def _say(watch: Callable[[str], None], turn: str, part: str) -> None:
    watch(f"{turn}, {part}")


def _ignore(delta: Delta) -> None: ...
