"""The draft's scores are those of attention written out, however its reading is cut and whatever it had read before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from paceline.cache.prefix import PrefixCache
from paceline.models.adapter import NEARBY_BLOCK, nearby_attention
from paceline.models.files import EMBEDDED
from paceline.sparse.scorer import LOOK_AHEAD, OBSERVED, POOL, Draft, smooth
from tests.engine.stepper import loaded
from tests.reference import load_text
from tests.sparse.reference import scores

Tiny = Callable[..., Path]

PROMPT = np.random.default_rng(5).integers(3, 250, 300).tolist()


def read(draft: Draft, prompt: list[int], chunk: int, boundaries: tuple[int, ...] = ()) -> np.ndarray:
    scorer = draft.scorer(prompt, boundaries)
    while scorer.left:
        mx.eval(scorer.read(chunk))
    return scorer.scores()


@pytest.mark.parametrize("family", ["hybrid", "llama", "qwen3"])
def test_scores_are_those_of_attention_written_out(family: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(family)
    found = read(Draft(loaded(folder).language), PROMPT, 128)
    expected = scores(load_text(folder)[0], PROMPT, LOOK_AHEAD, OBSERVED, POOL)
    assert np.abs(found - expected).max() < 1e-5
    assert found.max() > 1.5 * np.median(found) > 0


def test_the_embedded_draft_too() -> None:
    folder = EMBEDDED / "paceline-mini-draft"
    found = read(Draft(loaded(folder).language), PROMPT, 64)
    assert np.abs(found - scores(load_text(folder)[0], PROMPT, LOOK_AHEAD, OBSERVED, POOL)).max() < 1e-5


@pytest.mark.thin(3)
@pytest.mark.parametrize("window", [None, 10, 40])
@pytest.mark.parametrize("family", ["hybrid", "llama"])
def test_scores_do_not_depend_on_chunks_or_on_what_was_read_before(
    family: str, window: int | None, request: pytest.FixtureRequest
) -> None:
    language = loaded(request.getfixturevalue(family)).language
    alone = read(Draft(language, None, window), PROMPT, 1000)
    assert np.abs(read(Draft(language, None, window), PROMPT, 37) - alone).max() < 1e-6
    draft = Draft(language, PrefixCache(lambda: 1 << 30), window)
    other = [*PROMPT[:200], *range(3, 90)]
    read(draft, other, 64, boundaries=(120, 200))
    scorer = draft.scorer(PROMPT, (120, 200))
    assert scorer.restored == 200, "the system prompt and a turn"
    while scorer.left:
        scorer.read(50)
    assert np.abs(scorer.scores() - alone).max() < 1e-5
    assert draft.scorer(PROMPT).restored == len(PROMPT) - OBSERVED, "asked again"
    assert draft.scorer(PROMPT, salt="another").restored == 0
    assert draft.scorer(PROMPT, salt=None).restored == 0


def test_smoothing_is_a_mean_of_neighbours() -> None:
    x = np.random.default_rng(1).random((2, 50))
    wanted = [[row[max(i - POOL // 2, 0) : i + POOL // 2 + 1].mean() for i in range(50)] for row in x]
    assert np.abs(np.array(smooth(mx.array(x.astype(np.float32)))) - wanted).max() < 1e-6


@pytest.mark.thin(2, first=1)
@pytest.mark.parametrize("family", ["hybrid", "llama"])
def test_a_window_changes_what_the_draft_reads_and_not_what_it_scores_with(tiny: Tiny, family: str) -> None:
    language = loaded(tiny(family, layers=8)).language  # the last layer's window changes nothing
    alone = read(Draft(language), PROMPT, 50)
    near = read(Draft(language, window=20), PROMPT, 50)
    assert np.abs(read(Draft(language, window=300), PROMPT, 50) - alone).max() < 1e-6, "it sees all there is"
    assert near.shape == alone.shape and 0 < np.abs(near - alone).max() < 0.5
    assert near[:50].max() > 0, "the look-ahead sees the prompt's beginning"


@pytest.mark.parametrize(("start", "stop"), [(0, 70), (0, 20), (13, 14), (13, 70), (40, 61), (60, 64)])
def test_a_token_sees_its_block_and_the_window_before_it(start: int, stop: int) -> None:
    near = 10
    rng = np.random.default_rng(3)
    keys, values = (mx.array(rng.normal(size=(1, 2, stop, 8)).astype(np.float32)) for _ in range(2))
    queries = mx.array(rng.normal(size=(1, 4, stop - start, 8)).astype(np.float32))
    found = np.array(nearby_attention(queries, keys, values, near, 0.3))
    for place in range(start, stop):
        low = max(place // (NEARBY_BLOCK * near) * NEARBY_BLOCK * near - near, 0)
        assert place - low <= (NEARBY_BLOCK + 1) * near and (low == 0 or place - low >= near)
        one = queries[:, :, place - start : place - start + 1]
        wanted = mx.fast.scaled_dot_product_attention(
            one, keys[:, :, low : place + 1], values[:, :, low : place + 1], scale=0.3
        )
        assert np.abs(found[:, :, place - start] - np.array(wanted)[:, :, 0]).max() < 1e-5
