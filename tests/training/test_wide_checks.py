"""Yes or no, sums, and what goes on from the turn before: the answers are right."""

from __future__ import annotations

import re
from random import Random

import pytest

from training import wide_checks

pytestmark = pytest.mark.usefixtures("data")


def test_yes_and_no_are_about_as_frequent_in_every_kind() -> None:
    rng = Random(1)
    for draw in (wide_checks.state, wide_checks.deed, wide_checks.number, wide_checks.place):
        answers = [draw(rng).answer for _ in range(400)]
        assert all(answer.startswith(("Yes, ", "No, ")) for answer in answers)
        assert 120 < sum(answer.startswith("Yes") for answer in answers) < 280


def test_numbers_that_are_asked_for_are_compared() -> None:
    rng = Random(2)
    seen = 0
    for _ in range(600):
        one = wide_checks.number(rng)
        told = re.search(r"has (\d+) ", one.answer)
        asked = re.search(r"(more|fewer) than (\d+) [a-z]+\?", one.user)
        if told is None or asked is None:
            continue
        n, other = int(told[1]), int(asked[2])
        assert one.answer.startswith("Yes") == (n > other if asked[1] == "more" else n < other)
        seen += 1
    assert seen > 30


def test_sums_are_right_and_name_both_numbers() -> None:
    rng = Random(3)
    for _ in range(1000):
        one = wide_checks.two_digits(rng)
        found = re.fullmatch(r"(\d+) (plus|minus|times) (\d+) is (\d+)\.", one.answer)
        assert found is not None and "{" not in one.user
        x, y = int(found[1]), int(found[3])
        assert {"plus": x + y, "minus": x - y, "times": x * y}[found[2]] == int(found[4])
        if re.search(r"\d", one.user):
            assert sorted(re.findall(r"\d+", one.user)) == sorted((found[1], found[3]))


def test_a_sum_goes_on_with_its_result() -> None:
    rng = Random(4)
    for _ in range(300):
        answers = [turn.text for turn in wide_checks.following(rng) if turn.role == "assistant"]
        sums = [re.fullmatch(r"(\d+) \w+ \d+ is (\d+)\.", answer) for answer in answers]
        if all(sums):
            pairs = [(one[1], one[2]) for one in sums if one is not None]
            assert all(before[1] == behind[0] for before, behind in zip(pairs, pairs[1:], strict=False))
            assert len(pairs) > 1
