"""Which prompts are read sparsely, and how much of them is kept. No MLX."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

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


CHUNK = 32  # tokens that are kept or left together
HEAD = 64  # first tokens of a prompt: where attention rests, and the system prompt's opening
TAIL = 128  # last tokens: what is asked
SHORT_TURN = 512  # tokens: a last turn that is not longer is kept whole


def always(
    token_ids: Sequence[int], marks: Sequence[int], special: Collection[int], media: int | None
) -> NDArray[np.bool_]:
    """Tokens that must not be left out, whatever their scores: the head, the last turn's tail, special and media
    tokens. `marks` are where turns begin (types)."""
    ids = np.asarray(token_ids)
    kept = np.isin(ids, np.fromiter(special, dtype=ids.dtype, count=len(special)))
    if media is not None:
        kept |= ids == media
    kept[:HEAD] = True
    turn = len(ids) - max((mark for mark in marks if mark < len(ids)), default=len(ids))
    kept[-(turn if TAIL < turn <= SHORT_TURN else TAIL) :] = True
    return kept


def select(
    scores: NDArray[np.float32], kept: NDArray[np.bool_], keep_ratio: float, chunk: int = CHUNK
) -> NDArray[np.int64]:
    """Indices of the tokens to read, rising: those that are `kept` anyway, then whole chunks, the best first, until
    `share` of all tokens are there. Equal scores: the later chunk, for it is nearer to what is asked."""
    count = len(scores)
    wanted = int(np.ceil(keep_ratio * count))
    chunks = -(-count // chunk)
    sums = np.add.reduceat(np.nan_to_num(scores.astype(np.float64)), np.arange(0, count, chunk))
    sizes = np.diff(np.append(np.arange(0, count, chunk), count))
    order = np.lexsort((-np.arange(chunks), -sums / sizes))
    taken = kept.copy()
    have = int(taken.sum())
    for place in order.tolist():
        if have >= wanted:
            break
        part = slice(place * chunk, min((place + 1) * chunk, count))
        have += int(sizes[place] - taken[part].sum())
        taken[part] = True
    return np.flatnonzero(taken).astype(np.int64)
