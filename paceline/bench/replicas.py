"""`paceline bench replicas`: what a router leaves of the prefix cache when several replicas share the work.

The trace of agents is played to one replica, to all of them in turn (round robin), and through routers. Every run
starts with empty prefix caches. *Ideal* is every distinct token of all prompts once: what one replica has to compute
that forgets nothing. *Floor* is the same for this number of replicas, where each has to compute what all conversations
share. Tokens are counted, not seconds, so replicas may share a machine.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from rich.markup import escape
from rich.table import Table

from paceline.bench.load import Outcome
from paceline.bench.process import Process
from paceline.bench.serve import Watch
from paceline.bench.trace import HttpServer, Message, Plan, TraceReport, play
from paceline.bench.wire import Address, BenchError, Headers, call
from paceline.parallel.launch import free_ports

CONVERSATION_HEADER = "X-Conversation-Id"


class Fleet(HttpServer):
    """Several replicas as one server. Requests go to `routes` in turn: a router, or the replicas themselves."""

    def __init__(
        self,
        label: str,
        routes: Sequence[Address],
        replicas: Sequence[Address],
        model: str | None,
        *,
        timeout: float,
        admin_key: str | None = None,
    ) -> None:
        super().__init__(replicas[0], model, label, timeout)
        self.replicas = replicas
        self.admin_key = admin_key
        self._routes = itertools.cycle(routes)

    async def ask(self, messages: Sequence[Message], max_tokens: int) -> Outcome:
        return await self.send(next(self._routes), messages, max_tokens, conversation_header(messages))

    async def prefilled(self) -> int:
        """Of all replicas."""
        return sum(status["prompt_tokens"] for status in await self._statuses())

    async def finished_by_replica(self) -> list[int]:
        """Choices that each has finished since its start."""
        return [sum(status["requests_finished"].values()) for status in await self._statuses()]

    async def _statuses(self) -> list[dict[str, Any]]:
        statuses = []
        for address in self.replicas:
            reply = await call(address, "GET", "/v1/status", timeout=self.timeout)
            status = reply.json()
            if reply.status != 200 or "prompt_tokens" not in status:
                raise BenchError(
                    f"{address} has no /v1/status with its prompt tokens: is it Paceline, and the key right?"
                )
            statuses.append(status)
        return statuses

    async def clear(self) -> None:
        for replica in self.replicas:
            address = replace(replica, api_key=self.admin_key or replica.api_key)
            reply = await call(address, "POST", "/v1/cache/clear", {}, timeout=self.timeout)
            if reply.status != 200:
                raise BenchError(
                    f"{address} does not clear its prefix cache (status {reply.status}): give --admin-key, or run the "
                    "bench on the replica's machine."
                )


def conversation_header(messages: Sequence[Message]) -> Headers:
    """For routers that hash a header: the same in every turn of a conversation, as its first message is."""
    first = next((message["content"] for message in messages if message["role"] == "user"), "")
    return [(CONVERSATION_HEADER, hashlib.blake2s(first.encode(), digest_size=8).hexdigest())]


Route = Callable[[], AbstractAsyncContextManager[Address]]


@dataclass(frozen=True, slots=True)
class Way:
    """How requests get to replicas. `router` is None for those that the bench spreads itself."""

    label: str
    replicas: int
    router: Route | None = None


@dataclass(frozen=True, slots=True)
class Result:
    way: Way
    trace: TraceReport
    by_replica: tuple[int, ...]  # choices that each finished
    ideal: int
    floor: int

    @property
    def ratio(self) -> float:
        return (self.trace.computed or 0) / self.ideal

    def figures(self) -> dict[str, Any]:
        shown = {"label": self.way.label, "replicas": self.way.replicas, "requests_by_replica": self.by_replica}
        counts = {"computed_tokens": self.trace.computed, "ideal_tokens": self.ideal, "floor_tokens": self.floor}
        return {**shown, **counts, "ratio": self.ratio, "run": asdict(self.trace.run)}


async def compare(
    replicas: Sequence[Address],
    ways: Sequence[Way],
    model: str | None,
    plan: Plan,
    *,
    timeout: float,
    admin_key: str | None = None,
    watch: Watch = lambda title: lambda: None,
) -> list[Result]:
    """Every way plays the same plan. `ways[0]` is one replica, whose ideal is everybody's."""
    first = HttpServer(replicas[0], model, timeout=timeout)
    plan = replace(plan, calibration=await first.calibrate())
    results: list[Result] = []
    for way in ways:
        used = replicas[: way.replicas]
        async with _route(way, used) as routes:
            fleet = Fleet(way.label, routes, used, first.model, timeout=timeout, admin_key=admin_key)
            fleet.workload = first.workload
            await fleet.clear()
            before = await fleet.finished_by_replica()
            trace = await play(fleet, plan, finished=watch(way.label))
            after = await fleet.finished_by_replica()
        if not trace.ideal:
            raise BenchError(f"{replicas[0]} has no /tokenize for messages: is it Paceline?")
        shared = await _shared_tokens(first, plan)
        spread = tuple(late - early for late, early in zip(after, before, strict=True))
        floor = trace.ideal + (sum(count > 0 for count in spread) - 1) * shared
        results.append(Result(way, trace, spread, trace.ideal, floor))
    return results


async def bench(
    model: str | None,
    running: Sequence[Address],
    routers: Sequence[Address],
    count: int,
    smg: str | None,
    plan: Plan,
    *,
    timeout: float,
    admin_key: str | None = None,
    watch: Watch = lambda title: lambda: None,
) -> list[Result]:
    """Over the replicas and routers that run, or over `count` replicas of the model that are started here."""
    if len(running) == 1 or (routers and not running):
        raise BenchError("Give at least two --replica: the bench counts what each of them computes.")
    if running:
        named = [Way(f"router {router.authority}", len(running), at(router)) for router in routers]
        ways = [*spread_here(len(running)), *named]
        return await compare(running, ways, model, plan, timeout=timeout, admin_key=admin_key, watch=watch)
    program = find_smg(smg)
    async with replicas_of(model, count) as started:
        ways = [*spread_here(count), *(through_smg(program, started) if program else ())]
        return await compare(started, ways, None, plan, timeout=timeout, watch=watch)


def spread_here(count: int) -> list[Way]:
    return [Way("one replica", 1), Way("round robin", count)]


def through_smg(program: str, replicas: Sequence[Address]) -> list[Way]:
    """Prefix-aware, as it comes; and with conversations pinned by their header."""
    sticky = ("--sticky-sessions", "--routing-key-headers", CONVERSATION_HEADER, "--assignment-mode", "min_load")
    options = {"SMG cache_aware": (), "SMG cache_aware, sticky": sticky}
    return [
        Way(label, len(replicas), partial(smg_before, program, replicas, "cache_aware", more))
        for label, more in options.items()
    ]


@asynccontextmanager
async def _route(way: Way, replicas: Sequence[Address]) -> AsyncIterator[Sequence[Address]]:
    if way.router is None:
        yield replicas
    else:
        async with way.router() as address:
            yield [address]


def at(address: Address) -> Route:
    """A router that runs already."""
    return lambda: nullcontext(address)


async def _shared_tokens(server: HttpServer, plan: Plan) -> int:
    """Tokens that the prompts of two conversations have in common."""
    prompts = []
    for conversation in replace(plan, requests=2, turns=1).conversations():
        ids = await server.tokens([*conversation.opening(), conversation.message(0)])
        prompts.append(ids or [])
    return next((place for place, pair in enumerate(zip(*prompts, strict=False)) if pair[0] != pair[1]), 0)


def replicas_table(title: str, results: Sequence[Result]) -> Table:
    table = Table(title=escape(title), title_justify="left")
    table.add_column("")
    columns = ("replicas", "ok", "failed", "requests by replica", "prompt tokens", "computed", "/ ideal", "/ floor")
    for column in columns:
        table.add_column(column, justify="right")
    for result in results:
        run, computed = result.trace.run, result.trace.computed or 0
        counts = (str(result.way.replicas), str(run.ok), str(sum(run.errors.values())))
        spread = " ".join(map(str, result.by_replica))
        tokens = (f"{run.prompt_tokens:,}", f"{computed:,}")
        table.add_row(
            escape(result.way.label), *counts, spread, *tokens, f"{result.ratio:.3f}", f"{computed / result.floor:.3f}"
        )
    return table


# -- replicas on this machine, and a router before them


def find_smg(path: str | None) -> str | None:
    """The executable: the one that was named, or one on the path."""
    if path is None:
        return shutil.which("smg")
    if (found := shutil.which(path)) is None:
        raise BenchError(f"There is no program {path}: `pip install smg` has one, in an environment of its own.")
    return found


def replica(model: str | None) -> Process:
    named = [] if model is None else [model]
    return Process([sys.executable, "-m", "paceline", "serve", *named, "--log-level", "warning"], "/ready")


def router(smg: str, replicas: Sequence[Address], policy: str, more: Sequence[str] = ()) -> Process:
    """As examples/scale-out/smg.sh starts it."""
    [metrics_port] = free_ports(1)
    command = [smg, "launch", "--host", "127.0.0.1", "--worker-urls", *map(str, replicas)]
    command += ["--policy", policy, "--health-check-endpoint", "/ready"]
    command += ["--prometheus-port", str(metrics_port), "--log-level", "warn", "--history-backend", "none"]
    return Process([*command, *more], "/readiness")


@asynccontextmanager
async def replicas_of(model: str | None, count: int) -> AsyncIterator[list[Address]]:
    """One after another: a checkpoint is read once from the disk, and then from memory."""
    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(replica(model)) for _ in range(count)]
        yield [process.address for process in processes]


@asynccontextmanager
async def smg_before(
    smg: str, replicas: Sequence[Address], policy: str, more: Sequence[str] = ()
) -> AsyncIterator[Address]:
    async with router(smg, replicas, policy, more) as process:
        yield process.address
