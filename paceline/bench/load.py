"""The load generator: sends a workload to an address on a schedule and records what every stream did.

Closed loop (`concurrency`): so many requests are always in flight. Open loop (`rate`): requests arrive as a
seeded Poisson process, however slow the server is. No new request starts after `requests` or `duration`;
those in flight end by themselves or by `timeout`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from typing import Any

from paceline.bench.prompts import PATHS, Request, Workload
from paceline.bench.wire import Address, BenchError, Exchange, decode, exchange

Send = Callable[[Request], Coroutine[Any, Any, None]]
PAUSE_AFTER_FAILURE = 0.1  # a server that refuses at once must not be asked ten thousand times a second


@dataclass(frozen=True, slots=True)
class LongPrompt:
    """One extra prompt of `tokens`, sent `at` seconds into the run, to see what the other streams suffer."""

    tokens: int
    at: float

    @classmethod
    def parse(cls, text: str) -> LongPrompt:
        tokens, _, at = text.partition("@")
        try:
            long_prompt = cls(int(tokens), float(at))
        except ValueError:
            long_prompt = cls(0, 0.0)
        if long_prompt.tokens < 1 or not 0 <= long_prompt.at < float("inf"):
            raise BenchError(f"{text!r} is no long prompt: give TOKENS@SECONDS, like 4096@5")
        return long_prompt

    def __str__(self) -> str:
        return f"{self.tokens}@{self.at:g}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When requests start: one of `concurrency` and `rate`, at least one of `requests` and `duration`."""

    concurrency: int | None = 8
    rate: float | None = None
    requests: int | None = None
    duration: float | None = None
    timeout: float = 600.0
    ramp: float = 0.0  # closed loop: seconds over which the first requests are spread
    long_prompt: LongPrompt | None = None

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate is None):
            raise BenchError("Give either a concurrency or a rate, not both.")
        if self.requests is None and self.duration is None:
            raise BenchError("Give a number of requests, a duration, or both: a run has to end.")
        for name in ("concurrency", "rate", "requests", "duration", "timeout"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise BenchError(f"The {name} is {value}: it has to be above 0 and finite.")
        if not 0 <= self.ramp < float("inf"):
            raise BenchError(f"The ramp is {self.ramp}: it has to be 0 or more seconds.")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one stream did. Times are seconds on one clock; only chunks that carry output have one."""

    started: float
    ended: float  # its last event's arrival
    connected: float | None = None
    chunk_times: tuple[float, ...] = ()
    prompt_tokens: int | None = None  # the server's count; None: it sent no usage
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    failure: str | None = None  # connect, timeout, disconnected, malformed, error in stream, http NNN
    message: str = ""
    asked_prompt_tokens: int = 0
    text: str = ""  # what it answered, reasoning left out


@dataclass(frozen=True, slots=True)
class Recording:
    """One run: its streams, in the order in which they ended, and the long prompt's apart."""

    started: float
    ended: float
    client_cpu: float  # seconds of this process
    outcomes: tuple[Outcome, ...]
    long: Outcome | None = None


async def run_load(
    address: Address,
    workload: Workload,
    schedule: Schedule,
    *,
    name: str = "run",
    finished: Callable[[], None] = lambda: None,
) -> Recording:
    """Run once. `name` seeds this run's prompts and arrivals; `finished` is called after each request."""
    path = PATHS[workload.endpoint]
    records: list[tuple[Request, Exchange]] = []

    async def send(request: Request) -> Exchange:
        return await exchange(address, "POST", path, request.body, timeout=schedule.timeout)

    async def send_and_keep(request: Request) -> None:
        record = await send(request)
        records.append((request, record))
        finished()
        if not record.accepted:
            await asyncio.sleep(PAUSE_AFTER_FAILURE)

    long_request = long_record = None
    if schedule.long_prompt is not None:
        long_request = workload.request_of(schedule.long_prompt.tokens, f"{name}/long")
    requests = _requests(workload, schedule, name)
    cpu, started = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        if schedule.concurrency is not None:
            main = group.create_task(_closed_loop(requests, schedule, send_and_keep))
        else:
            main = group.create_task(_open_loop(requests, schedule, send_and_keep, f"{workload.seed}/{name}"))
        if schedule.long_prompt is not None and long_request is not None:
            await asyncio.wait({main}, timeout=schedule.long_prompt.at)
            if not main.done():
                long_record = await send(long_request)
    cpu = time.process_time() - cpu
    exchanges = [record for _, record in records] + ([long_record] if long_record is not None else [])
    return Recording(
        started=started,
        ended=max((record.ended for record in exchanges), default=started),
        client_cpu=cpu,
        outcomes=tuple(read_outcome(record, request) for request, record in records),
        long=read_outcome(long_record, long_request) if long_record is not None else None,
    )


def read_outcome(record: Exchange, request: Request | None = None) -> Outcome:
    """Decode an exchange that was to be a stream of OpenAI chunks."""
    reply = decode(record)
    asked = 0 if request is None else request.prompt_tokens
    outcome = Outcome(record.started, record.ended, record.connected, asked_prompt_tokens=asked)
    if record.failure is not None:
        return replace(outcome, failure=record.failure, message=record.message)
    if reply.status != 200:
        kind = f"http {reply.status}" if reply.status else "disconnected"
        return replace(outcome, failure=kind, message=_error_text(reply.json()) or _shorten(reply.body))

    # What is no data line is empty, or a comment that keeps the connection alive.
    events = [(when, line[5:].strip()) for when, line in reply.lines if line.startswith(b"data:")]
    if not events:
        return replace(outcome, failure="malformed", message=f"no event stream: {_shorten(reply.body)}")
    outcome = replace(outcome, ended=events[-1][0])
    chunk_times: list[float] = []
    usage: dict[str, Any] = {}
    finish_reason: str | None = None
    done = False
    text: list[str] = []
    for when, payload in events:
        if payload == b"[DONE]":
            done = True
            continue
        try:
            chunk = json.loads(payload)
            if "error" in chunk and not chunk.get("choices"):
                return replace(outcome, failure="error in stream", message=_error_text(chunk))
            choices = chunk.get("choices") or []
            usage = chunk.get("usage") or usage
            if any(_carries_output(choice) for choice in choices):
                chunk_times.append(when)
            for choice in choices:
                text.append(choice.get("text") or (choice.get("delta") or {}).get("content") or "")
                finish_reason = choice.get("finish_reason") or finish_reason
        except (ValueError, TypeError, AttributeError):
            return replace(outcome, failure="malformed", message=_shorten(payload))
    if not done and finish_reason is None:
        # HTTP/1.0 marks no end: only the stream itself can say that it is whole.
        message = "the stream ended without a finish_reason or [DONE]"
        return replace(outcome, failure="disconnected", message=message)
    return replace(
        outcome,
        chunk_times=tuple(chunk_times),
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=usage.get("completion_tokens"),
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        finish_reason=finish_reason,
        text="".join(text),
    )


def arrivals(rate: float, seed: str) -> Iterator[float]:
    """When requests of a Poisson process arrive, in seconds from its start; the same for the same seed."""
    chance = random.Random(f"{seed}/arrivals")
    due = 0.0
    while True:
        due += chance.expovariate(rate)
        yield due


async def _closed_loop(requests: Iterator[Request], schedule: Schedule, send: Send) -> None:
    assert schedule.concurrency is not None

    end = time.perf_counter() + schedule.duration if schedule.duration is not None else float("inf")

    streams = min(schedule.concurrency, schedule.requests or schedule.concurrency)

    async def stream(index: int) -> None:
        await asyncio.sleep(schedule.ramp * index / streams)
        while time.perf_counter() < end and (request := next(requests, None)) is not None:
            await send(request)

    async with asyncio.TaskGroup() as group:
        for index in range(streams):
            group.create_task(stream(index))


async def _open_loop(requests: Iterator[Request], schedule: Schedule, send: Send, seed: str) -> None:
    assert schedule.rate is not None
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for due in arrivals(schedule.rate, seed):
            if schedule.duration is not None and due >= schedule.duration:
                break
            if (request := next(requests, None)) is None:
                break
            await asyncio.sleep(max(0.0, started + due - time.perf_counter()))
            group.create_task(send(request))


def _requests(workload: Workload, schedule: Schedule, name: str) -> Iterator[Request]:
    """The run's requests in order. A known number is written here and now, not while the clock runs."""
    if schedule.requests is not None:
        return iter([workload.request(f"{name}/{index}") for index in range(schedule.requests)])
    return (workload.request(f"{name}/{index}") for index in itertools.count())


def _carries_output(choice: dict[str, Any]) -> bool:
    """Not the first chunk's bare role, not the last one's bare finish_reason."""
    delta = choice.get("delta") or {}
    texts = (choice.get("text"), delta.get("content"), delta.get("reasoning"), delta.get("reasoning_content"))
    return any(texts) or bool(delta.get("tool_calls") or delta.get("refusal"))


def _error_text(answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict):
        error = error.get("message", error)
    return _shorten(str(error).encode()) if error else ""


def _shorten(text: bytes, limit: int = 200) -> str:
    line = " ".join(text.decode("utf-8", "replace").split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
