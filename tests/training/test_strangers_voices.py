"""Voices change the surface and leave names, numbers and what is to be kept."""

from __future__ import annotations

import random

from training.strangers_voices import CHANGES, no_articles, slip, terms, typos, voiced

ASKED = "Could you please tell me where the violet umbrella of Berta 4711 is hidden?"


def test_every_voice_keeps_numbers_and_kept_words() -> None:
    seen = set()
    for seed in range(300):
        text, voice = voiced(ASKED, random.Random(seed), ("violet umbrella", "Berta"))
        seen.add(voice)
        assert all(word in text for word in ("violet", "umbrella", "Berta", "4711"))
    assert seen == set(CHANGES)


def test_typos_change_one_or_two_words() -> None:
    for seed in range(50):
        changed = typos(ASKED, random.Random(seed), frozenset(["umbrella"])).split()
        assert 0 <= sum(a != b for a, b in zip(changed, ASKED.split(), strict=True)) <= 2


def test_a_slip_keeps_the_first_and_the_last_letter() -> None:
    for seed in range(50):
        word = slip("hidden", random.Random(seed))
        assert word[0] == "h" and word[-1] == "n" or word.endswith("e") or word[-2:] == "ne"


def test_articles_are_left_out() -> None:
    assert no_articles("Is the cat on a mat?", random.Random(0), frozenset()) == "Is cat on mat?"


def test_terms_go_over_lines() -> None:
    assert terms("red,\n   dark  blue, green") == ["red", "dark blue", "green"]
