"""Facts that are hidden, and what counts as found."""

from __future__ import annotations

import random

import pytest

from training import strangers_find
from training.strangers_ask import Answer, Question
from training.strangers_facts import RELATIONS
from training.strangers_filler import KINDS, Filler, hidden
from training.strangers_sources import Material

BOOK = tuple(f"Sentence number {number} of a long and dull book." for number in range(400))
FILLER = Filler(Material(frozenset(["hello", "word"]), (BOOK,), "x = 1\ny = 2\n" * 200), dict.fromkeys(KINDS, 4.0))


def made(count: int = 90, tokens: int = 1000) -> list[Question]:
    return strangers_find.questions(count, 3, FILLER, tokens, "find 1k")


def test_the_fact_is_in_the_prompt_once_and_the_question_names_no_value() -> None:
    for question in made():
        text = "\n".join(message["content"] for message in question.body["messages"])
        assert text.count(question.facts["needle"]) == 1
        assert question.expected.lower() not in question.facts["asked"].lower()


def test_a_prompt_has_about_the_tokens_it_should() -> None:
    for question in made(30, 4000):
        characters = sum(len(message["content"]) for message in question.body["messages"])
        assert 0.85 * 4000 < characters / 4 < 1.1 * 4000


def test_every_relation_is_asked_in_words_of_its_own() -> None:
    assert len(RELATIONS) >= 30
    for relation in RELATIONS:
        assert len(relation.states) >= 4 and len(relation.asks) >= 4
        assert all("{e}" in one and "{v}" in one for one in relation.states)
        assert all("{e}" in one and "{v}" not in one for one in relation.asks)


def test_depths_are_spread_over_the_whole_text() -> None:
    depths = [question.facts["depth"] for question in made(200)]
    assert all(sum(low <= depth < low + 0.25 for depth in depths) > 30 for low in (0.0, 0.25, 0.5, 0.75))


@pytest.mark.parametrize(
    ("value", "answer", "right"),
    [
        ("4711", "It is 4711.", True),
        ("4711", "It is 47112.", False),
        ("4711", "It is 4 7 1 1", True),
        ("the lighthouse", "At the LIGHTHOUSE, of course.", True),
        ("12 March", "on March 12th", True),
        ("12 March", "on March 2", False),
        ("AB-123", "ab-123", True),
        ("Tromso", "Trom", False),
    ],
)
def test_a_value_is_found_as_words_of_their_own_in_any_case(value: str, answer: str, right: bool) -> None:
    assert (strangers_find.has_value(value)(Answer(answer)) == "") is right


def test_the_value_of_a_fact_beside_it_is_wrong() -> None:
    verdict = strangers_find.has_value("4711", ["8080"])
    assert verdict(Answer("4711")) == ""
    assert "of another" in verdict(Answer("4711 or 8080"))


def test_needles_lie_at_their_depths() -> None:
    assert hidden(["a", "b", "c", "d"], ["X", "Y"], [1.0, 0.5], "list") == "a\nb\nY\nc\nd\nX"


def test_a_frame_may_have_several_turns() -> None:
    turns = strangers_find.framed("user: {t}||assistant: Fine.||user: {q}", "text with {q}", "why?")
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[0]["content"] == "text with {q}" and turns[2]["content"] == "why?"


def test_every_kind_of_filler_goes_on_for_as_long_as_is_asked() -> None:
    for kind in KINDS:
        pieces = FILLER.pieces(kind, random.Random(1), 500)
        assert 1500 < len(" ".join(pieces)) <= 2000
