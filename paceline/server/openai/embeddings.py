"""/v1/embeddings: one vector for each text, pooled from the served model's hidden states.

And vLLM's /v1/score: how alike two texts are, as the cosine of their embeddings or a reranker's judgement.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from paceline.errors import InvalidRequest
from paceline.server.common.embed import Asker, Vector, check_count, checked_size, cut, embed
from paceline.server.common.fields import Many, Priority, RequestBody, read_request
from paceline.server.common.refused_fields import NOTHING
from paceline.server.common.relevance import relevance
from paceline.server.http.openapi import TEXT, body_schema, list_of, returns
from paceline.server.http.response import encode_json, unless_disconnected
from paceline.server.openai.envelope import Envelope
from paceline.server.openai.schema import PROMPT, one_or_many, prompts
from paceline.server.state import AppState

# What other servers take beside OpenAI's fields, each with the values that ask for nothing.
UNSUPPORTED_IN_EMBEDDINGS: Mapping[str, tuple[Any, ...]] = {
    "messages": (None,),
    "input_type": (None,),
    "task": (None,),
    "instruction": (None, ""),
    "add_special_tokens": (None, True),
    "normalize": (None, True),
    "use_activation": (None, True),
    "embed_dtype": (None, "float32"),
    "endianness": (None, "native", "little"),
    "stream": NOTHING,
    "specprefill": NOTHING,
    "specprefill_keep_pct": (None,),
}


class EmbeddingBody(RequestBody):
    input: Annotated[list[str] | list[list[int]], BeforeValidator(prompts), WithJsonSchema(PROMPT)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    user: str | None = None
    priority: Priority | None = None


class PromptUsage(BaseModel):
    prompt_tokens: int
    total_tokens: int


class EmbeddingItem(BaseModel):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str  # base64: float32, little-endian


class EmbeddingList(BaseModel):
    object: Literal["list"]
    data: list[EmbeddingItem]
    model: str
    usage: PromptUsage


TEXTS = {"anyOf": [TEXT, list_of(TEXT)]}
Texts = Annotated[Many[str], BeforeValidator(one_or_many), WithJsonSchema(TEXTS)]


class ScoreBody(RequestBody):
    text_1: Texts
    text_2: Texts
    user: str | None = None
    priority: Priority | None = None


class Score(BaseModel):
    index: int
    object: Literal["score"]
    score: float


class ScoreList(BaseModel):
    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[Score]
    usage: PromptUsage


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/embeddings", openapi_extra=body_schema(EmbeddingBody), responses=returns(EmbeddingList))
    async def create_embeddings(request: Request) -> Response:
        body, _ = await read_request(state, request, EmbeddingBody, UNSUPPORTED_IN_EMBEDDINGS)
        check_count("input", len(body.input))
        size = checked_size(state, body.dimensions)
        envelope = Envelope("embd", state.answers_as(body.model))
        inputs = [("input", given) for given in body.input]
        asker = Asker(envelope.id, body.user, body.priority, state.lora_of(body.model))
        vectors, usage = await unless_disconnected(request.receive, embed(state, asker, inputs))
        # In a thread, vector by vector: as text, thousands of them take seconds that no stream has to wait for.
        written = await asyncio.to_thread(_response, envelope.model, vectors, usage, size, body.encoding_format)
        return Response(written, media_type="application/json")

    @router.post("/v1/score", openapi_extra=body_schema(ScoreBody), responses=returns(ScoreList))
    async def create_score(request: Request) -> Response:
        body, _ = await read_request(state, request, ScoreBody, UNSUPPORTED_IN_EMBEDDINGS)
        ones, others = body.text_1, body.text_2
        check_count("text_1 and text_2", len(ones) + len(others))
        for field, given in (("text_1", ones), ("text_2", others)):
            if not given:
                raise InvalidRequest.at(field, "is empty.")
        if len(ones) not in (1, len(others)):
            raise InvalidRequest.at(
                "text_1", f"holds {len(ones)} texts for {len(others)} in text_2; give one, or as many."
            )
        envelope = Envelope("score", state.answers_as(body.model))
        pairs = [(ones[0] if len(ones) == 1 else ones[place], other) for place, other in enumerate(others)]
        asker = Asker(envelope.id, body.user, body.priority, state.lora_of(body.model))
        scoring = relevance(state, asker, pairs, ("text_1", "text_2"))
        scores, usage = await unless_disconnected(request.receive, scoring)
        data = [{"index": place, "object": "score", "score": score} for place, score in enumerate(scores)]
        head = {"id": envelope.id, "object": "list", "created": envelope.created, "model": envelope.model}
        return JSONResponse({**head, "data": data, "usage": usage})

    return router


def _response(
    model: str, vectors: Sequence[Vector], usage: Mapping[str, int], size: int | None, form: str | None
) -> bytes:
    items = ",".join(
        encode_json({"object": "embedding", "index": place, "embedding": _written(cut(vector, size), form)})
        for place, vector in enumerate(vectors)
    )
    rest = encode_json({"model": model, "usage": usage})
    return f'{{"object":"list","data":[{items}],{rest[1:]}'.encode()


def _written(vector: Vector, form: str | None) -> str | list[float]:
    if form == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.tolist()
    return numbers
