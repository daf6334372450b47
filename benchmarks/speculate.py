"""`python -m benchmarks speculate`: tokens per second without drafting, at fixed depths and at the engine's own.

All modes run in turns in one process on the same prompts; a mode's figure is the median over the turns of its rate
divided by the plain rate of the same turn. With `--trace edit` or `--trace prose`, prompt lookup drafts, on text that
repeats its prompt or does not.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx

from benchmarks.edits import Trace, encoder
from benchmarks.edits import prompts as text
from benchmarks.models import Bench
from paceline.bench.offline import random_prompts
from paceline.cache.prefix import PrefixCache
from paceline.engine.core import EngineCore
from paceline.engine.draft_length import bucket
from paceline.engine.in_flight import InFlightStep
from paceline.engine.prefix_manager import PrefixManager
from paceline.engine.runner import Runner
from paceline.types import Delta, Sampling, Speculation

KEPT = 4 << 30  # bytes of prefixes
# Operations that only look at an array another way, and run nothing.
VIEWS = frozenset(
    {
        *("Reshape", "ExpandDims", "Squeeze", "Transpose", "Broadcast", "BroadcastAxes", "Slice", "Split"),
        *("Flatten", "Unflatten", "AsStrided", "StopGradient", "Depends", "NumberOfElements"),
    }
)


class TextBench(Bench):
    """Keeps prefixes: what is measured is decoding, and every mode decodes the same long prompts."""

    def _build(self, wake: Callable[[], None]) -> EngineCore:
        core = super()._build(wake)
        core.prefix = PrefixManager(PrefixCache(lambda: KEPT), core.runner, feeds_head=False)
        return core


@dataclass(slots=True)
class Mode:
    """One way to decode, at one number of rows."""

    rows: int
    speculation: Speculation
    temperature: float = 0.0
    rates: list[float] = field(default_factory=list)  # tokens per second, by turn
    ratios: list[float] = field(default_factory=list)  # to the plain rate of the same turn
    drafted: int = 0
    accepted: int = 0
    steps: int = 0
    tokens: int = 0

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def acceptance(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_a_step(self) -> float | None:
        """Of one row."""
        return self.tokens / self.steps / self.rows if self.steps else None

    def figures(self) -> dict[str, object]:
        return {
            "rows": self.rows,
            "speculation": self.speculation,
            "tokens_per_second": self.rate,
            "ratio_to_off": self.ratio,
            "ratios": self.ratios,
            "acceptance": self.acceptance,
            "tokens_per_step_and_row": self.tokens_a_step,
        }


def compare(
    bench: Bench,
    rows: Sequence[int],
    depths: Sequence[int],
    prompt_tokens: int,
    tokens: int,
    turns: int,
    watch: Callable[[str], None] = lambda text: None,
    trace: Trace = "random",
) -> list[Mode]:
    """For each number of rows, every mode once a turn, in an order that rotates; a first turn warms up."""
    modes: list[Mode] = []
    vocab = bench.model.language.vocab_size
    encode = None if trace == "random" else encoder(bench.model.folder)

    def prompts_of(count: int, seed: int) -> list[tuple[int, ...]]:
        return random_prompts(count, prompt_tokens, vocab, seed) if encode is None else text(trace, encode, count, seed)

    for count in rows:
        mine = [Mode(count, "off"), *(Mode(count, depth) for depth in depths), Mode(count, "auto")]
        for mode in mine:
            mode.temperature = 1.0 if trace == "prose" else 0.0
        _run(bench, prompts_of(count, 0), 4 * tokens if encode is None else tokens, mine[-1], counts=False)  # learns
        for turn in range(turns + 1):
            prompts = prompts_of(count, turn)
            shift = turn % len(mine)
            rates = {}
            for mode in mine[shift:] + mine[:shift]:
                watch(f"{count} rows, turn {turn} of {turns}, {mode.speculation}")
                rates[mode.speculation] = _run(bench, prompts, tokens, mode, counts=turn > 0)
            if turn:
                for mode in mine:
                    mode.rates.append(rates[mode.speculation])
                    mode.ratios.append(rates[mode.speculation] / rates["off"])
        modes += mine
    return modes


def _run(bench: Bench, prompts: Sequence[tuple[int, ...]], tokens: int, mode: Mode, *, counts: bool) -> float:
    depths, counters = bench.scheduler.draft_lengths, bench.engine.core.counters
    before = depths.draft_tokens, depths.accepted_tokens, counters.decode_steps, counters.generation_tokens
    trace, _ = bench.engine_run(prompts, tokens, mode.speculation, temperature=mode.temperature)
    after = depths.draft_tokens, depths.accepted_tokens, counters.decode_steps, counters.generation_tokens
    if counts:
        drafted, accepted, steps, made = (b - a for a, b in zip(before, after, strict=True))
        mode.drafted += drafted
        mode.accepted += accepted
        mode.steps += steps
        mode.tokens += made
    return trace.rate()


def costs(bench: Bench, rows: Sequence[int]) -> dict[int, dict[int, float]]:
    """What the engine has learnt: milliseconds of a step by rows and depth."""
    learnt = bench.scheduler.draft_lengths.stats().cost_model.step_ms
    return {count: {int(d): ms for d, ms in learnt.get(str(bucket(count)), {}).items()} for count in rows}


class _Counting(Runner):
    """Counts the operations of each step before it is submitted."""

    launches = 0

    def _unevaluated(self, launched: InFlightStep) -> list[mx.array]:
        arrays = super()._unevaluated(launched)
        self.launches = operations(arrays)
        return arrays


def launches(bench: Bench, depths: Sequence[int], rows: int = 1) -> dict[int, int]:
    """Operations of one greedy step at each depth, views not counted: what the host submits. Run when it is idle."""

    def run() -> dict[int, int]:
        runner = bench.runner
        counting = _Counting(runner.model, runner.grouping, traces=runner.forward.traces)
        sampling = Sampling(temperature=0, max_tokens=1 << 20, ignore_eos=True, speculation="auto")
        prompts = random_prompts(rows, 8, 100)
        riders = [bench.sequence(str(place), prompt, sampling, _ignore) for place, prompt in enumerate(prompts)]
        for row in riders:
            counting.prefill(row, 7)
        found = {}
        for depth in depths:
            for _ in range(8):  # past the steps that come before a trace
                for row in riders:
                    row.draft.length = depth
                launched = counting.decode(riders, depth)
                if launched.result_pending:
                    counting.read(launched)
                counting.collect(launched)
            found[depth] = counting.launches
        return found

    result: dict[int, int] = bench.on_engine_thread(run)
    return result


def _ignore(delta: Delta) -> None: ...


def operations(arrays: Sequence[mx.array]) -> int:
    """Operations in the graph behind some arrays that are not evaluated yet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.dot"
        mx.export_to_dot(str(path), *arrays)
        labels = re.findall(r'label ="(\w+)', path.read_text())
    return sum(label not in VIEWS for label in labels)
