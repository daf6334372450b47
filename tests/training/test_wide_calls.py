"""Other people's calls: what is taken from their questions, and what is made of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("tokenizers")

from training import sources_calls, wide_calls
from training.sources_calls import pick_calls


def tool(name: str, required: list[str], **values: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "dict", "properties": values, "required": required}
    return {"name": name, "description": f"For {name}. Note more.", "parameters": parameters}


FLIGHT = tool(
    "air.find_flight",
    ["to"],
    to={"type": "string", "description": "Where to"},
    seats={"type": "integer"},
    cabin={"type": "string", "enum": ["economy", "first"]},
    lights={"type": "boolean"},
)
MIX = tool("blend_dyes", ["dyes"], dyes={"type": "array", "items": {"type": "string"}}, drops={"type": "float"})
DEEP = tool("deep", ["inner"], inner={"type": "dict"})
ENTRIES = [
    (
        "A flight to Oslo with 12 seats, please.",
        [FLIGHT, MIX],
        {"to": ["Oslo"], "seats": [12], "cabin": ["economy", ""]},
    ),
    ("Fly me to Norway's capital.", [FLIGHT], {"to": ["Oslo"]}),  # not told
    ("Two seats to Rome for us.", [FLIGHT], {"to": ["Rome"], "seats": [2], "lights": [True, ""]}),
    ("What has to be said is that everything is deep.", [DEEP], {"inner": [{}]}),
]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    data = tmp_path / "bfcl_eval/data"
    (data / "possible_answer").mkdir(parents=True)
    asked = [
        {"id": str(place), "question": [[{"role": "user", "content": text}]], "function": tools}
        for place, (text, tools, _) in enumerate(ENTRIES)
    ]
    right = [
        {"id": str(place), "ground_truth": [{tools[0]["name"]: values}]}
        for place, (_, tools, values) in enumerate(ENTRIES)
    ]
    none = [{"id": "n", "question": [[{"role": "user", "content": "Sing me to sleep."}]], "function": [MIX]}]
    exact = [{"id": "e", "question": [[{"role": "user", "content": "Mix red and blue, 3 of it."}]], "function": [MIX]}]
    call = [{"id": "e", "ground_truth": ["blend_dyes(dyes=['red', 'blue'], drops=3)"]}]
    for name, lines in (
        ("BFCL_v4_simple_python.json", asked),
        ("possible_answer/BFCL_v4_simple_python.json", right),
        ("BFCL_v4_irrelevance.json", none),
        ("unused_datasets/question/BFCL_v4_exec_simple.json", exact),
        ("unused_datasets/possible_answer/BFCL_v4_exec_simple.json", call),
    ):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


@pytest.fixture
def recorded(package: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    found = pick_calls(package)
    shutil.copytree(data / "records", package / "records")
    (package / "records/calls.json").write_text(json.dumps(found))
    monkeypatch.setenv("TRAINING_DATA", str(package))
    for cached in (wide_calls.known, wide_calls.pool):
        cached.cache_clear()
    yield found
    for cached in (wide_calls.known, wide_calls.pool):
        cached.cache_clear()


def test_values_that_the_question_does_not_tell_are_no_example(package: Path) -> None:
    found = {one["text"]: (one["name"], one["arguments"]) for one in pick_calls(package)}
    assert found == {
        "A flight to Oslo with 12 seats, please.": ("air.find_flight", {"to": "Oslo", "seats": 12}),
        "Two seats to Rome for us.": ("air.find_flight", {"to": "Rome", "seats": 2}),
        "Sing me to sleep.": ("", {}),
        "Mix red and blue, 3 of it.": ("blend_dyes", {"dyes": ["red", "blue"], "drops": 3}),
    }


def test_tools_are_told_in_few_words(package: Path) -> None:
    (one,) = (one for one in pick_calls(package) if "Oslo" in one["text"])
    assert [tool["description"] for tool in one["tools"]] == ["For air.find_flight", "For blend_dyes"]
    assert one["tools"][1]["values"]["dyes"] == {"type": "array", "description": "", "items": {"type": "string"}}
    assert sources_calls._brief("Where, in the format of 'City, State'.") == "Where"


def test_every_call_has_a_tool_and_values_from_the_question(recorded: list[dict[str, Any]]) -> None:
    rng, names = Random(1), set()
    for _ in range(200):
        chat = wide_calls.tool_call(rng)
        shown = {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.tools}
        if not chat.turns[1].calls:
            assert chat.turns[1].text == "I have no tool for that."
            continue
        ((name, arguments),) = chat.turns[1].calls
        names.add(name)
        assert set(shown[name]["required"]) <= set(arguments) <= set(shown[name]["properties"])
        text = chat.turns[0].text
        assert all(str(value) in text or value == 2 for value in arguments.values() if not isinstance(value, list))
    assert names == {"air_find_flight", "blend_dyes"}


def test_the_same_values_are_asked_for_as_json(recorded: list[dict[str, Any]]) -> None:
    rng = Random(2)
    for _ in range(100):
        chat = wide_calls.json_answer(rng)
        said = chat.turns[-1].text.removeprefix("```json\n").removesuffix("\n```")
        assert json.loads(said)
