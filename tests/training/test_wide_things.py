"""Things with properties, acts, keys and scenes: what is asked for has its answer in what is told or drawn."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from paceline.models.files import EMBEDDED
from training import (
    data,
    wide_filler,
    wide_keyed,
    wide_needs,
    wide_pictures,
    wide_plain,
    wide_prompted,
    wide_scenes,
    wide_things,
    wide_tools,
)
from training.data_chat import segments

pytestmark = pytest.mark.usefixtures("data")


def prose(size: int, rng: Random) -> str:
    return ("It was late in the day. The men went home. " * (size // 40 + 1))[:size]


def test_a_space_before_a_value_is_gone_on_from_and_never_said() -> None:
    words = Tokenizer.from_file(str(EMBEDDED / "paceline-mini" / "tokenizer.json"))
    encoder = data.Encoder(words)
    text = json.dumps({f"key{at}": (True, False, "some words", 12)[at % 4] for at in range(400)})
    plain = words.encode(text).ids
    tokens, mark = encoder._stumbled(np.array(plain, np.uint16))
    assert 3 < (~mark).sum() < 60 and len(tokens) == len(plain) + (~mark).sum()
    assert all(words.id_to_token(token) == "\u0120" for token in tokens[~mark].tolist())
    assert json.loads(words.decode(tokens.tolist())) == json.loads(text)


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


def test_a_text_about_a_thing_tells_the_values_of_its_record() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    rng = Random(1)
    for _ in range(600):
        form = wide_things.form(rng)
        text, values = form.told(rng)
        jsonschema.validate(values, {"type": "object", "properties": form.values, "required": list(form.values)})
        assert all(one.lower() in text.lower() for one in strings(values)), (text, values)
        assert "{" not in text and list(values) == list(form.values)


def test_a_property_is_told_asked_for_and_denied() -> None:
    rng = Random(2)
    near = None
    for _ in range(1000):
        fact = wide_things.draw(rng, near)
        near = fact if rng.random() < 0.5 else None
        assert fact.value.lower() in fact.told(rng).lower()
        question, answer = fact.asked(rng)
        assert fact.value.lower() in answer.lower() and "{" not in question + answer
        other = fact.another(rng)
        asked, said, right = fact.yes_or_no(rng, other)
        assert said.startswith("Yes" if right else "No") and (fact.value if right else other).lower() in asked.lower()


def test_calls_of_acts_fit_their_schemas_and_every_act_can_be_asked_for() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    rng = Random(3)
    for act in wide_tools.acts():
        text, arguments = wide_tools.tool(act, rng).call(rng)
        assert "{" not in text and all(one.lower() in text.lower() for one in strings(arguments))
    none = 0
    for _ in range(600):
        chat = rng.choice((wide_tools.tool_call, wide_tools.thing_call, wide_needs.tool_call))(rng)
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in chat.tools}
        assert len(schemas) == len(chat.tools) and segments(chat)
        for name, arguments in (call for turn in chat.turns for call in turn.calls):
            jsonschema.validate(arguments, schemas[name])
        none += chat.turns[-1].text == wide_tools.NONE
    assert 3 < none < 80


def test_json_has_the_keys_that_are_named() -> None:
    rng = Random(4)
    for _ in range(600):
        chat = wide_keyed.json_answer(rng)
        prompt, answer = chat.system + chat.turns[0].text, chat.turns[-1].text
        assert (answer.startswith("```json")) == any(text in prompt for text in wide_prompted.FENCE)
        value = json.loads(re.sub(r"^```json\n|\n```$", "", answer))
        assert value == chat.expect
        for one in value if isinstance(value, list) else [value]:
            assert all(name in prompt for name in one)


def test_scenes_show_what_is_said_of_them() -> None:
    rng = Random(5)
    for _ in range(200):
        chat = wide_scenes.draw(rng)
        (picture,) = chat.pictures
        assert picture.shape == (96, 96, 3)
        for turn in chat.turns:
            assert turn.text and "{" not in turn.text
    shown, figures, _ = wide_scenes.scene([("square", "red"), ("circle", "blue")], rng)
    for figure in figures:
        row, column = (int(part) for part in figure.middle)
        assert figure.colour in wide_pictures.TONES and 0 <= row < 64 and 0 <= column < 64


def test_fillers_have_about_the_size() -> None:
    rng = Random(6)
    for kind in wide_filler.FILLERS:
        for size in (400, 3000):
            units = kind(size, rng, prose)
            assert units and all(units) and sum(map(len, units)) > size * 0.4, kind.__name__
    assert "the mill is old" in wide_filler.put("the mill is old.", rng)
    assert "the mill is old" in wide_filler.woven("the mill is old.", "It rained.", rng)


def test_plain_talk_has_answers() -> None:
    rng = Random(7)
    for kind in wide_plain.EXCHANGES:
        for _ in range(200):
            one = kind(rng)
            assert one.user.strip() and one.answer.strip() and "{" not in one.user + one.answer
    for name, members in wide_plain.MORE.items():
        assert len(members.split()) == 3, name
    assert len(dict(wide_plain._meanings())) > 480
