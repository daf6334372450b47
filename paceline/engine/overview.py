"""The engine as an onlooker may see it: how far sequences are, and why they wait; nothing of what they say. No MLX."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal

from paceline.engine.scheduler import waiting_reasons
from paceline.engine.sequence import Sequence

if TYPE_CHECKING:
    from paceline.engine.core import EngineCore

State = Literal["prefill", "decode", "held", "waiting", "scoring"]


def engine(engine: EngineCore, now: float) -> dict[str, Any]:
    """All of it. For any thread: numbers may be a step old."""
    scheduler, counters = engine.scheduler, engine.counters
    seqs, queue = list(scheduler.running), scheduler.queue(now)
    admission, memory, pace = scheduler.admission, engine.account.memory, scheduler.prefill_budget
    leaving = engine.departures.per_second(now)
    return {
        "running": len(seqs),
        "waiting": len(queue),
        "waiting_by_reason": waiting_reasons(queue),
        "decoding": sum(seq.is_decoding for seq in seqs),
        "prefilling": sum(not seq.is_decoding for seq in seqs),
        "rows": running(seqs, now),
        "queue": waiting(queue, now),
        "policy": {
            "name": scheduler.policy.name,
            "starvation_seconds": scheduler.starvation,
            "max_queue": engine.timeouts.queue,
            "queue_timeout_seconds": engine.timeouts.queue,
            "first_token_timeout_seconds": engine.timeouts.first_token,
            "request_timeout_seconds": engine.timeouts.request,
        },
        "budget": None if admission is None else admission.stats(),
        "memory": None if memory is None else memory.stats(),
        "pace": {
            "chunk_tokens": scheduler.step_tokens(decoding=True),
            "largest_chunk_tokens": pace.max_chunk,
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
        "preemptions": dict(scheduler.preemptions),
        "speculation": scheduler.draft_lengths.stats(),
        "prefix_cache": None if engine.prefix is None else engine.prefix.stats(),
        "time": time.time(),
    }


def running(seqs: Collection[Sequence], now: float) -> list[dict[str, Any]]:
    return [{**_row(seq, now), "state": state(seq)} for seq in seqs]


def waiting(seqs: Collection[Sequence], now: float) -> list[dict[str, Any]]:
    """In the order in which they are looked at; who comes first has the position 1."""
    return [
        {**_row(seq, now), "state": "waiting", "position": place, "reason": seq.queue.blocked_by or "order"}
        for place, seq in enumerate(seqs, 1)
    ]


def state(seq: Sequence) -> State:
    """Held: another sequence's prefill, or the disk, is about to bring what it needs. Scoring: a draft reads its
    prompt."""
    if seq.prefix.waiting:
        return "held"
    if not seq.sparse.decided and seq.remaining:
        return "scoring"
    return "prefill" if seq.remaining or seq.images_left else "decode"


def _row(seq: Sequence, now: float) -> dict[str, Any]:
    request_id, _, choice = seq.id.rpartition("/")
    return {
        "id": request_id or seq.id,
        "choice": int(choice) if request_id and choice.isdecimal() else 0,
        "prompt_tokens": len(seq.prompt.token_ids),
        "cached_tokens": seq.prefix.cached_tokens,
        "generated_tokens": len(seq.generated),
        "age_seconds": round(max(now - seq.queue.arrived, 0.0), 3),
        "tenant": seq.request.tenant,
        "priority": seq.request.priority,
        "setbacks": seq.preemptions,
    }
