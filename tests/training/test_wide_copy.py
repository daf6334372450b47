"""Copying, picking and near tools: what is said stands in what was asked, and no name is the examiner's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from training import wide_choose, wide_copy, wide_near, wide_pairs, wide_pick
from training.data_chat import Chat
from training.held_words import held_keys, held_phrase, taken
from training.wide_talk import spelled

DRAWS: tuple[Callable[[Random], Chat], ...] = (wide_copy.draw, wide_pick.draw, wide_near.draw)


@pytest.mark.parametrize("draw", [*DRAWS, wide_pairs.draw])
def test_the_same_seed_gives_the_same_chats(data: Path, draw: Callable[[Random], Chat]) -> None:
    one, other = ([_plain(draw(Random(seed))) for seed in range(40)] for _ in range(2))
    assert one == other


def _plain(chat: Chat) -> object:
    return [(turn.text, turn.calls, [shown.tobytes() for shown in turn.pictures]) for turn in chat.turns], chat.tools


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _keys(each)


def test_keys_and_values_stand_in_the_prompt_letter_by_letter(data: Path) -> None:
    rng = Random(0)
    for _ in range(400):
        chat = rng.choice((wide_copy.record, wide_copy.counts, wide_pick.keyed))(rng)
        prompt = f"{chat.system}\n{chat.turns[0].text}"
        values = json.loads(chat.turns[-1].text)
        assert values == chat.expect and values
        for name, value in values.items():
            assert name in prompt and not taken(name)
            if isinstance(value, str):
                assert value.lower() in prompt.lower()
            elif not isinstance(value, bool):
                assert str(value) in prompt or spelled(value) in prompt.lower()


def test_a_drill_gives_back_what_it_was_given(data: Path) -> None:
    rng = Random(1)
    for _ in range(400):
        one = wide_copy.repeat(rng)
        assert one.answer in one.user
        one = wide_copy.marked(rng)
        assert f'"{one.answer}"' in one.user
        one = rng.choice((wide_copy.pair, wide_copy.array))(rng)
        found = json.loads(one.answer)
        for each in found if isinstance(found, list) else (*found, *found.values()):
            assert str(each) in one.user
        one = wide_copy.edited(rng)
        if one.answer.startswith("{"):
            assert all(key in one.user for key in _keys(json.loads(one.answer)))
        one = wide_copy.cased(rng)
        assert re.sub(r"\W|_", "", one.answer).lower() in re.sub(r"\W|_", "", one.user).lower()


def test_a_key_is_its_words_in_a_manner_of_writing() -> None:
    shown = {style: wide_copy.written(["brass", "hinge"], style) for style in wide_copy.STYLES}
    assert set(shown.values()) == {
        "brass_hinge", "brassHinge", "brass-hinge", "BrassHinge", "brass hinge", "BRASS_HINGE", "Brass Hinge",
        "brasshinge",
    }  # fmt: skip


def test_a_name_is_taken_in_any_manner_of_writing() -> None:
    name = next(name for name in sorted(held_keys()) if "_" in name)
    assert all(taken(wide_copy.written(name.split("_"), style)) for style in wide_copy.STYLES)
    assert not taken("brassHinge")


def test_a_value_is_of_its_kind_and_not_what_it_comes_in(data: Path) -> None:
    rng = Random(2)
    truths = []
    for _ in range(600):
        form = wide_pick.form(rng)
        text, values = form.told(rng)
        assert list(values) == list(form.values) and "{" not in text
        assert not any(map(taken, values))
        places = dict(form.asked)
        boxes = {box for kind in form.goods for box in kind.boxes}
        for hole in ("what", "what2"):
            if hole in places:
                assert values[places[hole]] not in boxes and values[places[hole]].lower() in text.lower()
        for hole in ("p", "p2", "team", "team2"):
            if hole in places:
                assert values[places[hole]] in text and not values[places[hole]].endswith("'s")
        for name, end, straight in form.ending:
            told = any(clause.lower() in text.lower() for clause in end.yes)
            assert told != any(clause.lower() in text.lower() for clause in end.no)
            if name in values:
                assert values[name] == (told == straight)
                truths.append(values[name])
    assert 0.4 < sum(truths) / len(truths) < 0.6


def test_tellings_of_one_end_are_never_those_of_another() -> None:
    for end in wide_pick.ends():
        for yes in end.yes:
            assert not any(yes in no or no in yes for no in end.no)
    for scene in wide_pick.scenes():
        known = {"what", "what2", "box", "box2", "adj", "done", "price", *wide_pick.NUMBERS}
        assert {hole for hole in scene.holes if hole not in known and hole.rstrip("2") not in wide_pick.VALUES} == set()


def test_a_call_is_of_a_tool_that_is_there_with_what_the_request_says(data: Path) -> None:
    rng = Random(3)
    for _ in range(300):
        chat = wide_near.tool_call(rng)
        known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.tools}
        assert 1 <= len(known) == len(chat.tools) <= 5
        names = [*known, *(name for one in known.values() for name in one["properties"])]
        assert not any(map(taken, names))
        for place, turn in enumerate(chat.turns):
            for name, arguments in turn.calls:
                assert list(arguments) == known[name]["required"] == list(known[name]["properties"])
                asked = chat.turns[place - 1].text
                assert all(str(value).lower() in asked.lower() for value in arguments.values()), (asked, arguments)
                assert len({str(value) for value in arguments.values()}) == len(arguments)


def test_a_text_goes_to_the_tool_that_its_values_are_for(data: Path) -> None:
    rng = Random(6)
    for _ in range(100):
        chat = wide_choose.told_call(rng, wide_pick.form)
        known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.tools}
        ((name, arguments),) = chat.turns[1].calls
        assert set(arguments) == set(known[name]["required"]) and not any(map(taken, [*known, *arguments]))


def test_all_requests_of_a_tool_have_all_its_arguments() -> None:
    for act in (act for family in wide_near.families() for act in family):
        for text in act.texts:
            assert {found[1] for found in wide_near.HOLE.finditer(text)} == set(act.holes), text


def test_two_pictures_are_compared_as_they_are() -> None:
    rng = Random(4)
    for _ in range(300):
        one, other = (
            (rng.choice(("circle", "star")), rng.choice(("red", "blue")), rng.randint(1, 3)) for _ in range(2)
        )
        for at, sort in enumerate(("shape", "colour", "count")):
            said = wide_pairs.compared(one, other, sort, rng)[1]
            assert said.startswith("Yes, both ") == (one[at] == other[at]) != said.startswith("No, the first ")
        question, said = wide_pairs.compared(one, other, "more", rng)
        found = re.fullmatch(r"The (first|second) picture has (more|fewer)\.", said)
        assert bool(found) == (one[2] != other[2]) and (found or said.startswith("Neither, both show "))
        if found:
            assert (found[1] == "first") == ((one[2] > other[2]) == (found[2] == "more"))


def test_no_held_out_phrase_is_asked(data: Path) -> None:
    rng = Random(5)
    asked = [turn.text for _ in range(400) for turn in wide_copy.drill(rng).turns if turn.role == "user"]
    assert not any(map(held_phrase, asked))
