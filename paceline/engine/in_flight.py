"""A step that was submitted: its sequences, its results, and the work beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import mlx.core as mx

from paceline.engine.draft_choice import waits_for_grammars
from paceline.engine.prefill_budget import SparseBudget
from paceline.engine.sampler import Sampled
from paceline.engine.sequence import Sequence
from paceline.types import SpeculationMethod, TokenLogprob

HOST_METHODS: tuple[SpeculationMethod, ...] = ("lookup", "grammar")


@dataclass(slots=True)
class Token:
    seq: Sequence
    token_id: int
    logprob: TokenLogprob | None
    drafted: bool = False  # by the draft, and accepted


class PromptWork:
    """Work of a step for a sequence that does not decode yet, and the arrays to wait for."""

    __slots__ = ("_preemptions", "arrays", "seq")

    def __init__(self, seq: Sequence, arrays: list[mx.array]) -> None:
        self.seq, self.arrays, self._preemptions = seq, arrays, seq.preemptions

    @property
    def is_current(self) -> bool:
        """False for a sequence that was preempted meanwhile: it is recomputed without this."""
        return self.seq.finished is None and self.seq.preemptions == self._preemptions


@dataclass(slots=True)
class InFlightStep:
    """A submitted step. `prefills` must be evaluated before the step is complete."""

    rows: list[Sequence | None] = field(default_factory=list)  # None: padding
    sampled: Sampled | None = None
    prefills: list[PromptWork] = field(default_factory=list)
    draft_length: int = 0  # of a speculative step: the most draft tokens of any sequence
    draft_lengths: list[int] = field(default_factory=list)  # of a speculative step, per row
    draft_methods: list[SpeculationMethod] = field(default_factory=list)  # of the same
    kept: list[int] = field(default_factory=list)  # of a speculative step, once read: tokens per row
    decode_only: bool = True  # nothing but decoding ran in this step
    waited: bool = False  # it was submitted after the one before was read
    steady: bool = True  # nothing was traced in it, or is about to be: its time is representative
    prompt_tokens: int = 0  # prefilled in this step, with their padding
    pooled: list[PromptWork] = field(default_factory=list)  # embeddings that are ready with this step
    sparse_seconds: float | None = None  # that sparse prefill has taken beside streams; None: there was none
    scored: list[PromptWork] = field(default_factory=list)  # sequences whose prompts were scored
    tokens: list[Token] | None = None  # that were read and not delivered; None: it was not read
    delivered: bool | None = None  # False: it was lost; None: neither yet

    @property
    def seqs(self) -> list[Sequence]:
        return [seq for seq in self.rows if seq is not None]

    @property
    def head_length(self) -> int:
        """The most draft tokens from a device proposer."""
        return max(self._lengths(certain=False), default=0)

    @property
    def host_length(self) -> int:
        """The most draft tokens that the host knew."""
        return max(self._lengths(certain=True), default=0)

    def _lengths(self, *, certain: bool) -> list[int]:
        methods = self.draft_methods or ["mtp"] * len(self.draft_lengths)
        pairs = zip(self.draft_lengths, methods, strict=True)
        return [length for length, method in pairs if (method in HOST_METHODS) == certain]

    def verified(self) -> Iterator[tuple[Sequence, int, SpeculationMethod, int]]:
        """Of a speculative step that was read: each sequence, its draft tokens, who proposed them, its kept tokens."""
        rows = zip(self.rows, self.draft_lengths, self.draft_methods, self.kept, strict=True)
        for seq, draft_length, method, kept in rows:
            if seq is not None:
                yield seq, draft_length, method, kept

    def count_sparse_work(self, seconds: float, budget: SparseBudget) -> None:
        """A chunk of sparse prefill is in flight beside streams; `seconds` of it are over."""
        if self.seqs:
            if self.sparse_seconds is None:
                self.sparse_seconds = 0.0
                budget.started()
            self.sparse_seconds += seconds

    @property
    def needs_sync(self) -> bool:
        """Must its tokens be known before the next decode step is planned? A draft model reads them, all but the last,
        which is the step's input."""
        if self.draft_length:
            return any(seq.grammar is not None or seq.uses_draft_model for seq in self.seqs)
        return waits_for_grammars(self.seqs)

    @property
    def result_pending(self) -> bool:
        """A speculative step whose lengths the host has not read yet."""
        return self.draft_length > 0 and not self.kept


class AmbiguousFault(Exception):
    """Work in flight failed, and it is unknown whose it was (the cause has the error)."""


class StepLost(Exception):
    """A step failed after its state was committed: its tokens are lost, and its sequences must be recomputed."""

    def __init__(self, step: InFlightStep) -> None:
        super().__init__("a step was lost")
        self.step = step
