"""/v1/rerank, in Jina's and Cohere's form: documents in the order of their relevance to a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from paceline.errors import InvalidRequest
from paceline.server.common.embed import Asker, check_count
from paceline.server.common.fields import Many, Priority, RequestBody, read_request
from paceline.server.common.refused_fields import NOTHING
from paceline.server.common.relevance import relevance
from paceline.server.http.openapi import TEXT, body_schema, list_of, object_of, returns
from paceline.server.http.response import unless_disconnected
from paceline.server.openai.embeddings import PromptUsage
from paceline.server.openai.envelope import Envelope
from paceline.server.state import AppState

UNSUPPORTED_IN_RERANK: Mapping[str, tuple[Any, ...]] = {
    "max_chunks_per_doc": (None,),
    "max_tokens_per_doc": (None,),
    "rank_fields": (None,),
    "stream": NOTHING,
    "specprefill": NOTHING,
    "specprefill_keep_pct": (None,),
}


def _texts(given: object) -> object:
    """Documents are texts, or objects with a `text`."""
    if not isinstance(given, list):
        return given
    return [document.get("text") if isinstance(document, dict) else document for document in given]


DOCUMENTS = list_of({"anyOf": [TEXT, object_of({"text": TEXT})]})


class RerankBody(RequestBody):
    query: str
    documents: Annotated[Many[str], BeforeValidator(_texts), WithJsonSchema(DOCUMENTS)]
    top_n: int | None = None
    return_documents: bool | None = None
    instruction: str | None = None
    user: str | None = None
    priority: Priority | None = None


class RankedText(BaseModel):
    text: str


class RankedDocument(BaseModel):
    index: int
    relevance_score: float
    document: RankedText | None = None  # with `return_documents`


class Ranking(BaseModel):
    id: str
    model: str
    results: list[RankedDocument]
    usage: PromptUsage


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.post("/v2/rerank", openapi_extra=body_schema(RerankBody), responses=returns(Ranking))  # Cohere's path
    @router.post("/v1/rerank", openapi_extra=body_schema(RerankBody), responses=returns(Ranking))
    async def rerank(request: Request) -> Response:
        body, _ = await read_request(state, request, RerankBody, UNSUPPORTED_IN_RERANK)
        if not body.documents:
            raise InvalidRequest.at("documents", "is empty.")
        check_count("documents", len(body.documents))
        if body.top_n is not None and body.top_n < 1:
            raise InvalidRequest.at("top_n", f"is {body.top_n}; it must be at least 1.")
        envelope = Envelope("rerank", state.answers_as(body.model))
        pairs = [(body.query, document) for document in body.documents]
        asker = Asker(envelope.id, body.user, body.priority, state.lora_of(body.model))
        scoring = relevance(state, asker, pairs, ("query", "documents"), body.instruction)
        scores, usage = await unless_disconnected(request.receive, scoring)
        order = sorted(range(len(scores)), key=lambda place: -scores[place])[: body.top_n]
        results = [_result(place, scores[place], body) for place in order]
        return JSONResponse({"id": envelope.id, "model": envelope.model, "results": results, "usage": usage})

    return router


def _result(place: int, score: float, body: RerankBody) -> dict[str, Any]:
    result: dict[str, Any] = {"index": place, "relevance_score": score}
    return {**result, "document": {"text": body.documents[place]}} if body.return_documents else result
