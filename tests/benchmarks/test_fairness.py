from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from benchmarks.fairness import FairnessBench, Line, Requests, compare, fairness_table, figures, policies
from paceline.bench.wire import BenchError

if TYPE_CHECKING:
    from tests.conftest import Tiny

LINES = [Line("alone", ((1.0, 1.0), (2.0, 2.0))), Line("fair", ((1.5, 1.5), (3.5, 3.5)), 4)]


def test_ratios_are_those_of_a_turn() -> None:
    assert LINES[1].ratios(LINES[0]) == [1.5, 1.75]
    assert figures(LINES)[1]["p95_to_alone"] == 1.625


def test_the_table_has_ratios_to_alone() -> None:
    console = Console(width=140, record=True)
    console.print(fairness_table("a title", LINES))
    text = console.export_text()
    for words in ("a title", "alone", "beside the hog, fair", "1.75", "1.62"):
        assert words in text


def test_requests_and_policies_are_read_from_text() -> None:
    assert Requests.parse("30,32,8") == Requests(30, 32, 8)
    assert Requests.parse("30,32,8,0.5") == Requests(30, 32, 8, 0.5)
    assert policies("fifo, fair") == ["fifo", "fair"]
    for wrong in ("30", "0,32,8", "30,1,8", "a,b,c", "1,2,3,4,5", "1,2,3,-1"):
        with pytest.raises(BenchError):
            Requests.parse(wrong)
    with pytest.raises(BenchError):
        policies("fair,unfair")


@pytest.mark.slow
def test_every_request_of_the_guest_is_measured_alone_and_beside_the_hog(tiny: Tiny) -> None:
    with FairnessBench(str(tiny("hybrid")), 2, None) as bench:
        lines = compare(bench, Requests(3, 8, 2), Requests(6, 64, 16), ["fair", "fifo"], 1)
        assert bench.engine.core.stats().num_requests_running == 0
    assert [line.name for line in lines] == ["alone", "fair", "fifo"]
    assert all(len(line.turns[0]) == 3 and min(line.turns[0]) > 0 for line in lines)
    assert lines[1].preemptions and not lines[2].preemptions
