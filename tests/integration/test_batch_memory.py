"""What copying buffers takes: where memory is short, old and new are there together for one layer at a time only."""

from __future__ import annotations

import gc
from collections.abc import Callable

import mlx.core as mx
import pytest

from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.layers import AttentionCache
from paceline.cache.slot_plan import PADDED

LAYERS = 16
TOKENS = 1020  # just below a border: a few more, and the buffers grow


def step(batch: Batch, width: int) -> None:
    batch.begin(width)
    new = mx.random.normal((batch.rows, 4, width, 32))
    for layer in batch.layers:
        assert isinstance(layer, AttentionCache)
        layer.update_and_fetch(new, new)
    batch.commit()
    mx.eval(batch.arrays())


def row() -> Batch:
    batch = Batch([LayerPlan("attention")] * LAYERS, PADDED)
    step(batch, TOKENS)
    return batch


apart: list[Batch] = []  # a row that is about to join, and that nobody else holds


def joins(batch: Batch) -> None:
    batch.join(apart.pop())


def grows(batch: Batch) -> None:
    batch.reserve(16)


def leaves(batch: Batch) -> None:
    batch.keep([0, 2])


@pytest.mark.parametrize("change", [joins, grows, leaves])
def test_layers_are_copied_one_by_one_where_memory_is_short(change: Callable[[Batch], None]) -> None:
    batch = row()
    for _ in range(2):
        batch.join(row())
    mx.eval(batch.arrays())
    apart[:] = [row()] if change is joins else []
    batch.low_memory = True
    gc.collect()
    mx.synchronize()
    layer = batch.nbytes / LAYERS
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    change(batch)
    most = max(before, mx.get_active_memory())
    assert mx.get_peak_memory() - most < 3 * layer
