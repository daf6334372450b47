"""What the next step does, as a value: frozen, complete, and the same after a round trip through JSON.

Sequences are named by their request ids, so that another process that knows the same requests can execute the plan.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from paceline.engine.proposer import Draft
from paceline.types import RequestId

Cause = Literal["memory", "policy", "fault"]  # why a sequence is preempted


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    id: RequestId
    tokens: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Decoding is never skipped for prefill; prefill takes the step's token budget; one image per step; while streams
    run, a chunk of scoring replaces prefill in every other step.

    A plan with `admit`, `preempt` or `exceeds_memory` is no step: it is carried out first, and a new plan is made.
    """

    decode: tuple[RequestId, ...] = ()
    drafts: tuple[Draft, ...] = ()  # of each decoding sequence
    shorter: tuple[int, ...] = ()  # lengths that pay as well, best first: where the longest draft would be a new shape
    prefill: tuple[PrefillChunk, ...] = ()
    encode: RequestId | None = None  # its next image is encoded
    score: RequestId | None = None  # its prompt is scored by the draft (paceline/sparse)
    draft_prefill: tuple[PrefillChunk, ...] = ()  # what the draft model reads of decoding sequences
    admit: tuple[RequestId, ...] = ()  # these begin to run, from their longest cached prefix
    preempt: tuple[RequestId, ...] = ()  # these wait again, to be recomputed
    cause: Cause = "memory"  # of preempting
    exceeds_memory: RequestId | None = None  # it runs alone, and there is no memory for another token

    @property
    def empty(self) -> bool:
        return not (self.decode or self.prefill or self.encode or self.score)

    @property
    def is_step(self) -> bool:
        return not (self.admit or self.preempt or self.exceeds_memory is not None)

    @property
    def draft_length(self) -> int:
        """The longest of the step."""
        return max((draft.length for draft in self.drafts), default=0)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> StepPlan:
        fields: dict[str, Any] = json.loads(text)
        for name in ("decode", "shorter", "admit", "preempt"):
            fields[name] = tuple(fields[name])
        fields["drafts"] = tuple(Draft(**{**draft, "tokens": tuple(draft["tokens"])}) for draft in fields["drafts"])
        for name in ("prefill", "draft_prefill"):
            fields[name] = tuple(PrefillChunk(**chunk) for chunk in fields[name])
        return cls(**fields)
