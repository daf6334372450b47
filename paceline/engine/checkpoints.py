"""Where the prefill of a prompt stores checkpoints: plain numbers, no MLX.

A checkpoint costs as much as prefilling a few tokens (`python -m benchmarks prefix-overhead`), and most are never
used. So short prompts leave none, and turn ends close together share one. Where a checkpoint ends a pass (a GPU's
padded passes), a second one follows that mostly launches kernels: then it costs as much as hundreds of tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

MIN_STORED = 64
MIN_SHARED = 16  # tokens of an answer that are worth storing


@dataclass(frozen=True, slots=True)
class Worth:
    """How many tokens are worth a checkpoint."""

    stored: int = MIN_STORED  # a shorter prefix is not stored, unless another sequence waits for it
    first: int = MIN_SHARED  # between what is cached and the first checkpoint inside a prompt
    apart: int = MIN_STORED  # between two checkpoints inside a prompt
    awaited: int = MIN_SHARED  # a sequence waits for another that is computing so many of its tokens

    @classmethod
    def where_passes_split(cls, overhead: int) -> Worth:
        """`overhead`: a pass of few tokens takes as long as so many tokens more in a wide one. It is assumed that every
        second checkpoint is used."""
        worth = max(2 * overhead, MIN_STORED)
        return cls(worth, first=worth, apart=worth, awaited=max(overhead // 2, MIN_SHARED))


CHEAP = Worth()
CHECKPOINT_EVERY = 4096  # tokens between two checkpoints of a long prefill, at most
HISTORY_SPACING = 1 / 8  # of its position: how far the end of an old turn must be from the checkpoint before it
ROPE_BLOCK = 2048  # keys of a dynamic RoPE depend on the prompt's length except at multiples of this


def choose(begin: int, last: int, boundaries: Sequence[int], known: int = 0, worth: Worth = CHEAP) -> list[int]:
    """Positions in (begin, last]: cache boundaries, the end, where the prompt left another's path, regular distances.

    The first `begin` tokens are restored. Of the first `known` the keys and values are cached, but not the state.
    """
    if last < worth.stored:
        return []
    wanted = {last}
    inside = [boundary for boundary in boundaries if begin + worth.first <= boundary <= last]
    # The end of the system prompt, if it is not cached yet; the start of the last turn.
    wanted.update(inside[:1] + inside[-1:])
    before = begin
    for boundary in inside:
        if boundary - before >= max(HISTORY_SPACING * boundary, worth.apart):
            wanted.add(boundary)
            before = boundary
    if begin + worth.first <= known <= last:
        wanted.add(known)
    return _at_most_apart(begin, wanted)


def rope_blocks(begin: int, last: int) -> list[int]:
    """Positions in (begin, last] for a model with dynamic RoPE scaling."""
    return list(range(begin // ROPE_BLOCK * ROPE_BLOCK + ROPE_BLOCK, last + 1, ROPE_BLOCK))


def _at_most_apart(begin: int, wanted: Collection[int]) -> list[int]:
    stops: list[int] = []
    before = begin
    for stop in sorted(wanted):
        while stop - before > CHECKPOINT_EVERY:
            before += CHECKPOINT_EVERY
            stops.append(before)
        if stop > before:
            stops.append(stop)
            before = stop
    return stops
