"""What the front answers itself: lists of models, their loading and unloading, status, metrics, cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from paceline.errors import EngineUnavailable, InvalidRequest, PacelineError, UnknownLora
from paceline.front.cards import Cards
from paceline.front.client import Answer, Broken, Headers
from paceline.front.pool import Pool, Slot
from paceline.front.proxy import Forwarded, Proxy, gone, read_fields
from paceline.front.status import FrontMetrics, status
from paceline.server.anthropic.errors import MESSAGES
from paceline.server.anthropic.models import AskedPage, ForAnthropic
from paceline.server.http.auth import check_admin, is_admin
from paceline.server.http.behind_front import identity_headers
from paceline.server.http.errors import Conflict, NotRunning, error_response
from paceline.server.http.identity import current
from paceline.server.http.openapi import body_schema, returns
from paceline.server.ollama.models import pulled
from paceline.server.openai.loras import LoadLoraBody, UnloadLoraBody, removed
from paceline.server.openai.models import ModelEntry
from paceline.server.state import AppState


class FrontModelCard(ModelEntry):
    max_model_len: int | None  # None: it must be downloaded first
    sampling_defaults: dict[str, float | None] | None
    root: str  # the model's own name; `id` may be an alias
    state: str
    why: str  # how it came to be in this state
    pinned: bool
    aliases: list[str]
    size_bytes: int | None


class FrontModelList(BaseModel):
    object: Literal["list"]
    data: list[FrontModelCard]


class ModelState(BaseModel):
    id: str
    object: str
    state: str
    why: str


def routes(state: AppState, pool: Pool, proxy: Proxy) -> list[APIRouter]:
    cards = Cards.of(pool)
    return [
        _anthropic(proxy, cards),
        _models(pool, proxy, cards),
        _loras(pool, proxy),
        _server(state, pool),
        _ollama(pool, proxy, cards),
    ]


def _identity(request: Request) -> Headers:
    address = request.client.host if request.client is not None else ""
    return identity_headers(address, current().owner, is_admin(request))


def _models(pool: Pool, proxy: Proxy, cards: Cards) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/models", responses=returns(FrontModelList))
    async def list_models() -> Response:
        return JSONResponse({"object": "list", "data": await cards.all(Cards.openai)})

    @router.get("/v1/models/{name:path}", responses=returns(FrontModelCard))
    async def retrieve_model(name: str) -> Response:
        return JSONResponse(await cards.one(Cards.openai, name, await proxy.chosen(name)))

    @router.post("/v1/models/{name:path}/load", responses=returns(ModelState))
    async def load_model(request: Request, name: str) -> Response:
        """Loads a model, for administrators. Answers when it is loaded."""
        check_admin(request)
        slot = await proxy.chosen(name)
        await pool.load(slot)
        return JSONResponse(_state(slot))

    @router.post("/v1/models/{name:path}/unload", responses=returns(ModelState))
    async def unload_model(request: Request, name: str) -> Response:
        """Unloads a model, for administrators. One that answers is a 409."""
        check_admin(request)
        slot = await proxy.chosen(name)
        if not await pool.unload(slot, "asked for by an administrator"):
            raise Conflict(
                f"The model {slot.name!r} is {slot.state} and has {slot.active} requests: it cannot leave now."
            )
        return JSONResponse(_state(slot))

    return router


def _loras(pool: Pool, proxy: Proxy) -> APIRouter:
    router = APIRouter()

    async def asked(request: Request, slot: Slot, body: bytes) -> Answer:
        headers = [*_identity(request), (b"content-type", b"application/json")]
        async with pool.using(slot) as worker:
            try:
                return await worker.client.whole("POST", request.url.path.encode(), headers, body)
            except Broken as broken:
                raise EngineUnavailable(gone(slot.name, worker.failure)) from broken

    def passed_on(answer: Answer) -> Response:
        return Response(answer.body, answer.status, media_type=dict(answer.headers).get(b"content-type", b"").decode())

    @router.post("/v1/load_lora_adapter", openapi_extra=body_schema(LoadLoraBody), response_class=PlainTextResponse)
    async def load_lora_adapter(request: Request) -> Response:
        """Of the model that `model` names, or of the default one."""
        check_admin(request)
        body, fields = await read_fields(request)
        name, slot = fields.get("lora_name"), await proxy.chosen(fields.get("model"))
        if isinstance(name, str) and (taken := pool.catalog.named(name)) is not None:
            raise InvalidRequest.at("lora_name", f"is a name of the model {taken.name!r} already.")
        answer = await asked(request, slot, body)
        if answer.status == 200:
            loras = {**slot.entry.settings.loras, str(name): Path(fields["lora_path"])}
            slot.entry = await asyncio.to_thread(pool.catalog.set_loras, slot.entry, loras)
        return passed_on(answer)

    @router.post("/v1/unload_lora_adapter", openapi_extra=body_schema(UnloadLoraBody), response_class=PlainTextResponse)
    async def unload_lora_adapter(request: Request) -> Response:
        check_admin(request)
        body, fields = await read_fields(request)
        name = fields.get("lora_name")
        entry = pool.catalog.named(name) if isinstance(name, str) else None
        if not isinstance(name, str) or entry is None or name not in entry.settings.loras:
            known = (other for entry in pool.catalog.entries() for other in entry.settings.loras)
            raise UnknownLora(str(name), known, field="lora_name")
        slot = pool.slot(entry)
        if slot.worker is not None:
            answer = await asked(request, slot, body)
            if answer.status != 200:
                return passed_on(answer)
        loras = {other: folder for other, folder in slot.entry.settings.loras.items() if other != name}
        slot.entry = await asyncio.to_thread(pool.catalog.set_loras, slot.entry, loras)
        return PlainTextResponse(removed(name))

    return router


def _state(slot: Slot) -> dict[str, Any]:
    return {"id": slot.name, "object": "model.state", "state": slot.state, "why": slot.why}


def _anthropic(proxy: Proxy, cards: Cards) -> APIRouter:
    router = APIRouter(route_class=ForAnthropic)

    async def answer(making: Coroutine[None, None, dict[str, Any]]) -> Response:
        try:
            return JSONResponse(await making)
        except PacelineError as error:
            return error_response(error, MESSAGES)

    @router.get("/v1/models", include_in_schema=False)
    async def list_models(page: AskedPage) -> Response:
        async def shown() -> dict[str, Any]:
            return page.of(await cards.all(Cards.anthropic))

        return await answer(shown())

    @router.get("/v1/models/{name:path}", include_in_schema=False)
    async def retrieve_model(name: str) -> Response:
        async def card() -> dict[str, Any]:
            return await cards.one(Cards.anthropic, name, await proxy.chosen(name))

        return await answer(card())

    return router


def _server(state: AppState, pool: Pool) -> APIRouter:
    router = APIRouter()
    collected = FrontMetrics(pool, state.metrics.refused)

    @router.get("/v1/status")
    async def get_status(request: Request) -> Response:
        return JSONResponse(await status(pool, state.metrics.refused, _identity(request)))

    @router.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(await collected.exposition(), media_type=CONTENT_TYPE_LATEST)

    @router.post("/v1/cache/clear")
    async def clear_cache(request: Request) -> Response:
        """Of all loaded models."""
        check_admin(request)
        cleared: dict[str, Any] = {}
        for slot in pool.resident():
            if slot.state != "resident":  # it has left meanwhile, and its cache with it
                continue
            try:
                async with pool.using(slot) as worker:
                    answer = await worker.client.whole("POST", b"/v1/cache/clear", _identity(request))
            except Broken:
                continue
            for name, count in answer.json().get("cleared", {}).items():
                cleared[name] = cleared.get(name, 0) + count
        return JSONResponse({"cleared": cleared})

    @router.delete("/v1/requests/{request_id}")
    async def cancel_request(request: Request, request_id: str) -> Response:
        admin, owner = is_admin(request), current().owner
        found = state.requests.cancel(request_id, lambda context: admin or context.owner == owner)
        target = f"/v1/requests/{quote(request_id, safe='')}".encode()
        for slot in [slot for slot in pool.slots() if slot.worker is not None and slot.active]:
            worker = slot.worker
            assert worker is not None
            try:
                answer = await worker.client.whole("DELETE", target, _identity(request))
            except Broken:
                continue
            found = found or answer.status == 200
        if not found:
            raise NotRunning(request_id)
        return JSONResponse({"id": request_id, "object": "request", "cancelled": True})

    return router


def _ollama(pool: Pool, proxy: Proxy, cards: Cards) -> APIRouter:
    router = APIRouter()

    @router.head("/api/tags", include_in_schema=False)
    @router.get("/api/tags")
    async def tags() -> Response:
        return JSONResponse({"models": await cards.all(Cards.ollama)})

    @router.get("/api/ps")
    async def ps() -> Response:
        return JSONResponse({"models": [cards.ollama_running(slot) for slot in pool.resident()]})

    @router.post("/api/show")
    async def show(request: Request) -> Response:
        body, slot = await _named(request)
        if slot.state == "resident":
            return Forwarded(pool, request, [slot], body, may_load=False)
        return JSONResponse(cards.ollama_shown(slot))

    @router.post("/api/pull")
    async def pull(request: Request) -> Response:
        """Of models that are served there is nothing to fetch; another is a 404."""
        _, fields = await read_fields(request)
        await proxy.chosen(fields.get("model", fields.get("name")))
        return pulled(fields)

    async def _named(request: Request) -> tuple[bytes, Slot]:
        body, fields = await read_fields(request)
        name = fields.get("model", fields.get("name"))
        if not name:
            raise InvalidRequest.at("model", "is missing: say which model is meant.")
        return body, await proxy.chosen(name)

    return router
