"""The ranges of request fields, for every caller. A value out of range is refused by name, never clamped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paceline.errors import InvalidRequest
from paceline.sparse.rules import MAX_KEEP_RATIO, MIN_KEEP_RATIO
from paceline.types import SPECULATION_METHODS, Sampling, Speculation, SpeculationMethod

MAX_TOKENS = 1 << 30
MAX_STRINGS = 64  # of bad words, and of DRY's breakers
MAX_LOGPROB_IDS = 128  # vLLM's
LONGEST_STRING = 128  # characters of one


@dataclass(frozen=True, slots=True)
class Limits:
    context_length: int
    vocab_size: int
    max_choices: int = 16
    max_stop_strings: int = 16
    max_stop_length: int = 1024
    max_logprobs: int = 20
    speculation: Speculation = "auto"  # of requests that do not say
    max_draft: int = 8
    no_head: str | None = None  # why this model cannot draft
    no_method: Mapping[SpeculationMethod, str] = field(default_factory=dict)  # why some methods cannot be had here
    no_sparse: str | None = None  # why sparse prefill is unavailable
    no_thinking_budget: str | None = None  # why the length of reasoning cannot be limited
    prefills_sparsely: bool = False  # are long prompts prefilled sparsely by default?
    eos_ids: frozenset[int] = frozenset()


def validate(sampling: Sampling, limits: Limits) -> None:
    """Raise InvalidRequest for the first field that is out of its range."""
    s = sampling
    _number("temperature", s.temperature, 0, 100)
    _number("top_p", s.top_p, 0, 1, above=True)
    _number("min_p", s.min_p, 0, 1)
    _number("typical_p", s.typical_p, 0, 1, above=True)
    _number("top_n_sigma", s.top_n_sigma, 0, 100)
    _number("xtc_probability", s.xtc_probability, 0, 1)
    _number("xtc_threshold", s.xtc_threshold, 0, 1)
    _dry(s)
    _number("repetition_penalty", s.repetition_penalty, 0, 100, above=True)
    _number("presence_penalty", s.presence_penalty, -2, 2)
    _number("frequency_penalty", s.frequency_penalty, -2, 2)
    if s.top_k < 0:
        raise InvalidRequest.at("top_k", "must be 0 (off) or more.")
    if s.max_tokens is not None and not 0 <= s.max_tokens <= limits.context_length:
        raise InvalidRequest.at(
            "max_tokens", f"is {s.max_tokens}; it must lie between 1 and the context of {limits.context_length}."
        )
    if s.max_tokens == 0 and s.prompt_logprobs is None:
        raise InvalidRequest.at("max_tokens", "must be at least 1.")
    if s.min_tokens < 0 or (s.max_tokens is not None and s.min_tokens > s.max_tokens):
        raise InvalidRequest.at("min_tokens", "must lie between 0 and max_tokens.")
    if len(s.stop) > limits.max_stop_strings:
        raise InvalidRequest.at("stop", f"has {len(s.stop)} strings; at most {limits.max_stop_strings} are taken.")
    if any(not stop or len(stop) > limits.max_stop_length for stop in s.stop):
        raise InvalidRequest(f"A stop string must have 1 to {limits.max_stop_length} characters.", field="stop")
    for token in s.stop_token_ids:
        _token("stop_token_ids", token, limits)
    for token, bias in s.logit_bias.items():
        _token("logit_bias", token, limits)
        _number("logit_bias", bias, -100, 100)
    _allowed(s, limits)
    _strings("bad_words", s.bad_words)
    if s.thinking_token_budget is not None:
        _number("thinking_token_budget", s.thinking_token_budget, 0, MAX_TOKENS)
        if limits.no_thinking_budget is not None:
            raise InvalidRequest.at("thinking_token_budget", f"cannot be had here: {limits.no_thinking_budget}.")
    asked = s.speculation
    if asked not in (None, "off", "auto") and not (type(asked) is int and 1 <= asked <= limits.max_draft):
        raise InvalidRequest.at("speculation", f'is {asked!r}; it must be "off", "auto" or 1 to {limits.max_draft}.')
    if isinstance(asked, int) and limits.no_head is not None:
        raise InvalidRequest.at("speculation", f": this model cannot draft, for {limits.no_head}.")
    method = s.speculation_method
    if method is not None and method not in SPECULATION_METHODS:
        known = ", ".join(f'"{name}"' for name in SPECULATION_METHODS)
        raise InvalidRequest.at("speculation_method", f"is {method!r}; it must be one of {known}.")
    if method is not None and (reason := limits.no_method.get(method)) is not None:
        raise InvalidRequest.at("speculation_method", f": {method} cannot be had here: {reason}.")
    if method is not None and (limits.speculation if asked is None else asked) == "off":
        whose = "this server's default is off; ask for speculation too" if asked is None else "speculation is off"
        raise InvalidRequest.at("speculation_method", f"has no effect: {whose}.")
    for name, count in (("logprobs", s.logprobs), ("prompt_logprobs", s.prompt_logprobs)):
        if count is not None and not 0 <= count <= min(limits.max_logprobs, limits.vocab_size):
            raise InvalidRequest.at(name, f"must lie between 0 and {limits.max_logprobs}.")
    _logprob_ids(s, limits)
    _sparse(s, limits)


def validate_choices(n: int, limits: Limits) -> None:
    if not 1 <= n <= limits.max_choices:
        raise InvalidRequest.at("n", f"is {n}; it must lie between 1 and {limits.max_choices}.")


def _logprob_ids(s: Sampling, limits: Limits) -> None:
    field = "logprob_token_ids"
    if s.logprob_token_ids and s.logprobs is None:
        raise InvalidRequest.at(field, "needs logprobs.")
    if s.logprob_token_ids and s.max_tokens == 0:
        raise InvalidRequest.at(field, "has no effect with max_tokens: 0, which generates nothing.")
    if len(s.logprob_token_ids) > MAX_LOGPROB_IDS:
        raise InvalidRequest.at(field, f"has {len(s.logprob_token_ids)} ids; at most {MAX_LOGPROB_IDS} are taken.")
    for token in s.logprob_token_ids:
        _token(field, token, limits)


def _sparse(s: Sampling, limits: Limits) -> None:
    """Sparse prefill must be available, and a keep ratio must have a prompt to apply to.

    The ratio has the name of its request field.
    """
    share = "specprefill_keep_pct"
    if s.specprefill_keep is not None:
        _number(share, s.specprefill_keep, MIN_KEEP_RATIO, MAX_KEEP_RATIO)
    field = "specprefill" if s.specprefill else share if s.specprefill_keep is not None else None
    if field is None:
        return
    if s.specprefill is False:
        raise InvalidRequest.at(share, "has no effect with specprefill: false; leave one of them out.")
    if limits.no_sparse is not None:
        raise InvalidRequest.at(field, f"cannot be had here: {limits.no_sparse}.")
    if s.specprefill is None and not limits.prefills_sparsely:
        raise InvalidRequest.at(share, "has no effect here without specprefill: true, for the server is set to off.")
    if s.prompt_logprobs is not None:
        raise InvalidRequest.at(
            field,
            "cannot be asked for together with the prompt's own scores (echo with logprobs, or with "
            "max_tokens: 0): they need the whole prompt.",
        )


def _dry(s: Sampling) -> None:
    _number("dry_multiplier", s.dry_multiplier, 0, 100)
    _number("dry_base", s.dry_base, 1, 100)
    _number("dry_allowed_length", s.dry_allowed_length, 1, MAX_TOKENS)
    _number("dry_penalty_last_n", s.dry_penalty_last_n, -1, MAX_TOKENS)
    _strings("dry_sequence_breakers", s.dry_sequence_breakers)


def _allowed(s: Sampling, limits: Limits) -> None:
    """Some allowed token must be left at every step."""
    for token in s.allowed_token_ids:
        _token("allowed_token_ids", token, limits)
    if not s.allowed_token_ids:
        return
    ends = {*s.stop_token_ids, *(() if s.ignore_eos else limits.eos_ids)}
    if s.min_tokens > 0 and ends.issuperset(s.allowed_token_ids):
        raise InvalidRequest.at("min_tokens", "cannot be had: all of allowed_token_ids end the answer.")
    if s.thinking_token_budget is not None:
        raise InvalidRequest.at(
            "thinking_token_budget", "cannot be asked for together with allowed_token_ids: its end is written by force."
        )


def _strings(field: str, strings: Sequence[str]) -> None:
    if len(strings) > MAX_STRINGS:
        raise InvalidRequest.at(field, f"has {len(strings)} strings; at most {MAX_STRINGS} are taken.")
    if any(not 1 <= len(string) <= LONGEST_STRING for string in strings):
        raise InvalidRequest.at(field, f": each must have 1 to {LONGEST_STRING} characters.")


def _number(field: str, value: float, low: float, high: float, *, above: bool = False) -> None:
    fits = low < value <= high if above else low <= value <= high
    if not math.isfinite(value) or not fits:
        raise InvalidRequest.at(
            field, f"is {value}; it must be {'above' if above else 'at least'} {low} and at most {high}."
        )


def _token(field: str, token: int, limits: Limits) -> None:
    if not 0 <= token < limits.vocab_size:
        raise InvalidRequest.at(field, f"names token {token}; this model's tokens are 0 to {limits.vocab_size - 1}.")
