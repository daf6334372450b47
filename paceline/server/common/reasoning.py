"""Whether the model thinks before it answers, as requests say it and as templates are told it."""

from __future__ import annotations

from typing import Any

from paceline.errors import InvalidRequest
from paceline.server.state import AppState

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def thinking_options(state: AppState, effort: str | None, enabled: bool | None) -> dict[str, Any]:
    """The template's options for `reasoning_effort` and `enable_thinking`; what it has no word for is refused."""
    template = state.backend.tokenizer.chat_template or ""
    options: dict[str, Any] = {}
    if enabled is not None:
        options["enable_thinking"] = enabled
    if effort is not None:
        if effort not in EFFORTS:
            raise InvalidRequest.at("reasoning_effort", f"is {effort!r}; it must be one of {', '.join(EFFORTS)}.")
        if "reasoning_effort" in template:
            options["reasoning_effort"] = effort
        elif "enable_thinking" in template:
            options.setdefault("enable_thinking", effort != "none")
        elif effort != "none":
            raise InvalidRequest.at(
                "reasoning_effort", ": this model's chat template knows no levels of reasoning; leave it out."
            )
    return options
