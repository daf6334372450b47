"""vLLM's /v1/load_lora_adapter and /v1/unload_lora_adapter: adapters come and go while the server runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import Field

from paceline.errors import InvalidRequest
from paceline.server.common.fields import Lenient, read_other
from paceline.server.http.auth import check_admin
from paceline.server.http.openapi import body_schema
from paceline.server.state import AppState

LoraName = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[\w.:/@+-]+$")]


class UnloadLoraBody(Lenient):
    lora_name: LoraName


class LoadLoraBody(UnloadLoraBody):
    lora_path: Annotated[str, Field(min_length=1, max_length=4096)]


def removed(name: str) -> str:
    return f"Success: LoRA adapter '{name}' removed successfully."


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/load_lora_adapter", openapi_extra=body_schema(LoadLoraBody), response_class=PlainTextResponse)
    async def load_lora_adapter(request: Request) -> Response:
        check_admin(request)
        body, _ = await read_other(state, request, LoadLoraBody)
        state.check_ready()
        folder = Path(body.lora_path)
        if not folder.is_absolute():
            raise InvalidRequest.at("lora_path", "must be a whole path, from the root on, of a folder at the server.")
        await state.backend.load_lora(body.lora_name, folder)
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' added successfully.")

    @router.post("/v1/unload_lora_adapter", openapi_extra=body_schema(UnloadLoraBody), response_class=PlainTextResponse)
    async def unload_lora_adapter(request: Request) -> Response:
        check_admin(request)
        body, _ = await read_other(state, request, UnloadLoraBody)
        state.check_ready()
        await state.backend.unload_lora(body.lora_name)
        return PlainTextResponse(removed(body.lora_name))

    return router
