"""What clients send, field by field. What is not here is tolerated; what is, is honoured or refused.

Types are strict (the string "0.5" is not a number), null means "not given", NaN and infinity are never valid.
Ranges are not checked here but by the service, for every caller alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from paceline.conversation.template import RESERVED_TEMPLATE_OPTIONS
from paceline.engine.request import MOST_DRAFTED, Speculation
from paceline.errors import InvalidRequest
from paceline.server.http.openapi import MESSAGES, PROMPT, STOP

Item = TypeVar("Item")
Many = Annotated[list[Item], Field(fail_fast=True)]  # the first wrong item is enough: there may be a million


def one_or_many(value: Any) -> Any:
    if not isinstance(value, str | list | None):
        raise ValueError("must be text or a list of texts")
    return [value] if isinstance(value, str) else value


def _template_options(value: Any) -> Any:
    if isinstance(value, dict) and (reserved := RESERVED_TEMPLATE_OPTIONS & value.keys()):
        raise ValueError(f"{sorted(reserved)[0]} cannot be set here")
    if isinstance(value, dict) and not isinstance(value.get("enable_thinking"), bool | None):
        field = "chat_template_kwargs.enable_thinking"  # any text is true to a template, "false" as well
        raise InvalidRequest(f"{field} must be true or false.", field=field)
    return value


TemplateOptions = Annotated[dict[str, Any] | None, BeforeValidator(_template_options)]


def prompts(value: Any) -> Any:
    """Text, token ids, or a list of either: always as a list of prompts."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value:
        raise ValueError("must be text, a list of token ids, or a list of one of these, and not empty")
    if _are_token_ids(value):
        return [value]
    if not all(isinstance(prompt, str) for prompt in value) and not all(map(_are_token_ids, value)):
        raise ValueError("must hold only texts, only token ids, or only lists of token ids, none empty")
    return value


def _speculation(value: Any) -> Any:
    """Checked before the union is: its own error would name a member of it, not the field."""
    if value not in (None, "off", "auto") and type(value) is not int:
        raise ValueError(f'must be "off", "auto" or a number from 1 to {MOST_DRAFTED}')
    return value


def _are_token_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) is int for item in value)


Priority = Annotated[int, Field(ge=-1000, le=1000)]  # lower comes first, where the policy goes by it


class Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class StreamOptions(Lenient):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None  # vLLM's: usage so far, on every chunk


class SamplingFields(Lenient):
    """What /v1/chat/completions and /v1/completions have in common."""

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None  # -1 and 0: off
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=1024)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    stop: Annotated[Many[str] | None, BeforeValidator(one_or_many), WithJsonSchema(STOP)] = None
    stop_token_ids: Annotated[Many[int], Field(max_length=1024)] | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    speculation: Annotated[Speculation | None, BeforeValidator(_speculation)] = None
    specprefill: bool | None = None  # read a long prompt sparsely
    specprefill_keep_pct: float | None = None  # share of it that is read
    cache: bool | None = None  # false: neither use nor feed the prefix cache
    cache_salt: Annotated[str, Field(min_length=1, max_length=256)] | None = None  # vLLM's
    priority: Priority | None = None  # vLLM's
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class ChatBody(SamplingFields):
    messages: Annotated[list[Any], WithJsonSchema(MESSAGES)]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    chat_template_kwargs: TemplateOptions = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    response_format: Any = None
    structured_outputs: Any = None
    reasoning_effort: str | None = None
    reasoning: Any = None  # OpenRouter's
    thinking: Any = None  # GLM's
    enable_thinking: bool | None = None
    verbosity: str | None = None
    user: str | None = None


class CompletionBody(SamplingFields):
    prompt: Annotated[list[str] | list[list[int]], BeforeValidator(prompts), WithJsonSchema(PROMPT)]
    logprobs: int | None = None
    echo: bool | None = None
    best_of: int | None = None
    user: str | None = None


class TokenizeBody(Lenient):
    """vLLM's: either a prompt or messages."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Any] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    return_token_strs: bool | None = None
    chat_template_kwargs: TemplateOptions = None


class DetokenizeBody(Lenient):
    model: str | None = None
    tokens: Many[int]


# Known fields that are not built yet: each with the values that ask for nothing.
NOTHING = (None, False)
UNSUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "audio": (None,),
    "modalities": (None, ["text"]),
    "prediction": (None,),
    "web_search_options": (None,),
    "suffix": (None, ""),
    "use_beam_search": NOTHING,
    "length_penalty": (None, 1),
    "include_stop_str_in_output": NOTHING,
    "allowed_token_ids": (None, []),
    "bad_words": (None, []),
    "logits_processors": (None, []),
    "truncate_prompt_tokens": (None,),
    "chat_template": (None,),
    "documents": (None, []),
    "continue_final_message": NOTHING,
    "return_token_ids": NOTHING,
    "return_tokens_as_token_ids": NOTHING,
}
# Fields that only one of the two endpoints knows.
UNSUPPORTED_IN_CHAT: Mapping[str, tuple[Any, ...]] = {
    "echo": NOTHING,
    "prompt_logprobs": (None,),
    "best_of": (None, 1),
    "add_generation_prompt": (None, True),
    "add_special_tokens": NOTHING,
}
UNSUPPORTED_IN_COMPLETIONS: Mapping[str, tuple[Any, ...]] = {
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "reasoning_effort": (None,),
    "prompt_logprobs": (None,),
    "prompt_embeds": (None,),
    "add_special_tokens": (None, True),
}


# Why a field that is known elsewhere can mean nothing here.
NO_EFFECT = dict.fromkeys(
    ("specprefill", "specprefill_keep_pct"), "has no effect here: vectors and scores need all of the text"
)
GUIDED = ("guided_json", "guided_regex", "guided_choice", "guided_grammar")


def refuse_unsupported(fields: Mapping[str, Any], more: Mapping[str, tuple[Any, ...]]) -> None:
    """A field that would change the answer is refused by name: silence would be a wrong answer."""
    for name, value in fields.items():
        harmless = UNSUPPORTED.get(name, more.get(name))
        if harmless is None and name.startswith("guided_") and name not in GUIDED:
            harmless = (None,)
        if harmless is not None and value not in harmless:
            reason = NO_EFFECT.get(name, "is not supported by this server yet")
            raise InvalidRequest(
                f"{name} {reason}; leave it out.",
                field=name,
                code="unsupported_parameter",
            )
