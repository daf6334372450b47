"""A decode step traced once and run many times: on a fast GPU the host is the bottleneck, and Python most of it.

The traced graph depends on shapes only: how many rows, in which groups, with which capacities. A shape is traced
after it has been seen for a while (tracing costs as much as several steps), and kept. What it computes is what the
plain step computes; the start-up check compares them before it is used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import mlx.core as mx

from paceline.cache.batch import Batch
from paceline.cache.grouping import Grouping
from paceline.cache.layers import AttentionCache, StateCache
from paceline.models import check
from paceline.models.adapter import Adapted

log = logging.getLogger("paceline")
DEVICES = ("cuda", "metal")  # on CPU the arithmetic takes the time, not the host
PATIENCE = 12  # steps of one shape before it is traced
MOST_SHAPES = 256  # traces kept; past that they are dropped, all of them

Shape = tuple[tuple[int | None, tuple[tuple[int, int], ...]], ...]


def compiled_step(model: Adapted, grouping: Grouping, device: str) -> CompiledStep | None:
    """A compiled step where it helps, and only if it agrees with the plain one on this machine."""
    if device not in DEVICES or model.dynamic_rope:
        return None
    try:
        if check.agrees(model, grouping, CompiledStep(model, patience=1)):
            return CompiledStep(model)
        log.warning("the compiled decode step disagrees with the plain one, and is not used")
    except Exception as error:  # noqa: BLE001  a model that cannot be traced is served without
        log.warning("the decode step of this model cannot be compiled, and runs as it is: %s", error)
    return None


class CompiledStep:
    """Called with the rows' tokens and their batch; returns logits (rows, vocabulary) and a commit, or None: step as
    usual.

    Contract: the call changes nothing in the batch but its room; after the commit it is as after a plain step's.
    """

    def __init__(self, model: Adapted, patience: int = PATIENCE) -> None:
        self._model = model
        self._patience = patience
        self._functions: dict[Any, Callable[..., list[mx.array]]] = {}
        self._traced: set[Shape] = set()
        self._last: Shape = ()
        self._seen = 0
        self._batch: Batch | None = None  # while it is traced

    def __call__(self, tokens: mx.array, batch: Batch) -> tuple[mx.array, Callable[[], None]] | None:
        batch.reserve(1)
        shape = _shape(batch)
        if shape not in self._traced:
            self._seen = self._seen + 1 if shape == self._last else 1
            self._last = shape
            if self._seen < self._patience or not _filled(batch):
                return None
            self._remember(shape)
        lanes = list(batch.lanes.values())
        ends = [mx.array(batch.ends(lane), dtype=mx.int32) for lane in lanes]
        places = mx.array(batch.places, dtype=mx.int32)
        partition = tuple(tuple(group.count for group in lane.groups) for lane in lanes)
        function = self._functions.get(partition)
        if function is None:
            function = self._functions[partition] = mx.compile(self._function())
        self._batch = batch
        try:
            logits, *arrays = function(tokens, places, ends, batch.arrays())
        finally:
            self._batch = None
        return logits, partial(_commit, batch, arrays)

    def _remember(self, shape: Shape) -> None:
        if len(self._traced) >= MOST_SHAPES:
            self._traced.clear()
            self._functions.clear()
        self._traced.add(shape)

    def _function(self) -> Callable[..., list[mx.array]]:
        def step(tokens: mx.array, places: mx.array, ends: list[mx.array], arrays: list[mx.array]) -> list[mx.array]:
            batch = self._batch
            assert batch is not None
            before = batch.arrays()
            try:  # while it is traced, the batch holds placeholders; it must never keep them
                _put(batch, arrays)
                batch.begin_fixed(places, dict(zip(batch.lanes, ends, strict=True)))
                logits = self._model.module(tokens[:, None], cache=batch.layers)[:, -1]
                for cache in batch.flat:
                    cache.commit([1] * batch.rows)
                return [logits, *batch.arrays()]
            finally:
                batch.close()
                _put(batch, before)

        return step


def _commit(batch: Batch, arrays: list[mx.array]) -> None:
    _put(batch, arrays)
    batch.lengths = [n + 1 for n in batch.lengths]


def _shape(batch: Batch) -> Shape:
    return tuple(
        (lane.window, tuple((group.count, group.capacity) for group in lane.groups)) for lane in batch.lanes.values()
    )


def _filled(batch: Batch) -> bool:
    """Has every cache its arrays? A row's very first step allocates them."""
    for cache in batch.flat:
        if isinstance(cache, AttentionCache) and not cache.keys:
            return False
        if isinstance(cache, StateCache) and any(value is None for value in cache.current):
            return False
    return True


def _put(batch: Batch, arrays: list[mx.array]) -> None:
    """The inverse of `arrays`."""
    source = iter(arrays)
    for cache in batch.flat:
        if isinstance(cache, AttentionCache):
            cache.keys = [next(source) for _ in cache.keys]
            cache.values = [next(source) for _ in cache.values]
        elif isinstance(cache, StateCache):
            cache.current = [next(source) for _ in cache.current]
