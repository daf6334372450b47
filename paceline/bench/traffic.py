"""`paceline bench traffic`: N streams of mixed lengths, always in flight, as users send them.

A fixed-shape benchmark hides what changing shapes cost: a batch of another size, a chunk of another width. Here every
stream draws its prompt and output lengths anew for each request. The figures are those of one window of time after
another, so that the cost of shapes that are seen for the first time shows, and as a share of the rate that the same
engine has with N equal sequences.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from rich.table import Table

from paceline.bench.load import Recording, Schedule
from paceline.bench.offline import Bench, random_prompts
from paceline.bench.prompts import Lengths, Workload
from paceline.bench.report import Distribution
from paceline.bench.serve import Target, Watch, record
from paceline.bench.wire import Address, BenchError, call
from paceline.stats import StepTimes
from paceline.types import MAX_DRAFTED, Delta, Sampling, Speculation

READING_SECONDS = 1.0  # between two readings of a server's statistics
FIXED_RUNS = 2  # of equal sequences, after one to warm up


@dataclass(frozen=True, slots=True)
class Traffic:
    streams: int = 8
    prompt_tokens: Lengths = Lengths(64, 1024)
    output_tokens: Lengths = Lengths(32, 256)
    seconds: float = 60.0  # of each window
    windows: int = 3
    speculation: Speculation | None = None  # None: off in the engine; a server decides for itself
    seed: int = 0


@dataclass(slots=True)
class Request:
    sent: float
    prompt_tokens: int
    times: list[float] = field(default_factory=list)  # of its tokens


@dataclass(frozen=True, slots=True)
class Window:
    """Figures of the tokens in one window, and of the requests that were sent in it."""

    tokens_per_s: float
    share_of_fixed: float
    ttft_s: Distribution | None
    inter_token_s: Distribution | None
    longest_gap_s: float
    requests: int
    steps: dict[str, StepTimes]  # by kind; none where a server does not say


class StepReadings:
    """Where the engine's time goes, read from its statistics while a run lasts, in a thread of its own."""

    def __init__(self, read: Callable[[], Mapping[str, StepTimes] | None], every: float) -> None:
        """`read`: None where a server does not say."""
        self._read = read
        self._every = every
        self._readings: list[tuple[float, Mapping[str, StepTimes]]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steps", daemon=True)

    def __enter__(self) -> StepReadings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set() and (times := self._read()) is not None:
            self._readings.append((time.perf_counter(), times))
            self._over.wait(self._every)

    def between(self, start: float, end: float) -> dict[str, StepTimes]:
        """By the readings that were nearest."""
        if not self._readings:
            return {}
        before, after = (min(self._readings, key=lambda each: abs(each[0] - moment))[1] for moment in (start, end))
        found = {}
        for kind, times in after.items():
            earlier = before.get(kind, StepTimes())
            if times.steps > earlier.steps:
                found[kind] = StepTimes(times.steps - earlier.steps, round(times.seconds - earlier.seconds, 3))
        return found


class TrafficBench(Bench):
    def fixed_rate(self, traffic: Traffic) -> float:
        """Tokens per second of as many equal sequences, of mean length."""
        prompts = random_prompts(
            traffic.streams, traffic.prompt_tokens.mean, self.model.language.vocab_size, traffic.seed
        )
        runs = [
            self.engine_run(prompts, traffic.output_tokens.mean, traffic.speculation or "off")[0]
            for _ in range(FIXED_RUNS + 1)
        ]
        return max(run.rate() for run in runs[1:])

    def run(self, traffic: Traffic) -> list[Window]:
        longest, context = traffic.prompt_tokens.high + traffic.output_tokens.high, self.model.context_length
        if longest > context:
            raise BenchError(f"Prompts and answers have up to {longest} tokens, the model's context has {context}.")
        fixed = self.fixed_rate(traffic)
        flow = _Flow(self, traffic)
        with StepReadings(self.engine.core.monitor.step_times, _reading_seconds(traffic)) as readings:
            began = flow.run()
        windows = []
        for number in range(traffic.windows):
            start = began + number * traffic.seconds
            steps = readings.between(start, start + traffic.seconds)
            windows.append(window_of(flow.requests, steps, start, start + traffic.seconds, fixed))
        return windows


class _Flow:
    """Keeps the streams going: the end of a request submits its stream's next, on the engine's thread."""

    def __init__(self, engine: TrafficBench, traffic: Traffic) -> None:
        self.bench = engine
        self.traffic = traffic
        self.requests: list[Request] = []
        self.failures: list[str] = []
        self._chances = [random.Random(f"{traffic.seed}/{stream}") for stream in range(traffic.streams)]
        self._end = 0.0
        self._open = traffic.streams
        self._done = threading.Event()

    def run(self) -> float:
        """Returns when it began. Streams that are open at the end are finished, and counted in no window."""
        began = time.perf_counter()
        self._end = began + self.traffic.seconds * self.traffic.windows
        for stream in range(self.traffic.streams):
            self._submit(stream)
        self._done.wait()
        if self.failures:
            raise BenchError(f"{len(self.failures)} requests failed: {self.failures[0]}")
        return began

    def _submit(self, stream: int) -> None:
        chance, traffic = self._chances[stream], self.traffic
        tokens = traffic.output_tokens.draw(chance)
        vocab = self.bench.model.language.vocab_size
        [prompt] = random_prompts(1, traffic.prompt_tokens.draw(chance), vocab, chance.randrange(1 << 32))
        sampling = Sampling(temperature=0, max_tokens=tokens, ignore_eos=True, speculation=traffic.speculation or "off")
        request = Request(time.perf_counter(), len(prompt))
        self.requests.append(request)

        def sink(delta: Delta) -> None:
            request.times += [time.perf_counter()] * len(delta.token_ids)
            if delta.error is not None:
                self.failures.append(delta.error)
            if delta.finish_reason is not None:
                if time.perf_counter() < self._end and not self.failures:
                    self._submit(stream)
                else:
                    self._open -= 1
                    if not self._open:
                        self._done.set()

        name = f"{stream}-{len(self.requests)}"
        self.bench.engine.submit(self.bench.sequence(name, prompt, sampling, sink))


def window_of(
    requests: list[Request], steps: Mapping[str, StepTimes], start: float, end: float, fixed: float | None
) -> Window:
    """The figures of what happened from `start` to `end`; `fixed`: the rate of equal sequences, if it is known."""
    tokens = sum(start <= moment < end for request in requests for moment in request.times)
    pairs = [pair for request in requests for pair in pairwise(request.times)]
    gaps = [after - before for before, after in pairs if start <= after < end]
    sent = [request for request in requests if start <= request.sent < end and request.times]
    rate = tokens / (end - start)
    return Window(
        tokens_per_s=rate,
        share_of_fixed=rate / fixed if fixed else 0.0,
        ttft_s=Distribution.of(request.times[0] - request.sent for request in sent),
        inter_token_s=Distribution.of(gaps),
        # One that is still open at the end counts here too: it may be the stall of this window.
        longest_gap_s=max((after - before for before, after in pairs if before < end and after >= start), default=0.0),
        requests=len(sent),
        steps=dict(steps),
    )


def parse_speculation(text: str | None) -> Speculation | None:
    match text:
        case None | "off" | "auto":
            return text
    if text.isdecimal() and 1 <= int(text) <= MAX_DRAFTED:
        return int(text)
    raise BenchError(f"--speculation is {text!r}: give off, auto or 1 to {MAX_DRAFTED}.")


async def served(target: Target, traffic: Traffic, timeout: float, watch: Watch) -> list[Window]:
    """The same traffic against a server, over HTTP."""
    prompt, output = traffic.prompt_tokens.mean, traffic.output_tokens.mean
    fixed = Workload(
        model="",
        prompt_tokens=Lengths(prompt, prompt),
        output_tokens=Lengths(output, output),
        seed=traffic.seed,
        extra={} if traffic.speculation is None else {"speculation": traffic.speculation},
    )
    mixed = replace(fixed, prompt_tokens=traffic.prompt_tokens, output_tokens=traffic.output_tokens)
    wave = Schedule(concurrency=traffic.streams, requests=traffic.streams, timeout=timeout)
    waves = [
        _requests(await record(target, fixed, wave, f"equal lengths {turn}", watch)) for turn in range(FIXED_RUNS + 1)
    ]
    equal = max(together(requests) for requests in waves[1:])
    flow = replace(wave, requests=None, duration=traffic.seconds * traffic.windows)
    with StepReadings(lambda: _told_steps(target.address, timeout), _reading_seconds(traffic)) as readings:
        recording = await record(target, mixed, flow, "mixed lengths", watch)
    requests = _requests(recording)
    bounds = [recording.started + number * traffic.seconds for number in range(traffic.windows + 1)]
    return [window_of(requests, readings.between(*window), *window, equal) for window in pairwise(bounds)]


def _told_steps(address: Address, timeout: float) -> Mapping[str, StepTimes] | None:
    """What a server of ours with one model says; None: it is another."""
    try:
        status = asyncio.run(call(address, "GET", "/v1/status", timeout=timeout)).json()
        return {kind: StepTimes(**times) for kind, times in status["step_times"].items()}
    except (BenchError, TypeError, KeyError, AttributeError):
        return None


def _reading_seconds(traffic: Traffic) -> float:
    return min(traffic.seconds / 8, READING_SECONDS)


def _requests(recording: Recording) -> list[Request]:
    """A chunk may carry several tokens: they are spread evenly over the chunks."""
    if failures := [outcome for outcome in recording.outcomes if outcome.failure is not None]:
        first = failures[0]
        raise BenchError(f"{len(failures)} requests failed: {first.failure}: {first.message}")
    requests = []
    for outcome in recording.outcomes:
        chunks, tokens = outcome.chunk_times, outcome.completion_tokens or len(outcome.chunk_times)
        times = [chunks[token * len(chunks) // tokens] for token in range(tokens)] if chunks else []
        requests.append(Request(outcome.started, outcome.asked_prompt_tokens, times))
    return requests


def together(requests: list[Request]) -> float:
    """Tokens per second while all of them decode."""
    if silent := sum(not request.times for request in requests):
        raise BenchError(f"{silent} of {len(requests)} answers had no text, so there is nothing to time.")
    start = max(request.times[0] for request in requests)
    end = min(request.times[-1] for request in requests)
    tokens = sum(start < moment <= end for request in requests for moment in request.times)
    return tokens / (end - start) if end > start else 0.0


def traffic_table(title: str, windows: list[Window]) -> Table:
    """A column for each window."""
    table = Table(title=title)
    table.add_column("window")
    for number in range(1, len(windows) + 1):
        table.add_column(str(number), justify="right")
    table.add_row("output tokens per second", *(f"{window.tokens_per_s:.1f}" for window in windows))
    table.add_row("share of the rate of equal sequences", *(f"{window.share_of_fixed:.2f}" for window in windows))
    for name, figure in (("time to first token", "ttft_s"), ("inter-token latency", "inter_token_s")):
        found = [getattr(window, figure) for window in windows]
        for point in ("p50", "p95", "p99"):
            cells = ("-" if each is None else f"{1e3 * getattr(each, point):.0f} ms" for each in found)
            table.add_row(f"{name}, {point}", *cells)
    table.add_row("longest gap", *(f"{1e3 * window.longest_gap_s:.0f} ms" for window in windows))
    table.add_row("requests", *(str(window.requests) for window in windows))
    for kind in sorted({kind for window in windows for kind in window.steps}):
        table.add_row(f"time in steps (steps): {kind}", *(_share(window, kind) for window in windows))
    return table


def _share(window: Window, kind: str) -> str:
    total = sum(times.seconds for times in window.steps.values()) or 1.0
    times = window.steps.get(kind, StepTimes())
    return f"{times.seconds / total:.0%} ({times.steps})"


def figures(traffic: Traffic, windows: list[Window]) -> dict[str, Any]:
    return {"traffic": asdict(traffic), "windows": [asdict(window) for window in windows]}
