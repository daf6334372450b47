from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.edits import FILE_TOKENS, STARTED, encoder, function, prompts
from paceline.errors import LoadError


def words(text: str) -> list[int]:
    return [hash(word) % 50_000 for word in text.replace("_", " _ ").split()]


def test_an_edit_is_a_file_of_its_size_and_the_beginning_of_another_like_it() -> None:
    for prompt in prompts("edit", words, 3, seed=2):
        assert FILE_TOKENS + STARTED <= len(prompt) < FILE_TOKENS + STARTED + 200
        begun = prompt[-STARTED:]
        shared = sum(token in prompt[:FILE_TOKENS] for token in begun)
        assert 0.9 * STARTED < shared < STARTED


def test_no_two_prompts_and_no_two_functions_are_alike() -> None:
    assert len({*prompts("edit", words, 4, 0), *prompts("edit", words, 4, 1)}) == 8
    assert len(set(prompts("prose", words, 8, 0))) == 8
    assert len({function(place, 0) for place in range(60)}) == 60


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="needs a model with a tokenizer"):
        encoder(tmp_path)
