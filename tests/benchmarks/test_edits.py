from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.edits import APART, FILE_TOKENS, FILES, LINE, STARTED, encoder, prompts, walked_prompts
from paceline.errors import LoadError


def words(text: str) -> list[int]:
    """Names, and what is between them, by sign."""
    return [hash(part) % 50_000 for part in re.findall(r"\w+|\W", text)]


@pytest.mark.parametrize("seed", range(len(FILES)))
def test_an_edit_is_a_file_of_its_size_and_the_beginning_of_another_like_it(seed: int) -> None:
    _, old, new = FILES[seed]
    for place, prompt in enumerate(prompts("edit", words, 3, seed)):
        begun = STARTED + place * APART
        file, written = prompt[:-begun], prompt[-begun:]
        assert 0.9 * FILE_TOKENS < len(file) < FILE_TOKENS + 100
        assert words(old)[0] in file[:FILE_TOKENS] and words(new)[0] in file[-40:]
        renamed = [words(new)[0] if token == words(old)[0] else token for token in file]
        assert list(written) == renamed[:begun]


def test_the_prompts_of_a_run_share_their_file() -> None:
    one, two = prompts("edit", words, 2, seed=5)
    assert two[: len(one)] == one


def test_no_two_prompts_are_alike() -> None:
    assert len({*prompts("edit", words, 4, 0), *prompts("edit", words, 4, 1)}) == 8
    assert len(set(prompts("prose", words, 8, 0))) == 8


def test_weights_that_follow_an_order_go_on_with_a_file_that_has_changed_in_places() -> None:
    order = np.random.default_rng(0).permutation(9000)
    for place, prompt in enumerate(walked_prompts(order, 2, seed=1)):
        file, written = prompt[:FILE_TOKENS], prompt[FILE_TOKENS:]
        assert len(written) == STARTED + place * APART
        differ = [at for at, (old, new) in enumerate(zip(file, written, strict=False)) if old != new]
        assert differ == list(range(LINE - 1, len(written), LINE))
        following = dict(zip(order.tolist(), order[1:].tolist(), strict=False))
        assert all(following[one] == two for one, two in pairwise(written))


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="needs a model with a tokenizer"):
        encoder(tmp_path)
