"""Which prompts are read sparsely, and how much of them is kept. No MLX."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from paceline.types import Prompt, Sampling

Setting = Literal["off", "auto"]
# Read whole: all of it is to be kept; it is too short, or too long; scoring went wrong.
Outcome = Literal["sparse", "whole", "short", "long", "failed"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
NO_DRAFT = "no draft model is loaded (--specprefill-draft-model)"  # why nothing is read sparsely
MIN_KEEP_RATIO, MAX_KEEP_RATIO = 0.1, 1.0
SHORTEST = 256  # tokens: less than this is never worth it, even for whoever asks


@dataclass(frozen=True, slots=True)
class Rules:
    """What the server is set to; a request's own word is stronger."""

    setting: Setting = "off"
    threshold: int = 8192  # uncached prompt tokens from which on `auto` reads sparsely
    keep: float = 0.3
    most: int = 196_608  # uncached prompt tokens beyond which a prompt is read whole

    def keep_ratio(self, prompt: Prompt, sampling: Sampling) -> float | None:
        """The share of the prompt that this request wants kept; None: it is read whole, and nobody asks why."""
        wanted = self.setting == "auto" if sampling.specprefill is None else sampling.specprefill
        if not wanted or prompt.pooling is not None or sampling.prompt_logprobs is not None:
            return None
        return self.keep if sampling.specprefill_keep is None else sampling.specprefill_keep

    def outcome(self, sampling: Sampling, uncached: int) -> Outcome:
        """What becomes of a prompt with so many tokens to compute, whose request wants it."""
        if uncached > self.most:
            return "long"
        least = SHORTEST if sampling.specprefill else max(self.threshold, SHORTEST)
        return "sparse" if uncached >= least else "short"


@dataclass(slots=True)
class SparseCounts:
    """Since the start; written by the engine's thread, read by anyone."""

    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    scored: int = 0  # prompt tokens that the draft has scored
    kept: int = 0  # of those, tokens that the model read
    restored: int = 0  # prompt tokens whose keys the draft had in its own cache
    draft_seconds: float = 0.0  # submitting and waiting for the draft
    select_seconds: float = 0.0

    def stats(self) -> dict[str, Any]:
        return {
            "outcomes": dict(self.outcomes),
            "scored_tokens": self.scored,
            "kept_tokens": self.kept,
            "restored_draft_tokens": self.restored,
            "draft_seconds": self.draft_seconds,
            "select_seconds": self.select_seconds,
        }
