"""What the start-up of an engine asks of the ranks that it is one of (paceline/parallel)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from paceline.engine.admission import Admission
from paceline.engine.core import EngineCore
from paceline.engine.scheduler import Scheduler
from paceline.models.sharding import Sharding

CHUNK = 512  # prompt tokens of a step where none are set: ranks that timed passes would choose differently
NOT_SPLIT = "Steps are not traced, shapes are not padded to buckets, and nothing is warmed up at start."


class RankRole(Protocol):
    """On the engine's thread."""

    @property
    def scheduler(self) -> type[Scheduler]: ...

    @property
    def core(self) -> type[EngineCore]: ...

    def watch(self, abandon: Callable[[str], None]) -> None:
        """`abandon` tells clients that the ranks cannot go on, and why, whatever the engine's thread does. Called on
        another thread."""
        ...

    def meet(self) -> Sharding:
        """Join the other ranks, before the model is loaded."""
        ...

    def started(self, core: EngineCore, admission: Admission) -> None:
        """The engine is complete. Returns when all ranks are: memory is then that of the tightest."""
        ...
