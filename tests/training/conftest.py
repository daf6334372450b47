"""A data folder of a few lines: what `training.sources` and `training.tokenizer` leave, made in seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tokenizers import Tokenizer

from training import facts, pictures, tokenizer
from training.sources import SEPARATOR


def _sentences(rng: Random, count: int) -> str:
    subjects, verbs = facts.NAMES, ("sees", "likes", "sold", "paints", "carries", "finds")
    return " ".join(
        f"{rng.choice(subjects)} {rng.choice(verbs)} the {rng.choice(facts.RICH_COLOURS)} {rng.choice(facts.THINGS)}."
        for _ in range(count)
    )


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("train")
    (folder / "corpus").mkdir()
    (folder / "records").mkdir()
    rng = Random(0)
    documents = [_sentences(rng, 40) for _ in range(300)]
    (folder / "corpus" / "small.txt").write_text(SEPARATOR.join(documents))
    (folder / "records" / "countries.json").write_text(json.dumps([["France", "Paris", "Europe", "Euro"]]))
    (folder / "records" / "definitions.json").write_text(json.dumps([["harbor", "noun", "a place for ships"]]))
    (folder / "records" / "dialogues.json").write_text(json.dumps([["Hello", "Hi"]]))
    (folder / "records" / "meanings.json").write_text(json.dumps([["chair", "noun", "a seat for one person"]]))
    (folder / "records" / "names.json").write_text(json.dumps({"first": ["Ida", "Tom"], "last": ["Berg", "Lund"]}))
    tool = {"name": "dig", "description": "Digs.", "values": {"depth": {"type": "integer"}}, "required": ["depth"]}
    calls = [("Dig 3 down.", "dig", {"depth": 3}), ("Who sings?", "", {})]
    called = [{"text": text, "tools": [tool], "name": name, "arguments": given} for text, name, given in calls]
    (folder / "records" / "calls.json").write_text(json.dumps(called))
    fan = {"name": "HassFanSetSpeed", "domain": "fan", "fixed": {}, "texts": ["turn {name} to {fan_speed:percentage}"]}
    intents = [fan, fan | {"name": "sunset", "domain": "", "texts": ["when is sunset", "when is sunset in {location}"]}]
    spoken = {"lists": {"fan_speed": {"range": [0, 100]}}, "intents": intents}
    (folder / "records" / "intents.json").write_text(json.dumps(spoken))
    asked = {"domain": "taxi", "deed": "inform", "slots": ["dest"], "texts": ["I need a taxi to {dest}."]}
    told = {"domain": "booking", "deed": "book", "slots": ["ref"], "texts": ["The reference is {ref}."]}
    booking = {"asked": [asked], "told": [told], "values": {}}
    (folder / "records" / "booking.json").write_text(json.dumps(booking))
    place, person, firm = (
        [("4", "number"), ("Oak St", "street")],
        [("Al", "first"), ("Ox", "last")],
        [("Zed", "company")],
    )
    labels = {"address": [place], "person": [person], "company": [firm]}
    (folder / "records" / "labels.json").write_text(json.dumps(labels))
    found = [["The mill burned down in 1901.", "When did the mill burn?", "in 1901"]]
    questions = {"open": [["who won the cup"]], "found": found}
    (folder / "records" / "questions.json").write_text(json.dumps(questions))
    emoji = np.zeros((2, 64, 64, 4), np.uint8)
    emoji[:, 8:56, 8:56] = 255
    np.savez(folder / "records" / "emoji.npz", names=np.array(["box", "tile"]), images=emoji)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINING_DATA", str(folder))
        for cached in (facts.countries, facts.definitions, facts.dialogues, pictures.emoji):
            cached.cache_clear()
        from training.data import sample_chats

        texts = [*documents, *sample_chats(300_000, rng), *("x" * n + "y" * n for n in range(1, 40))]
        tokenizer.write(tokenizer.train(iter(texts), size=1024), folder / "tokenizer")
        yield folder
        for cached in (facts.countries, facts.definitions, facts.dialogues, pictures.emoji):
            cached.cache_clear()


@pytest.fixture(scope="session")
def words(data: Path) -> Tokenizer:
    return tokenizer.load(data)
