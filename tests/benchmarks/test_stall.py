from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from benchmarks.stall import Line, Plan, StallBench, compare, stall_table, targets
from paceline.bench.report import Distribution
from paceline.bench.wire import BenchError

if TYPE_CHECKING:
    from tests.conftest import Tiny


def test_targets_are_milliseconds_or_none() -> None:
    assert targets("none,250, 100") == [None, 0.25, 0.1]
    for wrong in ("", "0", "-1", "soon", "inf"):
        with pytest.raises(BenchError):
            targets(wrong)


def test_the_table_says_how_near_the_target_the_slow_gaps_are() -> None:
    gaps = Distribution.of([0.1, 0.2, 0.3])
    assert gaps is not None
    console = Console(width=140, record=True)
    console.print(stall_table("a title", [Line(None, gaps, gaps, 100.0, 256), Line(0.25, gaps, gaps, 50.0, 64)]))
    text = console.export_text()
    for words in ("a title", "none", "250.0 ms", "1.19", "64"):
        assert words in text


@pytest.mark.slow
def test_streams_are_measured_while_prompts_are_read(tiny: Tiny) -> None:
    with StallBench(str(tiny("hybrid"))) as bench:
        lines = compare(bench, [None, 0.05], Plan(2, 1, 512, 10.0))
        assert bench.engine.core.stats().num_requests_running == 0
    assert [line.target for line in lines] == [None, 0.05]
    assert all(line.during.count and line.prompt_tokens_per_s > 0 for line in lines)
    assert lines[1].figures()["target_ms"] == 50.0
