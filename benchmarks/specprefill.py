"""`python -m benchmarks specprefill`: time to first token by sparse and by full prefill, and what streams suffer.

Both ways take turns on the same prompt in one process, alone in the engine; nothing is cached, nothing is drafted.
A sparse prompt's time is split at the moment when its tokens are chosen: what comes before is the draft's, less the
time of selecting; what comes after is the target's. Where no tokenizer is (shapes of random weights), prompts are
random tokens; else they are plain text.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from mlx.utils import tree_flatten

from benchmarks.models import Bench, model_of
from benchmarks.shapes import SHAPES, random_model
from paceline import platform
from paceline.bench.offline import Trace, random_prompts
from paceline.cache.budget import Budget
from paceline.conversation.tokenizer import Tokenizer
from paceline.engine import sequence
from paceline.engine.core import EngineCore
from paceline.engine.forward import DEVICES
from paceline.engine.prefill_budget import SparseBudget
from paceline.engine.sparse_draft import build, check_draft, load_draft, why_not
from paceline.engine.sparse_prefill import SparsePrefill
from paceline.engine.warmup import warm_up
from paceline.errors import LoadError, PacelineError
from paceline.models.loader import LoadedModel
from paceline.sparse.rules import SHORTEST, Rules
from paceline.types import Sampling

EMBEDDINGS = ("embed_tokens.weight", "lm_head.weight")  # of which a prompt's tokens use a sequence each, or none
CHARACTERS = 8  # a token of text has fewer, on average
WARM_UP = 2048  # tokens of the prompts before the first turn
TRACE_AFTER = 1800.0  # seconds for one prompt
STREAM_PROMPT = 32  # tokens of a stream's own prompt
STREAM_WARM = 16  # tokens of each stream before anything is measured
SETTLED = 1.0  # seconds for which streams run by themselves before the prompt comes
ENDLESS = 1 << 20  # tokens: a stream lasts until it is cancelled
GLANCE = 0.01
Watch = Callable[[str], None]


class SparseBenchError(PacelineError):
    """What was to be measured did not happen."""


def silent(text: str) -> None:
    """Nobody watches."""


class Timed(SparseBudget):
    """The engine's own rule for chunks beside streams, which also remembers how long each chunk took."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[float] = []

    def finished(self, seconds: float, now: float) -> None:
        self.chunks.append(seconds)
        super().finished(seconds, now)


class SparseBench(Bench):
    """A target and its draft in one engine. Both are shapes of random weights, or both are models with a tokenizer."""

    tokenizer: Tokenizer | None = None  # None: shapes have none
    draft: LoadedModel
    sparse: SparsePrefill

    def __init__(
        self,
        source: str,
        draft: str,
        layout: str = "auto",
        *,
        prefill_chunk: int | None = None,
        draft_chunk: int | None = None,
        draft_window: int | None = None,
        compile: bool = True,
    ) -> None:
        super().__init__(source, layout, prefill_chunk, compile)
        if (source in SHAPES) != (draft in SHAPES):
            raise LoadError(f"{source} and {draft}: a shape of random weights has no tokenizer to share with a model.")
        self.draft_source = draft
        self.draft_chunk = draft_chunk
        self.draft_window = draft_window
        self.chosen_at = 0.0  # when the last sparse prompt's tokens were chosen
        self.duty = Timed()

    def _load(self) -> LoadedModel:
        model = random_model(self.source, drafts=False) if self.source in SHAPES else model_of(self.source)
        reason = why_not(model)
        if reason is not None:
            raise LoadError(reason)
        if self.draft_source in SHAPES:
            self.draft = random_model(self.draft_source, drafts=False)
            self.draft.head = "it only scores prompts"
        else:
            self.tokenizer = Tokenizer.load(model.folder, model.config)
            check_draft(self.draft_source, self.tokenizer)
            self.draft = load_draft(self.draft_source, "auto", self.tokenizer.vocab_size)
        return model

    def _build(self, wake: Callable[[], None]) -> EngineCore:
        core = super()._build(wake)
        tokenizer = self.tokenizer
        core.sparse = self.sparse = build(
            Rules("off"),  # every request says what it wants
            self.draft,
            core.runner,
            budget=Budget(1 << 50),  # memory is not what is measured
            chunk=self.draft_chunk,
            window=self.draft_window,
            special=frozenset() if tokenizer is None else tokenizer.special_ids,
            caches=False,
        )
        self.sparse.on_kept = self._note_choice
        self.scheduler.sparse_budget = self.duty
        if platform.device_kind() in DEVICES:  # as a server does
            warm_up(core.runner, draft=self.sparse.draft)
        return core

    def _note_choice(self, seq: sequence.Sequence) -> None:
        self.chosen_at = time.perf_counter()

    @property
    def relative_size(self) -> float:
        """The draft's weights over the target's, embeddings not counted: what a prompt token costs."""
        return weights(self.draft) / weights(self.model)

    def prompt(self, tokens: int, seed: int) -> tuple[int, ...]:
        if self.tokenizer is None:
            return random_prompts(1, tokens, self.model.language.vocab_size, seed)[0]
        from benchmarks.needles import plain_text

        ids: list[int] = []
        characters = CHARACTERS * tokens
        while len(ids) < tokens:
            ids = self.tokenizer.encode(plain_text(characters, seed))
            characters *= 2
        return tuple(ids[:tokens])

    def seq(
        self, name: str, prompt: tuple[int, ...], limit: int, trace: Trace, keep: float | None
    ) -> sequence.Sequence:
        """`keep`: the share that is read; None: full prefill."""
        sampling = Sampling(
            temperature=0,
            max_tokens=limit,
            ignore_eos=True,
            speculation="off",
            specprefill=keep is not None,
            specprefill_keep=keep,
        )
        place = len(trace.times)
        return self.sequence(f"{name}-{place}", prompt, sampling, trace.sink(place))


def weights(model: LoadedModel) -> int:
    """Parameters, without embeddings."""
    named: list[tuple[str, Any]] = tree_flatten(model.language.module.parameters())
    return sum(array.size for name, array in named if not name.endswith(EMBEDDINGS))


# -- the time to the first token


@dataclass(frozen=True, slots=True)
class First:
    """One prompt: seconds to its first token, and where they went."""

    seconds: float
    kept: int
    draft: float = 0.0
    select: float = 0.0

    @property
    def target(self) -> float:
        return self.seconds - self.draft - self.select


def first_token(bench: SparseBench, prompt: tuple[int, ...], keep: float | None) -> First:
    """Alone in the engine; `keep` None: by full prefill."""
    trace = Trace()
    counts = bench.sparse.counts
    before = counts.select_seconds, counts.kept
    seq = bench.seq("prompt", prompt, 1, trace, keep)
    begun = time.perf_counter()
    bench.engine.submit(seq)
    wait(trace)
    seconds = trace.times[0][0] - begun
    if keep is None:
        return First(seconds, len(prompt))
    kept = counts.kept - before[1]
    if not kept:
        raise SparseBenchError(f"A prompt of {len(prompt)} tokens was read whole ({counts.outcomes}).")
    select = counts.select_seconds - before[0]
    return First(seconds, kept, bench.chosen_at - begun - select, select)


def wait(trace: Trace) -> None:
    """Until all its sequences have ended; raises where one went wrong."""
    if not trace.done.wait(TRACE_AFTER):
        raise SparseBenchError(f"There was no answer in {TRACE_AFTER:.0f} s.")
    if trace.failures:
        raise SparseBenchError(f"A request failed: {trace.failures[0]}")


@dataclass(slots=True)
class Line:
    """One length: both ways, turn by turn."""

    length: int
    full: list[First] = field(default_factory=list)
    sparse: list[First] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        return [full.seconds / sparse.seconds for full, sparse in zip(self.full, self.sparse, strict=True)]

    def figures(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.length,
            "kept_tokens": median(first.kept for first in self.sparse),
            "full_s": median(first.seconds for first in self.full),
            "sparse_s": median(first.seconds for first in self.sparse),
            "full_over_sparse": statistics.median(self.ratios),
            "ratios": self.ratios,
            "draft_s": median(first.draft for first in self.sparse),
            "select_s": median(first.select for first in self.sparse),
            "target_s": median(first.target for first in self.sparse),
            "full_turns_s": [first.seconds for first in self.full],
            "sparse_turns_s": [first.seconds for first in self.sparse],
        }

    def text(self) -> str:
        """One line for a terminal without tables."""
        said = self.figures()
        return (
            f"{self.length} tokens, {said['kept_tokens']:.0f} kept: full {said['full_s']:.3f} s, "
            f"sparse {said['sparse_s']:.3f} s (draft {said['draft_s']:.3f}, select {said['select_s']:.3f}, "
            f"target {said['target_s']:.3f}): {said['full_over_sparse']:.2f} times faster "
            f"({min(self.ratios):.2f} to {max(self.ratios):.2f}, {len(self.ratios)} turns)"
        )


def median(numbers: Any) -> float:
    return float(statistics.median(numbers))


def warm_up_both(bench: SparseBench, keep: float, tokens: int = WARM_UP) -> None:
    """Both ways once, on a short prompt: kernels are compiled, buffers are there."""
    prompt = bench.prompt(max(tokens, SHORTEST + 1), 1_000_000)
    for way in (None, keep):
        first_token(bench, prompt, way)


def compare(bench: SparseBench, length: int, keep: float, turns: int, watch: Watch = silent) -> Line:
    """Full, sparse, full, sparse: each turn on a prompt of its own. One before them is not counted: a GPU's libraries
    make plans for shapes that they have not seen."""
    line = Line(length)
    if platform.device_kind() != "cpu":
        watch(f"{length} tokens, sparse, not counted")
        first_token(bench, bench.prompt(length, turns), keep)
    for turn in range(turns):
        prompt = bench.prompt(length, turn)
        watch(f"{length} tokens, turn {turn + 1} of {turns}, full")
        line.full.append(first_token(bench, prompt, None))
        watch(f"{length} tokens, turn {turn + 1} of {turns}, sparse")
        line.sparse.append(first_token(bench, prompt, keep))
    return line


# -- beside streams


@dataclass(frozen=True, slots=True)
class Beside:
    """Streams, and one long prompt that is scored and prefilled sparsely among them."""

    streams: int
    prompt: int  # tokens
    kept: int
    alone: float  # tokens per second of all streams, by themselves, over the very tokens that they said meanwhile
    beside: float  # while the prompt was scored and read
    gap_alone: float  # the longest seconds between two of these tokens
    gap_beside: float
    chunk: float  # the longest time of one chunk of side work, its wait included
    chunks: int
    first_alone: float  # seconds to the prompt's first token, without the streams
    first_among: float  # and with them

    @property
    def share(self) -> float:
        """Of their pace, that the streams kept."""
        return self.beside / self.alone

    def figures(self) -> dict[str, Any]:
        return {
            "streams": self.streams,
            "prompt_tokens": self.prompt,
            "kept_tokens": self.kept,
            "tokens_per_s_alone": self.alone,
            "tokens_per_s_beside": self.beside,
            "share_kept": self.share,
            "longest_gap_alone_s": self.gap_alone,
            "longest_gap_beside_s": self.gap_beside,
            "longest_chunk_s": self.chunk,
            "chunks": self.chunks,
            "first_token_alone_s": self.first_alone,
            "first_token_among_streams_s": self.first_among,
        }

    def lines(self) -> list[tuple[str, str]]:
        """Name and value, for a table."""
        step = self.gap_beside - self.chunk
        return [
            ("tokens per second by themselves", f"{self.alone:.1f}"),
            ("while the prompt is scored and read", f"{self.beside:.1f}"),
            ("share of their pace that streams keep", f"{self.share:.2f}"),
            ("longest gap by themselves", f"{1000 * self.gap_alone:.1f} ms"),
            ("longest gap while the prompt is read", f"{1000 * self.gap_beside:.1f} ms"),
            (f"longest of {self.chunks} chunks of side work", f"{1000 * self.chunk:.1f} ms"),
            ("longest gap, less that chunk", f"{1000 * step:.1f} ms"),
            ("the prompt's first token, alone", f"{self.first_alone:.2f} s"),
            ("the prompt's first token, among the streams", f"{self.first_among:.2f} s"),
        ]


def beside_streams(bench: SparseBench, streams: int, length: int, keep: float, watch: Watch = silent) -> Beside:
    """The prompt alone; then among running streams; then the streams by themselves until each has said as much.

    A stream grows slower as it grows longer, so both times are of the same tokens of the same streams.
    """
    prompt = bench.prompt(length, 0)
    watch(f"{length} tokens, alone")
    alone = first_token(bench, prompt, keep)
    reader = Trace()
    watch(f"{streams} streams by themselves")
    with _streams(bench, streams) as trace:
        time.sleep(SETTLED)
        bench.duty.chunks.clear()
        counted = bench.sparse.counts.kept
        watch(f"{streams} streams and {length} tokens")
        arrived = time.perf_counter()
        bench.engine.submit(bench.seq("prompt", prompt, 1, reader, keep))
        wait(reader)
        first = reader.times[0][0]
        chunks = list(bench.duty.chunks)
    if bench.sparse.counts.kept == counted or not chunks:
        raise SparseBenchError(f"The prompt of {length} tokens was read whole ({bench.sparse.counts.outcomes}).")
    said = [sum(moment <= first for moment in times) for times in trace.times.values()]
    before = [sum(moment <= arrived for moment in times) for times in trace.times.values()]
    watch(f"{streams} streams by themselves, {max(said)} tokens each")
    with _streams(bench, streams) as control:
        _until(lambda: all(len(times) >= most for times, most in zip(control.times.values(), said, strict=True)))
    begin = max(times[less - 1] for times, less in zip(control.times.values(), before, strict=True))
    end = min(times[most - 1] for times, most in zip(control.times.values(), said, strict=True))
    return Beside(
        streams,
        length,
        bench.sparse.counts.kept - counted,
        rate(control, begin, end),
        rate(trace, arrived, first),
        longest_gap(control, begin, end),
        longest_gap(trace, arrived, first),
        max(chunks),
        len(chunks),
        alone.seconds,
        first - arrived,
    )


@contextmanager
def _streams(bench: SparseBench, count: int) -> Iterator[Trace]:
    """Sequences that go on until the block ends; it begins when each of them has said a few tokens."""
    trace = Trace()
    seqs = [bench.seq("stream", bench.prompt(STREAM_PROMPT, place + 1), ENDLESS, trace, None) for place in range(count)]
    for seq in seqs:
        bench.engine.submit(seq)
    try:
        _until(lambda: all(len(times) >= STREAM_WARM for times in trace.times.values()))
        yield trace
    finally:
        for seq in seqs:
            bench.engine.abort(seq.id)
        wait(trace)


def _until(done: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + TRACE_AFTER
    while not done():
        if time.perf_counter() > deadline:
            raise SparseBenchError("The streams did not start.")
        time.sleep(GLANCE)


def rate(trace: Trace, begin: float, end: float) -> float:
    """Tokens per second of all streams."""
    return sum(begin < moment <= end for times in trace.times.values() for moment in times) / (end - begin)


def longest_gap(trace: Trace, begin: float, end: float) -> float:
    """Between two tokens of one stream, part of which lies in this time."""
    gaps = (pair for times in trace.times.values() for pair in pairwise(times))
    return max((after - before for before, after in gaps if after > begin and before < end), default=end - begin)


def about(bench: SparseBench) -> dict[str, Any]:
    return {
        "model": bench.source,
        "draft": bench.draft_source,
        "weights_without_embeddings": weights(bench.model),
        "draft_weights_without_embeddings": weights(bench.draft),
        "relative_size": bench.relative_size,
        "draft_chunk": bench.sparse.chunk,
        "draft_window": bench.sparse.draft.window,
        "prefill_chunk": bench.scheduler.prefill_budget.max_chunk,
    }


def whole_run(bench: SparseBench, lengths: Sequence[int], keep: float, turns: int, watch: Watch = silent) -> list[Line]:
    """All lengths, after a warm-up."""
    watch("warming up")
    warm_up_both(bench, keep, min(WARM_UP, *lengths))
    return [compare(bench, length, keep, turns, watch) for length in lengths]
