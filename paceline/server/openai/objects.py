"""What OpenAI's endpoints answer, as /openapi.json describes it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from paceline.server.common.fields import KeptTokens

# -- chat and completions


class CachedTokens(KeptTokens):
    cached_tokens: int


class CompletionDetails(BaseModel):
    reasoning_tokens: int
    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: CompletionDetails


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


# -- responses


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
    status: Literal["queued", "in_progress", "completed", "incomplete", "cancelled", "failed"]
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
