"""One forward pass over a batch, traced once per shape and replayed where that helps.

On a fast GPU the host is the bottleneck, most of it Python. A traced graph depends on shapes only: how many rows, in
which groups, with which capacities, how many tokens each. Where shapes come from buckets, each is traced when it is
first seen, and kept; exact shapes after they were seen a few times, because tracing costs as much as several steps.
The start-up self-check compares traced passes with plain ones before they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import mlx.core as mx

from paceline.cache.batch import Batch
from paceline.cache.layers import AttentionCache, StateCache
from paceline.cache.stacking import Shapes, allocate, pending_shapes, pending_width, settle_pending, shapes
from paceline.models.lora import Loras

DEVICES = ("cuda", "metal")  # on a CPU the arithmetic takes the time, not the host
TRACE_AFTER = 4  # steps of one shape before it is traced, where shapes are exact
MAX_SHAPES = 1024  # traces kept; past that they are dropped, all of them

Function = Callable[[list[mx.array], Batch], list[mx.array]]
Pass = tuple[list[mx.array], Callable[[], None]]  # outputs, and what commits the pass


class Forward:
    """Called with a batch, the width of the step and the inputs; returns the outputs and a `close`.

    Contract: the call changes nothing in the batch but its capacity, and when layers take in what they have pending;
    after `close` the layers are as after a plain step. Lengths are the caller's, through `Batch.advance`. `valid`: how
    many tokens of each row are not padding.
    `slots`: each row's adapter, of `loras`; None: no row has one.
    """

    def __init__(
        self,
        function: Function,
        *,
        traces: bool = False,
        trace_after: int = TRACE_AFTER,
        loras: Loras | None = None,
    ) -> None:
        self._function = function
        self._loras = loras
        self._trace_after = trace_after
        self.traces = traces
        self.traced_calls = 0
        self.new_shapes = 0  # how often a shape was met for the first time
        self.steady = True  # is the time of the last pass representative?
        self._functions: dict[Any, Callable[..., Any]] = {}
        self._known: set[Any] = set()
        self._met: set[Any] = set()
        self._seen: dict[Any, int] = {}  # how often, of shapes that are not traced yet
        self._batch: Batch | None = None  # while it is traced
        self._shapes: Shapes | None = None  # of the layers' arrays, once they are known
        self._pending: Shapes = []  # of what layers leave to the next step, once one did
        self._counts: dict[int, RowCounts] = {}  # places, and the ends of each slot plan

    def __call__(
        self,
        batch: Batch,
        width: int,
        inputs: list[mx.array],
        *,
        positions: Any = None,
        tentative: bool = False,
        valid: Sequence[int] | None = None,
        checkpoints: tuple[int, ...] = (),
        traced: bool = True,
        slots: mx.array | None = None,
    ) -> Pass:
        may_trace = self.traces and traced and positions is None and not checkpoints
        if may_trace:
            self._settle(batch, width, tentative)
        shape = self._meet(batch, width, tentative, slots is not None)
        if may_trace:
            self.steady = self._has_trace(batch, shape)
            if not _filled(batch) and self._shapes is not None:
                allocate(batch, self._shapes, shares=True)
            if self.steady or self._is_due(batch, shape):
                return self._run(batch, width, inputs, tentative, valid, slots)
        batch.begin(width, positions, tentative=tentative, valid=valid, checkpoints=checkpoints)
        outputs = self._call(inputs, batch, slots)
        return outputs, partial(self._close_plain, batch)

    def _call(self, inputs: list[mx.array], batch: Batch, slots: mx.array | None) -> list[mx.array]:
        if slots is None or self._loras is None:
            return self._function(inputs, batch)
        with self._loras.reading(slots):
            return self._function(inputs, batch)

    def forget_loras(self) -> None:
        """Drop the traces of passes with adapters: they hold the adapters' weights as they were."""
        self._functions = {key: function for key, function in self._functions.items() if not key[0]}
        self._known = {shape for shape in self._known if not shape[0]}

    def forget(self) -> None:
        """Drop all traces: batches have other arrays from now on."""
        self._functions, self._known, self._seen, self._shapes = {}, set(), {}, None

    def _meet(self, batch: Batch, width: int, tentative: bool, adapted: bool) -> Any:
        """Make room for the step; returns its shape."""
        batch.reserve(width)
        shape = self._shape(batch, width, tentative, adapted)
        if shape not in self._met:
            if len(self._met) >= MAX_SHAPES:
                self._met.clear()
            self._met.add(shape)
            self.new_shapes += 1
        return shape

    def _settle(self, batch: Batch, width: int, tentative: bool) -> None:
        """A step has one shape whatever came before it: a speculative one finds as many tokens pending as it has, a
        plain one none. Where the length of drafts changes, that costs a few launches instead of a trace."""
        pending = pending_width(batch)
        if pending:
            self._pending = self._pending or pending_shapes(batch)
        if pending != self._wanted(width, tentative):
            settle_pending(batch, self._wanted(width, tentative), self._pending)

    def _wanted(self, width: int, tentative: bool) -> int:
        return width if tentative and self._pending else 0

    def _close_plain(self, batch: Batch) -> None:
        batch.close()
        if self.traces and self._shapes is None and _filled(batch):
            self._shapes = shapes(batch)

    def is_traced(self, batch: Batch, width: int, *, tentative: bool = False, adapted: bool = False) -> bool:
        """Is there a trace for this step? Then it can run before the host knows the lengths."""
        if not self.traces:
            return False
        batch.reserve(width)
        return self._has_trace(batch, self._shape(batch, width, tentative, adapted))

    def _shape(self, batch: Batch, width: int, tentative: bool, adapted: bool) -> Any:
        groups = tuple(
            (slot_plan.window, tuple((group.count, group.capacity) for group in slot_plan.groups))
            for slot_plan in batch.slot_plans.values()
        )
        pending = self._wanted(width, tentative) if self.traces else pending_width(batch)
        return adapted, width, tentative, groups, pending

    def _has_trace(self, batch: Batch, shape: Any) -> bool:
        return shape in self._known and (_filled(batch) or self._shapes is not None)

    def _is_due(self, batch: Batch, shape: Any) -> bool:
        if len(self._seen) >= MAX_SHAPES:
            self._seen.clear()
        self._seen[shape] = self._seen.get(shape, 0) + 1
        bucketed = bool(batch.grouping.buckets.rows)
        if self._seen[shape] < (1 if bucketed else self._trace_after) or not _filled(batch):
            return False
        del self._seen[shape]
        if len(self._known) >= MAX_SHAPES:
            self._known.clear()
            self._functions.clear()
        self._known.add(shape)
        return True

    def _run(
        self,
        batch: Batch,
        width: int,
        inputs: list[mx.array],
        tentative: bool,
        valid: Sequence[int] | None,
        slots: mx.array | None,
    ) -> Pass:
        slot_plans = list(batch.slot_plans.values())
        places, *ends = self._numbers(batch, [batch.next_positions, *map(batch.ends, slot_plans)])
        partition = tuple(tuple(group.count for group in slot_plan.groups) for slot_plan in slot_plans)
        key = (slots is not None, partition, width, tentative, valid is None)
        if key not in self._functions:
            self._functions[key] = mx.compile(self._traced(width, tentative))
        folding = [] if batch.kept is None else [batch.kept]
        counts = [] if valid is None else [mx.array(list(valid), dtype=mx.int32)]
        rows = [] if slots is None else [slots]
        self._batch = batch
        try:
            outputs, arrays = self._functions[key](
                list(inputs), places, ends, batch.active_flags, _held(batch), folding, counts, rows
            )
        finally:
            self._batch = None
        self.traced_calls += 1
        return outputs, partial(_close, batch, arrays, tentative)

    def _numbers(self, batch: Batch, numbers: list[list[int]]) -> list[mx.array]:
        """These of each row, on the device. Most often they are all the same: then they are one array."""
        found: list[mx.array] = []
        for place, each in enumerate(numbers):
            same = numbers.index(each)
            if same < place:
                found.append(found[same])
                continue
            found.append(self._counts.setdefault(place, RowCounts())(each))
            for kept in batch.unsynced:
                found[place] = found[place] + kept
        return found

    def _traced(self, width: int, tentative: bool) -> Callable[..., Any]:
        def step(
            inputs: list[mx.array],
            places: mx.array,
            ends: list[mx.array],
            active: mx.array,
            arrays: list[list[mx.array]],
            kept: list[mx.array],
            valid: list[mx.array],
            slots: list[mx.array],
        ) -> Any:
            batch = self._batch
            assert batch is not None
            before, kept_before = _held(batch), batch.kept
            try:  # while tracing, the batch holds placeholders; it must never keep them
                _put(batch, arrays)
                batch.kept = kept[0] if kept else None
                batch.begin_fixed(
                    width,
                    places,
                    dict(zip(batch.slot_plans, ends, strict=True)),
                    active,
                    tentative=tentative,
                    valid=valid[0] if valid else None,
                )
                outputs = self._call(inputs, batch, slots[0] if slots else None)
                batch.close()
                return outputs, _held(batch)
            finally:
                batch.drop()
                batch.kept = kept_before
                _put(batch, before)

        return step


class RowCounts:
    """Numbers of each row on the device, one more at each step: added there while the rows are the same.

    On CUDA the first read of an array from Python is a page fault, which takes up to 170 us of a step. MLX's
    allocator gives memory that the host has touched to kernels too, by its size: here it is one that no other array of
    a step has.
    """

    SIZE = 1024

    def __init__(self) -> None:
        self._numbers: tuple[int, ...] = ()
        self._held = mx.array([], dtype=mx.int32)

    def __call__(self, numbers: Sequence[int]) -> mx.array:
        new = tuple(numbers)
        if len(new) > self.SIZE:
            return mx.array(new, dtype=mx.int32)
        more = tuple(now - before for now, before in zip(new, self._numbers, strict=False))
        if len(new) != len(self._numbers) or any(each not in (0, 1) for each in more):
            self._held = mx.array(self._padded(new), dtype=mx.int32)
        elif any(more):
            self._held = self._held + self._change(more)
        self._numbers = new
        return self._held[: len(new)]

    @classmethod
    def _padded(cls, numbers: tuple[int, ...]) -> tuple[int, ...]:
        return numbers + (0,) * (cls.SIZE - len(numbers))

    @classmethod
    @lru_cache(maxsize=256)
    def _change(cls, more: tuple[int, ...]) -> mx.array:
        return mx.array(cls._padded(more), dtype=mx.int32)


def _close(batch: Batch, arrays: list[list[mx.array]], tentative: bool) -> None:
    _put(batch, arrays)
    if not tentative:
        batch.kept = None


def _held(batch: Batch) -> list[list[mx.array]]:
    return [list(cache.arrays()) for cache in batch.flat]


def _put(batch: Batch, arrays: list[list[mx.array]]) -> None:
    """The inverse of `_held`."""
    for cache, values in zip(batch.flat, arrays, strict=True):
        cache.put(values)


def _filled(batch: Batch) -> bool:
    """Does every cache have its arrays? The very first step allocates them."""
    for cache in batch.flat:
        if isinstance(cache, AttentionCache) and not cache.filled:
            return False
        if isinstance(cache, StateCache) and any(value is None for value in cache.current):
            return False
    return True
