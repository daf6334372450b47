"""What happens when work fails: whose fault it is, who ends, who begins again, and when the engine gives up.

An error of one row's own work ends that row. An error of a step that many share is isolated by trying
(engine/suspects). Out of memory is nobody's fault: less is done from then on. Where the device reports errors later
than the call that caused them, an error may be anybody's: then all begin again, and work is waited for piece by piece
until the fault is found.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from paceline.engine.pressure import is_out_of_memory
from paceline.engine.row import Row
from paceline.engine.runner import Launched, StepLost
from paceline.errors import InvalidRequest

if TYPE_CHECKING:
    from paceline.engine.core import EngineCore

log = logging.getLogger("paceline")
MAX_FAILING_STEPS = 16  # in a row before the engine gives up: more than it takes to find one row among 1,000
MAX_OOM_RETRIES = 3  # of a row that runs out of memory by itself


class AmbiguousFault(Exception):
    """Something in flight went wrong, and nobody knows whose work it was (its cause says what)."""


class Faults:
    def __init__(self, core: EngineCore) -> None:
        self._core = core
        self._failing = 0  # steps in a row

    @property
    def serial(self) -> bool:
        """Is each piece of work waited for before the next is submitted? Then an error is of the piece that it came
        with. So it is as long as a fault is isolated."""
        return self._core.runner.reports_late and self._core.scheduler.suspects.active

    # -- work of one row

    def guard(self, row: Row, work: Callable[[], None]) -> None:
        """Work of one row alone on the host: its failure is its own."""
        try:
            work()
        except Exception as error:  # noqa: BLE001
            self._fail(row, error)

    def run_for_one(self, row: Row, work: Callable[[], None], *, waited: bool = False) -> None:
        """Work of one row alone, before it decodes. If it runs out of memory, it makes room and begins again.
        `waited`: it was submitted before."""
        core = self._core
        try:
            work()
        except Exception as error:  # noqa: BLE001
            if self.is_ambiguous(error, row, waited=waited):
                raise AmbiguousFault from error
            if not is_out_of_memory(error) or row.troubles == MAX_OOM_RETRIES or row not in core.scheduler.running:
                self._fail(row, error)
                self.attempt(core.runner.probe)  # was it the row, or is the device gone?
                return
            row.troubles += 1
            self._free_memory(error)
            if row not in core.runner.rows:  # if it has joined, a step of it is in flight, and will tell of its trouble
                core.preempt([row], "memory", keep=False)

    @contextmanager
    def or_dense(self, row: Row, *, waited: bool = False) -> Iterator[None]:
        """Where scoring fails, the row reads all of its prompt."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            if self.is_ambiguous(error, row, waited=waited):
                raise AmbiguousFault from error
            if is_out_of_memory(error):
                self._free_memory(error)
            assert self._core.sparse is not None
            self._core.sparse.give_up(row, error)

    def _fail(self, row: Row, error: Exception) -> None:
        log.warning("request %s failed: %s", row.id, str(error))
        refusal = error if isinstance(error, InvalidRequest) else None
        self._core.finish(row, "error", error=str(error) or type(error).__name__, refusal=refusal)

    # -- work of nobody in particular

    def attempt(self, work: Callable[[], Any]) -> Any:
        """Work between steps: what it raises must not end the thread, but must not go on for ever either."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001
            self._count(error)
            return None

    def _count(self, error: BaseException) -> None:
        core = self._core
        self._failing += 1
        core.counters.failed_steps += 1
        log.error("step failed (%d in a row): %s", self._failing, error, exc_info=error)
        if self._failing >= MAX_FAILING_STEPS:
            core.failure = f"The engine stopped after {MAX_FAILING_STEPS} failing steps in a row: {error}"

    # -- steps that many share

    def step_succeeded(self, rows: Sequence[Row]) -> None:
        self._failing = 0
        self._core.scheduler.suspects.succeeded(rows)

    def step_lost(self, in_flight: Launched, cause: BaseException) -> None:
        """A step broke after it counted."""
        self.step_failed(in_flight.rows, StepLost(in_flight), cause)

    def step_failed(self, rows: Sequence[Row], error: Exception, cause: BaseException | None = None) -> None:
        """A step of these rows failed. The row to blame is found by trying (engine/suspects); the others go on.

        After a StepLost nothing in the common batch can be trusted: all its rows begin again, from what they have said.
        """
        core, scheduler, runner = self._core, self._core.scheduler, self._core.runner
        lost = isinstance(error, StepLost)
        cause = cause or (error.__cause__ if lost else None) or error
        out_of_memory = is_out_of_memory(cause)
        if not out_of_memory:
            self._count(cause)
        if lost:
            core.preempt([row for row in runner.rows if row in scheduler.running], "fault", keep=False)
            runner.reset()
            unsettled = [row for row in rows if row in scheduler.running]  # they had not joined yet
            core.preempt(unsettled, "fault", keep=False)
        else:
            runner.sampler.forget()  # it may have counted what never came
        if core.failure is not None:
            return
        rows = [row for row in rows if row.finished is None]
        if out_of_memory:
            self._shrink(rows, cause)
            return
        verdict = scheduler.suspects.failed(rows)
        if verdict.culprit is not None:
            core.finish(verdict.culprit, "error", error=f"A step of the engine failed: {cause}")
        core.preempt([row for row in verdict.apart if row in scheduler.running], "fault")

    # -- out of memory

    def _shrink(self, rows: Sequence[Row], error: BaseException) -> None:
        """A step of these rows ran out of memory: fewer of them go on, after everything else was evicted."""
        self._free_memory(error)
        core, scheduler = self._core, self._core.scheduler
        scheduler.crowd = max(len(rows) // 2, 1)
        while len(scheduler.running) > scheduler.crowd:
            core.preempt([scheduler.policy.least(scheduler.running)], "memory")
        if len(rows) == 1:
            rows[0].troubles += 1
            if rows[0].troubles > MAX_OOM_RETRIES:
                core.finish(rows[0], "error", error="The memory does not suffice for this request.")

    def _free_memory(self, error: BaseException) -> None:
        """MLX has run out of memory: evict what can be, and take less from now on."""
        core = self._core
        core.counters.out_of_memory += 1
        log.warning("out of memory: prefixes are dropped and chunks shrink (%s)", error)
        core.scheduler.pace.squeeze()
        if core.reuse is not None:
            self.attempt(core.reuse.evict)
        if core.sparse is not None:
            self.attempt(partial(core.sparse.give_way, everything=True))
        mx.clear_cache()

    # -- where the device reports errors later

    def is_ambiguous(self, error: BaseException, row: Row | None = None, *, waited: bool = False) -> bool:
        """May this be an error of work that was submitted before, by anybody? (`row`: whose work raised it.) An error
        of the host's own, and memory that was not there when work was submitted, are what they seem."""
        core = self._core
        if not core.runner.reports_late or self.serial or core.scheduler.running == [row]:
            return False
        return waited or (type(error) is RuntimeError and not is_out_of_memory(error))

    def check_forgiven(self) -> None:
        """An error that cost a row no more than a prefix may have been another's, whom it costs its tokens."""
        reuse = self._core.reuse
        if reuse is not None and reuse.forgiven is not None:
            error, reuse.forgiven = reuse.forgiven, None
            if self.is_ambiguous(error):
                raise AmbiguousFault from error

    def restart_all(self, cause: BaseException) -> None:
        """Nothing that was computed lately can be trusted: all that run begin again, and are looked into."""
        scheduler = self._core.scheduler
        scheduler.duty.under_way = 0  # nobody waits for that any more
        self.step_failed(tuple(scheduler.running), StepLost(Launched()), cause)
        drop_frames(cause)


def drop_frames(error: BaseException | None) -> None:
    """Of an error that was handled: frames that hold it, and that its traceback holds, would hold all their rows."""
    for _ in range(8):
        if error is None:
            return
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
