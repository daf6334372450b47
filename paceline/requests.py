"""What a Python user asks the service for, and what comes back whole."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.conversation.grammar import GrammarSpec
from paceline.errors import RequestFailed
from paceline.types import Delta, FinishReason, PromptInfo, RequestId, Sampling, TokenLogprob, Usage


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to continue. `messages` are OpenAI's, images as `image_url` parts with data: URLs."""

    messages: Sequence[Mapping[str, Any]]
    sampling: Sampling = field(default_factory=Sampling)
    n: int = 1
    template_options: Mapping[str, Any] = field(default_factory=dict)
    request_id: RequestId | None = None
    cache: bool = True  # False: neither use nor feed the prefix cache
    cache_salt: str = ""  # prefixes are shared only between requests of the same salt
    tools: Sequence[Mapping[str, Any]] | None = None  # OpenAI's
    grammar: GrammarSpec | None = None  # what the answer must look like
    keep_format_tokens: bool = False  # special tokens that mark calls and reasoning are part of the text
    tenant: str = ""  # who is charged for it, under the fair policy
    priority: int = 0  # lower comes first, under the policies that use it
    announce: bool = False  # its stream begins when it is accepted, with a delta that says so
    truncate_prompt_tokens: int | None = None  # only so many of the prompt's last tokens are taken
    lora: str | None = None  # the adapter that answers, by its name; None: the model itself


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Text or token ids to continue, without a template."""

    prompt: str | Sequence[int]
    sampling: Sampling = field(default_factory=Sampling)
    n: int = 1
    request_id: RequestId | None = None
    cache: bool = True
    cache_salt: str = ""
    grammar: GrammarSpec | None = None
    keep_format_tokens: bool = False
    tenant: str = ""
    priority: int = 0
    announce: bool = False
    truncate_prompt_tokens: int | None = None
    lora: str | None = None
    suffix: str | None = None  # the answer goes between the prompt and this, where the model can do that


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """Text or token ids, to be made one vector. Computed in full: no prefix is used, and none left."""

    input: str | Sequence[int]
    request_id: RequestId | None = None
    tenant: str = ""
    priority: int = 0
    field: str = "input"  # what a complaint about it names
    lora: str | None = None


@dataclass(frozen=True, slots=True)
class Embedding:
    id: RequestId
    vector: NDArray[np.float32]  # of length 1
    usage: Usage


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


def new_request_id() -> RequestId:
    return RequestId(uuid.uuid4().hex)


async def collect(request_id: RequestId | None, stream: AsyncGenerator[Delta, None]) -> Completion:
    """A stream, read to its end. A choice that failed raises RequestFailed."""
    parts: dict[int, list[Delta]] = {}
    async with aclosing(stream):
        async for delta in stream:
            parts.setdefault(delta.index, []).append(delta)
    choices = tuple(_choice(index, deltas) for index, deltas in sorted(parts.items()))
    for choice in choices:
        if choice.finish_reason == "error":
            raise RequestFailed(choice.error or "The request failed.")
    usages = [deltas[-1].usage or Usage() for deltas in parts.values()]
    summed = ("completion_tokens", "accepted_tokens", "rejected_tokens")
    totals = {name: sum(getattr(usage, name) for usage in usages) for name in summed}
    usage = replace(usages[0], **totals)
    prompt = next(d.prompt for deltas in parts.values() for d in deltas if d.prompt is not None)
    return Completion(request_id or new_request_id(), choices, usage, prompt)


def _choice(index: int, deltas: list[Delta]) -> Choice:
    last = deltas[-1]
    return Choice(
        index,
        "".join(delta.text for delta in deltas),
        tuple(token for delta in deltas for token in delta.token_ids),
        tuple(score for delta in deltas for score in delta.logprobs),
        last.finish_reason or "abort",
        last.stop_reason,
        last.error,
    )
