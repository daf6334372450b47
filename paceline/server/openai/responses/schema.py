"""What clients of /v1/responses send, field by field. Items and tools are read in modules of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import WithJsonSchema

from paceline.conversation.grammar import GrammarSpec
from paceline.errors import InvalidRequest, Unsupported
from paceline.server.common.fields import (
    CONTENT,
    EFFORTS,
    OTHER_PART,
    Lenient,
    Many,
    Metadata,
    thinking_options,
    with_effort,
)
from paceline.server.common.refused_fields import NOTHING
from paceline.server.common.tools import FUNCTION_OPTIONS
from paceline.server.http.openapi import TEXT, list_of, object_of
from paceline.server.openai import message_options
from paceline.server.openai.sampling import chat_sampling, format_grammar, response_grammar, verbosity_options
from paceline.server.openai.schema import FORMAT_OPTIONS, ROLE, ChatBody, SamplingFields, TemplateOptions
from paceline.server.state import AppState
from paceline.types import Sampling

ITEMS = {
    "anyOf": [TEXT, list_of({"anyOf": [object_of({"role": ROLE, "content": CONTENT}), OTHER_PART]}), {"type": "null"}]
}
LOGPROBS = "message.output_text.logprobs"
ENCRYPTED = "reasoning.encrypted_content"
# What else may be asked for belongs to items that this server never makes, or gives anyway.
INCLUDABLE = (
    LOGPROBS,
    ENCRYPTED,
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
)
Summary = Literal["auto", "concise", "detailed"]


class ReasoningField(Lenient):
    effort: str | None = None
    summary: Summary | None = None
    generate_summary: Summary | None = None  # the older name
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    mode: Literal["standard"] | None = None


class TextField(Lenient):
    format: Any = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ResponsesBody(SamplingFields):
    options_of = {
        "text.format": FORMAT_OPTIONS,
        "tools function": FUNCTION_OPTIONS | {"type", "defer_loading"},
        "input": message_options.ITEM,
        **message_options.parts_of("input.content"),
    }
    input: Annotated[Any, WithJsonSchema(ITEMS)] = None
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    background: bool | None = None
    conversation: Any = None  # an id, or an object with one
    include: Many[str] | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None  # of tools that the server runs, of which there are none
    metadata: Metadata | None = None
    parallel_tool_calls: bool | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    text: TextField | None = None
    reasoning: ReasoningField | None = None
    top_logprobs: int | None = None
    truncation: Literal["auto", "disabled"] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    chat_template_kwargs: TemplateOptions = None
    enable_thinking: bool | None = None
    structured_outputs: Any = None


UNSUPPORTED_IN_RESPONSES: Mapping[str, tuple[Any, ...]] = {
    "prompt": (None,),
    "context_management": (None, []),
    "moderation": (None,),
    "service_tier": (None, "auto", "default"),
    "n": (None, 1),
    "messages": (None,),
    "max_tokens": (None,),
    "n_predict": (None,),
    "max_completion_tokens": (None,),
    "response_format": (None,),
    "reasoning_effort": (None,),
    "logprobs": NOTHING,
    "echo": NOTHING,
    "prompt_logprobs": (None,),
    "logprob_token_ids": (None, []),
    "return_tokens_as_token_ids": NOTHING,
    "return_token_ids": NOTHING,
    "best_of": (None, 1),
    "previous_input_messages": (None, []),
}


MAX_NESTED = 128  # levels of a schema


def check_nesting(fields: Mapping[str, Any]) -> None:
    """What is given back is written once more, by code that calls itself for every level."""
    for name in ("tools", "tool_choice", "text"):
        level = [fields.get(name)]
        for _ in range(MAX_NESTED):
            level = [inner for value in level for inner in _inside(value)]
        if level:
            raise InvalidRequest.at(name, f"is nested too deeply: more than {MAX_NESTED} levels.")


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def includes(body: ResponsesBody) -> frozenset[str]:
    for index, name in enumerate(body.include or ()):
        if name not in INCLUDABLE:
            raise InvalidRequest.at(f"include[{index}]", f"is {name!r}, which is unknown.")
    return frozenset(body.include or ())


def wants_logprobs(body: ResponsesBody) -> bool:
    return bool(body.top_logprobs) or LOGPROBS in includes(body)


def sampling(body: ResponsesBody, fields: Mapping[str, Any], state: AppState) -> Sampling:
    options = fields.get("stream_options")
    if isinstance(options, Mapping) and options.get("include_obfuscation"):
        raise Unsupported.at("stream_options.include_obfuscation", "is not supported by this server yet; leave it out.")
    most, context = body.max_output_tokens, state.backend.context_length
    if most is not None and not 1 <= most <= context:
        raise InvalidRequest.at("max_output_tokens", f"is {most}; it must lie between 1 and {context}.")
    shared = {name: getattr(body, name) for name in SamplingFields.model_fields}
    shared |= {"max_tokens": most, "logprobs": wants_logprobs(body), "top_logprobs": body.top_logprobs}
    effort = body.reasoning.effort if body.reasoning else None
    return with_effort(chat_sampling(ChatBody.model_construct(messages=[], **shared), state), state, effort)


def grammar(body: ResponsesBody, fields: Mapping[str, Any]) -> GrammarSpec | None:
    asked = format_grammar(body.text.format if body.text else None, "text.format")
    other = response_grammar({name: value for name, value in fields.items() if name != "response_format"})
    if asked is not None and other is not None:
        raise InvalidRequest(f"text.format and {other.field} cannot be asked for together.", field=other.field)
    return asked or other


def template_settings(body: ResponsesBody, state: AppState) -> dict[str, Any]:
    """The template's options. An effort that it has no levels for is no error here: agents always send one."""
    template = state.backend.tokenizer.chat_template or ""
    effort = body.reasoning.effort if body.reasoning else None
    if effort is not None and effort not in EFFORTS:
        raise InvalidRequest.at("reasoning.effort", f"is {effort!r}; it must be one of {', '.join(EFFORTS)}.")
    if "reasoning_effort" not in template and "enable_thinking" not in template:
        effort = None  # a budget, if the model thinks
    options = thinking_options(state, effort, body.enable_thinking)
    options |= verbosity_options(state, body.text.verbosity if body.text else None, "text.verbosity")
    return {**options, **(body.chat_template_kwargs or {})}
