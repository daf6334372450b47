"""A whole `paceline bench serve`: look at the servers, warm them up, run, in pairs where there are two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paceline.bench.load import Schedule, run_load
from paceline.bench.probe import find_model, probe
from paceline.bench.prompts import Workload
from paceline.bench.report import Report, report
from paceline.bench.wire import Address

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


async def _prepare(target: Target, workload: Workload, schedule: Schedule) -> _Ready:
    model, notes = (
        (target.model, ()) if target.model is not None else await find_model(target.address, timeout=schedule.timeout)
    )
    probed = await probe(target.address, replace(workload, model=model), timeout=schedule.timeout)
    return _Ready(target, probed.workload, (*notes, *probed.notes))
