"""The wide generators: what they ask has the answer they give, and the public needle tests stay out of training."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest

from training import wide, wide_events, wide_facts, wide_forms, wide_long, wide_pictures, wide_records, wide_talk
from training.data_chat import answer_text, segments

pytestmark = pytest.mark.usefixtures("data")


def prose(size: int, rng: Random) -> str:
    return ("It was late in the day. The men went home. " * (size // 40 + 1))[:size]


def test_a_fact_is_in_its_sentence_and_in_its_answer() -> None:
    rng = Random(1)
    for _ in range(2000):
        fact = wide_facts.draw(rng)
        told = fact.told(rng).lower()
        assert fact.value.lower() in told and fact.key.lower().removeprefix("the ") in told
        question, answer = fact.asked(rng)
        assert fact.value.lower() in answer.lower()
        assert fact.value not in question or fact.value in fact.key + fact.attribute or len(fact.value) < 5


def test_yes_is_said_to_what_was_told_and_no_to_the_rest() -> None:
    rng = Random(2)
    for _ in range(500):
        fact = wide_facts.draw(rng)
        other = wide_facts.another(fact, rng)
        question, answer, right = fact.yes_or_no(rng, other)
        assert answer.startswith("Yes" if right else "No") and fact.value in answer
        assert (fact.value if right else other).lower() in question.lower()


def test_events_tell_and_answer_the_part_that_is_asked_for() -> None:
    rng = Random(11)
    near = None
    for _ in range(1000):
        event = wide_events.draw(rng, near)
        assert near is None or (event.key, event.verb) != (near.key, near.verb)
        near = event
        told = wide_facts.Told(event)
        assert event.value.lower() in told.told(rng).lower() and event.value.lower() in told.answer.lower()
        question, answer = told.asked(rng)
        assert event.value.lower() in answer.lower() and event.value.lower() not in question.lower()
        assert event.another(rng) != event.value


@pytest.mark.parametrize("length", [1024, 4096])
def test_texts_hold_what_is_asked_for_and_have_about_the_size(length: int) -> None:
    rng = Random(3)
    for _ in range(60):
        chat = wide_long.draw(rng, length, prose)
        given = chat.system + " ".join(turn.text for turn in chat.turns if turn.role == "user")
        if chat.turns[-1].text != wide_long.UNKNOWN:
            assert str(chat.expect).lower() in given.lower() or chat.expect == "know"
        assert len(given) < length * 4.6


def test_no_prompt_of_the_public_needle_tests_is_made() -> None:
    rng = Random(4)
    never = re.compile(r"special magic|pass ?key|dolores park|\bVAR \w+ = |the grass is green", re.IGNORECASE)
    for _ in range(400):
        chat = wide_long.draw(rng, 1024, prose)
        assert not never.search(chat.system + " ".join(turn.text for turn in chat.turns))
        assert not never.search(wide.attribute(rng)[0])


def test_sums_are_right() -> None:
    rng = Random(5)
    for _ in range(2000):
        answer = wide_talk.arithmetic(rng).answer
        found = re.fullmatch(r"(\d+) (plus|minus|times|divided by) (\d+) is (-?\d+)\.", answer)
        if found:
            x, y = int(found[1]), int(found[3])
            made = {"plus": x + y, "minus": x - y, "times": x * y, "divided by": x // max(y, 1)}
            assert made[found[2]] == int(found[4])
        else:
            assert re.fullmatch(r"-?\d+", answer)


def test_every_kind_of_talk_has_an_answer() -> None:
    rng = Random(6)
    for kind in wide_talk.KINDS:
        for _ in range(50):
            one = kind(rng)
            assert one.user.strip() and one.answer.strip() and "{" not in one.user + one.answer


def test_json_is_json_of_values_in_the_text() -> None:
    rng = Random(7)
    for _ in range(400):
        chat = wide_forms.json_answer(rng)
        assert json.loads(chat.turns[-1].text) == chat.expect


def test_calls_fit_their_schemas() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    rng = Random(8)
    for _ in range(400):
        chat = wide_forms.tool_call(rng)
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.tools}
        calls = [call for turn in chat.turns for call in turn.calls]
        assert calls
        for name, arguments in calls:
            jsonschema.validate(arguments, schemas[name])


def test_records_tell_their_values() -> None:
    rng = Random(9)
    for _ in range(300):
        drawn = wide_records.draw(rng)
        assert all(str(value) in drawn.text for value in drawn.values.values())
        assert all(str(value) in drawn.request for value in drawn.asked.values())


def test_pictures_are_of_the_size_and_shapes_do_not_overlap(data: Path) -> None:
    rng = Random(10)
    for _ in range(200):
        chat = wide_pictures.draw(rng)
        assert [picture.shape for picture in chat.pictures] == [(96, 96, 3)]
        assert all(answer_text(turn) for turn in chat.turns if turn.role == "assistant") and segments(chat)
    shown, where = wide_pictures.scene([("circle", "red")] * 6, rng)
    for at, (top, left, side) in enumerate(where):
        for other_top, other_left, other_side in where[:at]:
            apart = top + side < other_top or other_top + other_side < top
            assert apart or left + side < other_left or other_left + other_side < left
