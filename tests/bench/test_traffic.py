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
    StepReadings,
    Traffic,
    TrafficBench,
    _Flow,
    parse_speculation,
    together,
    traffic_table,
    window_of,
)
from paceline.bench.wire import BenchError
from paceline.stats import StepTimes

if TYPE_CHECKING:
    from tests.bench.conftest import Serve

SHORT = Traffic(3, Lengths(4, 24), Lengths(3, 12), seconds=0.4, windows=2)


def test_every_window_has_the_figures_of_its_streams(llama: Path) -> None:
    with TrafficBench(str(llama), prefill_chunk=16) as bench:
        first, second = bench.run(SHORT)
    assert first.requests >= SHORT.streams and first.ttft_s is not None
    assert {*first.steps, *second.steps} >= {"decode", "prefill"}
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
    steps = {"decode": StepTimes(1, 0.25)}
    window = window_of([early, late], steps, 2.0, 4.0, fixed=3.0)
    assert (window.tokens_per_s, window.share_of_fixed, window.requests) == (1.5, 0.5, 1)
    assert window.ttft_s is not None and window.ttft_s.p50 == 1.5
    assert window.longest_gap_s == 1.5 and window.steps == steps


def test_answers_without_text_cannot_be_timed() -> None:
    with pytest.raises(BenchError, match="1 of 2 answers had no text"):
        together([Request(0.0, 10, [1.0, 2.0]), Request(0.0, 10)])


def test_a_gap_over_the_end_of_a_window_is_not_lost() -> None:
    stalled = Request(0.0, 10, [0.5, 1.0, 9.0, 9.1])
    windows = [window_of([stalled], {}, start, start + 2.0, fixed=None) for start in (0.0, 2.0, 10.0)]
    assert [window.longest_gap_s for window in windows] == [8.0, 8.0, 0.0]


def test_a_window_has_the_steps_between_the_readings_that_are_nearest_to_its_bounds() -> None:
    later = {"decode": StepTimes(5, 0.5), "prefill": StepTimes(1, 0.25)}
    told = iter([{"decode": StepTimes(2, 0.2)}, later, None])  # then the server is gone
    with StepReadings(lambda: next(told), every=0.0) as readings:
        readings._thread.join()
    (first, _), (second, _) = readings._readings
    assert readings.between(first, second) == {"decode": StepTimes(3, 0.3), "prefill": StepTimes(1, 0.25)}
    assert readings.between(second, second) == {}


def test_a_server_that_does_not_tell_has_no_steps() -> None:
    with StepReadings(lambda: None, every=0.0) as readings:
        pass
    assert readings.between(0.0, 1.0) == {}


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
