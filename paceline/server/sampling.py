"""From a request's fields to the engine's `Sampling`, with the limits that depend on model and settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paceline.engine.request import Sampling
from paceline.errors import InvalidRequest
from paceline.server.backend import Serving
from paceline.server.schema import ChatBody, CompletionBody, SamplingFields

DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's, for /v1/completions only
MAX_LOGIT_BIAS = 1024
MAX_STOP_LENGTH = 1024
MAX_STOP_TOKEN_IDS = 1024


def chat_sampling(body: ChatBody, serving: Serving) -> Sampling:
    if body.top_logprobs and not body.logprobs:
        raise InvalidRequest("top_logprobs needs logprobs: true.", field="top_logprobs")
    limit = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    return _sampling(
        body,
        serving,
        max_tokens=_tokens_limit(getattr(body, limit), limit, serving),
        logprobs=_logprobs(body.top_logprobs or 0, "top_logprobs", serving) if body.logprobs else None,
    )


def completion_sampling(body: CompletionBody, serving: Serving) -> Sampling:
    max_tokens = DEFAULT_COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    if max_tokens == 0 and not body.echo:
        raise InvalidRequest(
            "max_tokens: 0 asks for nothing; only with echo (scoring the prompt) does it make sense.",
            field="max_tokens",
        )
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise InvalidRequest("best_of other than n is not supported by this server yet.", field="best_of")
    logprobs = None if body.logprobs is None else _logprobs(body.logprobs, "logprobs", serving)
    return _sampling(
        body,
        serving,
        max_tokens=_tokens_limit(max_tokens, "max_tokens", serving),
        logprobs=logprobs,
        prompt_logprobs=logprobs if body.echo else None,
    )


def choices(body: SamplingFields, serving: Serving) -> int:
    n = body.n or 1
    if n > serving.settings.max_choices:
        raise InvalidRequest(
            f"n is {n}, and at most {serving.settings.max_choices} choices are allowed.", field="n"
        )
    return n


def check_token_ids(ids: Iterable[int], field: str, serving: Serving) -> None:
    vocab_size = serving.backend.tokenizer.vocab_size
    for token_id in ids:
        if not 0 <= token_id < vocab_size:
            raise InvalidRequest(
                f"{field} holds {token_id}, which is no token id of this model (0 to {vocab_size - 1}).",
                field=field,
            )


def _sampling(body: SamplingFields, serving: Serving, **more: Any) -> Sampling:
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest("stream_options needs stream: true.", field="stream_options")
    given = {
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": None if body.top_k is None else max(body.top_k, 0),
        "min_p": body.min_p,
        "repetition_penalty": body.repetition_penalty,
        "presence_penalty": body.presence_penalty,
        "frequency_penalty": body.frequency_penalty,
        "logit_bias": _logit_bias(body.logit_bias or {}, serving),
        "seed": None if body.seed is None else body.seed % 2**64,
        "min_tokens": body.min_tokens,
        "stop": _stop(body.stop or [], serving),
        "stop_token_ids": _stop_token_ids(body.stop_token_ids or [], serving),
        "ignore_eos": body.ignore_eos,
        "skip_special_tokens": body.skip_special_tokens,
        **more,
    }
    return Sampling(**{name: value for name, value in given.items() if value is not None})


def _tokens_limit(asked: int | None, field: str, serving: Serving) -> int | None:
    context = serving.backend.context_length
    if asked is not None and asked > context:
        raise InvalidRequest(
            f"{field} is {asked}, and this model's context is {context} tokens.", field=field
        )
    return asked


def _logprobs(asked: int, field: str, serving: Serving) -> int:
    most = serving.settings.max_logprobs
    if asked > most:
        raise InvalidRequest(f"{field} is {asked}, and at most {most} are allowed.", field=field)
    return asked


def _logit_bias(bias: dict[str, float], serving: Serving) -> dict[int, float]:
    if len(bias) > MAX_LOGIT_BIAS:
        raise InvalidRequest(
            f"logit_bias has {len(bias)} entries, and at most {MAX_LOGIT_BIAS} are allowed.",
            field="logit_bias",
        )
    by_id = {}
    for key, value in bias.items():
        if not key.isascii() or not key.isdigit() or len(key) > 10:
            raise InvalidRequest(
                f"logit_bias has the key {key[:40]!r}, which is no token id.", field="logit_bias"
            )
        by_id[int(key)] = value
    check_token_ids(by_id, "logit_bias", serving)
    return by_id


def _stop(stop: list[str], serving: Serving) -> tuple[str, ...]:
    most = serving.settings.max_stop_strings
    if len(stop) > most:
        raise InvalidRequest(f"stop has {len(stop)} strings, and at most {most} are allowed.", field="stop")
    if not all(stop):
        raise InvalidRequest("stop must not hold an empty string.", field="stop")
    if any(len(text) > MAX_STOP_LENGTH for text in stop):
        raise InvalidRequest(f"A stop string may have at most {MAX_STOP_LENGTH} characters.", field="stop")
    return tuple(stop)


def _stop_token_ids(ids: list[int], serving: Serving) -> tuple[int, ...]:
    if len(ids) > MAX_STOP_TOKEN_IDS:
        raise InvalidRequest(
            f"stop_token_ids has {len(ids)} entries, and at most {MAX_STOP_TOKEN_IDS} are allowed.",
            field="stop_token_ids",
        )
    check_token_ids(ids, "stop_token_ids", serving)
    return tuple(ids)
