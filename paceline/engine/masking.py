"""What grammars allow, applied to scores. Masks travel to the device as bits, of the rows that have a grammar."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline.types import INHERITS, Grammar, is_forcing

LOWEST = -1e30  # a finite stand-in for the sum of nothing
CACHED = 64  # masks of `MaskCache`, up to 32 KB each


def masked(scores: mx.array, allowed: mx.array) -> mx.array:
    """`allowed` (..., vocabulary) is boolean, or of `types.INHERITS` where tokens take over others' probability.

    Where a model may call a tool or write in a format, and would rather write prose, plain masking leaves a choice
    between two things that it does not want, and a call may win with a probability of one in a thousand. So all that is
    not a call's beginning counts as the wish for text: the probability of what is refused goes to the tokens that begin
    the text, in proportion to their own.
    """
    if allowed.dtype == mx.bool_:
        return mx.where(allowed, scores, -mx.inf)
    inheriting, plain = allowed == INHERITS, allowed == 1
    unlisted_mass = mx.logsumexp(mx.where(plain, -mx.inf, scores), axis=-1, keepdims=True)
    own = mx.logsumexp(mx.where(inheriting, scores, -mx.inf), axis=-1, keepdims=True)
    inherited = scores - mx.maximum(own, LOWEST) + unlisted_mass
    return mx.where(inheriting, inherited, mx.where(plain, scores, -mx.inf))


Bits = tuple[NDArray[np.uint32], NDArray[np.uint32] | None]  # what is allowed, and which of it inherits


def packed(dense: NDArray[np.bool_] | NDArray[np.uint8]) -> Bits:
    """A mask (..., vocabulary), with 32 tokens in a number."""
    allowed = _packed(dense != 0)
    return allowed, None if dense.dtype == np.bool_ else _packed(dense == INHERITS)


def _packed(values: NDArray[np.bool_]) -> NDArray[np.uint32]:
    room = -values.shape[-1] % 32
    padded = np.pad(values, [*[(0, 0)] * (values.ndim - 1), (0, room)])
    return np.packbits(padded, axis=-1, bitorder="little").view("<u4").astype(np.uint32)


def bits_of(grammar: Grammar, draft_tokens: Sequence[int], said: Sequence[int] = ()) -> Bits:
    """A grammar's mask now and after each draft token. `said`: tokens that the sequence has, and that the grammar has
    not accepted yet."""
    if is_forcing(grammar):
        return grammar.packed(draft_tokens, said)
    return packed(grammar.allowed((*said, *draft_tokens))[len(said) :])


class MaskCache:
    """Masks that are on the device. Answers come back to the same few states, and a mask that was sent before need not
    be sent again: on CUDA, memory that the host has written moves to the device page by page."""

    def __init__(self, size: int = CACHED) -> None:
        self._size = size
        self._masks: OrderedDict[bytes, mx.array] = OrderedDict()

    def __call__(self, bits: NDArray[np.uint32]) -> mx.array:
        key = bits.tobytes()
        known = self._masks.get(key)
        if known is None:
            known = self._masks[key] = mx.array(bits)
            if len(self._masks) > self._size:
                self._masks.popitem(last=False)
        else:
            self._masks.move_to_end(key)
        return known


@lru_cache(maxsize=64)
def _rows(ruled: tuple[int, ...], rows: int) -> tuple[mx.array, mx.array]:
    """For each row of a batch: its mask, by place in `ruled`; and whether it has none."""
    which = [ruled.index(row) if row in ruled else 0 for row in range(rows)]
    return mx.array(which), mx.array([row not in ruled for row in range(rows)])


@dataclass(frozen=True, slots=True)
class PackedMasks:
    """Masks of some rows of a batch, by place in the step or for one place."""

    which: mx.array | None  # of `bits`, for each row of the batch; None: there is one
    free: mx.array  # the rows that have no mask
    bits: mx.array  # (masks, [places,] words)
    inheriting: mx.array | None

    @classmethod
    def of(
        cls, masks: dict[int, Bits], rows: int, places: int | None, send: Callable[[NDArray[Any]], mx.array] = mx.array
    ) -> PackedMasks:
        """For a batch of `rows`; `places` None: for one place. Of a row's places that have no mask, all is allowed."""
        which, free = _rows(tuple(masks), rows)
        bits = _stacked([allowed for allowed, _ in masks.values()], places, 0xFFFFFFFF)
        inheriting = None
        if any(mine is not None for _, mine in masks.values()):
            each = [np.zeros_like(allowed) if mine is None else mine for allowed, mine in masks.values()]
            inheriting = mx.array(_stacked(each, places, 0))
        sent = send(bits) if len(masks) == 1 and places is None else mx.array(bits)
        return cls(which if len(masks) > 1 else None, free, sent, inheriting)

    def at(self, place: int) -> PackedMasks:
        inheriting = None if self.inheriting is None else self.inheriting[:, place]
        return replace(self, bits=self.bits[:, place], inheriting=inheriting)

    def apply(self, scores: mx.array) -> mx.array:
        """Scores (rows of the batch, [places,] vocabulary)."""
        apply = _applied if mx.default_device() == mx.Device(mx.cpu) else _compiled
        return apply(scores, self.which, self.free, self.bits, self.inheriting, _lanes())


def _stacked(parts: list[NDArray[np.uint32]], places: int | None, rest: int) -> NDArray[np.uint32]:
    """Of each row (places, words), filled up with `rest`."""
    if places is None:
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    stacked = np.full((len(parts), places, parts[0].shape[-1]), rest, dtype=np.uint32)
    for mine, part in zip(stacked, parts, strict=True):
        mine[: len(part)] = part
    return stacked


def _applied(
    scores: mx.array,
    which: mx.array | None,
    free: mx.array,
    bits: mx.array,
    inheriting: mx.array | None,
    lanes: mx.array,
) -> mx.array:
    """For all rows at once: to take the few rows out and put them back is more work for the host. Compiled, a plain
    mask is one kernel: scores are seen as words of 32, so that no mask is written out."""
    free = free.reshape(-1, *[1] * scores.ndim)
    allowed = _expanded(bits, which, lanes) | free
    if inheriting is None and scores.shape[-1] % 32 == 0:
        return mx.where(allowed, scores.reshape(*scores.shape[:-1], -1, 32), -mx.inf).reshape(scores.shape)
    if inheriting is not None:
        inherits = _expanded(inheriting, which, lanes) & ~free
        allowed = allowed.astype(mx.uint8) + inherits.astype(mx.uint8)
    return masked(scores, allowed.reshape(*allowed.shape[:-2], -1)[..., : scores.shape[-1]])


_compiled = mx.compile(_applied)  # on a CPU this would need a C++ compiler


@cache
def _lanes() -> mx.array:
    return mx.array(np.arange(32, dtype=np.uint32))


def _expanded(bits: mx.array, which: mx.array | None, lanes: mx.array) -> mx.array:
    """From 32 tokens in a number to one, for each row: (..., words, 32)."""
    each = bits if which is None else bits[which]
    return ((each[..., None] >> lanes) & 1) == 1
