"""Random scripts of joins, leaves, steps and rollbacks, against a list of each row's own tokens.

A token is a number; its key and its value hold that number. What a row can attend to is then read off the buffers,
through the mask and the view, and must be the last tokens of that row and nothing else. A state is a number too, into
which tokens are folded one by one; it must be that of the tokens that were kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cache import kv_snapshot
from paceline.cache.batch import Batch
from paceline.cache.layers import StateCache, UnsupportedUse
from paceline.cache.slot_plan import PADDED, ROWS, SIMILAR, Grouping, Placement
from tests.cache.world import BUCKETS, DEFERS, EVERY_LAYOUT, FOLDABLE, FULL, MODELS, World, grouping
from tests.lengths import examples

pytestmark = pytest.mark.usefixtures("small_steps")


JOIN = st.tuples(st.just("join"), st.lists(st.integers(1, 9), max_size=3), st.integers(-3, 3))
STEP = st.tuples(st.just("step"), st.sampled_from([1, 1, 1, 2, 5, 9]))
ROLLBACK = st.tuples(st.just("rollback"), st.integers(1, 9), st.booleans())
KEEP = st.tuples(st.just("keep"), st.integers(0, 63))
FAIL = st.tuples(st.just("fail"), st.integers(1, 9), st.booleans())
FIXED = st.tuples(st.just("fixed"))
PREFILL = st.tuples(st.just("padded"), st.sampled_from([4, 8]), st.booleans())  # steps with padding tokens
SCRIPTS = st.lists(st.one_of(JOIN, STEP, ROLLBACK, KEEP, FAIL, FIXED, PREFILL), max_size=14)


def play(world: World, script: Sequence[tuple[Any, ...]], data: st.DataObject) -> None:
    for kind, *arguments in script:
        if kind == "join":
            world.join(*arguments)
        elif not world.people:
            continue
        elif kind == "step":
            world.step(arguments[0])
        elif kind == "padded":
            width, fixed = arguments
            if world.grouping.buckets.widths:
                world.step(width, valid=data.draw(counts(width, len(world.people))), fixed=fixed)
        elif kind == "rollback":
            width, fixed = arguments
            if world.can_roll_back:
                world.step(width, data.draw(counts(width, len(world.people))), fixed=fixed)
        elif kind == "keep":
            world.keep([row for row in range(len(world.people)) if not arguments[0] >> row & 1])
        elif kind == "fail":
            world.attempt(arguments[0], tentative=arguments[1] and world.can_roll_back)
        else:
            world.step(1, fixed=True)


def counts(width: int, rows: int) -> st.SearchStrategy[list[int]]:
    """How many of `width` tokens each row keeps."""
    return st.lists(st.integers(0, width), min_size=rows, max_size=rows)


@pytest.mark.thin(4)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
@settings(max_examples=examples(15), deadline=None)
@given(rows=st.integers(1, 3), script=SCRIPTS, data=st.data())
def test_whatever_happens_a_row_sees_its_own_last_tokens_and_nothing_else(
    layout: str, model: str, rows: int, script: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    world = World(MODELS[model], grouping(layout, MODELS[model]), rows)
    play(world, script, data)
    if world.people:
        world.step(1)


@pytest.mark.thin(4)
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=6, deadline=None)
@given(script=SCRIPTS, data=st.data(), width=st.integers(1, 9), layers=st.integers(0, 4))
def test_a_step_that_fails_before_its_commit_changes_nothing(
    layout: str, model: str, script: list[tuple[Any, ...]], data: st.DataObject, width: int, layers: int
) -> None:
    """A step may fail after any of its layers, and the batch may change before the step is run again."""
    world = World(MODELS[model], grouping(layout, MODELS[model]))
    play(world, script, data)
    if not world.people:
        return
    new = world.new(width)
    world.batch.begin(width, tentative=world.can_roll_back and data.draw(st.booleans()))
    for cache in world.batch.flat[:layers]:
        world.layer(cache, new)
    if data.draw(st.booleans()):
        world.join(data.draw(st.sampled_from([[], [3], [9, 9]])))
    if data.draw(st.booleans()):
        world.keep(range(1, len(world.people)))
    if world.people:
        world.step(1)


@pytest.mark.thin(9)
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=6, deadline=None)
@given(script=SCRIPTS, data=st.data())
def test_a_step_of_fixed_shape_is_the_same_step(
    layout: str, model: str, script: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    world = World(MODELS[model], grouping(layout, MODELS[model]))
    play(world, script, data)
    if not world.people:
        return
    for width in (1, 1, 4):
        world.step(width, fixed=True)
    if world.can_roll_back:
        world.step(4, data.draw(counts(4, len(world.people))), fixed=True)
    world.step(1)
    world.step(3)


TENTATIVE = st.tuples(st.just("round"), st.integers(1, 9), st.integers(1, 9))
TOGETHER = st.lists(st.one_of(JOIN, STEP, TENTATIVE, KEEP), max_size=12)


# No family has states only and an MTP head: with buckets, their batches would not agree about padding.
BESIDE = [(model, layout) for model in FOLDABLE for layout in EVERY_LAYOUT if model != "states" or "+" not in layout]


@pytest.mark.thin(4)
@pytest.mark.parametrize(("model", "layout"), BESIDE)
@settings(max_examples=examples(10), deadline=None)
@given(script=TOGETHER, data=st.data())
def test_a_second_batch_that_is_told_where_rows_go_keeps_the_same_rows_in_the_same_groups(
    layout: str, model: str, script: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """Like the MTP head's batch beside the target's: its rows have other lengths, that would be grouped differently."""
    first, second = World(MODELS[model], grouping(layout, MODELS[model])), World([FULL], grouping(layout, [FULL]))
    for kind, *arguments in script:
        rows = len(first.people)
        if kind == "join":
            other = data.draw(st.lists(st.integers(1, 30), max_size=2))
            place = first.join(*arguments)
            assert second.join(other, at=place) == place
        elif not rows:
            continue
        elif kind == "step":
            first.step(arguments[0])
        elif kind == "round":
            first.step(arguments[0], data.draw(counts(arguments[0], rows)))
            second.step(arguments[1], data.draw(counts(arguments[1], rows)))
        else:
            for world in (first, second):
                world.keep([row for row in range(rows) if not arguments[0] >> row & 1])
        groups = [
            [(group.first, group.count) for group in slot_plan.groups] for slot_plan in first.batch.slot_plans.values()
        ]
        if groups:  # a model without attention has none, and rows beside it lie apart
            assert [(group.first, group.count) for group in second.batch.slot_plans[None].groups] in groups
    if first.people:
        first.step(1)
        second.step(1)


@pytest.mark.thin(4)
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
@pytest.mark.parametrize("model", ["full", "windows", *FOLDABLE])
@settings(max_examples=examples(10), deadline=None)
@given(script=SCRIPTS, widths=st.lists(st.integers(1, 9), min_size=2, max_size=6), data=st.data())
def test_speculative_steps_that_run_ahead_of_the_host_are_speculative_steps_that_it_has_read(
    layout: str, model: str, script: list[tuple[Any, ...]], widths: list[int], data: st.DataObject
) -> None:
    """Masks and states are checked in every step; lengths when the host has read them, oldest first."""
    world = World(MODELS[model], grouping(layout, MODELS[model]))
    play(world, script, data)
    if not world.people:
        return
    unread: list[list[int]] = []
    for width in widths:
        kept = data.draw(counts(width, len(world.people)))
        world.advance_on_device(width, kept)
        unread.append(kept)
        while len(unread) > 2 or (unread and data.draw(st.booleans())):
            world.batch.sync_lengths(unread.pop(0))
    while unread:
        with pytest.raises(RuntimeError, match="must be synced"):
            world.batch.begin(1)
        world.batch.sync_lengths(unread.pop(0))
    world.check_rest()
    world.step(1)


@pytest.mark.parametrize("model", FOLDABLE)
def test_a_tentative_step_that_breaks_still_owes_what_was_owed_before(model: str) -> None:
    world = World(MODELS[model], PADDED, rows=2)
    world.step(3)
    world.step(4, [2, 4])
    for _ in range(2):
        world.attempt(5, tentative=True)
        world.batch.drop()
    with pytest.raises(RuntimeError, match="begin"):
        _ = world.batch.step
    world.step(5, [0, 1])
    world.step(1)


def test_tokens_are_owed_until_the_next_step_and_no_longer() -> None:
    world = World([DEFERS], PADDED, rows=2)
    [cache] = world.batch.flat
    assert isinstance(cache, StateCache)
    world.step(2)
    world.step(6, [6, 1])
    assert [array.shape for array in cache.pending] == [(2, 6)]
    world.step(3, [1, 2])
    assert [array.shape for array in cache.pending] == [(2, 3)]
    world.step(1)
    assert cache.pending == [] and world.batch.kept is None


def test_a_row_that_owes_tokens_may_not_join() -> None:
    world, other = World([DEFERS], PADDED), World([DEFERS], PADDED)
    other.step(3, [2])
    with pytest.raises(UnsupportedUse, match="pending tokens"):
        world.batch.join(other.batch)


def test_a_row_that_leaves_does_not_move_its_neighbours() -> None:
    world = World(MODELS["full"], ROWS)
    for length in (5, 30, 2):
        world.join([length])
    cache = world.attention()[0]
    keys, values = list(cache.stores[0]), list(cache.stores[1])
    world.keep([0, 2, 3])
    assert all(now is before for now, before in zip(cache.stores[0], [keys[0], *keys[2:]], strict=True))
    assert all(now is before for now, before in zip(cache.stores[1], [values[0], *values[2:]], strict=True))


def test_a_row_that_leaves_one_group_does_not_touch_another() -> None:
    world = World(MODELS["full"], SIMILAR)
    world.step(4)
    for length in (40, 5, 50, 3):
        world.join([length])
    cache = world.attention()[0]
    assert [group.count for group in cache.slot_plan.groups] == [3, 2]
    long = cache.stores[0][1]
    world.keep([0, 2, 3, 4])
    assert cache.stores[0][1] is long
    world.step(1)


def test_a_row_that_joins_the_first_group_moves_the_later_rows_back() -> None:
    world = World(MODELS["hybrid"], SIMILAR)
    world.step(4)
    assert world.join([40]) == Placement(1, None)
    assert world.join([5]) == Placement(1, 0)
    assert [len(person.tokens) for person in world.people] == [4, 5, 40]
    world.step(1)


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
@pytest.mark.parametrize("model", MODELS)
def test_a_row_without_tokens_may_join_and_leave_again_before_any_step(layout: str, model: str) -> None:
    world = World(MODELS[model], grouping(layout, MODELS[model]))
    for chunks in ([], [], [7], []):
        world.join(chunks)
    world.step(1)
    world = World(MODELS[model], grouping(layout, MODELS[model]))
    for _ in range(3):
        world.join([])
    world.keep([1, 3])
    world.join([])
    world.keep([2])
    world.step(2)


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
@pytest.mark.parametrize("model", MODELS)
def test_a_batch_that_everyone_left_takes_rows_again(layout: str, model: str) -> None:
    world = World(MODELS[model], grouping(layout, MODELS[model]))
    world.step(5)
    world.keep([])
    world.join([3])
    world.join([20])
    world.step(1)


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_a_group_gives_memory_back_when_its_long_row_has_left(layout: str) -> None:
    world = World(MODELS["full"], grouping(layout, MODELS["full"]))
    world.step(3)
    world.join([200])
    full = world.batch.nbytes
    world.keep([0])
    assert world.batch.nbytes < full / 10
    world.step(1)


def test_two_rows_may_not_join_at_once() -> None:
    with pytest.raises(ValueError, match="one at a time"):
        Batch(MODELS["full"], PADDED).join(Batch(MODELS["full"], PADDED, 2))


# -- padding


def test_rows_fill_padding_before_a_group_takes_the_next_bucket() -> None:
    world = World(MODELS["both"], Grouping(float("inf"), BUCKETS))
    world.step(4)
    places = [world.join([length]) for length in (5, 6, 7, 2)]
    assert places == [Placement(1, 0, 1), Placement(2, 0, 2), Placement(3, 0, 0), Placement(4, 0, 2)]
    assert world.batch.active == [True] * 5 + [False]
    world.step(1)


def test_a_row_that_leaves_becomes_padding_until_its_group_fits_a_smaller_bucket() -> None:
    world = World(MODELS["full"], Grouping(float("inf"), BUCKETS))
    world.step(4)
    for length in (5, 6, 7):
        world.join([length])
    cache = world.attention()[0]
    keys = cache.stores[0][0]
    world.keep([0, 2, 3])
    assert cache.stores[0][0] is keys and world.batch.active == [True, False, True, True]
    world.step(1)
    assert world.join([3]) == Placement(1, 0, 0)
    world.keep([1, 2])
    assert (world.batch.active, cache.stores[0][0].shape[0]) == ([True, True], 2)
    world.step(1)


def test_keep_says_which_row_each_was() -> None:
    batch = World(MODELS["hybrid"], Grouping(float("inf"), BUCKETS), rows=4).batch
    assert batch.keep([0, 1, 2, 3]) == [0, 1, 2, 3]
    assert batch.keep([0, 1, 3]) == [0, 1, None, 3]
    assert batch.keep([0, 1, 3]) == [0, 1, None, 3]
    assert batch.keep([1, 3]) == [1, 3]
    assert batch.keep([]) == []


@pytest.mark.parametrize("layout", ["padded+buckets", "similar+buckets"])
@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=examples(10), deadline=None)
@given(script=SCRIPTS, data=st.data())
def test_with_buckets_the_rows_hold_what_they_hold_without(
    layout: str, model: str, script: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """Each row, cut out of the batch, is what a batch of exact shapes holds after the same tokens."""
    world = World(MODELS[model], grouping(layout, MODELS[model]))
    play(world, script, data)
    for row, person in enumerate(world.people):
        if not person.active or not person.tokens:
            continue
        plain = World(MODELS[model], PADDED)
        plain.new = lambda width, person=person: [list(person.tokens)]  # type: ignore[method-assign, misc]
        plain.step(len(person.tokens))
        length = len(person.tokens)
        cuts = [
            [*kv_snapshot.cut_segment(batch, place, 0, length), *cut_states(batch, place)]
            for batch, place in ((world.batch, row), (plain.batch, 0))
        ]
        for mine, theirs in zip(*cuts, strict=True):
            assert np.array_equal(np.array(mine), np.array(theirs))


def cut_states(batch: Batch, row: int) -> list[Any]:
    return [array for cache in batch.flat if isinstance(cache, StateCache) for array in cache.of_row(row)]
