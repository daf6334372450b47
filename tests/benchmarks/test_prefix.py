from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from benchmarks.cli import app
from benchmarks.prefix import Line, PrefixBench, PrefixBenchError, compare, distinct_tails
from paceline.bench.wire import BenchError

if TYPE_CHECKING:
    from tests.conftest import Tiny

# By turn: cold, warm and from disk, and the restore by itself.
LINE = Line(1024, [10.0, 8.0, 12.0], [1.0, 1.0, 2.0], [2.0, 4.0, 2.0], [0.5, 1.0, 0.0], 5_000_000)


def test_ratios_are_those_of_a_turn() -> None:
    assert LINE.warm_ratios == [10.0, 8.0, 6.0]
    assert LINE.disk_ratios == [5.0, 2.0, 6.0]
    figures = LINE.figures()
    assert figures["cold_to_warm"] == {"median": 8.0, "lowest": 6.0}
    assert figures["cold_to_disk"] == {"median": 5.0, "lowest": 2.0}
    assert (figures["cold_s"], figures["warm_s"], figures["disk_s"]) == (10.0, 1.0, 2.0)


def test_the_restore_is_a_share_of_the_prefill_it_stands_for() -> None:
    # The first turn: warm is 0.5 of restoring and 0.5 of tail; cold is 9.5 of prefill and the same tail.
    assert LINE.shares == [0.5 / 9.5, 1.0 / 8.0, 0.0]


def test_tails_have_nothing_in_common() -> None:
    tails = distinct_tails(4, 8, 100)
    assert len({tail[0] for tail in tails}) == 4
    assert {len(tail) for tail in tails} == {8}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["hybrid", "llama"])
def test_a_turn_finds_nothing_then_memory_then_the_disk(tiny: Tiny, tmp_path: Path, family: str) -> None:
    with PrefixBench(str(tiny(family)), tmp_path, prefill_chunk=64) as bench:
        said: list[str] = []
        [first, second] = compare(bench, [96, 160], 2, tail=8, watch=said.append)
        assert bench.cache.memory == 0
        assert bench.disk.stats().write_errors == 0
    for line in (first, second):
        times = line.cold + line.warm + line.disk + line.restore
        assert (len(times), min(times) > 0, line.nbytes > 0) == (8, True, True)
    assert [text for text in said if "cold" in text] == [
        "96 tokens shared, turn 0 of 2, cold",
        "96 tokens shared, turn 1 of 2, cold",
        "96 tokens shared, turn 2 of 2, cold",
        "160 tokens shared, turn 1 of 2, cold",
        "160 tokens shared, turn 2 of 2, cold",
    ]
    assert second.nbytes > first.nbytes


def test_a_turn_that_is_not_what_it_should_be_is_an_error(tiny: Tiny, tmp_path: Path) -> None:
    prompt = tuple(range(1, 80))
    with PrefixBench(str(tiny("hybrid")), tmp_path, prefill_chunk=64) as bench:
        with pytest.raises(PrefixBenchError, match="0 tokens of a prompt came from the cache, not 64"):
            bench.first_token(prompt, 64, 64)
        bench.clear()
        with pytest.raises(PrefixBenchError, match="0 tokens were restored, not 64"):
            bench.restore(prompt, 64)


def test_the_disk_writes_nothing_while_it_is_held(tiny: Tiny, tmp_path: Path) -> None:
    with PrefixBench(str(tiny("hybrid")), tmp_path, prefill_chunk=64) as bench:
        bench.disk.holds = True
        bench.first_token(tuple(range(1, 80)), 64, 0)
        assert bench.disk.stats().entries == 0
        bench.disk.holds = False
        bench.write_all()
        entries = bench.disk.stats().entries
        bench.drop_memory()
        assert (entries, bench.disk.stats().entries) == (2, 2)  # the mark and the prompt's end


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_json(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    arguments = ["--shared", "64", "--turns", "1", "--tail", "8", "--json", "-", "--cache-dir", str(tmp_path)]
    result = CliRunner().invoke(app, ["prefix", str(tiny("hybrid")), *arguments])
    assert result.exit_code == 0, result.output
    [line] = json.loads(result.stdout)["lines"]
    assert (line["shared_tokens"], len(line["turns"]["cold_s"])) == (64, 1)
    for words in ("time to first token, medians of 1 turns", "cold / warm", "from disk", "of its prefill"):
        assert words in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shared", ["", "0", "12,x"])
def test_a_wrong_length_is_named_before_a_model_is_loaded(shared: str) -> None:
    assert isinstance(CliRunner().invoke(app, ["prefix", "--shared", shared]).exception, BenchError)


@pytest.mark.slow
def test_the_measuring_needs_no_command_line_packages() -> None:
    """Machines with an accelerator may have little more than MLX."""
    check = (
        "import sys\nsys.modules |= dict.fromkeys(('pydantic', 'typer', 'rich', 'fastapi'))\nimport benchmarks.prefix"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=120)
