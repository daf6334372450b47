"""What clients send, field by field. What is not here is tolerated; what is, is honoured or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from paceline.conversation.template import RESERVED_TEMPLATE_OPTIONS
from paceline.errors import InvalidRequest
from paceline.server.common.fields import CONTENT, FORMATS, GUIDED, Lenient, Many, Priority, RequestBody
from paceline.server.common.refused_fields import NOTHING
from paceline.server.common.tools import FUNCTION_OPTIONS
from paceline.server.http.openapi import TEXT, list_of, object_of
from paceline.server.openai import message_options
from paceline.types import MAX_DRAFTED, Speculation

# What requests hold, as /openapi.json describes it; it is checked where it is read.
NUMBERS = list_of({"type": "integer"}, minItems=1)
PROMPT = {"anyOf": [TEXT, list_of(TEXT, minItems=1), NUMBERS, list_of(NUMBERS, minItems=1)]}
STOP = {"anyOf": [TEXT, list_of(TEXT), {"type": "null"}]}
ROLE = {"enum": ["system", "developer", "user", "assistant", "tool", "function"]}
MESSAGES = list_of(object_of({"role": ROLE}, content={"anyOf": [CONTENT, {"type": "null"}]}), minItems=1)


def one_or_many(value: Any) -> Any:
    if not isinstance(value, str | list | None):
        raise ValueError("must be text or a list of texts")
    return [value] if isinstance(value, str) else value


def _template_options(value: Any) -> Any:
    if isinstance(value, dict) and (reserved := RESERVED_TEMPLATE_OPTIONS & value.keys()):
        raise ValueError(f"{sorted(reserved)[0]} cannot be set here")
    if isinstance(value, dict) and not isinstance(value.get("enable_thinking"), bool | None):
        field = "chat_template_kwargs.enable_thinking"  # any text is true to a template, "false" as well
        raise InvalidRequest.at(field, "must be true or false.")
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
        raise ValueError(f'must be "off", "auto" or a number from 1 to {MAX_DRAFTED}')
    return value


def _are_token_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) is int for item in value)


class StreamOptions(Lenient):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None  # vLLM's: with include_usage, usage so far on every chunk


class Prediction(Lenient):
    """What the answer may look like: a hint, which changes nothing but the time."""

    type: Literal["content"]
    content: Any


FORMAT_OPTIONS = frozenset({"type", "name", "schema", "strict", "description"})


class SamplingFields(RequestBody):
    """What /v1/chat/completions and /v1/completions have in common."""

    formats = (*GUIDED, *FORMATS)
    options_of: ClassVar[Mapping[str, frozenset[str]]] = {
        "response_format": FORMAT_OPTIONS | {"json_schema"},
        "response_format.json_schema": FORMAT_OPTIONS,
    }
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
    speculation_method: str | None = None  # the service knows what it may be
    specprefill: bool | None = None  # prefill a long prompt sparsely
    specprefill_keep_pct: float | None = None  # share of it that is read
    cache: bool | None = None  # false: neither use nor feed the prefix cache
    cache_salt: Annotated[str, Field(min_length=1, max_length=256)] | None = None  # vLLM's
    priority: Priority | None = None  # vLLM's
    # vLLM's
    allowed_token_ids: Annotated[Many[int], Field(max_length=65536)] | None = None
    bad_words: Annotated[Many[str], Field(max_length=1024)] | None = None
    include_stop_str_in_output: bool | None = None
    truncate_prompt_tokens: int | None = None  # only the last ones are taken; -1: as many as there is room for
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None  # logprobs name a token "token_id:5", not by its text
    prompt_logprobs: int | None = None
    logprob_token_ids: Annotated[Many[int], Field(max_length=1024)] | None = None
    thinking_token_budget: Annotated[int, Field(ge=-1)] | None = None  # reasoning tokens
    thinking_budget: Annotated[int, Field(ge=-1)] | None = None  # Qwen's name of it
    # llama.cpp's
    typical_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: Annotated[Many[str], Field(max_length=1024)] | None = None
    repeat_penalty: float | None = None  # repetition_penalty
    repeat_last_n: int | None = None
    n_predict: Annotated[int, Field(ge=-1)] | None = None  # max_tokens
    cache_prompt: bool | None = None  # cache
    grammar: str | None = None  # GBNF
    json_schema: Any = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class ChatBody(SamplingFields):
    options_of = {
        **SamplingFields.options_of,
        "messages": message_options.MESSAGE,
        **message_options.parts_of("messages.content"),
        "tools": message_options.TOOL,
        "tools.function": FUNCTION_OPTIONS,
        "thinking": frozenset({"type", "budget_tokens"}),
    }
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
    include_reasoning: bool | None = None  # vLLM's, like the rest but one
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: str | None = None
    echo: bool | None = None
    prediction: Prediction | None = None  # OpenAI's
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None  # there is one tier
    user: str | None = None


class CompletionBody(SamplingFields):
    prompt: Annotated[list[str] | list[list[int]], BeforeValidator(prompts), WithJsonSchema(PROMPT)]
    logprobs: int | None = None
    echo: bool | None = None
    best_of: int | None = None
    suffix: str | None = None
    user: str | None = None


# Fields that only one of the two endpoints knows.
UNSUPPORTED_IN_CHAT: Mapping[str, tuple[Any, ...]] = {
    "best_of": (None, 1),
    "add_special_tokens": NOTHING,
}
UNSUPPORTED_IN_COMPLETIONS: Mapping[str, tuple[Any, ...]] = {
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "reasoning_effort": (None,),
    "prompt_embeds": (None,),
    "add_special_tokens": (None, True),
}
