"""Tools that nobody names: the right one is among them, its values stand in the request, a terse one fits no other."""

from __future__ import annotations

from pathlib import Path
from random import Random

from training import wide_near, wide_wants
from training.data_chat import Chat
from training.held_words import taken
from training.wide_choose import NONE
from training.wide_talk import spelled


def test_there_are_many_tools_and_many_ways_to_want_each() -> None:
    wants = wide_wants.wants()
    assert len(wants) >= 200 and sum(len(one.texts) for one in wants) > 1200
    for one in wants:
        assert len(one.texts) >= 6 and one.terse, one.names
        for hole in one.places:
            known = {*wide_wants.POOLS, *wide_wants.kinds(), *wide_near.LISTS, *wide_near.VALUES}
            assert hole.rstrip("2") in known, (one.names, hole)


def test_few_requests_have_a_word_of_the_tool() -> None:
    for one in wide_wants.wants():
        pairs = [(name, about) for name in one.names for about in one.about]
        given = [wide_wants.stems(f"{name} {about}") for name, about in pairs]
        clean = sum(not wide_wants.stems(text) & each for text in one.texts for each in given)
        assert clean > 0.5 * len(one.texts) * len(given), one.names


def _calls(count: int, chats: list[Chat]) -> None:
    sizes = set()
    for chat in chats:
        known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.tools}
        sizes.add(len(known))
        assert len(known) == len(chat.tools) and not any(map(taken, known))
        for at, turn in enumerate(chat.turns):
            assert not (turn.calls and turn.text == NONE)
            for name, arguments in turn.calls:
                asked, properties = chat.turns[at - 1].text, known[name]["properties"]
                assert [key for key in properties if key in arguments] == list(arguments)
                assert set(known[name]["required"]) <= set(arguments) and not any(map(taken, properties))
                for value in arguments.values():
                    if isinstance(value, int):
                        assert str(value) in asked or spelled(value) in asked.lower()
                    else:
                        assert value.lower() in asked.lower()
    assert sizes <= set(range(2, 9)) and len(sizes) >= count


def test_a_call_is_of_a_tool_that_is_there_with_what_the_request_says(data: Path) -> None:
    rng = Random(0)
    _calls(5, [wide_wants.tool_call(rng) for _ in range(400)])
    _calls(4, [wide_wants.kind_call(rng) for _ in range(200)])
    _calls(4, [wide_wants.deed_call(rng) for _ in range(200)])


def test_a_terse_request_could_be_meant_for_no_other_tool(data: Path) -> None:
    rng = Random(1)
    for want in wide_wants.wants():
        for text in want.terse:
            holes = {found[2] for found in wide_wants.HOLE.finditer(text)}
            for other in wide_wants._rivals(want, text, 7, rng):
                assert not holes <= set(other.places)


def test_a_word_belongs_to_one_desk(data: Path) -> None:
    rng = Random(2)
    for _ in range(200):
        chat = wide_wants.kind_call(rng)
        desks = [tool["function"]["name"].split("_") for tool in chat.tools]
        for turn in chat.turns:
            for name, arguments in turn.calls:
                member = next(iter(arguments.values()))
                at = [word for word, kind in wide_wants.kinds().items() if member in kind.members]
                assert [word for word in at if any(word in desk for desk in desks)] == [
                    word for word in at if word in name.split("_")
                ]
