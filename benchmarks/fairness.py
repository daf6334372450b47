"""`python -m benchmarks fairness`: a user with few short requests beside one who sends fifty long ones at once.

The guest's wait is from its request's arrival to its first token: alone, beside the hog under the policy `fair`, and
beside it under `fifo`, in one process on one model. The hog's requests are there, and hold all places, before the
guest's come; what is left of them is cancelled when the guest is done. The engine has a prefix cache, as a server has.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rich.markup import escape
from rich.table import Table

from benchmarks.models import Bench
from paceline.bench.offline import random_prompts
from paceline.bench.report import Distribution, duration
from paceline.bench.wire import BenchError
from paceline.cache.prefix import PrefixCache
from paceline.engine import sequence
from paceline.engine.core import EngineCore
from paceline.engine.policy import POLICIES, PolicyName
from paceline.engine.prefill_budget import PrefillBudget
from paceline.engine.prefix_manager import PrefixManager
from paceline.types import Delta, Sampling

CACHE = 2 << 30  # bytes that prefixes may take
PATIENCE = 1800.0  # seconds for one part of the run
ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Requests:
    """All requests of one user."""

    count: int
    prompt: int  # tokens
    output: int
    gap: float = 0.0  # seconds from one arrival to the next

    @classmethod
    def parse(cls, text: str) -> Requests:
        try:
            count, prompt, output, *gap = text.split(",")
            found = cls(int(count), int(prompt), int(output), *map(float, gap))
        except (ValueError, TypeError):
            found = cls(0, 0, 0)
        if min(found.count, found.prompt - 1, found.output) < 1 or not 0 <= found.gap < float("inf"):
            raise BenchError(f"{text!r} are no requests: give COUNT,PROMPT,OUTPUT, like 30,32,8")
        return found


def policies(text: str) -> list[PolicyName]:
    names = [name.strip() for name in text.split(",")]
    known = [name for name in POLICIES if name in names]
    if len(known) != len(names):
        raise BenchError(f"{text!r} are no policies: give some of {', '.join(POLICIES)}.")
    return sorted(known, key=names.index)


@dataclass(frozen=True, slots=True)
class Line:
    """The guest's waits under one policy; `turns`: one list of seconds each."""

    name: str
    turns: tuple[tuple[float, ...], ...]
    preemptions: int = 0

    def spread(self, turn: int) -> Distribution:
        found = Distribution.of(self.turns[turn])
        assert found is not None
        return found

    @property
    def p50(self) -> float:
        return statistics.median(self.spread(turn).p50 for turn in range(len(self.turns)))

    @property
    def p95(self) -> float:
        return statistics.median(self.spread(turn).p95 for turn in range(len(self.turns)))

    def ratios(self, alone: Line) -> list[float]:
        """p95 by p95 of the same turn."""
        return [self.spread(turn).p95 / alone.spread(turn).p95 for turn in range(len(self.turns))]


@dataclass(slots=True)
class _Waits:
    """When each sequence's first token came, and when all sequences are over."""

    first: dict[str, float] = field(default_factory=dict)
    arrived: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    running: threading.Event = field(default_factory=threading.Event)  # so many sequences have brought a token
    done: threading.Event = field(default_factory=threading.Event)
    open_rows: int = 0
    enough: int = 1

    def sink(self, name: str, delta: Delta) -> None:
        if delta.token_ids and name not in self.first:
            self.first[name] = time.perf_counter()
            if len(self.first) >= self.enough:
                self.running.set()
        if delta.error is not None:
            self.failures.append(delta.error)
            self.running.set()
        if delta.finish_reason is not None:
            self.open_rows -= 1
            if self.open_rows == 0:
                self.done.set()


class FairnessBench(Bench):
    """A bench whose engine has a prefix cache, few places for sequences, and a policy that can be changed between
    runs."""

    def __init__(self, source: str, max_rows: int, stall_target_ms: float | None) -> None:
        super().__init__(source)
        self.scheduler.max_num_seqs = max_rows
        self.stall = None if stall_target_ms is None else stall_target_ms / 1000
        self.reuse: PrefixManager

    def _build(self, wake: Callable[[], None]) -> EngineCore:
        core = super()._build(wake)
        self.scheduler.prefill_budget = PrefillBudget(self.stall, self.scheduler.prefill_budget.max_chunk)
        core.prefix = self.reuse = PrefixManager(PrefixCache(lambda: CACHE), core.runner)
        return core

    def begin(self, policy: PolicyName) -> None:
        """Nothing is known of earlier runs."""
        self.engine.call(self.reuse.clear).result(timeout=PATIENCE)
        self.scheduler.policy = POLICIES[policy]()
        self.scheduler.preemptions["policy"] = 0

    def submit(self, tenant: str, requests: Requests, waits: _Waits, seed: int) -> list[sequence.Sequence]:
        """All of a user's requests, each when it is due."""
        sampling = Sampling(temperature=0, max_tokens=requests.output, ignore_eos=True, speculation="off")
        prompts = random_prompts(requests.count, requests.prompt, self.model.language.vocab_size, seed)
        waits.open_rows += requests.count
        seqs = []
        begun = time.perf_counter()
        for place, prompt in enumerate(prompts):
            name = f"{tenant}-{place}"
            seq = self.sequence(name, prompt, sampling, partial(waits.sink, name), tenant=tenant)
            seq.prefix.key = self.reuse.cache_key(seq.prompt)
            seqs.append(seq)
        for place, seq in enumerate(seqs):
            time.sleep(max(begun + place * requests.gap - time.perf_counter(), 0.0))
            waits.arrived[str(seq.id)] = time.perf_counter()
            self.engine.submit(seq)
        return seqs

    def run(self, policy: PolicyName, guest: Requests, hog: Requests | None, seed: int) -> tuple[list[float], int]:
        """The guest's waits in seconds, and how often a sequence was set back for the policy's sake."""
        self.begin(policy)
        others, waits = _Waits(enough=min(self.scheduler.max_num_seqs, 0 if hog is None else hog.count)), _Waits()
        seqs = [] if hog is None else self.submit("hog", hog, others, 2 * seed)
        if seqs and not others.running.wait(PATIENCE):
            raise BenchError("The hog's requests did not start.")
        self.submit("guest", guest, waits, 2 * seed + 1)
        if not waits.done.wait(PATIENCE):
            raise BenchError(f"The guest's requests were not done after {PATIENCE:g} s.")
        for seq in seqs:
            self.engine.abort(seq.id)
        if seqs and not others.done.wait(PATIENCE):
            raise BenchError("The hog's requests could not be cancelled.")
        if failures := waits.failures + others.failures:
            raise BenchError(f"{len(failures)} requests failed: {failures[0]}")
        return [waits.first[name] - waits.arrived[name] for name in waits.arrived], self.scheduler.preemptions["policy"]


def compare(
    bench: FairnessBench,
    guest: Requests,
    hog: Requests,
    policies: Sequence[PolicyName],
    turns: int,
    watch: Callable[[str], None] = lambda text: None,
) -> list[Line]:
    """Alone, then under each policy, in turns, after a short run that warms up."""
    watch("warming up")
    few = bench.scheduler.max_num_seqs
    bench.run("fair", Requests(2, guest.prompt, 4), Requests(few, hog.prompt, 4), 1_000_000)
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in (ALONE, *policies)}
    preempted: dict[str, int] = dict.fromkeys(found, 0)
    for turn in range(turns):
        watch(f"turn {turn + 1} of {turns}: alone")
        found[ALONE].append(tuple(bench.run("fifo", guest, None, turn)[0]))
        for policy in policies:
            watch(f"turn {turn + 1} of {turns}: {policy}")
            waits, setbacks = bench.run(policy, guest, hog, turn)
            found[policy].append(tuple(waits))
            preempted[policy] += setbacks
    return [Line(name, tuple(waits), preempted[name]) for name, waits in found.items()]


def fairness_table(title: str, lines: Sequence[Line]) -> Table:
    table = Table(title=escape(title), title_justify="left")
    table.add_column("guest's wait")
    for column in ("p50", "p95", "p95 / alone", "highest turn", "rows set back"):
        table.add_column(column, justify="right")
    alone = lines[0]
    for line in lines:
        ratios = line.ratios(alone)
        cells = [duration(line.p50), duration(line.p95), f"{statistics.median(ratios):.2f}", f"{max(ratios):.2f}"]
        table.add_row(line.name if line is alone else f"beside the hog, {line.name}", *cells, str(line.preemptions))
    return table


def figures(lines: Sequence[Line]) -> list[dict[str, Any]]:
    return [
        {
            "name": line.name,
            "p50_s": line.p50,
            "p95_s": line.p95,
            "p95_to_alone": statistics.median(line.ratios(lines[0])),
            "preemptions": line.preemptions,
            "turns": [list(waits) for waits in line.turns],
        }
        for line in lines
    ]
