"""Calls, or text in the asked format: in every format that the parsers know, as its models write it."""

from __future__ import annotations

from typing import Any

import pytest
from llguidance import LLParserLimits

from paceline.conversation.grammar import Grammars, GrammarSpec, Tool, calls_or_text_spec, compile
from paceline.conversation.grammar.call_forms import NamedSchema, closed, native_calls
from paceline.conversation.parsing.formats import HARMONY, NONE, TOOL_PARSERS
from paceline.conversation.tokenizer import Tokenizer
from paceline.errors import InvalidRequest
from tests.conversation.grammar.walks import WIDTH, takes, wander
from tests.conversation.parsing.cases import FORMATS, TOOLS, Format, named, read
from tests.waiting import WAIT

CALLABLE = [Tool(tool["function"]["name"], tool["function"].get("parameters")) for tool in TOOLS]
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
TEXT = '{"name": "get_time", "people": 3}'  # begins like a bare call
SPEC = GrammarSpec.json_schema(CITY)
CALL = ("get_weather", {"city": "Bonn", "days": 3})
FINAL = {HARMONY: "<|channel|>final <|constrain|>json<|message|>"}


def either(format: str, *, parallel: bool = True, text: GrammarSpec = SPEC, tools: Any = CALLABLE) -> GrammarSpec:
    return calls_or_text_spec(tools, format, parallel, text)


def test_there_is_a_case_for_each_format() -> None:
    assert {case.tools for case in FORMATS.values()} | {"longcat"} == set(TOOL_PARSERS) - {"auto", NONE}


def first_of(case: Format, *calls: tuple[str, dict[str, Any]]) -> str:
    """As an output begins: the prompt has GPT-OSS's first mark."""
    return case.calls(*calls).removeprefix("<|start|>assistant")


WITH_TOKENS = {  # marks that are allowed where the vocabulary has them: it is not this one
    "llama3_json with tag": {"<|python_tag|>": 1},
    "json with marks": {"<|tool_call|>": 1, "<|/tool_call|>": 2},
    "json of apriel": {"<tool_calls>": 1, "</tool_calls>": 2},
    "json of minimax m1": {"<tool_calls>": 1, "</tool_calls>": 2},
    "json of nemotron": {"<TOOLCALL>": 1, "</TOOLCALL>": 2},
    "json of gigachat": {"<|function_call|>": 1},
    "json of command r": {"<|START_ACTION|>": 1, "<|END_ACTION|>": 2},
    "json of apertus": {"<|tools_prefix|>": 1, "<|tools_suffix|>": 2},
}


@pytest.mark.parametrize("name", WITH_TOKENS)
def test_a_mark_is_allowed_where_the_vocabulary_has_it(name: str) -> None:
    rules, _ = native_calls(FORMATS[name].tools, [], True, WITH_TOKENS[name])
    assert all(f"<[{token}]>" in "".join(rules) for token in WITH_TOKENS[name].values())
    rules, _ = native_calls(FORMATS[name].tools, [], True, {})
    assert "<[" not in "".join(rules)


def test_a_marked_object_has_the_keys_of_its_mark() -> None:
    tools = [NamedSchema("get_time", {"type": "object"})]
    rules, _ = native_calls("json", tools, False, WITH_TOKENS["json of command r"])
    assert any('"\\"tool_name\\""' in rule and '"\\"parameters\\""' in rule for rule in rules)
    rules, _ = native_calls("json", tools, False, WITH_TOKENS["json of apertus"])
    assert any('"{"' in rule and '"\\"get_time\\""' in rule and "name" not in rule for rule in rules)


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("json list", *WITH_TOKENS)])
def test_a_call_or_text_in_the_format_and_nothing_else(grammars: Grammars, tokenizer: Tokenizer, name: str) -> None:
    case = FORMATS[name]
    compiled = grammars.compile(either(case.tools))
    final = FINAL.get(case.tools, "")
    call = first_of(case, CALL)
    assert named(read(call, case.format, calls_first=True)) == [CALL]
    assert takes(compiled, tokenizer, call)
    assert not takes(compiled, tokenizer, first_of(case, ("rm", {})))
    assert takes(compiled, tokenizer, final + TEXT)
    for text in ("So: " + call, final + "Bonn", final + '{"name": "x"}', final + TEXT + call, ""):
        assert not takes(compiled, tokenizer, text), text


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "glm", "minimax", "minicpm5", "llama3_json", "mistral list"])
def test_more_than_one_call_where_they_may_be_parallel(grammars: Grammars, tokenizer: Tokenizer, name: str) -> None:
    case = FORMATS[name]
    both = case.calls(CALL, ("get_time", {}))
    if name == "minimax":
        both = case.calls(CALL) + "\n" + case.calls(("get_time", {}))
    assert takes(grammars.compile(either(case.tools)), tokenizer, both)
    assert not takes(grammars.compile(either(case.tools, parallel=False)), tokenizer, both)


@pytest.mark.parametrize("name", ["qwen3_coder", "glm", "minimax"])
def test_a_tagged_call_has_only_the_parameters_of_its_tool(grammars: Grammars, tokenizer: Tokenizer, name: str) -> None:
    case = FORMATS[name]
    compiled = grammars.compile(either(case.tools))
    assert takes(compiled, tokenizer, case.calls(("get_time", {})))
    assert not takes(compiled, tokenizer, case.calls(("get_time", {"city": "Bonn"})))
    assert not takes(compiled, tokenizer, case.calls(("get_weather", {"town": "Bonn"})))
    loose = [Tool("get_weather", {"type": "object"})]
    assert takes(
        grammars.compile(either(case.tools, tools=loose)), tokenizer, case.calls(("get_weather", {"town": "B"}))
    )


@pytest.mark.parametrize("name", ["hermes", "json", "qwen3_coder", "glm"])
def test_whatever_it_lets_through_is_calls_or_text_in_the_format(
    grammars: Grammars, tokenizer: Tokenizer, name: str
) -> None:
    case = FORMATS[name]
    days = {"type": "object", "properties": {"days": {"enum": [1, 2]}}, "required": ["days"]}
    text = GrammarSpec.choice(['{"a": 1}', "yes"])
    compiled = grammars.compile(either(case.tools, text=text, tools=[Tool("get_weather", days), Tool("get_time")]))
    said = [wander(compiled, tokenizer, seed) for seed in range(12)]
    whole = [one for one in said if one is not None]
    assert whole
    for one in whole:
        answer = read(one, case.format, calls_first=True)
        assert answer.content in ('{"a": 1}', "yes") if not answer.calls else not answer.content


@pytest.mark.parametrize("text", [GrammarSpec.json_object(), GrammarSpec.regex("[a-f]+"), GrammarSpec.choice(["a"])])
@pytest.mark.parametrize("format", ["hermes", "json"])
def test_the_text_may_have_any_format(grammars: Grammars, tokenizer: Tokenizer, format: str, text: GrammarSpec) -> None:
    compiled = grammars.compile(either(format, text=text))
    assert takes(compiled, tokenizer, FORMATS[format].calls(CALL))
    assert takes(compiled, tokenizer, "{}" if text.kind == "json_object" else "a")
    assert not takes(compiled, tokenizer, "x")


def test_a_thought_comes_before_either(grammars: Grammars, tokenizer: Tokenizer) -> None:
    for format in ("hermes", "qwen3_coder"):
        compiled = grammars.compile(either(format).following("</think>"))
        for answer in (TEXT, FORMATS[format].calls(CALL)):
            assert takes(compiled, tokenizer, f"Is it <tool_call or {{}}?</think>\n\n{answer}")
        assert not takes(compiled, tokenizer, "Is it?</think>\n\nIt is.")
    compiled = grammars.compile(either(HARMONY))
    thought = "<|channel|>analysis<|message|>Is it?<|end|><|start|>assistant"
    for answer in (FINAL[HARMONY] + TEXT, first_of(FORMATS[HARMONY], CALL).removesuffix("<|call|>")):
        assert takes(compiled, tokenizer, thought + answer)
    assert not takes(compiled, tokenizer, thought + TEXT)


def test_longcats_calls_too(grammars: Grammars, tokenizer: Tokenizer) -> None:
    compiled = grammars.compile(either("longcat"))
    inside = "\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>B</longcat_arg_value>\n"
    assert takes(compiled, tokenizer, f"<longcat_tool_call>get_weather{inside}</longcat_tool_call>")
    assert not takes(compiled, tokenizer, f"<longcat_tool_call>rm{inside}</longcat_tool_call>")
    assert takes(compiled, tokenizer, TEXT)


def test_definitions_of_a_bare_calls_schema_are_found(grammars: Grammars, tokenizer: Tokenizer) -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/end"}]}}}
    spec = either("json", tools=[Tool("keep", {**node, "$defs": {"end": {"type": "null"}}}, strict=True)])
    compiled = grammars.compile(spec)
    assert takes(compiled, tokenizer, '{"name": "keep", "arguments": {"next": {"next": null}}}')
    assert not takes(compiled, tokenizer, '{"name": "keep", "arguments": {"next": 3}}')


def test_an_error_names_the_field_that_has_it(grammars: Grammars) -> None:
    bad = {"type": "object", "not": {"required": ["a"]}}
    for format in ("hermes", "json"):
        with pytest.raises(InvalidRequest, match="'f'") as error:
            grammars.compile(either(format, tools=[Tool("f", bad, strict=True)]))
        assert error.value.field == "tools"
        with pytest.raises(InvalidRequest, match="not, which") as error:
            grammars.compile(either(format, text=GrammarSpec.json_schema(bad)))
        assert error.value.field == "response_format"


def test_tools_that_are_too_much_together_do_not_make_the_format_impossible(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their arguments are any object then; those of strict tools are refused."""
    monkeypatch.setattr(compile, "LIMITS", LLParserLimits(max_grammar_size=1_500, verbose_errors=False))
    grammars = Grammars(tokenizer, WIDTH, tokenizer.eos_ids, seconds=WAIT)
    large = {"type": "object", "properties": {f"p{place}": {"enum": ["a", "b"]} for place in range(200)}}
    compiled = grammars.compile(either("hermes", tools=[Tool("f", large)]))
    assert takes(compiled, tokenizer, TEXT)
    assert takes(compiled, tokenizer, FORMATS["hermes"].calls(("f", {"x": 1})))
    with pytest.raises(InvalidRequest):
        grammars.compile(either("hermes", tools=[Tool("f", large, strict=True)]))


def test_special_tokens_inside_a_held_call_are_named() -> None:
    markers = {"<|tool_call>": 1, "<tool_call|>": 2, '<|"|>': 3}
    rules, parts = native_calls("gemma", [], True, markers)
    assert parts == []
    assert any("<[3]>" in rule for rule in rules) and any("<[2]>" in rule for rule in rules)


def test_a_schema_is_closed_unless_it_says_otherwise() -> None:
    assert closed({})["additionalProperties"] is False
    assert closed({"properties": {}})["additionalProperties"] is False
    assert "additionalProperties" not in closed({"properties": {}, "anyOf": [{}]})
