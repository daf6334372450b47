"""What JSON's usual styles force is proposed; what a grammar allows does not change."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from paceline.conversation.grammar import Grammars, GrammarSpec, compile, tool_call_spec
from paceline.conversation.grammar.styles import STYLES, Layout, styled
from paceline.conversation.tokenizer import Tokenizer
from tests.conversation.grammar.walks import TOOLS, WIDTH, takes
from tests.waiting import WAIT

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "days": {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2},
        "place": {"type": "object", "properties": {"city": {"enum": ["Bern", "Basel"]}}, "required": ["city"]},
    },
    "required": ["name", "days", "place"],
    "additionalProperties": False,
}
VALUE: Any = {"name": "a line", "days": [1, 2], "place": {"city": "Bern"}}
SPEC = GrammarSpec.json_schema(SCHEMA)
WRITTEN = {
    "spaced": json.dumps(VALUE),
    "compact": json.dumps(VALUE, separators=(",", ":")),
    "indented": json.dumps(VALUE, indent=2),
    "indented by 4": json.dumps(VALUE, indent=4),
    "tabs": json.dumps(VALUE, indent="\t"),
    "stray": json.dumps(VALUE).replace("1, 2", "1 ,2"),
    "odd": json.dumps(VALUE).replace('": ', '" :', 1),
}


@pytest.fixture(scope="module")
def drafting(tokenizer: Tokenizer) -> Grammars:
    return Grammars(tokenizer, WIDTH, tokenizer.eos_ids, seconds=WAIT, drafts=True)


def followed(grammars: Grammars, tokenizer: Tokenizer, spec: GrammarSpec, text: str) -> tuple[int, int, int]:
    """Tokens of an answer, those of them that were proposed, and proposed ones that were not written."""
    matcher = grammars.compile(spec).matcher()
    tokens = tokenizer.encode(text, add_special_tokens=False)
    place = right = wrong = 0
    while place < len(tokens):
        offered = matcher.forced()
        hits = 0
        while hits < len(offered) and offered[hits : hits + 1] == tokens[place + hits : place + hits + 1]:
            hits += 1
        right, wrong = right + hits, wrong + len(offered) - hits
        for token in tokens[place : place + hits + 1]:
            matcher.accept(token)
        place += hits + 1
    return len(tokens), right, wrong


PAIR = {
    "type": "object",
    "properties": {"first": {"type": "integer"}, "second": {"type": "integer"}},
    "required": ["first", "second"],
    "additionalProperties": False,
}
PAIRS = {"type": "array", "items": PAIR}


@pytest.mark.parametrize("style", ["spaced", "compact"])
def test_keys_quotes_and_braces_of_a_usual_style_are_proposed(
    drafting: Grammars, tokenizer: Tokenizer, style: str
) -> None:
    tokens, right, wrong = followed(drafting, tokenizer, SPEC, WRITTEN[style])
    assert right > tokens / 2
    assert wrong <= 6  # once for each style that it is not, and where a value's tokens are others


@pytest.mark.parametrize("style", ["indented", "indented by 4", "tabs", "odd", "stray"])
def test_blanks_of_its_own_are_proposed_as_they_stood_before(
    drafting: Grammars, tokenizer: Tokenizer, style: str
) -> None:
    tokens, right, wrong = followed(drafting, tokenizer, SPEC, WRITTEN[style])
    assert right > tokens / 3
    assert takes(drafting.compile(SPEC), tokenizer, WRITTEN[style])


def test_blanks_before_colons_commas_and_ends_are_learnt(drafting: Grammars) -> None:
    compiled = drafting.compile(GrammarSpec.json_schema(PAIRS))
    assert compiled._vocabulary is not None
    layout = Layout(compiled._vocabulary, compiled._styles[-1].deep_copy())
    assert layout.read([b'[{"first"', b" ", b": ", b"1", b" ", b', "second', b'"', b" ", b":"])
    assert b"".join(layout.forced()) == b""  # the number
    assert layout.read([b" ", b"2"])
    assert layout.read([b" }", b', {"'])
    assert b"".join(layout.forced()) == b'first" :'
    assert layout.read([b'first" : 3'])
    assert layout.read([b" ,"])
    assert b"".join(layout.forced()) == b' "second" :'


def test_blanks_are_tokens_of_their_own_where_they_were_before(drafting: Grammars) -> None:
    compiled = drafting.compile(GrammarSpec.json_schema(PAIRS))
    assert compiled._vocabulary is not None
    layout = Layout(compiled._vocabulary, compiled._styles[-1].deep_copy())
    assert layout.read([b'[ {"first" ', b":", b"1 ", b",", b' "second', b'"', b" ", b":"])
    assert layout.read([b"2", b"}", b",", b" ", b"{"])
    assert layout.forced() == [b'"first"', b" ", b":"]
    assert layout.read([b'"first"', b" ", b":", b" 3", b" ,"])
    assert layout.forced() == [b' "second"', b" ", b":"]


@pytest.mark.parametrize("text", WRITTEN.values())
def test_the_masks_are_those_of_a_grammar_without_styles(
    drafting: Grammars, grammars: Grammars, tokenizer: Tokenizer, text: str
) -> None:
    """And what is proposed is allowed."""
    ours, plain = (each.compile(SPEC).matcher() for each in (drafting, grammars))
    for token in tokenizer.encode(text, add_special_tokens=False):
        mask = ours.allowed(())
        assert np.array_equal(mask, plain.allowed(()))
        offered = ours.forced()
        masks = ours.allowed(offered)
        assert all(masks[place, each] for place, each in enumerate(offered))
        ours.accept(token)
        plain.accept(token)


def test_arguments_of_a_call_are_proposed_behind_its_head(drafting: Grammars, tokenizer: Tokenizer) -> None:
    spec = tool_call_spec(TOOLS[:1], "required", "", "", False)
    tokens, right, _ = followed(drafting, tokenizer, spec, '{"name": "weather", "arguments": {"days": 3}}')
    assert right > 0.7 * tokens


def test_without_drafting_without_json_and_for_large_grammars_there_are_no_styles(
    drafting: Grammars, grammars: Grammars
) -> None:
    large = {**SCHEMA, "description": "x" * compile.STYLED_BYTES}
    for compiled in (
        grammars.compile(SPEC),
        drafting.compile(GrammarSpec.regex("a+")),
        drafting.compile(GrammarSpec.json_schema(large)),
    ):
        assert not compiled._styles
    assert len(drafting.compile(SPEC)._styles) == len(STYLES)
    assert drafting.compile(SPEC).size == (1 + len(STYLES)) * grammars.compile(SPEC).size


def test_only_the_blanks_differ() -> None:
    grammar = json.dumps({"grammars": [{"name": "a", "lark_grammar": "start: @b"}, {"name": "b", "json_schema": {}}]})
    for text, style in zip(styled(grammar), STYLES, strict=True):
        first, second = json.loads(text)["grammars"]
        assert first == {"name": "a", "lark_grammar": "start: @b"}
        assert second == {"name": "b", "json_schema": {"x-guidance": style}}
    assert styled(json.dumps({"grammars": [{"name": "a", "lark_grammar": "start: /a/"}]})) == []
