"""What Prometheus reads: vLLM's names after a `paceline_` prefix."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from paceline.server.history import History
from paceline.server.http.request_log import Figures
from paceline.setting_values import MetricsAlias
from paceline.stats import PrefixCacheStats, SpecDecodeStats, SpecPrefillStats, Stats
from paceline.types import Delta, FinishReason

# Ours, without the suffix of counters, to theirs. vLLM renamed its gauge of cache use; both names are still read.
VLLM: Mapping[str, tuple[str, ...]] = {
    "paceline_num_requests_running": ("vllm:num_requests_running",),
    "paceline_num_requests_waiting": ("vllm:num_requests_waiting",),
    "paceline_kv_cache_usage_perc": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "paceline_prefix_cache_queries": ("vllm:prefix_cache_queries",),
    "paceline_prefix_cache_hits": ("vllm:prefix_cache_hits",),
    "paceline_prompt_tokens": ("vllm:prompt_tokens",),
    "paceline_generation_tokens": ("vllm:generation_tokens",),
}


class Aliased(Collector):
    """What another collector has, and behind each metric with an alias the same under that name."""

    def __init__(self, metrics: Collector, aliases: Mapping[str, tuple[str, ...]]) -> None:
        self.metrics = metrics
        self.aliases = aliases

    def collect(self) -> Iterable[Metric]:
        for family in self.metrics.collect():
            yield family
            for name in self.aliases.get(family.name, ()):
                yield _renamed(family, name)


def _renamed(family: Metric, name: str) -> Metric:
    renamed = Metric(name, family.documentation, family.type)
    for sample in family.samples:
        renamed.add_sample(name + sample.name.removeprefix(family.name), sample.labels, sample.value)
    return renamed


# vLLM's buckets, with finer ones where a fast machine's tokens fall.
FIRST_TOKEN = "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560"
INTER_TOKEN = "0.0025 0.005 0.0075 0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80"
QUEUE = "0.001 0.005 0.01 0.05 0.1 0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960"
E2E = "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680"
LABELS = ("model_name",)
# Shown as 0 before there are any: a rate needs a first value.
REFUSALS = ("queue_full", "queue_timeout", "deadline", "slow_reader", "never_fits", "draining", "bodies")
WAITING_REASONS = ("max_num_seqs", "memory", "order", "policy", "fault_isolation", "fault")


class Metrics:
    """One registry per app, so that two apps in one process do not share counters."""

    def __init__(self, model_name: str, stats: Callable[[], Stats], alias: MetricsAlias = "none") -> None:
        self.registry = CollectorRegistry()
        self._shown = Aliased(self.registry, VLLM) if alias == "vllm" else self.registry
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._model_name = model_name
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens of requests that have left the queue.")
        self.tokens = TokenCollector(model_name)
        self.registry.register(self.tokens)
        self.time_to_first_token = self._histogram(
            "time_to_first_token_seconds", "Time from arrival to the first token.", FIRST_TOKEN
        )
        self.e2e_latency = self._histogram(
            "e2e_request_latency_seconds", "Time from arrival to the end of the request.", E2E
        )
        self.queue_time = self._histogram(
            "request_queue_time_seconds", "Time from arrival until the request ran.", QUEUE
        )
        finished = Counter(
            "paceline_request_success",
            "Choices by finish reason.",
            (*LABELS, "finished_reason"),
            registry=self.registry,
        )
        self.finished = {reason: finished.labels(model_name, reason) for reason in ("stop", "length", "abort", "error")}
        self.refused = Counts(dict.fromkeys(REFUSALS, 0))  # requests by cause; /v1/status shows them too
        self.history = History()
        self.activity = asyncio.Event()  # set by every request: wakes who waits for one
        self.registry.register(StatsCollector(model_name, stats, self.refused))

    def exposition(self) -> bytes:
        return generate_latest(self._shown)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"paceline_{name}", text, LABELS, registry=self.registry).labels(self._model_name)

    def _histogram(self, name: str, text: str, buckets: str) -> Histogram:
        bounds = [float(bound) for bound in buckets.split()]
        metric = Histogram(f"paceline_{name}", text, LABELS, buckets=bounds, registry=self.registry)
        return metric.labels(self._model_name)


class TokenCollector(Collector):
    """What is counted at every token of every stream, with the interpreter's lock that the engine also needs: a counter
    and a histogram of prometheus_client, which lock by themselves, take five times as long."""

    def __init__(self, model_name: str) -> None:
        self.model_name = model_name
        self.generated = 0
        self._bounds = [float(bound) for bound in INTER_TOKEN.split()]
        self._counts = [0] * (len(self._bounds) + 1)
        self._seconds = 0.0

    def came_after(self, seconds: float) -> None:
        """Tokens came so long after those before them."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._seconds += seconds

    def collect(self) -> Iterable[Metric]:
        tokens = CounterMetricFamily("paceline_generation_tokens", "Tokens generated.", labels=LABELS)
        tokens.add_metric([self.model_name], self.generated)
        yield tokens
        latency = HistogramMetricFamily(
            "paceline_inter_token_latency_seconds", "Time between two deliveries of one choice.", labels=LABELS
        )
        buckets = zip([*map(str, self._bounds), "+Inf"], accumulate(self._counts), strict=True)
        latency.add_metric([self.model_name], list(buckets), self._seconds)
        yield latency


class StatsCollector(Collector):
    """The service's statistics, read once per scrape. Without a loaded model, only the number of requests."""

    def __init__(self, model_name: str, stats: Callable[[], Stats], refused: Mapping[str, int]) -> None:
        self.model_name = model_name
        self.stats = stats
        self.refused = refused

    def collect(self) -> Iterable[Metric]:
        stats = self.stats()
        yield self._gauge("num_requests_running", "Sequences running now.", stats.num_requests_running)
        yield self._gauge("num_requests_waiting", "Sequences waiting now.", stats.num_requests_waiting)
        yield self._counters(
            "requests_refused", "Requests refused, by cause. They are in no other count.", "cause", self.refused
        )
        if stats.model is None:
            return
        yield from self._scheduler(stats)
        yield from self._memory(stats)
        yield from self._prefix_cache(stats.prefix_cache)
        yield from self._spec_decode(stats.spec_decode)
        if stats.specprefill.enabled:
            yield from self._specprefill(stats.specprefill)

    def _scheduler(self, stats: Stats) -> Iterator[Metric]:
        reasons = {**dict.fromkeys(WAITING_REASONS, 0), **stats.num_requests_waiting_by_reason}
        yield self._gauges("num_requests_waiting_by_reason", "Sequences waiting now, by reason.", "reason", reasons)
        yield self._gauge(
            "num_uncached_tokens",
            "Prompt tokens still to compute, of waiting and prefilling sequences.",
            stats.num_uncached_tokens,
        )
        yield self._counters(
            "num_preemptions", "Running sequences that were preempted, by cause.", "cause", stats.preemptions
        )
        steps = {kind: times.steps for kind, times in stats.step_times.items()}
        seconds = {kind: times.seconds for kind, times in stats.step_times.items()}
        yield self._counters(
            "steps", "Steps of the engine that followed another without a pause, by kind.", "kind", steps
        )
        yield self._counters("step_seconds", "The engine's time in those steps, by kind.", "kind", seconds)
        yield self._counter("failed_steps", "Steps of the engine that failed.", stats.failed_steps)
        yield self._counter("out_of_memory", "Out-of-memory errors of MLX.", stats.out_of_memory)

    def _memory(self, stats: Stats) -> Iterator[Metric]:
        budget, memory = stats.memory_budget, stats.memory
        if budget is not None:
            parts = {part.replace(" ", "_"): size for part, size in budget.parts.items()}
            yield self._gauges("memory_budget_bytes", "Memory held or reserved, by part.", "part", parts)
            yield self._gauge("memory_limit_bytes", "Memory that may be used.", budget.limit_bytes)
            yield self._gauge("memory_headroom_bytes", "The part of the limit that stays free.", budget.headroom_bytes)
            yield self._gauge("memory_free_bytes", "Memory that is neither held nor reserved.", budget.free_bytes)
            yield self._gauge(
                "kv_cache_usage_perc", "Share of the memory for sequences that is taken; 1: all.", budget.kv_cache_usage
            )
        if memory is not None:
            kinds = {"active": memory.active_bytes, "peak": memory.peak_bytes, "cache": memory.cache_bytes}
            yield self._gauges("mlx_memory_bytes", "Memory as MLX reports it, by kind.", "kind", kinds)
            yield self._gauge(
                "memory_estimate_bytes", "The memory model's estimate of what is held.", memory.estimate_bytes
            )
            yield self._gauge(
                "memory_estimate_error_ratio", "Relative error of the estimate; above 0: too high.", memory.error_ratio
            )

    def _spec_decode(self, stats: SpecDecodeStats) -> Iterator[Metric]:
        yield self._counter("spec_decode_num_drafts", "Drafts verified: one per sequence and step.", stats.num_drafts)
        yield self._counter("spec_decode_num_draft_tokens", "Tokens drafted.", stats.num_draft_tokens)
        yield self._counter("spec_decode_num_accepted_tokens", "Draft tokens accepted.", stats.num_accepted_tokens)
        yield self._counters(
            "spec_decode_num_accepted_tokens_per_pos",
            "Draft tokens accepted, by position in the draft.",
            "position",
            dict(enumerate(stats.num_accepted_tokens_per_pos)),
        )
        yield self._counters(
            "spec_decode_steps",
            "Decode steps, by their longest draft.",
            "draft_length",
            dict(enumerate(stats.num_steps_per_draft_length)),
        )
        drafted = {method: counts.num_draft_tokens for method, counts in stats.methods.items()}
        accepted = {method: counts.num_accepted_tokens for method, counts in stats.methods.items()}
        if drafted:
            yield self._counters(
                "spec_decode_num_draft_tokens_per_method", "Tokens drafted, by method.", "method", drafted
            )
            yield self._counters(
                "spec_decode_num_accepted_tokens_per_method", "Draft tokens accepted, by method.", "method", accepted
            )

    def _prefix_cache(self, stats: PrefixCacheStats) -> Iterator[Metric]:
        yield self._counter("prefix_cache_queries", "Prompt tokens looked up.", stats.query_tokens)
        yield self._counter("prefix_cache_hits", "Prompt tokens found.", stats.hit_tokens)
        yield self._counter("prefix_cache_restores", "Prefixes restored, from memory or disk.", stats.restores)
        yield self._counter(
            "prefix_cache_restore_seconds", "The engine's time for restoring prefixes.", stats.restore_seconds
        )
        yield self._counters("prefix_cache_evictions", "Prefixes evicted.", "tier", stats.evictions)
        sizes = {"memory": stats.memory_bytes}
        limits = {"memory": stats.memory_limit_bytes}
        entries = {"memory": stats.entries}
        if stats.disk is not None:
            sizes["disk"], limits["disk"], entries["disk"] = (
                stats.disk.bytes,
                stats.disk.limit_bytes,
                stats.disk.entries,
            )
        yield self._gauges("prefix_cache_bytes", "Size of the cached prefixes.", "tier", sizes)
        yield self._gauges("prefix_cache_limit_bytes", "Limit of that size.", "tier", limits)
        yield self._gauges("prefix_cache_entries", "Prefixes cached.", "tier", entries)
        yield self._counter("vision_cache_hits", "Images whose features were cached.", stats.vision.hits)
        yield self._counter("vision_cache_misses", "Images that were encoded.", stats.vision.misses)
        yield self._gauge("vision_cache_bytes", "Size of the cached image features.", stats.vision.bytes)

    def _specprefill(self, stats: SpecPrefillStats) -> Iterator[Metric]:
        yield self._counters(
            "specprefill_prompts", "Prompts for which sparse prefill was asked, by outcome.", "outcome", stats.outcomes
        )
        yield self._counter("specprefill_scored_tokens", "Prompt tokens that were scored.", stats.scored_tokens)
        yield self._counter("specprefill_kept_tokens", "Scored tokens that were prefilled.", stats.kept_tokens)
        yield self._counter(
            "specprefill_restored_draft_tokens",
            "Prompt tokens that the draft model had cached.",
            stats.restored_draft_tokens,
        )
        yield self._counter("specprefill_scoring_seconds", "The engine's time in the draft model.", stats.draft_seconds)

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"paceline_{name}", text, labels=LABELS)
        family.add_metric([self.model_name], value)
        return family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"paceline_{name}", text, labels=LABELS)
        family.add_metric([self.model_name], value)
        return family

    def _counters(self, name: str, text: str, label: str, values: Mapping[Any, float]) -> Metric:
        family = CounterMetricFamily(f"paceline_{name}", text, labels=(*LABELS, label))
        for key, value in values.items():
            family.add_metric([self.model_name, str(key)], value)
        return family

    def _gauges(self, name: str, text: str, label: str, values: Mapping[Any, float]) -> Metric:
        family = GaugeMetricFamily(f"paceline_{name}", text, labels=(*LABELS, label))
        for key, value in values.items():
            family.add_metric([self.model_name, str(key)], value)
        return family


class RequestTimer:
    """Observes one engine request, from its arrival to its end."""

    def __init__(self, metrics: Metrics, choices: int, figures: Figures | None = None) -> None:
        self.metrics = metrics
        self.figures = figures or Figures()  # of the HTTP request that it is a part of
        self.arrived = time.perf_counter()
        self.last_token: dict[int, float] = {}  # per choice: when its last token came
        self.generated: Counts[int] = Counts()  # per choice: tokens delivered
        self.choices = choices
        self.finished: set[int] = set()
        self.prompt_seen = False
        metrics.activity.set()

    def observe(self, delta: Delta) -> None:
        now = time.perf_counter()
        metrics, slot = self.metrics, self.metrics.history.now()
        self.figures.add(delta)
        if delta.prompt is not None and not self.prompt_seen:
            self.prompt_seen = True
            metrics.prompt_tokens.inc(len(delta.prompt.token_ids))
            metrics.queue_time.observe(delta.prompt.queued)
            slot.prompt_tokens += len(delta.prompt.token_ids)
            slot.cached_tokens += delta.prompt.cached_tokens
        if delta.token_ids:
            self.generated[delta.index] += len(delta.token_ids)
            metrics.tokens.generated += len(delta.token_ids)
            slot.generation_tokens += len(delta.token_ids)
            if delta.index in self.last_token:
                metrics.tokens.came_after(now - self.last_token[delta.index])
                slot.inter_token.add(now - self.last_token[delta.index])
            elif not self.last_token:
                metrics.time_to_first_token.observe(now - self.arrived)
                slot.first_token.add(now - self.arrived)
            self.last_token[delta.index] = now
        if delta.usage is not None:  # tokens of a stop string were in no delta
            undelivered = delta.usage.completion_tokens - self.generated[delta.index]
            metrics.tokens.generated += max(undelivered, 0)
            slot.accepted_tokens += delta.usage.accepted_tokens
            slot.drafted_tokens += delta.usage.accepted_tokens + delta.usage.rejected_tokens
        if delta.finish_reason is not None:
            self._finish(delta.index, delta.finish_reason)

    def _finish(self, choice: int, reason: FinishReason) -> None:
        self.finished.add(choice)
        self.metrics.finished[reason].inc()
        self.metrics.history.now().finished += 1

    def stop(self, choice: int) -> None:
        """The API ended this choice, whose sequence still runs."""
        if choice not in self.finished:
            self._finish(choice, "stop")
            self.figures.finish_reasons.append("stop")

    def end(self, *, refused: bool) -> None:
        """A refused request never ran. Choices of another request that have not finished by now were aborted."""
        if refused:
            return
        self.metrics.e2e_latency.observe(time.perf_counter() - self.arrived)
        self.metrics.finished["abort"].inc(self.choices - len(self.finished))
