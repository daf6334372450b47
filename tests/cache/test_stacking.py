"""Rows in one pass are each alone in a pass of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cache import stacking
from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.layers import AttentionCache, StateCache
from tests.cache.world import MODELS, Person, World, grouping
from tests.lengths import examples

PADDABLE = [name for name, plans in MODELS.items() if grouping("padded+buckets", plans).buckets.widths]


pytestmark = pytest.mark.usefixtures("small_steps")


def worlds(plans: Sequence[LayerPlan], pasts: Sequence[Sequence[int]], layout: str = "padded+buckets") -> list[World]:
    """Rows that were prefilled in chunks of these sizes."""
    names, made = count(1), []
    for delta, chunks in enumerate(pasts):
        world = World(plans, grouping(layout, plans))
        world.names = names
        for width in chunks:
            world.step(world.grouping.buckets.width(width), valid=[width])
        world.people[0].delta = world.batch.deltas[0] = -delta
        made.append(world)
    return made


def together(rows: Sequence[World], count: int) -> World:
    """The world of the stacked batch."""
    grouping = rows[0].grouping
    both = World(rows[0].plans, replace(grouping, skew=1, buckets=replace(grouping.buckets, rows=(count,))))
    both.batch = stacking.stack([world.batch for world in rows], count)
    padding = [Person(active=False) for _ in range(count - len(rows))]
    both.people = [Person(list(person.tokens), person.delta) for world in rows for person in world.people] + padding
    both.names = rows[0].names
    return both


def held(batch: Batch) -> list[object]:
    """All that a batch is, read."""
    plans = [
        [(group.first, group.count, group.capacity, list(group.starts)) for group in plan.groups]
        for plan in batch.slot_plans.values()
    ]
    arrays = [np.array(array).tolist() for array in batch.arrays()]
    return [list(batch.lengths), list(batch.deltas), list(batch.active), plans, arrays]


PASTS = st.lists(st.lists(st.integers(1, 9), max_size=3), min_size=2, max_size=4)


@pytest.mark.parametrize("model", PADDABLE)
@pytest.mark.parametrize("layout", ["padded+buckets", "similar+buckets", "rows"])
@settings(max_examples=examples(15), deadline=None)
@given(pasts=PASTS, data=st.data(), fixed=st.booleans())
def test_rows_that_share_a_pass_are_as_if_each_had_been_alone(
    model: str, layout: str, pasts: list[list[int]], data: st.DataObject, fixed: bool
) -> None:
    """The stacked pass itself is compared with the naive twin; so are the rows afterwards, alone and in a batch."""
    rows = worlds(MODELS[model], pasts, layout)
    before = [held(world.batch) for world in rows]
    both = together(rows, data.draw(st.sampled_from([len(rows), 4])))
    width = data.draw(st.sampled_from([4, 8]))
    valid = data.draw(st.lists(st.integers(1, width), min_size=len(rows), max_size=len(rows)))
    padding = [0] * (both.batch.rows - len(rows))
    both.step(width, valid=[*valid, *padding], fixed=fixed)
    assert [held(world.batch) for world in rows] == before  # they stay as they are
    stacking.unstack(both.batch, [world.batch for world in rows])
    for world, twin in zip(rows, both.people[: len(rows)], strict=True):
        world.people = [twin]
        world.check_rest()
        world.step(4, valid=[3])
    batch, *others = rows
    for other in others:
        batch.take_row(other)
    for _ in range(6):
        batch.step(1)


@pytest.mark.parametrize("model", PADDABLE)
def test_a_failed_pass_has_changed_nothing(model: str) -> None:
    rows = worlds(MODELS[model], [[5], [], [9, 9]])
    before = [held(world.batch) for world in rows]
    both = together(rows, 4)
    both.attempt(8, valid=[3, 8, 1, 0])
    both.batch.drop()
    assert [held(world.batch) for world in rows] == before
    for world in rows:
        world.step(4, valid=[2])


def test_unstack_gives_back_rows_and_no_padding() -> None:
    rows = worlds(MODELS["both"], [[3], [7], [2]])
    both = together(rows, 4)
    both.step(4, valid=[4, 1, 2, 0])
    stacking.unstack(both.batch, [world.batch for world in rows])
    assert [world.batch.lengths for world in rows] == [[7], [8], [4]]
    assert [world.batch.deltas for world in rows] == [[0], [-1], [-2]]
    assert all(array.shape[0] == 1 for world in rows for array in world.batch.arrays())


@pytest.mark.parametrize("model", MODELS)
def test_an_allocated_batch_is_one_whose_first_step_comes(model: str) -> None:
    """It has the arrays that its first step would make, and nothing in them is seen."""
    full = World(MODELS[model], grouping("padded+buckets", MODELS[model]), rows=2)
    full.step(3)
    shapes = stacking.shapes(full.batch)
    fresh = World(full.plans, full.grouping, rows=3)
    fresh.batch.reserve(5)
    stacking.allocate(fresh.batch, shapes)
    for cache in fresh.batch.flat:
        if isinstance(cache, AttentionCache):
            assert [keys.shape[0] for keys in cache.stores[0]] == [3]
        elif isinstance(cache, StateCache):
            assert all(state is not None and state.shape == (3, 3) for state in cache.current)
    assert stacking.shapes(fresh.batch) == shapes
    fresh.check_rest()
    fresh.step(5)
    fresh.step(1)


def test_rows_that_share_their_blank_states_do_not_change_them() -> None:
    full = World(MODELS["both"], grouping("padded+buckets", MODELS["both"]), rows=2)
    full.step(3)
    blanks = []
    for width in (5, 3):
        fresh = World(full.plans, full.grouping, rows=3)
        fresh.batch.reserve(width)
        stacking.allocate(fresh.batch, stacking.shapes(full.batch), shares=True)
        states = [cache.current for cache in fresh.batch.flat if isinstance(cache, StateCache)]
        blanks += [state for current in states for state in current if state is not None]
        fresh.step(width)
        fresh.step(1)
    assert len({id(state) for state in blanks}) == 1 < len(blanks)
    assert not blanks[0].any()


def test_allocating_twice_keeps_what_is_there() -> None:
    world = World(MODELS["both"], grouping("padded+buckets", MODELS["both"]))
    world.step(3)
    arrays = world.batch.arrays()
    stacking.allocate(world.batch, stacking.shapes(world.batch))
    assert all(now is before for now, before in zip(world.batch.arrays(), arrays, strict=True))


def test_shapes_are_those_of_one_row_and_of_no_capacity() -> None:
    short, long = (World(MODELS["both"], grouping("padded", MODELS["both"]), rows) for rows in (1, 3))
    short.step(1)
    long.step(50)
    assert stacking.shapes(short.batch) == stacking.shapes(long.batch)
    assert ((3,), mx.int32) in stacking.shapes(short.batch)[0]


@pytest.mark.parametrize("model", PADDABLE)
def test_a_pass_that_fails_after_it_was_given_back_can_be_undone(model: str) -> None:
    rows = worlds(MODELS[model], [[5], [], [9, 9]])
    batches = [world.batch for world in rows]
    before = [held(batch) for batch in batches]
    restore = stacking.restore_point(batches)
    both = together(rows, 4)
    both.step(8, valid=[3, 8, 1, 0])
    stacking.unstack(both.batch, batches)
    assert [held(batch) for batch in batches] != before
    restore()
    assert [held(batch) for batch in batches] == before
    for world in rows:
        world.step(4, valid=[2])
