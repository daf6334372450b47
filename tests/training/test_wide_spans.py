"""Values that end where the name or noun ends, and frames around them that have no value."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

from training import wide_orders, wide_spans, wide_spans_words
from training.held_words import taken
from training.wide_talk import spelled


def test_every_sentence_names_its_places() -> None:
    for table in wide_spans.frames():
        for text, places in table:
            holes = {found[1] for found in wide_spans.HOLE.finditer(text)} - {"x"}
            holes |= {"p"} if "{P}" in text else set()
            assert holes == set(places), text
            assert {hole.rstrip("2") for hole in holes} <= set(wide_spans.VALUES)
    assert sum(map(len, wide_spans.frames())) > 100
    assert len({*wide_spans.ONE, *wide_spans.SOME, *wide_spans.ROLED, *wide_spans.CALLED, *wide_spans.PLACES}) > 150
    assert len(wide_orders.ORDERS) + len(wide_orders.KEYED) > 250


def test_a_value_stands_in_the_text_and_no_word_beside_it_is_taken_with_it(data: Path) -> None:
    rng = Random(0)
    sizes = set(wide_spans_words.SIZES.split(","))
    rare = 0
    for _ in range(800):
        form = wide_spans.form(rng)
        text, values = form.told(rng)
        assert list(values) == list(form.values) and not re.search("[{}]|,,", text) and not any(map(taken, values))
        for hole, key in form.asked:
            value = values[key]
            if isinstance(value, int):
                assert form.values[key]["type"] == "integer" and (str(value) in text or spelled(value) in text.lower())
                continue
            assert value.lower() in text.lower() and value == value.strip(" ,.-()")
            if hole == "x" and form.of is not None:
                rare += 1
                assert value.split(" ")[0] not in sizes
                assert value.split(" ")[-1] != form.of.word
    assert rare > 300


def test_two_persons_are_never_the_same(data: Path) -> None:
    rng = Random(1)
    for _ in range(500):
        form = wide_spans.form(rng)
        values = form.told(rng)[1]
        names = [values[key] for hole, key in form.asked if hole in ("p", "p2", "team", "team2")]
        assert len(set(names)) == len(names)


def test_all_keys_are_in_the_prompt_unless_a_grammar_has_them(data: Path) -> None:
    rng = Random(2)
    blind = 0
    for _ in range(500):
        chat = wide_orders.answered(wide_spans.form(rng), rng, "wide_spans")
        prompt = f"{chat.system}\n{chat.turns[0].text}"
        answer = chat.turns[-1].text.removeprefix("```json\n").removesuffix("\n```")
        assert json.loads(answer) == chat.expect and "{k}" not in prompt and "{o}" not in prompt
        blind += chat.blind
        if not chat.blind:
            assert all(key in prompt for key in chat.expect)
    assert 150 < blind < 350


def test_nobody_signs_with_a_name_that_is_asked_for(data: Path) -> None:
    rng = Random(3)
    names = {wide_orders.signed(rng) for _ in range(50)}
    for name in names:
        text = f"{name} sold the boat."
        for _ in range(20):
            assert wide_orders.around(text, "extract", rng, text).count(name) == 1
