"""Which tokens of a prompt are read: the best chunks by their scores, and those that are always kept. No MLX."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

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
