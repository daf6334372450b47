"""/health, /ready, /v1/status and /metrics: how the server is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from paceline.errors import EngineUnavailable
from paceline.server.http.auth import is_admin
from paceline.server.http.identity import current
from paceline.server.http.openapi import gives
from paceline.server.state import AppState


class State(BaseModel):
    status: Literal["ok", "ready"]


class Statistics(BaseModel):
    running: int
    waiting: int


def routes(state: AppState) -> APIRouter:
    router = APIRouter()
    backend = state.backend

    @router.get("/health", responses=gives(State))
    async def health() -> Response:
        """Alive: true while loading and while draining, false once the engine has given up."""
        if backend.failure is not None:
            raise EngineUnavailable(backend.failure)
        return JSONResponse({"status": "ok"})

    @router.get("/ready", responses=gives(State))
    async def ready() -> Response:
        state.check_ready()
        if state.gate.closed:
            raise EngineUnavailable("The server is shutting down.")
        return JSONResponse({"status": "ready"})

    @router.get("/v1/status", responses=gives(Statistics))
    async def status(request: Request) -> Response:
        stats = {**backend.stats(), "refused": dict(state.metrics.refused)}
        owners, mine = state.requests.owners(), current().owner
        everybodys = is_admin(request)

        def shown(row: Mapping[str, Any]) -> dict[str, Any]:
            """Whoever knows an id may ask for its end: those of others are not shown."""
            context = owners.get(row["id"])
            if everybodys or (mine is not None and context is not None and context.owner == mine):
                return dict(row)
            return {**row, "id": None}

        for part in ("rows", "queue"):
            if part in stats:
                stats[part] = list(map(shown, stats[part]))
        return JSONResponse(stats)

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(state.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    return router
