"""`paceline bench offline`: the engine against the bare loop, and sequences together against one after another.

The bare loop is the same module over mlx-lm's own caches on the same batch, argmax, the next step submitted before
the last is read: what nobody can beat without changing the model. Both run in one process, in turns.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import mlx.core as mx
import numpy as np
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache

from paceline import platform
from paceline.cache.kv_quantization import KVQuantization
from paceline.cache.slot_plan import Grouping
from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine import layout as layouts
from paceline.engine import sequence
from paceline.engine.core import EngineCore
from paceline.engine.draft_choice import DraftChoice
from paceline.engine.draft_model import DraftModelProposer
from paceline.engine.forced_tokens import GrammarProposer
from paceline.engine.forward import DEVICES
from paceline.engine.lookup import LookupProposer
from paceline.engine.memory import dequantize_within
from paceline.engine.proposer import HostProposer
from paceline.engine.runner import Runner
from paceline.engine.scheduler import Scheduler
from paceline.engine.speculation_policy import HEADED, SpeculationPolicy
from paceline.engine.thread import EngineThread
from paceline.engine.warmup import WarmUpScope, check_steps, may_be_traced, take_steps, warm_up
from paceline.models.loader import LoadedModel, load
from paceline.models.prefill_chunk import prefill_chunk
from paceline.types import (
    MAX_DRAFTED,
    Delta,
    Grammar,
    Lora,
    Prompt,
    RequestId,
    Sampling,
    Speculation,
    SpeculationMethod,
)

if TYPE_CHECKING:
    from paceline.setting_values import ShapeBucketing


def random_prompts(count: int, tokens: int, vocab: int, seed: int = 0) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    return [tuple(rng.integers(0, vocab, tokens).tolist()) for _ in range(count)]


@dataclass(slots=True)
class Trace:
    """What came out of the engine for each sequence, and when."""

    begun: float = 0.0  # just before the sequences were made
    times: dict[int, list[float]] = field(default_factory=dict)
    tokens: dict[int, list[int]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    cached: dict[int, int] = field(default_factory=dict)  # tokens of each prompt that came from the prefix cache
    failures: list[str] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    open_rows: int = 0

    def sink(self, seq: int) -> Callable[[Delta], None]:
        self.times[seq], self.tokens[seq], self.texts[seq] = [], [], ""
        self.open_rows += 1

        def take(delta: Delta) -> None:
            now = time.perf_counter()
            self.times[seq] += [now] * len(delta.token_ids)
            self.tokens[seq] += delta.token_ids
            self.texts[seq] += delta.text
            if delta.usage is not None:
                self.cached[seq] = delta.usage.cached_tokens
            if delta.error is not None:
                self.failures.append(delta.error)
            if delta.finish_reason is not None:
                self.open_rows -= 1
                if self.open_rows == 0:
                    self.done.set()

        return take

    def rate(self, skip: int = 0) -> float:
        """Tokens per second while all sequences decoded: from the last sequence's first token to the first sequence's
        last. `skip`: not counting so many after the first, in which a new shape is traced."""
        begin = max(times[skip] for times in self.times.values())
        end = min(times[-1] for times in self.times.values())
        count = sum(begin < moment <= end for times in self.times.values() for moment in times)
        return count / (end - begin)


class Bench:
    """One model, one engine thread that owns it; the bare loop runs on the same thread, between the engine's runs."""

    runner_type: type[Runner] = Runner

    def __init__(
        self,
        source: str,
        layout: str = "auto",
        prefill_chunk: int | None = None,
        compile: bool = True,
        shape_buckets: ShapeBucketing = "auto",
        methods: tuple[SpeculationMethod, ...] = HEADED,
        *,
        checks: bool = True,
        watch: Callable[[str], None] = lambda stage: None,
    ) -> None:
        """`checks`: without them and without a warm-up a bench starts in seconds where kernels must be compiled first,
        and whatever it measures needs a turn to warm up. `watch` hears of every stage of the start."""
        self.source = source
        self.checks, self.watch = checks, watch
        self.compile = compile
        self.layout = layout
        self.shape_buckets: ShapeBucketing = shape_buckets
        self.prefill_chunk = prefill_chunk
        self.methods = methods
        self.scheduler = Scheduler(64, prefill_chunk or 256)
        self.engine = EngineThread(self._build)
        self.model: LoadedModel
        self.runner: Runner
        self._kv_errors: dict[KVQuantization, float] = {}  # what the check of each has found

    def __enter__(self) -> Self:
        self.engine.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.engine.stop()

    def _build(self, wake: Callable[[], None]) -> EngineCore:
        self.model = self._load()
        self.watch("the weights are there")
        choose = layouts.choose if self.checks else layouts.assumed
        grouping = choose(self.model, self.layout, self.shape_buckets)
        self.scheduler.buckets = self.scheduler.draft_lengths.buckets = grouping.buckets
        if self.prefill_chunk is None:
            self.scheduler.prefill_budget.max_chunk = prefill_chunk(self.model.language, grouping)
        traces = self._steps(grouping) and self.compile
        self.watch(f"layout and steps are {'checked' if self.checks else 'taken unchecked'}")
        draft_model = self._draft_model()
        self.runner = self.runner_type(self.model, grouping, traces=traces, draft_model=draft_model)
        if draft_model is not None:
            self.scheduler.draft_lengths.method = draft_model.method
        proposers = self._host_proposers()
        longest = self.model.language.longest_draft if proposers else 0
        self.scheduler.draft_choice = DraftChoice(proposers, longest)
        if self.checks and platform.device_kind() in DEVICES:  # a CPU compiles no kernels
            scope = WarmUpScope(self.scheduler.max_num_seqs, self.scheduler.prefill_budget.max_chunk)
            most = max(longest, 0 if self.runner.proposer is None else MAX_DRAFTED)
            warm_up(self.runner, scope, draft_lengths=grouping.buckets.draft_lengths(most))
            self.watch("warm")
        return EngineCore(self.runner, self.scheduler)

    def _steps(self, grouping: Grouping) -> bool:
        """Whether steps are traced."""
        if self.checks:
            return check_steps(self.model, grouping)
        take_steps(self.model)
        return may_be_traced(self.model.language)

    def _host_proposers(self) -> list[HostProposer]:
        """None where the model cannot roll back."""
        found: list[HostProposer] = []
        if "lookup" in self.methods:  # in no other answers: every mode gives the same ones
            found.append(LookupProposer(answers=False))
        if "grammar" in self.methods:
            found.append(GrammarProposer())
        return found if self.model.no_rollback is None else []

    def _draft_model(self) -> DraftModelProposer | None:
        """A model that drafts instead of the MTP head."""
        return None

    def _load(self) -> LoadedModel:
        from paceline.settings import Settings  # needs pydantic, which a machine for shapes of random weights may lack

        return load(self.source, dequantize_within=dequantize_within(Settings()))

    def on_engine_thread(self, work: Callable[[], Any]) -> Any:
        """Run something on the thread that owns MLX, while the engine is idle."""
        return self.engine.call(work).result(timeout=3600)

    @contextmanager
    def quantized_kv(self, kv: KVQuantization | None) -> Iterator[None]:
        """Keys and values are quantized meanwhile. The engine is idle when it begins and when it ends. Raises LoadError
        where the model does not allow it."""

        def switch(kv: KVQuantization | None) -> None:
            self.model.language.kv = None
            if kv is not None and self.checks and kv not in self._kv_errors:
                self._kv_errors[kv] = layouts.quantize_kv(self.model, self.runner.grouping, kv)
            elif kv is not None:
                layouts.use_quantized_kv(self.model, kv, self._kv_errors.get(kv, 0.0))
            self.runner.forget_traces()

        self.on_engine_thread(lambda: switch(kv))
        try:
            yield
        finally:
            self.on_engine_thread(lambda: switch(None))

    def sequence(
        self,
        name: str,
        prompt: tuple[int, ...],
        sampling: Sampling,
        sink: Callable[[Delta], None],
        *,
        boundaries: tuple[int, ...] = (),
        tenant: str = "",
        lora: Lora | None = None,
        grammar: Grammar | None = None,
        ends: frozenset[int] = frozenset(),
    ) -> sequence.Sequence:
        """A sequence without a tokenizer: every token is an x. `ends`: tokens that end an answer."""
        no_head = self.model.head if isinstance(self.model.head, str) else None
        request = sequence.EngineRequest(
            RequestId(name),
            Prompt(prompt, boundaries=boundaries, lora=lora),
            sampling,
            sampling.max_tokens or 0,
            SpeculationPolicy("off", no_head, self.methods).mode(Prompt(prompt), sampling),
            ends,
            tenant=tenant,
        )
        return sequence.Sequence(request, TextStream(ByteDetokenizer(lambda _: b"x")), sink, grammar)

    # -- what is measured

    def engine_run(
        self,
        prompts: Sequence[tuple[int, ...]],
        tokens: int,
        speculation: Speculation = "off",
        *,
        boundaries: tuple[int, ...] = (),
        temperature: float = 0.0,
        loras: Sequence[Lora | None] = (),
    ) -> tuple[Trace, float]:
        """All prompts at once through the engine; returns the trace and the seconds to the last token. Samples have a
        seed: they are the same in every run. `loras`: the adapter of each prompt."""
        trace = Trace()
        seed = None if temperature == 0 else 7
        sampling = Sampling(temperature, seed=seed, max_tokens=tokens, ignore_eos=True, speculation=speculation)
        begun = trace.begun = time.perf_counter()
        seqs = [
            self.sequence(f"bench-{place}", prompt, sampling, trace.sink(place), boundaries=boundaries, lora=lora)
            for place, (prompt, lora) in enumerate(zip(prompts, loras or [None] * len(prompts), strict=True))
        ]
        for seq in seqs:
            if (prefix := self.engine.core.prefix) is not None:
                seq.prefix.key = prefix.cache_key(seq.prompt)
            self.engine.submit(seq)
        trace.done.wait(timeout=3600)
        return trace, time.perf_counter() - begun

    def bare_rate(self, prompts: Sequence[tuple[int, ...]], tokens: int) -> float:
        """Tokens per second of the bare loop, prefill not counted."""
        module = self.model.language.module

        def run() -> float:
            cache = make_prompt_cache(module)
            inputs = mx.array(list(prompts))
            logits = module(inputs, cache=cache)
            current = mx.argmax(logits[:, -1], axis=-1)
            mx.eval(current)
            begun = time.perf_counter()
            for _ in range(tokens):
                following = mx.argmax(module(current[:, None], cache=cache)[:, -1], axis=-1)
                mx.async_eval(following)
                current.tolist()
                current = following
            current.tolist()
            return len(prompts) * tokens / (time.perf_counter() - begun)

        rate: float = self.on_engine_thread(run)
        return rate

    def one_after_another(self, prompts: Sequence[tuple[int, ...]], tokens: int) -> float:
        """Seconds that mlx-lm's own generation takes for the prompts, one by one."""
        module = self.model.language.module

        def run() -> float:
            begun = time.perf_counter()
            for prompt in prompts:
                for _ in generate_step(mx.array(prompt), module, max_tokens=tokens):
                    pass
            return time.perf_counter() - begun

        seconds: float = self.on_engine_thread(run)
        return seconds


@dataclass(frozen=True, slots=True)
class Line:
    rows: int
    engine: float  # tokens per second, medians over the pairs
    bare: float
    ratio: float  # median of the pairs' ratios


def against_bare_loop(bench: Bench, counts: Sequence[int], prompt_tokens: int, tokens: int, pairs: int) -> list[Line]:
    """For each number of sequences: engine and bare loop in turns, `pairs` times, after one turn to warm up."""
    lines = []
    vocab = bench.model.language.vocab_size
    for count in counts:
        prompts = random_prompts(count, prompt_tokens, vocab)
        ours, bares = [], []
        for turn in range(pairs + 1):
            order = (0, 1) if turn % 2 else (1, 0)
            figures = [0.0, 0.0]
            for which in order:
                if which == 0:
                    figures[0] = bench.engine_run(prompts, tokens)[0].rate()
                else:
                    figures[1] = bench.bare_rate(prompts, tokens)
            if turn:
                ours.append(figures[0])
                bares.append(figures[1])
        ratio = statistics.median(a / b for a, b in zip(ours, bares, strict=True))
        lines.append(Line(count, statistics.median(ours), statistics.median(bares), ratio))
    return lines


@dataclass(frozen=True, slots=True)
class Together:
    requests: int
    tokens: int
    together: float  # seconds, medians
    apart: float
    ratio: float


def against_one_after_another(bench: Bench, requests: int, prompt_tokens: int, tokens: int, pairs: int) -> Together:
    """The same requests through the engine at once, and through mlx-lm's generation one after another."""
    prompts = random_prompts(requests, prompt_tokens, bench.model.language.vocab_size)
    together, apart = [], []
    bench.engine_run(prompts, min(tokens, 16))
    bench.one_after_another(prompts[:1], min(tokens, 16))
    for _ in range(pairs):
        together.append(bench.engine_run(prompts, tokens)[1])
        apart.append(bench.one_after_another(prompts, tokens))
    ratio = statistics.median(a / t for a, t in zip(apart, together, strict=True))
    return Together(requests, tokens, statistics.median(together), statistics.median(apart), ratio)
