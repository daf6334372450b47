"""How long steps took: what the prefill budget and the draft lengths learn from."""

from __future__ import annotations

from paceline.engine.in_flight import InFlightStep
from paceline.engine.scheduler import Scheduler


class StepTimer:
    """A step's time is the time between two reads: the host runs one step behind the device."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.reset()

    def reset(self) -> None:
        """Nothing is running: the next step's time is not known."""
        self._read_at = 0.0
        self._shape: tuple[int, int, int] | None = None
        self._alike = 0  # steps of this shape in a row
        self._waited = False  # did the next step begin after the last was read?

    def read(self, step: InFlightStep, now: float) -> None:
        """Report how long a step took, if it and the two before had the same shape and only decoded. A step that began
        after the one before was read, as those do whose drafts the host knew, needs one before it, of any shape. Where
        sequences come and go, so do those with drafts of the device, and that is what they cost there."""
        seconds, known = now - self._read_at, self._read_at > 0.0
        draft_lengths, prefill_budget = self._scheduler.draft_lengths, self._scheduler.prefill_budget
        shape = None
        if step.decode_only and step.steady:
            shape = (draft_lengths.size(len(step.seqs)), step.head_length, step.host_length)
        if known and step.seqs and step.steady and (step.decode_only or step.prompt_tokens):
            prefill_budget.observe(step.prompt_tokens, seconds)
        self._alike = self._alike + 1 if shape is not None and shape == self._shape else 0
        if shape is not None and self._shape is not None and (shape[2] or self._waited):
            self._scheduler.draft_choice.timed(*shape, seconds)
        apart = shape is not None and self._shape is not None and shape[1] > 0 and step.waited
        if shape is not None and not shape[2] and (self._alike >= 2 or apart):
            draft_lengths.timed(*shape[:2], seconds)
        self._read_at, self._shape, self._waited = now, shape, step.needs_sync
