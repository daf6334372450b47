"""Sampling fields beyond OpenAI's: vLLM's, and llama.cpp's with the names that it has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from paceline.engine.limits import MOST_TOKENS
from paceline.errors import InvalidRequest
from paceline.server.common.fields import check_repeat_penalty
from paceline.server.http.identity import current
from paceline.server.openai.schema import SamplingFields
from paceline.server.state import AppState

T = TypeVar("T")


def more_sampling(body: SamplingFields) -> dict[str, Any]:
    """What has another name in the engine, or another value for "off"; None where nothing is asked for."""
    budget = agreed({"thinking_token_budget": body.thinking_token_budget, "thinking_budget": body.thinking_budget})
    if body.thinking_budget is not None and body.thinking_budget > MOST_TOKENS:
        raise InvalidRequest.at("thinking_budget", f"is {body.thinking_budget}; it must be at most {MOST_TOKENS}.")
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
