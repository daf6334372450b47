"""Which rows a step of the training takes: never too many pictures, and always enough rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("torch", reason="the training model is PyTorch, which Paceline does not need")

from training.batches import Sampler  # noqa: E402


class Rows:
    """A pool of rows with so many pictures each."""

    def __init__(self, **files: list[int]) -> None:
        self.pictures = [count for counts in files.values() for count in counts]
        starts = np.cumsum([0, *map(len, files.values())])
        self.rows = {name: np.arange(starts[at], starts[at + 1]) for at, name in enumerate(files)}

    def held(self, row: int) -> int:
        return self.pictures[row]


@pytest.mark.parametrize("most", [78, 80, 100])
def test_a_step_is_filled_where_no_row_is_without_pictures(most: int) -> None:
    pool = Rows(pics=[9 + at % 3 - at % 2 for at in range(120)])
    sampler = Sampler(pool, 8, most, seed=0)  # type: ignore[arg-type]
    seen: Counter[int] = Counter()
    for _ in range(60):
        rows = sampler.take({"pics": 1.0})
        assert len(rows) == 8
        assert sum(map(pool.held, rows)) <= most
        seen.update(rows.tolist())
    assert len(seen) == 120  # none waits for ever


def test_rows_that_cannot_fit_are_refused() -> None:
    pool = Rows(chat=[0] * 20, pics=[10] * 20)
    sampler = Sampler(pool, 8, 40, seed=0)  # type: ignore[arg-type]
    assert len(sampler.take({"chat": 0.7, "pics": 0.3})) == 8
    with pytest.raises(ValueError, match="56 pictures, more than the plan's 40"):
        sampler.take({"chat": 0.3, "pics": 0.7})
