"""What everybody knows is answered, what nobody can know is not, and what was said decides yes or no."""

from __future__ import annotations

from pathlib import Path
from random import Random

from training import wide_common, wide_doubts
from training.wide_talk import UNKNOWN


def test_what_is_known_is_answered_and_what_is_secret_is_not(data: Path) -> None:
    rng = Random(0)
    for _ in range(300):
        assert wide_common.known(rng).answer != UNKNOWN
        assert wide_doubts.secret(rng).answer == UNKNOWN


def test_yes_and_no_are_about_as_frequent(data: Path) -> None:
    rng = Random(1)
    answers = [wide_doubts.checked(rng).answer for _ in range(400)]
    assert all(answer.startswith(("Yes, ", "No, ")) and answer.endswith(".") for answer in answers)
    assert 120 < sum(answer.startswith("Yes") for answer in answers) < 280


def test_a_story_is_about_its_hero(data: Path) -> None:
    rng = Random(2)
    for _ in range(100):
        one = wide_common.told(rng)
        assert len(one.answer.split()) > 30 and "{" not in one.answer
