"""Values beside their neighbors: each is of its key's kind and stands in the text."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from training import wide_beside, wide_beside_words
from training.held_words import taken
from training.wide_talk import spelled


def test_a_value_is_one_of_the_two_nouns_and_never_both(data: Path) -> None:
    rng = Random(0)
    seen = 0
    for _ in range(800):
        form = wide_beside.form(rng)
        text, values = form.told(rng)
        assert list(values) == list(form.values) and "{" not in text and not any(map(taken, values))
        places = {hole: values[name] for hole, name in form.asked}
        for hole, value in places.items():
            kind = form.values[dict(form.asked)[hole]]["type"]
            if hole in wide_beside.NUMBERS:
                assert kind == "integer" and (str(value) in text or spelled(value) in text.lower())
            else:
                assert kind == "string" and value.lower() in text.lower()
        if form.pair is not None and "x" in places:
            seen += 1
            assert places["x"] not in form.pair.seconds
            assert not any(places["x"].endswith(f" {second}") for second in form.pair.seconds)
        if form.pair is not None and "z" in places:
            assert places["z"] in form.pair.seconds
        chatter = {*wide_beside.CHATTER_BEFORE, *wide_beside.CHATTER_BEHIND}
        assert not chatter & {f"{value}." for value in values.values()}
    assert seen > 300


def test_all_keys_are_there_as_they_were_asked_for_and_no_more(data: Path) -> None:
    rng = Random(1)
    for _ in range(300):
        chat = wide_beside.keyed(rng)
        values = json.loads(chat.turns[-1].text)
        prompt = f"{chat.system}\n{chat.turns[0].text}"
        assert values == chat.expect and all(name in prompt and name == name.strip() for name in values)


def test_every_frame_names_its_places() -> None:
    for table in (wide_beside_words.FRAMES, wide_beside_words.TITLED, wide_beside_words.WHOSE):
        for text, places in wide_beside.frames(table):
            holes = {found[1] for found in wide_beside.HOLE.finditer(text)} - {"np"}
            assert holes == set(places), text
            assert {hole.rstrip("2") for hole in holes} <= set(wide_beside.VALUES)
    assert len(wide_beside.pairs()) > 35


def test_a_part_is_never_more_than_the_whole(data: Path) -> None:
    rng = Random(2)
    sentence = "{n} eggs, {m} of them broken"
    form = wide_beside.BesideForm("Note", {}, None, {}, (), sentence, (("n", "eggs"), ("m", "broken")))
    for _ in range(50):
        values = form.told(rng)[1]
        assert values["broken"] < values["eggs"]
