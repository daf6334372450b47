"""What an output must look like: a request's specification, and the same in llguidance's language.

A specification is plain, hashable and checked for size. `write` turns it into a list of named grammars, of which the
first is the output's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from llguidance import LLMatcher, regex_to_lark
from llguidance.gbnf_to_lark import any_to_lark

from paceline.conversation.grammar import call_forms, limits
from paceline.conversation.grammar.call_forms import MAX_CALLS
from paceline.conversation.grammar.lark import (
    ANYTHING,
    Part,
    free_text,
    lark_part,
    literal,
    pieces,
    quoted,
    schema_part,
)
from paceline.errors import InvalidRequest
from paceline.models.files import one_line

Kind = Literal["json_object", "json_schema", "regex", "choice", "lark", "tool_calls", "native_calls"]


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """`text` is the pattern, the grammar, or JSON whose order of properties is the output's.

    `after`: the output begins with free text up to this marker ("</think>") and at most two line breaks.
    `otherwise`, of calls: what an output without calls must look like.
    """

    kind: Kind
    text: str = ""
    after: str | None = None
    field: str | None = field(default=None, compare=False)  # of the request, for error messages
    otherwise: GrammarSpec | None = None

    @property
    def size(self) -> int:
        return len(self.text) + (0 if self.otherwise is None else self.otherwise.size)

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
        """The whole output matches `pattern` (Rust's syntax: no look-around, no backreferences)."""
        return cls("regex", _checked(pattern, field), None, field)

    @classmethod
    def choice(cls, choices: Sequence[str], *, field: str | None = "structured_outputs") -> GrammarSpec:
        listed = isinstance(choices, list | tuple) and bool(choices)
        if not listed or not all(isinstance(choice, str) for choice in choices):
            raise InvalidRequest("A choice is a list of one or more strings.", field=field)
        if len(choices) > limits.ENTRIES:
            raise InvalidRequest(f"A choice has at most {limits.ENTRIES} strings, not {len(choices)}.", field=field)
        return cls("choice", _written(list(dict.fromkeys(choices)), field), None, field)

    @classmethod
    def lark(cls, grammar: str, *, field: str | None = "structured_outputs") -> GrammarSpec:
        """Lark's EBNF as llguidance reads it, or llama.cpp's GBNF (told apart by their rule signs)."""
        return cls("lark", _checked(grammar, field), None, field)

    def following(self, marker: str | None) -> GrammarSpec:
        """The same, after free text that ends with `marker`."""
        return replace(self, after=marker or None)


@dataclass(frozen=True, slots=True)
class Tool:
    """With `strict`, a schema that cannot be enforced is an error; without it, the arguments are any JSON object."""

    name: str
    parameters: Mapping[str, Any] | None = None  # None: no arguments
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

    `forced`: "required" (some tool), "auto" (free text, but a call follows its schema), or a tool's name. The JSON
    around the arguments is fixed to the last space, as templates write it. Without `parallel` there is one call, and
    nothing after it.
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
    form = {"begin": begin, "end": end, "between": between, "opening": opening, "closing": closing}
    more = {"free": forced == "auto", "parallel": parallel, "arguments": arguments}
    return GrammarSpec("tool_calls", _written({"tools": _described(tools), **form, **more}, field), None, field)


def calls_or_text_spec(tools: Sequence[Tool], format: str, parallel: bool, otherwise: GrammarSpec) -> GrammarSpec:
    """Calls as the models of this tool format write them, or text that is as `otherwise` says, never both."""
    if call_forms.is_marked(format):
        spec = tool_call_spec(tools, "required", parallel=parallel, **call_forms.JSON_FORMS[format])
    else:
        form = {"tools": _described(tools), "format": format, "parallel": parallel}
        spec = GrammarSpec("native_calls", _written(form, "tools"))
    return replace(spec, otherwise=otherwise, field=otherwise.field)


def _described(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [{"name": tool.name, "parameters": tool.parameters, "strict": tool.strict} for tool in tools]


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
    """Checks that it is valid text of an acceptable size."""
    if not isinstance(text, str):
        raise InvalidRequest(f"Expected text, not {type(text).__name__}.", field=field)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest("It holds half of a surrogate pair, which is no text.", field=field) from error
    if size > limits.BYTES:
        raise InvalidRequest(f"It has {size} bytes; at most {limits.BYTES} are taken.", field=field)
    return text


# -- llguidance's language

UNFORCED = '%llguidance {"no_forcing": true}'


def write(spec: GrammarSpec, markers: Mapping[str, int]) -> str:
    """`markers` are special tokens by their text. A grammar must name them, because text never contains them."""
    parts = _grammars(spec, markers)
    if spec.after is not None:
        parts = [_after_text(spec.after, markers), *parts]
    if _may_spell_a_marker(spec, markers):
        parts = _unforced(parts)
    return json.dumps({"grammars": parts})


def triggers(spec: GrammarSpec, markers: Mapping[str, int]) -> frozenset[int]:
    """The special tokens that begin a call where text in a format may stand instead."""
    if spec.otherwise is None:
        return frozenset()
    form = json.loads(spec.text)
    if spec.kind == "native_calls":
        starts = [pieces(start, markers)[:1] for start in call_forms.starts(form["format"])]
    else:
        starts = [pieces(form["opening"] or form["begin"], markers)[:1]]
    return frozenset(markers[start] for found in starts for start in found if start in markers)


def loosened(spec: GrammarSpec) -> GrammarSpec | None:
    """The same with any object as the arguments of tools that are not strict; None where that changes nothing.

    Tools that a request only offers beside a format must not make the format impossible.
    """
    if spec.otherwise is None:
        return None
    form = json.loads(spec.text)
    for tool in form["tools"]:
        if tool["parameters"] and not tool["strict"]:
            tool["parameters"] = {"type": "object"}
    text = json.dumps(form, ensure_ascii=False, separators=(",", ":"))
    return None if text == spec.text else replace(spec, text=text)


def _may_spell_a_marker(spec: GrammarSpec, markers: Mapping[str, int]) -> bool:
    """Whether a marker such as "</tool_call>" may be in the output as plain text: in a value, a name, a pattern."""
    if spec.otherwise is not None and _may_spell_a_marker(spec.otherwise, markers):
        return True
    text = spec.text
    if spec.kind in ("tool_calls", "native_calls"):  # the markers around the calls are tokens
        text = json.dumps(json.loads(text)["tools"], ensure_ascii=False)
    escapes = spec.kind in ("regex", "lark") or '"pattern"' in text
    spelled = (form for marker in markers for form in (marker, quoted(marker)[1:-1]))
    return (escapes and "\\" in text) or any(form in text for form in spelled)


def _unforced(parts: list[Part]) -> list[Part]:
    """Allow any tokens where only one text can follow.

    llguidance (1.x) forces the tokenizer's own tokens there. Those of a marker in plain text are the special token,
    which the grammar then refuses.
    """
    first, *others = parts
    if first["name"] == "main":
        return [lark_part("main", f"{UNFORCED}\n{first['lark_grammar']}"), *others]
    return [lark_part("main", f"{UNFORCED}\nstart: @{first['name']}"), *parts]


def _grammars(spec: GrammarSpec, markers: Mapping[str, int]) -> list[Part]:
    match spec.kind:
        case "json_object":
            return [schema_part("answer", {"type": "object"})]
        case "json_schema":
            schema = json.loads(spec.text)
            if schema is True:
                schema = {}
            if not isinstance(schema, dict):
                raise InvalidRequest("A JSON schema is an object.")
            limits.check_schema(schema)
            return [schema_part("answer", schema)]
        case "regex":
            limits.check_regex(spec.text)
            pattern = regex_to_lark(spec.text, use_ascii="d")  # \\d is 0 to 9, as in JSON schemas
            return [lark_part("answer", f"start: /{pattern}/")]
        case "choice":  # one terminal: a rule with thousands of alternatives exceeds the limits of a step
            choices = json.loads(spec.text)
            some = " | ".join(quoted(choice) for choice in choices if choice)
            start = "start: CHOICE" + ("?" if "" in choices else "") if some else 'start: ""'
            return [lark_part("answer", f"{start}\nCHOICE: {some}" if some else start)]
        case "lark":
            limits.check_lark(spec.text)
            try:
                text = any_to_lark(spec.text)
            except Exception as error:  # noqa: BLE001  the converter raises anything
                raise InvalidRequest(f"The grammar is neither Lark nor GBNF: {one_line(error)}") from error
            limits.check_lark(text)
            return [lark_part("answer", text)]
        case "tool_calls" | "native_calls":
            return _calls(spec, markers)


def _calls(spec: GrammarSpec, markers: Mapping[str, int]) -> list[Part]:
    """Calls, and what the output is where it has none."""
    if spec.otherwise is None:
        return _tool_calls(spec, markers)
    text, *others = _grammars(spec.otherwise, markers)
    others = [{**text, "name": "text"}, *others]
    if spec.kind == "tool_calls":
        calls, *schemas = _tool_calls(spec, markers)
        return [lark_part("answer", "start: @calls | @text"), {**calls, "name": "calls"}, *schemas, *others]
    form = json.loads(spec.text)
    checked = _parameters if call_forms.follows_schemas(form["format"]) else _unchecked
    tools = [call_forms.NamedSchema(tool["name"], checked(tool)) for tool in form["tools"]]
    rules, schemas = call_forms.native_calls(form["format"], tools, form["parallel"], markers)
    return [lark_part("answer", "\n".join(rules)), *schemas, *others]


def _tool_calls(spec: GrammarSpec, markers: Mapping[str, int]) -> list[Part]:
    form = json.loads(spec.text)
    rules, parts = [], []
    for place, tool in enumerate(form["tools"]):
        head = f'{{"name": {quoted(tool["name"])}, {quoted(form["arguments"])}: '
        rules.append(f'tool_{place}: {quoted(head)} @schema_{place} "}}"')
        parts.append(schema_part(f"schema_{place}", _parameters(tool)))
    rules.append("tool: " + " | ".join(f"tool_{place}" for place in range(len(parts))))
    call = [*literal(form["begin"], markers), "tool", *literal(form["end"], markers)]
    if form["parallel"] and (form["opening"] or not form["free"]):
        more = " ".join([*literal(form["between"], markers), *call])
        call = [*call, f"({more}){{0,{MAX_CALLS - 1}}}"]
    calls = [*literal(form["opening"], markers), *call, *literal(form["closing"], markers)]
    if not form["free"]:
        return [lark_part("answer", "\n".join(["start: " + " ".join(calls), *rules])), *parts]
    # The first piece of a call, text or token, ends the free text.
    trigger = pieces(form["opening"] or form["begin"], markers)[0]
    rules.append("calls: " + " ".join(["begun", *calls[1:]]))
    rules += free_text("begun", trigger, markers)
    start = f"start: calls{{0,{MAX_CALLS}}} {ANYTHING}" if form["parallel"] else f"start: calls | {ANYTHING}"
    return [lark_part("answer", "\n".join([start, *rules])), *parts]


def _after_text(marker: str, markers: Mapping[str, int]) -> Part:
    rules = ["start: before /\\n{0,2}/ @answer", *free_text("before", marker, markers)]
    return lark_part("main", "\n".join(rules))


def _unchecked(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    return call_forms.closed(tool["parameters"] or {})


def _parameters(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a tool's arguments."""
    if not isinstance(tool["parameters"] or {}, dict):
        raise InvalidRequest(f"The parameters of the tool {tool['name']!r} are no JSON schema.", field="tools")
    schema = call_forms.closed(tool["parameters"] or {})
    try:
        limits.check_schema(schema)
        error = LLMatcher.validate_grammar(json.dumps({"grammars": [schema_part("arguments", schema)]}))
        if error:
            raise InvalidRequest(explained(error))
    except InvalidRequest as error:
        if tool["strict"]:
            raise InvalidRequest(f"The parameters of the tool {tool['name']!r}: {error}", field="tools") from error
        return {"type": "object"}
    return schema


_KEYWORDS = (
    (re.compile(r"Unimplemented keys: \[(.*?)\]"), None),
    (re.compile(r"Unknown format: (\S+)"), "format"),
    (re.compile(r"oneOf constraints"), "oneOf"),
    (re.compile(r"Invalid type: (\S+)"), "type"),
    (re.compile(r"patternProperty"), "patternProperties"),
    (re.compile(r"min/maxProperties"), "minProperties/maxProperties"),
    (re.compile(r"not present in a registry|^Invalid URI reference|^\$ref must be"), "$ref"),
    (re.compile(r"^regex parse error"), "pattern"),
)


_NOWHERE = re.compile(r"(?:Pointer|Anchor) '(.*?)' does not exist")
_UNFIT = re.compile(r"Unsatisfiable schema: (.*)")


def explained(error: str) -> str:
    """llguidance's error for the client, with the keyword that it is about."""
    said = one_line(Exception(error.replace("<non-verbose/>", "")))
    if nowhere := _NOWHERE.search(error):
        return f"The schema's $ref '#{nowhere[1]}' points to nothing: the schema has no such part."
    if unfit := _UNFIT.search(said):
        return f"No value fits the schema: {unfit[1]}"
    for sign, keyword in _KEYWORDS:
        found = sign.search(error)
        if found and keyword is None:
            names = found[1].replace('"', "")
            return f"The schema uses {names}, which cannot be enforced. Leave it out, or describe it in words."
        if found and keyword == "oneOf":
            return "The schema uses oneOf with alternatives that may overlap, which cannot be enforced. Use anyOf."
        if found:
            return f"The schema's {keyword} cannot be enforced: {said}"
    return f"It cannot be enforced: {said}"
