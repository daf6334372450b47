"""The prefix cache as the settings want it: how much memory, which folder. Runs on the engine's thread, at start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx

from paceline import platform
from paceline.cache.budget import Budget
from paceline.cache.disk import Disk, clear, summaries
from paceline.cache.features import Features
from paceline.cache.prefix import PrefixCache
from paceline.cache.tier import DiskTier
from paceline.engine.reuse import Reuse
from paceline.engine.row import Row
from paceline.engine.runner import Runner
from paceline.models.files import fingerprint
from paceline.settings import Settings

log = logging.getLogger("paceline")
HEADROOM = 0.1  # of the device's memory, for what nobody counts: activations, MLX's pool


def budget_for(weights: int) -> Budget:
    """The device's memory, with a model of this many bytes loaded."""
    kind = platform.device_kind()
    limit = platform.memory_limit(kind).bytes
    if kind == "cuda":  # which reports what is free now
        limit += mx.get_active_memory() + mx.get_cache_memory()
    budget = Budget(limit, int(limit * HEADROOM))
    budget.hold("weights", weights)
    return budget


def build_reuse(
    settings: Settings,
    runner: Runner,
    budget: Budget,
    ends: Callable[[Row], frozenset[int]],
    name: str,
    wake: Callable[[], None],
) -> Reuse | None:
    """None: the settings say so. Raises DiskError where the folder cannot be used."""
    if not settings.prefix_cache:
        log.info("prefix cache off: the server is set so")
        return None
    if settings.cache_memory_gb is None:
        most = budget.room("prefixes") // 2
    else:
        most = int(settings.cache_memory_gb * 1e9)
    cache = PrefixCache(lambda: min(most, budget.room("prefixes")))
    tier = None
    if settings.cache_dir is not None:
        tier = DiskTier(cache, _disk(settings.cache_dir, settings.cache_disk_gb, runner, name, wake))
    feeds_head = settings.speculation != "off"
    reuse = Reuse(cache, runner, ends, feeds_head=feeds_head, disk=tier, budget=budget)
    if tier is not None:
        log.info("%d cached prefixes found in %s", tier.open(), settings.cache_dir)
    log.info("prefix cache on: up to %.2f GB of memory", cache.limit() / 1e9)
    return reuse


def _disk(folder: Path, gigabytes: float, runner: Runner, name: str, wake: Callable[[], None]) -> Disk:
    """This model's share of the folder. Models that were served before keep up to half of it, the latest ones."""
    dtype = str(runner.language.embed(mx.array([[0]])).dtype)
    head = "head" if runner.drafter is not None else "no head"
    mine = fingerprint(runner.model.folder, "prefixes 1", dtype, head)
    limit = int(gigabytes * 1e9)
    others = [other for other in summaries(folder) if other.fingerprint != mine] if folder.is_dir() else []
    others.sort(key=lambda other: other.last_used)
    taken = sum(other.bytes for other in others)
    for other in others:
        if taken > limit // 2 and not other.in_use:
            log.info("cached prefixes of %s (%.2f GB) make room", other.model, other.bytes / 1e9)
            clear(folder, other.fingerprint)
            taken -= other.bytes
    return Disk(folder, mine, max(limit - taken, limit // 2), name, on_done=wake)


def stats(reuse: dict[str, Any] | None) -> dict[str, Any]:
    """The cache's numbers, with whether it is on, and why."""
    if reuse is not None:
        return {"enabled": True, "reason": "prefixes are kept and shared", **reuse}
    return {
        "enabled": False,
        "reason": "the server is set so",
        **PrefixCache(lambda: 0).snapshot(),
        "evictions": {"memory": 0, "disk": 0},
        "disk": None,
        "vision": Features(0).stats(),
    }
