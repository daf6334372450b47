"""Tables of /v1/status and of /metrics. Types come from `paceline.stats`, metrics from the registry itself."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from paceline import stats
from paceline.cache.budget import REQUEST_PARTS
from paceline.server.metrics import VLLM, Metrics
from paceline.types import LONGEST_DRAFT, SPECULATION_METHODS

# By class, then by field. A field of another class of statistics needs no entry.
STATUS: Mapping[str, Mapping[str, str]] = {
    "Stats": {
        "state": "state of the service",
        "model": "[model](#model); null before it is loaded",
        "time": "when the statistics were taken, in Unix seconds",
        "num_requests_running": "sequences that run now",
        "num_requests_waiting": "sequences in the queue",
        "num_requests_waiting_by_reason": "sequences in the queue, by [reason](#reasons-to-wait)",
        "num_requests_decoding": "running sequences that decode",
        "num_requests_prefilling": "running sequences that prefill",
        "num_uncached_tokens": "prompt tokens still to compute",
        "running_sequences": "[sequences](#sequences)",
        "waiting_sequences": "the queue, in the order of admission",
        "steps": "steps of the engine",
        "decode_steps": "steps in which sequences decoded",
        "step_times": "[steps by kind](#steps-by-kind)",
        "failed_steps": "steps that failed",
        "out_of_memory": "out-of-memory errors of MLX",
        "prompt_tokens": "prompt tokens that prefill computed",
        "generation_tokens": "sum of all `completion_tokens`",
        "requests_finished": "choices and texts of embeddings, by finish reason",
        "requests_refused": "requests, by cause",
        "preemptions": "preempted sequences, by cause: `memory`, `policy`, `fault`",
        "throughput": "of the last seconds",
        "scheduler": "[scheduler](#scheduler)",
        "memory_budget": "[memory](#memory-and-throughput)",
        "memory": "null before the first sample",
        "request_memory": "host memory of requests",
        "prefix_cache": "[prefix cache](#prefix-cache)",
        "spec_decode": "[speculative decoding](#speculative-decoding)",
        "specprefill": "[sparse prefill](#sparse-prefill)",
    },
    "StepTimes": {
        "steps": "steps of this kind",
        "seconds": "the engine's time in them",
    },
    "ModelInfo": {
        "name": "the first served name",
        "family": "architecture, as in `config.json`",
        "device": "where it runs",
        "kv_layout": "layout of keys and values in memory",
        "shape_buckets": "whether shapes are padded to a few sizes",
        "prefill_chunk": "most prompt tokens per step",
        "compiled_step": "whether decode steps are traced",
        "context_length": "longest prompt plus answer, in tokens",
        "max_num_seqs": "most sequences that run together",
        "weights_bytes": "size of the weights",
        "quantization": 'null, or for example "4-bit" or "4-bit, dequantized to float32"',
        "images": "whether it takes images",
        "videos": "whether it takes videos",
        "audio": "whether it takes audio",
        "kv_bits": "null, or the bits of [quantized keys and values](scheduling.md#quantized-keys-and-values)",
        "embedding_size": "null if the model gives no embeddings",
        "mtp_head": "whether it has an MTP head to draft with",
        "notes": "what an operator should know",
        "sampling_defaults": "what applies to fields that a request leaves out",
        "sampling_defaults_from": "which of the defaults were set, and where",
    },
    "SequenceStats": {
        "id": "id of the request; null for other clients, except administrators",
        "choice": "index of the choice",
        "state": "`waiting_for_prefix`: another sequence or the disk will provide its prefix; `scoring`: a draft model"
        " scores its prompt",
        "prompt_tokens": "tokens of the prompt",
        "cached_tokens": "prompt tokens that were restored from the prefix cache",
        "generated_tokens": "tokens generated so far",
        "age_seconds": "time since arrival",
        "tenant": "account whose share it counts against, with the policy `fair`",
        "priority": "as in the request",
        "preemptions": "how often it was preempted",
        "position": "place in the queue, from 1; null if it runs",
        "reason": "why it waits; null if it runs",
        "number": "counts arrivals since the start",
        "prefilled_tokens": "prompt tokens that were computed or restored",
        "accepted_tokens": "generated tokens that were drafted",
        "drafted_tokens": "tokens drafted so far",
    },
    "SchedulerStats": {
        "policy": "`scheduler_policy`",
        "starvation_seconds": "`starvation_seconds`",
        "max_queue": "`max_queue`",
        "queue_timeout_seconds": "`queue_timeout`; null: none",
        "first_token_timeout_seconds": "`first_token_timeout`; null: none",
        "request_timeout_seconds": "`request_timeout`; null: none",
        "prefill_chunk_tokens": "prefill budget of a step beside running streams, now",
        "max_prefill_chunk_tokens": "largest prefill budget of a step",
        "stall_target_ms": "`stall_target_ms`; null: none",
    },
    "MemoryBudgetStats": {
        "limit_bytes": "most memory that may be used",
        "headroom_bytes": "the part of it that stays free",
        "free_bytes": "neither held nor reserved",
        "parts": "bytes held or reserved, by part",
        "kv_cache_usage": "share of what the weights leave that sequences hold or have reserved",
        "expected_output_tokens": "expected length of an answer, from the latest ones",
    },
    "MemoryStats": {
        "estimate_bytes": "the memory model's estimate of what is held",
        "active_bytes": "in use, as MLX reports it",
        "peak_bytes": "highest use, as MLX reports it",
        "cache_bytes": "freed and kept for reuse, as MLX reports it",
        "error_ratio": "relative error of the estimate; above 0: too high",
    },
    "RequestMemoryStats": {
        "limit_bytes": "limit of `media_bytes`, and of `work_bytes`",
        "media_bytes": "images and videos of requests",
        "work_bytes": "other work on requests before they are sequences",
        "waiting": "requests that wait for this memory",
    },
    "ThroughputStats": {
        "requests_per_second": "requests finished",
        "prompt_tokens_per_second": "prompt tokens computed",
        "generation_tokens_per_second": "tokens generated",
    },
    "SpecDecodeStats": {
        "enabled": "whether requests without a `speculation` field draft",
        "reason": "why, or why not",
        "setting": "`speculation`, as configured",
        "max_draft": "`max_draft`, as configured",
        "num_drafts": "drafts verified: one per sequence and step",
        "num_draft_tokens": "tokens drafted",
        "num_accepted_tokens": "draft tokens accepted",
        "num_accepted_tokens_per_pos": "accepted tokens by position in the draft",
        "num_steps_per_draft_length": "decode steps by their longest draft; the first number is for none",
        "methods": "the methods that have drafted, each with its counts, below",
        "unavailable": "why other methods do not draft",
        "draft_model": "the draft model, if one drafts",
        "cost_model": "what `auto` has measured, below",
    },
    "MethodStats": {
        "num_drafts": "drafts of this method",
        "num_draft_tokens": "tokens it drafted",
        "num_accepted_tokens": "of these, accepted",
    },
    "DraftCostModel": {
        "step_ms": "time of a step, by batch size, then by draft length",
        "host_step_ms": "the same where drafts came from lookup or a grammar",
        "acceptance_per_pos": "acceptance rate by position in the draft",
        "best_draft_length": "fastest draft length, by batch size",
    },
    "PrefixCacheStats": {
        "enabled": "whether prefixes are cached",
        "reason": "why, or why not",
        "queries": "prompts looked up",
        "query_tokens": "their tokens",
        "hits": "prompts of which a prefix was found",
        "hit_tokens": "tokens found",
        "stored": "prefixes stored since the start; one may become several `entries`, where prompts part",
        "entries": "prefixes in memory now",
        "memory_bytes": "their size",
        "memory_limit_bytes": "limit of that size",
        "restores": "prefixes restored, from memory or disk",
        "restore_seconds": "the engine's time for that",
        "evictions": "prefixes evicted: `memory`, `disk` (0 without `cache_dir`)",
        "disk": "null without a folder; below",
        "vision": "image features, below",
        "largest": "up to ten prefixes, below",
    },
    "DiskCacheStats": {
        "folder": "the model's own folder in `cache_dir`",
        "bytes": "size of the files",
        "limit_bytes": "limit of that size",
        "entries": "prefixes on disk",
        "writes": "prefixes written",
        "write_errors": "errors of the disk",
        "pending": "reads and writes that wait or are in progress",
    },
    "VisionCacheStats": {
        "hits": "images whose features were cached",
        "misses": "images that were encoded",
        "bytes": "size of the cached features",
        "limit_bytes": "limit of that size",
    },
    "CachedPrefix": {
        "tokens": "length of the prefix",
        "bytes": "its size",
        "hits": "how often it was used",
        "tier": "where it is",
        "in_use": "whether a sequence uses it now",
        "idle_seconds": "time since it was last used",
    },
    "SpecPrefillStats": {
        "enabled": "whether it is available",
        "reason": "why it is not available",
        "setting": "`specprefill`, as configured",
        "threshold": "`specprefill_threshold`",
        "keep_pct": "`specprefill_keep_pct`",
        "max_tokens": "`specprefill_max_tokens`",
        "chunk": "prompt tokens that the draft model reads per step",
        "window": "attention window of the draft model; null: unlimited",
        "draft": "the draft model",
        "draft_bytes": "size of its weights",
        "draft_cache_bytes": "size of its prefix cache",
        "outcomes": "prompts, by [outcome](#outcomes)",
        "scored_tokens": "prompt tokens that were scored",
        "kept_tokens": "scored tokens that were prefilled",
        "restored_draft_tokens": "prompt tokens that the draft model had cached",
        "draft_seconds": "the engine's time in the draft model",
        "select_seconds": "the engine's time for selecting tokens",
    },
}
# Where the objects of a class stand in /v1/status.
PLACES: Mapping[str, str] = {
    "Stats": "",
    "StepTimes": "step_times.*.",
    "ModelInfo": "model.",
    "SequenceStats": "",
    "SchedulerStats": "scheduler.",
    "MemoryBudgetStats": "memory_budget.",
    "MemoryStats": "memory.",
    "RequestMemoryStats": "request_memory.",
    "ThroughputStats": "throughput.",
    "SpecDecodeStats": "spec_decode.",
    "DraftCostModel": "spec_decode.cost_model.",
    "MethodStats": "spec_decode.methods.*.",
    "PrefixCacheStats": "prefix_cache.",
    "DiskCacheStats": "prefix_cache.disk.",
    "VisionCacheStats": "prefix_cache.vision.",
    "CachedPrefix": "prefix_cache.largest[].",
    "SpecPrefillStats": "specprefill.",
}
# Of the memory budget.
PARTS = (
    *("weights", "sequences", "reserved", "activations", "images", "sequence images", "prefixes", "copies"),
    *("draft", "draft prefixes", "disk"),
    *REQUEST_PARTS,
)


def classes() -> dict[str, type[Any]]:
    """Every class of statistics."""
    found = vars(stats).values()
    return {kind.__name__: kind for kind in found if isinstance(kind, type) and kind.__module__ == stats.__name__}


def status_table(*names: str) -> str:
    lines = ["| field | |", "|---|---|"]
    for name in names:
        for field in dataclasses.fields(classes()[name]):
            text = STATUS[name][field.name]
            if values := _values_of(str(field.type)):
                text = f"{values}. {text}" if text.startswith("`") else f"{text}: {values}"
            if str(field.type).endswith(" | None") and "null" not in text:
                text += "; may be null"
            lines.append(f"| `{PLACES[name]}{field.name}` | {text} |")
    return "\n".join(lines)


def _values_of(annotation: str) -> str:
    """The texts that a field can have, if they are few."""
    if annotation in ("ServiceState", "SequenceState"):
        annotation = re.sub(r"^typing\.", "", str(getattr(stats, annotation)))
    found = re.fullmatch(r"Literal\[(.*)\]", annotation)
    return ", ".join(f"`{value.strip(chr(34) + chr(39))}`" for value in found[1].split(", ")) if found else ""


def full_stats() -> stats.Stats:
    """Statistics of a server that uses everything, so that every metric is there."""
    model = stats.ModelInfo("m", "", "", "", False, 1, False, 1, 1, 1, None, False, False, None, False)
    disk = stats.DiskCacheStats("", 0, 0, 0, 0, 0, 0)
    outcomes = dict.fromkeys(("sparse", "whole", "short", "long", "failed"), 0)
    return stats.Stats(
        model=model,
        step_times=dict.fromkeys(("decode", "decode, 3 drafted", "prefill", "prefill, new shape"), stats.StepTimes()),
        preemptions=dict.fromkeys(("memory", "policy", "fault"), 0),
        memory_budget=stats.MemoryBudgetStats(1, 0, 1, dict.fromkeys(PARTS, 0), 0.0, 0),
        memory=stats.MemoryStats.of(1, 1, 1, 1),
        prefix_cache=stats.PrefixCacheStats(enabled=True, disk=disk),
        spec_decode=stats.SpecDecodeStats(
            num_accepted_tokens_per_pos=(0,) * LONGEST_DRAFT,
            num_steps_per_draft_length=(0,) * (LONGEST_DRAFT + 1),
            methods=dict.fromkeys(SPECULATION_METHODS, stats.MethodStats()),
        ),
        specprefill=stats.SpecPrefillStats(enabled=True, outcomes=outcomes),
    )


def _values(values: list[str]) -> str:
    if values[0] == "0":
        return f"{values[0]} to {values[-1]}"
    return ", ".join(f"`{value}`" for value in values)


def metrics_table() -> str:
    registry = Metrics("m", full_stats).registry
    lines = ["| name | |", "|---|---|"]
    for family in registry.collect():
        if not family.name.startswith("paceline_"):
            continue
        name = family.name + ("_total" if family.type == "counter" else "")
        values: dict[str, dict[str, None]] = {}
        for sample in family.samples:
            for label, value in sample.labels.items():
                if label not in ("model_name", "le"):
                    values.setdefault(label, {})[value] = None
        labels = [f" `{label}`: {_values(list(found))}." for label, found in values.items()]
        kind = "Histogram. " if family.type == "histogram" else ""
        lines.append(f"| `{name}` | {kind}{family.documentation}{''.join(labels)} |")
    return "\n".join(lines)


def metric_aliases_table() -> str:
    """With the suffix of counters, as they are read."""
    kinds = {family.name: family.type for family in Metrics("m", full_stats).registry.collect()}
    lines = ["| metric | alias |", "|---|---|"]
    for name, aliases in VLLM.items():
        suffix = "_total" if kinds[name] == "counter" else ""
        lines.append(f"| `{name}{suffix}` | {', '.join(f'`{alias}{suffix}`' for alias in aliases)} |")
    return "\n".join(lines)
