"""Rows of tokens: full, whole, and with every picture in its place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training import pictures
from training.data import Task, make
from training.data_pack import Document, cut, pack, read


def _filler() -> Iterator[NDArray[np.uint16]]:
    return itertools.repeat(np.full(7, 9, np.uint16))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_every_document_is_whole_in_one_sequence(sizes: list[int]) -> None:
    documents = [
        Document(np.full(size, 100 + place, np.uint16), np.ones(size, bool)) for place, size in enumerate(sizes)
    ]
    stage = pack(documents, 32, _filler())
    for place, size in enumerate(sizes):
        runs = [int((row == 100 + place).sum()) for row in stage.tokens]
        assert runs.count(0) == len(runs) - (size <= 32) and sum(runs) == (size if size <= 32 else 0)
    assert stage.dropped == sum(size > 32 for size in sizes)
    assert all((row != 0).all() for row in stage.tokens)


def test_plain_text_is_cut_and_all_of_it_predicted() -> None:
    stage = cut(np.arange(100, dtype=np.uint16), 32)
    assert len(stage.tokens) == 3 and all(mask.all() for mask in stage.loss)


def test_a_stage_with_images_survives_the_file(data: Path, words: Tokenizer, tmp_path: Path) -> None:
    stage, shown = make(Task("pics", "pictures_two", "train", 1, 0, 6000, str(data)))
    entry = stage.write(
        tmp_path / "pics-00.npz", np.zeros(len(stage.tokens), np.uint8), np.stack(shown), np.random.default_rng(0)
    )
    arrays = read(tmp_path / "pics-00.npz")
    image = words.token_to_id("<|image_pad|>")
    start = words.token_to_id("<|vision_start|>")
    assert entry["rows"] == len(arrays["tokens"]) and arrays["loss"].shape == arrays["tokens"].shape
    assert sorted(arrays["places"][:, 2]) == list(range(len(shown)))
    for row, column, _ in arrays["places"]:
        tokens = arrays["tokens"][row]
        assert tokens[column - 1] == start and (tokens[column : column + pictures.TOKENS] == image).all()
        assert not arrays["loss"][row, column : column + pictures.TOKENS].any()


def test_the_same_seed_makes_the_same_sequences(data: Path) -> None:
    task = Task("chat", "tools", "train", 3, 0, 4000, str(data))
    one, other = make(task)[0], make(task)[0]
    assert np.array_equal(np.stack(one.tokens), np.stack(other.tokens))
