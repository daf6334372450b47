"""Lists of keys: every key is in them once, letter by letter, however it is marked."""

from __future__ import annotations

import re
from random import Random

from training.wide_listed import listed

NAMES = ["petName", "owner_town", "Age-In-Years", "home town", "qty"]


def test_every_key_stands_there_once_and_between_marks_that_are_no_letters() -> None:
    rng = Random(0)
    for _ in range(2000):
        names = rng.sample(NAMES, rng.randint(1, 5))
        text = listed(names, rng, [""] * len(names))
        places = []
        for name in names:
            found = list(re.finditer(rf"(?<![A-Za-z-]){name}(?![A-Za-z-])", text))
            assert len(found) == 1, (name, text)
            places.append(found[0].start())
        assert places == sorted(places)


def test_half_of_the_lists_mix_their_manners() -> None:
    rng = Random(1)
    texts = [listed(["ab", "cd"], rng) for _ in range(1000)]
    mixed = [text for text in texts if (f"`{'ab'}`" in text) != ("`cd`" in text)]
    assert 100 < len(mixed) < 500 and len(set(texts)) > 200


def test_lines_only_where_there_is_room_for_them() -> None:
    rng = Random(2)
    assert not any("\n" in listed(NAMES, rng, block=False) for _ in range(500))
    blocks = [text for text in (listed(NAMES, rng) for _ in range(500)) if "\n" in text]
    assert blocks and all(text[0] == text[-1] == "\n" for text in blocks)
