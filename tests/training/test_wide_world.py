"""Tools by topic: the right one is among them, its values stand in the request, and no word gives it away."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from training import wide_topics, wide_world
from training.data_chat import Chat
from training.held_words import taken
from training.wide_choose import NONE
from training.wide_talk import spelled

SMALL = frozenset(
    re.findall(
        r"\w+",
        "a an the of in on at to for with from by it is are was be has do i you me my we us and or what which who "
        "where how not that this some one up out off",
    )
)


def _stem(word: str) -> str:
    return re.sub(r"(ing|er|ed|es|s|e)$", "", word) if len(word) > 4 else word


def _words(text: str) -> set[str]:
    found = re.findall(r"[a-z]+", re.sub(r"\{[^{}]*\}|'s", " ", text.lower().replace("_", " ")))
    return {_stem(word) for word in found if word not in SMALL}


def test_no_request_has_a_word_of_its_tools_name_or_description() -> None:
    told = [
        (act.names, text, _words(text) & _words(" ".join((*act.names, *act.about))))
        for acts in wide_world.topics()
        for act in acts
        for text in act.texts
    ]
    assert [each for each in told if each[2]] == []


def test_all_requests_of_a_tool_have_all_its_places() -> None:
    for act in (act for acts in wide_world.topics() for act in acts):
        for text in act.texts:
            assert {found[1] for found in wide_world.HOLE.finditer(text)} == set(act.holes), text
        assert set(act.places) <= set(act.holes)


def test_a_member_belongs_to_one_topic() -> None:
    rows = [block.split("\n")[0].split("|") for block in wide_topics.TOPICS.strip().lstrip("*").split("\n*")]
    members = [member for row in rows if "{" not in row[1] for member in row[1].split(",")]
    assert len(rows) > 40 and len(members) > 700
    twice = {member for member in members if members.count(member) > 1}
    assert not twice


def _calls(count: int) -> list[tuple[Chat, int]]:
    rng = Random(3)
    return [(chat, at) for chat in (wide_world.draw(rng) for _ in range(count)) for at in range(len(chat.turns))]


def test_a_call_is_of_a_tool_that_is_there_with_what_the_request_says(data: Path) -> None:
    sizes = set()
    for chat, at in _calls(500):
        known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.tools}
        sizes.add(len(known))
        assert len(known) == len(chat.tools) and not any(map(taken, known))
        asked = chat.turns[at - 1].text
        for name, arguments in chat.turns[at].calls:
            properties = known[name]["properties"]
            assert list(arguments) == list(properties) == known[name]["required"] and not any(map(taken, properties))
            for key, value in arguments.items():
                if isinstance(value, int):
                    assert properties[key]["type"] == "integer"
                    assert str(value) in asked or spelled(value) in asked.lower()
                else:
                    assert value.lower() in asked.lower()
                    assert value in properties[key].get("enum", [value])
        if chat.turns[at].text == NONE:
            assert not chat.turns[at].calls
    assert sizes <= {2, 3, 4, 5, 6} and len(sizes) > 3
