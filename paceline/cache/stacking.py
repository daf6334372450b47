"""Several rows in one prefill pass: batches of one row each are stacked, and taken apart again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import mlx.core as mx

from paceline.cache.batch import Batch
from paceline.cache.layers import AttentionCache, StateCache, resize

# Of each layer's arrays, without the row: shape and type. Of keys and values without the capacity, too.
Shapes = list[list[tuple[tuple[int, ...], mx.Dtype]]]


def stack(batches: Sequence[Batch], rows: int) -> Batch:
    """One batch with the row of each of these, and padding up to `rows`. They stay as they are."""
    first, blanks = batches[0], rows - len(batches)
    both = Batch(first.plans, replace(first.grouping, skew=float("inf")), rows, ragged=first.ragged, kv=first.kv)
    both.low_memory = first.low_memory
    both.lengths = [batch.lengths[0] for batch in batches] + [0] * blanks
    both.deltas = [batch.deltas[0] for batch in batches] + [0] * blanks
    both.active = [True] * len(batches) + [False] * blanks
    for window, slot_plan in both.slot_plans.items():
        groups = [batch.slot_plans[window].groups[0] for batch in batches]
        slot_plan.groups[0].capacity = max(group.capacity for group in groups)
        slot_plan.groups[0].starts = [group.starts[0] for group in groups] + [0] * blanks
    for index, cache in enumerate(both.flat):
        parts = [batch.flat[index] for batch in batches]
        if isinstance(cache, AttentionCache):
            sizes = cache.sizes(cache.slot_plan.groups[0].capacity)
            buffers = [part.stores for part in parts if isinstance(part, AttentionCache)]
            columns = zip(zip(*buffers, strict=True), sizes, strict=True)
            cache.stores = [_stacked(list(column), blanks, size) for column, size in columns]
        elif isinstance(cache, StateCache):
            states = [part.current for part in parts if isinstance(part, StateCache)]
            cache.current = [_joined(list(column), blanks) for column in zip(*states, strict=True)]
    return both


def unstack(both: Batch, batches: Sequence[Batch]) -> None:
    """Give each of these its row back, after a step that was committed."""
    for row, batch in enumerate(batches):
        batch.lengths = [both.lengths[row]]
        for window, slot_plan in batch.slot_plans.items():
            shared = both.slot_plans[window].groups[0]
            slot_plan.groups[0].capacity, slot_plan.groups[0].starts = shared.capacity, [shared.starts[row]]
        for mine, cache in zip(batch.flat, both.flat, strict=True):
            if isinstance(mine, StateCache) and isinstance(cache, StateCache):
                mine.current = [None if value is None else value[row : row + 1] for value in cache.current]
            elif isinstance(mine, AttentionCache) and isinstance(cache, AttentionCache):
                mine.stores = [[buffer[row : row + 1] for buffer in store] for store in cache.stores]


def restore_point(batches: Sequence[Batch]) -> Callable[[], None]:
    """Returns what gives each of these, after `unstack`, what it holds now: for a pass that fails later."""
    restores: list[Callable[[], None]] = []
    for batch in batches:
        restores.append(partial(setattr, batch, "lengths", list(batch.lengths)))
        for slot_plan in batch.slot_plans.values():
            restores.append(partial(setattr, slot_plan, "groups", [replace(group) for group in slot_plan.groups]))
        for cache in batch.flat:
            if isinstance(cache, AttentionCache):
                restores.append(partial(setattr, cache, "stores", [list(store) for store in cache.stores]))
            elif isinstance(cache, StateCache):
                restores.append(partial(setattr, cache, "current", list(cache.current)))

    def restore() -> None:
        for each in restores:
            each()

    return restore


def shapes(batch: Batch) -> Shapes:
    """Of a batch whose layers all have their arrays."""
    found: Shapes = []
    for cache in batch.flat:
        if isinstance(cache, AttentionCache):
            buffers = [store[0] for store in cache.stores]
            found.append([((buffer.shape[1], buffer.shape[3]), buffer.dtype) for buffer in buffers])
        elif isinstance(cache, StateCache):
            found.append([(state.shape[1:], state.dtype) for state in cache.current if state is not None])
    return found


def allocate(batch: Batch, like: Shapes, *, shares: bool = False) -> None:
    """Give a batch without tokens the arrays that its first step would make: zeros. `shares`: a step only reads states,
    so those of all layers and batches are one array, which saves a launch for each."""
    blank = _blank if shares else mx.zeros
    for cache, parts in zip(batch.flat, like, strict=True):
        if isinstance(cache, AttentionCache) and not cache.filled:
            for group in cache.slot_plan.groups:
                slots = cache.sizes(group.capacity)
                for store, count, ((heads, size), dtype) in zip(cache.stores, slots, parts, strict=True):
                    store.append(mx.zeros((group.count, heads, count, size), dtype))
        elif isinstance(cache, StateCache):
            for index, (shape, dtype) in enumerate(parts):
                if cache.current[index] is None:
                    cache.current[index] = blank((batch.rows, *shape), dtype)


def pending_width(batch: Batch) -> int:
    """Tokens of the last speculative step that its layers leave to the next step."""
    return next((cache.pending[0].shape[1] for cache in _states(batch) if cache.pending), 0)


def pending_shapes(batch: Batch) -> Shapes:
    """Of each state layer's pending arrays, without row and token."""
    return [[(part.shape[2:], part.dtype) for part in cache.pending] for cache in _states(batch)]


def settle_pending(batch: Batch, width: int, like: Shapes) -> None:
    """Apply what layers have pending, and leave them `width` tokens of which no row keeps any; 0: none."""
    blank = lru_cache(mx.zeros)  # one for all layers: they only read it
    for layer, parts in zip(_states(batch), like, strict=True):
        if layer.pending and batch.kept is not None:
            layer.apply_accepted(batch.kept, now=True)
        layer.pending = [blank((batch.rows, width, *shape), dtype) for shape, dtype in parts] if width else []
    batch.kept = mx.zeros((batch.rows,), dtype=mx.int32) if width else None


def _states(batch: Batch) -> list[StateCache]:
    return [cache for cache in batch.flat if isinstance(cache, StateCache)]


@lru_cache(maxsize=32)
def _blank(shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
    zeros = mx.zeros(shape, dtype)
    mx.eval(zeros)  # for any thread
    return zeros


def _stacked(parts: list[list[mx.array]], blanks: int, capacity: int) -> list[mx.array]:
    """Keys or values of rows, each in a buffer of its own; [] of a row without tokens."""
    columns = [resize(part[0], capacity) if part else None for part in parts]
    both = _joined(columns, blanks)
    return [] if both is None else [both]


def _joined(parts: list[mx.array | None], blanks: int) -> mx.array | None:
    like = next((part for part in parts if part is not None), None)
    if like is None:
        return None
    blank = mx.zeros_like(like)
    return mx.concatenate([blank if part is None else part for part in [*parts, *[None] * blanks]])
