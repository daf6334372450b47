"""An engine stepped by hand whose long prompts are scored, by a real draft or by scores that a test gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline.cache.prefix import PrefixCache
from paceline.engine import sequence
from paceline.engine.sparse_prefill import SparsePrefill
from paceline.models.adapter import accept_position_ids
from paceline.sparse.rules import Rules
from paceline.sparse.scorer import Draft
from paceline.types import Prompt, Sampling
from tests.engine.stepper import Heard, Stepper, loaded

Scores = Callable[[Sequence[int]], NDArray[np.float32]]


class Given:
    """In place of a draft: scores from a function, after as many steps as reading would take."""

    cache = None
    window = None

    def __init__(self, scores: Scores) -> None:
        self.of = scores
        self.begun = 0

    def scorer(self, tokens: Sequence[int], boundaries: Sequence[int] = (), salt: str | None = "") -> GivenScorer:
        self.begun += 1
        return GivenScorer(self.of, tokens)


class GivenScorer:
    restored = 0

    def __init__(self, of: Scores, tokens: Sequence[int]) -> None:
        self.of, self.tokens, self.left = of, tokens, len(tokens)

    def read(self, count: int) -> list[mx.array]:
        self.left = max(self.left - count, 0)
        return []

    def scores(self) -> NDArray[np.float32]:
        return self.of(self.tokens)


def ranked(seed: int = 3) -> Scores:
    """Scores that depend on nothing but the prompt's length."""
    return lambda tokens: np.random.default_rng([seed, len(tokens)]).random(len(tokens), dtype=np.float32)


class SparseStepper(Stepper):
    def __init__(
        self,
        folder: Path | str,
        layout: str = "rows",
        *,
        draft: Path | str | None = None,
        scores: Scores | None = None,
        rules: Rules | None = None,
        read: int = 64,
        draft_cache: int | None = None,
        special: frozenset[int] = frozenset(),
        **options: Any,
    ) -> None:
        super().__init__(folder, layout, **options)
        assert accept_position_ids(self.model.language) is None
        if draft is not None:
            cache = None if draft_cache is None else PrefixCache(lambda: draft_cache)
            scorer: Any = Draft(loaded(draft).language, cache)
        else:
            scorer = Given(scores or ranked())
        rules = rules or Rules("auto", threshold=256, keep=0.4)
        self.sparse = SparsePrefill(rules, scorer, self.runner, read, special=special)
        self.engine.sparse = self.sparse
        if self.engine.prefix is not None:
            self.sparse.on_kept = self.engine.prefix.on_kept

    def set_back(self) -> sequence.Sequence:
        """The only sequence that runs begins again, as it would to make room. Nothing of it is under way then."""
        self.settle()
        (seq,) = self.engine.scheduler.running
        self.engine.preempt([seq], "policy")
        return seq

    def scored(self, name: str, prompt: Prompt | Sequence[int], tokens: int, **more: Any) -> Heard:
        """Greedy, with log probabilities."""
        sampling = Sampling(temperature=0, max_tokens=tokens, ignore_eos=True, logprobs=5, **more)
        return self.submit(name, prompt, sampling)


def kept(heard: Heard) -> int | None:
    usage = heard.deltas[-1].usage
    assert usage is not None
    return usage.kept_tokens
