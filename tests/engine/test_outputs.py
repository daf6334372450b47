"""How long answers are expected to be."""

from __future__ import annotations

from paceline.engine.outputs import LATEST, PRIOR, Outputs


def test_before_anything_is_known_there_is_a_guess() -> None:
    assert Outputs().expected == PRIOR


def test_three_of_four_answers_are_no_longer_than_expected() -> None:
    outputs = Outputs()
    for tokens in [*range(1, 101)] * 2:
        outputs.learn(tokens)
    assert 70 <= sum(tokens <= outputs.expected for tokens in range(1, 101)) <= 95


def test_short_answers_bring_it_down_and_long_ones_up() -> None:
    outputs = Outputs()
    for _ in range(LATEST):
        outputs.learn(10)
    assert outputs.expected == 10
    for _ in range(LATEST):
        outputs.learn(2000)
    assert outputs.expected == 2000


def test_only_the_latest_count() -> None:
    outputs = Outputs()
    for _ in range(1000):
        outputs.learn(100_000)
    for _ in range(LATEST):
        outputs.learn(5)
    assert outputs.expected == 5


def test_one_long_answer_does_not_change_everything() -> None:
    outputs = Outputs()
    for _ in range(20):
        outputs.learn(50)
    outputs.learn(100_000)
    assert outputs.expected == 50


def test_it_is_never_nothing() -> None:
    outputs = Outputs()
    for _ in range(LATEST):
        outputs.learn(0)
    assert outputs.expected == 1
