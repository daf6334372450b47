"""Results are read from digits and from words."""

from __future__ import annotations

import pytest

from training import strangers_sums
from training.strangers_ask import Answer


@pytest.mark.parametrize("number", [0, 7, 13, 20, 21, 99])
def test_a_number_is_read_as_it_is_written(number: int) -> None:
    assert strangers_sums.numbers(f"it is {strangers_sums.in_words(number)}.") == [number]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("one hundred and twenty-three", [123]),
        ("seven plus twelve is nineteen", [7, 12, 19]),
        ("40 + 2 = 42", [40, 2, 42]),
        ("1,024", [1024]),
        ("2.5", [-1]),
        ("3.0", [3]),
        ("twenty, then five", [20, 5]),
    ],
)
def test_all_numbers_of_a_text_are_found(text: str, said: list[int]) -> None:
    assert strangers_sums.numbers(text) == said


@pytest.mark.parametrize(
    ("text", "right"),
    [("5", True), ("2 + 3 = 5.", True), ("five", True), ("5 is the sum of 2 and 3", True), ("6", False), ("", False),
     ("2 + 3 = 6, or 5", True), ("2 + 3 = 6", False), ("The answer is 5, or 9.", False)],
)  # fmt: skip
def test_the_result_is_the_one_that_is_given_as_such(text: str, right: bool) -> None:
    if text.startswith("2 + 3 = 6, or"):
        assert strangers_sums.results_in(5, (2, 3))(Answer(text)) == "also says [6]"
    else:
        assert (strangers_sums.results_in(5, (2, 3))(Answer(text)) == "") is right


def test_an_operand_is_no_result() -> None:
    assert strangers_sums.results_in(5, (10, 5))(Answer("10 - 5 = 10"))
    assert strangers_sums.results_in(4, (4, 0))(Answer("4 + 0 = 0"))


def test_every_task_has_two_digits_at_most_and_a_result_from_zero() -> None:
    for question in [one for seed in range(3) for one in strangers_sums.questions(200, seed, "sums")]:
        assert 0 <= question.expected <= 198
        assert question.verdict(Answer(str(question.expected))) == ""
        assert question.verdict(Answer(str(question.expected + 1)))
