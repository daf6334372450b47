"""/api/tags, /api/show, /api/ps and /api/version: the one model that is served. What manages models is refused."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from paceline import __version__
from paceline.errors import InvalidRequest
from paceline.server.common.fields import read_request
from paceline.server.http.errors import refuse_below
from paceline.server.http.openapi import body_schema, returns
from paceline.server.ollama.answer import now
from paceline.server.ollama.schema import LINES, NamedBody, returns_lines
from paceline.server.state import AppState

API_VERSION = "0.12.6"  # the version of Ollama whose API this is: apps ask before they use what is new
NEVER = "9999-12-31T23:59:59Z"  # when the model is unloaded

# By the path below /api: why it cannot be done.
MANAGED: Mapping[str, str] = {
    "push": "Models are not pushed from here",
    "create": "Models are not made here; a server is started with the model that it serves: paceline serve MODEL",
    "copy": "Models are not copied here; a served model gets another name with --served-model-name",
    "delete": "Models are not deleted here; the server serves the one that it was started with",
    "blobs": "Parts of models are not stored here; a server is started with a model: paceline serve MODEL",
}


class Version(BaseModel):
    version: str  # Ollama's, whose API this is
    paceline: str


class TagList(BaseModel):
    models: list[dict[str, Any]]


class Shown(BaseModel):
    template: str
    details: dict[str, Any]
    model_info: dict[str, Any]
    capabilities: list[str]


class Status(BaseModel):
    status: str


def routes(state: AppState) -> APIRouter:
    router = APIRouter()
    started = now()

    @router.head("/api/version", include_in_schema=False)
    @router.get("/api/version", responses=returns(Version))
    async def version() -> Response:
        return JSONResponse({"version": API_VERSION, "paceline": __version__})

    @router.head("/api/tags", include_in_schema=False)
    @router.get("/api/tags", responses=returns(TagList))
    async def tags() -> Response:
        state.check_ready()
        cards = await asyncio.to_thread(_cards, state, (*state.model_names, *state.backend.loras))
        return JSONResponse({"models": [{**card, "modified_at": started} for card in cards]})

    @router.get("/api/ps", responses=returns(TagList))
    async def ps() -> Response:
        state.check_ready()
        [card] = await asyncio.to_thread(_cards, state, (state.model_name,))
        more = {"expires_at": NEVER, "size_vram": card["size"], "context_length": state.backend.context_length}
        return JSONResponse({"models": [{**card, **more}]})

    @router.post("/api/show", openapi_extra=body_schema(NamedBody), responses=returns(Shown))
    async def show(request: Request) -> Response:
        await _named(state, request, ("verbose", "system", "template", "options"))
        return JSONResponse({**await asyncio.to_thread(_described, state), "modified_at": started})

    @router.post("/api/pull", openapi_extra=body_schema(NamedBody), responses=returns_lines(Status))
    async def pull(request: Request) -> Response:
        """Of the served model there is nothing to fetch; another is a 404."""
        return pulled(await _named(state, request, ("stream", "insecure")))

    for name, reason in MANAGED.items():
        refuse_below(router, f"/api/{name}", reason)
    return router


async def _named(state: AppState, request: Request, also: Collection[str]) -> dict[str, Any]:
    """The body, if it is about the served model. `also`: the request's other fields in Ollama's API."""
    body, fields = await read_request(state, request, NamedBody, {}, also)
    name = body.model or body.name
    if not name:
        raise InvalidRequest.at("model", "is missing: say which model is meant.")
    state.check_model(name)
    return fields


def _cards(state: AppState, names: Sequence[str]) -> list[dict[str, Any]]:
    """Like all that asks for statistics, not for the event loop: it may wait for a lock of the engine."""
    return [_card(state, name) for name in names]


def _card(state: AppState, name: str) -> dict[str, Any]:
    model = state.backend.stats().model
    size, family = (0, "") if model is None else (model.weights_bytes, model.family)
    return model_card(name, size, family, None if model is None else model.quantization)


def model_card(name: str, size: int, family: str, quantization: str | None) -> dict[str, Any]:
    """A model as lists show it."""
    # Of its name, not of its weights: to read those would take minutes, and apps only tell models apart by it.
    digest = hashlib.sha256(name.encode()).hexdigest()
    details = {
        "parent_model": "",
        "format": "mlx",
        "family": family,
        "families": [family],
        "parameter_size": "",
        "quantization_level": quantization or "none",
    }
    return {"name": name, "model": name, "size": size, "digest": digest, "details": details}


def description(card: Mapping[str, Any], template: str, length: int | None, has: Mapping[str, bool]) -> dict[str, Any]:
    """A model as `show` does, from its card."""
    family = card["details"]["family"]
    return {
        "license": "",
        "modelfile": f"# served by Paceline {__version__}\nFROM {card['name']}\n",
        "parameters": "",
        "template": template,
        "details": card["details"],
        "model_info": {"general.architecture": family, f"{family}.context_length": length},
        "capabilities": [name for name, given in has.items() if given],
    }


def pulled(fields: Mapping[str, Any]) -> Response:
    if fields.get("stream") is False:
        return JSONResponse({"status": "success"})
    return Response(b'{"status":"success"}\n', media_type=LINES)


def _described(state: AppState) -> dict[str, Any]:
    backend = state.backend
    template = backend.tokenizer.chat_template or ""
    has = {
        "completion": True,
        "vision": backend.takes_images,
        "tools": backend.takes_chat and "tools" in template,
        "thinking": backend.answer_format.reasoning != "none",
        "embedding": backend.embedding_size is not None,
    }
    card = _card(state, state.model_name)
    described = description(card, template or "{{ .Prompt }}", backend.context_length, has)
    if backend.embedding_size is not None:
        described["model_info"][f"{card['details']['family']}.embedding_length"] = backend.embedding_size
    return described
