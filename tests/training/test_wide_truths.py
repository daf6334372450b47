"""True or false in other words: both sides are told equally often, and the key is of either polarity."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

from training import wide_truths
from training.held_words import taken


def test_every_truth_has_sayings_for_both_sides_with_its_subject() -> None:
    assert len(wide_truths.truths()) > 120
    for truth in wide_truths.truths():
        assert len(truth.yes) > 1 and len(truth.no) > 1
        assert all("{it" in text for text in (*truth.yes, *truth.no))
        assert not set(truth.yes) & set(truth.no) and not set(truth.so) & set(truth.not_so)


def test_a_key_is_true_if_the_saying_is_of_its_side(data: Path) -> None:
    rng = Random(0)
    told = {True: 0, False: 0}
    for _ in range(600):
        form = wide_truths.form(rng)
        text, values = form.told(rng)
        assert list(values) == list(form.values) and "{" not in text and not any(map(taken, values))
        for hole, key in form.asked:
            assert values[key] in text and form.values[key] == {"type": "string"}, hole
        for part in form.parts:
            told[values[part.key]] += 1
            yes = values[part.key] == part.straight
            middles = [
                max(re.split(r"\{it(?:\.n)?\}", one), key=len).strip().lower()
                for one in (part.truth.yes if yes else part.truth.no)
            ]
            assert form.values[part.key] == {"type": "boolean"} and any(each in text.lower() for each in middles)
    assert abs(told[True] - told[False]) < 200


def test_of_two_truths_one_is_of_a_person_and_one_of_a_thing(data: Path) -> None:
    rng = Random(1)
    for _ in range(300):
        sorts = [bool(part.truth.things) for part in wide_truths.form(rng).parts]
        assert len(set(sorts)) == len(sorts)


def test_a_sentence_and_truths_have_the_keys_of_both(data: Path) -> None:
    rng = Random(3)
    sizes = set()
    for _ in range(300):
        form = wide_truths.both(rng)
        text, values = form.told(rng)
        sizes.add(len(values))
        assert list(values) == list(form.values) and not any(map(taken, values))
        assert any(isinstance(value, bool) for value in values.values())
        assert all(value.lower() in text.lower() for value in values.values() if isinstance(value, str))
    assert max(sizes) > 5


def test_what_is_drawn_is_its_own_answer(data: Path) -> None:
    rng = Random(2)
    for _ in range(200):
        chat = wide_truths.draw(rng)
        answer = chat.turns[-1].text.removeprefix("```json\n").removesuffix("\n```")
        assert json.loads(answer) == chat.expect
