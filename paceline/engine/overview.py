"""The engine as an onlooker may see it: how far rows are, and why they wait; nothing of what they say. No MLX."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from paceline.engine.row import Row
from paceline.engine.scheduler import waiting_reasons

if TYPE_CHECKING:
    from paceline.engine.core import EngineCore

State = Literal["prefill", "decode", "held", "waiting", "scoring"]


def engine(engine: EngineCore, now: float) -> dict[str, Any]:
    """All of it. For any thread: numbers may be a step old."""
    scheduler, counters = engine.scheduler, engine.counters
    rows, queue = list(scheduler.running), scheduler.queue(now)
    admission, memory, pace = scheduler.admission, engine.account.memory, scheduler.pace
    leaving = engine.rate.per_second(now)
    return {
        "running": len(rows),
        "waiting": len(queue),
        "waiting_by_reason": waiting_reasons(queue),
        "decoding": sum(row.decodes for row in rows),
        "prefilling": sum(not row.decodes for row in rows),
        "rows": running(rows, now),
        "queue": waiting(queue, now),
        "policy": {
            "name": scheduler.policy.name,
            "starvation_seconds": scheduler.starvation,
            "max_queue": engine.patience.queue,
            "queue_timeout_seconds": engine.patience.queue_timeout,
            "first_token_timeout_seconds": engine.patience.first_token,
            "request_timeout_seconds": engine.patience.request,
        },
        "budget": None if admission is None else admission.stats(),
        "memory": None if memory is None else memory.stats(),
        "pace": {
            "chunk_tokens": scheduler.step_tokens(decoding=True),
            "largest_chunk_tokens": pace.most,
            "stall_target_ms": None if pace.target is None else pace.target * 1000,
        },
        "rates": {
            "requests_per_second": 0.0 if leaving is None else round(leaving, 3),
            **engine.account.rates(now, counters.prompt_tokens, counters.generated_tokens),
        },
        "steps": counters.steps,
        "decode_steps": counters.decode_steps,
        "failed_steps": counters.failed_steps,
        "out_of_memory": counters.out_of_memory,
        "prompt_tokens": counters.prompt_tokens,
        "generated_tokens": counters.generated_tokens,
        "finished": dict(counters.finished),
        "refused": dict(counters.refused),
        "preemptions": dict(scheduler.setbacks),
        "speculation": scheduler.depths.stats(),
        "prefix_cache": None if engine.reuse is None else engine.reuse.stats(),
        "time": time.time(),
    }


def running(rows: Sequence[Row], now: float) -> list[dict[str, Any]]:
    return [{**_row(row, now), "state": state(row)} for row in rows]


def waiting(rows: Sequence[Row], now: float) -> list[dict[str, Any]]:
    """In the order in which they are looked at; who comes first has the position 1."""
    return [
        {**_row(row, now), "state": "waiting", "position": place, "reason": row.waits or "order"}
        for place, row in enumerate(rows, 1)
    ]


def state(row: Row) -> State:
    """Held: another row's prefill, or the disk, is about to bring what it needs. Scoring: a draft reads its prompt."""
    if row.held:
        return "held"
    if not row.decided and row.remaining:
        return "scoring"
    return "prefill" if row.remaining or row.images_left else "decode"


def _row(row: Row, now: float) -> dict[str, Any]:
    request_id, _, choice = row.id.rpartition("/")
    return {
        "id": request_id or row.id,
        "choice": int(choice) if request_id and choice.isdecimal() else 0,
        "prompt_tokens": len(row.prompt.token_ids),
        "cached_tokens": row.cached,
        "generated_tokens": len(row.generated),
        "age_seconds": round(max(now - row.arrived, 0.0), 3),
        "tenant": row.tenant,
        "priority": row.priority,
        "setbacks": row.setbacks,
    }
