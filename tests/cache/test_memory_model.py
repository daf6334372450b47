"""How many bytes rows take, by the memory model."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cache.layers import AttentionCache, StateCache
from paceline.cache.memory_model import AttentionCost, MemoryModel
from paceline.cache.shape_buckets import GPU
from paceline.cache.slot_plan import LAYOUTS, MARGIN, PADDED, ROWS, SIMILAR, STEP, Group, SlotPlan, capacity
from tests.cache.test_batch import SCRIPTS, play
from tests.cache.world import EVERY_LAYOUT, HEADS, MODELS, SIZE, World, grouping
from tests.lengths import examples

DRAFTED = 2  # tokens of a decode step
PLAIN = MemoryModel((AttentionCost(None, 10),))


def test_a_row_pays_for_the_slots_of_its_buffers_by_layer_kind() -> None:
    memory_model = MemoryModel((AttentionCost(None, 10), AttentionCost(512, 3)), state=1000, fixed=7)
    assert memory_model.row(100) == 1007 + 256 * 10 + capacity(512, 100) * 3
    assert memory_model.row(100_000) == 1007 + capacity(None, 100_000) * 10 + capacity(512, 511 + MARGIN) * 3


def test_a_draft_models_rows_and_passes_are_paid_for_beside_the_targets() -> None:
    target = MemoryModel((AttentionCost(None, 10, 4), AttentionCost(512, 3, 2)), state=1000, chunk_token=5.0)
    draft = MemoryModel((AttentionCost(None, 2, 1), AttentionCost(64, 1, 1)), state=10, chunk_token=1.0, decode_token=2)
    both = target.beside(draft)
    for tokens in (1, 300, 5000):
        assert both.row(tokens) == target.row(tokens) + draft.row(tokens)
        assert both.batch([tokens, 40]) == target.batch([tokens, 40]) + draft.batch([tokens, 40])
    assert both.chunk(100, 50) == 600 and both.step(3, 2) == 12
    assert both.copying([5000], at_once=True) == target.copying([5000], at_once=True) + draft.copying(
        [5000], at_once=True
    )


def test_a_window_bounds_what_a_long_row_pays() -> None:
    memory_model = MemoryModel((AttentionCost(512, 3),))
    assert memory_model.row(600) == memory_model.row(1_000_000)
    assert memory_model.row(1_000_000) <= 3 * (512 + MARGIN + 2 * STEP)


def test_a_state_costs_the_same_at_any_length() -> None:
    memory_model = MemoryModel(state=1000)
    assert memory_model.row(1) == memory_model.row(1_000_000) == 1000
    assert memory_model.batch([1, 1_000_000]) == 2000


@pytest.mark.parametrize("window", [100, 240, 241, 242, 497, 512])
def test_a_window_costs_what_its_buffer_has(window: int) -> None:
    slot_plan = SlotPlan(window, [Group(0, 1, 0, [0])])
    for length in range(0, 1500):
        slot_plan.reserve([length], 1)
    assert MemoryModel((AttentionCost(window, 1),)).row(1500) == slot_plan.groups[0].capacity


def test_a_chunk_leaves_more_in_a_window_and_nothing_elsewhere() -> None:
    assert PLAIN.stretch(5000, 512) == 0
    windowed = MemoryModel((AttentionCost(512, 3),))
    assert windowed.stretch(5000, 512) == 3 * (capacity(512, 512 + MARGIN + 512) - capacity(512, 512 + MARGIN)) > 0
    assert windowed.stretch(100, 512) == 0


def test_rows_in_buffers_of_their_own_pay_each_for_itself() -> None:
    lengths = [10, 300, 5000]
    assert PLAIN.batch(lengths) == sum(map(PLAIN.row, lengths))


def test_rows_of_one_group_all_pay_for_the_longest() -> None:
    padded = MemoryModel((AttentionCost(None, 10),), state=5, grouping=PADDED)
    assert padded.batch([10, 300, 5000]) == 3 * (5 + 10 * capacity(None, 5000))
    assert padded.batch([]) == 0


def test_rows_of_similar_length_share_a_group() -> None:
    similar = MemoryModel((AttentionCost(None, 10),), grouping=SIMILAR)
    assert similar.groups([(None, 10), (None, 500), (None, 5000), (None, 4000)]) == [[0, 1], [2, 3]]
    assert similar.batch([10, 500, 5000, 4000]) == 20 * (capacity(None, 500) + capacity(None, 5000))


def test_rows_that_have_joined_stay_in_their_group_whatever_they_have_become() -> None:
    similar = MemoryModel((AttentionCost(None, 10),), grouping=SIMILAR)
    together = [(7, 100), (7, 2000)]
    assert similar.groups(together) == [[0, 1]]
    assert similar.groups([(1, 1000), (2, 1000), (None, 1000)]) == [[0, 2], [1]]


@pytest.mark.parametrize("grouping", LAYOUTS.values())
def test_in_given_groups_longer_rows_never_cost_less(grouping: object) -> None:
    dice = random.Random(1)
    memory_model = MemoryModel((AttentionCost(None, 10), AttentionCost(100, 3)), state=3, grouping=grouping)  # type: ignore[arg-type]
    for _ in range(300):
        lengths = [dice.randint(1, 3000) for _ in range(dice.randint(1, 6))]
        groups = memory_model.groups([(None, length) for length in lengths])
        assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
        longer = [length + dice.randint(0, 500) for length in lengths]
        assert memory_model.batch(longer, groups) >= memory_model.batch(lengths, groups)


def test_a_chunk_pays_for_its_tokens_and_for_what_they_look_back_at() -> None:
    memory_model = MemoryModel(chunk_token=2.0, chunk_pair=0.5)
    assert memory_model.chunk(10, 0) == 10 * (2 + 5)
    assert memory_model.chunk(10, 90) == 10 * (2 + 50)


def test_a_step_pays_for_each_token_of_each_row_and_for_what_it_attends_to() -> None:
    assert MemoryModel(decode_token=3.0).step(4, 2) == 24
    memory_model = MemoryModel((AttentionCost(None, 1), AttentionCost(512, 1)), decode_token=3.0, decode_pair=0.5)
    assert memory_model.step(4, 2, 3000) == 8 * (3 + capacity(None, 3000) // 2)
    windowed = MemoryModel((AttentionCost(512, 1),), decode_pair=1.0)
    assert windowed.step(1, 1, 3000) == windowed.step(1, 1, 1_000_000)


def test_a_step_at_its_peak_copies_buffers_or_computes() -> None:
    memory_model = MemoryModel((AttentionCost(None, 8, 4),), decode_token=3.0, grouping=PADDED)
    assert memory_model.passing([100, 200]) == memory_model.copying([100, 200]) > memory_model.step(2, 1)
    heavy = replace(memory_model, decode_token=1e6)
    assert heavy.passing([100, 200], width=2) == heavy.step(2, 2) > heavy.copying([100, 200])
    assert heavy.passing([]) == 0


def test_images_keep_their_features_and_the_largest_needs_the_tower() -> None:
    memory_model = MemoryModel(media_byte=2.0, encode_byte=10.0, encode_pair=1.0)
    assert memory_model.media([]) == 0
    assert memory_model.media([3, 5]) == 8 * 2 + 5 * (10 + 5)


def test_rows_are_priced_alone_unless_the_layout_says_otherwise() -> None:
    assert PLAIN.grouping is ROWS


def test_a_copy_of_the_largest_group_is_paid_for_one_layer_of_it() -> None:
    memory_model = MemoryModel((AttentionCost(None, 8, 4), AttentionCost(32, 40, 2)), grouping=PADDED)
    assert memory_model.copying([100, 200]) == 2 * 512 * 40 // 2  # a window is full-grown early
    assert memory_model.copying([100, 9000]) == 2 * capacity(None, 9000) * 8 // 4
    assert memory_model.copying([]) == 0
    assert MemoryModel((AttentionCost(None, 8),)).copying([100]) == 0


# -- buckets


def test_padding_rows_are_paid_for() -> None:
    padded = MemoryModel((AttentionCost(None, 10),), state=5, grouping=replace(PADDED, buckets=GPU), decode_token=3.0)
    assert padded.batch([10] * 5) == padded.batch([10] * 8) == 8 * (5 + 10 * 256)
    assert padded.batch([10, 1100]) == 2 * (5 + 10 * 1536)
    assert padded.step(5, 2) == 8 * 2 * 3
    assert padded.batch([]) == padded.step(0, 1) == 0


def priced(world: World) -> MemoryModel:
    """The model of a world's layers."""
    slot = 2 * HEADS * SIZE * 4
    layers = [cache.slot_plan.window for cache in world.attention()]
    states = [cache for cache in world.batch.flat if isinstance(cache, StateCache)]
    costs = tuple(AttentionCost(window, slot * layers.count(window), layers.count(window)) for window in set(layers))
    return MemoryModel(costs, state=2 * 3 * 4 * len(states), grouping=world.grouping)


@pytest.mark.parametrize("layout", EVERY_LAYOUT)
@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=examples(15), deadline=None)
@given(script=SCRIPTS, data=st.data())
def test_a_batch_never_holds_more_than_it_pays_for(
    small_steps: None, layout: str, model: str, script: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """Rows that decode: each pays for the tokens that it has, and for those of a step that may be rejected."""
    world = World(MODELS[model], grouping(layout, MODELS[model]))
    for kind, *arguments in script:
        if kind in ("rollback", "fail", "step"):
            arguments[0] = min(arguments[0], DRAFTED)
        if kind != "padded":
            play(world, [(kind, *arguments)], data)
    rows = [row for row in range(world.batch.rows) if world.batch.active[row]]
    lengths = [world.batch.lengths[row] + DRAFTED for row in rows]
    plans = list(world.batch.slot_plans.values())
    groups = None
    if plans:
        groups = [
            [place for place, row in enumerate(rows) if row in range(world.batch.rows)[group.rows]]
            for group in plans[0].groups
        ]
    held = sum(array.nbytes for cache in world.batch.flat for array in cache_arrays(cache))
    assert held <= priced(world).batch(lengths, groups)


def cache_arrays(cache: Any) -> list[Any]:
    """Of a decoding batch: pending tokens are activations."""
    if isinstance(cache, AttentionCache):
        return list(cache.arrays())
    return [state for state in cache.current if state is not None] if isinstance(cache, StateCache) else []


def test_quantized_keys_and_values_are_priced_with_what_is_exact_and_with_a_row_that_is_read() -> None:
    layer = AttentionCost(None, token=10, layers=2, dense=32, exact=40, exact_slots=100)
    plain = MemoryModel(attention=(AttentionCost(None, token=10, layers=2),))
    model = MemoryModel(attention=(layer,))
    slots = capacity(None, 1000)
    assert model.row(1000) == plain.row(1000) + 40 * 101
    assert model.row(50) == plain.row(50) + 40 * (min(capacity(None, 50), 100) + 1)
    assert model.copying([1000]) == plain.copying([1000]) + 40 * 101 // 2
    assert model.step(3, 1, 1000) == plain.step(3, 1, 1000) + 32 * slots
    assert model.chunk(8, 1000) == 32 * 1008
    assert model.beside(model).attention == (AttentionCost(None, 20, 4, 32, 80, 100),)
