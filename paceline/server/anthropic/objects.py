"""What /v1/messages answers, as /openapi.json describes it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from paceline.server.common.fields import KeptTokens


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
