"""The prefix cache as the settings want it: how much memory, which folder. Runs on the engine's thread, at start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx

from paceline import platform
from paceline.cache.budget import Budget
from paceline.cache.disk import Disk
from paceline.cache.disk_summary import clear, summaries
from paceline.cache.features import Features
from paceline.cache.prefix import PrefixCache
from paceline.cache.tier import DiskTier
from paceline.engine.reuse import Reuse
from paceline.engine.runner import Runner
from paceline.errors import LoadError
from paceline.host_memory import RequestMemory
from paceline.models.files import fingerprint
from paceline.settings import Settings

log = logging.getLogger("paceline")
HEADROOM = 0.1  # of the memory, for what nobody counts: MLX's pool, copies while buffers grow
POOL = 0.5  # of the headroom, that MLX may keep of what was freed


def budget_for(settings: Settings, weights: int) -> Budget:
    """The memory we may use, with a model of this many bytes loaded. Raises LoadError."""
    kind = platform.device_kind()
    if settings.memory_limit_gb is not None:
        limit = int(settings.memory_limit_gb * 1e9)
    else:
        limit = platform.memory_limit(kind).bytes
        if kind != "metal":  # they report what is free now
            limit += mx.get_active_memory() + mx.get_cache_memory()
    asked = settings.scheduler_headroom_gb
    headroom = int(limit * HEADROOM) if asked is None else int(asked * 1e9)
    budget = Budget(limit, headroom)
    budget.hold("weights", weights)
    if budget.usable <= weights:
        raise LoadError(
            f"The model's weights take {weights / 1e9:.2f} GB, and {limit / 1e9:.2f} GB may be used, of which "
            f"{headroom / 1e9:.2f} GB stay free. Use a smaller model, or raise --memory-limit-gb."
        )
    return budget


def limit_mlx(budget: Budget) -> tuple[int, int]:
    """Tell MLX how much it may use, and how much of what was freed it may keep; returns what held before."""
    return mx.set_memory_limit(budget.limit), mx.set_cache_limit(int(budget.headroom * POOL))


def request_memory(settings: Settings, budget: Budget, wake: Callable[[], None]) -> RequestMemory:
    """For what requests bring. Beside a GPU with memory of its own it is the host's."""
    if platform.device_kind() == "cuda":
        return RequestMemory.apart(platform.memory_limit("cpu").bytes, settings.queue_timeout)
    return RequestMemory.of(budget, wake, settings.queue_timeout)


def build_reuse(
    settings: Settings,
    runner: Runner,
    budget: Budget,
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
    reuse = Reuse(cache, runner, feeds_head=feeds_head, disk=tier, budget=budget)
    if tier is not None:
        try:
            log.info("%d cached prefixes found in %s", tier.open(), settings.cache_dir)
        except BaseException:
            reuse.close()  # or the folder would stay locked
            raise
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
