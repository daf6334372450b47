"""Records by members of kinds: the text tells every value, and no name is the examiner's."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
from tokenizers import Tokenizer

from paceline.models.files import EMBEDDED
from training import data, wide_choose, wide_told
from training.data_chat import Chat, Turn
from training.held_words import held_keys, plain


def test_the_text_tells_every_value_in_its_own_words(data: Path) -> None:
    rng = Random(0)
    for _ in range(400):
        form = wide_told.form(rng)
        text, values = form.told(rng)
        assert list(values) == list(form.values)
        for name, value in values.items():
            kind = form.values[name]
            if kind["type"] == "string" and "enum" not in kind:
                assert value.lower() in text.lower(), (text, name, value)
            elif kind["type"] == "string":
                assert value in kind["enum"]
            else:
                assert isinstance(value, {"integer": int, "number": float, "boolean": bool}[kind["type"]])


def test_no_name_is_the_examiners(data: Path) -> None:
    rng = Random(1)
    assert len(held_keys()) > 100
    for _ in range(300):
        assert not {plain(name) for name in wide_told.form(rng).values} & held_keys()
    for _ in range(100):
        chat = wide_choose.tool_call(rng)
        for tool in chat.tools:
            assert not {plain(name) for name in tool["function"]["parameters"]["properties"]} & (held_keys() - HOURS)


HOURS = {"hour", "minute", "hours", "minutes"}  # there are few other words for them


def test_a_call_is_of_a_tool_that_is_there_and_has_what_it_requires(data: Path) -> None:
    for seed in range(80):
        chat = wide_choose.tool_call(Random(seed)) if seed % 4 else wide_choose.told_call(Random(seed))
        known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.tools}
        assert not {plain(name) for name in known} & held_keys()
        for turn in chat.turns:
            for name, arguments in turn.calls:
                assert set(known[name]["required"]) <= set(arguments) <= set(known[name]["properties"])


def test_a_time_of_day_is_its_hour_and_minute() -> None:
    for seed in range(200):
        words, hour, minute = wide_choose.clock(Random(seed))
        assert 0 <= hour < 24 and 0 <= minute < 60, words
        if words.startswith("quarter to "):
            assert minute == 45


def test_keys_that_a_grammar_writes_are_not_predicted() -> None:
    words = Tokenizer.from_file(str(EMBEDDED / "paceline-mini" / "tokenizer.json"))
    encoder = data.Encoder(words)
    answer = '{"rock": "slate", "count": 3, "dry": true}'
    for blind in (False, True):
        chat = Chat([Turn("user", "x"), Turn("assistant", answer)], "wide_json", (), blind=blind)
        (document,) = encoder.documents([(chat, None)])
        said = words.decode(document.tokens[np.flatnonzero(document.loss)].tolist(), skip_special_tokens=True)
        assert ("rock" in said) != blind and ("count" in said) != blind and ("dry" in said) != blind
        assert "slate" in said and "3" in said and "true" in said
