"""A whole `paceline bench serve`: look at the servers, warm them up, run, in pairs where there are two."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paceline.bench.load import Outcome, Recording, Schedule, read_outcome, run_load
from paceline.bench.prompts import PATHS, Calibration, Workload
from paceline.bench.report import Report, report
from paceline.bench.wire import Address, BenchError, Reply, call, exchange

Watch = Callable[[str], Callable[[], None]]  # takes a run's title, gives what to call after each request


@dataclass(frozen=True, slots=True)
class Target:
    label: str
    address: Address
    model: str | None = None  # None: the first that the server lists


@dataclass(frozen=True, slots=True)
class _Ready:
    target: Target
    workload: Workload
    notes: tuple[str, ...]


async def bench(
    targets: Sequence[Target],
    workload: Workload,
    schedule: Schedule,
    *,
    pairs: int = 1,
    warmup: int = 0,
    watch: Watch = lambda title: lambda: None,
) -> list[list[Report]]:
    """Reports by target, then by round.

    Servers see the same prompts in the same round, and no server sees a prompt twice: none may find in a
    cache what it should compute. A server that is compared with itself gets prompts of its own each time.
    """
    ready = [await _prepare(target, workload, schedule) for target in targets]
    # One calibration for all, so that all are sent the same text.
    calibration = ready[0].workload.calibration
    ready = [replace(one, workload=replace(one.workload, calibration=calibration)) for one in ready]
    if warmup:
        warm = Schedule(
            concurrency=min(warmup, schedule.concurrency or warmup), requests=warmup, timeout=schedule.timeout
        )
        for one in ready:
            finished = watch(f"{one.target.label}: warm-up")
            await run_load(one.target.address, one.workload, warm, name="warmup", finished=finished)

    reports: list[list[Report]] = [[] for _ in ready]
    to_itself = len({one.target.address for one in ready}) < len(ready)
    for turn in range(pairs):
        for one, kept in zip(ready, reports, strict=True):
            name = f"run {turn} of {one.target.label}" if to_itself else f"run {turn}"
            title = f"{one.target.label}: run {turn + 1} of {pairs}" if pairs > 1 else one.target.label
            recording = await run_load(one.target.address, one.workload, schedule, name=name, finished=watch(title))
            kept.append(
                report(
                    recording,
                    label=one.target.label,
                    url=str(one.target.address),
                    model=one.workload.model,
                    long_prompt=schedule.long_prompt,
                    notes=one.notes,
                )
            )
    return reports


async def record(target: Target, workload: Workload, schedule: Schedule, name: str, watch: Watch) -> Recording:
    """One run as it was, for those who read its times themselves."""
    one = await _prepare(target, workload, schedule)
    finished = watch(f"{target.label}: {name}")
    return await run_load(target.address, one.workload, schedule, name=name, finished=finished)


async def _prepare(target: Target, workload: Workload, schedule: Schedule) -> _Ready:
    model, notes = (
        (target.model, ()) if target.model is not None else await find_model(target.address, timeout=schedule.timeout)
    )
    probed = await probe(target.address, replace(workload, model=model), timeout=schedule.timeout)
    return _Ready(target, probed.workload, (*notes, *probed.notes))


SAMPLE_WORDS = (16, 256)  # two points of the line: tokens = overhead + words * tokens_per_word
CALIBRATION = "calibration"


@dataclass(frozen=True, slots=True)
class Probed:
    workload: Workload
    notes: tuple[str, ...]


async def find_model(address: Address, *, timeout: float) -> tuple[str, tuple[str, ...]]:
    """The first model that the server lists, and a note when it lists several."""
    reply = await call(address, "GET", "/v1/models", timeout=timeout)
    if reply.status in (401, 403):
        raise BenchError(f"{address} wants a key, or another one (HTTP {reply.status}): give it with --api-key.")
    listed = reply.json()
    try:
        names = [str(model["id"]) for model in listed["data"]]
    except (TypeError, KeyError):
        names = []
    if not names:
        raise BenchError(
            f"{address}/v1/models lists no model: name one with --model "
            "(mlx_lm.server takes default_model for the one that it was started with)."
        )
    if len(names) > 1:
        return names[0], (f"{address} lists {len(names)} models; took the first, {names[0]}.",)
    return names[0], ()


async def probe(address: Address, workload: Workload, *, timeout: float) -> Probed:
    """Learn by a few short requests which optional fields the server takes and how long our words are."""

    async def ask(workload: Workload, words: int) -> Outcome:
        request = workload.body(words, 1, random.Random(f"{workload.seed}/{CALIBRATION}"))
        record = await exchange(address, "POST", PATHS[workload.endpoint], request, timeout=timeout)
        return read_outcome(record)

    short, long = SAMPLE_WORDS
    notes: list[str] = []
    first = await ask(workload, short)
    for ignore_eos, include_usage in ((False, True), (True, False), (False, False)):
        if first.failure not in ("http 400", "http 422"):
            break
        narrower = replace(
            workload,
            ignore_eos=workload.ignore_eos and ignore_eos,
            include_usage=workload.include_usage and include_usage,
        )
        if narrower != workload and (second := await ask(narrower, short)).failure is None:
            notes += [f"{address} refuses {field}: not sent." for field in _dropped(workload, narrower)]
            first, workload = second, narrower
    if first.failure is not None:
        hint = " Give its key with --api-key." if first.failure in ("http 401", "http 403") else ""
        raise BenchError(f"{address} fails a first short request: {first.failure}: {first.message}{hint}")

    counts = await _tokenize(address, workload, timeout=timeout)
    if counts is not None and counts[1] > counts[0]:  # llama.cpp's /tokenize takes another field, and counts nothing
        per_word = (counts[1] - counts[0]) / (long - short)
        overhead = (first.prompt_tokens or counts[0]) - per_word * short
        calibration = Calibration(per_word, max(0.0, overhead), "/tokenize")
    elif first.prompt_tokens is not None and (second := await ask(workload, long)).prompt_tokens is not None:
        per_word = (second.prompt_tokens - first.prompt_tokens) / (long - short)
        calibration = Calibration(per_word, max(0.0, first.prompt_tokens - per_word * short), "usage")
    else:
        calibration = Calibration()
        notes.append(f"{address} counts no prompt tokens: prompt lengths are a guess of one token a word.")
    if calibration.tokens_per_word <= 0:
        raise BenchError(f"{address} counts no more tokens in a longer prompt: its usage cannot be trusted.")
    return Probed(replace(workload, calibration=calibration), tuple(notes))


def _dropped(wide: Workload, narrow: Workload) -> list[str]:
    eos, usage = wide.ignore_eos and not narrow.ignore_eos, wide.include_usage and not narrow.include_usage
    return ["ignore_eos"] * eos + ["stream_options.include_usage"] * usage


async def _tokenize(address: Address, workload: Workload, *, timeout: float) -> tuple[int, int] | None:
    """The server's own count of our two samples; None when it has no /tokenize that we understand."""
    counts: list[int] = []
    for words in SAMPLE_WORDS:
        payload = {"model": workload.model, "prompt": workload.text(words, CALIBRATION)}
        count = _count(await call(address, "POST", "/tokenize", payload, timeout=timeout))
        if count is None:
            return None
        counts.append(count)
    return counts[0], counts[1]


def _count(reply: Reply) -> int | None:
    answer = reply.json() if reply.status == 200 else None
    if not isinstance(answer, dict):
        return None
    if isinstance(count := answer.get("count"), int):
        return count
    tokens = answer.get("tokens")
    return len(tokens) if isinstance(tokens, list) else None
