"""What happens when work fails: which sequence is at fault, which are recomputed, and when the engine gives up.

An error in one sequence's own work ends that sequence. An error in a shared step is isolated by retrying
(engine/fault_isolation). Out of memory is nobody's fault: less is done from then on. Where the device reports errors
later than the call that caused them, an error may belong to any sequence: then all are recomputed, and work is awaited
piece by piece until the fault is found.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from paceline.engine.fault_isolation import is_out_of_memory
from paceline.engine.in_flight import AmbiguousFault, InFlightStep, StepLost
from paceline.engine.sequence import Sequence
from paceline.errors import InvalidRequest

if TYPE_CHECKING:
    from paceline.engine.core import EngineCore

log = logging.getLogger("paceline")
MAX_FAILING_STEPS = 16  # in a row before the engine gives up: more than it takes to find one sequence among 1,000
MAX_OOM_RETRIES = 3  # of a sequence that runs out of memory by itself


class Faults:
    def __init__(self, core: EngineCore) -> None:
        self._core = core
        self._failing = 0  # in a row

    @property
    def serial(self) -> bool:
        """While a fault is isolated, each piece of work is awaited before the next is submitted: an error then belongs
        to the piece that raised it."""
        return self._core.runner.reports_late and self._core.scheduler.isolation.active

    # -- work of one sequence

    def guard(self, seq: Sequence, work: Callable[[], None]) -> None:
        """Run host work of one sequence: an error ends that sequence only."""
        try:
            work()
        except Exception as error:  # noqa: BLE001
            self._fail(seq, error)

    def run_for_one(self, seq: Sequence, work: Callable[[], None], *, waited: bool = False) -> None:
        """Run work of one sequence that does not decode yet. Out of memory: free some, and recompute it. `waited`: the
        work was submitted before."""
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
            if seq not in core.runner.seqs:  # once it has joined the batch, its step in flight will report the error
                core.preempt([seq], "memory", keep=False)

    @contextmanager
    def or_dense(self, seq: Sequence, *, waited: bool = False) -> Iterator[None]:
        """If scoring fails, the sequence's whole prompt is prefilled."""
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

    # -- work that belongs to no sequence

    def attempt(self, work: Callable[[], Any]) -> Any:
        """Work between steps: an error must not end the thread, and must not repeat for ever."""
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

    # -- shared steps

    def step_succeeded(self, seqs: Collection[Sequence]) -> None:
        self._failing = 0
        self._core.scheduler.isolation.succeeded(seqs)

    def device_works(self) -> None:
        """An embedding came out. Whose fault a failing decode step is, that does not say."""
        if not self._core.scheduler.isolation.active:
            self._failing = 0

    def step_lost(self, in_flight: InFlightStep, cause: BaseException) -> None:
        """A step failed after it was committed."""
        self.step_failed(in_flight.seqs, StepLost(in_flight), cause)

    def step_failed(self, seqs: Collection[Sequence], error: Exception, cause: BaseException | None = None) -> None:
        """A step of these sequences failed. The culprit is found by retrying (engine/fault_isolation); the others
        continue.

        After a StepLost nothing in the common batch can be trusted: all its sequences are recomputed.
        """
        core, scheduler, runner = self._core, self._core.scheduler, self._core.runner
        lost = isinstance(error, StepLost)
        for seq in seqs:
            seq.draft_model_off = True  # whoever is at fault: no draft is worth another failure
        cause = cause or (error.__cause__ if lost else None) or error
        out_of_memory = is_out_of_memory(cause)
        if not out_of_memory:
            self._count(cause)
        if lost:
            members = runner.seqs
            runner.reset()  # first: what was lost has no lengths, so that no single row can leave
            core.preempt([seq for seq in members if seq in scheduler.running], "fault", keep=False)
            unsettled = [seq for seq in seqs if seq in scheduler.running]  # those that had not joined yet
            core.preempt(unsettled, "fault", keep=False)
        else:
            runner.sampler.forget()  # it may have counted tokens that were never delivered
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
        """A step ran out of memory: evict everything, and run fewer sequences."""
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
        """MLX is out of memory: evict prefixes, and shrink chunks."""
        core = self._core
        core.counters.out_of_memory += 1
        log.warning("out of memory: prefixes are dropped and chunks shrink (%s)", error)
        core.scheduler.prefill_budget.shrink()
        if core.prefix is not None:
            self.attempt(core.prefix.evict)
        if core.sparse is not None:
            self.attempt(partial(core.sparse.enforce_budget, everything=True))
        mx.clear_cache()

    # -- devices that report errors later

    def is_ambiguous(self, error: BaseException, seq: Sequence | None = None, *, waited: bool = False) -> bool:
        """May this error belong to work that was submitted earlier, by any sequence? (`seq`: whose work raised it.)
        Errors of the host, and failed allocations at submission, are what they seem."""
        core = self._core
        if not core.runner.reports_late or self.serial or core.scheduler.running == [seq]:
            return False
        return waited or (type(error) is RuntimeError and not is_out_of_memory(error))

    def check_tolerated(self) -> None:
        """A tolerated error of the prefix cache may have been caused by another sequence's work."""
        prefix = self._core.prefix
        if prefix is not None and prefix.tolerated_error is not None:
            error, prefix.tolerated_error = prefix.tolerated_error, None
            if self.is_ambiguous(error):
                raise AmbiguousFault from error

    def recompute_all(self, cause: BaseException) -> None:
        """Nothing that was computed lately can be trusted: all running sequences are recomputed, and the fault is
        isolated."""
        scheduler = self._core.scheduler
        scheduler.sparse_budget.in_flight = 0  # these chunks are lost
        self.step_failed(tuple(scheduler.running), StepLost(InFlightStep()), cause)
        drop_frames(cause)


def drop_frames(error: BaseException | None) -> None:
    """Of a handled error: its traceback's frames would keep all their sequences alive."""
    for _ in range(8):
        if error is None:
            return
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
