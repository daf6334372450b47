"""/openapi.json: for every route what it gives, and the errors that any of them may answer with.

The models of answers say what clients may count on. Routes do not build their answers from them: a token's chunk is
written as it is. The tests compare what is sent with what is said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from paceline.server.anthropic.errors import message_error
from paceline.server.http.errors import shape_of

Answers = dict[int | str, dict[str, Any]]

ERRORS: Mapping[int, str] = {
    400: "Something in the request is wrong; the message names it.",
    401: "A key is needed, or this one is not known.",
    403: "This may not be done with this key, or from this machine.",
    404: "There is no such model, response or path.",
    405: "The path takes other methods.",
    408: "The request did not arrive in time.",
    413: "The body is too large.",
    429: "Too many requests wait already; Retry-After says when to come back.",
    431: "The address and headers are too large.",
    499: "The request was cancelled.",
    500: "The server failed on this request.",
    503: "The model is loading, the server is shutting down, or the request waited for too long.",
    504: "The request took longer than it may.",
}


def gives(model: type[BaseModel], *, streams: bool = False) -> Answers:
    """The `responses` of a route: an object, or with `stream` its events."""
    events: dict[str, Any] = {"content": {"text/event-stream": {"schema": EVENT}}} if streams else {}
    return {200: {"model": model, **events}}


class Application(FastAPI):
    """FastAPI, with a document that is true of requests which the routes read themselves."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi())
        return self.openapi_schema


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own 422, which here is a 400
        schemas.pop(unused, None)
    kinds: list[tuple[type[BaseModel], Literal["serialization"]]] = [
        (Error, "serialization"),
        (MessageError, "serialization"),
    ]
    _, errors = models_json_schema(kinds, ref_template="#/components/schemas/{model}")
    schemas.update(errors["$defs"])
    for path, operations in document["paths"].items():
        kind = "MessageError" if shape_of(path) is message_error else "Error"
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind}"}}}
        for operation in operations.values():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            schemas.update(body.pop("$defs", {}))  # its references point to where all schemas are
            answers = operation["responses"]
            answers.pop("422", None)
            for status, description in ERRORS.items():
                answers.setdefault(str(status), {"description": description, "content": content})
    return document


# -- what requests hold: described here, checked where it is read


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "properties": required | optional, "required": list(required)}


def _list(item: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, **more}


TEXT: dict[str, Any] = {"type": "string"}
NUMBERS = _list({"type": "integer"}, minItems=1)
EVENT = _object({"data": TEXT}, event=TEXT)  # of a stream
TEXT_PART = _object({"type": {"const": "text"}, "text": TEXT})
OTHER_PART = _object({"type": TEXT})  # pictures, and in Anthropic's API tool calls and their results
CONTENT = {"anyOf": [TEXT, _list(TEXT_PART), _list(OTHER_PART)]}
PROMPT = {"anyOf": [TEXT, _list(TEXT, minItems=1), NUMBERS, _list(NUMBERS, minItems=1)]}
TEXTS = {"anyOf": [TEXT, _list(TEXT)]}
STOP = {"anyOf": [TEXT, _list(TEXT), {"type": "null"}]}
ROLE = {"enum": ["system", "developer", "user", "assistant", "tool", "function"]}
MESSAGES = _list(_object({"role": ROLE}, content={"anyOf": [CONTENT, {"type": "null"}]}), minItems=1)
TURNS = _list(_object({"role": {"enum": ["user", "assistant", "system"]}, "content": CONTENT}), minItems=1)
ITEMS = {"anyOf": [TEXT, _list({"anyOf": [_object({"role": ROLE, "content": CONTENT}), OTHER_PART]}), {"type": "null"}]}


# -- errors


class ErrorFields(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class Error(BaseModel):
    """OpenAI's."""

    error: ErrorFields


class MessageErrorFields(BaseModel):
    type: str
    message: str


class MessageError(BaseModel):
    """Anthropic's."""

    type: Literal["error"]
    error: MessageErrorFields
    request_id: str


# -- OpenAI's chat and completions


class KeptTokens(BaseModel):
    specprefill_kept_tokens: int = 0  # there only where the prompt was wanted sparsely


class CachedTokens(KeptTokens):
    cached_tokens: int


class PredictedTokens(BaseModel):
    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: PredictedTokens


class CalledFunction(BaseModel):
    name: str
    arguments: str


class ToolCall(BaseModel):
    id: str
    type: Literal["function"]
    function: CalledFunction


class ChatMessage(BaseModel):
    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str = ""
    tool_calls: list[ToolCall] = []


class TopLogprob(BaseModel):
    token: str
    logprob: float
    bytes: list[int] | None


class TokenScore(TopLogprob):
    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    content: list[TokenScore]


class Choice(BaseModel):
    index: int
    finish_reason: Literal["stop", "length", "tool_calls"]
    stop_reason: str | int | None


class ChatChoice(Choice):
    message: ChatMessage
    logprobs: ChatLogprobs | None


class CompletionScores(BaseModel):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class CompletionChoice(Choice):
    text: str
    logprobs: CompletionScores | None


class Head(BaseModel):
    id: str
    created: int
    model: str
    system_fingerprint: str
    usage: Usage


class ChatCompletion(Head):
    object: Literal["chat.completion"]
    choices: list[ChatChoice]


class TextCompletion(Head):
    object: Literal["text_completion"]
    choices: list[CompletionChoice]


# -- OpenAI's responses


class Item(BaseModel):
    """A message, a call, its result or reasoning."""

    id: str
    type: str


class InputTokens(KeptTokens):
    cached_tokens: int
    cache_write_tokens: int


class OutputTokens(BaseModel):
    reasoning_tokens: int


class ResponseUsage(BaseModel):
    input_tokens: int
    input_tokens_details: InputTokens
    output_tokens: int
    output_tokens_details: OutputTokens
    total_tokens: int


class ResponseError(BaseModel):
    code: str
    message: str


class CutShort(BaseModel):
    reason: str


class ResponseObject(BaseModel):
    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["in_progress", "completed", "incomplete", "cancelled", "failed"]
    error: ResponseError | None
    incomplete_details: CutShort | None
    instructions: str | None
    metadata: dict[str, str]
    model: str
    output: list[Item]
    parallel_tool_calls: bool
    previous_response_id: str | None
    store: bool
    temperature: float
    top_p: float
    tools: list[dict[str, Any]]
    tool_choice: str | dict[str, Any]
    truncation: Literal["auto", "disabled"]
    usage: ResponseUsage | None


class ResponseInputTokens(BaseModel):
    object: Literal["response.input_tokens"]
    input_tokens: int


class DeletedResponse(BaseModel):
    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ItemList(BaseModel):
    object: Literal["list"]
    data: list[Item]
    first_id: str
    last_id: str
    has_more: bool


# -- Anthropic's messages


class ContentBlock(BaseModel):
    type: Literal["text", "thinking", "tool_use"]


class MessageUsage(KeptTokens):
    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int


class AssistantMessage(BaseModel):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ContentBlock]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]
    stop_sequence: str | None
    usage: MessageUsage


class InputTokenCount(BaseModel):
    input_tokens: int


# -- the server's own


class State(BaseModel):
    status: Literal["ok", "ready"]


class Statistics(BaseModel):
    running: int
    waiting: int


class ModelCard(BaseModel):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int


class ModelList(BaseModel):
    object: Literal["list"]
    data: list[ModelCard]


class Tokens(BaseModel):
    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class Text(BaseModel):
    prompt: str


class CancelledRequest(BaseModel):
    id: str
    object: Literal["request"]
    cancelled: Literal[True]


class Cleared(BaseModel):
    cleared: dict[str, Any]
