"""/v1/score, vLLM's: how alike two texts are, as the cosine of their embeddings."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from paceline.errors import InvalidRequest
from paceline.server.common.fields import Many, Priority, RequestBody, read_request
from paceline.server.http.disconnect import unless_disconnected
from paceline.server.http.openapi import TEXT, described_by, gives, list_of
from paceline.server.openai.embeddings import UNSUPPORTED_IN_EMBEDDINGS, PromptUsage, check_count, embed
from paceline.server.openai.envelope import Envelope
from paceline.server.openai.schema import one_or_many
from paceline.server.state import AppState

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

    @router.post("/v1/score", openapi_extra=described_by(ScoreBody), responses=gives(ScoreList))
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
        envelope = Envelope("score", state.model_name)
        texts = [*(("text_1", text) for text in ones), *(("text_2", text) for text in others)]
        embedding = embed(state, envelope.id, texts, body.user, body.priority or 0)
        vectors, usage = await unless_disconnected(request.receive, embedding)
        first, second = np.stack(vectors[: len(ones)]), np.stack(vectors[len(ones) :])
        scores = np.einsum("ij,ij->i", np.broadcast_to(first, second.shape), second)
        data = [{"index": place, "object": "score", "score": float(score)} for place, score in enumerate(scores)]
        head = {"id": envelope.id, "object": "list", "created": envelope.created, "model": envelope.model}
        return JSONResponse({**head, "data": data, "usage": usage})

    return router
