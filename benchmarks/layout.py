"""`python -m benchmarks layout`: what a decode step costs under each layout of keys and values, rows of any lengths.

The cached tokens are made up (their values do not matter to the cost), so that long rows need no long prefill.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from paceline.cache.batch import Batch
from paceline.cache.layers import AttentionCache, resize
from paceline.cache.slot_plan import LAYOUTS, Grouping
from paceline.models.adapter import Adapted


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    lengths: tuple[int, ...]


CASES = (
    Case("8000 alone", (8000,)),
    Case("8000, 1000, 10", (8000, 1000, 10)),
    Case("8000, 1000, 10 and five of 200", (8000, 1000, 10, 200, 200, 200, 200, 200)),
    Case("eight of 1000", (1000,) * 8),
)


def made_up_row(model: Adapted, grouping: Grouping, length: int) -> Batch:
    """A row that claims `length` cached tokens."""
    row = model.batch(grouping)
    row.begin(1)
    model.module(mx.zeros((1, 1), dtype=mx.int32), cache=row.layers)
    row.commit()
    for slot_plan in row.slot_plans.values():
        slot_plan.groups[0].capacity = length + 256
        if slot_plan.window is not None:
            slot_plan.groups[0].starts = [max(0, length - slot_plan.window)]
            slot_plan.groups[0].capacity = min(length, slot_plan.window) + 256
    for cache in row.flat:
        if isinstance(cache, AttentionCache):
            for store in cache.stores:
                store[0] = resize(store[0], cache.slot_plan.groups[0].capacity)
    row.lengths = [length]
    mx.eval(row.arrays())
    return row


def step_times(model: Adapted, case: Case, rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds a step, for each layout, measured in turns. Layouts that come to the same for these rows still run."""
    batches = {}
    for name, grouping in LAYOUTS.items():
        batch: Batch | None = None
        for length in case.lengths:
            row = made_up_row(model, grouping, length)
            if batch is None:
                batch = row
            else:
                batch.join(row)
        assert batch is not None
        mx.eval(batch.arrays())
        batches[name] = batch
    times: dict[str, list[float]] = {name: [] for name in batches}
    tokens = mx.zeros((len(case.lengths), 1), dtype=mx.int32)
    for _ in range(rounds + 1):
        for name, batch in batches.items():
            begun = time.perf_counter()
            for _ in range(steps):
                batch.begin(1)
                logits = model.module(tokens, cache=batch.layers)
                batch.commit()
                mx.eval(logits, batch.states())
            times[name].append((time.perf_counter() - begun) / steps)
    return {name: values[1:] for name, values in times.items()}


def compare(
    model: Adapted, cases: Sequence[Case] = CASES, rounds: int = 7, steps: int = 8
) -> dict[str, dict[str, float]]:
    """Milliseconds a step (medians) by case and layout."""
    return {
        case.name: {
            name: statistics.median(values) * 1e3 for name, values in step_times(model, case, rounds, steps).items()
        }
        for case in cases
    }
