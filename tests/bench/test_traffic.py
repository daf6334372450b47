from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from paceline.bench.cli import app
from paceline.bench.prompts import Lengths
from paceline.bench.traffic import (
    Request,
    StepClock,
    Traffic,
    TrafficBench,
    _Flow,
    parse_speculation,
    traffic_table,
    window_of,
)
from paceline.bench.wire import BenchError

if TYPE_CHECKING:
    from tests.bench.conftest import Serve

SHORT = Traffic(3, Lengths(4, 24), Lengths(3, 12), seconds=0.4, windows=2)


def test_every_window_has_the_figures_of_its_streams(llama: Path) -> None:
    with TrafficBench(str(llama), prefill_chunk=16) as bench:
        first, second = bench.run(SHORT)
    assert first.requests >= SHORT.streams and first.ttft_s is not None
    assert {kind for _, kind, _ in bench.clock.steps} >= {"decode, known shape", "prefill, new shape"}
    assert len(traffic_table("traffic", [first, second]).columns) == 3


def test_lengths_beyond_the_context_are_refused_before_anything_is_measured(llama: Path) -> None:
    with TrafficBench(str(llama)) as bench:
        context = bench.model.context_length
        with pytest.raises(BenchError, match=f"context has {context}"):
            bench.run(Traffic(1, Lengths(4, context), Lengths(3, 12), seconds=0.4, windows=1))


def test_the_same_seed_sends_the_same_requests(llama: Path) -> None:
    with TrafficBench(str(llama), prefill_chunk=16) as bench:
        flows = [_Flow(bench, SHORT), _Flow(bench, SHORT)]
        for flow in flows:
            flow.run()
    first, second = ([request.prompt_tokens for request in flow.requests[: SHORT.streams]] for flow in flows)
    assert first == second and len(set(first)) > 1


def test_a_window_counts_tokens_by_their_time_and_requests_by_their_start() -> None:
    early, late = Request(0.5, 10, [1.0, 2.5, 3.0]), Request(2.0, 10, [3.5])
    steps = [(1.0, "decode, new shape", 0.5), (2.5, "decode, known shape", 0.25), (4.5, "decode, known shape", 9.0)]
    window = window_of([early, late], steps, 2.0, 4.0, fixed=3.0)
    assert (window.tokens_per_s, window.share_of_fixed, window.requests) == (1.5, 0.5, 1)
    assert window.ttft_s is not None and window.ttft_s.p50 == 1.5
    assert window.longest_gap_s == 1.5 and window.step_seconds == {"decode, known shape": 0.25}
    assert window.step_counts == {"decode, known shape": 1}


def test_a_gap_over_the_end_of_a_window_is_not_lost() -> None:
    stalled = Request(0.0, 10, [0.5, 1.0, 9.0, 9.1])
    windows = [window_of([stalled], [], start, start + 2.0, fixed=None) for start in (0.0, 2.0, 10.0)]
    assert [window.longest_gap_s for window in windows] == [8.0, 8.0, 0.0]


def test_the_pause_before_a_step_is_nobodys() -> None:
    class Core:
        in_flight = None

    clock = StepClock()
    clock.tick(Core())  # type: ignore[arg-type]
    clock.tick(Core())  # type: ignore[arg-type]
    assert clock.steps == []


def test_a_server_has_the_same_traffic(fake: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lengths = ["--prompt-tokens", "20:60", "--output-tokens", "3:6"]
    load = ["--streams", "2", "--seconds", "0.3", "--windows", "2", *lengths, "--json", "-"]
    result = CliRunner().invoke(app, ["traffic", "--url", fake().url, *load])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert len(document["windows"]) == 2 and document["traffic"]["streams"] == 2


@pytest.mark.parametrize("arguments", [("--speculation", "deep"), ("--speculation", "9"), ("--api-key", "k")])
def test_what_cannot_be_honoured_is_refused(arguments: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["traffic", *arguments])
    assert isinstance(result.exception, BenchError) and arguments[0] in str(result.exception)


@pytest.mark.parametrize(("text", "meant"), [(None, None), ("off", "off"), ("auto", "auto"), ("3", 3)])
def test_speculation_is_read(text: str | None, meant: object) -> None:
    assert parse_speculation(text) == meant
