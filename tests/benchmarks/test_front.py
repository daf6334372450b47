from __future__ import annotations

import pytest

from benchmarks.front import Result, measure


@pytest.mark.slow
def test_the_bench_reads_every_piece_both_ways_and_prints_what_the_front_adds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = measure(60, 0.002, 2)
    with capsys.disabled():
        print(f"\n{result.line()}")
    assert len(result.direct) == len(result.through) == 3 * 20 * 2
    assert all(late > 0 for late in (*result.direct, *result.through))


def test_what_is_added_is_the_difference_of_medians() -> None:
    assert Result([1.0, 2.0, 3.0], [2.0, 4.0, 9.0]).added == 2.0
