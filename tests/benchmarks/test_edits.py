from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.edits import APART, FILE_TOKENS, STARTED, encoder, function, prompts
from paceline.errors import LoadError


def words(text: str) -> list[int]:
    return [hash(word) % 50_000 for word in text.replace("_", " _ ").split()]


def test_an_edit_is_a_file_of_its_size_and_the_beginning_of_another_like_it() -> None:
    for place, prompt in enumerate(prompts("edit", words, 3, seed=2)):
        begun = STARTED + place * APART
        assert FILE_TOKENS + begun <= len(prompt) < FILE_TOKENS + begun + 200
        written = prompt[-STARTED:]
        shared = sum(token in prompt[:FILE_TOKENS] for token in written)
        assert 0.9 * STARTED < shared < STARTED


def test_the_prompts_of_a_run_share_their_file() -> None:
    one, two = prompts("edit", words, 2, seed=5)
    assert two[: len(one)] == one


def test_no_two_prompts_and_no_two_functions_are_alike() -> None:
    assert len({*prompts("edit", words, 4, 0), *prompts("edit", words, 4, 1)}) == 8
    assert len(set(prompts("prose", words, 8, 0))) == 8
    assert len({function(place, 0) for place in range(60)}) == 60


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="needs a model with a tokenizer"):
        encoder(tmp_path)
