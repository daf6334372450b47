"""KV snapshots of a row: segments of keys and values, and checkpoints of its other state.

A segment has the keys and values of a run of tokens, for every layer without a window; and those of the MTP head, where
a pair belongs to the later of its two tokens (the first token has none). A checkpoint has what is valid at one token
only: recurrent states, the contents of sliding windows, and the last hidden state, which the head needs next. All
arrays are copies, so that keeping one keeps no other buffer alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from paceline.cache.batch import Batch
from paceline.cache.layers import AttentionCache, StateCache, UnsupportedUse
from paceline.cache.slot_plan import SlotPlan


@dataclass(frozen=True, slots=True)
class Segment:
    """`arrays` and `pairs` are (1, heads, tokens, size); there may be fewer pairs than tokens: the head may have gaps.

    The first `unpaired` tokens have no pair: one token, if the segment begins the prompt.
    """

    arrays: tuple[mx.array, ...]
    pairs: tuple[mx.array, ...] = ()
    unpaired: int = 0

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.arrays, *self.pairs))

    def split(self, at: int) -> tuple[Segment, Segment]:
        """The first `at` tokens, and the others."""
        first, second = self.take(0, at), self.take(at, None)
        mx.async_eval(first.all(), second.all())
        return first, second

    def take(self, start: int, stop: int | None) -> Segment:
        """Tokens [start, stop). Missing pairs are taken to be those of the last tokens."""
        late = self.unpaired
        pairs = _sliced(self.pairs, max(start - late, 0), None if stop is None else max(stop - late, 0))
        if pairs and not pairs[0].shape[2]:
            pairs = ()
        return Segment(_sliced(self.arrays, start, stop), pairs, max(late - start, 0))

    def all(self) -> list[mx.array]:
        return [*self.arrays, *self.pairs]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """By layer, in the batch's order; None: segments have all of this layer."""

    layers: tuple[tuple[mx.array, ...] | None, ...]
    carry: mx.array | None = None

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.all())

    def all(self) -> list[mx.array]:
        kept = [array for layer in self.layers if layer is not None for array in layer]
        return kept if self.carry is None else [*kept, self.carry]


def needs_checkpoints(batch: Batch) -> bool:
    """False: all state of this model can be cut at any token."""
    return not all(isinstance(cache, AttentionCache) and cache.slot_plan.window is None for cache in batch.flat)


def cut_segment(batch: Batch, row: int, start: int, stop: int) -> tuple[mx.array, ...]:
    """Copies of tokens [start, stop) of a row, of all layers without a window."""
    arrays = []
    for cache in batch.flat:
        if isinstance(cache, AttentionCache) and cache.slot_plan.window is None and cache.filled:
            arrays += _cut(cache, row, start, stop)
    return tuple(arrays)


def cut_checkpoint(batch: Batch, row: int, stop: int) -> tuple[tuple[mx.array, ...] | None, ...]:
    """Copies of all other state of a row at token `stop`: where it ends, or where its last step had a checkpoint."""
    layers: list[tuple[mx.array, ...] | None] = []
    for cache in batch.flat:
        if isinstance(cache, StateCache):
            inside = cache.recorded.get(stop)
            if inside is None and stop < batch.lengths[row]:
                raise UnsupportedUse("no state was recorded at this token")
            layers.append(tuple(own(array) for array in cache.of_row(row)) if inside is None else tuple(inside))
        elif isinstance(cache, AttentionCache) and cache.slot_plan.window is not None and cache.filled:
            layers.append(tuple(_cut(cache, row, max(stop - cache.slot_plan.window + 1, 0), stop)))
        else:
            layers.append(None)
    return tuple(layers)


def cut_bytes(batch: Batch, tokens: int, *, bare: bool = False) -> int:
    """Bytes of a segment of so many tokens of a row, with a checkpoint unless it is `bare`."""
    total = 0
    for cache in batch.flat:
        if isinstance(cache, StateCache):
            total += 0 if bare else sum(array.nbytes for array in cache.current if array is not None) // batch.rows
        elif isinstance(cache, AttentionCache) and cache.filled:
            window = cache.slot_plan.window
            count = tokens if window is None else 0 if bare else window
            token, exact = cache.slot_bytes
            total += token * count + exact * min(count, cache.exact)
    return total


def fill(
    batch: Batch, length: int, segments: Sequence[tuple[mx.array, ...]], checkpoint: Checkpoint | None, room: int
) -> None:
    """Restore a snapshot into a new batch of one row, with room for `room` more tokens."""
    taken = 0
    layers = (None,) * len(batch.flat) if checkpoint is None else checkpoint.layers
    for cache, layer in zip(batch.flat, layers, strict=True):
        if isinstance(cache, StateCache):
            if not isinstance(layer, tuple):
                raise UnsupportedUse("a checkpoint has no state for a layer that needs one")
            cache.current = list(layer)
        elif isinstance(cache, AttentionCache) and cache.slot_plan.window is not None:
            if isinstance(layer, tuple):
                have = layer[0].shape[2]
                capacity = _lay(cache.slot_plan, length, have, room)
                cache.stores = [[_grown([part], capacity)] for part in layer]
        elif isinstance(cache, AttentionCache) and segments and taken < len(segments[0]):
            sizes = cache.sizes(_lay(cache.slot_plan, length, length, room))
            for place, (store, size) in enumerate(zip(cache.stores, sizes, strict=True), taken):
                store.append(_grown([segment[place] for segment in segments], size))
            taken += len(cache.stores)
    batch.lengths = [length]


def _lay(slot_plan: SlotPlan, length: int, have: int, room: int) -> int:
    """Set a slot plan of one row: its buffers hold the last `have` of `length` tokens. Returns their capacity."""
    group = slot_plan.groups[0]
    group.starts = [length - have]
    group.capacity = slot_plan.capacity(have + (room if slot_plan.window is None else 0))
    return group.capacity


def _grown(parts: list[mx.array], capacity: int) -> mx.array:
    have = sum(part.shape[2] for part in parts)
    like = parts[0]
    if capacity > have:
        parts = [*parts, mx.zeros((*like.shape[:2], capacity - have, like.shape[3]), like.dtype)]
    return mx.concatenate(parts, axis=2) if len(parts) > 1 else mx.contiguous(parts[0])


def _cut(cache: AttentionCache, row: int, start: int, stop: int) -> list[mx.array]:
    for index, group in enumerate(cache.slot_plan.groups):
        if group.first <= row < group.first + group.count:
            local = row - group.first
            low, high = start - group.starts[local], stop - group.starts[local]
            if low < 0 or high > group.capacity:
                raise UnsupportedUse("these tokens are not in the buffer")
            slices = [
                store[index][local : local + 1, :, min(low, end) : end]
                for store, end in zip(cache.stores, cache.ends(high), strict=True)
            ]
            apart = high - low < group.capacity  # then slices of several heads are not contiguous, and copied in one go
            return [mx.contiguous(part) if apart and part.shape[1] > 1 else own(part) for part in slices]
    raise IndexError(row)


def _sliced(arrays: tuple[mx.array, ...], start: int, stop: int | None) -> tuple[mx.array, ...]:
    return tuple(own(array[:, :, start:stop]) for array in arrays)


def own(array: mx.array) -> mx.array:
    """A copy of one row. `mx.contiguous` returns a view of a slice that is contiguous already (a state's row, the only
    head's keys), which would keep the whole batch's buffer alive."""
    return mx.take(array, mx.zeros((1,), dtype=mx.int32), axis=0)
