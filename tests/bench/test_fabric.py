from __future__ import annotations

import io
import json
from dataclasses import asdict

from pydantic import TypeAdapter
from rich.console import Console

from paceline.bench.fabric import SIZES, Figures, fabric_tables

ONE = Figures(1, dict.fromkeys(SIZES, 1e-6), {1: 0.004, 8: 0.008}, 0.1)
TWO = Figures(2, dict.fromkeys(SIZES, 5e-5), {1: 0.003, 8: 0.005}, 0.07, 1e-6)


def shown(*found: Figures) -> str:
    written = io.StringIO()
    console = Console(width=160, file=written)
    for table in fabric_tables(found, "tiny"):
        console.print(table)
    return written.getvalue()


def test_figures_survive_a_report() -> None:
    assert TypeAdapter(Figures).validate_json(json.dumps(asdict(TWO))) == TWO


def test_steps_stand_side_by_side_and_one_rank_has_no_collectives() -> None:
    text = shown(ONE, TWO)
    assert "tiny: time of a step, ms" in text
    assert "4.00" in text and "3.00" in text and "70.00" in text
    assert text.count(" 50 ") == len(SIZES)


def test_without_a_model_there_are_only_collectives() -> None:
    assert "time of a step" not in shown(Figures(2, dict.fromkeys(SIZES, 5e-5)))
