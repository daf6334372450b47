"""How models write calls, as rules of the grammar "calls, or text in the asked format".

JSON in marks follows the tools' schemas to the last letter. Tagged calls (Qwen3-Coder, GLM, MiniMax) are whole calls of
known tools with known parameters, whose values are free. In the formats that mlx-lm's parsers read, only the tool's
name and the end are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from paceline.conversation.grammar.lark import ANYTHING, OPTIONS, Part, free_text, literal, quoted, schema_part, token
from paceline.conversation.parsing.call_formats import (
    GLM,
    JSON_MARKERS,
    LIBRARY_FORMATS,
    MINIMAX,
    PYTHON_MARKERS,
    QWEN3_CODER,
    JSONMark,
    LibraryFormat,
    Tags,
)
from paceline.conversation.parsing.formats import HARMONY

MAX_CALLS = 32  # in one output
LINES = r"/\n{0,2}/"  # between marks
ANY_KEY = r'/[^<>"\x00-\x1f]{1,64}/'

# JSON in marks, which the fields of `tool_call_spec` describe.
JSON_FORMS: Mapping[str, Mapping[str, Any]] = {
    "hermes": {"begin": "<tool_call>\n", "end": "\n</tool_call>"},
    "qwen": {"begin": "<tool_call>\n", "end": "\n</tool_call>"},
    "llama3_json": {"begin": "", "end": "", "between": "; ", "arguments": "parameters"},
    "mistral": {"begin": "", "end": "", "between": ", ", "opening": "[TOOL_CALLS][", "closing": "]"},
}
BARE_FORM: Mapping[str, Any] = {"begin": "", "end": ""}

NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
OPEN_ENDED = {"additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref"}


@dataclass(frozen=True, slots=True)
class NamedSchema:
    name: str
    schema: Mapping[str, Any]  # of the arguments


Rules = list[str]


def is_marked(format: str) -> bool:
    """Whether each call is JSON in marks of its own, as `tool_call_spec` writes it."""
    return bool(JSON_FORMS.get(format, BARE_FORM)["begin"])


def follows_schemas(format: str) -> bool:
    """Whether the arguments follow the tools' schemas."""
    return format not in _TAGGED and format not in _HELD


def starts(format: str) -> list[str]:
    """What calls begin with, where that is more than a bracket."""
    if format in _TAGGED:
        return [_TAGGED[format].open]
    if format in _HELD:
        return [form.start for form in _HELD[format] if form.start]
    return {"mistral": ["[TOOL_CALLS]"], "llama3_json": ["<|python_tag|>"], "json": [*JSON_MARKERS]}.get(format, [])


def closed(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema of arguments. Other names are not allowed unless the schema allows them."""
    if not schema:
        return NO_ARGUMENTS
    if "properties" in schema and not OPEN_ENDED & set(schema):
        return {**schema, "additionalProperties": False}
    return schema


def native_calls(
    format: str, tools: Sequence[NamedSchema], parallel: bool, markers: Mapping[str, int]
) -> tuple[Rules, list[Part]]:
    """Rules for `start`: calls as the format's models write them, or `@text`."""
    if format == HARMONY:
        return _harmony(tools, markers)
    parts: list[Part] = []
    if format in _TAGGED:
        rules = _tagged(_TAGGED[format], tools, markers)
    elif format in _HELD:
        rules = _held(_HELD[format], tools, markers)
    else:
        rules, parts = _objects(format, tools, parallel, markers)
    more = f" ({LINES} call){{0,{MAX_CALLS - 1}}}" if parallel and not parts else ""
    return [f"start: call{more} | @text", *rules], parts


# -- objects: `{` begins a call as well as a format, so a call is made of the pieces that a schema is made of

BLANKS = f"/{OPTIONS['whitespace_pattern']}/"


def _objects(
    format: str, tools: Sequence[NamedSchema], parallel: bool, markers: Mapping[str, int]
) -> tuple[Rules, list[Part]]:
    """{"name": ..., "arguments": {...}}, as Llama and Mistral separate or list them, and others mark them."""

    def several(rule: str, between: str) -> str:
        return f"{rule} ({between} {rule}){{0,{MAX_CALLS - 1}}}" if parallel else rule

    def listing(rule: str) -> str:
        objects = several(rule, f'{BLANKS} "," {BLANKS}')
        return f'"[" {BLANKS} {objects} {BLANKS} "]"'

    rules: Rules = []
    if format == "mistral":
        mark = " ".join(literal("[TOOL_CALLS]", markers))
        written = [f"{mark} {BLANKS} {listing('one')}", several("named", BLANKS)]
    elif format == "llama3_json":
        mark = "<|python_tag|>"
        tag = f"{token(mark, markers)}? " if mark in markers else ""
        written = [tag + several("one", "/; ?/")]
    else:
        written = ["one"]
        for number, (mark, form) in enumerate(JSON_MARKERS.items()):
            if mark in markers:
                rule = "one" if (form.name, form.by_name) == ("name", False) else f"marked{number}"
                rules += [] if rule == "one" else _marked(rule, form, tools)
                closed = f"{token(form.close, markers)}?" if form.close in markers else ""  # Granite does not close it
                written.append(f"{token(mark, markers)} ({rule} | {listing(rule)}) {closed}")
    key = JSON_FORMS.get(format, BARE_FORM).get("arguments", "arguments")
    rules = [f"call: {' | '.join(written)}", *_marked("one", JSONMark(arguments=key), tools), *rules]
    if format == "mistral":
        rules += _mistral_names(tools, markers)
    return rules, _schemas(tools)


def _marked(rule: str, mark: JSONMark, tools: Sequence[NamedSchema]) -> Rules:
    """One object that is a call, with the keys of this mark."""
    rules = [f"{rule}: " + " | ".join(f"{rule}_{place}" for place in range(len(tools)))]
    for place, tool in enumerate(tools):
        named = [] if mark.by_name else [quoted(mark.name), ":"]
        head = [tool.name, ":"] if mark.by_name else [tool.name, ",", quoted(mark.arguments), ":"]
        pieces = ["{", *named, quoted(head[0]), *head[1:]]
        rules.append(f"{rule}_{place}: {f' {BLANKS} '.join([*map(quoted, pieces), f'@schema_{place}', quoted('}')])}")
    return rules


def _mistral_names(tools: Sequence[NamedSchema], markers: Mapping[str, int]) -> Rules:
    """[TOOL_CALLS]name[CALL_ID]id[ARGS]{...}"""
    identity = " ".join([*literal("[CALL_ID]", markers), "/[A-Za-z0-9_-]{1,64}/"])
    heads = [" ".join(literal(f"[TOOL_CALLS]{tool.name}", markers)) for tool in tools]
    behind = f"({identity})? ({' '.join(literal('[ARGS]', markers))})?"
    return ["named: " + " | ".join(f"{head} {behind} @schema_{place}" for place, head in enumerate(heads))]


def _schemas(tools: Sequence[NamedSchema]) -> list[Part]:
    return [schema_part(f"schema_{place}", tool.schema) for place, tool in enumerate(tools)]


# -- tagged calls

_TAGGED: Mapping[str, Tags] = {"qwen3_coder": QWEN3_CODER, "glm": GLM, "minimax": MINIMAX}


def _tagged(tags: Tags, tools: Sequence[NamedSchema], markers: Mapping[str, int]) -> Rules:
    rules = ["call: " + " | ".join(f"call_{place}" for place in range(len(tools)))]
    for place, tool in enumerate(tools):
        key = _key(tool.schema)
        named = literal(tags.named[0], markers) if len(tags.named) == 1 else []
        head = [*literal(tags.open, markers), LINES, *literal(tags.call + tool.name, markers), *named]
        parameters = f"({LINES} parameter_{place})*" if key else ""
        tail = [LINES, *literal(tags.called, markers)]
        if tags.close:
            tail += [LINES, *literal(tags.close, markers)]
        rules.append(f"call_{place}: {' '.join([*head, parameters, *tail])}")
        if key:
            keyed = literal(tags.keyed, markers)
            between = [LINES, *literal(tags.value, markers)] if tags.value else []
            parameter = [*literal(tags.key, markers), f"({key})", *keyed, *between, "value"]
            rules.append(f"parameter_{place}: {' '.join(parameter)}")
    return [*rules, *free_text("value", tags.valued, markers)]


def _key(schema: Mapping[str, Any]) -> str:
    """What a parameter's name may be; nothing where there are no parameters."""
    properties = schema.get("properties")
    if schema.get("additionalProperties") is not False or not isinstance(properties, Mapping):
        return ANY_KEY
    return " | ".join(quoted(name) for name in properties if name)


# -- calls that mlx-lm's parsers read whole

_HELD: Mapping[str, Sequence[LibraryFormat]] = {
    **{name: (format,) for name, format in LIBRARY_FORMATS.items()},
    "gemma": (LibraryFormat("<|tool_call>", "<tool_call|>", ("call:",), ("{",), ('<|"|>',)),),
    "deepseek": (
        LibraryFormat(
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            ("<｜tool▁call▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>"),
            ("<｜tool▁sep｜>", "\n"),
            ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
        ),
    ),
    "llama3_pythonic": (
        *(LibraryFormat(start, end, ("[",), ("(",)) for start, end in PYTHON_MARKERS.items()),
        LibraryFormat("", ")]", ("[",), ("(",)),
    ),
}


def _held(forms: Sequence[LibraryFormat], tools: Sequence[NamedSchema], markers: Mapping[str, int]) -> Rules:
    rules = ["call: " + " | ".join(f"call_{place}" for place in range(len(forms)))]
    for place, form in enumerate(forms):
        heads = [
            " ".join(literal(before + tool.name + after, markers))
            for before, tool, after in product(form.before, tools, form.after)
        ]
        start = [*literal(form.start, markers), LINES] if form.start else []
        marks = [token(mark, markers) for mark in form.inner if mark in markers and mark != form.end]
        inner = f"({ANYTHING} ({' | '.join(marks)}))*" if marks else ""
        rules.append(f"call_{place}: {' '.join([*start, f'head_{place}', inner, f'rest_{place}'])}")
        rules.append(f"head_{place}: {' | '.join(heads)}")
        rules += free_text(f"rest_{place}", form.end, markers)
    return rules


# -- GPT-OSS: messages on channels, with a thought before either


def _harmony(tools: Sequence[NamedSchema], markers: Mapping[str, int]) -> tuple[Rules, list[Part]]:
    def written(text: str) -> str:
        return " ".join(literal(text, markers))

    json_mark = f'({written("<|constrain|>")})? "json"'
    heads = [written(f"<|channel|>commentary to=functions.{tool.name} ") for tool in tools]
    end = f"({written('<|call|>')})?"
    calls = [f"{head} {json_mark} message @schema_{place} {end}" for place, head in enumerate(heads)]
    rules = [
        "start: thought? (call | final)",
        f"thought: {written('<|channel|>analysis')} message thoughts {written('<|start|>assistant')}",
        *free_text("thoughts", "<|end|>", markers),
        f"call: {' | '.join(calls)}",
        f'final: {written("<|channel|>final")} (" "? {json_mark})? message @text',
        f"message: {written('<|message|>')}",
    ]
    return rules, _schemas(tools)
