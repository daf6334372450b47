from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console

from benchmarks import shapes
from benchmarks.structured import ALONE, DRAFTED, FREE, ORDER, RULED, StructuredBench, answers, beside, preferences
from benchmarks.tables import speculation_table
from paceline.conversation.grammar import Grammars, GrammarSpec
from paceline.conversation.tokenizer import Tokenizer
from paceline.models.files import DEFAULT_FOLDER, read_config

SMALL = dict(hidden_size=64, intermediate_size=128, num_attention_heads=2, num_key_value_heads=1, head_dim=64)
SMALL |= dict(linear_num_key_heads=1, linear_num_value_heads=1, num_hidden_layers=4, vocab_size=8192)


def test_what_is_wanted_among_what_is_allowed_is_an_order() -> None:
    tokenizer = Tokenizer.load(DEFAULT_FOLDER, read_config(DEFAULT_FOLDER))
    wanted = preferences(tokenizer, tokenizer.vocab_size)
    grammars = Grammars(tokenizer, tokenizer.vocab_size, tokenizer.eos_ids, drafts=True)
    matcher = grammars.compile(GrammarSpec.json_schema(ORDER)).matcher()
    written: list[int] = []
    forced = right = 0
    while len(written) < 512 and (not written or written[-1] not in tokenizer.eos_ids):
        proposed = matcher.forced()[:1]
        token = int(np.where(matcher.allowed([])[0], wanted, -np.inf).argmax())
        matcher.accept(token)
        written.append(token)
        forced += len(proposed)
        right += proposed == [token]
    assert list(json.loads(tokenizer.decode(written[:-1]))) == list(ORDER["properties"])
    assert right > 0.9 * forced > 0.4 * len(written)


@pytest.mark.slow
def test_answers_and_streams_beside_them_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(shapes.SHAPES, "small", shapes._hybrid(**SMALL, tie_word_embeddings=False))
    with StructuredBench("small", "rows") as bench:
        off, auto = answers(bench, [2], turns=1)
        around = beside(bench, [2], tokens=16, turns=1)
    assert json.loads(off.text) == json.loads(auto.text)
    assert off.ratio == off.cpu_ratio == 1.0 and auto.ratio > 0 and off.drafted == 0 < auto.drafted
    assert auto.acceptance is not None and auto.acceptance > 0.8
    assert [mode.name for mode in around] == [ALONE, FREE, RULED, DRAFTED]
    assert around[2].drafted == 0 and around[2].text.startswith('[{"product":"')
    text = io.StringIO()
    Console(file=text, width=140).print(speculation_table("small", around))
    assert "ratio to alone" in text.getvalue() and "by processor time" in text.getvalue()
