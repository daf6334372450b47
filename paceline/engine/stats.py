"""The engine's statistics: counters, samples of memory and throughput, and the snapshot that is made of them.

Written on the engine's thread, read by any thread.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paceline.engine.admission import Admission
from paceline.engine.sequence import Sequence
from paceline.stats import (
    OFF,
    MemoryStats,
    PrefixCacheStats,
    SchedulerStats,
    SequenceState,
    SequenceStats,
    SpecPrefillStats,
    Stats,
    StepTimes,
    ThroughputStats,
)

if TYPE_CHECKING:
    from paceline.engine.core import EngineCore
    from paceline.engine.in_flight import InFlightStep

SAMPLE_SECONDS = 0.5  # between two samples
MAX_SAMPLES = 20
WINDOW_SECONDS = 10.0  # over which throughput is taken


@dataclass(slots=True)
class Counters:
    """Totals since the start."""

    steps: int = 0
    decode_steps: int = 0
    failed_steps: int = 0
    out_of_memory: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: Counter[str] = field(default_factory=Counter)  # by finish reason
    refused: Counter[str] = field(default_factory=Counter)  # by cause


class Monitor:
    """The time of steps by kind; samples of memory and token counts, taken now and then between two steps."""

    def __init__(self) -> None:
        self._steps: dict[str, StepTimes] = {}
        self._shapes_met = 0
        self._ended: float | None = None  # when the last step of the host did; None: nothing was submitted in it
        self.memory: MemoryStats | None = None  # None before the first sample, or without a memory budget
        self._sampled = 0.0
        self._samples: tuple[tuple[float, int, int], ...] = ()  # time, prompt tokens, generated tokens

    def tick(self, step: InFlightStep | None, shapes_met: int) -> None:
        """After each step of the host, in which `step` was submitted. Pauses before a step do not count."""
        now, ended = time.perf_counter(), self._ended
        new_shape = shapes_met != self._shapes_met
        self._ended, self._shapes_met = None if step is None else now, shapes_met
        if step is None or ended is None:
            return
        kind = "prefill" if step.prompt_tokens else "decode"
        if step.draft_length:
            kind += f", {step.draft_length} drafted"
        if new_shape:
            kind += ", new shape"
        before = self._steps.get(kind, StepTimes())
        self._steps[kind] = StepTimes(before.steps + 1, before.seconds + now - ended)

    def step_times(self) -> dict[str, StepTimes]:
        return dict(sorted(self._steps.copy().items()))

    def is_due(self, now: float) -> bool:
        return now - self._sampled >= SAMPLE_SECONDS

    def sample(self, admission: Admission | None, seqs: Collection[Sequence], now: float, counters: Counters) -> None:
        import mlx.core as mx

        self._sampled = now
        self._samples = (*self._samples[1 - MAX_SAMPLES :], (now, counters.prompt_tokens, counters.generation_tokens))
        if admission is not None:
            estimate = admission.held(seqs)
            self.memory = MemoryStats.of(estimate, mx.get_active_memory(), mx.get_peak_memory(), mx.get_cache_memory())

    def throughput(self, now: float, counters: Counters, requests_per_second: float | None = None) -> ThroughputStats:
        recent = [sample for sample in self._samples if now - sample[0] <= WINDOW_SECONDS]
        requests = round(requests_per_second or 0.0, 3)
        if not recent or now <= recent[0][0]:
            return ThroughputStats(requests)
        began, prompt, generated = recent[0]
        seconds = now - began
        return ThroughputStats(
            requests,
            round((counters.prompt_tokens - prompt) / seconds, 2),
            round((counters.generation_tokens - generated) / seconds, 2),
        )


def snapshot(engine: EngineCore, now: float) -> Stats:
    scheduler, counters, timeouts = engine.scheduler, engine.counters, engine.timeouts
    seqs, queue = list(scheduler.running), scheduler.queue(now)
    pace, admission = scheduler.prefill_budget, scheduler.admission
    prefix, sparse = engine.prefix, engine.sparse  # the engine's thread takes them away when it ends
    return Stats(
        state="failed" if engine.failure else "ready",
        time=time.time(),
        num_requests_running=len(seqs),
        num_requests_waiting=len(queue),
        num_requests_waiting_by_reason=dict(Counter(seq.queue.blocked_by or "order" for seq in queue)),
        num_requests_decoding=sum(seq.is_decoding for seq in seqs),
        num_requests_prefilling=sum(not seq.is_decoding for seq in seqs),
        num_uncached_tokens=sum(seq.queue.uncached_tokens for seq in queue)
        + sum(seq.remaining for seq in seqs if not seq.is_decoding),
        running_sequences=running(seqs, now),
        waiting_sequences=waiting(queue, now),
        steps=counters.steps,
        decode_steps=counters.decode_steps,
        step_times=engine.monitor.step_times(),
        failed_steps=counters.failed_steps,
        out_of_memory=counters.out_of_memory,
        prompt_tokens=counters.prompt_tokens,
        generation_tokens=counters.generation_tokens,
        requests_finished=dict(counters.finished),
        requests_refused=dict(counters.refused),
        preemptions={cause: count for cause, count in scheduler.preemptions.items()},
        throughput=engine.monitor.throughput(now, counters, engine.departures.per_second(now)),
        scheduler=SchedulerStats(
            policy=scheduler.policy.name,
            starvation_seconds=scheduler.starvation,
            max_queue=timeouts.max_queue,
            queue_timeout_seconds=timeouts.queue,
            first_token_timeout_seconds=timeouts.first_token,
            request_timeout_seconds=timeouts.request,
            prefill_chunk_tokens=scheduler.step_tokens(decoding=True),
            max_prefill_chunk_tokens=pace.max_chunk,
            stall_target_ms=None if pace.target is None else pace.target * 1000,
        ),
        memory_budget=None if admission is None else admission.stats(),
        memory=engine.monitor.memory,
        prefix_cache=PrefixCacheStats(reason=OFF) if prefix is None else prefix.stats(),
        spec_decode=scheduler.draft_lengths.stats(scheduler.draft_choice.costs()),
        specprefill=SpecPrefillStats() if sparse is None else sparse.stats(),
    )


def running(seqs: Collection[Sequence], now: float) -> tuple[SequenceStats, ...]:
    return tuple(_sequence(seq, now, state(seq)) for seq in seqs)


def waiting(seqs: Collection[Sequence], now: float) -> tuple[SequenceStats, ...]:
    """In the order in which they are considered for admission."""
    return tuple(
        _sequence(seq, now, "waiting", position, seq.queue.blocked_by or "order")
        for position, seq in enumerate(seqs, 1)
    )


def state(seq: Sequence) -> SequenceState:
    if seq.prefix.waiting:  # another sequence's prefill, or the disk, is about to bring its prefix
        return "waiting_for_prefix"
    if not seq.sparse.decided and seq.remaining:  # a draft reads its prompt
        return "scoring"
    return "prefill" if seq.remaining or seq.media_left else "decode"


def _sequence(
    seq: Sequence, now: float, state: SequenceState, position: int | None = None, reason: str | None = None
) -> SequenceStats:
    request_id, _, choice = seq.id.rpartition("/")
    return SequenceStats(
        id=request_id or seq.id,
        choice=int(choice) if request_id and choice.isdecimal() else 0,
        state=state,
        prompt_tokens=len(seq.prompt.token_ids),
        cached_tokens=seq.prefix.cached_tokens,
        generated_tokens=len(seq.generated),
        age_seconds=round(max(now - seq.queue.arrived, 0.0), 3),
        tenant=seq.request.tenant,
        priority=seq.request.priority,
        preemptions=seq.preemptions,
        position=position,
        reason=reason,
        number=seq.number,
        prefilled_tokens=_prefilled(seq),
        accepted_tokens=seq.accepted,
        drafted_tokens=seq.accepted + max(seq.rejected, 0),
    )


def _prefilled(seq: Sequence) -> int:
    prompt_tokens = len(seq.prompt.token_ids) - seq.dropped
    return min(seq.computed.tokens, prompt_tokens) if seq.remaining else prompt_tokens
