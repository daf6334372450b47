"""Two numbers, letters, colors and stories: what is said is so."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from training import facts, wide_hues, wide_small
from training.held_words import held_phrase
from training.wide_talk import spelled

NUMBERS = {spelled(n): n for n in range(120)} | {str(n): n for n in range(120)}
UP = ("bigger", "larger", "greater", "higher", "more")


def test_numbers_are_compared_as_they_are(data: Path) -> None:
    rng = Random(0)
    seen = 0
    for _ in range(800):
        one = wide_small.compare(rng)
        found = re.fullmatch(r"(Yes|No), ([\w-]+) is (\w+) than ([\w-]+)\.", one.answer)
        if found:
            seen += 1
            assert (NUMBERS[found[2]] > NUMBERS[found[4]]) == (found[3] in UP), one
            asked = re.search(
                rf"\b{found[2]} is (\w+) than {found[4]}\b|is {found[2]} (\w+) than {found[4]}\b", one.user
            )
            if asked:
                assert (found[1] == "Yes") == (((asked[1] or asked[2]) in UP) == (found[3] in UP)), one
        found = re.fullmatch(r"(\S+) is (\w+)\.", one.answer)
        if found and found[2] in (*UP, "smaller", "less", "lower"):
            numbers = [NUMBERS[each] for each in re.findall(r"[\w-]+", one.user.lower()) if each in NUMBERS]
            best = max(numbers[-2:]) if found[2] in UP else min(numbers[-2:])
            assert NUMBERS[found[1].lower()] == best, one
        found = re.fullmatch(r"Yes, (\d+) is between (\d+) and (\d+)\.", one.answer)
        if found:
            assert int(found[2]) < int(found[1]) < int(found[3])
    assert seen > 300


def test_letters_are_those_of_the_word(data: Path) -> None:
    rng = Random(1)
    for _ in range(600):
        one = wide_small.letters(rng)
        found = re.search(r"\b[A-Z](-[A-Z])+\b", one.answer)
        assert found
        word = found[0].replace("-", "").lower()
        assert word in one.user.lower()
        number = re.search(r"(\d+) letters", one.answer)
        assert not number or int(number[1]) == len(word)
        times = re.search(r"has ([A-Z]) (not at all|once|twice|\w+ times)", one.answer)
        if times:
            told = {"not at all": 0, "once": 1, "twice": 2}
            count = told[times[2]] if times[2] in told else NUMBERS[times[2].split()[0]]
            assert word.count(times[1].lower()) == count


def test_a_word_for_a_color_is_of_its_family() -> None:
    rng = Random(2)
    for _ in range(200):
        one = wide_small.hue(rng)
        word, colour = re.fullmatch(r"(?:Yes, |No, )?(.+) is (\w+)\.", one.answer).groups()  # type: ignore[union-attr]
        assert word.lower() in wide_hues.words(colour)
        assert not one.answer.startswith("Yes") or colour in one.user


def test_a_story_has_one_thing_that_can_be_carried(data: Path) -> None:
    rng = Random(3)
    for _ in range(300):
        tale = wide_small.story(rng).answer
        assert "{" not in tale
        assert [thing for thing in facts.CARRIED if tale.count(f" {thing}") > 1], tale
    assert all(facts.carried(thing) in facts.CARRIED for thing in facts.THINGS)
    assert facts.carried("kettle") == "kettle" and not any(thing[0] in "aeiou" for thing in facts.CARRIED)


def test_no_held_out_phrase_is_asked(data: Path) -> None:
    rng = Random(5)
    asked = [turn.text for _ in range(300) for turn in wide_small.draw(rng).turns if turn.role == "user"]
    assert not any(map(held_phrase, asked))
