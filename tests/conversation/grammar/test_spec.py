"""What a request asks for, checked before it is compiled."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from paceline.conversation.grammar import Grammars, GrammarSpec, Tool, limits, tool_call_spec
from paceline.conversation.tokenizer import Tokenizer
from paceline.errors import InvalidRequest
from tests.conversation.grammar.walks import DAYS, TOOLS, follows, may_end, takes, wander


def test_choices_and_tools_have_limits_too() -> None:
    for choices in ([], "yes", [1], 5, True, None, {"a": "b"}, [str(place) for place in range(limits.ENTRIES + 1)]):
        with pytest.raises(InvalidRequest, match="choice"):
            GrammarSpec.choice(choices)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="no tool 'g'"):
        tool_call_spec([Tool("f")], "g", "", "", False)
    with pytest.raises(InvalidRequest, match="same name"):
        tool_call_spec([Tool("f"), Tool("f")], "required", "", "", False)
    with pytest.raises(InvalidRequest, match="needs tools"):
        tool_call_spec([], "required", "", "", False)
    with pytest.raises(InvalidRequest, match="text"):
        tool_call_spec([Tool("f")], "auto", "", "", False)


CALL = '<tool_call>\n{"name": "weather", "arguments": {"days": 3}}\n</tool_call>'
OTHER = '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'


def calls(forced: str, parallel: bool = False, **form: Any) -> GrammarSpec:
    return tool_call_spec(TOOLS, forced, "<tool_call>\n", "\n</tool_call>", parallel, **form)


@pytest.mark.parametrize(
    ("spec", "taken", "refused"),
    [
        (GrammarSpec.json_object(), ['{"a": [1, null]}', "{}"], ["[1]", "1", "x", '{"a"']),
        (GrammarSpec.json_schema(DAYS), ['{"days":3}', '{\n  "days": 3\n}'], ["{}", '{"days": "3"}']),
        (GrammarSpec.json_schema(json.dumps(DAYS)), ['{"days":3}'], ["{}"]),
        (GrammarSpec.json_schema(True), ["1", "[{}]"], ["x"]),
        (GrammarSpec.regex(r"^(ab|c/)+\d$"), ["ab3", "c/ab0"], ["ab", "ab3 ", "x"]),
        (GrammarSpec.choice(["a", "ab", 'é"\n🙂', "a"]), ["a", "ab", 'é"\n🙂'], ["", "abc"]),
        (GrammarSpec.choice([""]), [""], ["a"]),
        (GrammarSpec.choice(["", "a"]), ["", "a"], ["aa"]),
        (GrammarSpec.choice([f"number {n}" for n in range(5_000)]), ["number 4999"], ["number 5000"]),
        (GrammarSpec.lark('start: "a" | "(" start ")"'), ["a", "((a))"], ["(a", "()"]),
        (GrammarSpec.lark('root ::= "a" num\nnum ::= [0-9]{2}'), ["a12"], ["a1", "a123"]),
        (calls("required"), [CALL, OTHER], [f"{CALL}\n{OTHER}", "hi", CALL.replace("days", "weeks")]),
        (calls("required", True), [CALL, f"{CALL}\n{OTHER}\n{CALL}"], ["hi", f"{CALL}{OTHER}"]),
        (calls("time"), [OTHER], [CALL]),
        (calls("auto"), ["", "hi", CALL, f"hi {CALL}"], [f"{CALL} and", "<tool_call> no", f"{CALL}\n{CALL}"]),
        (calls("auto", True), ["hi", f"hi {CALL} and\n{OTHER}."], ["<tool_call> no", CALL.replace("3", '"3"')]),
    ],
)
def test_it_takes_what_fits_and_nothing_else(
    grammars: Grammars, tokenizer: Tokenizer, spec: GrammarSpec, taken: list[str], refused: list[str]
) -> None:
    compiled = grammars.compile(spec)
    assert [text for text in taken if not takes(compiled, tokenizer, text)] == []
    assert [text for text in refused if takes(compiled, tokenizer, text)] == []


@pytest.mark.parametrize("mark", ["</tool_call>", "<|im_end|>", "<think>"])
def test_a_mark_that_is_plain_text_is_written_in_pieces(grammars: Grammars, tokenizer: Tokenizer, mark: str) -> None:
    """llguidance would force the mark's token, and then refuse it."""
    said = {"type": "object", "properties": {mark: {"const": mark}}, "required": [mark], "additionalProperties": False}
    written = json.dumps({mark: mark})
    call = f'<tool_call>\n{{"name": "say", "arguments": {written}}}\n</tool_call>'
    forced = tool_call_spec([Tool("say", said)], "say", "<tool_call>\n", "\n</tool_call>", False)
    escaped = "".join(f"\\x{ord(letter):02x}" for letter in mark)
    for spec, text in (
        (GrammarSpec.json_schema(said), written),
        (GrammarSpec.choice([mark]), mark),
        (GrammarSpec.regex(escaped), mark),
        (GrammarSpec.json_schema({"type": "string", "pattern": f"^{escaped}$"}), json.dumps(mark)),
        (forced, call),
    ):
        for seed in range(3):
            said_text = wander(grammars.compile(spec), tokenizer, seed) or ""
            assert re.sub(r"\s", "", said_text) == re.sub(r"\s", "", text)


def test_a_list_of_calls_in_one_pair_of_marks(grammars: Grammars, tokenizer: Tokenizer) -> None:
    form = {"opening": "[TOOL_CALLS] [", "closing": "]", "between": ", "}
    compiled = grammars.compile(tool_call_spec(TOOLS, "required", "", "", True, **form))
    assert takes(compiled, tokenizer, '[TOOL_CALLS] [{"name": "time", "arguments": {}}]')
    both = '[TOOL_CALLS] [{"name": "time", "arguments": {}}, {"name": "weather", "arguments": {"days": 1}}]'
    assert takes(compiled, tokenizer, both)


def test_a_schema_that_refers_to_itself_works_as_a_tools_parameters(grammars: Grammars, tokenizer: Tokenizer) -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}
    schema = {"$defs": {"node": node}, "type": "object", "properties": {"list": {"$ref": "#/$defs/node"}}}
    spec = tool_call_spec([Tool("keep", schema, strict=True)], "keep", "", "", False)
    assert takes(grammars.compile(spec), tokenizer, '{"name": "keep", "arguments": {"list": {"next": {"next": null}}}}')


def test_a_tool_that_is_not_strict_takes_any_object_where_its_schema_cannot_be_enforced(
    grammars: Grammars, tokenizer: Tokenizer
) -> None:
    schema = {"type": "object", "not": {"required": ["a"]}}
    loose = tool_call_spec([Tool("f", schema)], "f", "", "", False)
    assert takes(grammars.compile(loose), tokenizer, '{"name": "f", "arguments": {"b": 1}}')
    with pytest.raises(InvalidRequest, match="'f'.* not,"):
        grammars.compile(tool_call_spec([Tool("f", schema, strict=True)], "f", "", "", False))


@pytest.mark.parametrize("spec", [GrammarSpec.json_object(), GrammarSpec.choice(["{}"]), GrammarSpec.regex(r"\{\}")])
def test_thinking_is_free_until_its_mark(grammars: Grammars, tokenizer: Tokenizer, spec: GrammarSpec) -> None:
    compiled = grammars.compile(spec.following("</think>"))
    mark = tokenizer.encode("</think>", False)
    assert len(mark) == 1
    pieces = [token for letter in "</think>" for token in tokenizer.encode(letter, False)]
    for written in (mark, pieces):
        matcher = compiled.matcher()
        thought = tokenizer.encode("Is {} it?\n[1, </thin", False)
        assert follows(matcher, thought) == len(thought)
        assert not may_end(matcher, tokenizer)
        assert follows(matcher, written) == len(written)
        assert follows(matcher.__class__(*_parts(matcher)), tokenizer.encode("x", False)) == 0
        answer = tokenizer.encode("\n\n{}", False)
        assert follows(matcher, answer) == len(answer) and may_end(matcher, tokenizer)


def _parts(matcher: Any) -> Any:
    """Of a copy, to try something on it."""
    return matcher._matcher.deep_copy(), matcher._vocab_size, matcher._ends
