"""JSON by a schema in the prompt: the answer fits the schema, and its values stand in the text."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest

from training import wide_keyed, wide_prompted
from training.data_chat import Chat, segments

pytestmark = pytest.mark.usefixtures("data")
jsonschema = pytest.importorskip("jsonschema")


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


def test_an_answer_fits_its_schema_and_has_the_values_of_the_text() -> None:
    rng = Random(1)
    for _ in range(500):
        wanted = wide_prompted.asked(rng)
        jsonschema.Draft202012Validator.check_schema(wanted.schema)
        text, value = wanted.draw(rng)
        jsonschema.validate(value, wanted.schema)
        assert all(one.lower() in text.lower() for one in strings(value))


def test_the_schema_is_in_the_prompt_and_a_block_is_given_where_one_is_asked_for() -> None:
    rng = Random(2)
    fenced = 0
    for _ in range(500):
        chat = wide_prompted.json_answer(rng)
        prompt = chat.system + "\n" + chat.turns[0].text
        answers = [turn.text for turn in chat.turns if turn.role == "assistant"]
        wanted = any(text in prompt for text in wide_prompted.FENCE)
        for answer in answers:
            block = re.fullmatch(r"```json\n(.*)\n```", answer, re.DOTALL)
            assert (block is not None) == wanted
            last = json.loads(block[1] if block else answer)
            assert all(f"{name}" in prompt for name in last)
        assert last == chat.expect
        fenced += wanted
        assert segments(chat)
    assert 100 < fenced < 250


def test_a_value_can_be_one_of_some_numbers() -> None:
    form = wide_prompted.Form("Bed", {"size": {"type": "integer", "enum": [90, 140]}}, None, {})
    sketches = {wide_prompted._sketch(form, Random(seed)) for seed in range(40)}
    assert len(sketches) > 3 and all("90" in one and "140" in one for one in sketches)
    assert any("90 | 140" in one for one in sketches)
    listed = [wide_keyed.keys(form, Random(seed)) for seed in range(40)]
    assert any("one of 90, 140" in one for one in listed)


def test_a_bare_answer_is_not_asked_for_together_with_a_block() -> None:
    rng = Random(3)
    for _ in range(300):
        prompt = (chat := wide_prompted.json_answer(rng)).system + chat.turns[0].text
        if any(text in prompt for text in wide_prompted.FENCE):
            assert not any(text in prompt for text in wide_prompted.BARE)


def test_calls_of_classes_fit_their_schemas() -> None:
    rng = Random(4)
    for _ in range(300):
        chat = wide_prompted.tool_call(rng)
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.tools}
        (call,) = (call for turn in chat.turns for call in turn.calls)
        jsonschema.validate(call[1], schemas[call[0]])


def test_no_sentence_of_a_library_is_used() -> None:
    """The prompts of instructor are kept for judging."""
    never = re.compile(r"genius|parsed objects|correct JSON response|correctly extracted|json_schema", re.IGNORECASE)

    def said(chat: Chat) -> str:
        return chat.system + " ".join(turn.text for turn in chat.turns) + json.dumps(list(chat.tools))

    rng = Random(5)
    for _ in range(400):
        assert not never.search(said(wide_prompted.json_answer(rng)))
        assert not never.search(said(wide_prompted.tool_call(rng)))
