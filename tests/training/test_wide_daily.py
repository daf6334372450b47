"""Counting, order, sorting, letters, one's own facts and summaries: the answers are right."""

from __future__ import annotations

import re
from random import Random

import pytest

from training import facts, wide_daily, wide_own
from training.held_words import held_phrase
from training.wide_talk import UNKNOWN, spelled

pytestmark = pytest.mark.usefixtures("data")


def test_the_same_seed_gives_the_same_chats() -> None:
    one, other = ([wide_daily.draw(Random(seed)) for seed in range(40)] for _ in range(2))
    assert one == other


def test_counting_goes_on_by_equal_steps_to_what_is_asked_for() -> None:
    rng = Random(1)
    values = {spelled(number): number for number in range(100)}
    for _ in range(500):
        one = wide_daily.count(rng)
        numbers = [values.get(part) or int(part) for part in one.answer.replace("zero", "0").rstrip(".").split(", ")]
        steps = {after - before for before, after in zip(numbers, numbers[1:], strict=False)}
        assert len(steps) == 1 and steps <= {1, -1, 2, 5, 10}
        asked = set(re.findall(r"\d+", one.user)) | {
            str(values[word]) for word in re.findall(r"[a-z-]+", one.user.lower()) if word in values
        }
        assert str(max(numbers)) in asked


def test_what_comes_next_is_next() -> None:
    rng = Random(2)
    rows = [
        *wide_daily.ROWS.values(),
        list(wide_daily.ALPHABET),
        [str(one) for one in range(100)],
        [spelled(one) for one in range(100)],
    ]
    lower = [[word.lower() for word in row] for row in rows]
    seen = 0
    for _ in range(800):
        found = re.fullmatch(r"(\S+) comes (after|before) (\S+)\.", wide_daily.order(rng).answer)
        if found:
            seen += 1
            first, second = found[1].lower(), found[3].lower()
            row = next(row for row in lower if first in row and second in row)
            assert (row.index(first) - row.index(second)) % len(row) == (1 if found[2] == "after" else len(row) - 1)
    assert seen > 200


def test_numbers_are_sorted_and_chosen() -> None:
    rng = Random(3)
    for _ in range(800):
        one = wide_daily.arrange(rng)
        given = [int(part) for part in re.findall(r"\d+", one.user)]
        found = [int(part) for part in re.findall(r"\d+", one.answer)]
        if one.answer.startswith("The "):
            assert found == [max(given) if "largest" in one.answer else min(given)]
        elif re.fullmatch(r"[\d, ]+", one.answer) and not re.search("even|odd", one.user.lower()):
            assert sorted(given) == sorted(found)
            assert found in (sorted(given), sorted(given, reverse=True))
            assert (found == sorted(given)) or re.search("desc|larg|high|big|fall|down", one.user.lower())


def test_even_and_odd_are_told_apart() -> None:
    rng = Random(4)
    values = {spelled(number): number for number in range(100)}
    for _ in range(400):
        one = wide_daily.even(rng)
        told = re.search(r"(\S+) is (even|odd)\.", one.answer)
        if told:
            number = int(told[1]) if told[1].isdigit() else values[told[1].lower()]
            assert told[2] == ("odd" if number % 2 else "even")
            if one.answer[:3] in ("Yes", "No,"):
                assert one.answer.startswith("Yes") == (told[2] in one.user)
        elif one.answer != "None of them.":
            assert {int(part) % 2 for part in re.findall(r"\d+", one.answer)} == {int("odd" in one.user.lower())}


def test_letters_are_those_of_the_word() -> None:
    rng = Random(5)
    for _ in range(800):
        one = wide_daily.letters(rng)
        spelt = re.match(r"[A-Z](-[A-Z])+", one.answer)
        if spelt:
            word = spelt[0].replace("-", "").lower()
            assert word in one.user.lower()
            if "letters." in one.answer:
                assert one.answer.endswith(f": {len(word)} letters.")
            if "backwards" in one.answer:
                assert one.answer.endswith(f": {word[::-1]}")
        picked = re.fullmatch(r"The (\w+) letter of (\w+) is (\w)\.", one.answer)
        if picked:
            place = {"first": 0, "last": -1, "second": 1, "third": 2}[picked[1]]
            assert picked[2][place].upper() == picked[3] and picked[2] in one.user.lower()
        assert spelt or picked or one.answer.lower() in one.user.lower() or one.answer[:3] in ("Yes", "No,")


def test_every_trait_is_told_and_asked_for_with_its_slots() -> None:
    for trait in wide_own.TRAITS:
        assert all("{v}" in text for text in (*trait.told, trait.answer))
        assert not any("{v}" in text for text in trait.asked)
        assert ("{k}" in trait.answer) <= all("{k}" in text for text in trait.asked)


def test_what_one_told_of_oneself_is_in_the_answer() -> None:
    rng = Random(6)
    answers = []
    for _ in range(800):
        found = wide_own.owns(rng, rng.randint(1, 5))
        told = wide_own.tell(found, rng)
        assert all(one.slots["v"].lower() in told.lower() for one in found)
        asked, answer = wide_own.question(found, rng)
        assert "{" not in told + asked + answer
        if answer != UNKNOWN:
            assert any(one.slots["v"] in answer for one in found) and answer.startswith(("You", "Yes, you", "No, you"))
        answers.append(answer)
    assert 60 < answers.count(UNKNOWN) < 200


def test_turns_before_hold_what_is_asked_back() -> None:
    rng = Random(7)
    for _ in range(200):
        turns = wide_own.own_turns(rng)
        assert [turn.role for turn in turns] == ["user", "assistant"] * (len(turns) // 2)
        assert all(turn.text.strip() for turn in turns)


def test_every_reason_is_asked_in_words_of_its_own() -> None:
    known = wide_own.reasons()
    assert len({clause for clause, _, _ in known}) == len(known)
    for clause, questions, answer in known:
        assert len(questions) == 2 and answer.endswith(".") and clause.split()[0] in ("why", "how", "what")
        assert answer == facts.EXPLANATIONS.get(clause, answer)


def test_a_summary_is_made_of_words_of_the_text() -> None:
    rng = Random(8)
    for _ in range(500):
        told, answer = wide_own.summary(rng)
        words = set(re.findall(r"[\w'-]+", told.lower()))
        assert set(re.findall(r"[\w'-]+", answer.lower())) <= words | {"and"} and len(answer) < len(told)
        one = wide_own.short(rng)
        assert "¶" not in one.user and "{" not in one.user


def test_no_held_out_phrase_is_asked() -> None:
    assert held_phrase("Please spell giraffe.") and not held_phrase("Spell giraffe.")
    rng = Random(9)
    asked = [turn.text for _ in range(500) for turn in wide_daily.draw(rng).turns if turn.role == "user"]
    assert not any(map(held_phrase, asked))
