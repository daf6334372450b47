"""The yardsticks themselves."""

from __future__ import annotations

import math

import numpy as np

from training.evaluate import Report
from training.evaluate_ngram import cross_entropy


def test_an_ngram_model_is_sure_of_a_text_that_repeats() -> None:
    text = np.tile(np.arange(10, dtype=np.uint16), 200)
    passages = np.tile(np.arange(10, dtype=np.uint16), (3, 4))
    assert cross_entropy(text, passages, 16) < 0.1


def test_an_ngram_models_probabilities_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    text = rng.integers(0, 8, 500).astype(np.uint16)
    context = rng.integers(0, 8, 6).astype(np.uint16)
    total = sum(
        math.exp(-cross_entropy(text, np.append(context, word).astype(np.uint16)[None], 8, skip=6)) for word in range(8)
    )
    assert abs(total - 1) < 1e-9


def test_noise_costs_as_much_as_noise_does() -> None:
    rng = np.random.default_rng(1)
    text, passages = rng.integers(0, 8, 20_000), rng.integers(0, 8, (20, 50))
    loss = cross_entropy(text.astype(np.uint16), passages.astype(np.uint16), 8, order=3)
    assert abs(loss - math.log(8)) < 0.2


def test_a_report_is_a_table() -> None:
    report = Report()
    report.share("retrieval", [True, False], "0.95")
    assert "| retrieval | 0.500 | 0.95 | 2 |" in report.text()
