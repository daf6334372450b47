from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from paceline.bench.load import LongPrompt, Outcome, Recording
from paceline.bench.report import (
    FIGURES,
    SCHEMA,
    Distribution,
    Report,
    as_json,
    ratios,
    report,
    unequal_work,
    value,
)


def stream(started: float, *chunk_times: float, tokens: int | None = None, **more: Any) -> Outcome:
    """A whole stream that ended a second after its last chunk."""
    counts = {} if tokens is None else {"prompt_tokens": 10, "completion_tokens": tokens}
    fields = {"connected": started, "finish_reason": "length", "asked_prompt_tokens": 11, **counts, **more}
    return Outcome(started, chunk_times[-1] + 1, chunk_times=chunk_times, **fields)


def figures(*outcomes: Outcome, long: Outcome | None = None, ended: float = 10.0) -> Report:
    recording = Recording(0.0, ended, client_cpu=0.5, outcomes=outcomes, long=long)
    asked = LongPrompt(4096, 2.0) if long is not None else None
    return report(recording, label="ours", url="http://h", model="m", long_prompt=asked)


def test_percentiles_interpolate_between_neighbours() -> None:
    found = Distribution.of([3.0, 1.0, 2.0, 4.0])
    assert found is not None and (found.count, found.mean, found.max) == (4, 2.5, 4.0)
    assert (found.p50, found.p95, found.p99) == pytest.approx((2.5, 3.85, 3.97))


def test_nothing_has_no_distribution() -> None:
    assert Distribution.of([]) is None
    assert Distribution.of([2.0]) == Distribution(1, 2.0, 2.0, 2.0, 2.0, 2.0)


def test_the_figures_of_a_run_are_those_of_its_definition() -> None:
    run = figures(stream(0.0, 1.0, 1.5, 2.5, tokens=3), stream(1.0, 4.0, 5.0, tokens=2))
    assert run.ttft_s == Distribution.of([1.0, 3.0])
    assert run.chunk_gap_s == run.inter_token_s == Distribution.of([0.5, 1.0, 1.0])
    assert run.end_to_end_s == Distribution.of([3.5, 5.0])
    assert (run.output_tokens, run.prompt_tokens, run.tokens_from) == (5, 20, "usage")
    assert (run.output_tokens_per_s, run.prompt_tokens_per_s, run.requests_per_s) == (0.5, 2.0, 0.2)
    assert (run.wall_s, run.client_cpu_share, run.tokens_per_chunk) == (10.0, 0.05, 1.0)
    assert run.notes == ()


def test_several_tokens_in_a_chunk_divide_its_gap() -> None:
    run = figures(stream(0.0, 1.0, 3.0, tokens=4), stream(0.0, 1.0, 2.0, tokens=2))
    assert run.chunk_gap_s == Distribution.of([2.0, 1.0])
    assert run.inter_token_s == Distribution.of([1.0, 1.0])
    assert run.tokens_per_chunk == 6 / 4


def test_without_usage_tokens_are_chunks_and_the_report_says_so() -> None:
    silent = stream(0.0, 1.0, 2.0)
    run = figures(silent)
    assert (run.output_tokens, run.prompt_tokens, run.tokens_from) == (2, 11, "chunks")
    assert any("no usage" in note for note in run.notes)
    assert figures(silent, stream(0.0, 1.0, tokens=1)).tokens_from == "mixed"


def test_a_failed_stream_counts_as_an_error_and_nowhere_else() -> None:
    failed = [Outcome(0.0, 9.0, failure=kind, message=f"{kind}!") for kind in ("timeout", "connect", "timeout")]
    run = figures(stream(0.0, 1.0, 2.0, tokens=2), *failed)
    assert (run.ok, run.errors) == (1, {"timeout": 2, "connect": 1})
    assert run.error_examples == {"timeout": "timeout!", "connect": "connect!"}
    assert run.end_to_end_s == Distribution.of([3.0])
    assert run.output_tokens == 2


def test_a_run_where_all_failed_has_no_latencies_and_still_is_json() -> None:
    run = figures(Outcome(0.0, 1.0, failure="connect"))
    assert (run.ok, run.ttft_s, run.tokens_per_chunk) == (0, None, None)
    json.dumps(as_json({}, [run]), allow_nan=False)


def test_the_long_prompts_window_has_every_gap_that_overlaps_it() -> None:
    long = stream(2.0, 6.0, 6.5, tokens=2)  # waits from 2 to 6
    before_and_into = stream(0.0, 0.5, 1.5, 3.0, tokens=3)  # only 1.5 to 3.0 overlaps
    across = stream(0.0, 1.0, 9.0, tokens=2)
    after = stream(5.0, 6.0, 7.0, tokens=2)  # begins as the window ends
    run = figures(before_and_into, across, after, long=long)
    assert run.long_prompt is not None
    assert run.long_prompt.chunk_gap_s == Distribution.of([1.5, 8.0])
    assert (run.long_prompt.streams_decoding, run.long_prompt.streams_in_window) == (2, 2)
    assert (run.long_prompt.sent_at_s, run.long_prompt.ttft_s) == (2.0, 4.0)
    assert (run.long_prompt.asked_prompt_tokens, run.long_prompt.prompt_tokens) == (4096, 10)
    assert run.chunk_gap_s is not None
    assert run.chunk_gap_s.count == 4  # without the long prompt's own
    assert run.output_tokens == 3 + 2 + 2 + 2


def test_a_long_prompt_that_failed_has_a_window_to_its_end_and_no_first_token() -> None:
    run = figures(stream(0.0, 1.0, 4.0, tokens=2), long=Outcome(2.0, 3.0, failure="timeout"))
    assert run.long_prompt is not None
    assert (run.long_prompt.failure, run.long_prompt.ttft_s) == ("timeout", None)
    assert run.long_prompt.chunk_gap_s == Distribution.of([3.0])
    assert (run.ok, run.errors) == (1, {})


def test_notes_warn_of_what_makes_figures_mislead() -> None:
    run = figures(
        stream(0.0, 1.0, tokens=1, finish_reason="stop"),
        stream(0.0, 1.5, tokens=1, connected=1.01, cached_tokens=10),
    )
    early, cached, slow = run.notes
    assert early == "1 of 2 streams met an end token before their output length."
    assert cached.startswith("50% of the prompt tokens were cached")
    assert slow.startswith("Connecting took up to 1.01 s")


def test_a_long_prompt_that_came_before_the_streams_decoded_is_noted() -> None:
    decoding, waiting, later = (stream(*times, tokens=2) for times in ((0.0, 1.0, 9.0), (1.0, 3.0, 4.0), (7.0, 8.0)))
    assert figures(decoding, later, long=stream(2.0, 6.0, tokens=1)).notes == ()
    [note] = figures(decoding, waiting, later, long=stream(2.0, 6.0, tokens=1)).notes
    assert note.startswith("1 of 2 streams were decoding when the long prompt was sent")


def test_ratios_are_medians_of_pairs() -> None:
    def run(rate: float, first_token: float) -> Report:
        base = figures(stream(0.0, first_token, first_token + 1, tokens=2))
        return replace(base, output_tokens_per_s=rate)

    ours = [run(10, 1.0), run(30, 1.0), run(20, 1.0)]
    theirs = [run(5, 2.0), run(10, 4.0), run(40, 1.0)]
    found = {ratio.figure.path: ratio for ratio in ratios(ours, theirs)}
    speed = found["output_tokens_per_s"]
    assert (speed.ratios, speed.median) == ((2.0, 3.0, 0.5), 2.0)
    assert (speed.first, speed.second, speed.first_is_ahead) == (20, 10, True)
    wait = found["ttft_s.p50"]
    assert (wait.ratios, wait.median, wait.first_is_ahead) == ((0.5, 0.25, 1.0), 0.5, True)
    assert found["chunk_gap_s.p99"].first_is_ahead is None
    assert "long_prompt.ttft_s" not in found


def test_a_pair_without_a_figure_is_left_out_of_its_ratio() -> None:
    whole, failed = figures(stream(0.0, 1.0, 2.0, tokens=2)), figures(Outcome(0.0, 1.0, failure="connect"))
    found = {ratio.figure.path: ratio for ratio in ratios([whole, whole], [failed, whole])}
    assert found["ttft_s.p50"].ratios == (1.0,)
    assert found["wall_s"].ratios == (1.0, 1.0)


def test_two_servers_that_wrote_different_amounts_are_not_comparable() -> None:
    long, short = figures(stream(0.0, 1.0, tokens=100)), figures(stream(0.0, 1.0, tokens=90))
    assert unequal_work([long], [long]) is None
    warning = unequal_work([long], [replace(short, label="theirs")])
    assert warning is not None
    assert "ours counts 100 output tokens, theirs 90" in warning


def test_every_figure_is_found_in_a_full_report() -> None:
    run = figures(stream(0.0, 1.0, 3.0, tokens=2), long=stream(2.0, 6.0, tokens=1))
    assert [figure.path for figure in FIGURES if value(run, figure) is None] == []


def test_the_json_document_has_its_schema_and_survives_a_round_trip() -> None:
    ours = figures(stream(0.0, 1.0, 3.0, tokens=2))
    theirs = replace(ours, label="theirs")
    compared = ratios([ours, ours], [theirs, theirs])
    document = json.loads(json.dumps(as_json({"pairs": 2}, [ours, theirs, ours, theirs], compared)))
    assert document["schema"] == SCHEMA
    assert document["settings"] == {"pairs": 2}
    assert [run["label"] for run in document["runs"]] == ["ours", "theirs", "ours", "theirs"]
    assert set(document["runs"][0]["ttft_s"]) == {"count", "mean", "p50", "p95", "p99", "max"}
    assert document["compare"]["ratio"] == "ours / theirs"
    assert document["compare"]["figures"]["output_tokens_per_s"] == {
        "first_median": 0.2,
        "second_median": 0.2,
        "ratio_median": 1.0,
        "ratios": [1.0, 1.0],
        "higher_is_better": True,
    }
    assert "compare" not in as_json({}, [ours])
