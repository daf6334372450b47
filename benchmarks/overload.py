"""`python -m benchmarks overload`: more clients than the memory allows, of all kinds, and what became of each.

A real server with a memory limit that binds is asked for more than it can give. The rules: it neither crashes nor
stands still; every request is answered, or refused with a word when to come back; MLX never holds more than the limit;
and when everybody has gone, the server holds its weights and its caches and nothing else. A broken rule is named, and
the command fails.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from rich.markup import escape
from rich.table import Table

from benchmarks import tiny
from benchmarks.crowd import Crowd, Mix, Outcome
from benchmarks.process import ServerProcess, status
from paceline.bench.prompts import WORDS
from paceline.bench.report import Distribution, duration

LOOK = 0.2  # seconds between two looks at the server's state
STANDSTILL = 30.0  # seconds without any progress, while something runs or waits, that are a wedge
REQUEST = 300.0  # seconds after which an answer that has not come is a wedge, too
SETTLING = 60.0  # seconds that a server may take to become idle, once everybody has gone
SLACK = 0.05  # of the limit, that an idle server may hold besides what it names
EXAMPLES = 5  # of what broke, shown
IDLE_PARTS = ("sequences", "reserved", "activations", "sequence images")  # of the budget; 0 when idle


@dataclass(frozen=True, slots=True)
class Plan:
    clients: int = 200
    seconds: float = 180.0
    memory_limit_gb: float = 0.1
    policy: str = "fair"
    max_queue: int = 96
    queue_timeout: float = 45.0
    request_timeout: float = 120.0
    max_unread_tokens: int = 128
    seed: int = 0
    mix: Mix = field(default_factory=Mix)
    model: str = tiny.NAME

    @property
    def flags(self) -> list[str]:
        flags = {
            "--memory-limit-gb": self.memory_limit_gb,
            "--scheduler-policy": self.policy,
            "--max-queue": self.max_queue,
            "--queue-timeout": self.queue_timeout,
            "--request-timeout": self.request_timeout,
            "--max-unread-tokens": self.max_unread_tokens,
            "--log-level": "warning",
        }
        own = self.model == tiny.NAME
        model = [str(tiny.folder()), "--served-model-name", self.model] if own else [self.model]
        return [*model, *(text for name, value in flags.items() for text in (name, str(value)))]


@dataclass(slots=True)
class Sightings:
    """What was seen of the server's state while the clients were there."""

    looks: int = 0
    failed_looks: int = 0
    running: int = 0  # the most at a time
    waiting: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # the most that waited for each at a time
    held: int = 0  # bytes in use and in MLX's pool, the most at a time
    peak: int = 0  # bytes in use at most, as MLX counted
    still: float = 0.0  # longest time without progress while there was work
    last: dict[str, Any] = field(default_factory=dict)
    _progress: tuple[Any, ...] = ()
    _since: float = 0.0

    def see(self, state: dict[str, Any], now: float) -> None:
        self.looks += 1
        self.last = state
        self.running = max(self.running, state["num_requests_running"])
        self.waiting = max(self.waiting, state["num_requests_waiting"])
        for reason, count in state["num_requests_waiting_by_reason"].items():
            self.reasons[reason] = max(self.reasons[reason], count)
        memory = state["memory"]
        self.held = max(self.held, memory["active_bytes"] + memory["cache_bytes"])
        self.peak = max(self.peak, memory["peak_bytes"])
        progress = (state["steps"], sum(state["requests_finished"].values()))
        if progress != self._progress or not (state["num_requests_running"] or state["num_requests_waiting"]):
            self._progress, self._since = progress, now
        self.still = max(self.still, now - self._since)


@dataclass(frozen=True, slots=True)
class Report:
    plan: Plan
    outcomes: tuple[Outcome, ...]
    seen: Sightings
    before: dict[str, Any]
    after: dict[str, Any]  # when everybody had gone
    seconds: float
    broken: tuple[str, ...]  # rules

    @property
    def endings(self) -> Counter[str]:
        return Counter(outcome.ending for outcome in self.outcomes)

    @property
    def refusals(self) -> Counter[str]:
        return Counter(outcome.cause for outcome in self.outcomes if outcome.ending == "refused")

    @property
    def waits(self) -> Distribution | None:
        """Seconds to the first token, of streams."""
        return Distribution.of(outcome.first for outcome in self.outcomes if outcome.first is not None)

    @property
    def limit(self) -> int:
        return int(self.after["memory_budget"]["limit_bytes"])

    def gained(self, name: str) -> int:
        return int(self.after[name] - self.before[name])

    def figures(self) -> dict[str, Any]:
        waits = self.waits
        return {
            "clients": self.plan.clients,
            "seconds": self.seconds,
            "requests": len(self.outcomes),
            "endings": dict(self.endings),
            "refusals": dict(self.refusals),
            "first_token_s": None if waits is None else {"p50": waits.p50, "p95": waits.p95, "max": waits.max},
            "most_running": self.seen.running,
            "most_waiting": self.seen.waiting,
            "waiting_by_reason": dict(self.seen.reasons),
            "preemptions": self.after["preemptions"],
            "limit_bytes": self.limit,
            "peak_bytes": self.seen.peak,
            "held_bytes": self.seen.held,
            "idle": {"memory": self.after["memory"], "budget": self.after["memory_budget"]["parts"]},
            "longest_standstill_s": self.seen.still,
            "generated_tokens_per_s": self.gained("generation_tokens") / self.seconds,
            "prompt_tokens_per_s": self.gained("prompt_tokens") / self.seconds,
            "broken_rules": list(self.broken),
        }


async def overload(plan: Plan, say: Callable[[str], None] = lambda text: None) -> Report:
    """Start a server, play, look at what is left."""
    say("starting the server")
    async with ServerProcess(plan.flags) as server:
        limits = httpx.Limits(max_connections=4)
        async with httpx.AsyncClient(base_url=server.url, timeout=30.0, limits=limits, trust_env=False) as client:
            before = await status(client)
            crowd = Crowd(server.url, before["model"]["name"], plan.mix, await _calibrated(client), REQUEST, plan.seed)
            seen = Sightings()
            watching = asyncio.create_task(_watch(client, seen, crowd, plan, say))
            begun = time.monotonic()
            try:
                await crowd.play(plan.clients, plan.seconds)
                seconds = time.monotonic() - begun
            finally:
                watching.cancel()
            crashed = server.returncode
            say("everybody has gone: waiting for the server to be idle")
            after = seen.last if crashed is not None else await _settled(client, seen)
        stopped = server.stop() if crashed is None else crashed
        report = Report(plan, tuple(crowd.outcomes), seen, before, after, seconds, ())
        broken = [*_crashes(crashed, stopped, server), *rules(report)]
    return Report(plan, report.outcomes, seen, before, after, seconds, tuple(broken))


async def _calibrated(client: httpx.AsyncClient) -> Callable[[int], int]:
    sample = 256
    text = " ".join(random.Random("calibration").choices(WORDS, k=sample))
    count = (await client.post("/tokenize", json={"prompt": text})).raise_for_status().json()["count"]
    return lambda tokens: max(1, round(tokens * sample / count))


async def _watch(
    client: httpx.AsyncClient, seen: Sightings, crowd: Crowd, plan: Plan, say: Callable[[str], None]
) -> None:
    begun = time.monotonic()
    while True:
        try:
            seen.see(await status(client), time.monotonic())
        except httpx.HTTPError:
            seen.failed_looks += 1
        state = seen.last
        if state:
            say(
                f"{time.monotonic() - begun:.0f} s: {len(crowd.outcomes)} requests over, "
                f"{state['num_requests_running']} running, {state['num_requests_waiting']} waiting, "
                f"peak {seen.peak / 1e6:.0f} MB"
            )
        await asyncio.sleep(LOOK)


async def _settled(client: httpx.AsyncClient, seen: Sightings) -> dict[str, Any]:
    """The state when nothing runs any more, or the last one that was seen."""
    deadline = time.monotonic() + SETTLING
    while True:
        try:
            state = await status(client)
            seen.see(state, time.monotonic())
            if not state["num_requests_running"] and not state["num_requests_waiting"]:
                await asyncio.sleep(1.0)  # what the last step left behind is gone by then
                return await status(client)
        except httpx.HTTPError:
            seen.failed_looks += 1
        if time.monotonic() > deadline:
            return seen.last
        await asyncio.sleep(LOOK)


# -- the rules


def rules(report: Report) -> Iterator[str]:
    """Those that were broken, in words."""
    broken = [outcome for outcome in report.outcomes if outcome.ending == "broken"]
    if broken:
        kinds = Counter(f"{outcome.detail} ({outcome.manner})" for outcome in broken)
        examples = "; ".join(f"{count} x {kind}" for kind, count in kinds.most_common(EXAMPLES))
        yield f"{len(broken)} requests were neither answered nor refused with Retry-After: {examples}"
    seen, state = report.seen, report.after
    if seen.still > STANDSTILL:
        yield f"nothing moved for {seen.still:.0f} s while there was work"
    if seen.failed_looks > seen.looks / 20:
        yield f"/v1/status did not answer {seen.failed_looks} of {seen.looks + seen.failed_looks} times"
    for what, nbytes in (("in use", seen.peak), ("in use and in the pool", seen.held)):
        if nbytes > report.limit:
            yield f"MLX had {nbytes / 1e6:.1f} MB {what}, and the limit is {report.limit / 1e6:.1f} MB"
    yield from idle(state)


def idle(state: dict[str, Any]) -> Iterator[str]:
    """What a server that should be idle still holds."""
    running, waiting = state["num_requests_running"], state["num_requests_waiting"]
    if running or waiting:
        yield f"{running} requests run and {waiting} wait, though all clients have gone"
    budget = state["memory_budget"]
    parts: dict[str, int] = budget["parts"]
    kept = {name: parts[name] for name in IDLE_PARTS if parts.get(name)}
    if kept:
        yield f"the budget still has {kept} for rows, and there are none"
    named = sum(nbytes for name, nbytes in parts.items() if name not in IDLE_PARTS)
    active = state["memory"]["active_bytes"]
    if abs(active - named) > SLACK * budget["limit_bytes"]:
        yield f"idle, MLX has {active / 1e6:.1f} MB in use, and the budget names {named / 1e6:.1f} MB"


def _crashes(crashed: int | None, stopped: int, server: ServerProcess) -> Iterator[str]:
    if crashed is not None:
        yield f"the server ended with {crashed} under load:\n{server.last_words()}"
    elif stopped != 0:
        yield f"the server ended with {stopped} when it was asked to stop:\n{server.last_words()}"


# -- for a terminal


def overload_table(report: Report) -> Table:
    plan, seen, after = report.plan, report.seen, report.after
    title = (
        f"{plan.clients} clients for {plan.seconds:g} s, {plan.memory_limit_gb:g} GB of memory, policy {plan.policy}"
    )
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("requests", f"{len(report.outcomes):,}")
    for ending, count in report.endings.most_common():
        table.add_row(f"  {ending}", f"{count:,}")
    for cause, count in report.refusals.most_common():
        table.add_row(f"refused: {escape(cause)}", f"{count:,}")
    waits = report.waits
    if waits is not None:
        table.add_row("first token, p50 / p95", f"{duration(waits.p50)} / {duration(waits.p95)}")
    table.add_row("running / waiting at most", f"{seen.running} / {seen.waiting}")
    reasons = ", ".join(f"{reason} {count}" for reason, count in seen.reasons.most_common())
    table.add_row("waiting at most, for", escape(reasons) or "-")
    table.add_row("preemptions", ", ".join(f"{name} {count}" for name, count in after["preemptions"].items()))
    table.add_row("peak memory / limit", _share(seen.peak, report.limit))
    table.add_row("with MLX's pool / limit", _share(seen.held, report.limit))
    table.add_row("idle afterwards / limit", _share(after["memory"]["active_bytes"], report.limit))
    table.add_row("longest standstill", duration(seen.still))
    table.add_row("generated tokens per second", f"{report.gained('generation_tokens') / report.seconds:,.0f}")
    table.add_row("prompt tokens computed per second", f"{report.gained('prompt_tokens') / report.seconds:,.0f}")
    table.add_row("rules broken", "none" if not report.broken else f"[red]{len(report.broken)}[/red]")
    return table


def _share(nbytes: int, limit: int) -> str:
    return f"{nbytes / 1e6:.1f} / {limit / 1e6:.1f} MB ({nbytes / limit:.0%})"
