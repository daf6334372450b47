"""What is beyond the model is said to be, and what it can do is answered."""

from __future__ import annotations

import re
from random import Random

import pytest

from training import facts, wide_beyond
from training.data_chat import answer_text
from training.held_words import held_phrase
from training.wide_talk import UNKNOWN

pytestmark = pytest.mark.usefixtures("data")

REFUSALS = (
    wide_beyond.BEYOND, wide_beyond.TALES, wide_beyond.CODE, wide_beyond.WORDS, wide_beyond.ENGLISH, wide_beyond.LARGE,
    wide_beyond.LONG, wide_beyond.UNREAD, wide_beyond.TOOL, wide_beyond.DOCTOR, wide_beyond.LAWYER, wide_beyond.BANK,
)  # fmt: skip


def test_the_same_seed_gives_the_same_chats() -> None:
    one, other = ([wide_beyond.draw(Random(seed)) for seed in range(40)] for _ in range(2))
    assert one == other


def test_every_kind_is_asked_whole_and_refused() -> None:
    rng = Random(1)
    for kind in wide_beyond.KINDS:
        for _ in range(80):
            one = kind(rng)
            assert one.answer in REFUSALS or kind is wide_beyond.act and one.answer == UNKNOWN
            assert one.user.strip() and "¶" not in one.user
            assert kind is wide_beyond.code or not re.search(r"[{}]", one.user)


def test_what_it_can_do_is_not_refused() -> None:
    rng = Random(2)
    for _ in range(600):
        assert wide_beyond.can(rng).answer not in (*REFUSALS, wide_beyond.AGAIN)


def test_nothing_that_is_explained_elsewhere_is_refused() -> None:
    rng = Random(3)
    explained = {clause.removeprefix("how to ") for clause in facts.EXPLANATIONS if clause.startswith("how to ")}
    assert not explained & set(wide_beyond.TASKS)
    never = re.compile(r"\b(story|tale|joke|opposite|capital of|what does \S+ mean|define|definition)\b", re.IGNORECASE)
    for _ in range(2000):
        one = wide_beyond.beyond(rng)
        if one.answer in REFUSALS[:4]:
            found = never.search(one.user)
            assert found is None, one.user


def test_large_numbers_are_large() -> None:
    rng = Random(4)
    for _ in range(300):
        asked = wide_beyond.large(rng).user
        assert re.search(r"\d{3,}|million|x\^|pi", asked)


def test_long_texts_are_long() -> None:
    rng = Random(5)
    for _ in range(100):
        one = wide_beyond.long_text(rng)
        assert (one.answer == wide_beyond.LONG) == (one.user.count(".") >= 6 and len(one.user) > 250)


def test_about_half_of_the_answers_are_refusals() -> None:
    rng = Random(6)
    answers = [
        answer_text(turn) for _ in range(300) for turn in wide_beyond.draw(rng).turns if turn.role == "assistant"
    ]
    refused = sum(answer in (*REFUSALS, wide_beyond.AGAIN) for answer in answers)
    assert 0.35 < refused / len(answers) < 0.6


def test_no_held_out_phrase_is_asked() -> None:
    rng = Random(7)
    asked = [turn.text for _ in range(500) for turn in wide_beyond.draw(rng).turns if turn.role == "user"]
    assert not any(map(held_phrase, asked))
