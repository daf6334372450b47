"""/v1/cache/clear: forgets the cached prefixes. For administrators: see `auth.check_admin`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from paceline.server.backend import Serving
from paceline.server.http.auth import check_admin
from paceline.server.http.openapi import Cleared, gives


def routes(serving: Serving) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/cache/clear", responses=gives(Cleared))
    async def clear_cache(request: Request) -> Response:
        check_admin(request)
        serving.check_ready()
        return JSONResponse({"cleared": dict(await serving.backend.clear_cache())})

    return router
