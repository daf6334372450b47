"""`GET /v1/loads`: how busy this server is, as SGLang's gateway (SMG) reads it of servers that it does not know.

SMG takes its counts as 32-bit integers, and drops an answer in which one of them is something else.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from paceline.server.http.openapi import returns
from paceline.server.state import AppState
from paceline.stats import Stats

MAX_COUNT = 2**31 - 1


class Load(BaseModel):
    """SGLang's names. Its `max_total_num_tokens` is missing: the memory budget is in bytes, not in tokens."""

    dp_rank: int = 0
    num_running_reqs: int
    num_waiting_reqs: int
    num_total_reqs: int
    num_waiting_uncached_tokens: int  # of prefilling sequences too: they are admitted long before their prompt is done
    num_used_tokens: int
    token_usage: float
    gen_throughput: float
    cache_hit_rate: float
    utilization: float
    max_running_requests: int


class Loads(BaseModel):
    timestamp: str
    dp_rank_count: int = 1
    loads: tuple[Load]


def loads_of(stats: Stats) -> Loads:
    running, waiting = stats.num_requests_running, stats.num_requests_waiting
    most = 0 if stats.model is None else stats.model.max_num_seqs
    used = sum(seq.prompt_tokens + seq.generated_tokens for seq in stats.running_sequences)
    prefixes = stats.prefix_cache
    load = Load(
        num_running_reqs=running,
        num_waiting_reqs=waiting,
        num_total_reqs=running + waiting,
        num_waiting_uncached_tokens=min(stats.num_uncached_tokens, MAX_COUNT),
        num_used_tokens=min(used, MAX_COUNT),
        token_usage=0.0 if stats.memory_budget is None else stats.memory_budget.kv_cache_usage,
        gen_throughput=stats.throughput.generation_tokens_per_second,
        cache_hit_rate=round(prefixes.hit_tokens / prefixes.query_tokens, 4) if prefixes.query_tokens else 0.0,
        utilization=round(running / most, 4) if most else 0.0,
        max_running_requests=most,
    )
    return Loads(timestamp=datetime.fromtimestamp(stats.time, UTC).isoformat(), loads=(load,))


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/loads", responses=returns(Loads))
    async def loads() -> Response:
        """SMG adds `?include=core,...`; everything is always there."""
        state.check_ready()
        stats = await asyncio.to_thread(state.backend.stats)  # it may wait for a lock of the engine
        return JSONResponse(loads_of(stats).model_dump())

    return router
