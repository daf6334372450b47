"""A row that is restored from a snapshot is the same row: its next steps see the same tokens and states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cache import kv_snapshot
from paceline.cache.batch import Batch
from paceline.cache.kv_snapshot import Checkpoint, Segment
from paceline.cache.layers import UnsupportedUse
from paceline.cache.slot_plan import LAYOUTS
from tests.cache.world import EVERY_LAYOUT, FOLDABLE, FULL, MODELS, STATE, Person, World, grouping, vectors

pytestmark = pytest.mark.usefixtures("small_steps")


def again(world: World, row: int, cuts: Sequence[int], room: int) -> World:
    """The row alone in a new world, restored from segments between `cuts`."""
    length = world.batch.lengths[row]
    bounds = [0, *sorted({cut for cut in cuts if 0 < cut < length}), length]
    segments = [
        kv_snapshot.cut_segment(world.batch, row, start, stop) for start, stop in zip(bounds, bounds[1:], strict=False)
    ]
    checkpoint = kv_snapshot.Checkpoint(kv_snapshot.cut_checkpoint(world.batch, row, length))
    made = World(world.plans, world.grouping)
    kv_snapshot.fill(made.batch, length, segments, checkpoint, room)
    person = world.people[row]
    made.people = [Person(list(person.tokens), person.delta)]
    made.batch.deltas[0] = person.delta
    made.names = count(5000)
    return made


@pytest.mark.thin(9)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
@settings(max_examples=4)
@given(
    chunks=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=1, max_size=4),
    steps=st.integers(0, 12),
    cuts=st.lists(st.integers(1, 30), max_size=3),
    room=st.integers(0, 9),
    data=st.data(),
)
def test_a_row_that_was_cut_out_goes_on_as_if_it_had_not_been(
    layout: str,
    model: str,
    chunks: list[list[int]],
    steps: int,
    cuts: list[int],
    room: int,
    data: st.DataObject,
) -> None:
    world = World(MODELS[model], grouping(layout, MODELS[model]))
    world.step(chunks[0][0])
    for each in chunks[1:]:
        world.join(each, delta=-1)
    for _ in range(steps):
        world.step(1)
    if world.can_roll_back and data.draw(st.booleans()):  # the snapshot has the accepted tokens of a layer that defers
        world.step(3, data.draw(st.lists(st.integers(0, 3), min_size=len(world.people), max_size=len(world.people))))
    for row, person in enumerate(world.people):
        if not person.active:
            continue
        made = again(world, row, cuts, room)
        made.check_rest()
        for width in (1, 3, 1):
            made.step(width)
        made.join(chunks[0])
        made.step(1)
    world.step(1)  # and whoever was copied has noticed nothing


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_a_row_restored_beside_others_joins_them(layout: str) -> None:
    world = World(MODELS["list"], grouping(layout, MODELS["list"]))
    world.step(5)
    world.join([9, 4])
    made = again(world, 1, [3], 8)
    world.take_row(made)
    assert sorted(world.batch.lengths)[-2:] == [13, 13]
    for _ in range(9):
        world.step(1)


def test_what_is_kept_is_a_copy_of_its_own() -> None:
    world = World((FULL,), LAYOUTS["padded"])
    world.step(3)
    (keys, _) = kv_snapshot.cut_segment(world.batch, 0, 0, 3)
    mx.eval(keys)
    before = np.array(keys)
    for _ in range(6):
        world.step(1)
    assert keys.shape[2] == 3 and np.array_equal(np.array(keys), before)


def test_windows_can_be_cut_at_any_token_of_the_last_step() -> None:
    plans = MODELS["windows"]
    longer, shorter = World(plans, LAYOUTS["rows"]), World(plans, LAYOUTS["rows"])
    for world, last in ((longer, 30), (shorter, 12)):
        world.step(40)
        world.step(last)
    ours, theirs = (kv_snapshot.cut_checkpoint(world.batch, 0, 52) for world in (longer, shorter))
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        for array, expected in zip(one or (), other or (), strict=True):
            assert np.array_equal(np.array(array), np.array(expected))


def test_a_state_that_was_not_recorded_cannot_be_cut() -> None:
    world = World(MODELS["hybrid"], LAYOUTS["rows"])
    world.step(40)
    assert not world.batch.can_record
    with pytest.raises(UnsupportedUse, match="no state was recorded"):
        kv_snapshot.cut_checkpoint(world.batch, 0, 12)


def test_tokens_that_are_not_in_the_buffer_cannot_be_cut() -> None:
    world = World(MODELS["windows"], LAYOUTS["rows"])
    world.step(40)
    world.step(4)
    with pytest.raises(UnsupportedUse):
        kv_snapshot.cut_checkpoint(world.batch, 0, 12)
    with pytest.raises(UnsupportedUse):
        kv_snapshot.cut_segment(world.batch, 0, 0, 400)
    with pytest.raises(IndexError):
        kv_snapshot.cut_segment(world.batch, 1, 0, 4)


def test_a_state_without_a_checkpoint_is_refused() -> None:
    with pytest.raises(UnsupportedUse):
        kv_snapshot.fill(Batch((STATE,), LAYOUTS["rows"]), 3, [], None, 0)


def test_only_a_model_that_remembers_all_its_tokens_needs_no_checkpoints() -> None:
    needing = {name for name, plans in MODELS.items() if kv_snapshot.needs_checkpoints(Batch(plans, LAYOUTS["rows"]))}
    assert needing == set(MODELS) - {"full"} and needing >= set(FOLDABLE)


# -- segments and checkpoints


def segment(tokens: Sequence[int], pairs: Sequence[int] = ()) -> Segment:
    return Segment((vectors([tokens]), -vectors([tokens])), (vectors([pairs]),) if pairs else ())


def said(part: Segment) -> list[list[int]]:
    return [(np.abs(np.array(array))[0, 0, :, 0] / 100).astype(int).tolist() for array in part.all()]


@given(size=st.integers(2, 12), data=st.data())
def test_a_split_puts_every_token_on_its_side(size: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, size - 1))
    tokens = list(range(1, size + 1))
    whole = segment(tokens, tokens)
    first, second = whole.split(at)
    assert said(first) == [tokens[:at]] * 3 and said(second) == [tokens[at:]] * 3
    assert first.nbytes + second.nbytes == whole.nbytes
    start, stop = sorted((data.draw(st.integers(0, size)), data.draw(st.integers(0, size))))
    taken = said(whole.take(start, stop))  # of no tokens there are no pairs
    assert taken == [tokens[start:stop]] * len(taken) and len(taken) == (3 if stop > start else 2)


def test_a_pair_stays_with_the_later_of_its_two_tokens() -> None:
    """A prompt's first token has no pair: the pairs of a segment that begins with it belong to its last tokens."""
    first, second = replace(segment([1, 2, 3, 4, 5], [2, 3, 4, 5]), unpaired=1).split(2)
    assert said(first) == [[1, 2], [1, 2], [2]] and said(second) == [[3, 4, 5]] * 3


def test_bytes_are_those_of_all_arrays() -> None:
    states = (mx.zeros((1, 3)), mx.zeros((1, 5), mx.bfloat16))
    checkpoint = Checkpoint((None, states, ()), mx.zeros((1, 1, 4)))
    assert checkpoint.nbytes == 12 + 10 + 16 and len(checkpoint.all()) == 3
    assert Checkpoint((None,)).nbytes == 0


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
def test_a_segments_bytes_are_known_beside_a_row_without_tokens(layout: str) -> None:
    """As those of an MTP head, which has no pairs of a prompt of one token."""
    world = World(MODELS["full"], grouping(layout, MODELS["full"]))
    world.join([5])
    expected = sum(part.nbytes for part in kv_snapshot.cut_segment(world.batch, 1, 0, 3))
    assert kv_snapshot.cut_bytes(world.batch, 3, bare=True) == expected
