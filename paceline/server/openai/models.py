"""/v1/models: the one model that is served."""

from __future__ import annotations

import time
from typing import Any, Literal

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from paceline.server.http.openapi import gives
from paceline.server.state import AppState


class ModelCard(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[ModelCard]


def routes(state: AppState) -> APIRouter:
    router = APIRouter()
    started = int(time.time())

    def model_card() -> dict[str, Any]:
        card = {"id": state.model_name, "object": "model", "created": started, "owned_by": "paceline"}
        return {**card, "max_model_len": state.backend.context_length}

    @router.get("/v1/models", responses=gives(ModelList))
    async def list_models() -> Response:
        state.check_ready()
        return JSONResponse({"object": "list", "data": [model_card()]})

    @router.get("/v1/models/{name:path}", responses=gives(ModelCard))
    async def retrieve_model(name: str) -> Response:
        state.check_ready()
        state.check_model(name)
        return JSONResponse(model_card())

    return router
