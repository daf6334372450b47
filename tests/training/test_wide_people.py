"""What people say to assistants, and addresses and names with labelled parts: what is read, and what is made of it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("tokenizers")

from training import wide_booking, wide_calls, wide_intents, wide_labels
from training.sources_booking import pick_booking
from training.sources_calls import pick_many, pick_turns
from training.sources_intents import SKILLS, pick_intents, ways
from training.sources_labels import pick_labels

HOME = {
    "expansion_rules": {"the": "(the|my)"},
    "lists": {
        "brightness": {"range": {"from": 0, "to": 100}},
        "cover_classes": {"values": [{"in": "hatch[es]", "out": "hatch"}]},
        "message": {"wildcard": True},
    },
    "intents": {
        "HassLightSet": {
            "data": [{"sentences": ["dim <the> {area} to {brightness}[%]"], "slots": {"domain": "light"}}]
        },
        "HassTurnOn": {
            "data": [
                {"sentences": ["uncover {cover_classes:device_class} (quickly;now)"], "slots": {"domain": "cover"}}
            ]
        },
        "HassBroadcast": {"data": [{"sentences": ["shout {message}"]}]},
    },
}
PLACES = """<AddressCollection>
<AddressString><AddressNumber>12</AddressNumber> <StreetName>Elm</StreetName>
<StreetNamePostType>Row,</StreetNamePostType> <PlaceName>Ulm</PlaceName></AddressString>
<AddressString><AddressNumber>7</AddressNumber> <NotAddress>perhaps</NotAddress></AddressString></AddressCollection>"""
PEOPLE = """<NameCollection><Name><GivenName>Ada</GivenName> <Surname>Quill</Surname></Name>
<Name><GivenName>Bo</GivenName></Name></NameCollection>"""
FIRMS = """<NameCollection><Name><CorporationName>tin</CorporationName> <CorporationName>&amp; co</CorporationName>
<CorporationLegalType>ltd.</CorporationLegalType></Name></NameCollection>"""
ASKED = {
    "Hotel-Inform": {"Stars;Stay;": ["I ' m after a #HOTEL-INFORM-STARS# star hotel for #HOTEL-INFORM-STAY# nights ."]},
    "Taxi-Inform": {
        "Dest;Leave;": [
            "A taxi to #TAXI-INFORM-DEST# at #TAXI-INFORM-LEAVE# , please",
            "A taxi to #TAXI-INFORM-DEST# at #TAXI-INFORM-LEAVE# or 6 pm",  # a value that is no slot
            "A taxi to #TAXI-INFORM-DEST# at #TAXI-INFORM-LEAVE# on Monday",
            "A taxi from Upton to #TAXI-INFORM-DEST# at #TAXI-INFORM-LEAVE# , please",
            "From #TAXI-INFORM-DEST# at #TAXI-INFORM-LEAVE# , please",
            "I must arrive in #TAXI-INFORM-DEST# by #TAXI-INFORM-LEAVE# .",  # a slot that is another
        ]
    },
    "general-thank": {"none;": ["Thank you , that 's it .", "Thanks , any for 6 ?"]},
    "Taxi-Request": {"Car;": ["Which car is it ?"]},
}
ANSWERED = {"Train-Inform": {"Id;Time;": ["Train #TRAIN-INFORM-ID# needs #TRAIN-INFORM-TIME# ."]}}


@pytest.fixture
def packages(tmp_path: Path) -> dict[str, Path]:
    folders = {name: tmp_path / name for name in ("home-assistant-intents", *SKILLS, "labels", "bfcl-eval", "convlab")}
    skill = folders["ovos-skill-parrot"] / "parrot/locale/en-us"
    files = {
        folders["home-assistant-intents"] / "home_assistant_intents/data/en.json": json.dumps(HOME),
        skill / "speak.intent": "(utter|pronounce) {sentence}\n# no\n",
        skill / "stop.intent": "be silent now\n",
        folders["labels"] / "u-1/training/labeled.xml": PLACES,
        folders["labels"] / "p-1/name_data/labeled/person_labeled.xml": PEOPLE,
        folders["labels"] / "p-1/name_data/labeled/company_labeled.xml": FIRMS,
    }
    root = folders["convlab"] / "convlab-1/convlab"
    values = {"restaurant": {"name": ["x"], "food": ["y"]}, "hotel": {"name": ["z"]}}
    values |= {"attraction": {"name": ["v"], "type": ["do n't care"]}, "hospital": {"department": ["w"]}}
    values |= {"train": {"departure": ["upton"]}}
    files[root / "nlg/template/multiwoz/auto_user_template_nlg.json"] = json.dumps(ASKED)
    files[root / "nlg/template/multiwoz/auto_system_template_nlg.json"] = json.dumps(ANSWERED)
    files[root / "e2e/damd/multiwoz/db/value_set_processed.json"] = json.dumps(values)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folders


@pytest.fixture
def recorded(packages: dict[str, Path], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    shutil.copytree(data / "records", tmp_path / "records")
    (tmp_path / "records/intents.json").write_text(json.dumps(pick_intents(packages)))
    (tmp_path / "records/labels.json").write_text(json.dumps(pick_labels(packages["labels"], packages["labels"])))
    (tmp_path / "records/booking.json").write_text(json.dumps(pick_booking(packages["convlab"])))
    monkeypatch.setenv("TRAINING_DATA", str(tmp_path))
    kept = (wide_intents.known, wide_labels.known, wide_labels.pool, wide_booking.known, wide_booking._pool)
    for cached in kept:
        cached.cache_clear()
    yield
    for cached in kept:
        cached.cache_clear()


def said(text: str) -> Any:
    return json.loads(text.removeprefix("```json\n").removesuffix("\n```"))


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from leaves(one)
    else:
        yield value


def test_a_sentence_is_a_small_grammar() -> None:
    found = {ways("go [not] (up|<way>) (a;b)", {"way": "down"}, Random(seed)) for seed in range(200)}
    assert found == {f"go {no}{way} {end}" for no in ("", "not ") for way in ("up", "down") for end in ("a b", "b a")}


def test_intents_keep_their_slots_open(packages: dict[str, Path]) -> None:
    found = pick_intents(packages)
    texts = {one["name"]: set(one["texts"]) for one in found["intents"]}
    assert set(texts) == {"HassLightSet", "HassTurnOn", "speak"}
    assert texts["speak"] == {"utter {sentence}", "pronounce {sentence}"}
    assert "dim my {area} to {brightness}%" in texts["HassLightSet"]
    assert found["lists"]["brightness"] == {"range": [0, 100]} and "message" not in found["lists"]


@pytest.mark.usefixtures("recorded")
def test_calls_have_the_values_that_were_said() -> None:
    rng, names, several = Random(1), set(), 0
    for _ in range(300):
        chat = wide_intents.tool_call(rng)
        shown = {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.tools}
        several += len(chat.turns[1].calls) > 1
        for name, arguments in chat.turns[1].calls:
            names.add(name.lower())
            assert set(shown[name]["required"]) <= set(arguments) <= set(shown[name]["properties"])
            assert all(str(value).lower() in chat.turns[0].text.lower() for value in arguments.values())
        assert chat.turns[1].calls or chat.turns[1].text == "I have no tool for that."
    assert several and len(names) > 3


@pytest.mark.usefixtures("recorded")
def test_slots_as_json() -> None:
    rng = Random(2)
    for _ in range(200):
        chat = wide_intents.json_answer(rng)
        asked = (chat.system + "".join(turn.text for turn in chat.turns if turn.role == "user")).lower()
        for value in leaves(said(chat.turns[-1].text)):
            assert value is None or str(value).lower() in asked


def test_labels_are_parts_of_one_text(packages: dict[str, Path]) -> None:
    found = pick_labels(packages["labels"], packages["labels"])
    assert found == {
        "address": [[("12", "number"), ("Elm Row", "street"), ("Ulm", "city")]],
        "person": [[("Ada", "first"), ("Quill", "last")]],
        "company": [[("tin & co", "company"), ("ltd.", "form")]],
    }


@pytest.mark.usefixtures("recorded")
def test_every_part_stands_in_the_text() -> None:
    rng, keys = Random(3), set()
    for _ in range(300):
        chat = wide_labels.json_answer(rng)
        answer = said(chat.turns[-1].text)
        keys |= set(answer if isinstance(answer, dict) else answer[0])
        asked = "".join(turn.text for turn in chat.turns if turn.role == "user").lower()
        assert all(value is None or value.lower() in asked for value in leaves(answer))
    assert len(keys) > 10


def test_sentences_that_say_what_their_slots_are_for(packages: dict[str, Path]) -> None:
    found = pick_booking(packages["convlab"])
    texts = {one["domain"]: one["texts"] for one in (*found["asked"], *found["told"])}
    assert texts == {
        "hotel": ["I'm after a {stars} star hotel for {stay} nights."],
        "taxi": ["A taxi to {dest} at {leave}, please"],
        "train": ["Train {id} needs {time}."],
    }
    assert found["values"]["attraction type"] == []
    assert (found["thanks"], found["bye"]) == (["Thank you, that's it."], [])


@pytest.mark.usefixtures("recorded")
def test_bookings_as_calls_and_as_json() -> None:
    rng, names = Random(4), set()
    for _ in range(150):
        chat = wide_booking.tool_call(rng)
        shown = {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.tools}
        ((name, arguments),) = chat.turns[1].calls
        names.add(name)
        assert chat.turns[-1].text in ("", "It is done.", "You are welcome!")
        assert set(arguments) <= set(shown[name]["properties"])
        assert all(str(value) in chat.turns[0].text for value in arguments.values())
        chat = wide_booking.json_answer(rng)
        asked = "".join(turn.text for turn in chat.turns if turn.role == "user").lower()
        assert all(value is None or str(value).lower() in asked for value in leaves(said(chat.turns[-1].text)))
    assert len(names) > 3


def test_several_calls_and_turns_of_conversations(packages: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = packages["bfcl-eval"]
    values = {"to": {"type": "string"}, "seats": {"type": "integer"}}
    fly = {"name": "fly", "description": "Flies.", "parameters": {"properties": values, "required": ["to"]}}
    both = [{"fly": {"to": ["Oslo"], "seats": [3]}}, {"fly": {"to": ["Rome"], "seats": [4]}}]
    turns = [("Now fly to Cork with 2 seats.", ["fly(to='Cork', seats=2.0)"]), ("Fly there again.", ["fly(to='Cork')"])]
    for name, line in (
        ("BFCL_v4_parallel.json", {"question": [[{"content": "3 seats to Oslo, 4 seats to Rome"}]], "function": [fly]}),
        ("possible_answer/BFCL_v4_parallel.json", {"ground_truth": both}),
        ("BFCL_v4_multi_turn_base.json", {"question": [[{"content": text}] for text, _ in turns]}),
        ("possible_answer/BFCL_v4_multi_turn_base.json", {"ground_truth": [calls for _, calls in turns]}),
        ("multi_turn_func_doc/fly.json", fly),
    ):
        path = folder / "bfcl_eval/data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"id": "1"} | line))
    (many,) = pick_many(folder)
    assert [call["arguments"] for call in many["calls"]] == [{"to": "Oslo", "seats": 3}, {"to": "Rome", "seats": 4}]
    (turn,) = pick_turns(folder)
    assert (turn["name"], turn["arguments"]) == ("fly", {"to": "Cork", "seats": 2})
    monkeypatch.setattr(wide_calls, "several", lambda: [many])
    for seed in range(50):
        chat = wide_calls.many_calls(Random(seed))
        for _, arguments in chat.turns[1].calls:
            assert all(re.search(rf"\b{value}\b", chat.turns[0].text) for value in arguments.values())
