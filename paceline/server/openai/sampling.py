"""From a request's fields to what the engine and the template take: sampling, the answer's grammar, tools, reasoning.

Ranges are checked by the service, for all callers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from typing import Any, TypeVar

from paceline.conversation.grammar import GrammarSpec
from paceline.engine.limits import MAX_TOKENS
from paceline.errors import InvalidRequest, Unsupported
from paceline.server.common.fields import check_repeat_penalty, top_k_of
from paceline.server.common.refused_fields import not_supported
from paceline.server.common.tools import Toolbox, chosen, function_tools
from paceline.server.http.identity import current
from paceline.server.openai.schema import ChatBody, CompletionBody, SamplingFields
from paceline.server.state import AppState
from paceline.types import Sampling

T = TypeVar("T")
DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's, for /v1/completions only
SAME = SamplingFields.model_fields.keys() & {field.name for field in fields_of(Sampling)}  # mean the same to the engine


def chat_sampling(body: ChatBody, state: AppState) -> Sampling:
    if body.top_logprobs and not body.logprobs:
        raise InvalidRequest.at("top_logprobs", "needs logprobs: true.")
    max_tokens = token_limit(body)
    # These fields go by another name in the engine: checked here, so that the client reads the name it wrote.
    if body.max_completion_tokens is not None:
        max_tokens = body.max_completion_tokens
        _within(max_tokens, 1, state.backend.context_length, "max_completion_tokens")
    else:
        _check_n_predict(body, state)
    if body.top_logprobs is not None:
        _within(body.top_logprobs, 0, state.settings.max_logprobs, "top_logprobs")
    logprobs = (body.top_logprobs or 0) if body.logprobs else None
    return _sampling(body, state, max_tokens=max_tokens, logprobs=logprobs, prompt_logprobs=body.prompt_logprobs)


def completion_sampling(body: CompletionBody, state: AppState) -> Sampling:
    max_tokens = token_limit(body, DEFAULT_COMPLETION_TOKENS)
    _check_n_predict(body, state, 0 if body.echo else 1)
    if max_tokens == 0 and not body.echo:
        raise InvalidRequest.at(
            "max_tokens", ": 0 asks for nothing; only with echo (scoring the prompt) does it make sense."
        )
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise InvalidRequest.at("best_of", f"other than n {not_supported('best_of')}.")
    prompt_logprobs = body.logprobs if body.echo else None
    if body.prompt_logprobs is not None:
        _within(body.prompt_logprobs, 0, state.settings.max_logprobs, "prompt_logprobs")
        prompt_logprobs = max(prompt_logprobs or 0, body.prompt_logprobs)
    if max_tokens == 0 and prompt_logprobs is None:
        prompt_logprobs = 0  # the engine does nothing for a prompt unless its scores are wanted
    return _sampling(body, state, max_tokens=max_tokens, logprobs=body.logprobs, prompt_logprobs=prompt_logprobs)


def choices(body: SamplingFields) -> int:
    return 1 if body.n is None else body.n


def _sampling(body: SamplingFields, state: AppState, **more: Any) -> Sampling:
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest.at("stream_options", "needs stream: true.")
    same = {name: getattr(body, name) for name in SAME}
    given = {
        **{name: tuple(value) if isinstance(value, list) else value for name, value in same.items()},
        "top_k": top_k_of(body.top_k),
        "logit_bias": _logit_bias(body.logit_bias or {}),
        "seed": None if body.seed is None else body.seed % 2**64,
        "specprefill_keep": body.specprefill_keep_pct,
        **_other_names(body),
        **more,
    }
    return state.backend.sampling(**given)


def _check_n_predict(body: SamplingFields, state: AppState, least: int = 1) -> None:
    if body.max_tokens is None and body.n_predict not in (None, -1):
        _within(body.n_predict, least, state.backend.context_length, "n_predict")


def _within(value: int, low: int, high: int, field: str) -> None:
    if not low <= value <= high:
        raise InvalidRequest.at(field, f"is {value}; it must lie between {low} and {high}.")


def _logit_bias(bias: dict[str, float]) -> dict[int, float]:
    by_id = {}
    for key, value in bias.items():
        if not key.isascii() or not key.isdigit() or len(key) > 10:
            raise InvalidRequest.at("logit_bias", f"has the key {key[:40]!r}, which is no token id.")
        by_id[int(key)] = value
    return by_id


# -- the answer's grammar

Maker = Callable[..., GrammarSpec]
_KINDS: Mapping[str, Maker] = {
    "json": GrammarSpec.json_schema,
    "regex": GrammarSpec.regex,
    "choice": GrammarSpec.choice,
    "grammar": GrammarSpec.lark,
}


def response_grammar(fields: Mapping[str, Any]) -> GrammarSpec | None:
    """At most one of the fields may ask for something."""
    format = format_grammar(fields.get("response_format"), "response_format", "json_schema")
    asked = [spec for spec in (format, *_vllm(fields), *_llama(fields)) if spec is not None]
    if len(asked) > 1:
        names = " and ".join(str(spec.field) for spec in asked)
        raise InvalidRequest(f"{names} cannot be asked for together.", field=asked[1].field)
    return asked[0] if asked else None


def format_grammar(given: Any, field: str, inside: str = "") -> GrammarSpec | None:
    """OpenAI's formats: text, json_object, json_schema, whose schema stands in the object `inside`, if there is one."""
    if given is None:
        return None
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind in ("text", "json_object"):
        for name in {"json_schema", "schema"} if kind == "text" else {"json_schema"}:
            if given.get(name) is not None:
                raise InvalidRequest(f"{field}.{name} does not go with the type {kind}.", field=field)
    match kind:
        case "text":
            return None
        case "json_object":
            schema = given.get("schema")  # llama.cpp's and others'
            if schema is None:
                return GrammarSpec.json_object(field=field)
            if not isinstance(schema, Mapping | bool):
                raise InvalidRequest(f"{field}.schema must be a JSON schema.", field=field)
            return GrammarSpec.json_schema(schema, field=f"{field}.schema")
        case "json_schema":
            described = given.get(inside) if inside else given
            place = f"{field}.{inside}" if inside else field
            if not isinstance(described, Mapping) or not isinstance(described.get("schema"), Mapping | bool):
                raise InvalidRequest(f"{place}.schema must be a JSON schema.", field=field)
            if not isinstance(described.get("strict"), bool | None):
                raise InvalidRequest(f"{place}.strict must be true or false.", field=field)
            if not isinstance(described.get("name"), str | None):
                raise InvalidRequest(f"{place}.name must be text.", field=field)
            return GrammarSpec.json_schema(described["schema"], field=f"{place}.schema")
        case _:
            raise InvalidRequest(
                f'{field}.type is {kind!r}; it must be "text", "json_object" or "json_schema".', field=field
            )


def _vllm(fields: Mapping[str, Any]) -> list[GrammarSpec | None]:
    found: list[GrammarSpec | None] = []
    outputs = fields.get("structured_outputs")
    if outputs is not None and not isinstance(outputs, Mapping):
        raise InvalidRequest.at("structured_outputs", "must be an object.")
    for name, value in (outputs or {}).items():
        if value is None:
            continue
        if name == "json_object":
            found.append(GrammarSpec.json_object(field="structured_outputs") if value else None)
        elif name in _KINDS:
            found.append(_KINDS[name](value, field=f"structured_outputs.{name}"))
        else:
            raise Unsupported.at(f"structured_outputs.{name}", "is not supported by this server yet.")
    for name, make in _KINDS.items():
        value = fields.get(f"guided_{name}")
        if value is not None:
            found.append(make(value, field=f"guided_{name}"))
    return found


def _llama(fields: Mapping[str, Any]) -> list[GrammarSpec | None]:
    """llama.cpp's: a schema at the top level, and GBNF."""
    schema, grammar = fields.get("json_schema"), fields.get("grammar")
    return [
        None if schema is None else GrammarSpec.json_schema(schema, field="json_schema"),
        GrammarSpec.lark(grammar, field="grammar") if grammar else None,
    ]


# -- tools


def toolbox(tools: Any, choice: Any, parallel: bool | None) -> Toolbox:
    box = Toolbox(function_tools(tools), parallel=parallel is not False)
    if choice is None:
        return box
    if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
        return _allowed(box, choice.get("allowed_tools"))
    if isinstance(choice, Mapping):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        if choice.get("type") != "function" or not isinstance(name, str):
            raise InvalidRequest.at(
                "tool_choice", 'must be "none", "auto", "required" or {"type": "function", "function": {"name": ...}}.'
            )
        return chosen(box, name)
    if choice not in ("none", "auto", "required"):
        raise InvalidRequest.at("tool_choice", f'is {choice!r}; it must be "none", "auto" or "required".')
    if choice == "required" and not box.tools:
        raise InvalidRequest.at("tool_choice", "is required, and there are no tools.")
    return replace(box, choice=choice)


def _allowed(box: Toolbox, allowed: Any) -> Toolbox:
    """Only these are offered."""
    place = "tool_choice.allowed_tools"
    entries = allowed.get("tools") if isinstance(allowed, Mapping) else None
    if not isinstance(entries, list) or allowed.get("mode") not in ("auto", "required"):
        raise InvalidRequest(f'{place} must be {{"mode": "auto" or "required", "tools": [...]}}.', field="tool_choice")
    known = {tool["function"]["name"] for tool in box.tools}
    names = set()
    for index, entry in enumerate(entries):
        function = entry.get("function") if isinstance(entry, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or name not in known:
            raise InvalidRequest(f"{place}.tools[{index}] is not among the tools.", field="tool_choice")
        names.add(name)
    box = replace(box, tools=tuple(tool for tool in box.tools if tool["function"]["name"] in names))
    if allowed["mode"] == "required" and not box.tools:
        raise InvalidRequest.at("tool_choice", "is required, and there are no tools.")
    return replace(box, choice=allowed["mode"])


# -- reasoning and verbosity

VERBOSITIES = ("low", "medium", "high")
SWITCHES = {"enabled": True, "disabled": False, "auto": None}  # of `thinking`, as GLM and DeepSeek have it


def verbosity_options(state: AppState, verbosity: str | None, field: str) -> dict[str, Any]:
    if verbosity is not None and verbosity not in VERBOSITIES:
        raise InvalidRequest.at(field, f"is {verbosity!r}; it must be one of {', '.join(VERBOSITIES)}.")
    if verbosity is not None and "verbosity" in (state.backend.tokenizer.chat_template or ""):
        return {"verbosity": verbosity}
    if verbosity not in (None, "medium"):
        raise InvalidRequest.at(field, ": this model's chat template knows no levels of it; leave it out.")
    return {}


def excludes_reasoning(fields: Mapping[str, Any]) -> bool:
    """vLLM's `include_reasoning: false`, OpenRouter's `reasoning.exclude`."""
    reasoning = fields.get("reasoning")
    excluded = reasoning.get("exclude") if isinstance(reasoning, Mapping) else None
    if not isinstance(excluded, bool | None):
        raise InvalidRequest.at("reasoning.exclude", "must be true or false.")
    return excluded is True or fields.get("include_reasoning") is False


def with_budget(sampling: Sampling, fields: Mapping[str, Any]) -> Sampling:
    """OpenRouter's `reasoning.max_tokens`, and `thinking.budget_tokens` as Anthropic's clients write it."""
    budgets = {"thinking_token_budget": sampling.thinking_token_budget}
    for name, inside in (("reasoning", "max_tokens"), ("thinking", "budget_tokens")):
        given = fields.get(name)
        budget = given.get(inside) if isinstance(given, Mapping) else None
        if budget is not None and (type(budget) is not int or budget < 0):
            raise InvalidRequest.at(f"{name}.{inside}", "must be a number of tokens.")
        budgets[f"{name}.{inside}"] = budget
    return replace(sampling, thinking_token_budget=agreed(budgets))


def reasoning_asked(body: ChatBody, fields: Mapping[str, Any]) -> tuple[str | None, bool | None]:
    """Effort and thinking, also as chat clients of other servers say them: `reasoning` (OpenRouter), `thinking` (GLM).
    Raises InvalidRequest where two of them disagree."""
    reasoning, thinking = body.reasoning, body.thinking
    if reasoning is not None and not isinstance(reasoning, Mapping):
        raise InvalidRequest.at("reasoning", "must be an object.")
    for name in reasoning or {}:
        if name not in ("effort", "enabled", "exclude", "max_tokens", "summary"):
            raise Unsupported.at(f"reasoning.{name}", "is not supported by this server yet; leave it out.")
    effort, enabled = (reasoning or {}).get("effort"), (reasoning or {}).get("enabled")
    if not isinstance(effort, str | None) or not isinstance(enabled, bool | None):
        raise InvalidRequest.at("reasoning", ": effort must be text, and enabled true or false.")
    kind = thinking.get("type") if isinstance(thinking, Mapping) else None
    if thinking is not None and (not isinstance(kind, str) or kind not in SWITCHES):
        raise InvalidRequest(f"thinking.type is {kind!r}; it must be one of {', '.join(SWITCHES)}.", field="thinking")
    effort = agreed({"reasoning_effort": body.reasoning_effort, "reasoning.effort": effort})
    enabled = agreed(
        {
            "enable_thinking": body.enable_thinking,
            "reasoning.enabled": enabled,
            "thinking.type": None if kind is None else SWITCHES[kind],
            "chat_template_kwargs.enable_thinking": (body.chat_template_kwargs or {}).get("enable_thinking"),
        }
    )
    if effort == "none" and enabled:
        raise InvalidRequest.at("reasoning_effort", "is none, and thinking is asked for too; give one.")
    return effort, enabled


# -- fields that other servers have by another name


def _other_names(body: SamplingFields) -> dict[str, Any]:
    """What has another name in the engine, or another value for "off"; None where nothing is asked for."""
    budget = agreed({"thinking_token_budget": body.thinking_token_budget, "thinking_budget": body.thinking_budget})
    if body.thinking_budget is not None and body.thinking_budget > MAX_TOKENS:
        raise InvalidRequest.at("thinking_budget", f"is {body.thinking_budget}; it must be at most {MAX_TOKENS}.")
    sigma = body.top_n_sigma
    if body.allowed_token_ids is not None and not body.allowed_token_ids:
        raise InvalidRequest.at("allowed_token_ids", "is empty: it would allow nothing. Leave it out to allow all.")
    return {
        "repetition_penalty": repetition_penalty(body),
        "top_n_sigma": 0.0 if sigma is not None and sigma < 0 else sigma,  # llama.cpp: -1 is off
        "thinking_token_budget": None if budget == -1 else budget,  # vLLM: -1 is no limit
    }


def agreed(names: Mapping[str, T | None]) -> T | None:
    """The value of a field that has several names. Raises InvalidRequest where two of them disagree."""
    given = [(name, value) for name, value in names.items() if value is not None]
    for name, value in given[1:]:
        if value != given[0][1]:
            raise InvalidRequest.at(name, f"is another name of {given[0][0]}; give one.")
    return given[0][1] if given else None


def request_fields(state: AppState, body: SamplingFields, user: str | None) -> dict[str, Any]:
    """What all requests to the engine have, beside their sampling."""
    return {
        "cache": agreed({"cache": body.cache, "cache_prompt": body.cache_prompt}) is not False,
        "cache_salt": body.cache_salt or "",
        "tenant": current().tenant(user),
        "priority": body.priority or 0,
        "announce": bool(body.stream),
        "truncate_prompt_tokens": body.truncate_prompt_tokens,
        "lora": state.lora_of(body.model),
    }


def repetition_penalty(body: SamplingFields) -> float | None:
    """Ours looks back over prompt and answer; llama.cpp's window is taken where it says the same."""
    penalty = agreed({"repetition_penalty": body.repetition_penalty, "repeat_penalty": body.repeat_penalty})
    check_repeat_penalty(body.repeat_penalty, "repeat_penalty")
    if body.repeat_last_n not in (None, -1) and penalty not in (None, 1):
        raise InvalidRequest.at("repeat_last_n", "must be -1: the penalty is over all of the prompt and the answer.")
    return penalty


def token_limit(body: SamplingFields, default: int | None = None) -> int | None:
    """`max_tokens`, or llama.cpp's `n_predict`, of which -1 is as many as the context has room for."""
    if body.max_tokens is not None:
        return body.max_tokens
    if body.n_predict is None:
        return default
    return None if body.n_predict == -1 else body.n_predict
