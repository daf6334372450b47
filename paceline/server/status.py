"""/health (and /ping), /ready, /v1/status and /metrics: how the server is. And /v1/cache/clear, for administrators."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from paceline.errors import EngineUnavailable
from paceline.server.http.auth import check_admin
from paceline.server.http.openapi import returns
from paceline.server.http.requests import Viewer
from paceline.server.state import AppState
from paceline.stats import SequenceStats, Stats


class State(BaseModel):
    status: Literal["ok", "ready"]


class Cleared(BaseModel):
    cleared: dict[str, Any]


def routes(state: AppState) -> APIRouter:
    router = APIRouter()
    backend = state.backend

    @router.api_route("/ping", methods=["GET", "POST"], include_in_schema=False)  # as SageMaker asks
    @router.get("/health", responses=returns(State))
    async def health() -> Response:
        """Alive: true while loading and while draining, false once the engine has given up."""
        if backend.failure is not None:
            raise EngineUnavailable(backend.failure)
        return JSONResponse({"status": "ok"})

    @router.get("/ready", responses=returns(State))
    async def ready() -> Response:
        state.check_ready()
        if state.gate.closed:
            raise EngineUnavailable(state.gate.why)
        return JSONResponse({"status": "ready"})

    @router.get("/v1/status", responses=returns(Stats))
    async def status(request: Request) -> Response:
        viewer, owners = Viewer.of(request), state.requests.owners()

        def hide_id(sequence: SequenceStats) -> SequenceStats:
            return sequence if viewer.sees(sequence.id, owners) else replace(sequence, id=None)

        stats = await asyncio.to_thread(backend.stats)  # it may wait for a lock of the engine
        stats = replace(
            stats,
            requests_refused=dict(state.metrics.refused),
            running_sequences=tuple(map(hide_id, stats.running_sequences)),
            waiting_sequences=tuple(map(hide_id, stats.waiting_sequences)),
        )
        return JSONResponse(asdict(stats))

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(await asyncio.to_thread(state.metrics.exposition), media_type=CONTENT_TYPE_LATEST)

    @router.post("/v1/cache/clear", responses=returns(Cleared))
    async def clear_cache(request: Request) -> Response:
        check_admin(request)
        state.check_ready()
        return JSONResponse({"cleared": dict(await state.backend.clear_cache())})

    return router
