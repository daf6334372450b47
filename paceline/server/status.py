"""How the server is, what it serves, and its tokenizer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from paceline.errors import EngineUnavailable, InvalidRequest
from paceline.server.backend import Serving
from paceline.server.http.auth import is_admin
from paceline.server.http.body import described_by, read_body
from paceline.server.http.identity import current
from paceline.server.http.openapi import ModelCard, ModelList, State, Statistics, Text, Tokens, gives
from paceline.server.openai.envelope import encode_long
from paceline.server.openai.schema import DetokenizeBody, TokenizeBody, refuse_unsupported


def routes(serving: Serving) -> APIRouter:
    router = APIRouter()
    backend = serving.backend
    started = int(time.time())

    @router.get("/health", responses=gives(State))
    async def health() -> Response:
        """Alive: true while loading and while draining, false once the engine has given up."""
        if backend.failure is not None:
            raise EngineUnavailable(backend.failure)
        return JSONResponse({"status": "ok"})

    @router.get("/ready", responses=gives(State))
    async def ready() -> Response:
        serving.check_ready()
        if serving.gate.closed:
            raise EngineUnavailable("The server is shutting down.")
        return JSONResponse({"status": "ready"})

    @router.get("/v1/status", responses=gives(Statistics))
    async def status(request: Request) -> Response:
        stats = {**backend.stats(), "refused": dict(serving.metrics.refused)}
        owners, mine = serving.requests.owners(), current().owner
        everybodys = is_admin(request)

        def shown(row: Mapping[str, Any]) -> dict[str, Any]:
            """Whoever knows an id may ask for its end: those of others are not shown."""
            call = owners.get(row["id"])
            if everybodys or (mine is not None and call is not None and call.owner == mine):
                return dict(row)
            return {**row, "id": None}

        for part in ("rows", "queue"):
            if part in stats:
                stats[part] = list(map(shown, stats[part]))
        return JSONResponse(stats)

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(serving.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    def model_card() -> dict[str, Any]:
        card = {"id": serving.model_name, "object": "model", "created": started, "owned_by": "paceline"}
        return {**card, "max_model_len": backend.context_length}

    @router.get("/v1/models", responses=gives(ModelList))
    async def list_models() -> Response:
        serving.check_ready()
        return JSONResponse({"object": "list", "data": [model_card()]})

    @router.get("/v1/models/{name:path}", responses=gives(ModelCard))
    async def retrieve_model(name: str) -> Response:
        serving.check_ready()
        serving.check_model(name)
        return JSONResponse(model_card())

    @router.post("/tokenize", openapi_extra=described_by(TokenizeBody), responses=gives(Tokens))
    async def tokenize(request: Request) -> Response:
        body, fields = await read_body(request, TokenizeBody)
        refuse_unsupported(fields, {})
        serving.check_ready()
        serving.check_model(body.model)
        # In a thread: a long text would hold up every stream.
        return Response(await asyncio.to_thread(_tokenized, serving, body, fields), media_type="application/json")

    @router.post("/detokenize", openapi_extra=described_by(DetokenizeBody), responses=gives(Text))
    async def detokenize(request: Request) -> Response:
        body, _ = await read_body(request, DetokenizeBody)
        serving.check_ready()
        serving.check_model(body.model)
        return Response(await asyncio.to_thread(_detokenized, serving, body), media_type="application/json")

    return router


def _tokenized(serving: Serving, body: TokenizeBody, fields: dict[str, Any]) -> bytes:
    backend = serving.backend
    ids = _tokens_of(serving, body, fields)
    strings = list(map(backend.tokenizer.token_text, ids)) if body.return_token_strs else None
    head = {"count": len(ids), "max_model_len": backend.context_length}
    return encode_long({**head, "tokens": ids, "token_strs": strings})


def _detokenized(serving: Serving, body: DetokenizeBody) -> bytes:
    tokenizer = serving.backend.tokenizer
    unknown = next((token_id for token_id in body.tokens if not 0 <= token_id < tokenizer.vocab_size), None)
    if unknown is not None:
        raise InvalidRequest(
            f"tokens holds {unknown}; this model's tokens are 0 to {tokenizer.vocab_size - 1}.", field="tokens"
        )
    return encode_long({"prompt": tokenizer.decode(body.tokens, False)})


def _tokens_of(serving: Serving, body: TokenizeBody, fields: dict[str, Any]) -> list[int]:
    if (body.prompt is None) == (body.messages is None):
        raise InvalidRequest("Give either prompt or messages.", field="prompt")
    if body.prompt is not None:
        return serving.backend.tokenize(body.prompt, body.add_special_tokens is not False)
    options = dict(body.chat_template_kwargs or {})
    if body.add_generation_prompt is not None:
        options["add_generation_prompt"] = body.add_generation_prompt
    return serving.backend.render(fields["messages"], **options)
