"""/v1/models: the model that is served and its adapters; and vLLM's /tokenize and /detokenize."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from paceline import generation_config
from paceline.errors import InvalidRequest
from paceline.server.common.fields import Many, RequestBody, read_request
from paceline.server.http.openapi import body_schema, returns
from paceline.server.http.response import encode_long
from paceline.server.openai.prompt_fields import prompt_options
from paceline.server.openai.sampling import toolbox
from paceline.server.openai.schema import ChatBody, TemplateOptions
from paceline.server.state import AppState


class ModelEntry(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    parent: str | None  # of an adapter: the model that it is for


class ModelCard(ModelEntry):
    max_model_len: int
    sampling_defaults: dict[str, float | None]  # what applies where a request is silent


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[ModelCard]


class TokenizeBody(RequestBody):
    """vLLM's: either a prompt or messages."""

    prompt: str | None = None
    messages: list[Any] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: str | None = None
    return_token_strs: bool | None = None
    chat_template_kwargs: TemplateOptions = None


class DetokenizeBody(RequestBody):
    tokens: Many[int]


class Tokens(BaseModel):
    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class Text(BaseModel):
    prompt: str


def routes(state: AppState) -> APIRouter:
    router = APIRouter()
    started = int(time.time())

    def model_card(name: str) -> dict[str, Any]:
        card = {"id": name, "object": "model", "created": started, "owned_by": "paceline"}
        defaults = generation_config.shown(state.backend.sampling())
        parent = state.model_name if state.lora_of(name) is not None else None
        length = state.backend.context_length
        return {**card, "max_model_len": length, "parent": parent, "sampling_defaults": defaults}

    @router.get("/v1/models", responses=returns(ModelList))
    async def list_models() -> Response:
        state.check_ready()
        names = (*state.model_names, *state.backend.loras)
        return JSONResponse({"object": "list", "data": [model_card(name) for name in names]})

    @router.get("/v1/models/{name:path}", responses=returns(ModelCard))
    async def retrieve_model(name: str) -> Response:
        state.check_ready()
        state.check_model(name)
        return JSONResponse(model_card(name))

    @router.post("/tokenize", openapi_extra=body_schema(TokenizeBody), responses=returns(Tokens))
    async def tokenize(request: Request) -> Response:
        body, fields = await read_request(state, request, TokenizeBody, {})
        # In a thread: a long text would hold up every stream.
        return Response(await asyncio.to_thread(_tokenized, state, body, fields), media_type="application/json")

    @router.post("/detokenize", openapi_extra=body_schema(DetokenizeBody), responses=returns(Text))
    async def detokenize(request: Request) -> Response:
        body, _ = await read_request(state, request, DetokenizeBody, {})
        return Response(await asyncio.to_thread(_detokenized, state, body), media_type="application/json")

    return router


def _tokenized(state: AppState, body: TokenizeBody, fields: dict[str, Any]) -> bytes:
    backend = state.backend
    ids = _tokens_of(state, body, fields)
    strings = list(map(backend.tokenizer.token_text, ids)) if body.return_token_strs else None
    head = {"count": len(ids), "max_model_len": backend.context_length}
    return encode_long({**head, "tokens": ids, "token_strs": strings})


def _detokenized(state: AppState, body: DetokenizeBody) -> bytes:
    tokenizer = state.backend.tokenizer
    unknown = next((token_id for token_id in body.tokens if not 0 <= token_id < tokenizer.vocab_size), None)
    if unknown is not None:
        raise InvalidRequest.at("tokens", f"holds {unknown}; this model's tokens are 0 to {tokenizer.vocab_size - 1}.")
    return encode_long({"prompt": tokenizer.decode(body.tokens, False)})


def _tokens_of(state: AppState, body: TokenizeBody, fields: dict[str, Any]) -> list[int]:
    if (body.prompt is None) == (body.messages is None):
        raise InvalidRequest("Give either prompt or messages.", field="prompt")
    box = toolbox(fields.get("tools"), fields.get("tool_choice"), None)
    if body.prompt is not None:
        if box.tools:
            raise InvalidRequest.at("tools", "are a part of conversations: give messages, or leave the tools out.")
        return state.backend.tokenize(body.prompt, body.add_special_tokens is not False)
    if body.add_special_tokens and state.backend.tokenize("", True):
        raise InvalidRequest.at("add_special_tokens", "is for prompts: in a conversation the template writes them.")
    ends = ("continue_final_message", "add_generation_prompt", "chat_template")
    chat = ChatBody.model_construct(messages=fields["messages"], **{name: getattr(body, name) for name in ends})
    options = {**prompt_options(state, chat), **(body.chat_template_kwargs or {})}
    return state.backend.render(fields["messages"], box.offered, **options)
