"""Sparse prefill keeps the tokens of pictures, in every family that sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.engine.sequence import Sequence
from paceline.models.adapter import accept_position_ids
from paceline.sparse.rules import Rules
from paceline.types import Prompt
from tests.engine.stepper import loaded
from tests.integration.test_sparse_exactness import prompt as words
from tests.models.test_families import TWO, prompt
from tests.sparse.stepper import SparseStepper, kept
from tests.synthetic.vision_families import FAMILIES

TOKENS = 6


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_pictures_are_kept_whatever_their_scores(seeing: Callable[[str], Path], family: str) -> None:
    folder = seeing(family)
    refused = accept_position_ids(loaded(folder).language)
    if refused is not None:
        pytest.skip(refused)
    question = prompt(folder, TWO)
    filled = Prompt((*words(400, 4), *question.token_ids), question.media)
    found = {}
    chosen: list[NDArray[np.int64]] = []
    for keep in (None, 0.9999, 0.1):
        rules = Rules("off") if keep is None else Rules("auto", threshold=1, keep=keep)
        layout = "padded" if FAMILIES[family].padded else "rows"
        stepper = SparseStepper(folder, layout, chunk=40, rules=rules)

        def note(seq: Sequence) -> None:
            assert seq.sparse.kept is not None
            chosen.append(np.array(seq.sparse.kept))

        stepper.sparse.on_kept = note
        found[keep] = stepper.scored("row", filled, TOKENS)
        stepper.finish()
    assert found[0.9999].tokens == found[None].tokens
    assert found[0.1].finish_reason == "length"
    assert (kept(found[0.1]) or 0) < len(filled.token_ids)
    assert set(np.flatnonzero(filled.media_mask)) <= set(chosen[-1].tolist())
