from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.bench.options import numbers, write_json
from paceline.bench.wire import BenchError


def test_numbers_are_separated_by_commas() -> None:
    assert numbers("1,4, 8,") == [1, 4, 8]
    with pytest.raises(BenchError, match="1,4,8"):
        numbers("one")


def test_figures_go_to_a_file_or_to_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(None, {"a": 1})
    write_json(tmp_path / "figures.json", {"a": 1})
    assert json.loads((tmp_path / "figures.json").read_text()) == {"a": 1}
    assert capsys.readouterr().out == ""
    write_json(Path("-"), {"a": 1})
    assert json.loads(capsys.readouterr().out) == {"a": 1}
