"""What the next step does, as a value: frozen, complete, and the same after a round trip through JSON.

Sequences are named by their request ids, so that another process that knows the same requests can execute the plan.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from paceline.types import RequestId

Cause = Literal["memory", "policy", "fault"]  # why a row is preempted


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    id: RequestId
    tokens: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Decode rows are never skipped for prefill; prefill takes the step's token budget; one picture a step; while
    streams run, a chunk of scoring takes the place of prefill in every other step.

    A plan with `admit`, `preempt` or `exceeds_memory` is no step: it is carried out first, and a new plan made.
    """

    decode: tuple[RequestId, ...] = ()
    draft_lengths: tuple[int, ...] = ()  # of each row that decodes
    prefill: tuple[PrefillChunk, ...] = ()
    encode: RequestId | None = None  # its next picture is encoded
    score: RequestId | None = None  # its prompt is scored on by the draft (paceline/sparse)
    admit: tuple[RequestId, ...] = ()  # these begin to run, from the longest prefix that is cached
    preempt: tuple[RequestId, ...] = ()  # these lose what was computed, and wait again
    cause: Cause = "memory"  # of preempting
    exceeds_memory: RequestId | None = None  # it is alone, and the memory does not suffice for another token of it

    @property
    def empty(self) -> bool:
        return not (self.decode or self.prefill or self.encode or self.score)

    @property
    def is_step(self) -> bool:
        return not (self.admit or self.preempt or self.exceeds_memory is not None)

    @property
    def draft_length(self) -> int:
        """Of the row that has most."""
        return max(self.draft_lengths, default=0)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> StepPlan:
        fields: dict[str, Any] = json.loads(text)
        for name in ("decode", "draft_lengths", "admit", "preempt"):
            fields[name] = tuple(fields[name])
        fields["prefill"] = tuple(PrefillChunk(**chunk) for chunk in fields["prefill"])
        return cls(**fields)
