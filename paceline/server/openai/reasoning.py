"""Effort, thinking and verbosity, as clients of OpenAI's API and of servers like it say them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.errors import InvalidRequest
from paceline.server.state import AppState

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


def other_words(fields: Mapping[str, Any]) -> tuple[str | None, bool | None]:
    """Effort and thinking as chat clients of other servers say them: `reasoning` (OpenRouter), `thinking` (GLM)."""
    reasoning, thinking = fields.get("reasoning"), fields.get("thinking")
    effort = enabled = None
    if reasoning is not None:
        if not isinstance(reasoning, Mapping):
            raise InvalidRequest.at("reasoning", "must be an object.")
        for name, value in reasoning.items():
            if name not in ("effort", "enabled", "exclude", "summary") or (name == "exclude" and value):
                raise InvalidRequest.at(
                    f"reasoning.{name}",
                    "is not supported by this server yet; leave it out.",
                    code="unsupported_parameter",
                )
        effort, enabled = reasoning.get("effort"), reasoning.get("enabled")
        if not isinstance(effort, str | None) or not isinstance(enabled, bool | None):
            raise InvalidRequest.at("reasoning", ": effort must be text, and enabled true or false.")
    if thinking is not None:
        kind = thinking.get("type") if isinstance(thinking, Mapping) else None
        if not isinstance(kind, str) or kind not in SWITCHES:
            raise InvalidRequest(
                f"thinking.type is {kind!r}; it must be one of {', '.join(SWITCHES)}.", field="thinking"
            )
        enabled = SWITCHES[kind] if enabled is None else enabled
    return effort, enabled
