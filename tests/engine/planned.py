"""Plans with their sequences instead of ids: every plan goes through JSON and back, and sequences are admitted on the
way."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.engine.plan import Cause, StepPlan
from paceline.engine.scheduler import Scheduler
from paceline.engine.sequence import Sequence
from paceline.types import RequestId


@dataclass(frozen=True)
class Chunk:
    seq: Sequence
    tokens: int


@dataclass(frozen=True)
class Planned:
    decode: tuple[Sequence, ...] = ()
    depth: int = 0
    prefill: tuple[Chunk, ...] = ()
    encode: Sequence | None = None
    score: Sequence | None = None
    preempt: tuple[Sequence, ...] = ()
    cause: Cause = "memory"
    exceeds_memory: Sequence | None = None
    admitted: tuple[Sequence, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.decode or self.prefill or self.encode or self.score)


def planned(scheduler: Scheduler, now: float = 0.0) -> Planned:
    """The next plan that is more than to admit sequences, as an engine would have it."""
    admitted: list[Sequence] = []
    plan = _round_trip(scheduler.plan(now))
    while plan.admit and not plan.preempt:
        admitted += _rows(scheduler, plan.admit)
        plan = _round_trip(scheduler.plan(now))
    admitted += _rows(scheduler, plan.admit)
    for seq, draft in zip(_rows(scheduler, plan.decode), plan.drafts, strict=True):
        seq.draft.plan(draft)
    known = {seq.id: seq for seq in (*scheduler.running, *scheduler.waiting)}
    return Planned(
        _rows(scheduler, plan.decode),
        plan.draft_length,
        tuple(Chunk(known[chunk.id], chunk.tokens) for chunk in plan.prefill),
        known[plan.encode] if plan.encode else None,
        known[plan.score] if plan.score else None,
        _rows(scheduler, plan.preempt),
        plan.cause,
        known[plan.exceeds_memory] if plan.exceeds_memory else None,
        tuple(admitted),
    )


def _round_trip(plan: StepPlan) -> StepPlan:
    read = StepPlan.from_json(plan.to_json())
    assert read == plan and hash(read) == hash(plan)
    return read


def _rows(scheduler: Scheduler, ids: tuple[RequestId, ...]) -> tuple[Sequence, ...]:
    known = {seq.id: seq for seq in (*scheduler.running, *scheduler.waiting)}
    assert len(known) == len(scheduler.running) + len(scheduler.waiting), "ids are unique"
    return tuple(known[each] for each in ids)
