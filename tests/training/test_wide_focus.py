"""One of several pictures: a mark for each, and the answer is about the one that was asked for."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer

from training import data, facts, wide_focus, wide_hues, wide_scenes, wide_views
from training.data_chat import PICTURE, Chat, segments
from training.wide_pictures import COUNTED

SIZES = (wide_views.SQUARE, *wide_views.FRAMES.values())


@pytest.mark.parametrize("size", SIZES)
def test_each_picture_has_its_place_in_the_text(size: tuple[int, int], data: Path, words: Tokenizer) -> None:
    rng, behind = Random(1), 0
    chats = [wide_focus.draw(rng, size) for _ in range(60)]
    for chat in chats:
        first = chat.turns[0]
        assert first.text.count(PICTURE) == len(first.pictures) == len(chat.pictures) > 0
        assert all(picture.shape == (*size, 3) for picture in chat.pictures)
        assert not any(PICTURE in turn.text for turn in chat.turns[1:])
        assert PICTURE not in "".join(text for text, _ in segments(chat))
        behind += first.text.endswith(PICTURE)
    assert behind > 5
    _tokens(chats, words)


def _tokens(chats: list[Chat], words: Tokenizer) -> None:
    encoder = data.Encoder(words)
    found = list(encoder.documents([(chat, None) for chat in chats]))
    assert [len(one.places) for one in found] == [len(chat.pictures) for chat in chats]


def _shown(shape: str, colour: str, count: int, ground: str) -> wide_focus.Shown:
    return wide_focus.Shown([(shape, colour)] * count, ground)


def test_an_answer_tells_of_its_picture_what_was_asked() -> None:
    rng = Random(2)
    for _ in range(300):
        count = rng.randint(1, 7)
        one = _shown(rng.choice(("star", "ring")), rng.choice(("red", "blue")), count, "white")
        ((shape, colour), many) = one.kinds[0], facts.plural(one.kinds[0][0])
        found = {sort: wide_focus.answer(sort, one, "the second one", rng)[1] for sort in wide_focus.SORTS}
        assert found["colour"] in (f"The {shape} is {colour}.", f"The {many} are {colour}.")
        assert found["shape"] in (f"It is a {shape}.", f"They are {many}.")
        assert found["ground"] == "The background is white."
        assert re.fullmatch(rf"There (is|are) {COUNTED[count]} ({shape}|{many}|shapes?)\.", found["count"])
        assert found["what"].lower() == one.seen + "."
        assert found["there"].startswith(("Yes, I see ", "No, I see ")) and found["there"].endswith(f"{one.seen}.")


def test_two_different_figures_are_counted_and_named() -> None:
    one = wide_focus.Shown([("star", "red"), ("ring", "orange")], "white")
    assert one.seen == "a red star and an orange ring"
    assert wide_focus.answer("colour", one, "picture 1", Random(0))[1] == "There are two shapes."


def test_a_picture_is_called_by_its_place() -> None:
    rng = Random(3)
    for _ in range(400):
        count = rng.choice((2, 3))
        at = rng.randrange(count)
        name = wide_focus.referred(at, count, rng)
        wrong = [word for place, word in enumerate(("first", "second", "third")) if place != at]
        assert not any(word in name for word in wrong) and not ("last" in name and at < count - 1)
        assert all(str(place + 1) not in name for place in range(3) if place != at)


def test_many_figures_of_one_shape_are_counted_in_all_colors() -> None:
    rng = Random(4)
    for _ in range(60):
        chat = wide_focus.tally((96, 128), rng)
        totals = {found[1] for turn in chat.turns if (found := re.match(r"There are (\w+) \w+\.$", turn.text))}
        assert len(totals) < 3 and not totals & {"one", "nine"}


def test_every_color_has_other_words_and_none_is_near_a_wrong_one() -> None:
    rng = Random(5)
    assert set(wide_hues.OTHER) == set(wide_hues.FAMILY) == set(wide_scenes.KNOWN)
    for colour in wide_hues.OTHER:
        family = {
            word
            for name, own in wide_hues.FAMILY.items()
            if own == wide_hues.FAMILY[colour]
            for word in wide_hues.words(name)
        }
        for _ in range(40):
            assert wide_hues.other_word(colour, rng) in family
            assert wide_hues.wrong_word(colour, rng) not in family
    assert "chestnut" in wide_hues.words("brown") and "scarlet" in wide_hues.words("red")
    assert "navy" in wide_hues.words("dark blue")
