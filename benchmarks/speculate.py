"""`python -m benchmarks speculate`: tokens per second without drafting, at fixed depths and at the engine's own.

All modes run in turns in one process on the same prompts; a mode's figure is the median over the turns of its rate
divided by the plain rate of the same turn. With `--trace edit` or `--trace prose`, prompt lookup or a draft model
drafts, on text that repeats its prompt or does not. Traces with grammars: benchmarks/structured.
"""

from __future__ import annotations

import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import mlx.core as mx

from benchmarks.edits import Encode, Trace, encoder, walked_prompts
from benchmarks.edits import prompts as text
from benchmarks.models import Bench
from benchmarks.shapes import SHAPES, random_model, still, walk
from paceline.bench.offline import random_prompts
from paceline.cache.prefix import PrefixCache
from paceline.engine import layout as layouts
from paceline.engine.core import EngineCore
from paceline.engine.draft_model import DraftModelProposer
from paceline.engine.in_flight import InFlightStep
from paceline.engine.prefix_manager import PrefixManager
from paceline.engine.runner import Runner
from paceline.engine.sparse_draft import load_draft
from paceline.engine.warmup import check_steps
from paceline.models.files import DEFAULT_FOLDER
from paceline.models.loader import LoadedModel
from paceline.types import Delta, Sampling, Speculation, SpeculationMethod

KEPT = 4 << 30  # bytes of prefixes
MAX_SEQS = 16
DRAFTED: tuple[SpeculationMethod, ...] = ("draft_model",)
# Operations that only look at an array another way, and run nothing.
VIEWS = frozenset(
    {
        *("Reshape", "ExpandDims", "Squeeze", "Transpose", "Broadcast", "BroadcastAxes", "Slice", "Split"),
        *("Flatten", "Unflatten", "AsStrided", "StopGradient", "Depends", "NumberOfElements"),
    }
)


class TextBench(Bench):
    """Decodes a trace of text. Keeps prefixes: what is measured is decoding, and every mode decodes the same long
    prompts. Shapes of random weights copy (`edit`), or take the tokenizer of paceline-mini."""

    def __init__(
        self,
        source: str,
        trace: Trace = "edit",
        layout: str = "auto",
        compile: bool = True,
        draft_model: str | None = None,
    ) -> None:
        """`draft_model` drafts; without one, prompt lookup does."""
        super().__init__(source, layout, compile=compile, methods=("lookup",) if draft_model is None else DRAFTED)
        self.trace: Trace = trace
        self.draft_model = draft_model
        self.scheduler.max_num_seqs = MAX_SEQS  # no more rows are warmed up

    @property
    def temperature(self) -> float:
        """Prompt lookup is to find nothing in prose, and a small model that is greedy repeats itself."""
        return 1.0 if self.trace == "prose" and self.draft_model is None else 0.0

    def _load(self) -> LoadedModel:
        if self.source not in SHAPES:
            return super()._load()
        model = random_model(self.source, drafts=False)
        if self.trace == "edit":
            still(model)
        return model

    def _draft_model(self) -> DraftModelProposer | None:
        if self.draft_model is None:
            return None
        language = load_draft(self.draft_model, "auto", self.model.language.vocab_size, scores=False)
        grouping = layouts.choose(language, self.layout, self.shape_buckets)
        traces = check_steps(language, grouping)
        return DraftModelProposer(language.language, self.model.language.vocab_size, grouping, traces=traces)

    def _build(self, wake: Callable[[], None]) -> EngineCore:
        core = super()._build(wake)
        core.prefix = PrefixManager(PrefixCache(lambda: KEPT), core.runner, feeds_head=False)
        return core

    def prompts(self, count: int, seed: int) -> list[tuple[int, ...]]:
        if self.source in SHAPES and self.trace == "edit":
            return walked_prompts(walk(self.model.language.vocab_size), count, seed)
        return text(self.trace, self._encode, count, seed)

    @cached_property
    def _encode(self) -> Encode:
        return encoder(DEFAULT_FOLDER if self.source in SHAPES else self.model.folder)


@dataclass(frozen=True, slots=True)
class Measured:
    """One run."""

    rate: float  # tokens per second
    tokens: int  # that it made


@dataclass(slots=True)
class Mode:
    """One way to decode, at one number of rows."""

    rows: int
    speculation: Speculation
    temperature: float = 0.0
    label: str = ""  # where it is not the drafting that differs
    rates: list[float] = field(default_factory=list)  # tokens per second, by turn
    ratios: list[float] = field(default_factory=list)  # to the first mode's rate of the same turn
    cpu: list[float] = field(default_factory=list)  # processor seconds of a token, by turn
    cpu_ratios: list[float] = field(default_factory=list)  # first mode's processor time to this one's
    drafted: int = 0
    accepted: int = 0
    steps: int = 0
    tokens: int = 0
    text: str = ""  # what a row has written, where that is text

    @property
    def name(self) -> str:
        return self.label or str(self.speculation)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def cpu_ratio(self) -> float:
        return statistics.median(self.cpu_ratios)

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
            "mode": self.name,
            "speculation": self.speculation,
            "tokens_per_second": self.rate,
            "ratio_to_first": self.ratio,
            "ratios": self.ratios,
            "processor_ratio_to_first": self.cpu_ratio,
            "processor_ratios": self.cpu_ratios,
            "acceptance": self.acceptance,
            "tokens_per_step_and_row": self.tokens_a_step,
            "text": self.text,
        }


def in_turns(
    modes: Sequence[Mode],
    turns: int,
    run: Callable[[Mode, int], Measured],
    watch: Callable[[str], None] = lambda text: None,
    prepare: Callable[[int], None] = lambda turn: None,
) -> None:
    """Every mode once a turn, in an order that rotates; a first turn warms up. Ratios are to the first mode. `prepare`
    is called before each turn: its processor time is nobody's."""
    for turn in range(turns + 1):
        shift = turn % len(modes)
        prepare(turn)
        for mode in (*modes[shift:], *modes[:shift]):
            watch(f"{mode.rows} rows, turn {turn} of {turns}, {mode.name}")
            begun = time.process_time()
            measured = run(mode, turn)
            if turn:
                mode.rates.append(measured.rate)
                mode.cpu.append((time.process_time() - begun) / measured.tokens)
        if turn:
            for mode in modes:
                mode.ratios.append(mode.rates[-1] / modes[0].rates[-1])
                mode.cpu_ratios.append(modes[0].cpu[-1] / mode.cpu[-1])


@contextmanager
def counted(bench: Bench, mode: Mode, *, counts: bool) -> Iterator[None]:
    """Draft tokens, steps and tokens meanwhile are the mode's, if it `counts`."""
    depths, counters = bench.scheduler.draft_lengths, bench.engine.core.counters

    def now() -> tuple[int, int, int, int]:
        return depths.draft_tokens, depths.accepted_tokens, counters.decode_steps, counters.generation_tokens

    before = now()
    yield
    if counts:
        drafted, accepted, steps, made = (b - a for a, b in zip(before, now(), strict=True))
        mode.drafted += drafted
        mode.accepted += accepted
        mode.steps += steps
        mode.tokens += made


def compare(
    bench: Bench,
    rows: Sequence[int],
    depths: Sequence[int],
    prompt_tokens: int,
    tokens: int,
    turns: int,
    watch: Callable[[str], None] = lambda text: None,
) -> list[Mode]:
    """For each number of rows: off, the fixed depths and auto, in turns."""
    texts = bench if isinstance(bench, TextBench) else None
    modes: list[Mode] = []
    vocab = bench.model.language.vocab_size

    def run(mode: Mode, turn: int, tokens: int = tokens) -> Measured:
        if texts is None:
            prompts = random_prompts(mode.rows, prompt_tokens, vocab, max(turn, 0))
        else:
            prompts = texts.prompts(mode.rows, max(turn, 0))
        with counted(bench, mode, counts=turn > 0):
            made, _ = bench.engine_run(prompts, tokens, mode.speculation, temperature=mode.temperature)
        return Measured(made.rate(), mode.rows * tokens)

    for count in rows:
        mine = [Mode(count, "off"), *(Mode(count, depth) for depth in depths), Mode(count, "auto")]
        for mode in mine:
            mode.temperature = 0.0 if texts is None else texts.temperature

        def keep_prefixes(turn: int, count: int = count) -> None:
            """Or the first mode of the turn would prefill for all."""
            if texts is not None:
                bench.engine_run(texts.prompts(count, turn), 1, "off")

        run(mine[-1], -1, 4 * tokens if texts is None else tokens)  # learns
        in_turns(mine, turns, run, watch, keep_prefixes)
        modes += mine
    return modes


def costs(bench: Bench, rows: Sequence[int]) -> dict[int, dict[int, float]]:
    """What the engine has learnt: milliseconds of a step by rows and draft length, drafted on the device or, where
    nothing is, known to the host."""
    lengths = bench.scheduler.draft_lengths
    learnt, host = lengths.stats().cost_model.step_ms, bench.scheduler.draft_choice.costs()
    found = {}
    for count in rows:
        size = str(lengths.size(count))
        found[count] = {int(d): ms for d, ms in {**host.get(size, {}), **learnt.get(size, {})}.items()}
    return found


class _Counting(Runner):
    """Counts the operations of each step before it is submitted."""

    launches = 0

    def _unevaluated(self, step: InFlightStep, *, states: bool = True) -> list[mx.array]:
        arrays = super()._unevaluated(step, states=states)
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
