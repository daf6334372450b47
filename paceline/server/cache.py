"""/v1/cache/clear: forgets the cached prefixes. For administrators: see `auth.check_admin`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from paceline.server.http.auth import check_admin
from paceline.server.http.openapi import gives
from paceline.server.state import AppState


class Cleared(BaseModel):
    cleared: dict[str, Any]


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/cache/clear", responses=gives(Cleared))
    async def clear_cache(request: Request) -> Response:
        check_admin(request)
        state.check_ready()
        return JSONResponse({"cleared": dict(await state.backend.clear_cache())})

    return router
