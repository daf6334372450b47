"""Layer caches: mlx-lm's cache protocol over a batch of rows. They hold arrays; `Batch` holds lengths.

The protocol's surface that models use: `offset`, `update_and_fetch`, `make_mask`, item access for state layers,
`lengths`, `left_padding`, `advance`. `attend` is ours: `models/adapter` calls it when rows lie in several groups.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import mlx.core as mx

from paceline.cache.kv_quantization import KVQuantization, Quantized, views
from paceline.cache.slot_plan import Change, Group, Placement, SlotPlan
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.cache.batch import Batch

KeysOrValues = mx.array | Quantized


class ApplyAccepted(Protocol):
    """The state after `kept[i]` of row i's pending tokens; None: the layer's next step computes it, unless it is needed
    `now`."""

    def __call__(
        self,
        current: Sequence[mx.array | None],
        pending: Sequence[mx.array],
        kept: mx.array,
        *,
        now: bool = False,
    ) -> Sequence[mx.array] | None: ...


class Attention(Protocol):
    """`mx.fast.scaled_dot_product_attention`, or one that takes a `RaggedMask` as well, and quantized keys and values
    where there are."""

    def __call__(
        self,
        queries: mx.array,
        keys: Any,
        values: Any,
        /,
        *,
        scale: float,
        mask: Any,
        sinks: mx.array | None,
    ) -> mx.array: ...


class UnsupportedUse(PacelineError):
    """A model uses its cache in a way that this layout does not support."""


class LayerCache:
    """Contract: a step changes nothing before `commit`; a failed step can simply be run again."""

    lengths = None  # mlx-lm's padding bookkeeping: rows here have no padding
    left_padding = None

    def __init__(self, batch: Batch) -> None:
        # Weak: a cycle would keep a row's buffers until the garbage collector runs.
        self.batch: Batch = weakref.proxy(batch)

    @property
    def offset(self) -> Any:
        return self.batch.step.offset

    def advance(self, count: int) -> None:
        """mlx-lm's bookkeeping for padded caches; here `commit` does it."""

    def empty(self) -> bool:
        return not self.batch.rows or max(self.batch.lengths) == 0

    def commit(self) -> None: ...
    def join(self, other: Any, at: Placement) -> None: ...
    def keep(self, rows: mx.array) -> None: ...
    def arrays(self) -> Iterator[mx.array]:
        yield from ()

    def put(self, arrays: Sequence[mx.array]) -> None: ...
    def clear(self) -> None:
        """Release all arrays: the cache is not used any more."""


class AttentionCache(LayerCache):
    """Keys and values of one attention layer, a padded buffer a group. Rolling back is committing a smaller length.

    `stores` are keys and values; quantized: lines of both, or the parts of each and then the first of both as they
    were, if those are kept. Each is a list of buffers (rows, heads, slots, size), by group.
    """

    def __init__(self, batch: Batch, slot_plan: SlotPlan, kv: KVQuantization | None = None) -> None:
        super().__init__(batch)
        self.slot_plan = slot_plan
        self.kv = kv
        self.exact = 0 if kv is None or slot_plan.window is not None else kv.start  # slots that are not quantized
        self.inexact = 2 if kv is None else kv.arrays  # stores before those of exact slots
        self.stores: list[list[mx.array]] = [[] for _ in range(self.inexact + (2 if self.exact else 0))]

    @property
    def filled(self) -> bool:
        """Has any row a token?"""
        return bool(self.stores[0])

    def sizes(self, capacity: int) -> list[int]:
        """Slots of each store's buffer. Exact ones have one more, where tokens behind them are written."""
        return [slots + 1 if place >= self.inexact else slots for place, slots in enumerate(self.ends(capacity))]

    def ends(self, slot: int) -> list[int]:
        """How many of the slots before this one each store has."""
        return [min(slot, self.exact) if place >= self.inexact else slot for place in range(len(self.stores))]

    @property
    def slot_bytes(self) -> tuple[int, int]:
        """Of a row's slot: in all stores but the exact ones, and in those. A buffer may have none."""
        sizes = [store[0].shape[1] * store[0].shape[3] * store[0].itemsize for store in self.stores]
        return sum(sizes[: self.inexact]), sum(sizes[self.inexact :])

    @property
    def dense_bytes(self) -> int:
        """Of a slot's keys and values while attention has them dequantized; 0: they are not quantized."""
        if self.kv is None or not self.filled:
            return 0
        if (lines := self.kv.lines) is not None:
            heads, words = self.stores[0][0].shape[1::2]
            return 2 * heads * lines.head_dim(self.kv, words) * lines.dtype.size
        scales = (self.stores[1][0], self.stores[4][0])
        return sum(part.shape[1] * part.shape[3] * self.kv.group_size * part.itemsize for part in scales)

    # -- the step

    def make_mask(self, count: int, return_array: bool = False, window_size: int | None = None) -> Any:
        if window_size is not None and window_size != self.slot_plan.window:
            raise UnsupportedUse(f"a window of {window_size} is asked of a cache that has {self.slot_plan.window}")
        if len(self.slot_plan.groups) > 1:  # `attend` makes a mask for each group
            if return_array:
                raise UnsupportedUse("an explicit mask is asked for")
            return None if count == 1 else "causal"
        mask = self.batch.mask(self.slot_plan, 0)
        if not return_array or isinstance(mask, mx.array):
            return mask
        if isinstance(mask, RaggedMask):
            return mask.array()
        return array_mask(self.slot_plan, self.slot_plan.groups[0], self.batch.lengths, count)

    def keys_and_values(self) -> tuple[KeysOrValues, KeysOrValues]:
        """For layers that attend to what another layer has stored."""
        if len(self.slot_plan.groups) > 1:
            raise UnsupportedUse("a layer attends to another layer's keys")
        return self._view(0)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[KeysOrValues, KeysOrValues]:
        new: tuple[mx.array, ...] = (keys, values)
        if self.kv is not None:
            new = (*self.kv.quantize_both(keys, values), *(new if self.exact else ()))
        if not self.filled:
            self._allocate(new)
        single = len(self.slot_plan.groups) == 1
        for index, group in enumerate(self.slot_plan.groups):
            for place, (store, part) in enumerate(zip(self.stores, new, strict=True)):
                new_rows = part if single else part[group.rows]
                store[index] = self._write(store[index], index, new_rows, exact=place >= self.inexact)
        if single:
            return self._view(0)
        return keys, values

    def attend(self, queries: mx.array, scale: float, sinks: mx.array | None, attention: Attention) -> mx.array:
        """Attention group by group: each row reads no further than its own group's buffer."""
        outputs: list[mx.array] = []
        for index, group in enumerate(self.slot_plan.groups):
            keys, values = self._view(index, after=outputs[-1:] if self.kv is not None else ())
            mask = self.batch.mask(self.slot_plan, index)
            outputs.append(attention(queries[group.rows], keys, values, scale=scale, mask=mask, sinks=sinks))
        return mx.concatenate(outputs)

    def _allocate(self, parts: Sequence[mx.array]) -> None:
        """Empty buffers for all groups, like these."""
        for group in self.slot_plan.groups:
            for store, like, size in zip(self.stores, parts, self.sizes(group.capacity), strict=True):
                store.append(mx.zeros((group.count, like.shape[1], size, like.shape[3]), like.dtype))

    def _write(self, buffer: mx.array, index: int, new: mx.array, *, exact: bool) -> mx.array:
        at, last = self.batch.slots(self.slot_plan, index), buffer.shape[2] - 1
        if isinstance(at, int):
            if exact:
                new = new[:, :, : max(last - at, 0)]
            buffer[:, :, at : at + new.shape[2]] = new
            return buffer
        if exact:
            at = mx.minimum(at, last)
        return mx.put_along_axis(buffer, mx.broadcast_to(at, new.shape), new, axis=2)

    def _view(self, index: int, after: Sequence[mx.array] = ()) -> tuple[KeysOrValues, KeysOrValues]:
        """`after`: not before these are there, so that what is dequantized is freed before more is."""
        low, high = self.batch.view(self.slot_plan, index)
        parts = [store[index] for store in self.stores]
        if low != 0 or high != parts[0].shape[2] or self.exact:
            parts = [part[:, :, low:end] for part, end in zip(parts, self.ends(high), strict=True)]
        return views(mx.depends(parts, list(after)) if after else parts, self.kv)

    # -- between steps

    def change(self, change: Change) -> None:
        if not self.filled:
            return
        for store, size in zip(self.stores, self.sizes(change.capacity), strict=True):
            buffer = store[change.group]
            if change.drop is not None:
                buffer = _shift(buffer, change.drop)
            store[change.group] = resize(buffer, size)

    def join(self, other: AttentionCache, at: Placement) -> None:
        """`Batch` has placed `other`'s row already; here it is copied into the buffers."""
        place = self.batch.placement(self.slot_plan)
        if not self.filled and not other.filled:  # no row has a token yet: the first step allocates
            return
        if not other.filled:
            other._allocate([store[0] for store in self.stores])
        if not self.filled:  # with the new row's place among them
            self._allocate([store[0] for store in other.stores])
            place = replace(place, added=0)
        for store, theirs, size in zip(self.stores, other.stores, self.sizes(place.capacity), strict=True):
            if place.is_new:
                store.insert(place.group, theirs[0])
            elif place.added:
                mine = resize(store[place.group], size)
                store[place.group] = _appended(mine, resize(theirs[0], size), place.added - 1)
            else:
                mine = resize(store[place.group], size)
                store[place.group] = _with_row(mine, theirs[0], place.row)

    def keep_groups(self, kept: list[tuple[int, mx.array | None, int]]) -> None:
        """`kept`: (old group, rows of it to keep or None for all, its new capacity), in order."""
        if not self.filled:  # no row has a token yet
            return
        self.stores = [
            [
                resize(store[old], size) if rows is None else store[old][:, :, :size][rows]
                for old, rows, capacity in kept
                for size in [self.sizes(capacity)[place]]
            ]
            for place, store in enumerate(self.stores)
        ]

    def arrays(self) -> Iterator[mx.array]:
        for store in self.stores:
            yield from store

    def put(self, arrays: Sequence[mx.array]) -> None:
        """The inverse of `arrays`."""
        groups = len(self.stores[0])
        self.stores = [list(arrays[index * groups : (index + 1) * groups]) for index in range(len(self.stores))]

    def clear(self) -> None:
        self.stores = [[] for _ in self.stores]


class StateCache(LayerCache):
    """Recurrent state: convolution windows, GatedDeltaNet or Mamba states. The first axis is the row.

    A tentative step does not change the state. It leaves its inputs as `pending`, and `apply_accepted` (the layer's
    own) turns them into the state after the accepted tokens: at once, or, if it returns None, in the layer's next step.
    """

    def __init__(
        self, batch: Batch, size: int, apply_accepted: ApplyAccepted | None = None, *, records: bool = False
    ) -> None:
        super().__init__(batch)
        self.records = records
        self.recorded: dict[int, list[mx.array]] = {}  # the state inside the last step, by length
        self.current: list[mx.array | None] = [None] * size
        self.pending: list[mx.array] = []
        self._staged: dict[int, mx.array] = {}
        self._staged_pending: list[mx.array] = []
        self._apply_accepted = apply_accepted

    # -- the step

    @property
    def tentative(self) -> bool:
        """May tokens of this step be rejected?"""
        return self.batch.step.tentative

    @property
    def valid(self) -> mx.array | None:
        """How many of this step's tokens in each row are not padding; None: all."""
        return self.batch.step.valid

    @property
    def active(self) -> mx.array:
        """Rows that are not padding; a layer may leave the others' state unset."""
        return self.batch.step.active

    @property
    def can_roll_back(self) -> bool:
        return self._apply_accepted is not None

    @property
    def kept(self) -> mx.array | None:
        """How many of the pending tokens each row keeps."""
        return self.batch.kept

    def __getitem__(self, index: int) -> mx.array | None:
        return self.current[index]

    def __setitem__(self, index: int, value: mx.array) -> None:
        self._staged[index] = value

    def set_pending(self, arrays: Sequence[mx.array]) -> None:
        self._staged_pending = list(arrays)

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """After how many tokens of this step its state is to be recorded."""
        return self.batch.step.checkpoints

    def record(self, tokens: int, arrays: Sequence[mx.array]) -> None:
        """The state after so many tokens of this step, of a batch of one row, in arrays with buffers of their own."""
        self.recorded[self.batch.lengths[0] + tokens] = list(arrays)

    def make_mask(self, count: int) -> None:
        return None

    def begin(self) -> None:
        self._staged, self._staged_pending, self.recorded = {}, [], {}

    def commit(self) -> None:
        """Take over what the step wrote, and what it left pending."""
        for index, value in self._staged.items():
            self.current[index] = value
        self.pending = self._staged_pending
        self._staged, self._staged_pending = {}, []

    def apply_accepted(self, kept: mx.array, *, now: bool = False) -> None:
        """After a tentative step's commit. `now`: not in the next step."""
        if self._apply_accepted is None or not self.pending:
            raise UnsupportedUse("a layer left no pending tokens")
        arrays = self._apply_accepted(self.current, self.pending, kept, now=now)
        if arrays is not None:
            self.current, self.pending = list(arrays), []

    # -- between steps

    def of_row(self, row: int) -> list[mx.array]:
        """One row's state, with its accepted tokens applied; the batch's stays as it is."""
        current = [None if value is None else value[row : row + 1] for value in self.current]
        if self.pending and self._apply_accepted is not None and self.kept is not None:
            pending = [value[row : row + 1] for value in self.pending]
            applied = self._apply_accepted(current, pending, self.kept[row : row + 1], now=True)
            assert applied is not None
            return list(applied)
        if self.pending or any(value is None for value in current):
            raise UnsupportedUse("a row's state is not complete")
        return [value for value in current if value is not None]

    def join(self, other: StateCache, at: Placement) -> None:
        for index, (mine, theirs) in enumerate(zip(self.current, other.current, strict=True)):
            like = theirs if mine is None else mine
            if like is None:
                continue
            if mine is None:  # a row without tokens starts from zeros, as the models themselves do
                mine = mx.zeros((self.batch.rows, *like.shape[1:]), like.dtype)
            if theirs is None:
                theirs = mx.zeros((1, *like.shape[1:]), like.dtype)
            self.current[index] = joined(mine, theirs, at)
        if other.pending:
            raise UnsupportedUse("a row with pending tokens cannot join")
        if at.added:  # else the row is one of padding, whose pending tokens it keeps none of
            self.pending = [joined(mine, mx.zeros((1, *mine.shape[1:]), mine.dtype), at) for mine in self.pending]

    def keep(self, rows: mx.array) -> None:
        self.current = [None if value is None else value[rows] for value in self.current]
        self.pending = [value[rows] for value in self.pending]

    def arrays(self) -> Iterator[mx.array]:
        yield from (value for value in self.current if value is not None)
        yield from self.pending

    def put(self, arrays: Sequence[mx.array]) -> None:
        """The inverse of `arrays`, once no part of the state is missing."""
        size = len(self.current)
        self.current, self.pending = list(arrays[:size]), list(arrays[size:])

    def clear(self) -> None:
        self.current, self.pending, self.recorded = [None] * len(self.current), [], {}


class CacheGroup(LayerCache):
    """A layer with several caches (mlx-lm's CacheList): attention beside state, for example."""

    def __init__(self, batch: Batch, parts: Sequence[LayerCache]) -> None:
        super().__init__(batch)
        self.parts = tuple(parts)

    def __getitem__(self, index: int) -> LayerCache:
        return self.parts[index]

    def make_mask(self, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedUse("a mask is asked of a list of caches")


@dataclass(frozen=True, slots=True)
class RaggedMask:
    """Rows of different lengths in one buffer: row i's new tokens go to the slots from `ends[i]` on, and attend to
    those before them. For kernels that need no array."""

    ends: mx.array
    capacity: int
    width: int
    window: int | None

    def array(self) -> mx.array:
        return causal_mask(0, self.capacity, self.ends, self.width, self.window)


def attention_mask(plan: SlotPlan, group: Group, lengths: list[int], width: int) -> mx.array | str | None:
    """Which slots of the plan's view each new token attends to; None and "causal" need no array in the kernel."""
    low, high = plan.view(group, lengths, width)
    even = len(set(group.ends(lengths))) == 1
    if even and (plan.window is None or high - low <= plan.window):
        return None if width == 1 else "causal"
    return array_mask(plan, group, lengths, width)


def array_mask(plan: SlotPlan, group: Group, lengths: list[int], width: int) -> mx.array:
    """The same, always as an array (rows, 1, width, slots)."""
    low, high = plan.view(group, lengths, width)
    return causal_mask(low, high, mx.array(group.ends(lengths)), width, plan.window)


def causal_mask(low: int, high: int, ends: mx.array, width: int, window: int | None) -> mx.array:
    """Which of the slots [low, high) each of `width` new tokens attends to, where row i's first goes to `ends[i]`."""
    slots = mx.arange(low, high)[None, None, None, :]
    queries = (ends[:, None] + mx.arange(width))[:, None, :, None]
    mask = slots <= queries
    if window is not None:
        mask = mask & (slots > queries - window)
    return mask


def two_sided_mask(low: int, high: int, end: int, window: int | None, seen: mx.array) -> mx.array:
    """The causal mask of one row, and which of its new tokens also see each other (`seen`: width, width)."""
    width = seen.shape[0]
    placed = mx.pad(seen, [(0, 0), (end - low, high - end - width)])
    return causal_mask(low, high, mx.array([end]), width, window) | placed[None, None]


def joined(mine: mx.array, theirs: mx.array, at: Placement) -> mx.array:
    """`mine`, rows first, with the row `theirs` where `at` says."""
    if not at.added:
        return _with_row(mine, theirs, at.row)
    if at.row == mine.shape[0]:
        return _appended(mine, theirs, at.added - 1)
    return mx.concatenate([_appended(mine[: at.row], theirs, at.added - 1), mine[at.row :]])


def take_rows(array: mx.array, order: Sequence[int | None]) -> mx.array:
    """Rows by the index that they had before, as `Batch.keep` returns it; padding may be anything."""
    if len(order) == array.shape[0] and all(row is None or row == place for place, row in enumerate(order)):
        return array
    return array[mx.array([0 if row is None else row for row in order])]


def _with_row(mine: mx.array, theirs: mx.array, row: int) -> mx.array:
    """By a slice whose place the host knows, not by `mx.slice_update` at a place in an array, which is slow on CUDA."""
    changed = mine[:]  # another object: an assignment changes the one that it is made to
    changed[(slice(row, row + 1), *(slice(0, size) for size in theirs.shape[1:]))] = theirs
    return changed


def _appended(mine: mx.array, theirs: mx.array, padding: int) -> mx.array:
    """`theirs` after `mine`, and so many rows of padding."""
    blank = [mx.zeros((padding, *mine.shape[1:]), mine.dtype)] if padding else []
    return mx.concatenate([mine, theirs, *blank])


def resize(buffer: mx.array, capacity: int) -> mx.array:
    have = buffer.shape[2]
    if have == capacity:
        return buffer
    if have > capacity:
        return mx.contiguous(buffer[:, :, :capacity])
    room = mx.zeros((*buffer.shape[:2], capacity - have, buffer.shape[3]), buffer.dtype)
    return mx.concatenate([buffer, room], axis=2)


def _shift(buffer: mx.array, drop: list[int]) -> mx.array:
    """Forget the first `drop[i]` slots of row i; what follows moves to the front."""
    if len(set(drop)) == 1:
        return mx.contiguous(buffer[:, :, drop[0] :])
    size = buffer.shape[2]
    index = mx.minimum(mx.array(drop)[:, None] + mx.arange(size), size - 1)[:, None, :, None]
    return mx.take_along_axis(buffer, mx.broadcast_to(index, buffer.shape), axis=2)
