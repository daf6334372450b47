"""The tools of /v1/responses: functions, free-text tools and namespaces of both, as functions that templates know.

What the server would have to run itself (web search, code, ...) is left out of what the model is offered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paceline.errors import InvalidRequest, Unsupported
from paceline.server.common.tools import MAX_TOOLS, Toolbox, checked_function, chosen

HOSTED = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use",
        "computer_use_preview",
        "file_search",
        "image_generation",
        "local_shell",
        "mcp",
        "programmatic_tool_calling",
        "shell",
        "tool_search",
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
CALLABLE = ("function", "custom")
INPUT = "input"  # the one parameter of the function that stands for a free-text tool


@dataclass(frozen=True, slots=True)
class Called:
    """Whom a call is for, as the client named it."""

    kind: str
    name: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Tools:
    box: Toolbox = field(default_factory=Toolbox)
    called: Mapping[str, Called] = field(default_factory=dict)  # by the name that the model uses
    served: tuple[Mapping[str, Any], ...] = ()  # of the client's, those that the model is offered
    skipped_types: frozenset[str] = frozenset()  # types of the others


def flat_name(name: str, namespace: Any) -> str:
    """Templates have no namespaces."""
    return f"{namespace}__{name}" if isinstance(namespace, str) and namespace else name


def tools_of(tools: Sequence[Any] | None, choice: Any, parallel: bool | None) -> Tools:
    """Raises InvalidRequest."""
    offered: dict[str, Mapping[str, Any]] = {}
    called: dict[str, Called] = {}
    served: list[Mapping[str, Any]] = []
    skipped_types: set[str] = set()

    def offer(tool: Mapping[str, Any], place: str, namespace: str | None = None) -> Mapping[str, Any]:
        """Returns it as it is given back."""
        kind = tool["type"]
        function = _free_text(tool, place) if kind == "custom" else _function(tool)
        name = function.get("name")
        if isinstance(name, str) and name:
            name = flat_name(name, namespace)
        checked_function({**function, "name": name}, place)
        assert isinstance(name, str)
        if name in offered:
            raise InvalidRequest(f"tools has two tools of the name {name!r}.", field=place)
        offered[name] = {"type": "function", "function": {**function, "name": name}}
        called[name] = Called(kind, function["name"], namespace)
        if kind == "custom":
            own = {"format": tool.get("format") or {"type": "text"}}
        else:
            own = {"parameters": tool.get("parameters"), "strict": tool.get("strict") is True}
        return {"type": kind, "name": tool["name"], "description": tool.get("description"), **own}

    for index, tool in enumerate(tools or ()):
        place = f"tools[{index}]"
        kind = tool.get("type") if isinstance(tool, Mapping) else None
        if kind in CALLABLE:
            served.append(offer(tool, place))
        elif kind == "namespace":
            inner = [
                offer(each, f"{place}.tools[{number}]", tool["name"])
                for number, each in enumerate(_inside(tool, place))
            ]
            about = tool.get("description") or ""
            served.append({"type": kind, "name": tool["name"], "description": about, "tools": inner})
        elif isinstance(kind, str) and kind in HOSTED:
            skipped_types.add(kind)
        else:
            raise InvalidRequest(f"{place} has the unknown type {kind!r}.", field=f"{place}.type")
    if len(offered) > MAX_TOOLS:
        raise InvalidRequest.at("tools", f"has {len(offered)} tools; at most {MAX_TOOLS} are taken.")
    box = Toolbox(tuple(offered.values()), parallel=parallel is not False)
    return Tools(_choose(box, called, choice), called, tuple(served), frozenset(skipped_types))


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    known = ("name", "description", "parameters", "strict")
    return {key: tool[key] for key in known if tool.get(key) is not None}


def _free_text(tool: Mapping[str, Any], place: str) -> dict[str, Any]:
    """A function that takes one text. The model is shown a grammar for it, but the grammar is not enforced."""
    form = tool.get("format")
    if form is None:
        form = {"type": "text"}
    if not isinstance(tool.get("description"), str | None):
        raise InvalidRequest.at(f"{place}.description", "must be text.")
    description = [tool["description"]] if tool.get("description") else []
    match form:
        case {"type": "text"}:
            pass
        case {"type": "grammar", "syntax": "lark" | "regex" as syntax, "definition": str(definition)}:
            description.append(f"The input must follow this {syntax} grammar:\n{definition}")
        case _:
            raise InvalidRequest.at(f"{place}.format", "must be text, or a lark or regex grammar.")
    schema = {
        "type": "object",
        "properties": {INPUT: {"type": "string"}},
        "required": [INPUT],
        "additionalProperties": False,
    }
    return {"name": tool.get("name"), "description": "\n\n".join(description), "parameters": schema}


def _inside(tool: Mapping[str, Any], place: str) -> list[Mapping[str, Any]]:
    inner = tool.get("tools")
    if not isinstance(tool.get("name"), str) or not tool["name"] or not isinstance(inner, list):
        raise InvalidRequest.at(place, "must have a name and a list of tools.")
    if not isinstance(tool.get("description"), str | None):
        raise InvalidRequest.at(f"{place}.description", "must be text.")
    for number, each in enumerate(inner):
        if not isinstance(each, Mapping) or each.get("type") not in CALLABLE:
            where = f"{place}.tools[{number}]"
            raise InvalidRequest.at(f"{where}.type", f"must be one of {', '.join(CALLABLE)}.")
    return inner


# -- tool_choice


def _choose(box: Toolbox, called: Mapping[str, Called], choice: Any) -> Toolbox:
    if choice is None:
        return box
    if isinstance(choice, str):
        return _by_mode(box, choice, "tool_choice", ("none", "auto", "required"))
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    if kind in CALLABLE:
        names = _named(called, choice)
        if not names:
            raise InvalidRequest.at("tool_choice", f"names {choice.get('name')!r}, which is not among the tools.")
        return chosen(box, names[0])
    if kind == "allowed_tools":
        return _allowed(box, called, choice)
    if isinstance(kind, str) and kind in HOSTED:
        raise Unsupported.at("tool_choice", f"asks for {kind}, which this server cannot run.")
    raise InvalidRequest.at(
        "tool_choice",
        'must be "none", "auto", "required", {"type": "function", "name": ...}, '
        '{"type": "custom", "name": ...} or {"type": "allowed_tools", ...}.',
    )


def _by_mode(box: Toolbox, mode: Any, field: str, modes: Sequence[str]) -> Toolbox:
    if mode not in modes:
        raise InvalidRequest.at(field, f"is {mode!r}; it must be one of {', '.join(modes)}.")
    if mode == "required" and not box.tools:
        raise InvalidRequest.at(field, "is required, and there is no tool that this server can serve.")
    return replace(box, choice=mode)


def _allowed(box: Toolbox, called: Mapping[str, Called], choice: Mapping[str, Any]) -> Toolbox:
    """Only these are offered."""
    entries = choice.get("tools")
    if not isinstance(entries, list):
        raise InvalidRequest.at("tool_choice.tools", "must be a list.")
    allowed: set[str] = set()
    for index, entry in enumerate(entries):
        place = f"tool_choice.tools[{index}]"
        kind = entry.get("type") if isinstance(entry, Mapping) else None
        if isinstance(kind, str) and kind in HOSTED:
            continue
        names = _named(called, entry) if kind in (*CALLABLE, "namespace") else []
        if not names:
            raise InvalidRequest.at(place, "is not among the tools.")
        allowed.update(names)
    tools = tuple(tool for tool in box.tools if tool["function"]["name"] in allowed)
    return _by_mode(replace(box, tools=tools), choice.get("mode"), "tool_choice.mode", ("auto", "required"))


def _named(called: Mapping[str, Called], choice: Mapping[str, Any]) -> list[str]:
    """The model's names for what the client names."""
    kind, name, namespace = choice.get("type"), choice.get("name"), choice.get("namespace")
    if kind == "namespace":
        return [flat for flat, each in called.items() if each.namespace == name]
    return [
        flat
        for flat, each in called.items()
        if each.kind == kind
        and (flat == name or each.name == name)
        and (namespace is None or each.namespace == namespace)
    ]
