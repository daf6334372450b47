from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from paceline.bench.memory import Line, measure, memory_table, most
from paceline.bench.offline import Bench
from paceline.cache.budget import Budget


@pytest.mark.parametrize("answer", [0, 1, 7, 63, 64, 100])
@pytest.mark.parametrize("guess", [1, 40, 100])
def test_the_largest_number_that_fits_is_found_from_any_guess(answer: int, guess: int) -> None:
    tried: list[int] = []

    def fits(number: int) -> bool:
        tried.append(number)
        return number <= answer

    assert most(fits, guess, 100) == answer
    assert set(tried) <= set(range(1, 101)) and len(tried) == len(set(tried))


@pytest.mark.slow
def test_rows_are_estimated_and_tried_with_each_number_of_bits(llama: Path) -> None:
    with Bench(str(llama), "padded") as bench:
        weights = bench.model.nbytes
        lines = measure(bench, Budget(weights + 20_000_000), 1024, 64, 32, lambda text: None)
        assert bench.model.language.kv is None
    assert [line.bits for line in lines] == [None, 8, 4]
    assert lines[0].token_bytes > 3 * lines[1].token_bytes > 3 * lines[2].token_bytes
    assert 0 < lines[0].tried < lines[1].tried < lines[2].tried
    assert 0 < lines[0].estimated < lines[1].estimated < lines[2].estimated
    assert all(abs(line.error) <= 0.05 for line in lines), lines


def test_the_table_has_the_error_of_the_estimate() -> None:
    text = io.StringIO()
    lines = [Line(None, 100, 10, 10, 1_000_000, 1_000_000), Line(8, 50, 20, 21, 1_030_000, 1_000_000)]
    Console(file=text, width=100).print(memory_table("memory", lines))
    assert "+3.0%" in text.getvalue() and "2.10" in text.getvalue()
    assert lines[1].figures()["error"] == pytest.approx(0.03)
