"""From a request's fields to the engine's `Sampling`. Ranges are the service's to check, for all callers."""

from __future__ import annotations

from typing import Any

from paceline.errors import InvalidRequest
from paceline.server.openai.schema import ChatBody, CompletionBody, SamplingFields
from paceline.server.state import AppState
from paceline.types import Sampling

DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's, for /v1/completions only


def chat_sampling(body: ChatBody, state: AppState) -> Sampling:
    if body.top_logprobs and not body.logprobs:
        raise InvalidRequest.at("top_logprobs", "needs logprobs: true.")
    max_tokens = body.max_tokens
    # Two fields go by another name in the engine: checked here, so that the client reads the name it wrote.
    if body.max_completion_tokens is not None:
        max_tokens = body.max_completion_tokens
        _within(max_tokens, 1, state.backend.context_length, "max_completion_tokens")
    if body.top_logprobs is not None:
        _within(body.top_logprobs, 0, state.settings.max_logprobs, "top_logprobs")
    return _sampling(body, max_tokens=max_tokens, logprobs=(body.top_logprobs or 0) if body.logprobs else None)


def completion_sampling(body: CompletionBody) -> Sampling:
    max_tokens = DEFAULT_COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    if max_tokens == 0 and not body.echo:
        raise InvalidRequest.at(
            "max_tokens", ": 0 asks for nothing; only with echo (scoring the prompt) does it make sense."
        )
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise InvalidRequest.at("best_of", "other than n is not supported by this server yet.")
    prompt_logprobs = body.logprobs if body.echo else None
    if max_tokens == 0 and prompt_logprobs is None:
        prompt_logprobs = 0  # the engine does nothing for a prompt unless its scores are wanted
    return _sampling(body, max_tokens=max_tokens, logprobs=body.logprobs, prompt_logprobs=prompt_logprobs)


def choices(body: SamplingFields) -> int:
    return 1 if body.n is None else body.n


def _sampling(body: SamplingFields, **more: Any) -> Sampling:
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest.at("stream_options", "needs stream: true.")
    given = {
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": 0 if body.top_k == -1 else body.top_k,
        "min_p": body.min_p,
        "repetition_penalty": body.repetition_penalty,
        "presence_penalty": body.presence_penalty,
        "frequency_penalty": body.frequency_penalty,
        "logit_bias": _logit_bias(body.logit_bias or {}),
        "seed": None if body.seed is None else body.seed % 2**64,
        "min_tokens": body.min_tokens,
        "stop": tuple(body.stop or ()),
        "stop_token_ids": tuple(body.stop_token_ids or ()),
        "ignore_eos": body.ignore_eos,
        "skip_special_tokens": body.skip_special_tokens,
        "speculation": body.speculation,
        "specprefill": body.specprefill,
        "specprefill_keep": body.specprefill_keep_pct,
        **more,
    }
    return Sampling(**{name: value for name, value in given.items() if value is not None})


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
