"""What grammars allow, applied to scores. Masks travel to the device as bits, of the rows that have a grammar."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline.engine.logits_processors import replaced
from paceline.types import INHERITS, ForcingGrammar, Grammar

LOWEST = -1e30  # a finite stand-in for the sum of nothing


def masked(scores: mx.array, allowed: mx.array) -> mx.array:
    """`allowed` (..., vocabulary) is boolean, or of `types.INHERITS` where tokens take over others' probability.

    Where a model may call a tool or write in a format, and would rather write prose, plain masking leaves a choice
    between two things that it does not want, and a call may win with a probability of one in a thousand. So all that is
    not a call's beginning counts as the wish for text: the probability of what is refused goes to the tokens that begin
    the text, in proportion to their own.
    """
    if allowed.dtype == mx.bool_:
        return mx.where(allowed, scores, -mx.inf)
    heirs, plain = allowed == INHERITS, allowed == 1
    estate = mx.logsumexp(mx.where(plain, -mx.inf, scores), axis=-1, keepdims=True)
    own = mx.logsumexp(mx.where(heirs, scores, -mx.inf), axis=-1, keepdims=True)
    inherited = scores - mx.maximum(own, LOWEST) + estate
    return mx.where(heirs, inherited, mx.where(plain, scores, -mx.inf))


Bits = tuple[NDArray[np.uint32], NDArray[np.uint32] | None]  # what is allowed, and which of it inherits


def packed(dense: NDArray[np.bool_] | NDArray[np.uint8]) -> Bits:
    """A mask (..., vocabulary), with 32 tokens in a number."""
    allowed = _packed(dense != 0)
    return allowed, None if dense.dtype == np.bool_ else _packed(dense == INHERITS)


def _packed(values: NDArray[np.bool_]) -> NDArray[np.uint32]:
    room = -values.shape[-1] % 32
    padded = np.pad(values, [*[(0, 0)] * (values.ndim - 1), (0, room)])
    return np.packbits(padded, axis=-1, bitorder="little").view("<u4").astype(np.uint32)


def bits_of(grammar: Grammar, draft_tokens: tuple[int, ...]) -> Bits:
    """A grammar's mask now and after each draft token."""
    if isinstance(grammar, ForcingGrammar):
        return grammar.packed(draft_tokens)
    return packed(grammar.allowed(draft_tokens))


@dataclass(frozen=True, slots=True)
class PackedMasks:
    """Masks of some rows of a batch, by place in the step or for one place."""

    rows: mx.array  # which rows
    bits: mx.array  # (rows, [places,] words)
    heirs: mx.array | None
    vocab_size: int

    @classmethod
    def of(cls, masks: dict[int, Bits], places: int, vocab_size: int) -> PackedMasks:
        """Of a row's places that have no mask, all is allowed."""
        words = -(-vocab_size // 32)
        bits = np.full((len(masks), places, words), 0xFFFFFFFF, dtype=np.uint32)
        heirs = np.zeros_like(bits) if any(mine is not None for _, mine in masks.values()) else None
        for place, (allowed, mine) in enumerate(masks.values()):
            bits[place, : len(allowed)] = allowed
            if heirs is not None and mine is not None:
                heirs[place, : len(mine)] = mine
        return cls(mx.array(list(masks)), mx.array(bits), None if heirs is None else mx.array(heirs), vocab_size)

    def at(self, place: int) -> PackedMasks:
        heirs = None if self.heirs is None else self.heirs[:, place]
        return replace(self, bits=self.bits[:, place], heirs=heirs)

    def apply(self, scores: mx.array) -> mx.array:
        """Scores (rows of the batch, [places,] vocabulary)."""
        allowed = self._expanded(self.bits)
        if self.heirs is not None:
            allowed = allowed.astype(mx.uint8) + self._expanded(self.heirs).astype(mx.uint8)
        return replaced(scores, self.rows, masked(scores[self.rows], allowed))

    def _expanded(self, bits: mx.array) -> mx.array:
        """From 32 tokens in a number to one."""
        each = (bits[..., None] >> mx.arange(32, dtype=mx.uint32)) & 1
        return each.reshape(*bits.shape[:-1], -1)[..., : self.vocab_size] == 1
