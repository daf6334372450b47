"""What is sound, and what is a refusal."""

from __future__ import annotations

import pytest

from training.strangers_ask import Answer
from training.strangers_rules import broken_words, circles, is_refusal, unsound

PLAIN = "the a cat sat on mat and it was happy run big carry try walk dog said hello to me can find".split()  # noqa: SIM905
WORDS = frozenset([*PLAIN, *(f"filler{number}" for number in range(1000))])


@pytest.mark.parametrize(
    "text",
    [
        "I do not know that.",
        "I don't know.",
        "Sorry, I can't tell.",
        "I have no idea!",
        "That is not stated.",
        "The text does not say.",
        "I cannot know that.",
        "It is unknown to me.",
        "I do not have that information.",
        "I’m not sure.",
    ],
)
def test_a_refusal_is_seen_in_any_words(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text", ["It is 4.", "He has no dog.", "Snow is white.", "No.", "I know that: blue.", "Not far"]
)
def test_an_answer_is_no_refusal(text: str) -> None:
    assert not is_refusal(text)


def test_broken_words_are_those_that_no_dictionary_has() -> None:
    assert broken_words("The cats walked happily, trying to carries mats.", WORDS) == ["happily"]
    assert broken_words("The cat floomed and Berta's dog can't glorp.", WORDS) == ["floomed", "glorp"]
    assert broken_words("It was a glorp.", WORDS, prompt="What is a glorp?") == []
    assert broken_words("zzxq", frozenset(["a"])) == []
    assert broken_words("Hello USA, iiCe and Brrk", WORDS) == ["iiCe", "Brrk"]


def test_circles_are_seen() -> None:
    assert circles("a b c d a b c d a b c d")
    assert circles("The cat sat down. It was red. The cat sat down.").startswith("says twice")
    assert circles("The cat sat. The dog ran.") == ""


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer("", finish="stop"), "empty"),
        (Answer("the cat", finish="length"), "does not end"),
        (Answer("the cat <|im_end|>", finish="stop"), "marks"),
        (Answer("the cat glorp zimf", finish="stop"), "broken"),
        (Answer("hello", ({"name": "x", "arguments": "{}"},), "tool_calls"), "calls"),
    ],
)
def test_an_unsound_answer_says_why(answer: Answer, reason: str) -> None:
    assert reason in unsound(answer, WORDS)


def test_a_sound_answer_has_no_reason() -> None:
    assert unsound(Answer("The cat sat on the mat.", finish="stop"), WORDS) == ""
