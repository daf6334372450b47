"""What /v1/messages takes, field by field: honoured, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, WithJsonSchema

from paceline.conversation.grammar import GrammarSpec
from paceline.errors import InvalidRequest, Unsupported
from paceline.server.anthropic import message_options
from paceline.server.common.fields import (
    CONTENT,
    KeptTokens,
    Many,
    Priority,
    RequestBody,
    thinking_options,
    top_k_of,
    with_effort,
)
from paceline.server.common.tools import Toolbox, checked_function, chosen, function_tools
from paceline.server.http.openapi import list_of, object_of
from paceline.server.state import AppState
from paceline.types import Sampling

TURNS = list_of(object_of({"role": {"enum": ["user", "assistant", "system"]}, "content": CONTENT}), minItems=1)

LONGEST_STOP = 1024  # characters; the engine's own limit, where the field has another name

# Known fields that would change the answer, each with the values that ask for nothing.
UNSUPPORTED_IN_MESSAGES: Mapping[str, tuple[Any, ...]] = {
    "container": (None,),
    "mcp_servers": (None, []),
    "speed": (None, "standard"),
    "inference_geo": (None, "global"),
    "compaction": (None,),
    "thread": (None,),
}

# What a tool may have. The last two say how it is called, and every call is direct and streamed.
TOOL_OPTIONS = frozenset(
    {
        *("name", "description", "input_schema", "type", "strict", "cache_control", "input_examples", "defer_loading"),
        *("allowed_callers", "eager_input_streaming"),
    }
)

# Both only leave out what is old, to save tokens. Nothing is left out here: that would undo the prefix cache.
CLEARING_EDITS = ("clear_tool_uses_20250919", "clear_thinking_20251015")

# No template knows more than three.
EFFORTS: Mapping[str, str] = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}


class CountBody(RequestBody):
    """/v1/messages/count_tokens."""

    options_of: ClassVar[Mapping[str, frozenset[str]]] = {
        "tool_choice": frozenset({"type", "name", "disable_parallel_tool_use"}),
        "thinking": frozenset({"type", "budget_tokens", "display"}),
        "output_config": frozenset({"format", "effort", "task_budget"}),
        "context_management": frozenset({"edits"}),
        "tools": TOOL_OPTIONS,
        **message_options.OPTIONS,
    }
    messages: Annotated[list[Any], WithJsonSchema(TURNS)]
    system: Any = None
    tools: list[Any] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None  # what output_config.format was called at first
    context_management: dict[str, Any] | None = None


class MessagesBody(CountBody):
    max_tokens: Annotated[int, Field(ge=1)]
    metadata: dict[str, Any] | None = None
    service_tier: Literal["auto", "standard_only"] | None = None  # there is one tier
    stop_sequences: Many[str] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None  # ours, like the rest
    speculation: Any = None  # the service knows what it may be
    speculation_method: str | None = None
    specprefill: bool | None = None
    specprefill_keep_pct: float | None = None
    cache: bool | None = None
    cache_salt: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    priority: Priority | None = None


def user_of(body: MessagesBody) -> str | None:
    """Whom the client names as its user."""
    user = (body.metadata or {}).get("user_id")
    if user is not None and not isinstance(user, str):
        raise InvalidRequest.at("metadata.user_id", "must be text.")
    return user


def sampling_of(body: MessagesBody, state: AppState) -> Sampling:
    stops = body.stop_sequences or []
    most = state.settings.max_stop_strings
    if len(stops) > most:
        raise InvalidRequest.at("stop_sequences", f"has {len(stops)} strings; at most {most} are taken.")
    if any(not 1 <= len(stop) <= LONGEST_STOP for stop in stops):
        raise InvalidRequest.at("stop_sequences", f": each must have 1 to {LONGEST_STOP} characters.")
    given = {
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": top_k_of(body.top_k),
        "seed": None if body.seed is None else body.seed % 2**64,
        "speculation": body.speculation,
        "speculation_method": body.speculation_method,
        "specprefill": body.specprefill,
        "specprefill_keep": body.specprefill_keep_pct,
        # Clients must send one, and know nothing of our context: more than that is as far as it goes.
        "max_tokens": min(body.max_tokens, state.backend.context_length),
        "stop": tuple(stops),
        "thinking_token_budget": budget_of(body, state),
    }
    return with_effort(state.backend.sampling(**given), state, effort_of(body))


# -- thinking and effort


@dataclass(frozen=True, slots=True)
class Thinking:
    enabled: bool | None = None  # None: the template decides
    omitted: bool = False  # the client wants none of its text
    budget: int | None = None  # tokens


def thinking_of(given: Mapping[str, Any] | None) -> Thinking:
    if given is None:
        return Thinking()
    kinds = {"enabled": True, "disabled": False, "adaptive": None}
    kind, display, budget = given.get("type"), given.get("display"), given.get("budget_tokens")
    if not isinstance(kind, str) or kind not in kinds:
        raise InvalidRequest.at("thinking.type", f"is {kind!r}; it must be one of {', '.join(kinds)}.")
    if display not in (None, "summarized", "omitted"):
        raise InvalidRequest.at("thinking.display", f'is {display!r}; it must be "summarized" or "omitted".')
    if budget is not None and (type(budget) is not int or budget < 1):
        raise InvalidRequest.at("thinking.budget_tokens", "must be a number of tokens, at least 1.")
    return Thinking(kinds[kind], display == "omitted", budget)


def budget_of(body: CountBody, state: AppState) -> int | None:
    """Agents send one to every model: where it cannot be enforced, `max_tokens` remains."""
    return None if state.backend.no_thinking_budget else thinking_of(body.thinking).budget


def effort_of(body: CountBody) -> str | None:
    effort = (body.output_config or {}).get("effort")
    if effort is not None and (not isinstance(effort, str) or effort not in EFFORTS):
        raise InvalidRequest.at("output_config.effort", f"is {effort!r}; it must be one of {', '.join(EFFORTS)}.")
    return EFFORTS[effort] if effort else None


def template_options(body: CountBody, state: AppState) -> dict[str, Any]:
    # Agents send an effort to every model: where the template knows no levels, it is a budget, if the model thinks.
    known = "reasoning_effort" in (state.backend.tokenizer.chat_template or "")
    options = thinking_options(state, effort_of(body) if known else None, thinking_of(body.thinking).enabled)
    last = body.messages[-1] if body.messages else None
    if isinstance(last, Mapping) and last.get("role") == "assistant":  # what the assistant has begun is continued
        options |= {"add_generation_prompt": False, "continue_final_message": True}
    return options


# -- the answer's format


def grammar_of(body: CountBody) -> GrammarSpec | None:
    config = body.output_config or {}
    if config.get("task_budget") is not None:
        raise Unsupported.at("output_config.task_budget", "is not supported by this server; leave it out.")
    if config.get("format") is not None and body.output_format is not None:
        raise InvalidRequest("output_config.format and output_format are the same: give one.", field="output_format")
    field = "output_config.format" if body.output_format is None else "output_format"
    format = config.get("format") if body.output_format is None else body.output_format
    if format is None:
        return None
    schema = format.get("schema") if isinstance(format, Mapping) else None
    if not isinstance(format, Mapping) or format.get("type") != "json_schema" or not isinstance(schema, Mapping | bool):
        raise InvalidRequest.at(field, 'must be {"type": "json_schema", "schema": {...}}.')
    return GrammarSpec.json_schema(schema, field=field)


# -- what is left out of the context


def check_context_management(given: Mapping[str, Any] | None) -> None:
    edits = (given or {}).get("edits")
    if edits is not None and not isinstance(edits, list):
        raise InvalidRequest.at("context_management.edits", "must be a list.")
    for index, edit in enumerate(edits or ()):
        kind = edit.get("type") if isinstance(edit, Mapping) else None
        if kind not in CLEARING_EDITS:
            place = f"context_management.edits[{index}]"
            raise Unsupported.at(place, f"has the type {kind!r}, which is not supported by this server; leave it out.")


# -- tools


def toolbox_of(tools: list[Any] | None, choice: Mapping[str, Any] | None) -> Toolbox:
    functions = [_function(tool, f"tools[{index}]") for index, tool in enumerate(tools or ())]
    box = Toolbox(function_tools([{"type": "function", "function": function} for function in functions]))
    if choice is None:
        return box
    single = choice.get("disable_parallel_tool_use")
    if single is not None and not isinstance(single, bool):
        field = "tool_choice.disable_parallel_tool_use"
        raise InvalidRequest.at(field, "must be true or false.")
    box = replace(box, parallel=not single)
    match choice.get("type"):
        case "auto":
            return box
        case "none":
            return replace(box, choice="none")
        case "any":
            if not box.tools:
                raise InvalidRequest.at("tool_choice", "is any, and there are no tools.")
            return replace(box, choice="required")
        case "tool":
            name = choice.get("name")
            if not isinstance(name, str):
                raise InvalidRequest.at("tool_choice.name", "must be the name of a tool.")
            return chosen(box, name)
        case kind:
            raise InvalidRequest.at("tool_choice.type", f"is {kind!r}; it must be one of auto, any, tool, none.")


def _function(tool: Any, place: str) -> Mapping[str, Any]:
    """A tool as OpenAI writes it."""
    if not isinstance(tool, Mapping):
        raise InvalidRequest.at(place, "must be an object.")
    kind, schema = tool.get("type"), tool.get("input_schema")
    if schema is None and kind not in (None, "custom"):
        raise Unsupported.at(
            place,
            f"has the type {kind!r}, a tool that this server does not have. Leave it out, or describe it as a "
            "tool of your own, with an input_schema.",
        )
    if not isinstance(schema, Mapping):
        raise InvalidRequest.at(f"{place}.input_schema", "must be a JSON schema.")
    callers = tool.get("allowed_callers")
    if callers is not None and (not isinstance(callers, list) or "direct" not in callers):
        raise InvalidRequest.at(f"{place}.allowed_callers", "must have direct: there is no other caller here.")
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": schema}
    if tool.get("strict") is not None:
        function["strict"] = tool["strict"]
    function = {name: value for name, value in function.items() if value is not None}
    return _with_examples(checked_function(function, place, "input_schema"), tool.get("input_examples"), place)


def _with_examples(function: Mapping[str, Any], examples: Any, place: str) -> Mapping[str, Any]:
    """The examples of a tool's input in its description: templates have no other place for them."""
    if not examples:
        return function
    if not isinstance(examples, list):
        raise InvalidRequest.at(f"{place}.input_examples", "must be a list.")
    lines = [json.dumps(example, ensure_ascii=False) for example in examples]
    described = "\n".join([function.get("description", ""), "Examples of its input:", *lines]).strip()
    return {**function, "description": described}


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
