from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from benchmarks.cli import app
from benchmarks.trace import InProcess
from paceline.bench.load import Outcome, Recording
from paceline.bench.prompts import Lengths
from paceline.bench.report import report
from paceline.bench.trace import Plan, TraceReport, play
from paceline.service import Service
from paceline.settings import Settings

if TYPE_CHECKING:
    from tests.bench.conftest import Serve
    from tests.conftest import Tiny


@pytest.mark.slow
async def test_a_service_computes_hardly_more_than_every_token_once(tiny: Tiny) -> None:
    plan = Plan(requests=8, streams=4, turns=4, system=300, tools=20, message=Lengths(10, 30), answer=4)
    async with Service(Settings(model=str(tiny("hybrid")), prefill_chunk=64)) as service:
        result = await play(InProcess(service), plan)
        assert result.run.errors == {}
        assert result.computed is not None and result.ideal is not None
        assert result.run.prompt_tokens - (result.run.cached_tokens or 0) == result.computed + plan.requests
        assert 1 <= (result.ratio or 0) < 1.2


def traces(*walls: float) -> list[TraceReport]:
    found = []
    for place, wall in enumerate(walls):
        outcome = Outcome(0.0, wall, None, (wall / 4,), 1000, 5, None if place else 600, "length")
        run = report(Recording(0.0, wall, 0.0, (outcome,)), label=f"server {place}", url="", model="")
        found.append(TraceReport(run, None if place else 400, 320))
    return found


def test_the_command_plays_to_an_address(fake: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    arguments = ["--requests", "3", "--turns", "2", "--system-tokens", "30", "--output-tokens", "2", "--json", "-"]
    result = CliRunner().invoke(app, ["trace", "--url", fake().url, *arguments])
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    assert (document["ok"], document["plan"]["requests"], document["ratio"]) == (3, 3, None)
    assert "3 requests, 8 at a time, scripted answers" in result.stderr
