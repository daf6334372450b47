"""The generators of the third run: what they ask has the answer they give."""

from __future__ import annotations

import json
import re
from random import Random

import pytest

from training import wide_asked, wide_kinds, wide_more, wide_pictures, wide_relations
from training.data_chat import answer_text

pytestmark = pytest.mark.usefixtures("data")


def test_every_relation_is_told_and_asked_for_with_its_slots() -> None:
    for kind, value, told, asked in wide_relations.relations():
        assert kind in ("", "who", "what", "place") and value in wide_relations.VALUES
        assert all("{k}" in text and "{v}" in text for text in told)
        assert all("{k}" in text and "{v}" not in text for text in asked)


def test_a_related_fact_is_in_its_sentence_and_in_its_answer() -> None:
    rng = Random(1)
    for _ in range(500):
        fact = wide_relations.draw(rng)
        assert fact.value.lower() in fact.told(rng).lower()
        assert fact.value.lower() in fact.asked(rng)[1].lower()
        _, answer, right = fact.yes_or_no(rng, fact.another(rng))
        assert answer.startswith("Yes" if right else "No") and fact.value in answer


def test_records_have_their_slots_in_every_sentence() -> None:
    for record in wide_kinds.known():
        for text in (*record.told, *record.requests):
            assert set(re.findall(r"\{(\w+)\}", text)) <= set(record.slots)


def test_json_has_the_values_of_the_text() -> None:
    rng = Random(2)
    for _ in range(300):
        chat = wide_kinds.json_answer(rng)
        value = json.loads(chat.turns[-1].text)
        assert value == chat.expect
        told = chat.system + chat.turns[0].text
        for one in value.values():
            assert not isinstance(one, str) or one.lower() in told.lower()


def test_calls_are_of_tools_that_are_there() -> None:
    rng = Random(3)
    for _ in range(200):
        chat = wide_kinds.tool_call(rng)
        tools = {tool["function"]["name"]: tool["function"]["parameters"]["properties"] for tool in chat.tools}
        for turn in chat.turns:
            assert turn.role != "assistant" or answer_text(turn)
            for name, arguments in turn.calls:
                assert set(arguments) <= set(tools[name])


def test_sums_in_words_are_right() -> None:
    rng = Random(4)
    for _ in range(500):
        found = re.fullmatch(r"(\d+) (plus|minus|times|divided by) (\d+) is (\d+)\.", wide_more.word_sum(rng).answer)
        assert found is not None
        x, y = int(found[1]), int(found[3])
        made = {"plus": x + y, "minus": x - y, "times": x * y, "divided by": x / y}
        assert made[found[2]] == int(found[4])


def test_talk_is_said_and_answered() -> None:
    rng = Random(5)
    for draw in wide_asked.EXCHANGES:
        for _ in range(50):
            one = draw(rng)
            assert one.user.strip() and one.answer and "{" not in one.user + one.answer


def test_shapes_are_seen() -> None:
    rng = Random(6)
    for shape in set(wide_pictures.SHAPES):
        for _ in range(8):
            cover = wide_pictures.cover(shape, rng.randint(11, 58), wide_pictures.squeezed(rng), rng)
            assert 0.02 < cover.mean() < 0.98
