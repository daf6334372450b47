"""Which prompts are prefilled sparsely, and which of their tokens are kept. No MLX."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from paceline.types import Prompt, Sampling

Setting = Literal["off", "auto"]
# All but "sparse" are read whole: nothing to leave out, too short, too long, or scoring failed.
Outcome = Literal["sparse", "whole", "short", "long", "failed"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
NO_DRAFT = "no draft model is loaded (--specprefill-draft-model)"  # why nothing is prefilled sparsely
MIN_KEEP_RATIO, MAX_KEEP_RATIO = 0.1, 1.0
SHORTEST = 256  # tokens; shorter prompts are read whole, even if the request asks for sparse prefill


@dataclass(frozen=True, slots=True)
class Rules:
    """The server's settings; a request's own settings override them."""

    setting: Setting = "off"
    threshold: int = 8192  # uncached tokens from which `auto` applies
    keep: float = 0.3
    most: int = 196_608  # prompts of more uncached tokens are read whole

    def keep_ratio(self, prompt: Prompt, sampling: Sampling) -> float | None:
        """The keep ratio of a request's prompt; None: the prompt is read whole, and not counted."""
        wanted = self.setting == "auto" if sampling.specprefill is None else sampling.specprefill
        if not wanted or prompt.pooling is not None or sampling.prompt_logprobs is not None:
            return None
        return self.keep if sampling.specprefill_keep is None else sampling.specprefill_keep

    def outcome(self, sampling: Sampling, uncached: int) -> Outcome:
        """The outcome for a prompt with so many uncached tokens, whose request wants sparse prefill."""
        if uncached > self.most:
            return "long"
        least = SHORTEST if sampling.specprefill else max(self.threshold, SHORTEST)
        return "sparse" if uncached >= least else "short"


@dataclass(slots=True)
class SparseCounts:
    """Totals since the start. The engine's thread writes them, any thread reads them."""

    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    scored: int = 0  # prompt tokens that the draft scored
    kept: int = 0  # scored tokens that the model read
    restored: int = 0  # prompt tokens in the draft's own prefix cache
    draft_seconds: float = 0.0  # submitting and waiting for the draft
    select_seconds: float = 0.0


# -- selection

CHUNK = 16  # tokens that are ranked together
SPAN = 3 * CHUNK  # a chunk is kept with those on both sides: what is said in a sentence is not cut in two
HEAD = 64  # first tokens, always kept: attention sinks, and the start of the system prompt
TAIL = 128  # last tokens, always kept: the question
SHORT_TURN = 512  # tokens; a last turn of at most this length is kept whole


def always(
    token_ids: Sequence[int],
    boundaries: Sequence[int],
    special: Collection[int],
    media: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Tokens that are kept whatever their scores: the head, the last turn's tail, special tokens and those of media.

    `boundaries` are the prompt's cache boundaries, where turns begin.
    """
    ids = np.asarray(token_ids)
    kept = np.isin(ids, np.fromiter(special, dtype=ids.dtype, count=len(special)))
    if media is not None:
        kept |= media
    kept[:HEAD] = True
    turn = len(ids) - max((boundary for boundary in boundaries if boundary < len(ids)), default=len(ids))
    kept[-(turn if TAIL < turn <= SHORT_TURN else TAIL) :] = True
    return kept


def select(scores: NDArray[np.float32], kept: NDArray[np.bool_], keep_ratio: float) -> NDArray[np.int64]:
    """The kept indices, rising: the tokens in `kept`, then chunks by their scores, each with its neighbours, until
    `keep_ratio` of all are there.

    Of chunks with equal scores the later one is taken, because it is nearer to the question.
    """
    count = len(scores)
    wanted = int(np.ceil(keep_ratio * count))
    starts = np.arange(0, count, CHUNK)
    sizes = np.diff(np.append(starts, count))
    means = np.add.reduceat(np.nan_to_num(scores.astype(np.float64)), starts) / sizes
    order = np.lexsort((-starts, -means))
    taken = kept.copy()
    have = int(taken.sum())
    for start in starts[order].tolist():
        if have >= wanted:
            break
        span = taken[max(start - CHUNK, 0) : start + 2 * CHUNK]
        have += int(np.count_nonzero(~span))
        span[:] = True
    return np.flatnonzero(taken).astype(np.int64)
