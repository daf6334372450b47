from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from paceline.bench.cli import app
from paceline.bench.prompts import Lengths
from paceline.bench.traffic import Request, StepClock, Traffic, TrafficBench, _window, traffic_table

if TYPE_CHECKING:
    from tests.bench.conftest import Serve

SHORT = Traffic(3, Lengths(4, 24), Lengths(3, 12), seconds=0.4, windows=2)


def test_every_window_has_the_figures_of_a_stream(llama: Path) -> None:
    with TrafficBench(str(llama), prefill_chunk=16) as bench:
        windows = bench.run(SHORT)
    assert len(windows) == 2 and all(window.tokens_per_s > 0 and window.requests for window in windows)
    for window in windows:
        assert window.ttft_s is not None and window.inter_token_s is not None
        assert window.longest_gap_s >= window.inter_token_s.p99
        assert window.share_of_fixed > 0
        assert sum(window.step_seconds.values()) <= 1.5 * SHORT.seconds
    kinds = {kind for window in windows for kind in window.step_seconds}
    assert {"decode, known shape", "prefill, new shape"} <= kinds
    assert len(traffic_table("traffic", windows).columns) == 1 + len(windows)


def test_the_same_seed_sends_the_same_requests(llama: Path) -> None:
    with TrafficBench(str(llama), prefill_chunk=16) as bench:
        lengths = []
        for _ in range(2):
            bench.run(SHORT)
            lengths.append([len(seq) for seq in bench.sent[: SHORT.streams]])
            bench.sent.clear()
    assert lengths[0] == lengths[1] and len(set(lengths[0])) > 1


def test_a_window_counts_tokens_by_their_time_and_requests_by_their_start() -> None:
    early, late = Request(sent=0.5, times=[1.0, 2.5, 3.0]), Request(sent=2.0, times=[3.5])
    steps = [(1.0, "decode, new shape", 0.5), (2.5, "decode, known shape", 0.25), (4.5, "decode, known shape", 9.0)]
    window = _window([early, late], steps, 2.0, 4.0, fixed=3.0)
    assert (window.tokens_per_s, window.share_of_fixed, window.requests) == (1.5, 0.5, 1)
    assert window.ttft_s is not None and window.ttft_s.p50 == 1.5
    assert window.longest_gap_s == 1.5 and window.step_seconds == {"decode, known shape": 0.25}


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


def test_a_strange_speculation_is_refused() -> None:
    result = CliRunner().invoke(app, ["traffic", "--speculation", "deep"])
    assert result.exit_code != 0
