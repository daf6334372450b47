from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from benchmarks.cli import app, main


def test_every_bench_is_listed() -> None:
    listed = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "160"}).output
    for name in (
        *("offline", "layout", "speculate", "prefix", "trace"),
        *("overload", "fairness", "stall", "specprefill", "lora", "kv"),
    ):
        assert name in listed


def test_an_error_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "offline", "--rows", "one"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err == "benchmarks: error: 'one' is no list of numbers like 1,4,8.\n"


def test_the_command_line_imports_nothing_heavy() -> None:
    check = (
        "import sys, benchmarks.cli\nassert not {'mlx', 'mlx_lm', 'h11', 'PIL', 'numpy', 'asyncio'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=240)
