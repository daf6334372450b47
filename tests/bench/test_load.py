from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import h11
import pytest

from paceline.bench.load import LongPrompt, Outcome, Schedule, arrivals, read_outcome, run_load
from paceline.bench.prompts import Calibration, Lengths, Request, Workload
from paceline.bench.report import report
from paceline.bench.wire import Address, BenchError, Exchange
from tests.waiting import WAIT

if TYPE_CHECKING:
    from tests.bench.conftest import Reply, Serve

WORKLOAD = Workload(
    "fake", prompt_tokens=Lengths(25, 25), output_tokens=Lengths(3, 3), calibration=Calibration(2.0, 5.0)
)
LONG = 205


def read(*events: Any, status: int = 200, done: bool = True) -> Outcome:
    """The outcome of a stream whose events arrive at 1, 2, 3, ... seconds; text is sent as it is."""
    connection = h11.Connection(our_role=h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("Host", "h"), ("Connection", "close")]))
    connection.send(h11.EndOfMessage())
    lines = [event if isinstance(event, str) else f"data: {json.dumps(event)}" for event in events]
    lines += ["data: [DONE]"] * done
    pieces = [f"{line}\n\n".encode() for line in lines]
    pieces[0] = f"HTTP/1.0 {status} OK\r\n\r\n".encode() + pieces[0]
    times = [float(second) for second, _ in enumerate(pieces, 1)]
    record = Exchange(connection, 0.0, 0.25, times, pieces, len(pieces) + 1.0)
    return read_outcome(record, Request(b"", 25, 3))


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": fields, "finish_reason": finish_reason}]}


def test_only_chunks_with_output_are_timed() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    outcome = read(
        delta(role="assistant", content=""),
        ": keepalive 1/2",
        delta(content="one"),
        delta(reasoning="two"),
        delta(content=""),
        delta(tool_calls=[{"index": 0}]),
        delta("length"),
        {"choices": [], "usage": usage},
    )
    assert outcome.chunk_times == (3.0, 4.0, 6.0)
    assert (outcome.started, outcome.connected, outcome.ended) == (0.0, 0.25, 9.0)
    assert (outcome.prompt_tokens, outcome.completion_tokens, outcome.cached_tokens) == (9, 3, 4)
    assert (outcome.finish_reason, outcome.failure) == ("length", None)


def test_completions_and_a_missing_done_are_understood() -> None:
    last = {"choices": [{"text": "b", "finish_reason": "stop"}], "usage": None}
    outcome = read({"choices": [{"text": "a"}]}, last, done=False)
    assert outcome.chunk_times == (1.0, 2.0)
    assert (outcome.finish_reason, outcome.failure, outcome.completion_tokens) == ("stop", None, None)


@pytest.mark.parametrize(
    ("events", "options", "failure", "message"),
    [
        ([delta(content="a")], {"done": False}, "disconnected", "without a finish_reason"),
        ([delta(content="a"), {"error": {"message": "row failed"}}], {}, "error in stream", "row failed"),
        ([delta(content="a"), "data: {nonsense"], {}, "malformed", "{nonsense"),
        (["data: [1]"], {}, "malformed", "[1]"),
        (["<html>hello"], {"done": False}, "malformed", "no event stream: <html>hello"),
        (['{"error": "too many"}'], {"status": 429, "done": False}, "http 429", "too many"),
        (["Bad   Gateway"], {"status": 502, "done": False}, "http 502", "Bad Gateway"),
    ],
)
def test_a_failed_stream_says_how_and_has_no_figures(
    events: list[Any], options: dict[str, Any], failure: str, message: str
) -> None:
    outcome = read(*events, **options)
    assert outcome.failure == failure
    assert message in outcome.message
    assert outcome.chunk_times == ()


@pytest.mark.parametrize(("requests", "concurrency"), [(12, 3), (2, 5), (1, 1)])
async def test_so_many_requests_are_in_flight_and_so_many_are_sent(
    fake: Serve, requests: int, concurrency: int
) -> None:
    together = min(requests, concurrency)
    gathered = asyncio.Event()

    async def script(reply: Reply) -> None:
        if server.in_flight == together:
            gathered.set()
        await asyncio.wait_for(gathered.wait(), WAIT)  # nobody is answered before all are there
        await reply.stream()

    server = fake(script)
    finished: list[None] = []
    recording = await run_load(
        Address.parse(server.url),
        WORKLOAD,
        Schedule(concurrency=concurrency, requests=requests, timeout=WAIT),
        finished=lambda: finished.append(None),
    )
    assert server.most_in_flight == together
    assert len(recording.outcomes) == len(server.bodies) == len(finished) == requests
    assert len({body["messages"][0]["content"] for body in server.bodies}) == requests
    assert {(o.failure, o.prompt_tokens, o.completion_tokens) for o in recording.outcomes} == {(None, 25, 3)}
    assert all(len(outcome.chunk_times) == 3 for outcome in recording.outcomes)


async def test_a_duration_ends_the_run_without_cutting_streams(fake: Serve) -> None:
    server = fake()
    recording = await run_load(Address.parse(server.url), WORKLOAD, Schedule(concurrency=2, duration=0.3, timeout=WAIT))
    assert recording.outcomes
    assert {outcome.failure for outcome in recording.outcomes} == {None}
    assert len(server.bodies) == len(recording.outcomes)


async def test_a_rate_sends_all_requests_however_slow_the_server_is(fake: Serve) -> None:
    everyone = asyncio.Event()

    async def script(reply: Reply) -> None:
        if server.in_flight == 6:
            everyone.set()
        await asyncio.wait_for(everyone.wait(), WAIT)  # a closed loop would never get here
        await reply.stream()

    server = fake(script)
    schedule = Schedule(concurrency=None, rate=200, requests=6, timeout=WAIT)
    recording = await run_load(Address.parse(server.url), WORKLOAD, schedule)
    assert [outcome.failure for outcome in recording.outcomes] == [None] * 6


def test_arrivals_are_seeded_and_come_at_their_rate() -> None:
    times = list(islice(arrivals(4.0, "a"), 4000))
    assert times == list(islice(arrivals(4.0, "a"), 4000))
    assert times != list(islice(arrivals(4.0, "b"), 4000))
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert sum(gaps) / len(gaps) == pytest.approx(1 / 4, rel=0.1)
    assert min(gaps) >= 0


@pytest.mark.slow
async def test_failures_are_told_apart_and_leave_the_others_alone(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        kind = server.bodies.index(reply.body) % 5
        if kind == 0:
            await reply.answer(500, {"error": {"message": "boom"}})
        elif kind == 1:
            await reply.output()
            reply.cut()
        elif kind == 2:
            await reply.output()
            await asyncio.sleep(60)
        elif kind == 3:
            await reply.output()
            await reply.event({"error": {"message": "row failed"}})
        else:
            await reply.stream()

    server = fake(script)
    schedule = Schedule(concurrency=10, requests=10, timeout=5)
    recording = await run_load(Address.parse(server.url), WORKLOAD, schedule)
    kinds = Counter(outcome.failure for outcome in recording.outcomes)
    assert kinds == {"http 500": 2, "disconnected": 2, "timeout": 2, "error in stream": 2, None: 2}


async def test_a_long_prompt_is_measured_apart_with_what_the_others_suffered(fake: Serve) -> None:
    streaming, long_answered = asyncio.Event(), asyncio.Event()

    async def script(reply: Reply) -> None:
        if reply.prompt_tokens == LONG:
            await asyncio.wait_for(streaming.wait(), WAIT)
            await asyncio.sleep(0.4)  # nobody gets a token meanwhile
            await reply.output()
            long_answered.set()
            await reply.end(1)
            return
        await reply.output("before ")
        await reply.output("before ")
        if server.in_flight >= 2:
            streaming.set()
        await asyncio.wait_for(long_answered.wait(), WAIT)
        await reply.output("after ")
        await reply.end(3)

    server = fake(script)
    asked = LongPrompt(LONG, at=0.3)
    schedule = Schedule(concurrency=2, requests=2, timeout=WAIT, long_prompt=asked)
    recording = await run_load(Address.parse(server.url), WORKLOAD, schedule)
    assert len(recording.outcomes) == 2
    assert recording.long is not None
    assert recording.long.prompt_tokens == LONG

    figures = report(recording, label="fake", url=server.url, model="fake", long_prompt=asked)
    assert figures.long_prompt is not None
    assert figures.long_prompt.sent_at_s >= asked.at
    assert figures.long_prompt.streams_in_window == 2
    window = figures.long_prompt.chunk_gap_s
    assert figures.chunk_gap_s is not None
    assert window is not None
    assert 2 <= window.count <= figures.chunk_gap_s.count == 4
    assert window.max == figures.chunk_gap_s.max > 0
    assert figures.output_tokens == 3 + 3 + 1


async def test_a_run_that_ends_before_its_long_prompt_says_so(fake: Serve) -> None:
    asked = LongPrompt(LONG, at=60)
    schedule = Schedule(concurrency=1, requests=1, timeout=WAIT, long_prompt=asked)
    server = fake()
    recording = await run_load(Address.parse(server.url), WORKLOAD, schedule)
    assert recording.long is None
    assert len(server.bodies) == 1
    figures = report(recording, label="fake", url=server.url, model="fake", long_prompt=asked)
    assert figures.long_prompt is None
    assert any("not sent" in note for note in figures.notes)


@pytest.mark.parametrize(("text", "expected"), [("4096@5", LongPrompt(4096, 5.0)), ("1@0", LongPrompt(1, 0.0))])
def test_a_long_prompt_is_tokens_at_seconds(text: str, expected: LongPrompt) -> None:
    assert LongPrompt.parse(text) == expected


@pytest.mark.parametrize("text", ["", "4096", "@5", "0@1", "5@-1", "5@inf", "5@nan", "a@b"])
def test_what_is_no_long_prompt_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BenchError, match="4096@5"):
        LongPrompt.parse(text)


@pytest.mark.parametrize(
    "settings",
    [
        {"requests": 1, "rate": 1.0},
        {"requests": 1, "concurrency": None},
        {},
        {"requests": 0},
        {"duration": float("inf")},
        {"requests": 1, "timeout": -1},
        {"requests": 1, "ramp": -1},
        {"concurrency": None, "requests": 1, "rate": float("nan")},
    ],
)
def test_a_schedule_that_never_starts_or_ends_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(BenchError):
        Schedule(**settings)
