"""Sparse prefill as the engine sees it: a row's prompt is scored by the draft, a chunk a step, between decode steps;
then the row is told which tokens to read. Whatever goes wrong, the row reads all of its prompt.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from paceline.cache.budget import Budget
from paceline.cache.memory_model import MemoryModel
from paceline.engine.routing import Route
from paceline.engine.row import Row
from paceline.engine.runner import Runner
from paceline.sparse.rules import Counts, Outcome, Rules
from paceline.sparse.scorer import LOOK_AHEAD, Draft, Scout
from paceline.sparse.select import always, select

log = logging.getLogger("paceline")
SPARSE = Route(0, "plain: its prompt was read sparsely")


class SparsePrefill:
    """On the engine's thread, but for `stats`. `chunk` is how many tokens the draft reads in one step."""

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
        about: dict[str, Any] | None = None,
        on_chosen: Callable[[Row], None] = lambda row: None,
    ) -> None:
        self.rules = rules
        self.draft = draft
        self.runner = runner
        self.chunk = chunk
        self.special = special
        self.memory_model = memory_model or MemoryModel()
        self.budget = budget
        self.about = about or {}
        self.on_chosen = on_chosen  # a row has left the path of its full prompt
        self.counts = Counts()
        vision = runner.model.vision
        self.image_token = None if vision is None else vision.image_token

    def arrive(self, row: Row) -> None:
        row.share = self.rules.share(row.prompt, row.sampling)
        row.decided = row.share is None

    def enter(self, row: Row) -> None:
        """It begins to run: if it is read whole, it need not wait for a step to find that out."""
        if not row.decided and not row.held:
            outcome = self._outcome(row)
            if outcome != "sparse":
                self._decide(row, outcome)

    def price(self, prompt: int) -> int:
        """Bytes that the draft takes for a prompt, while it is scored."""
        return self.memory_model.row(prompt + LOOK_AHEAD) + self.memory_model.chunk(min(self.chunk, prompt), prompt)

    def advance(self, row: Row) -> list[mx.array]:
        """A step of its own for a row that is not `decided`: begin, read on, or choose. Returns what to wait for."""
        begun = time.perf_counter()
        scout: Scout | None = row.scout
        if scout is None:
            outcome = self._outcome(row)
            if outcome != "sparse":
                self._decide(row, outcome)
                return []
            salt = row.prompt.salt if row.prompt.cached else None
            row.scout = scout = self.draft.scout(row.prompt.token_ids, row.prompt.marks, salt)
            self.counts.restored += scout.restored
        if scout.left:
            waits = scout.read(self.chunk)
            self.counts.draft_seconds += time.perf_counter() - begun
            return waits
        self._choose(row, scout)
        return []

    def wait(self, arrays: list[mx.array]) -> None:
        """For what `advance` submitted; raises what went wrong with it."""
        begun = time.perf_counter()
        mx.eval(arrays)
        self.counts.draft_seconds += time.perf_counter() - begun

    def _outcome(self, row: Row) -> Outcome:
        outcome = self.rules.outcome(row.sampling, len(row.prompt.token_ids) - _begin(row))
        if row.share is None or row.share >= 1.0:
            return "whole"
        if outcome == "sparse" and self.budget is not None:
            others = sum(held for name, held in self.budget.held().items() if not name.endswith("prefixes"))
            scoring = self.budget.holding("draft")  # what is set aside for this very row
            if self.budget.usable - others + scoring < self.price(len(row.prompt.token_ids)):
                log.warning("request %s is read whole: there is no memory for the draft", row.id)
                return "failed"
        return outcome

    def _choose(self, row: Row, scout: Scout) -> None:
        begun = time.perf_counter()
        scores = scout.scores()
        read = time.perf_counter()
        self.counts.draft_seconds += read - begun
        if not np.isfinite(scores).all():
            raise FloatingPointError("the draft's scores are not numbers")
        ids, whole = row.prompt.token_ids, _begin(row)
        kept = always(ids, row.prompt.marks, self.special, self.image_token)
        kept[-1] = True
        chosen = select(scores[whole:], kept[whole:], row.share or 1.0) + whole
        self.runner.choose(row, np.concatenate([np.arange(whole), chosen]), whole)
        # Up to there, others may need what the head reads; where nothing is kept, nobody does.
        row.feeds = row.reads and row.cache_key is not None and whole > row.prefilled
        row.route = SPARSE
        if not row.feeds:
            row.head = row.carry = None
        self.on_chosen(row)
        self.counts.scored += len(ids) - whole
        self.counts.kept += len(chosen)
        self.counts.select_seconds += time.perf_counter() - read
        self._decide(row, "sparse")

    def give_up(self, row: Row, error: Exception) -> None:
        """Scoring went wrong: the row reads all of its prompt, and nobody else notices."""
        log.warning("request %s is read whole: its prompt could not be scored (%s)", row.id, error)
        self._decide(row, "failed")

    def _decide(self, row: Row, outcome: Outcome) -> None:
        row.scout, row.decided = None, True
        self.counts.outcomes[outcome] += 1

    def give_way(self, *, everything: bool = False) -> None:
        """Write down what the draft keeps, and give back what rows need."""
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
            self.give_way()

    def stats(self) -> dict[str, Any]:
        """For any thread."""
        rules = self.rules
        cache = self.draft.cache
        return {
            "enabled": True,
            "setting": rules.setting,
            "threshold": rules.threshold,
            "keep_pct": rules.keep,
            "max_tokens": rules.most,
            "chunk": self.chunk,
            "window": self.draft.window,
            **self.about,
            **self.counts.stats(),
            "draft_cache_bytes": 0 if cache is None else cache.memory,
        }


def _begin(row: Row) -> int:
    """How much of its prompt is read whole in any case. What is there already; and where the server decides, not the
    request, the instructions too: they come back with every request, and only what was read whole can be cached."""
    return row.prefilled if row.sampling.specprefill else max(row.prefilled, row.prompt.system)
