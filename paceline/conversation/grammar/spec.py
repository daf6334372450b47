"""What an answer must look like, as a request says it: plain, hashable, checked for size but not yet compiled."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from paceline.conversation.grammar import limits
from paceline.errors import InvalidRequest

Kind = Literal["json_object", "json_schema", "regex", "choice", "lark", "tool_calls"]


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """`text` is the pattern or the grammar, or JSON in the order in which it came: that of the answer's properties.

    `after`: free text up to and with this mark ("</think>"), then at most two line breaks, then the answer.
    """

    kind: Kind
    text: str = ""
    after: str | None = None
    field: str | None = field(default=None, compare=False)  # of the request, for error messages

    @classmethod
    def json_object(cls, *, field: str | None = "response_format") -> GrammarSpec:
        return cls("json_object", "", None, field)

    @classmethod
    def json_schema(cls, schema: Any, *, field: str | None = "response_format") -> GrammarSpec:
        """`schema`: an object, a boolean, or either as JSON text."""
        if isinstance(schema, str):
            schema = _parsed(schema, field)
        return cls("json_schema", _written(schema, field), None, field)

    @classmethod
    def regex(cls, pattern: str, *, field: str | None = "structured_outputs") -> GrammarSpec:
        """The whole answer matches `pattern` (Rust's syntax: no look-around, no backreferences)."""
        return cls("regex", _checked(pattern, field), None, field)

    @classmethod
    def choice(cls, choices: Sequence[str], *, field: str | None = "structured_outputs") -> GrammarSpec:
        if isinstance(choices, str) or not choices or not all(isinstance(choice, str) for choice in choices):
            raise InvalidRequest("A choice is a list of one or more strings.", field=field)
        if len(choices) > limits.ENTRIES:
            raise InvalidRequest(f"A choice has at most {limits.ENTRIES} strings, not {len(choices)}.", field=field)
        return cls("choice", _written(list(dict.fromkeys(choices)), field), None, field)

    @classmethod
    def lark(cls, grammar: str, *, field: str | None = "structured_outputs") -> GrammarSpec:
        """Lark's EBNF as llguidance reads it, or llama.cpp's GBNF (told apart by their rule signs)."""
        return cls("lark", _checked(grammar, field), None, field)

    def following(self, marker: str | None) -> GrammarSpec:
        """The same, after free text that ends with `mark`."""
        return replace(self, after=marker or None)


@dataclass(frozen=True, slots=True)
class Tool:
    """`strict`: a schema that cannot be enforced is an error; otherwise such arguments are just some JSON object."""

    name: str
    parameters: Mapping[str, Any] | None = None  # None: it takes none
    strict: bool = False


def tool_call_spec(
    tools: Sequence[Tool],
    forced: str,
    begin: str,
    end: str,
    parallel: bool,
    *,
    between: str = "\n",
    opening: str = "",
    closing: str = "",
    arguments: str = "arguments",
    field: str | None = "tools",
) -> GrammarSpec:
    """Calls as `opening (begin {"name": "f", "arguments": {...}} end) between ... closing`.

    `forced`: "required" (some tool), "auto" (free text, but a call that is begun keeps to its schema), or a tool's
    name. The JSON around the arguments is fixed to the last space, as templates write it. Without `parallel` there
    is one call, and nothing after it.
    """
    if not tools:
        raise InvalidRequest("A tool call needs tools.", field=field)
    names = [tool.name for tool in tools]
    if forced not in ("required", "auto"):
        tools = [tool for tool in tools if tool.name == forced][:1]
        if not tools:
            raise InvalidRequest(f"There is no tool {forced!r}, only {', '.join(names)}.", field="tool_choice")
    elif len(set(names)) < len(names):
        raise InvalidRequest("Two tools have the same name.", field=field)
    if forced == "auto" and (opening + begin) == "":
        raise InvalidRequest("Calls that begin with nothing cannot be told from text.", field=field)
    described = [{"name": tool.name, "parameters": tool.parameters, "strict": tool.strict} for tool in tools]
    form = {"begin": begin, "end": end, "between": between, "opening": opening, "closing": closing}
    more = {"free": forced == "auto", "parallel": parallel, "arguments": arguments}
    return GrammarSpec("tool_calls", _written({"tools": described, **form, **more}, field), None, field)


def _written(value: Any, field: str | None) -> str:
    limits.check_depth(value, field)
    try:
        return _checked(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False), field)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"This is not JSON: {error}", field=field) from error


def _parsed(text: str, field: str | None) -> Any:
    try:
        return json.loads(_checked(text, field))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The schema is not JSON: {error}", field=field) from error


def _checked(text: str, field: str | None) -> str:
    """Text of a size that is worth looking at."""
    if not isinstance(text, str):
        raise InvalidRequest(f"Expected text, not {type(text).__name__}.", field=field)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest("It holds half of a surrogate pair, which is no text.", field=field) from error
    if size > limits.BYTES:
        raise InvalidRequest(f"It has {size} bytes; at most {limits.BYTES} are taken.", field=field)
    return text
