"""/api/embed, and its older form /api/embeddings."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from paceline.server.common.embed import Asker, Vector, check_count, checked_size, cut, embed
from paceline.server.http.openapi import body_schema, returns
from paceline.server.http.response import encode_json, unless_disconnected
from paceline.server.ollama.schema import EmbedBody, EmbeddingsBody, checked_options, read
from paceline.server.state import AppState
from paceline.types import RequestId


class Embeddings(BaseModel):
    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class Embedding(BaseModel):
    embedding: list[float]


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.post("/api/embed", openapi_extra=body_schema(EmbedBody), responses=returns(Embeddings))
    async def create_embeddings(request: Request) -> Response:
        began = time.perf_counter_ns()
        body, _ = await read(state, request, EmbedBody, {})
        checked_options(body.options, state)
        check_count("input", len(body.input))
        size = checked_size(state, body.dimensions)
        texts = [text for text in body.input if text]
        inputs: list[str | list[int]] = list(texts)
        if body.truncate is not False:
            inputs = await asyncio.to_thread(truncated, state, texts)
        vectors, count = await unless_disconnected(request.receive, _embedded(state, inputs, "input", body.model))
        head = {"model": state.answers_as(body.model), "load_duration": 0, "prompt_eval_count": count}
        # In a thread: as text, thousands of vectors take seconds that no stream has to wait for.
        written = await asyncio.to_thread(_written, [cut(vector, size) for vector in vectors])
        rest = encode_json({**head, "total_duration": time.perf_counter_ns() - began})
        return Response(f'{{"embeddings":{written},{rest[1:]}'.encode(), media_type="application/json")

    @router.post("/api/embeddings", openapi_extra=body_schema(EmbeddingsBody), responses=returns(Embedding))
    async def create_embedding(request: Request) -> Response:
        body, _ = await read(state, request, EmbeddingsBody, {})
        checked_options(body.options, state)
        texts = [body.prompt] if body.prompt else []
        inputs = await asyncio.to_thread(truncated, state, texts)
        vectors, _ = await unless_disconnected(request.receive, _embedded(state, inputs, "prompt", body.model))
        numbers = encode_json(vectors[0].tolist()) if vectors else "[]"
        return Response(f'{{"embedding":{numbers}}}'.encode(), media_type="application/json")

    return router


async def _embedded(
    state: AppState, inputs: Sequence[str | list[int]], field: str, model: str | None
) -> tuple[list[Vector], int]:
    if not inputs:  # to nothing: Ollama only loads the model then
        return [], 0
    request_id = RequestId(f"ollama-{uuid.uuid4().hex}")
    texts = [(field, given) for given in inputs]
    vectors, usage = await embed(state, Asker(request_id, lora=state.lora_of(model)), texts)
    return vectors, usage["prompt_tokens"]


def truncated(state: AppState, texts: Sequence[str]) -> list[str | list[int]]:
    """The texts; of one that is longer than the context its first tokens, as Ollama does unless told not to.

    Tokens that the model wants around a text stay around it. Blocks its thread.
    """
    backend = state.backend
    most = backend.context_length - 1
    inputs: list[str | list[int]] = []
    for text in texts:
        if len(text.encode(errors="replace")) < most:  # a token has at least a byte
            inputs.append(text)
            continue
        whole, bare = backend.tokenize(text), backend.tokenize(text, False)
        around = len(whole) - len(bare)
        if len(whole) <= most or around < 0:
            inputs.append(text)
            continue
        front = next((at for at in range(around + 1) if whole[at : at + len(bare)] == bare), 0)
        inputs.append([*whole[:front], *bare[: most - around], *whole[len(whole) - (around - front) :]])
    return inputs


def _written(vectors: Sequence[Vector]) -> str:
    return f"[{','.join(encode_json(vector.tolist()) for vector in vectors)}]"
