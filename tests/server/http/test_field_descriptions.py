from __future__ import annotations

import pytest
from pydantic import BaseModel

from paceline.server.anthropic.schema import CountBody, MessagesBody
from paceline.server.http.field_descriptions import DESCRIPTIONS, describe, description_of
from paceline.server.http.openapi import body_schema
from paceline.server.ollama import schema as ollama
from paceline.server.openai.embeddings import EmbeddingBody, ScoreBody
from paceline.server.openai.loras import LoadLoraBody, UnloadLoraBody
from paceline.server.openai.models import DetokenizeBody, TokenizeBody
from paceline.server.openai.rerank import RerankBody
from paceline.server.openai.responses.schema import ResponsesBody
from paceline.server.openai.schema import ChatBody, CompletionBody

BODIES: tuple[type[BaseModel], ...] = (
    *(ChatBody, CompletionBody, ResponsesBody, MessagesBody, CountBody, EmbeddingBody, ScoreBody, TokenizeBody),
    *(DetokenizeBody, ollama.ChatBody, ollama.GenerateBody, ollama.EmbedBody, ollama.EmbeddingsBody, ollama.Options),
    *(ollama.NamedBody, RerankBody, LoadLoraBody, UnloadLoraBody),
)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: f"{body.__module__}.{body.__name__}")
def test_every_field_of_a_body_is_described_in_the_openapi_document(body: type[BaseModel]) -> None:
    schema = body_schema(body)["requestBody"]["content"]["application/json"]["schema"]
    assert [name for name, shape in schema["properties"].items() if not shape.get("description")] == []


def test_every_description_is_of_a_field_that_exists() -> None:
    kinds = {kind for body in BODIES for kind in body.__mro__ if issubclass(kind, BaseModel)}
    fields = {name for kind in kinds for field in kind.model_fields for name in (field, f"{kind.__name__}.{field}")}
    assert set(DESCRIPTIONS) - fields == set()


def test_the_entry_of_the_nearest_class_is_taken() -> None:
    assert description_of("stream", "ChatBody", "AnswerBody") == DESCRIPTIONS["AnswerBody.stream"]
    assert description_of("stream", "Other") == DESCRIPTIONS["stream"]
    assert description_of("unheard_of", "Other") is None


def test_a_description_in_the_schema_itself_is_kept() -> None:
    schema = {"properties": {"stream": {"description": "mine"}, "seed": {}, "unheard_of": {}}}
    describe("Other", schema)
    assert schema["properties"] == {
        "stream": {"description": "mine"},
        "seed": {"description": DESCRIPTIONS["seed"]},
        "unheard_of": {},
    }
