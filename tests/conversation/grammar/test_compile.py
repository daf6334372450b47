"""From a specification to a grammar: every kind, both kinds of vocabulary, the cache, many threads."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from paceline.conversation.grammar import Grammars, GrammarSpec, compile
from paceline.conversation.tokenizer import Tokenizer
from paceline.errors import InvalidRequest
from tests.conversation import vocabularies
from tests.conversation.grammar.walks import DAYS, WIDTH, takes, wander
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
