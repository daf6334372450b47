from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import specprefill
from benchmarks.specprefill import (
    Beside,
    First,
    Line,
    SparseBench,
    about,
    beside_streams,
    longest_gap,
    rate,
    whole_run,
)
from paceline.bench.offline import Trace

if TYPE_CHECKING:
    from tests.conftest import Tiny

MISSING = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pydantic", "typer", "fastapi"):
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
import benchmarks.specprefill
"""


@pytest.mark.slow
def test_the_measuring_part_needs_neither_pydantic_nor_typer() -> None:
    subprocess.run([sys.executable, "-c", MISSING], check=True, timeout=120)


def test_a_lines_figures_are_medians_and_its_ratios_those_of_a_turn() -> None:
    line = Line(1000, [First(4.0, 1000), First(6.0, 1000)], [First(2.0, 300, 0.5, 0.1), First(2.0, 320, 0.7, 0.1)])
    said = line.figures()
    assert (line.ratios, said["full_over_sparse"], said["kept_tokens"]) == ([2.0, 3.0], 2.5, 310)
    assert said["draft_s"] + said["select_s"] + said["target_s"] == pytest.approx(said["sparse_s"])
    assert "310 kept: full 5.000 s, sparse 2.000 s" in line.text()


def test_tokens_and_gaps_are_those_of_the_time_that_is_asked_for() -> None:
    trace = Trace()
    trace.times = {0: [0.0, 1.0, 2.0, 5.0, 5.5], 1: [0.5, 1.5, 2.5]}
    assert rate(trace, 1.0, 2.0) == 2.0
    assert longest_gap(trace, 0.0, 2.0) == 1.0
    assert longest_gap(trace, 3.0, 4.0) == 3.0  # the gap that spans it
    assert longest_gap(trace, 6.0, 7.0) == 1.0  # nobody said anything


@pytest.mark.slow
def test_sparse_and_full_prefill_are_timed_in_turns(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specprefill, "SETTLED", 0.3)
    with SparseBench(str(tiny("hybrid")), str(tiny("hybrid")), prefill_chunk=128, draft_chunk=128) as bench:
        lines = whole_run(bench, [600, 700], 0.4, 1)
        found = beside_streams(bench, 2, 700, 0.4)
        assert bench.engine.core.stats().num_requests_running == 0
        assert about(bench)["draft_chunk"] == 128
        assert bench.sparse.counts.outcomes["sparse"] == 1 + 2 + 2
    assert [line.length for line in lines] == [600, 700]
    for line in lines:
        assert all(first.kept == line.length and not first.draft for first in line.full)
        for first in line.sparse:
            assert 0.4 * line.length <= first.kept <= 0.4 * line.length + 32
            assert first.draft > 0 and first.select > 0 and first.target > 0
    assert 280 <= found.kept <= 280 + 32
    assert found.chunks >= 700 // 128 and 0 < found.chunk <= found.first_among
    assert found.beside > 0 and found.alone > 0 and found.first_alone > 0
    assert found.figures()["share_kept"] == found.beside / found.alone


def test_what_streams_keep_is_their_pace_with_the_prompt_over_that_without() -> None:
    found = Beside(4, 32768, 9830, 100.0, 75.0, 0.02, 0.3, 0.25, 40, 10.0, 30.0)
    assert found.share == 0.75
    said = dict(found.lines())
    assert said["longest of 40 chunks of side work"] == "250.0 ms"
    assert said["longest gap, less that chunk"] == "50.0 ms"
