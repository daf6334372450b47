"""What Prometheus reads: vLLM's names after a `paceline_` prefix."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from paceline.types import Delta

# vLLM's buckets, with finer ones where a fast machine's tokens fall.
FIRST_TOKEN = "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560"
NEXT_TOKEN = "0.0025 0.005 0.0075 0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80"
QUEUE = "0.001 0.005 0.01 0.05 0.1 0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960"
WHOLE = "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680"
LABELS = ("model_name",)
# Shown as 0 before there are any: a rate needs a first value.
REFUSALS = ("queue_full", "queue_timeout", "deadline", "slow_reader", "never_fits", "draining", "bodies")
REASONS = ("rows", "memory", "order", "policy", "suspect", "fault")


class Metrics:
    """One registry an app, so that two apps in one process do not share counters."""

    def __init__(self, model_name: str, stats: Callable[[], Mapping[str, Any]]) -> None:
        self._ask = stats
        self._latest: Mapping[str, Any] = {"running": 0, "waiting": 0}
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        for state in ("running", "waiting"):
            gauge = Gauge(f"paceline_num_requests_{state}", f"Requests {state} now.", LABELS, registry=self.registry)
            gauge.labels(model_name).set_function(partial(_number, self._stats, state))
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens of started requests.", model_name)
        self.generation_tokens = self._counter("generation_tokens", "Tokens generated.", model_name)
        self.first_token = self._histogram(
            "time_to_first_token_seconds", "From arrival to the first token.", FIRST_TOKEN, model_name
        )
        self.next_token = self._histogram(
            "inter_token_latency_seconds", "Between two deliveries of one choice.", NEXT_TOKEN, model_name
        )
        self.whole = self._histogram("e2e_request_latency_seconds", "From arrival to the end.", WHOLE, model_name)
        self.queue_time = self._histogram(
            "request_queue_time_seconds", "From arrival until the request ran.", QUEUE, model_name
        )
        success = Counter(
            "paceline_request_success",
            "Choices by how they ended.",
            (*LABELS, "finished_reason"),
            registry=self.registry,
        )
        self.finished = {reason: success.labels(model_name, reason) for reason in ("stop", "length", "abort", "error")}
        self.refused = {cause: 0 for cause in REFUSALS}  # requests; read at every scrape, and by /v1/status
        self.registry.register(RefusalCollector(model_name, self.refused))
        self.registry.register(SchedulerCollector(model_name, self._stats))
        self.registry.register(MemoryCollector(model_name, self._stats))
        self.registry.register(SpeculationCollector(model_name, self._stats))
        self.registry.register(PrefixCacheCollector(model_name, self._stats))
        self.registry.register(SparsePrefillCollector(model_name, self._stats))

    def exposition(self) -> bytes:
        self._latest = self._ask()
        return generate_latest(self.registry)

    def watch(self, choices: int) -> Watch:
        return Watch(self, choices)

    def _stats(self) -> Mapping[str, Any]:
        """As of this scrape: they list every row, so they are asked for once."""
        return self._latest

    def refuse(self, cause: str) -> None:
        """A request was sent away."""
        self.refused[cause] = self.refused.get(cause, 0) + 1

    def _counter(self, name: str, text: str, model_name: str) -> Counter:
        return Counter(f"paceline_{name}", text, LABELS, registry=self.registry).labels(model_name)

    def _histogram(self, name: str, text: str, buckets: str, model_name: str) -> Histogram:
        bounds = [float(bound) for bound in buckets.split()]
        metric = Histogram(f"paceline_{name}", text, LABELS, buckets=bounds, registry=self.registry)
        return metric.labels(model_name)


def _number(stats: Callable[[], Mapping[str, Any]], name: str) -> float:
    return float(stats()[name])


class RefusalCollector(Collector):
    def __init__(self, model_name: str, refused: Mapping[str, int]) -> None:
        self.model_name = model_name
        self.refused = refused

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "paceline_requests_refused", "Requests sent away, by cause.", labels=(*LABELS, "cause")
        )
        for cause, count in self.refused.items():
            family.add_metric([self.model_name, cause], count)
        yield family


class SchedulerCollector(Collector):
    """Who waits for what, who was set back, what went wrong; nothing while the service has no scheduler."""

    def __init__(self, model_name: str, stats: Callable[[], Mapping[str, Any]]) -> None:
        self.model_name = model_name
        self.stats = stats

    def collect(self) -> Iterable[Metric]:
        stats = self.stats()
        if "policy" not in stats:
            return
        reasons = GaugeMetricFamily(
            "paceline_num_requests_waiting_by_reason", "Requests waiting now, by reason.", labels=(*LABELS, "reason")
        )
        for reason, count in {**dict.fromkeys(REASONS, 0), **stats["waiting_by_reason"]}.items():
            reasons.add_metric([self.model_name, reason], count)
        yield reasons
        preemptions = CounterMetricFamily(
            "paceline_num_preemptions", "Running rows that were set back, by cause.", labels=(*LABELS, "cause")
        )
        for cause, count in stats["preemptions"].items():
            preemptions.add_metric([self.model_name, cause], count)
        yield preemptions
        for name, text in (
            ("failed_steps", "Steps of the engine that failed."),
            ("out_of_memory", "Times that MLX had too little memory."),
        ):
            total = CounterMetricFamily(f"paceline_{name}", text, labels=LABELS)
            total.add_metric([self.model_name], stats[name])
            yield total


class MemoryCollector(Collector):
    """The budget by part, and our estimate beside what MLX reports; nothing while the service has no budget."""

    def __init__(self, model_name: str, stats: Callable[[], Mapping[str, Any]]) -> None:
        self.model_name = model_name
        self.stats = stats

    def collect(self) -> Iterable[Metric]:
        stats = self.stats()
        budget, memory = stats.get("budget"), stats.get("memory")
        if budget is not None:
            parts = GaugeMetricFamily(
                "paceline_memory_budget_bytes", "Memory that is held or promised, by part.", labels=(*LABELS, "part")
            )
            for part, count in budget["parts"].items():
                parts.add_metric([self.model_name, part.replace(" ", "_")], count)
            yield parts
            yield self._gauge("memory_limit_bytes", "All that may be used.", budget["limit_bytes"])
            yield self._gauge("memory_headroom_bytes", "Of that, what stays free.", budget["headroom_bytes"])
            yield self._gauge("memory_free_bytes", "What nobody holds and nobody was promised.", budget["free_bytes"])
        if memory is not None:
            mlx = GaugeMetricFamily(
                "paceline_mlx_memory_bytes", "Memory as MLX reports it, by kind.", labels=(*LABELS, "kind")
            )
            for kind in ("active", "peak", "cache"):
                mlx.add_metric([self.model_name, kind], memory[f"{kind}_bytes"])
            yield mlx
            yield self._gauge("memory_estimate_bytes", "What we think is held.", memory["estimate_bytes"])
            yield self._gauge(
                "memory_estimate_error_ratio", "How far that is off; above 0: too much.", memory["error_ratio"]
            )

    def _gauge(self, name: str, text: str, value: float) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"paceline_{name}", text, labels=LABELS)
        family.add_metric([self.model_name], value)
        return family


class SpeculationCollector(Collector):
    """The engine's own counts of drafting, read at every scrape; nothing while the service has none."""

    def __init__(self, model_name: str, stats: Callable[[], Mapping[str, Any]]) -> None:
        self.model_name = model_name
        self.stats = stats

    def collect(self) -> Iterable[CounterMetricFamily]:
        counts = self.stats().get("speculation")
        if counts is None:
            return
        yield self._total("num_drafts", "Drafts verified: one a row and step.", counts["drafts"])
        yield self._total("num_draft_tokens", "Tokens drafted.", counts["draft_tokens"])
        yield self._total("num_accepted_tokens", "Drafted tokens accepted.", counts["accepted_tokens"])
        yield self._by_place(
            "num_accepted_tokens_per_pos",
            "Drafted tokens accepted, by their place in the draft.",
            "position",
            counts["accepted_per_position"],
        )
        yield self._by_place("steps", "Decode steps, by their deepest draft.", "depth", counts["depths"])

    def _total(self, name: str, text: str, count: int) -> CounterMetricFamily:
        family = CounterMetricFamily(f"paceline_spec_decode_{name}", text, labels=LABELS)
        family.add_metric([self.model_name], count)
        return family

    def _by_place(self, name: str, text: str, label: str, counts: Sequence[int]) -> CounterMetricFamily:
        family = CounterMetricFamily(f"paceline_spec_decode_{name}", text, labels=(*LABELS, label))
        for place, count in enumerate(counts):
            family.add_metric([self.model_name, str(place)], count)
        return family


class PrefixCacheCollector(Collector):
    """The caches' own counts, read at every scrape; nothing while the service has none."""

    def __init__(self, model_name: str, stats: Callable[[], Mapping[str, Any]]) -> None:
        self.model_name = model_name
        self.stats = stats

    def collect(self) -> Iterable[Metric]:
        counts = self.stats().get("prefix_cache")
        if counts is None:
            return
        yield self._total("prefix_cache_queries", "Prompt tokens looked up.", counts["query_tokens"])
        yield self._total("prefix_cache_hits", "Prompt tokens found.", counts["hit_tokens"])
        yield self._total("prefix_cache_restores", "Prefixes restored, from memory or disk.", counts["restores"])
        yield self._total("prefix_cache_restore_seconds", "The engine's time for that.", counts["restore_seconds"])
        evictions = CounterMetricFamily(
            "paceline_prefix_cache_evictions", "Prefixes dropped for want of room.", labels=(*LABELS, "tier")
        )
        for tier, count in counts["evictions"].items():
            evictions.add_metric([self.model_name, tier], count)
        yield evictions
        disk = counts["disk"] or {}
        for name, text, in_memory, on_disk in (
            ("bytes", "Size of what is cached.", "memory_bytes", "bytes"),
            ("limit_bytes", "Largest size of what is cached.", "memory_limit_bytes", "limit_bytes"),
            ("entries", "Prefixes cached.", "entries", "entries"),
        ):
            gauge = GaugeMetricFamily(f"paceline_prefix_cache_{name}", text, labels=(*LABELS, "tier"))
            gauge.add_metric([self.model_name, "memory"], counts[in_memory])
            if disk:
                gauge.add_metric([self.model_name, "disk"], disk[on_disk])
            yield gauge
        vision = counts["vision"]
        yield self._total("vision_cache_hits", "Pictures whose features were found.", vision["hits"])
        yield self._total("vision_cache_misses", "Pictures that had to be encoded.", vision["misses"])
        size = GaugeMetricFamily("paceline_vision_cache_bytes", "Size of cached features.", labels=LABELS)
        size.add_metric([self.model_name], vision["bytes"])
        yield size

    def _total(self, name: str, text: str, count: float) -> CounterMetricFamily:
        family = CounterMetricFamily(f"paceline_{name}", text, labels=LABELS)
        family.add_metric([self.model_name], count)
        return family


class SparsePrefillCollector(Collector):
    """The engine's own counts of sparse prefill, read at every scrape; nothing while no draft is loaded."""

    def __init__(self, model_name: str, stats: Callable[[], Mapping[str, Any]]) -> None:
        self.model_name = model_name
        self.stats = stats

    def collect(self) -> Iterable[CounterMetricFamily]:
        counts = self.stats().get("specprefill", {})
        if "outcomes" not in counts:
            return
        prompts = CounterMetricFamily(
            "paceline_specprefill_prompts",
            "Prompts that were wanted sparsely, by what became of it.",
            labels=(*LABELS, "outcome"),
        )
        for outcome, count in counts["outcomes"].items():
            prompts.add_metric([self.model_name, outcome], count)
        yield prompts
        yield self._total("scored_tokens", "Prompt tokens that the draft scored.", counts["scored_tokens"])
        yield self._total("kept_tokens", "Of those, tokens that the model read.", counts["kept_tokens"])
        yield self._total(
            "restored_draft_tokens", "Prompt tokens that the draft had cached.", counts["restored_draft_tokens"]
        )
        yield self._total("scoring_seconds", "Time in the draft.", counts["draft_seconds"])

    def _total(self, name: str, text: str, count: float) -> CounterMetricFamily:
        family = CounterMetricFamily(f"paceline_specprefill_{name}", text, labels=LABELS)
        family.add_metric([self.model_name], count)
        return family


class Watch:
    """One engine request, from its arrival to its end."""

    def __init__(self, metrics: Metrics, choices: int) -> None:
        self.metrics = metrics
        self.started = time.perf_counter()
        self.last: dict[int, float] = {}  # per choice: when it last brought a token
        self.generated: dict[int, int] = {}  # per choice: tokens it has brought
        self.unfinished = choices
        self.prompt_seen = False

    def see(self, delta: Delta) -> None:
        now = time.perf_counter()
        metrics = self.metrics
        if delta.prompt is not None and not self.prompt_seen:
            self.prompt_seen = True
            metrics.prompt_tokens.inc(len(delta.prompt.token_ids))
            metrics.queue_time.observe(delta.prompt.queued)
        if delta.token_ids:
            self.generated[delta.index] = self.generated.get(delta.index, 0) + len(delta.token_ids)
            metrics.generation_tokens.inc(len(delta.token_ids))
            if delta.index in self.last:
                metrics.next_token.observe(now - self.last[delta.index])
            elif not self.last:
                metrics.first_token.observe(now - self.started)
            self.last[delta.index] = now
        if delta.usage is not None:  # tokens that a stop string swallowed were in no delta
            swallowed = delta.usage.completion_tokens - self.generated.get(delta.index, 0)
            metrics.generation_tokens.inc(max(swallowed, 0))
        if delta.finish_reason is not None:
            self.unfinished -= 1
            metrics.finished[delta.finish_reason].inc()

    def end(self, *, refused: bool) -> None:
        """A refused request never ran; of one that did, what has not finished by now was given up."""
        if refused:
            return
        self.metrics.whole.observe(time.perf_counter() - self.started)
        self.metrics.finished["abort"].inc(self.unfinished)
