"""The facade: the four public calls, for the server and for Python users alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.engine.request import Delta, FinishReason, PromptInfo, RequestId, Sampling, TokenLogprob, Usage


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to continue. `messages` are OpenAI's, pictures as `image_url` parts with data: URLs."""

    messages: Sequence[Mapping[str, Any]]
    sampling: Sampling = field(default_factory=Sampling)
    n: int = 1
    template_options: Mapping[str, Any] = field(default_factory=dict)
    request_id: RequestId | None = None


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Text or token ids to continue, without a template."""

    prompt: str | Sequence[int]
    sampling: Sampling = field(default_factory=Sampling)
    n: int = 1
    request_id: RequestId | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    index: int
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    finish_reason: FinishReason
    stop_reason: str | int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    id: RequestId
    choices: tuple[Choice, ...]
    usage: Usage
    prompt: PromptInfo


class Service:
    """See the draft contract in the helpers' brief; the body lands with the engine."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def chat(self, request: ChatRequest) -> Completion: ...
    def stream_chat(self, request: ChatRequest) -> AsyncIterator[Delta]: ...
    async def generate(self, request: GenerateRequest) -> Completion: ...
    def stream_generate(self, request: GenerateRequest) -> AsyncIterator[Delta]: ...
    def abort(self, request_id: RequestId) -> None: ...
    def stats(self) -> dict[str, Any]: ...
