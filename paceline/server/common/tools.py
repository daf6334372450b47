"""A request's tools: checked, in one form, with what the model may do with them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from paceline.conversation.grammar import GrammarSpec, Tool, calls_or_text_spec, tool_call_spec
from paceline.conversation.grammar.call_forms import BARE_FORM, JSON_FORMS
from paceline.conversation.parsing.formats import NONE, OutputFormat
from paceline.errors import InvalidRequest
from paceline.server.http.response import encode_json

NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
MAX_TOOLS = 512
FUNCTION_OPTIONS = frozenset({"name", "description", "parameters", "strict"})


@dataclass(frozen=True, slots=True)
class Toolbox:
    """`tools` in OpenAI's chat form. `choice`: auto, none, required, or the name of the one that must be called."""

    tools: tuple[Mapping[str, Any], ...] = ()
    choice: str = "auto"
    named: bool = False  # is `choice` a tool's name?
    parallel: bool = True

    @property
    def offered(self) -> tuple[Mapping[str, Any], ...] | None:
        """What the template is given: nothing where nothing may be called."""
        return self.tools if self.tools and (self.named or self.choice != "none") else None

    @property
    def forced(self) -> bool:
        return self.named or self.choice == "required"


def call_arguments(text: str) -> dict[str, Any] | None:
    """A call's arguments; None where JSON can say them and we cannot: infinity, half a character, too deep."""
    try:
        value = json.loads(text)
        encode_json(value).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def function_tools(tools: Any, place: str = "tools") -> tuple[Mapping[str, Any], ...]:
    """OpenAI's chat tools. Raises InvalidRequest."""
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise InvalidRequest.at(place, "must be a list.")
    if len(tools) > MAX_TOOLS:
        raise InvalidRequest.at(place, f"has {len(tools)} tools; at most {MAX_TOOLS} are taken.")
    checked = tuple(_function(tool, f"{place}[{index}]") for index, tool in enumerate(tools))
    names = [tool["function"]["name"] for tool in checked]
    if len(set(names)) < len(names):
        raise InvalidRequest.at(place, "has two tools of the same name.")
    return checked


def _function(tool: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(tool, Mapping) or tool.get("type") != "function" or not isinstance(tool.get("function"), Mapping):
        raise InvalidRequest.at(place, 'must be {"type": "function", "function": {...}}.')
    return {**tool, "function": checked_function(tool["function"], f"{place}.function")}


def checked_function(function: Mapping[str, Any], place: str, schema: str = "parameters") -> Mapping[str, Any]:
    """`schema`: what the API calls the parameters."""
    name = function.get("name")
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise InvalidRequest.at(f"{place}.name", "must have 1 to 128 letters, digits or _ . : / -")
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise InvalidRequest.at(f"{place}.{schema}", "must be a JSON schema.")
    if parameters is not None and _excludes_objects(parameters):
        raise InvalidRequest.at(f"{place}.{schema}", "must be the schema of an object: a call's arguments are one.")
    if not isinstance(function.get("description"), str | None) or not isinstance(function.get("strict"), bool | None):
        raise InvalidRequest.at(place, ": description must be text, and strict true or false.")
    return function


def _excludes_objects(schema: Mapping[str, Any]) -> bool:
    """Whether the schema's top level says that no object is valid."""
    branches = [schema[name] for name in ("anyOf", "oneOf") if isinstance(schema.get(name), list) and schema[name]]
    return _is_of_other_type(schema) or any(all(map(_is_of_other_type, each)) for each in branches)


def _is_of_other_type(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return schema is False
    kind, values = schema.get("type"), schema.get("enum")
    return (
        (isinstance(kind, str) and kind != "object")
        or (isinstance(kind, list) and "object" not in kind)
        or (isinstance(values, list) and not any(isinstance(value, Mapping) for value in values))
        or ("const" in schema and not isinstance(schema["const"], Mapping))
    )


def chosen(box: Toolbox, name: str) -> Toolbox:
    """One tool must be called."""
    if name not in (tool["function"]["name"] for tool in box.tools):
        raise InvalidRequest.at("tool_choice", f"names {name!r}, which is not among the tools.")
    return replace(box, choice=name, named=True)


def answer_grammar(box: Toolbox, format: OutputFormat, asked: GrammarSpec | None) -> GrammarSpec | None:
    """What the answer must look like: calls, text in the asked format, or either. A forced call needs no format."""
    if asked is None or box.forced:
        return calls_grammar(box, format)
    if box.offered is None or format.tools == NONE:
        return asked
    tools = [_tool(tool["function"]) for tool in box.offered]
    return calls_or_text_spec(tools, format.tools, box.parallel, asked)


def calls_grammar(box: Toolbox, format: OutputFormat) -> GrammarSpec | None:
    """What the answer must look like so that its calls are the tools'; None: nothing forces them."""
    offered = box.offered
    if offered is None:
        return None
    tools = [_tool(tool["function"]) for tool in offered]
    form = JSON_FORMS.get(format.tools, BARE_FORM)
    parallel = box.parallel and not box.named and format.tools in JSON_FORMS
    if box.forced:
        return tool_call_spec(tools, box.choice, parallel=parallel, **form)
    if any(tool.strict for tool in tools) and form["begin"]:
        return tool_call_spec(tools, "auto", parallel=box.parallel, **form)
    return None


def calls_format(box: Toolbox, format: OutputFormat) -> OutputFormat:
    """How the answer's calls are to be read: as they were forced, else as the model writes them."""
    if box.forced and format.tools not in JSON_FORMS:
        return replace(format, tools="json")
    return format


def _tool(function: Mapping[str, Any]) -> Tool:
    return Tool(function["name"], function.get("parameters"), bool(function.get("strict")))
