"""What a model's layers may call on their caches."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.kv_quantization import KVQuantization, Lines
from paceline.cache.layers import AttentionCache, CacheGroup, UnsupportedUse, two_sided_mask
from paceline.cache.slot_plan import PADDED
from tests.cache.test_batch import SCRIPTS, play
from tests.cache.world import EVERY_LAYOUT, HEADS, MODELS, SIZE, World, grouping, vectors


@pytest.mark.thin(6, first=1)
@pytest.mark.parametrize("layout", EVERY_LAYOUT)
@pytest.mark.parametrize("model", ["full", "windows", "list"])
@settings(max_examples=6, deadline=None)
@given(script=SCRIPTS, data=st.data(), seed=st.integers(0, 1000))
def test_attention_over_the_buffers_is_softmax_over_the_rows_own_tokens(
    layout: str, model: str, script: list[tuple[Any, ...]], data: st.DataObject, seed: int
) -> None:
    world = World(MODELS[model], grouping(layout, MODELS[model]))
    play(world, script, data)
    if not world.people:
        world.join([3])
    for width in (1, 4):
        new = world.attempt(width)
        noise = np.random.default_rng(seed).normal(size=(len(new), HEADS, width, SIZE)).astype(np.float32)
        for cache in world.attention():
            got = np.array(cache.attend(mx.array(noise), 0.01, None, mx.fast.scaled_dot_product_attention))
            for row, person in enumerate(world.people):
                for query, tokens in enumerate(
                    person.visible(new[row], cache.slot_plan.window) if person.active else ()
                ):
                    known = np.array(vectors([tokens]))[0]
                    scores = 0.01 * (known @ noise[row, :, query, :, None])[..., 0]
                    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
                    weights /= weights.sum(axis=-1, keepdims=True)
                    expected = -(weights[..., None] * known).sum(axis=1)
                    np.testing.assert_allclose(got[row, :, query], expected, rtol=1e-3)


def test_a_layer_asked_outside_a_step_says_so() -> None:
    batch = Batch(MODELS["full"], PADDED)
    with pytest.raises(RuntimeError, match="begin"):
        _ = batch.layers[0].offset
    with pytest.raises(RuntimeError, match="begin"):
        batch.commit()


def test_a_state_is_never_rolled_back_wrongly() -> None:
    """A layer that cannot apply a part of a step's tokens never gets such a step, and its state stays as it was."""
    world = World(MODELS["hybrid"], PADDED, rows=2)
    world.step(4)
    with pytest.raises(UnsupportedUse, match="state"):
        world.batch.begin(3, tentative=True)
    world.step(2)


def test_a_mask_that_has_no_row_form_is_refused() -> None:
    batch = Batch(MODELS["full"], PADDED)
    batch.begin(3)
    full = batch.flat[0]
    assert isinstance(full, AttentionCache)
    with pytest.raises(UnsupportedUse, match="window"):
        full.make_mask(3, window_size=8)
    assert isinstance(full.make_mask(3, return_array=True), mx.array)
    group = Batch(MODELS["list"], PADDED).layers[0]
    assert isinstance(group, CacheGroup)
    with pytest.raises(UnsupportedUse, match="list"):
        group.make_mask(3)


def test_explicit_positions_override_the_running_ones_for_one_step() -> None:
    batch = Batch(MODELS["full"], PADDED)
    batch.deltas[0] = -2
    batch.begin(1, positions="mine")
    assert batch.layers[0].offset == "mine"
    batch.commit()
    batch.begin(1)
    assert batch.layers[0].offset == -1


@pytest.mark.parametrize("window", [None, 3])
def test_a_two_sided_mask_is_causal_but_for_tokens_that_see_each_other(window: int | None) -> None:
    seen = mx.array([[False, False, False], [False, True, True], [False, True, True]])
    mask = np.array(two_sided_mask(1, 8, 5, window, seen))[0, 0]
    for row in range(3):
        for column in range(7):
            query, key = 5 + row, 1 + column
            causal = key <= query and (window is None or key > query - window)
            assert mask[row, column] == (causal or (row > 0 and key in (6, 7)))


def test_dequantized_keys_and_values_take_the_same_memory_from_lines_as_from_parts() -> None:
    found = []
    for lines in (None, Lines(mx.float32)):
        batch = Batch([LayerPlan("attention")], PADDED, kv=KVQuantization(8, 32, lines=lines))
        [cache] = batch.flat
        assert isinstance(cache, AttentionCache) and cache.dense_bytes == 0
        batch.begin(3)
        cache.update_and_fetch(mx.ones((1, 2, 3, 64)), mx.ones((1, 2, 3, 64)))
        found.append((cache.dense_bytes, cache.slot_bytes))
    assert found[0] == found[1] == (2 * 2 * 64 * 4, (2 * 2 * (64 + 2 * 8), 0))
