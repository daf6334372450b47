"""The published formats, as published."""

from __future__ import annotations

import random

import pytest

from training import strangers_public
from training.strangers_ask import Answer, Question
from training.strangers_filler import Filler
from training.strangers_sources import Material

BOOK = tuple(f"Sentence number {number} of a long and dull book." for number in range(400))
FILLER = Filler(Material(frozenset(), (BOOK,), "x = 1\n"))


def made(task: str, count: int = 20) -> list[Question]:
    return strangers_public.questions(count, 0, FILLER, 1000, task, f"{task} 1k")


@pytest.mark.parametrize("task", [*strangers_public.RULER, "passkey", "haystack"])
def test_the_expected_strings_are_in_the_prompt(task: str) -> None:
    for question in made(task):
        text = "\n".join(message["content"] for message in question.body["messages"])
        expected = [question.expected] if isinstance(question.expected, str) else question.expected
        assert all(string in text for string in expected)
        assert question.facts["needle"] in text
        assert question.verdict(Answer(" ".join(expected).upper())) == ""
        assert question.verdict(Answer("I do not know."))


def test_half_of_rulers_prompts_begin_the_answer() -> None:
    bodies = [question.body for question in made("ruler single")]
    begun = [body for body in bodies if body.get("continue_final_message")]
    assert len(begun) == 10 and all(body["messages"][-1]["role"] == "assistant" for body in begun)
    assert "One of the special magic" in bodies[0]["messages"][0]["content"]


def test_several_values_and_queries_are_all_wanted() -> None:
    for task in ("ruler multi-value", "ruler multi-query"):
        question = made(task, 1)[0]
        assert len(question.expected) == 4
        assert question.verdict(Answer(" ".join(question.expected[:3]))).startswith("3 of 4")


def test_among_other_needles_the_key_has_one_value() -> None:
    for question in strangers_public.questions(60, 0, FILLER, 8000, "ruler multi-key", "ruler multi-key 8k"):
        key = question.facts["needle"].partition(" for ")[2].partition(" is: ")[0]
        assert question.body["messages"][0]["content"].count(f" for {key} is: ") == 1


def test_a_chain_is_stated_in_its_order() -> None:
    question = made("ruler tracking", 1)[0]
    text = question.body["messages"][0]["content"]
    places = [text.index(f"VAR {name} =") for name in question.expected]
    assert places == sorted(places) and len(places) == 5


def test_the_sandwich_is_asked_about_in_every_other_prompt() -> None:
    asked = ["San Francisco" in question.facts["needle"] for question in made("haystack", 10)]
    assert asked == [True, False] * 5


def test_uuids_are_version_4_and_repeat_with_their_seed() -> None:
    first, again = (strangers_public.uuid4(random.Random(1)) for _ in range(2))
    assert first == again and first[14] == "4" and len(first) == 36
