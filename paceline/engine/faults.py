"""What happens when work fails: whose fault it is, who ends, who begins again, and when the engine gives up.

An error of one sequence's own work ends that sequence. An error of a step that many share is isolated by trying
(engine/fault_isolation). Out of memory is nobody's fault: less is done from then on. Where the device reports errors
later than the call that caused them, an error may be anybody's: then all begin again, and work is waited for piece by
piece until the fault is found.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from paceline.engine.fault_isolation import is_out_of_memory
from paceline.engine.runner import InFlightStep, StepLost
from paceline.engine.sequence import Sequence
from paceline.errors import InvalidRequest

if TYPE_CHECKING:
    from paceline.engine.core import EngineCore

log = logging.getLogger("paceline")
MAX_FAILING_STEPS = 16  # in a sequence before the engine gives up: more than it takes to find one sequence among 1,000
MAX_OOM_RETRIES = 3  # of a sequence that runs out of memory by itself


class AmbiguousFault(Exception):
    """Something in flight went wrong, and nobody knows whose work it was (its cause says what)."""


class Faults:
    def __init__(self, core: EngineCore) -> None:
        self._core = core
        self._failing = 0  # steps in a sequence

    @property
    def serial(self) -> bool:
        """Is each piece of work waited for before the next is submitted? Then an error is of the piece that it came
        with. So it is as long as a fault is isolated."""
        return self._core.runner.reports_late and self._core.scheduler.isolation.active

    # -- work of one sequence

    def guard(self, seq: Sequence, work: Callable[[], None]) -> None:
        """Work of one sequence alone on the host: its failure is its own."""
        try:
            work()
        except Exception as error:  # noqa: BLE001
            self._fail(seq, error)

    def run_for_one(self, seq: Sequence, work: Callable[[], None], *, waited: bool = False) -> None:
        """Work of one sequence alone, before it decodes. If it runs out of memory, it makes room and begins again.
        `waited`: it was submitted before."""
        core = self._core
        try:
            work()
        except Exception as error:  # noqa: BLE001
            if self.is_ambiguous(error, seq, waited=waited):
                raise AmbiguousFault from error
            if not is_out_of_memory(error) or seq.oom_retries == MAX_OOM_RETRIES or seq not in core.scheduler.running:
                self._fail(seq, error)
                self.attempt(core.runner.probe)  # was it the sequence, or is the device gone?
                return
            seq.oom_retries += 1
            self._free_memory(error)
            if seq not in core.runner.seqs:  # if it has joined, a step of it is in flight, and will tell of its trouble
                core.preempt([seq], "memory", keep=False)

    @contextmanager
    def or_dense(self, seq: Sequence, *, waited: bool = False) -> Iterator[None]:
        """Where scoring fails, the sequence reads all of its prompt."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            if self.is_ambiguous(error, seq, waited=waited):
                raise AmbiguousFault from error
            if is_out_of_memory(error):
                self._free_memory(error)
            assert self._core.sparse is not None
            self._core.sparse.fall_back_to_dense(seq, error)

    def _fail(self, seq: Sequence, error: Exception) -> None:
        log.warning("request %s failed: %s", seq.id, str(error))
        refusal = error if isinstance(error, InvalidRequest) else None
        self._core.finish(seq, "error", error=str(error) or type(error).__name__, refusal=refusal)

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

    def step_succeeded(self, seqs: Collection[Sequence]) -> None:
        self._failing = 0
        self._core.scheduler.isolation.succeeded(seqs)

    def step_lost(self, in_flight: InFlightStep, cause: BaseException) -> None:
        """A step broke after it counted."""
        self.step_failed(in_flight.seqs, StepLost(in_flight), cause)

    def step_failed(self, seqs: Collection[Sequence], error: Exception, cause: BaseException | None = None) -> None:
        """A step of these sequences failed. The sequence to blame is found by trying (engine/fault_isolation); the
        others go on.

        After a StepLost nothing in the common batch can be trusted: all its sequences begin again, from what they have
        said.
        """
        core, scheduler, runner = self._core, self._core.scheduler, self._core.runner
        lost = isinstance(error, StepLost)
        cause = cause or (error.__cause__ if lost else None) or error
        out_of_memory = is_out_of_memory(cause)
        if not out_of_memory:
            self._count(cause)
        if lost:
            core.preempt([seq for seq in runner.seqs if seq in scheduler.running], "fault", keep=False)
            runner.reset()
            unsettled = [seq for seq in seqs if seq in scheduler.running]  # they had not joined yet
            core.preempt(unsettled, "fault", keep=False)
        else:
            runner.sampler.forget()  # it may have counted what never came
        if core.failure is not None:
            return
        seqs = [seq for seq in seqs if seq.finished is None]
        if out_of_memory:
            self._shrink(seqs, cause)
            return
        verdict = scheduler.isolation.failed(seqs)
        if verdict.culprit is not None:
            core.finish(verdict.culprit, "error", error=f"A step of the engine failed: {cause}")
        core.preempt([seq for seq in verdict.isolate if seq in scheduler.running], "fault")

    # -- out of memory

    def _shrink(self, seqs: list[Sequence], error: BaseException) -> None:
        """A step of these sequences ran out of memory: fewer of them go on, after everything else was evicted."""
        self._free_memory(error)
        core, scheduler = self._core, self._core.scheduler
        scheduler.max_running = max(len(seqs) // 2, 1)
        while len(scheduler.running) > scheduler.max_running:
            core.preempt([scheduler.policy.lowest(scheduler.running)], "memory")
        if len(seqs) == 1:
            seqs[0].oom_retries += 1
            if seqs[0].oom_retries > MAX_OOM_RETRIES:
                core.finish(seqs[0], "error", error="The memory does not suffice for this request.")

    def _free_memory(self, error: BaseException) -> None:
        """MLX has run out of memory: evict what can be, and take less from now on."""
        core = self._core
        core.counters.out_of_memory += 1
        log.warning("out of memory: prefixes are dropped and chunks shrink (%s)", error)
        core.scheduler.prefill_budget.shrink()
        if core.prefix is not None:
            self.attempt(core.prefix.evict)
        if core.sparse is not None:
            self.attempt(partial(core.sparse.enforce_budget, everything=True))
        mx.clear_cache()

    # -- where the device reports errors later

    def is_ambiguous(self, error: BaseException, seq: Sequence | None = None, *, waited: bool = False) -> bool:
        """May this be an error of work that was submitted before, by anybody? (`seq`: whose work raised it.) An error
        of the host's own, and memory that was not there when work was submitted, are what they seem."""
        core = self._core
        if not core.runner.reports_late or self.serial or core.scheduler.running == [seq]:
            return False
        return waited or (type(error) is RuntimeError and not is_out_of_memory(error))

    def check_tolerated(self) -> None:
        """An error that cost a sequence no more than a prefix may have been another's, whom it costs its tokens."""
        prefix = self._core.prefix
        if prefix is not None and prefix.tolerated_error is not None:
            error, prefix.tolerated_error = prefix.tolerated_error, None
            if self.is_ambiguous(error):
                raise AmbiguousFault from error

    def recompute_all(self, cause: BaseException) -> None:
        """Nothing that was computed lately can be trusted: all that run begin again, and are looked into."""
        scheduler = self._core.scheduler
        scheduler.sparse_budget.in_flight = 0  # nobody waits for that any more
        self.step_failed(tuple(scheduler.running), StepLost(InFlightStep()), cause)
        drop_frames(cause)


def drop_frames(error: BaseException | None) -> None:
    """Of an error that was handled: frames that hold it, and that its traceback holds, would hold all their
    sequences."""
    for _ in range(8):
        if error is None:
            return
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
