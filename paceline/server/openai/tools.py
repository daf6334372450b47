"""The tools of /v1/chat/completions, and which of them the model may or must call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paceline.errors import InvalidRequest
from paceline.server.common.tools import Toolbox, chosen, function_tools


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
