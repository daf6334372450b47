"""From a specification to a grammar: every kind, both kinds of vocabulary, the cache, many threads."""

from __future__ import annotations

import json
import random
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.conversation.grammar import Grammars, GrammarSpec, Tool, calls_or_text_spec, compile, tool_call_spec
from paceline.conversation.tokenizer import Tokenizer
from paceline.errors import InvalidRequest
from paceline.types import INHERITS
from tests.conversation import vocabularies
from tests.conversation.grammar.walks import DAYS, WIDTH, follows, refuses, takes, wander
from tests.waiting import WAIT


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
    assert takes(grammars.compile(GrammarSpec.choice(["slow"])), tokenizer, "slow")  # the machine was slow, not it


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


SPECS = [
    GrammarSpec.json_object(),
    GrammarSpec.regex("(a|b)*c?"),
    GrammarSpec.json_schema({"type": "array", "items": {"type": "string", "format": "date"}, "maxItems": 3}),
    GrammarSpec.choice(["yes", "no"]).following("</think>"),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_masks_after_guesses_are_those_of_a_row_that_has_them(
    grammars: Grammars, tokenizer: Tokenizer, spec: GrammarSpec
) -> None:
    """Guesses right, wrong, past the end and out of range; and a twin that never guesses says the same all the way."""
    compiled, chance = grammars.compile(spec), random.Random(7)
    for _ in range(6):
        guessing, plain = compiled.matcher(), compiled.matcher()
        for _ in range(40):
            said = plain.allowed(())[0]
            assert said.shape == (WIDTH,) and not said[tokenizer.vocab_size :].any()
            guesses = [chance.randrange(WIDTH) for _ in range(3)]
            if chance.random() < 0.8:
                ahead = compiled.matcher().__class__(plain._matcher.deep_copy(), WIDTH, plain._ends)
                for place in range(3):
                    guesses[place] = chance.choice(np.flatnonzero(ahead.allowed(())[0]).tolist())
                    if guesses[place] in tokenizer.eos_ids:
                        break
                    ahead.accept(guesses[place])
            masks = guessing.allowed(guesses)
            assert masks.shape == (4, WIDTH) and masks.dtype == np.bool_
            assert (masks[0] == said).all()
            ahead = compiled.matcher().__class__(plain._matcher.deep_copy(), WIDTH, plain._ends)
            for place, guess in enumerate(guesses, start=1):
                if guess in tokenizer.eos_ids or not ahead.allowed(())[0, guess]:
                    break
                ahead.accept(guess)
                assert (masks[place] == ahead.allowed(())[0]).all()
            token = chance.choice(np.flatnonzero(said).tolist())
            guessing.accept(token)
            plain.accept(token)
            if token in tokenizer.eos_ids:
                break


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_masks_after_tokens_that_are_accepted_later(
    grammars: Grammars, tokenizer: Tokenizer, spec: GrammarSpec
) -> None:
    """They are those of a twin that has accepted them, guesses included, also behind the end."""
    compiled, chance = grammars.compile(spec), random.Random(3)
    for _ in range(6):
        behind, plain = compiled.matcher(), compiled.matcher()
        for _ in range(30):
            said = []
            for _ in range(chance.choice([0, 1, 1, 1, 2])):
                said.append(chance.choice(np.flatnonzero(plain.allowed(())[0]).tolist()))
                plain.accept(said[-1])
            guesses = [chance.choice(np.flatnonzero(plain.allowed(())[0]).tolist()), chance.randrange(WIDTH)]
            bits, heirs = behind.packed(guesses, said)
            expected, _ = plain.packed(guesses)
            assert heirs is None
            np.testing.assert_array_equal(bits, expected)
            for token in said:
                behind.accept(token)


def test_masks_are_llguidance_s_own_where_the_model_has_fewer_tokens_or_more(tokenizer: Tokenizer) -> None:
    for vocab_size in (max(tokenizer.eos_ids) + 1, tokenizer.vocab_size, WIDTH + 7):
        compiled = Grammars(tokenizer, vocab_size, tokenizer.eos_ids).compile(GrammarSpec.json_object())
        matcher, words = compiled.matcher(), -(-vocab_size // 32)
        for token in tokenizer.encode('{"a": "b', False):
            bits, heirs = matcher.packed((token, -1))
            expected = np.frombuffer(matcher._matcher.compute_bitmask(), dtype=np.uint32)
            assert bits.shape == (3, words) and heirs is None and (bits[2] == 0xFFFFFFFF).all()
            np.testing.assert_array_equal(bits[0], expected[:words])
            after = bits[1].copy()
            matcher.accept(token)
            np.testing.assert_array_equal(matcher.packed(())[0][0], after)


def test_after_a_token_that_cannot_be_accepted_all_is_allowed(grammars: Grammars, tokenizer: Tokenizer) -> None:
    matcher = grammars.compile(GrammarSpec.choice(["ab"])).matcher()
    wrong, right = tokenizer.encode("x", False)[0], tokenizer.encode("ab", False)
    before = matcher.packed(())[0].copy()
    for said in ([wrong], [-1], [right[0], wrong]):
        bits, _ = matcher.packed([right[0]], said)
        assert (bits == 0xFFFFFFFF).all()
        np.testing.assert_array_equal(matcher.packed(())[0], before)
    assert refuses(matcher, wrong)


def test_a_complete_grammar_allows_ends_only_and_stays_there(grammars: Grammars, tokenizer: Tokenizer) -> None:
    matcher = grammars.compile(GrammarSpec.choice(["ab"])).matcher()
    assert follows(matcher, tokenizer.encode("ab", False)) > 0
    end = next(iter(tokenizer.eos_ids))
    for _ in range(3):
        masks = matcher.allowed([end, 5])
        assert set(np.flatnonzero(masks[0])) == set(tokenizer.eos_ids)
        matcher.accept(end)
    assert refuses(matcher, tokenizer.encode("a", False)[0])


def test_a_token_that_does_not_fit_is_an_error_of_its_row(grammars: Grammars, tokenizer: Tokenizer) -> None:
    matcher = grammars.compile(GrammarSpec.choice(["ab"])).matcher()
    assert refuses(matcher, next(iter(tokenizer.eos_ids)))
    assert matcher.allowed(())[0].any()
    assert refuses(matcher, tokenizer.encode("x", False)[0])
    assert matcher.allowed([1, 2]).all()  # for the step's sake
    assert refuses(matcher, tokenizer.encode("a", False)[0])
    assert refuses(grammars.compile(GrammarSpec.json_object()).matcher(), WIDTH)


@pytest.mark.parametrize(
    "spec",
    (GrammarSpec.regex("(a?){3000}a{3000}"), GrammarSpec.lark("start: a{1000000000}\na: b{1000000000}\nb: /x/")),
    ids=("pattern", "repeated"),
)
def test_a_grammar_that_is_too_much_to_follow_is_the_requests_fault(grammars: Grammars, spec: GrammarSpec) -> None:
    matcher = grammars.compile(spec).matcher("structured_outputs")
    with pytest.raises(InvalidRequest, match="too complex") as raised:
        for _ in range(20):
            matcher.accept(int(np.flatnonzero(matcher.allowed(())[0])[-1]))
    assert raised.value.field == "structured_outputs"


def test_rows_of_one_grammar_do_not_meet(grammars: Grammars, tokenizer: Tokenizer) -> None:
    compiled = grammars.compile(GrammarSpec.choice(["yes", "no"]))
    first, second = compiled.matcher(), compiled.matcher()
    assert follows(first, tokenizer.encode("yes", False)) > 0
    assert follows(second, tokenizer.encode("no", False)) > 0
    assert follows(compiled.matcher(), tokenizer.encode("yes", False)) > 0


def test_text_inherits_where_a_call_may_begin(grammars: Grammars, tokenizer: Tokenizer) -> None:
    """Only there, and only the text's tokens; a grammar without that choice has plain masks."""
    spec = calls_or_text_spec([Tool("f")], "hermes", True, GrammarSpec.choice(["yes", "{}"]))
    [call] = tokenizer.encode("<tool_call>", False)
    [brace] = tokenizer.encode("{", False)
    compiled = grammars.compile(spec.following("</think>"))
    matcher = compiled.matcher()
    assert matcher.allowed(())[0].dtype == np.bool_, "in a thought there is no choice"
    drafted = tokenizer.encode("Hm.</think>", False)
    masks = matcher.allowed(drafted)
    assert masks.dtype == np.uint8 and (masks[-1, call], masks[-1, brace]) == (1, INHERITS)
    assert INHERITS not in masks[:-1]
    for token in [*drafted, call]:
        matcher.accept(token)
    assert matcher.allowed(())[0].dtype == np.bool_
    forced = grammars.compile(tool_call_spec([Tool("f")], "required", "<tool_call>\n", "\n</tool_call>", True))
    assert forced.matcher().allowed(()).dtype == np.bool_


def test_masks_in_bits_are_the_dense_masks(grammars: Grammars, tokenizer: Tokenizer) -> None:
    spec = calls_or_text_spec([Tool("f")], "hermes", True, GrammarSpec.choice(["yes", "{}"])).following("</think>")
    matcher = grammars.compile(spec).matcher()
    for text in ("", "Hm.</think>", "Hm.</think>yes", "Hm.</think>{}</think>"):
        drafted = tokenizer.encode(text, False)
        dense = matcher.allowed(drafted)
        bits, heirs = matcher.packed(drafted)
        for found, wanted in ((bits, dense != 0), (heirs, dense == INHERITS)):
            if found is None:
                assert not wanted.any()
            else:
                flat = np.unpackbits(found.view(np.uint8), axis=-1, bitorder="little")[:, : dense.shape[1]]
                np.testing.assert_array_equal(flat.astype(bool), wanted)


def test_what_must_follow_is_forced_until_there_is_a_choice(grammars: Grammars, tokenizer: Tokenizer) -> None:
    matcher = grammars.compile(GrammarSpec.choice(["a line of text", "a line of code"])).matcher()
    forced = matcher.forced()
    assert forced and "a line of text".startswith(tokenizer.decode(forced))
    for token in forced:
        matcher.accept(token)
    assert matcher.forced() == []
