"""`python -m benchmarks traffic`, `prefill` and `steps`, on the smallest model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.cli import app
from benchmarks.tiny import NAME

SHORT = ["--prompt-tokens", "4:40", "--output-tokens", "2:6", "--seconds", "1", "--windows", "1"]


@pytest.mark.slow
@pytest.mark.parametrize("bucketing", [pytest.param("off", marks=pytest.mark.slow), "on"])
def test_the_engine_and_mlx_lm_run_under_the_same_traffic(tmp_path: Path, bucketing: str) -> None:
    file = tmp_path / "found.json"
    arguments = ["traffic", NAME, "--streams", "2", *SHORT, "--mlx-lm", "--shape-buckets", bucketing]
    result = CliRunner().invoke(app, [*arguments, "--json", str(file)])
    assert result.exit_code == 0, result.output
    [ours, theirs] = json.loads(file.read_text())["runs"]
    for run in (ours, theirs["mlx_lm"]):
        [window] = run["windows"]  # a busy machine may say nothing in a second
        assert window["tokens_per_s"] >= 0 and window["longest_gap_s"] >= 0
        assert run["traffic"]["streams"] == 2


@pytest.mark.slow
def test_prompts_are_prefilled_alone_and_together(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    arguments = ["prefill", NAME, "--prompts", "1x50,3x20", "--turns", "1", "--shape-buckets", "on"]
    result = CliRunner().invoke(app, [*arguments, "--json", str(file)])
    assert result.exit_code == 0, result.output
    assert [(count, tokens) for count, tokens, _ in json.loads(file.read_text())["rates"]] == [(1, 50), (3, 20)]


@pytest.mark.slow
def test_decode_steps_are_timed_by_their_rows(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    arguments = ["steps", NAME, "--rows", "1,3", "--prompt-tokens", "20", "--output-tokens", "8", "--turns", "2"]
    result = CliRunner().invoke(app, [*arguments, "--json", str(file)])
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text())["milliseconds"]
    assert {rows: len(times) for rows, times in found.items()} == {"1": 2, "3": 2}
