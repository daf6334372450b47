"""A rank's part in the start of an engine: how it meets the others, and what they agree on before the first request."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NoReturn

import mlx.core as mx

from paceline.cache.memory_model import AttentionCost, MemoryModel
from paceline.engine.admission import Admission
from paceline.engine.core import EngineCore
from paceline.errors import LoadError
from paceline.models.sharding import Sharding
from paceline.parallel.answers import Following, Leading, StepClock
from paceline.parallel.cores import FollowerCore, LeaderCore, RankScheduler
from paceline.ranks.leaving import LOST, leave
from paceline.ranks.links import Follower, Leader

log = logging.getLogger("paceline")
READY_SECONDS = 3600.0  # for the slowest rank to load, after the first: while it answers, nobody gives up
OWN_WORDS_SECONDS = 10.0  # while it loads: for this rank's own error, which says more than that another is gone
LAST_WORDS_SECONDS = 4.0  # for clients to read that a rank is gone, and for probes to see it
COSTS = [part.name for part in fields(MemoryModel) if part.name not in ("attention", "grouping")]


@dataclass(frozen=True, slots=True)
class Meeting:
    """How long a rank waits for the others to come."""

    seconds: float
    alive: Callable[[], str | None] = lambda: None  # why one that was started here has ended
    met: Callable[[], None] = lambda: None  # called when all are here and connected
    kill: Callable[[], None] = lambda: None  # ends those that were started here, also one that is stopped


class LeaderRole:
    """Rank 0's."""

    scheduler = RankScheduler
    core = LeaderCore

    def __init__(self, link: Leader, meeting: Meeting) -> None:
        self.link = link
        self._meeting = meeting
        self._abandon: Callable[[str], None] | None = None
        self._started = False

    def watch(self, abandon: Callable[[str], None]) -> None:
        self._abandon = abandon

    def meet(self) -> Sharding:
        self.link.gather(self._meeting.seconds, self._lost, self._meeting.alive)
        log.info("all %d ranks are here", self.link.identity.world)
        sharding = Sharding(group())
        self._meeting.met()
        return sharding

    def started(self, core: EngineCore, admission: Admission) -> None:
        assert isinstance(core, LeaderCore) and isinstance(core.scheduler, RankScheduler)
        others = self.link.ready(READY_SECONDS)
        take_tightest(admission, list(others.values()))
        clock = StepClock()
        ask = Leading(self.link, clock)
        core.clock = clock
        core.scheduler.ask = ask
        core.join(ask)
        self._started = True

    def _lost(self, reason: str) -> None:
        """Another thread than the engine's, which may wait in a collective for ever."""
        if not self._started or self._abandon is None:
            time.sleep(OWN_WORDS_SECONDS)
            if self.link.closed:
                return
            self._leave()
        last = threading.Timer(LAST_WORDS_SECONDS, self._leave)
        last.daemon = True
        last.start()
        self._abandon(reason)

    def _leave(self) -> NoReturn:
        self._meeting.kill()
        leave(LOST)


class FollowerRole:
    """Any other rank's."""

    scheduler = RankScheduler
    core = FollowerCore

    def __init__(self, link: Follower) -> None:
        self.link = link

    def watch(self, abandon: Callable[[str], None]) -> None:
        """It has no clients."""

    def meet(self) -> Sharding:
        return Sharding(group())

    def started(self, core: EngineCore, admission: Admission) -> None:
        assert isinstance(core, FollowerCore) and isinstance(core.scheduler, RankScheduler)
        clock = StepClock()
        ask = Following(self.link, clock)
        core.clock = clock
        core.scheduler.ask = ask
        core.join(ask)
        self.link.send("ready", memory_of(admission))


def group() -> Any:
    """This rank's group. Raises LoadError."""
    try:
        return mx.distributed.init(strict=True, backend=backend(os.environ))
    except Exception as error:  # MLX raises what its backends do
        raise LoadError(f"The ranks cannot be connected: {error}") from error


def backend(env: Mapping[str, str]) -> str:
    """The one that mlx.launch has prepared."""
    if env.get("MLX_JACCL_COORDINATOR"):
        return "jaccl"
    return "nccl" if env.get("NCCL_HOST_IP") else "ring"


def memory_of(admission: Admission) -> dict[str, Any]:
    """What rank 0 must know of a rank's memory."""
    budget, model = admission.budget, admission.memory_model
    return {
        "room": budget.usable - budget.holding("weights"),
        "costs": {name: getattr(model, name) for name in COSTS},
        "attention": [[getattr(cost, part.name) for part in fields(cost)] for cost in model.attention],
    }


def take_tightest(admission: Admission, others: Sequence[Mapping[str, Any]]) -> None:
    """Admission counts as if every rank had the least room and the highest costs of all."""
    budget = admission.budget
    mine = budget.usable - budget.holding("weights")
    least = min([mine, *(int(other["room"]) for other in others)])
    if least < mine:
        log.info("another rank has less memory: %.2f GB beside the weights", least / 1e9)
        budget.limit -= mine - least
    admission.memory_model = highest_costs(admission.memory_model, others)


def highest_costs(model: MemoryModel, others: Sequence[Mapping[str, Any]]) -> MemoryModel:
    highest = {name: max([getattr(model, name), *(other["costs"][name] for other in others)]) for name in COSTS}
    attention = []
    for place, cost in enumerate(model.attention):
        rows = [other["attention"][place] for other in others if place < len(other["attention"])]
        costs = [AttentionCost(*row) for row in rows]
        same = [cost, *(each for each in costs if each.window == cost.window)]
        most = {name: max(getattr(each, name) for each in same) for name in ("token", "dense", "exact")}
        attention.append(replace(cost, **most))
    return replace(model, attention=tuple(attention), **highest)
