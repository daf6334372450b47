"""`python -m benchmarks stall`: what running streams suffer while long prompts are read, by stall target.

Streams decode; then long prompts arrive, and for as long as they are read, or for `seconds`, every gap between two
tokens of a stream counts. All targets in turn, in one process on one model, the same prompts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rich.markup import escape
from rich.table import Table

from benchmarks.models import Bench
from paceline.bench.offline import Trace, random_prompts
from paceline.bench.report import Distribution, duration
from paceline.bench.wire import BenchError
from paceline.engine import sequence
from paceline.engine.prefill_budget import PrefillBudget
from paceline.types import Sampling

PATIENCE = 600.0  # seconds for streams to start, and to end
WARM = 8  # tokens of each stream before the prompts come
SHORT = 32  # tokens of a stream's own prompt
ENDLESS = 1 << 20  # tokens: a stream lasts until it is cancelled
GLANCE = 0.01


@dataclass(frozen=True, slots=True)
class Plan:
    streams: int = 4
    prompts: int = 2
    prompt: int = 8192  # tokens
    seconds: float = 40.0  # that are measured at most


def targets(text: str) -> list[float | None]:
    """Seconds, from text like none,250,100."""
    try:
        found = [None if each.strip() == "none" else float(each) / 1000 for each in text.split(",")]
    except ValueError:
        found = [0.0]
    if any(target is not None and not 0 < target < float("inf") for target in found):
        raise BenchError(f"{text!r} are no stall targets: give milliseconds, like none,250,100")
    return found


@dataclass(frozen=True, slots=True)
class Line:
    target: float | None  # seconds
    before: Distribution  # gaps of the streams by themselves
    during: Distribution
    prompt_tokens_per_s: float
    chunk: int  # prompt tokens of a step, at the end

    def figures(self) -> dict[str, Any]:
        return {
            "target_ms": None if self.target is None else self.target * 1000,
            "gap_alone_p50_ms": self.before.p50 * 1000,
            "gap_p50_ms": self.during.p50 * 1000,
            "gap_p99_ms": self.during.p99 * 1000,
            "gap_max_ms": self.during.max * 1000,
            "gaps": self.during.count,
            "prompt_tokens_per_s": self.prompt_tokens_per_s,
            "chunk_tokens": self.chunk,
        }


class StallBench(Bench):
    def run(self, target: float | None, plan: Plan, seed: int = 0) -> Line:
        """One target: streams, then prompts among them, then everybody goes."""
        scheduler = self.scheduler
        scheduler.prefill_budget = PrefillBudget(target, scheduler.prefill_budget.max_chunk)
        trace, readers = Trace(), Trace()
        vocab = self.model.language.vocab_size
        streams = self._rows("stream", random_prompts(plan.streams, SHORT, vocab, 2 * seed), ENDLESS, trace)
        prompts = self._rows("prompt", random_prompts(plan.prompts, plan.prompt, vocab, 2 * seed + 1), 1, readers)
        for seq in streams:
            self.engine.submit(seq)
        self._until(lambda: all(len(times) >= WARM for times in trace.times.values()), PATIENCE)
        begun, computed = time.perf_counter(), self.engine.core.counters.prompt_tokens
        for seq in prompts:
            self.engine.submit(seq)
        self._until(readers.done.is_set, plan.seconds)
        ended, computed = time.perf_counter(), self.engine.core.counters.prompt_tokens - computed
        chunk = scheduler.prefill_budget.chunk(decoding=True)
        for seq in (*streams, *prompts):
            self.engine.abort(seq.id)
        if not trace.done.wait(PATIENCE) or not readers.done.wait(PATIENCE):
            raise BenchError("The streams could not be cancelled.")
        if failures := trace.failures + readers.failures:
            raise BenchError(f"{len(failures)} requests failed: {failures[0]}")
        gaps = [pair for times in trace.times.values() for pair in pairwise(times)]
        before = Distribution.of(end - start for start, end in gaps if end <= begun)
        during = Distribution.of(end - start for start, end in gaps if end > begun and start < ended)
        if before is None or during is None:
            raise BenchError("The streams brought no tokens while the prompts were read.")
        return Line(target, before, during, computed / (ended - begun), chunk)

    def _rows(self, name: str, prompts: Sequence[tuple[int, ...]], limit: int, trace: Trace) -> list[sequence.Sequence]:
        sampling = Sampling(temperature=0, max_tokens=limit, ignore_eos=True, speculation="off")
        return [
            self.sequence(f"{name}-{place}", prompt, sampling, trace.sink(place))
            for place, prompt in enumerate(prompts)
        ]

    def _until(self, done: Callable[[], bool], seconds: float) -> None:
        deadline = time.perf_counter() + seconds
        while not done() and time.perf_counter() < deadline:
            time.sleep(GLANCE)


def compare(
    bench: StallBench, targets: Sequence[float | None], plan: Plan, watch: Callable[[str], None] = lambda text: None
) -> list[Line]:
    """All targets, after a short run that warms up."""
    watch("warming up")
    bench.run(None, Plan(plan.streams, 1, min(plan.prompt, 512), 10.0), 1_000_000)
    lines = []
    for target in targets:
        watch("no target" if target is None else f"target {duration(target)}")
        lines.append(bench.run(target, plan))
    return lines


def stall_table(title: str, lines: Sequence[Line]) -> Table:
    table = Table(title=escape(title), title_justify="left")
    table.add_column("stall target")
    columns = ("gap alone, p50", "gap, p50", "p99", "longest", "p99 / target", "prompt tokens a step", "a second")
    for column in columns:
        table.add_column(column, justify="right")
    for line in lines:
        gaps = [duration(seconds) for seconds in (line.before.p50, line.during.p50, line.during.p99, line.during.max)]
        ratio = "-" if line.target is None else f"{line.during.p99 / line.target:.2f}"
        name = "none" if line.target is None else duration(line.target)
        table.add_row(name, *gaps, ratio, str(line.chunk), f"{line.prompt_tokens_per_s:.0f}")
    return table
