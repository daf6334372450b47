"""Statistics: the one definition that the engine fills, /v1/status serializes and Prometheus reads.

Frozen snapshots, taken on any thread; numbers may be a step old. Counters are totals since the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ServiceState = Literal["stopped", "loading", "ready", "failed"]
SequenceState = Literal["prefill", "decode", "waiting_for_prefix", "scoring", "waiting"]
OFF = "the server is set so"
NOT_LOADED = "no model is loaded yet"


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The loaded model, and how it is served."""

    name: str
    family: str
    device: str
    kv_layout: str
    shape_buckets: bool  # whether shapes are padded to buckets
    prefill_chunk: int
    compiled_step: bool
    context_length: int
    max_num_seqs: int
    weights_bytes: int
    quantization: str | None  # None: the weights are not quantized
    images: bool
    videos: bool
    embedding_size: int | None  # None: the model gives no embeddings
    mtp_head: bool
    audio: bool = False
    kv_bits: int | None = None  # None: keys and values are not quantized
    notes: tuple[str, ...] = ()
    sampling_defaults: Mapping[str, float | None] = field(default_factory=dict)  # where a request is silent
    sampling_defaults_from: Mapping[str, str] = field(default_factory=dict)  # which of them were set, and where


@dataclass(frozen=True, slots=True)
class SequenceStats:
    """How far one sequence is; nothing of its text."""

    id: str | None  # the request's; None where it is hidden from the reader
    choice: int
    state: SequenceState
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    age_seconds: float
    tenant: str
    priority: int
    preemptions: int
    position: int | None = None  # in the waiting queue, from 1
    reason: str | None = None  # why it waits
    number: int = 0  # in the order of arrival, since the start; shown to all, and no id
    prefilled_tokens: int = 0  # of its prompt, computed or restored
    accepted_tokens: int = 0  # of those generated, drafted ones
    drafted_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    policy: str = ""
    starvation_seconds: float | None = None
    max_queue: int | None = None
    queue_timeout_seconds: float | None = None
    first_token_timeout_seconds: float | None = None
    request_timeout_seconds: float | None = None
    prefill_chunk_tokens: int = 0  # of a step beside running streams, now
    max_prefill_chunk_tokens: int = 0
    stall_target_ms: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryBudgetStats:
    limit_bytes: int
    headroom_bytes: int
    free_bytes: int
    parts: Mapping[str, int]  # bytes held or reserved
    kv_cache_usage: float  # share of what weights leave that sequences hold or have reserved
    expected_output_tokens: int


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """The memory model's estimate beside what MLX reports."""

    estimate_bytes: int
    active_bytes: int
    peak_bytes: int
    cache_bytes: int  # freed, and not returned to the system
    error_ratio: float  # 0.05: the estimate is 5% too high; -0.05: 5% too low

    @classmethod
    def of(cls, estimate: int, active: int, peak: int, cache: int) -> MemoryStats:
        return cls(estimate, active, peak, cache, round((estimate - active) / active, 4) if active else 0.0)


@dataclass(frozen=True, slots=True)
class ThroughputStats:
    """Of the last seconds."""

    requests_per_second: float = 0.0
    prompt_tokens_per_second: float = 0.0
    generation_tokens_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class DraftCostModel:
    """What `--speculation auto` has measured."""

    step_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by batch size, then draft length
    host_step_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # where the host knows the drafts
    acceptance_per_pos: tuple[float, ...] = ()
    best_draft_length: Mapping[str, int] = field(default_factory=dict)  # by batch size


@dataclass(frozen=True, slots=True)
class MethodStats:
    """Drafts of one proposer."""

    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0

    def plus(self, drafted: int, accepted: int) -> MethodStats:
        return MethodStats(self.num_drafts + 1, self.num_draft_tokens + drafted, self.num_accepted_tokens + accepted)


@dataclass(frozen=True, slots=True)
class SpecDecodeStats:
    enabled: bool = False
    reason: str = ""
    setting: str | int = "off"
    max_draft: int = 0
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_tokens_per_pos: tuple[int, ...] = ()
    num_steps_per_draft_length: tuple[int, ...] = ()  # by the longest draft in the step; the first is for none
    methods: Mapping[str, MethodStats] = field(default_factory=dict)  # those that have drafted
    unavailable: Mapping[str, str] = field(default_factory=dict)  # why other methods do not draft
    draft_model: str | None = None  # its name, if one drafts
    cost_model: DraftCostModel = DraftCostModel()


@dataclass(frozen=True, slots=True)
class DiskCacheStats:
    folder: str
    bytes: int
    limit_bytes: int
    entries: int
    writes: int
    write_errors: int  # the disk's errors; entries that were refused are not counted
    pending: int  # reads and writes that wait or are in progress


@dataclass(frozen=True, slots=True)
class VisionCacheStats:
    hits: int = 0
    misses: int = 0
    bytes: int = 0
    limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    tokens: int
    bytes: int
    hits: int
    tier: Literal["memory", "disk"]
    in_use: bool
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class PrefixCacheStats:
    enabled: bool = False
    reason: str = NOT_LOADED
    queries: int = 0
    query_tokens: int = 0
    hits: int = 0
    hit_tokens: int = 0
    stored: int = 0
    entries: int = 0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    restores: int = 0
    restore_seconds: float = 0.0
    evictions: Mapping[str, int] = field(default_factory=lambda: {"memory": 0, "disk": 0})  # by tier
    disk: DiskCacheStats | None = None
    vision: VisionCacheStats = VisionCacheStats()
    largest: tuple[CachedPrefix, ...] = ()


@dataclass(frozen=True, slots=True)
class SpecPrefillStats:
    enabled: bool = False
    reason: str | None = None  # why prompts are not prefilled sparsely
    setting: str = "off"
    threshold: int = 0
    keep_pct: float = 1.0
    max_tokens: int = 0
    chunk: int = 0
    window: int | None = None
    draft: str | None = None
    draft_bytes: int = 0
    draft_cache_bytes: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    scored_tokens: int = 0
    kept_tokens: int = 0
    restored_draft_tokens: int = 0
    draft_seconds: float = 0.0
    select_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestMemoryStats:
    """Host memory that requests take beside their sequences."""

    limit_bytes: int = 0  # of media and of work, each
    media_bytes: int = 0
    work_bytes: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Steps of one kind, and the engine's time in them."""

    steps: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Stats:
    """Everything. A service without a loaded model (`model` is None) has only its state."""

    state: ServiceState = "stopped"
    model: ModelInfo | None = None
    time: float = 0.0

    # Sequences now: each choice of a request is one.
    num_requests_running: int = 0
    num_requests_waiting: int = 0
    num_requests_waiting_by_reason: Mapping[str, int] = field(default_factory=dict)
    num_requests_decoding: int = 0
    num_requests_prefilling: int = 0
    num_uncached_tokens: int = 0  # prompt tokens still to compute, of waiting and prefilling sequences
    running_sequences: tuple[SequenceStats, ...] = ()
    waiting_sequences: tuple[SequenceStats, ...] = ()

    steps: int = 0
    decode_steps: int = 0
    step_times: Mapping[str, StepTimes] = field(default_factory=dict)  # by kind
    failed_steps: int = 0
    out_of_memory: int = 0
    prompt_tokens: int = 0  # that were computed
    generation_tokens: int = 0
    requests_finished: Mapping[str, int] = field(default_factory=dict)  # choices, by finish reason
    requests_refused: Mapping[str, int] = field(default_factory=dict)  # by cause
    preemptions: Mapping[str, int] = field(default_factory=dict)  # by cause

    throughput: ThroughputStats = ThroughputStats()
    scheduler: SchedulerStats = SchedulerStats()
    memory_budget: MemoryBudgetStats | None = None
    memory: MemoryStats | None = None  # None before the first sample
    request_memory: RequestMemoryStats = RequestMemoryStats()
    prefix_cache: PrefixCacheStats = PrefixCacheStats()
    spec_decode: SpecDecodeStats = SpecDecodeStats()
    specprefill: SpecPrefillStats = SpecPrefillStats()
