"""From a specification to a grammar: every kind, both kinds of vocabulary, the cache, many threads."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from paceline.conversation.grammar import Grammars, GrammarSpec, Tool, compile, tool_call_spec
from paceline.conversation.tokenizer import Tokenizer
from paceline.errors import InvalidRequest
from tests.conversation import vocabularies
from tests.conversation.grammar.walks import follows, may_end, takes, wander
from tests.waiting import WAIT

WIDTH = 600  # more than any of the tokenizers has
DAYS = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"days": 3}}\n</tool_call>'
OTHER = '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'
TOOLS = [Tool("weather", DAYS), Tool("time")]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return vocabularies.byte_level(tmp_path_factory.mktemp("byte_level"))


@pytest.fixture(scope="module")
def grammars(tokenizer: Tokenizer) -> Grammars:
    return Grammars(tokenizer, WIDTH, tokenizer.eos_ids)


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


@pytest.mark.parametrize("kind", ["byte_level", "byte_fallback", "metaspace"])
def test_every_kind_of_vocabulary(tmp_path: Path, kind: str) -> None:
    tokenizer = getattr(vocabularies, kind)(tmp_path)
    grammars = Grammars(tokenizer, WIDTH, tokenizer.eos_ids)
    pattern = r"[abcdeh]{3} lo\.? a"
    found = [wander(grammars.compile(GrammarSpec.regex(pattern)), tokenizer, seed) for seed in range(8)]
    assert all(text is not None and re.fullmatch(pattern, text) for text in found)
    assert len(set(found)) > 1
    if kind != "metaspace":  # it has no bytes, so no braces
        schema = {"type": "object", "properties": {"é": {"enum": ["人", "🙂a"]}}, "required": ["é"]}
        text = wander(
            grammars.compile(GrammarSpec.json_schema({**schema, "additionalProperties": False})), tokenizer, 3
        )
        assert text is not None and json.loads(text)["é"] in ("人", "🙂a")


def test_the_same_grammar_is_compiled_once(tokenizer: Tokenizer) -> None:
    grammars = Grammars(tokenizer, WIDTH, tokenizer.eos_ids)
    first = grammars.compile(GrammarSpec.json_schema(DAYS))
    assert grammars.compile(GrammarSpec.json_schema(json.dumps(DAYS), field="text.format")) is first
    assert grammars.compile(GrammarSpec.json_schema(DAYS).following("</think>")) is not first
    assert grammars.compiled == 2


def test_what_was_not_used_for_longest_is_forgotten(tokenizer: Tokenizer) -> None:
    grammars = Grammars(tokenizer, WIDTH, tokenizer.eos_ids, cache_bytes=4 * compile.BASE_BYTES)
    first = grammars.compile(GrammarSpec.choice(["0"]))
    for place in range(1, 40):
        grammars.compile(GrammarSpec.choice([str(place)]))
        assert grammars.compile(GrammarSpec.choice(["0"])) is first
        assert grammars.held <= 4 * compile.BASE_BYTES
    assert grammars.compiled == 40
    grammars.compile(GrammarSpec.choice(["1"]))
    assert grammars.compiled == 41


def test_an_error_is_remembered_and_names_the_field_of_this_request(tokenizer: Tokenizer) -> None:
    grammars = Grammars(tokenizer, WIDTH, tokenizer.eos_ids)
    for field in ("response_format", "text.format"):
        with pytest.raises(InvalidRequest) as raised:
            grammars.compile(GrammarSpec.json_schema({"not": {}}, field=field))
        assert raised.value.field == field
    assert grammars.held > 0 and grammars.compiled == 0


def test_what_takes_too_long_is_refused_and_others_go_on(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    grammars = Grammars(tokenizer, WIDTH, tokenizer.eos_ids, seconds=0.2)
    made, over = grammars._made, threading.Event()

    def dawdling(spec: GrammarSpec) -> Any:
        over.wait()
        return made(spec)

    monkeypatch.setattr(grammars, "_made", dawdling)
    with pytest.raises(InvalidRequest, match="seconds"):
        grammars.compile(GrammarSpec.choice(["slow"]))
    monkeypatch.setattr(grammars, "_made", made)
    monkeypatch.setattr(grammars, "_seconds", WAIT)
    assert takes(grammars.compile(GrammarSpec.choice(["quick"])), tokenizer, "quick")
    over.set()


def test_many_threads_compile_and_follow_at_once(tokenizer: Tokenizer) -> None:
    grammars = Grammars(tokenizer, WIDTH, tokenizer.eos_ids, cache_bytes=6 * compile.BASE_BYTES)
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def work(worker: int) -> None:
        try:
            start.wait()
            for place in range(30):
                words = [f"word {(worker // 2 + place) % 9} {letter}" for letter in "ab"]
                assert wander(grammars.compile(GrammarSpec.choice(words)), tokenizer, worker) in words
                if place % 10 == worker:
                    with pytest.raises(InvalidRequest):
                        grammars.compile(GrammarSpec.regex("(a"))
        except BaseException as error:  # noqa: BLE001  for the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert grammars._under_way == {} and grammars.held <= 6 * compile.BASE_BYTES
