"""Each filter against numpy, on rows of any distribution, with masked tokens among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.engine.sampling_filters import sigma_filtered, typical_filtered, xtc_filtered
from paceline.types import Sampling
from tests.engine.test_sampler import Floats, draws, random_logits, softmax

LADDER = [2.0, 1.5, 1.0, 0.5, 0.0]  # 0.43 0.26 0.16 0.10 0.06


def column(*values: float) -> mx.array:
    return mx.array(values, dtype=mx.float32)[:, None]


def masked_rows() -> Floats:
    scores = random_logits(6, 40, seed=3)
    scores[1:, 7] = -np.inf
    scores[4, 10:] = -np.inf
    scores[5, 1:] = -np.inf  # one token is left
    return scores


def kept(filtered: mx.array) -> NDArray[np.bool_]:
    return np.asarray(np.isfinite(np.array(filtered)))


def test_sigma_keeps_what_is_within_its_deviations_of_the_best() -> None:
    scores = masked_rows()
    for sigmas in (0.0, 0.5, 1.0, 3.0):
        found = kept(sigma_filtered(mx.array(scores.astype(np.float32)), column(*[sigmas] * 6)))
        for row, mine in zip(scores, found, strict=True):
            spread = row[np.isfinite(row)].std()
            assert mine.tolist() == (row >= row.max() - sigmas * spread - 1e-7).tolist()


def test_typical_keeps_the_least_surprising_surprises() -> None:
    scores = masked_rows()
    for mass in (0.05, 0.5, 0.95):
        found = kept(typical_filtered(mx.array(scores.astype(np.float32)), column(*[mass] * 6)))
        for row, mine in zip(scores, found, strict=True):
            chances = softmax(row)
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(chances)
                entropy = -np.nansum(chances * logs)
            order = np.argsort(np.abs(logs + entropy), kind="stable")
            count = int((np.cumsum(chances[order]) - chances[order] < mass).sum())
            assert set(np.flatnonzero(mine)) == set(order[:count][chances[order[:count]] > 0])


def test_typical_may_leave_out_the_most_likely_token() -> None:
    scores = np.log(np.array([[0.4] + [0.1] * 6], dtype=np.float32))
    assert not kept(typical_filtered(mx.array(scores), column(0.5)))[0, 0]


def test_xtc_leaves_of_the_likely_tokens_the_least_likely_where_luck_has_it() -> None:
    scores = mx.array([LADDER] * 4)
    found = kept(
        xtc_filtered(scores, column(0.5, 0.5, 1.0, 1.0), column(0.1, 0.1, 0.3, 0.6), column(0.4, 0.6, 0.9, 0.9))
    )
    assert found.tolist() == [
        [False, False, True, True, True],  # three are above the threshold
        [True] * 5,  # luck
        [True] * 5,  # only one is above
        [True] * 5,  # none is
    ]


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ({"top_n_sigma": 0.8}, {0, 1}),
        ({"top_n_sigma": 0.8, "temperature": 3.0}, {0, 1}),
        ({"xtc_probability": 1.0}, {2, 3, 4}),
        ({"xtc_probability": 1.0, "xtc_threshold": 0.2}, {1, 2, 3, 4}),
        ({"xtc_probability": 0.5, "xtc_threshold": 0.2}, {0, 1, 2, 3, 4}),
        ({"xtc_probability": 1.0, "xtc_threshold": 0.2, "top_k": 3}, {1, 2}),
        ({"typical_p": 0.2}, {1}),
    ],
)
def test_the_sampler_draws_what_the_filters_leave(rules: dict[str, Any], allowed: set[int]) -> None:
    assert set(np.flatnonzero(draws(rules, LADDER)).tolist()) == allowed


def test_xtc_strikes_as_often_as_it_says() -> None:
    """By a seed's own luck, which is none of the noise that chooses."""
    counts = draws({"xtc_probability": 0.3, "xtc_threshold": 0.2}, LADDER, 2000)
    chances = softmax(np.array(LADDER))
    assert counts[0] / 2000 == pytest.approx(0.7 * chances[0], abs=0.04)


@pytest.mark.parametrize("filter", [sigma_filtered, typical_filtered])
def test_a_row_is_filtered_the_same_in_any_company(filter: Callable[[mx.array, mx.array], mx.array]) -> None:
    scores = mx.array(masked_rows().astype(np.float32))
    values = column(0.3, 0.9, 0.5, 0.7, 0.2, 0.4)
    together = np.array(filter(scores, values))
    alone = [np.array(filter(scores[row : row + 1], values[row : row + 1])) for row in range(6)]
    assert np.array_equal(together, np.concatenate(alone))


def test_they_are_off_unless_asked_for() -> None:
    s = Sampling()
    assert (s.typical_p, s.top_n_sigma, s.xtc_probability, s.dry_multiplier) == (1, 0, 0, 0)
