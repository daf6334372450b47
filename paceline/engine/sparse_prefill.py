"""Sparse prefill in the engine: the draft scores a prompt, a chunk per step, between decode steps; then the sequence
prefills only the tokens that are kept. Whatever fails, the whole prompt is prefilled."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import mlx.core as mx
import numpy as np

from paceline.cache.budget import Budget
from paceline.cache.memory_model import MemoryModel
from paceline.engine.runner import Runner
from paceline.engine.sequence import Sequence
from paceline.engine.speculation_policy import SpeculationMode
from paceline.sparse.rules import Outcome, Rules, SparseCounts, always, select
from paceline.sparse.scorer import LOOK_AHEAD, Draft, PromptScorer
from paceline.stats import SpecPrefillStats

log = logging.getLogger("paceline")
SPARSE = SpeculationMode(0, "plain: its prompt was prefilled sparsely")


class SparsePrefill:
    """On the engine's thread, except `stats`. `chunk`: tokens that the draft reads in one step."""

    def __init__(
        self,
        rules: Rules,
        draft: Draft,
        runner: Runner,
        chunk: int,
        *,
        special: frozenset[int] = frozenset(),
        memory_model: MemoryModel | None = None,
        budget: Budget | None = None,
        draft_name: str | None = None,
        draft_bytes: int = 0,
        on_kept: Callable[[Sequence], None] = lambda seq: None,
    ) -> None:
        self.rules = rules
        self.draft = draft
        self.runner = runner
        self.chunk = chunk
        self.special = special
        self.memory_model = memory_model or MemoryModel()
        self.budget = budget
        self.draft_name = draft_name
        self.draft_bytes = draft_bytes
        self.on_kept = on_kept  # a sequence has begun to skip tokens
        self.counts = SparseCounts()

    def on_arrival(self, seq: Sequence) -> None:
        seq.sparse.keep_ratio = self.rules.keep_ratio(seq.prompt, seq.sampling)
        seq.sparse.decided = seq.sparse.keep_ratio is None

    def on_admit(self, seq: Sequence) -> None:
        """A sequence that will not be sparse need not wait for a step to find out."""
        if not seq.sparse.decided and not seq.prefix.waiting:
            outcome = self._outcome(seq)
            if outcome != "sparse":
                self._decide(seq, outcome)

    def scoring_bytes(self, prompt: int) -> int:
        """Bytes that the draft needs to score a prompt."""
        return self.memory_model.row(prompt + LOOK_AHEAD) + self.memory_model.chunk(min(self.chunk, prompt), prompt)

    def advance(self, seq: Sequence) -> list[mx.array]:
        """The next part of scoring an undecided sequence: start, read a chunk, or choose. Returns arrays to wait
        for."""
        begun = time.perf_counter()
        scorer: PromptScorer | None = seq.sparse.scorer
        if scorer is None:
            outcome = self._outcome(seq)
            if outcome != "sparse":
                self._decide(seq, outcome)
                return []
            salt = seq.prompt.salt if seq.prompt.cached else None
            seq.sparse.scorer = scorer = self.draft.scorer(seq.prompt.token_ids, seq.prompt.boundaries, salt)
            self.counts.restored += scorer.restored
        if scorer.left:
            waits = scorer.read(self.chunk)
            self.counts.draft_seconds += time.perf_counter() - begun
            return waits
        self._choose(seq, scorer)
        return []

    def wait(self, arrays: list[mx.array]) -> None:
        """Wait for what `advance` submitted; raises its errors."""
        begun = time.perf_counter()
        mx.eval(arrays)
        self.counts.draft_seconds += time.perf_counter() - begun

    def _outcome(self, seq: Sequence) -> Outcome:
        outcome = self.rules.outcome(seq.sampling, len(seq.prompt.token_ids) - _begin(seq))
        if seq.sparse.keep_ratio is None or seq.sparse.keep_ratio >= 1.0:
            return "whole"
        if outcome == "sparse" and self.budget is not None:
            others = sum(held for name, held in self.budget.held().items() if not name.endswith("prefixes"))
            scoring = self.budget.holding("draft")  # what is reserved for this very sequence
            if self.budget.usable - others + scoring < self.scoring_bytes(len(seq.prompt.token_ids)):
                log.warning("request %s is read whole: there is no memory for the draft", seq.id)
                return "failed"
        return outcome

    def _choose(self, seq: Sequence, scorer: PromptScorer) -> None:
        begun = time.perf_counter()
        scores = scorer.scores()
        read = time.perf_counter()
        self.counts.draft_seconds += read - begun
        if not np.isfinite(scores).all():
            raise FloatingPointError("the draft's scores are not numbers")
        ids, whole = seq.prompt.token_ids, _begin(seq)
        kept = always(ids, seq.prompt.boundaries, self.special, seq.prompt.media_mask)
        kept[-1] = True
        chosen = select(scores[whole:], kept[whole:], seq.sparse.keep_ratio or 1.0) + whole
        self.runner.keep_only(seq, np.concatenate([np.arange(whole), chosen]), whole)
        # Up to the dense prefix other sequences may need the head's cache; without a prefix cache none does.
        seq.draft.mtp_prefill = seq.feeds_mtp and seq.prefix.key is not None and whole > seq.computed.tokens
        seq.speculation = SPARSE
        if not seq.draft.mtp_prefill:
            seq.draft.batch = seq.draft.last_hidden = None
        self.on_kept(seq)
        self.counts.scored += len(ids) - whole
        self.counts.kept += len(chosen)
        self.counts.select_seconds += time.perf_counter() - read
        self._decide(seq, "sparse")

    def fall_back_to_dense(self, seq: Sequence, error: Exception) -> None:
        """Scoring failed: the sequence's whole prompt is prefilled."""
        log.warning("request %s is read whole: its prompt could not be scored (%s)", seq.id, error)
        self._decide(seq, "failed")

    def _decide(self, seq: Sequence, outcome: Outcome) -> None:
        seq.sparse.scorer, seq.sparse.decided = None, True
        self.counts.outcomes[outcome] += 1

    def enforce_budget(self, *, everything: bool = False) -> None:
        """Report what the draft's cache holds to the budget, and evict what sequences need."""
        cache = self.draft.cache
        if cache is None:
            return
        cache.shrink(0 if everything else None, pinned=everything)
        if self.budget is not None:
            self.budget.hold("draft prefixes", cache.memory)
            room = self.budget.room("draft prefixes")
            if cache.memory > room:
                cache.shrink(room, pinned=True)
                self.budget.hold("draft prefixes", cache.memory)

    def clear(self) -> None:
        if self.draft.cache is not None:
            self.draft.cache.clear()
            self.enforce_budget()

    def stats(self) -> SpecPrefillStats:
        """For any thread."""
        rules, counts, cache = self.rules, self.counts, self.draft.cache
        return SpecPrefillStats(
            enabled=True,
            setting=rules.setting,
            threshold=rules.threshold,
            keep_pct=rules.keep,
            max_tokens=rules.most,
            chunk=self.chunk,
            window=self.draft.window,
            draft=self.draft_name,
            draft_bytes=self.draft_bytes,
            draft_cache_bytes=0 if cache is None else cache.memory,
            outcomes={outcome: count for outcome, count in counts.outcomes.items()},
            scored_tokens=counts.scored,
            kept_tokens=counts.kept,
            restored_draft_tokens=counts.restored,
            draft_seconds=counts.draft_seconds,
            select_seconds=counts.select_seconds,
        )


def _begin(seq: Sequence) -> int:
    """How many tokens are prefilled densely in any case: what is cached already; and if the server decided, not the
    request, the instructions too: they recur with every request, and only dense prefixes can be cached."""
    return seq.computed.tokens if seq.sampling.specprefill else max(seq.computed.tokens, seq.prompt.system)
