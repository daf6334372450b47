"""A specification in llguidance's own language: a list of named grammars, of which the first is the answer's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from llguidance import LLMatcher, regex_to_lark
from llguidance.gbnf_to_lark import any_to_lark

from paceline.conversation.grammar import limits
from paceline.conversation.grammar.spec import GrammarSpec
from paceline.errors import InvalidRequest
from paceline.models.files import one_line

# Enough to indent by, and an end to the blanks that a model may otherwise write until its tokens are used up.
OPTIONS = {"whitespace_pattern": r"[ \t\n\r]{0,20}"}
MOST_CALLS = 32  # in one answer
ANYTHING = "/(?s:.*)/"
UNFORCED = '%llguidance {"no_forcing": true}'
NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}

Part = dict[str, Any]


def write(spec: GrammarSpec, markers: Mapping[str, int]) -> str:
    """`marks`: tokens that the tokenizer's text never holds, by how they are written; a grammar must name them."""
    parts = _ANSWERS[spec.kind](spec, markers)
    if spec.after is not None:
        parts = [_afterwards(spec.after, markers), *parts]
    if _may_spell_a_marker(spec, markers):
        parts = _unforced(parts)
    return json.dumps({"grammars": parts})


def _may_spell_a_marker(spec: GrammarSpec, markers: Mapping[str, int]) -> bool:
    """Whether "</tool_call>" or the like may stand in the answer as plain text: in a value, a name, a pattern."""
    text = spec.text
    if spec.kind == "tool_calls":  # the marks around the calls are tokens
        text = json.dumps(json.loads(text)["tools"], ensure_ascii=False)
    escapes = spec.kind in ("regex", "lark") or '"pattern"' in text
    spelled = (form for marker in markers for form in (marker, _quoted(marker)[1:-1]))
    return (escapes and "\\" in text) or any(form in text for form in spelled)


def _unforced(parts: list[Part]) -> list[Part]:
    """Where only one text can follow, llguidance allows nothing but its tokens, as the tokenizer cuts it. That makes a
    token of a mark that is plain text, which the grammar then refuses (llguidance 1.x): so any tokens will do here.
    """
    first, *others = parts
    if first["name"] == "main":
        return [_lark("main", f"{UNFORCED}\n{first['lark_grammar']}"), *others]
    return [_lark("main", f"{UNFORCED}\nstart: @{first['name']}"), *parts]


def _json_object(spec: GrammarSpec, markers: Mapping[str, int]) -> list[Part]:
    return [_schema("answer", {"type": "object"})]


def _json_schema(spec: GrammarSpec, markers: Mapping[str, int]) -> list[Part]:
    schema = json.loads(spec.text)
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise InvalidRequest("A JSON schema is an object.")
    limits.check_schema(schema)
    return [_schema("answer", schema)]


def _regex(spec: GrammarSpec, markers: Mapping[str, int]) -> list[Part]:
    limits.check_regex(spec.text)
    return [_lark("answer", f"start: /{regex_to_lark(spec.text, use_ascii='d')}/")]  # \\d is 0 to 9, as in JSON schemas


def _choice(spec: GrammarSpec, markers: Mapping[str, int]) -> list[Part]:
    """One terminal, not a rule with an alternative each: thousands of those are more than a step may look at."""
    choices = json.loads(spec.text)
    some = " | ".join(_quoted(choice) for choice in choices if choice)
    start = "start: CHOICE" + ("?" if "" in choices else "") if some else 'start: ""'
    return [_lark("answer", f"{start}\nCHOICE: {some}" if some else start)]


def _own_grammar(spec: GrammarSpec, markers: Mapping[str, int]) -> list[Part]:
    limits.check_lark(spec.text)
    try:
        text = any_to_lark(spec.text)
    except Exception as error:  # noqa: BLE001  the converter raises whatever its reading stumbles over
        raise InvalidRequest(f"The grammar is neither Lark nor GBNF: {one_line(error)}") from error
    limits.check_lark(text)
    return [_lark("answer", text)]


def _tool_calls(spec: GrammarSpec, markers: Mapping[str, int]) -> list[Part]:
    form = json.loads(spec.text)
    rules, parts = [], []
    for place, tool in enumerate(form["tools"]):
        head = f'{{"name": {_quoted(tool["name"])}, {_quoted(form["arguments"])}: '
        rules.append(f'tool_{place}: {_quoted(head)} @schema_{place} "}}"')
        parts.append(_schema(f"schema_{place}", _parameters(tool)))
    rules.append("tool: " + " | ".join(f"tool_{place}" for place in range(len(parts))))
    call = [*_literal(form["begin"], markers), "tool", *_literal(form["end"], markers)]
    if form["parallel"] and (form["opening"] or not form["free"]):
        more = _grouped([*_literal(form["between"], markers), *call])
        call = [*call, f"{more}{{0,{MOST_CALLS - 1}}}"]
    calls = [*_literal(form["opening"], markers), *call, *_literal(form["closing"], markers)]
    if not form["free"]:
        return [_lark("answer", "\n".join(["start: " + " ".join(calls), *rules])), *parts]
    # The first piece of a call, be it text or a token, ends the free text.
    trigger = _pieces(form["opening"] or form["begin"], markers)[0]
    rules.append("calls: " + " ".join(["begun", *calls[1:]]))
    rules.append(f"begun: {_up_to(trigger, markers)}")
    rules.append(f"written[lazy]: {ANYTHING} {_quoted(trigger)}")
    start = f"start: calls{{0,{MOST_CALLS}}} {ANYTHING}" if form["parallel"] else f"start: calls | {ANYTHING}"
    return [_lark("answer", "\n".join([start, *rules])), *parts]


_ANSWERS = {
    "json_object": _json_object,
    "json_schema": _json_schema,
    "regex": _regex,
    "choice": _choice,
    "lark": _own_grammar,
    "tool_calls": _tool_calls,
}


def _afterwards(marker: str, markers: Mapping[str, int]) -> Part:
    lines = ["start: before /\\n{0,2}/ @answer", f"before: {_up_to(marker, markers)}"]
    return _lark("main", "\n".join([*lines, f"written[lazy]: {ANYTHING} {_quoted(marker)}"]))


def _up_to(marker: str, markers: Mapping[str, int]) -> str:
    """Free text and the mark that ends it, which a model may write as a token of its own or (`written`) in pieces."""
    return f"written | {ANYTHING} <[{markers[marker]}]>" if marker in markers else "written"


def _parameters(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a tool's arguments. They have no names but its own, unless it says that they may."""
    schema = tool["parameters"]
    if not schema:
        return NO_ARGUMENTS
    if not isinstance(schema, dict):
        raise InvalidRequest(f"The parameters of the tool {tool['name']!r} are no JSON schema.")
    open_ended = {"additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref"}
    if "properties" in schema and not open_ended & set(schema):
        schema = {**schema, "additionalProperties": False}
    try:
        limits.check_schema(schema)
        error = LLMatcher.validate_grammar(json.dumps({"grammars": [_schema("arguments", schema)]}))
        if error:
            raise InvalidRequest(explained(error))
    except InvalidRequest as error:
        if tool["strict"]:
            raise InvalidRequest(f"The parameters of the tool {tool['name']!r}: {error}") from error
        return {"type": "object"}
    return schema


def _literal(text: str, markers: Mapping[str, int]) -> list[str]:
    return [f"<[{markers[piece]}]>" if piece in markers else _quoted(piece) for piece in _pieces(text, markers)]


def _pieces(text: str, markers: Mapping[str, int]) -> list[str]:
    """`text` cut at the marks in it."""
    if not markers or not text:
        return [text] if text else []
    longest_first = sorted(markers, key=len, reverse=True)
    return [piece for piece in re.split(f"({'|'.join(map(re.escape, longest_first))})", text) if piece]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _grouped(pieces: list[str]) -> str:
    return f"({' '.join(pieces)})"


def _schema(name: str, schema: Mapping[str, Any]) -> Part:
    return {"name": name, "json_schema": {**schema, "x-guidance": OPTIONS}}


def _lark(name: str, text: str) -> Part:
    return {"name": name, "lark_grammar": text}


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
    """llguidance's complaint for the one who wrote the request, with the keyword that it is about."""
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
