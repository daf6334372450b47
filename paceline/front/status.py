"""/v1/status and /metrics of a front: each model's state and why, and what the loaded ones say of themselves."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from paceline.front.client import Broken, Headers
from paceline.front.pool import Pool, Slot

STATES = ("unloaded", "loading", "resident", "unloading", "failed")
ASK_SECONDS = 5.0  # for a process to say how it is
LABEL = "model_name"


async def ask(slot: Slot, path: str, headers: Headers = ()) -> bytes | None:
    """What a loaded model's process answers; None: it does not, in time."""
    worker = slot.worker
    if worker is None or slot.state != "resident":
        return None
    try:
        async with asyncio.timeout(ASK_SECONDS):
            answer = await worker.client.whole("GET", path.encode(), headers)
    except (Broken, TimeoutError):
        return None
    return answer.body if answer.status == 200 else None


async def status(pool: Pool, refused: Mapping[str, int], headers: Headers) -> dict[str, Any]:
    slots = pool.slots()
    answers = await asyncio.gather(*(ask(slot, "/v1/status", headers) for slot in slots))
    models = [_model(pool, slot, answer) for slot, answer in zip(slots, answers, strict=True)]
    own = [model["status"] for model in models if model["status"] is not None]
    return {
        "state": "ready",
        "num_requests_running": sum(each["num_requests_running"] for each in own),
        "num_requests_waiting": sum(each["num_requests_waiting"] for each in own) + sum(slot.waiting for slot in slots),
        "requests_refused": dict(refused),
        "memory": {
            "limit_bytes": pool.machine.memory,
            "source": pool.machine.source,
            "granted_bytes": pool.held,
            "free_bytes": max(pool.machine.memory - pool.held, 0),
        },
        "idle_unload_seconds": pool.settings.idle_unload,
        "default_model": pool.catalog.default.name,
        "models": models,
    }


def _model(pool: Pool, slot: Slot, answer: bytes | None) -> dict[str, Any]:
    worker, now = slot.worker, time.monotonic()
    progress = None if worker is None or slot.state != "loading" else worker.progress
    retry = max(slot.retry_at - now, 0.0)
    return {
        "name": slot.name,
        "aliases": list(slot.entry.aliases),
        "source": slot.entry.source,
        "state": slot.state,
        "why": slot.why,
        "since_seconds": round(time.time() - slot.since, 3),
        "pinned": slot.entry.pinned,
        "pid": None if worker is None else worker.pid,
        "requests": slot.active,
        "waiting_for_load": slot.waiting,
        "idle_seconds": None if slot.active or not slot.last_used else round(now - slot.last_used, 3),
        "unloads_in_seconds": None if slot.state != "resident" else pool.expires_in(slot),
        "load_progress": None if progress is None else round(progress[1] / max(progress[2], 1), 3),
        "estimate_bytes": None if slot.estimate is None else slot.estimate.least,
        "granted_bytes": slot.granted,
        "loads": slot.loads,
        "crashes": slot.crashes,
        "retry_in_seconds": round(retry, 3) if slot.state == "failed" else None,
        "status": None if answer is None else json.loads(answer),
    }


class FrontMetrics:
    """The front's own metrics, and those of all processes with their model's name."""

    def __init__(self, pool: Pool, refused: Mapping[str, int]) -> None:
        self.pool = pool
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.registry.register(_Models(pool, refused))

    async def exposition(self) -> bytes:
        slots = self.pool.resident()
        answers = await asyncio.gather(*(ask(slot, "/metrics") for slot in slots))
        pages = [(slot.name, page) for slot, page in zip(slots, answers, strict=True) if page is not None]
        return await asyncio.to_thread(self._merged, pages)

    def _merged(self, pages: Iterable[tuple[str, bytes]]) -> bytes:
        families: dict[str, Metric] = {}
        for family in self.registry.collect():
            families[family.name] = family
        for name, page in pages:
            for family in text_string_to_metric_families(page.decode()):
                into = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    labels = {LABEL: name, **sample.labels}
                    into.samples.append(sample._replace(labels=labels))
        return generate_latest(_Collected(families.values()))


class _Collected:
    """What `generate_latest` asks of a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class _Models(Collector):
    def __init__(self, pool: Pool, refused: Mapping[str, int]) -> None:
        self.pool = pool
        self.refused = refused

    def collect(self) -> Iterable[Metric]:
        slots = self.pool.slots()
        states = GaugeMetricFamily("paceline_model_state", "1 for the state of a model.", labels=(LABEL, "state"))
        loads = CounterMetricFamily("paceline_model_loads", "Times that a model was loaded.", labels=(LABEL,))
        crashes = CounterMetricFamily("paceline_model_crashes", "Processes that ended by themselves.", labels=(LABEL,))
        waiting = GaugeMetricFamily("paceline_model_waiting", "Requests waiting for a load.", labels=(LABEL,))
        granted = GaugeMetricFamily("paceline_model_granted_bytes", "Memory that a model may use.", labels=(LABEL,))
        for slot in slots:
            for state in STATES:
                states.add_metric([slot.name, state], float(slot.state == state))
            loads.add_metric([slot.name], slot.loads)
            crashes.add_metric([slot.name], slot.crashes)
            waiting.add_metric([slot.name], slot.waiting)
            granted.add_metric([slot.name], slot.granted)
        yield from (states, loads, crashes, waiting, granted)
        yield GaugeMetricFamily(
            "paceline_models_memory_limit_bytes", "Memory for all models.", self.pool.machine.memory
        )
        refused = CounterMetricFamily(
            "paceline_front_requests_refused", "Requests refused before they reached a model.", labels=("cause",)
        )
        for cause, count in self.refused.items():
            refused.add_metric([cause], count)
        yield refused
