from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from benchmarks import specprefill
from benchmarks.cli import app
from benchmarks.specprefill import First, Line
from benchmarks.specprefill_cli import quality_line, quality_table, shares, speed_table
from benchmarks.specprefill_quality import Cell
from paceline.bench.wire import BenchError

if TYPE_CHECKING:
    from rich.table import Table

    from tests.conftest import Tiny

CHUNKS = ["--prefill-chunk", "128", "--draft-chunk", "128"]


@pytest.fixture(autouse=True)
def wide_terminal_and_short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "180")
    monkeypatch.setattr(specprefill, "SETTLED", 0.3)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["specprefill", *arguments])


def shown(table: Table) -> str:
    console = Console(width=180, record=True)
    console.print(table)
    return console.export_text()


def test_what_makes_no_sense_is_refused_before_anything_is_loaded() -> None:
    for arguments in (
        ["--quality", "--streams", "4"],
        ["--streams", "4", "--lengths", "1024"],
        ["--streams", "4", "--turns", "2"],
        ["--quality", "--turns", "2"],
        ["--quality", "--prompt-tokens", "1024"],
        ["--prompts", "3"],
        ["--seed", "0"],
        ["--keep", "0.3,0.2"],
        ["--keep", "0.01"],
        ["--keep", "much"],
        ["--keep", "1.0", "--streams", "4"],
        ["--lengths", "100"],
        ["--lengths", "long"],
    ):
        assert isinstance(run(*arguments).exception, BenchError), arguments
    assert shares("0.5,0.1") == [0.5, 0.1]


@pytest.mark.slow
def test_both_ways_and_the_split_are_printed_and_written(tiny: Tiny) -> None:
    pair = [str(tiny("hybrid")), "--draft-model", str(tiny("hybrid")), *CHUNKS]
    result = run(*pair, "--lengths", "600", "--turns", "1", "--json", "-")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["lines"][0]["prompt_tokens"] == 600 and figures["keep"] == 0.3
    for words in ("full / sparse", "select", "600", "embeddings not counted"):
        assert words in result.stderr


@pytest.mark.slow
def test_streams_are_measured_beside_one_prompt(tiny: Tiny) -> None:
    pair = [str(tiny("hybrid")), "--draft-model", str(tiny("hybrid")), *CHUNKS]
    result = run(*pair, "--streams", "2", "--prompt-tokens", "600", "--json", "-")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["streams"] == 2
    assert "share of their pace that streams keep" in result.stderr


@pytest.mark.slow
def test_answers_are_judged(tiny: Tiny) -> None:
    pair = [str(tiny("llama")), "--draft-model", str(tiny("llama")), *CHUNKS]
    result = run(*pair, "--quality", "--lengths", "700", "--keep", "1.0,0.3", "--prompts", "1")
    assert result.exit_code == 0, result.output
    for words in ("One fact hidden in a text", "A text of facts", "recency", "when read whole"):
        assert words in result.output


def test_tables_say_what_was_measured() -> None:
    line = Line(8192, [First(4.0, 8192)], [First(2.0, 2458, 0.5, 0.001)])
    text = shown(speed_table("a title", [line]))
    for words in ("a title", "8,192", "2,458", "2.00", "1.0 ms"):
        assert words in text
    cells = [
        Cell("notes", 2048, None, 1.0, (True, True)),
        Cell("notes", 2048, "draft", 0.3, (True, True)),
        Cell("notes", 2048, "random", 0.3, (True, False)),
        Cell("notes", 2048, "recency", 0.3, (False, False)),
    ]
    text = shown(quality_table("a title", "notes", cells))
    for words in ("2,048", "0.3", "1.00", "0.50", "0.00"):
        assert words in text
    assert "draft 1.000 (2 of 2), random 0.500 (1 of 2), recency 0.000 (0 of 2)" in quality_line(cells)
    assert "draft -" in quality_line([])
