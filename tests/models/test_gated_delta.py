"""GatedDeltaNet in chunks, and in steps that may be taken back, against mlx-lm's own loop over tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import ArraysCache
from mlx_lm.models.gated_delta import compute_g, gated_delta_ops, normalize_qk
from mlx_lm.models.qwen3_5 import GatedDeltaNet, TextModelArgs

from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.layers import StateCache
from paceline.cache.slot_plan import PADDED, ROWS
from paceline.models import gated_delta
from paceline.models.gated_delta import CHUNK, RowGatedDelta, chunked, folded, log_decay, tried
from paceline.types import MAX_DRAFTED
from tests.engine.stepper import Stepper, counts_passes

ROW_COUNT, KEY_HEADS, VALUE_HEADS, SIZE = 2, 2, 4, 16

Inputs = tuple[mx.array, mx.array, mx.array, mx.array, mx.array]


def inputs(tokens: int, seed: int = 0, dtype: mx.Dtype = mx.float32) -> Inputs:
    """Queries and keys normalized as the model does, values, log decays from short to long memory, beta."""
    rng = np.random.default_rng([tokens, seed])

    def normal(*shape: int) -> mx.array:
        return mx.array(rng.standard_normal(shape).astype(np.float32)).astype(dtype)

    queries, keys = normalize_qk(
        normal(ROW_COUNT, tokens, KEY_HEADS, SIZE),
        normal(ROW_COUNT, tokens, KEY_HEADS, SIZE),
        inv_scale=SIZE**-0.5,
        eps=1e-6,
    )
    values = normal(ROW_COUNT, tokens, VALUE_HEADS, SIZE)
    a_log = mx.array(np.log(np.geomspace(0.005, 2.0, VALUE_HEADS)).astype(np.float32))
    decay = log_decay(a_log, normal(ROW_COUNT, tokens, VALUE_HEADS), mx.zeros(VALUE_HEADS, dtype))
    beta = mx.sigmoid(normal(ROW_COUNT, tokens, VALUE_HEADS))
    return queries, keys, values, decay, beta


def state(seed: int = 7) -> mx.array:
    shape = (ROW_COUNT, VALUE_HEADS, SIZE, SIZE)
    return mx.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def one_by_one(given: Inputs, before: mx.array) -> tuple[mx.array, mx.array]:
    queries, keys, values, decay, beta = given
    out, after = gated_delta_ops(queries, keys, values, mx.exp(decay), beta, before)
    return out, after


def far(ours: mx.array, theirs: mx.array) -> float:
    return float(np.abs(np.array(ours.astype(mx.float32)) - np.array(theirs.astype(mx.float32))).max())


def cut(given: Inputs, start: int, stop: int) -> Inputs:
    queries, keys, values, decay, beta = (part[:, start:stop] for part in given)
    return queries, keys, values, decay, beta


@pytest.mark.slow
def test_every_length_up_to_a_hundred_equals_the_loop_over_tokens() -> None:
    given, before = inputs(100), state()
    expected, _ = one_by_one(given, before)
    states = [before]
    for token in range(100):
        states.append(one_by_one(cut(given, token, token + 1), states[-1])[1])
    for length in range(1, 101):
        out, after, _ = chunked(*cut(given, 0, length), before)
        assert out.shape == expected[:, :length].shape
        assert far(out, expected[:, :length]) < 1e-5, f"{length} tokens"
        assert far(after, states[length]) < 1e-5, f"the state after {length} tokens"


@pytest.mark.parametrize("size", [1, 7, CHUNK - 1, CHUNK, CHUNK + 1, 50])
def test_a_state_carried_from_chunk_to_chunk_equals_one_pass(size: int) -> None:
    given, before = inputs(97, seed=1), state()
    expected, last = one_by_one(given, before)
    outputs, running = [], before
    for start in range(0, 97, size):
        out, running, _ = chunked(*cut(given, start, min(start + size, 97)), running)
        outputs.append(out)
    assert far(mx.concatenate(outputs, axis=1), expected) < 1e-5
    assert far(running, last) < 1e-5


@pytest.mark.parametrize("keys", ["same", "opposite", "two in turn", "nearly the same"])
def test_repeated_keys_written_in_full_stay_finite_and_right(keys: str) -> None:
    tokens = 96
    queries, drawn, values, decay, _ = inputs(tokens, seed=2)
    first = mx.broadcast_to(drawn[:, :1], drawn.shape)
    signs = mx.where(mx.arange(tokens) % 2 == 0, 1.0, -1.0)[None, :, None, None]
    second = mx.broadcast_to(drawn[:, 1:2], drawn.shape)
    repeated = {
        "same": first,
        "opposite": first * signs,
        "two in turn": mx.where(signs > 0, first, second),
        "nearly the same": first + 1e-4 * drawn,
    }[keys]
    given = (queries, repeated, values, decay * 1e-4, mx.full((ROW_COUNT, tokens, VALUE_HEADS), 1 - 1e-6))
    expected, last = one_by_one(given, state())
    out, after, _ = chunked(*given, state())
    assert np.isfinite(np.array(out)).all() and np.isfinite(np.array(after)).all()
    assert far(out, expected) < 1e-4
    assert far(after, last) < 1e-4


def test_a_decay_that_forgets_everything_underflows_to_zero_and_not_to_nan() -> None:
    queries, keys, values, decay, beta = inputs(70, seed=3)
    given = (queries, keys, values, mx.full(decay.shape, -60.0), beta)
    expected, last = one_by_one(given, state())
    out, after, _ = chunked(*given, state())
    assert far(out, expected) < 1e-5
    assert far(after, last) < 1e-5


@pytest.mark.slow
def test_bfloat16_inputs_stay_within_their_own_rounding() -> None:
    given = inputs(80, seed=4, dtype=mx.bfloat16)
    expected, last = one_by_one(given, state())
    out, after, _ = chunked(*given, state())
    assert expected.dtype == mx.bfloat16 and out.dtype == after.dtype == mx.float32
    assert far(out, expected) < 0.01 * far(expected, mx.zeros_like(expected))
    assert far(after, last) < 1e-4  # the state is float32 on both sides, from the same rounded inputs


def test_the_log_of_the_decay_is_mlx_lms_decay() -> None:
    rng = np.random.default_rng(5)
    a_log, a, bias = (mx.array(rng.standard_normal(shape).astype(np.float32)) for shape in (4, (2, 9, 4), 4))
    assert far(mx.exp(log_decay(a_log, a, bias)), compute_g(a_log, a, bias)) < 1e-6
    narrow = [part.astype(mx.bfloat16) for part in (a, bias)]
    assert far(mx.exp(log_decay(a_log, *narrow)), compute_g(a_log, *narrow)) < 1e-6


ARGUMENTS = TextModelArgs(
    hidden_size=32,
    linear_num_key_heads=KEY_HEADS,
    linear_num_value_heads=VALUE_HEADS,
    linear_key_head_dim=SIZE,
    linear_value_head_dim=SIZE,
)


@pytest.fixture(scope="module")
def layers() -> tuple[Any, Any]:
    """The same layer twice: mlx-lm's, and as the adapter makes it."""
    mx.random.seed(0)
    theirs = GatedDeltaNet(ARGUMENTS)
    theirs.A_log = mx.log(mx.array(np.geomspace(0.005, 2.0, VALUE_HEADS).astype(np.float32)))
    theirs.eval()
    return theirs, adopted(theirs)


def adopted(theirs: Any, dtype: mx.Dtype = mx.float32) -> Any:
    """The layer as the adapter makes it, in `dtype` but for its decays, which mlx-lm keeps in float32."""
    ours = GatedDeltaNet(ARGUMENTS)
    ours.update(theirs.parameters())
    ours.set_dtype(dtype)
    ours.A_log = theirs.A_log
    ours.__class__ = RowGatedDelta
    ours.eval()
    return ours


@pytest.mark.parametrize("chunks", [(61,), (1, 60), (2, 3, 40, 16), (32, 29), (59, 1, 1)])
def test_the_layer_prefilled_in_chunks_equals_mlx_lms_with_its_own_cache(
    layers: tuple[Any, Any], chunks: tuple[int, ...]
) -> None:
    theirs, ours = layers
    hidden = mx.array(np.random.default_rng(6).standard_normal((1, sum(chunks), 32)).astype(np.float32))
    own = ArraysCache(size=2)
    expected = theirs(hidden, None, own)
    batch = Batch([LayerPlan("state", size=2)], ROWS)
    [cache] = batch.layers
    outputs, start = [], 0
    for width in chunks:
        batch.begin(width)
        outputs.append(ours(hidden[:, start : start + width], None, cache))
        batch.commit()
        start += width
    assert far(mx.concatenate(outputs, axis=1), expected) < 1e-5
    for place, array in enumerate(batch.arrays()):
        assert far(array, own[place]) < 1e-5


def test_a_step_that_is_not_committed_leaves_the_state_alone(layers: tuple[Any, Any]) -> None:
    _, ours = layers
    batch = Batch([LayerPlan("state", size=2)], ROWS)
    batch.begin(5)
    ours(mx.ones((1, 5, 32)), None, batch.layers[0])
    assert batch.arrays() == []
    batch.commit()
    assert [array.shape for array in batch.arrays()] == [(1, 3, 128), (1, VALUE_HEADS, SIZE, SIZE)]


def test_with_any_other_cache_the_layer_is_mlx_lms_own(
    layers: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = layers

    def not_here(*arguments: Any) -> Any:
        raise AssertionError("the chunked form ran")

    monkeypatch.setattr(gated_delta, "chunked", not_here)
    hidden = mx.array(np.random.default_rng(8).standard_normal((1, 9, 32)).astype(np.float32))
    assert far(ours(hidden, None, ArraysCache(size=2)), theirs(hidden, None, ArraysCache(size=2))) == 0
    assert far(ours(hidden), theirs(hidden)) == 0


@counts_passes
def test_the_chunked_form_runs_where_a_row_is_prefilled(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []
    plain = gated_delta.chunked

    def seen(queries: mx.array, *others: Any) -> Any:
        widths.append(queries.shape[1])
        return plain(queries, *others)

    monkeypatch.setattr(gated_delta, "chunked", seen)
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)
    stepper = Stepper(hybrid, chunk=20)
    stepper.greedy("row", range(40), 2)
    stepper.finish()
    assert set(widths) == {20, 19}


def test_the_state_after_any_token_of_a_prompt_is_that_of_a_prompt_that_ends_there() -> None:
    given = inputs(3 * CHUNK + 5)
    checkpoints = (1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 4)
    out, after, states = chunked(*given, state(), checkpoints=checkpoints)
    plain, plainly, _ = chunked(*given, state())
    assert (far(out, plain), far(after, plainly)) == (0, 0)
    for tokens, inside in zip(checkpoints, states, strict=True):
        _, ended = one_by_one(tuple(part[:, :tokens] for part in given), state())  # type: ignore[arg-type]
        assert far(inside, ended) < 1e-4, tokens


# -- steps that may be taken back

WIDTHS = range(1, MAX_DRAFTED + 2)


def apply_accepted(pending: list[mx.array], *kept: int) -> mx.array:
    """The state when row i has kept `kept[i]` tokens of those tried on `state()`."""
    keys, updates, decays = pending
    after: mx.array = folded(state(), keys, updates, decays, mx.array(kept))
    return after


@pytest.mark.parametrize("width", WIDTHS)
def test_whatever_is_kept_of_a_few_tokens_is_what_one_by_one_gives(width: int) -> None:
    given, before = inputs(width, seed=10), state()
    expected, _ = one_by_one(given, before)
    states = [before]
    for token in range(width):
        states.append(one_by_one(cut(given, token, token + 1), states[-1])[1])
    out, pending = tried(*given, before)
    assert out.shape == expected.shape
    assert far(out, expected) < 1e-5
    for kept in range(width + 1):
        other = width - kept  # rows keep different numbers
        after = apply_accepted(pending, kept, other)
        assert far(after[0], states[kept][0]) < 1e-5, f"{kept} of {width}"
        assert far(after[1], states[other][1]) < 1e-5, f"{other} of {width}"


def test_nothing_kept_leaves_the_state_as_it_was_to_the_last_bit() -> None:
    _, pending = tried(*inputs(5, seed=11), state())
    assert far(apply_accepted(pending, 0, 0), state()) == 0


def test_a_few_tokens_whose_decay_forgets_everything_fold_to_zero_and_not_to_nan() -> None:
    queries, keys, values, decay, beta = inputs(9, seed=12)
    given = (queries, keys, values, mx.full(decay.shape, -60.0), beta)
    expected, last = one_by_one(given, state())
    out, pending = tried(*given, state())
    assert far(out, expected) < 1e-5
    assert far(apply_accepted(pending, 9, 9), last) < 1e-5


class Rows:
    """Two rows of one layer, fed with the same hidden states in steps of any kind."""

    def __init__(self, layer: Any, dtype: mx.Dtype = mx.float32) -> None:
        self.layer = layer
        self.batch = Batch([LayerPlan("state", size=2, apply_accepted=layer.apply_accepted)], PADDED, 2)
        drawn = np.random.default_rng(13).standard_normal((2, 64, 32)).astype(np.float32)
        self.hidden = mx.array(drawn).astype(dtype)

    @property
    def cache(self) -> StateCache:
        [cache] = self.batch.flat
        assert isinstance(cache, StateCache)
        return cache

    def step(self, width: int, kept: list[int] | None = None) -> mx.array:
        """Each row's next `width` tokens; `kept`: tentatively."""
        tokens = mx.stack([self.hidden[row, n : n + width] for row, n in enumerate(self.batch.lengths)])
        self.batch.begin(width, tentative=kept is not None)
        out: mx.array = self.layer(tokens, None, self.cache)
        self.batch.close()
        if kept is not None:
            self.batch.apply_accepted(mx.array(kept))
        self.batch.advance(kept or [width] * 2)
        mx.eval(out, self.batch.arrays())
        return out


ROUNDS = [(1, [1, 1]), (4, [1, 4]), (9, [9, 2]), (3, [2, 1]), (2, [1, 2]), (6, [3, 6])]


@pytest.mark.thin(2)
@pytest.mark.parametrize("prefilled", [0, 7])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=["float32", "bfloat16"])
def test_speculative_steps_in_the_layer_are_what_plain_decoding_of_the_kept_tokens_is(
    layers: tuple[Any, Any], dtype: mx.Dtype, prefilled: int
) -> None:
    """In bfloat16 to the last bit: folding replays upstream's own steps. In float32 it is algebra, and close."""
    layer = adopted(layers[0], dtype)
    plain, rounds = Rows(layer, dtype), Rows(layer, dtype)
    if prefilled:
        plain.step(prefilled)
        rounds.step(prefilled)
    outputs, states = [], [list(plain.cache.current)]
    for _ in range(30):
        outputs.append(plain.step(1)[:, 0])
        states.append(list(plain.cache.current))
    allowed = 1e-5 if dtype == mx.float32 else 0.0
    for width, kept in [*ROUNDS, *((width, [width, 1]) for width in (1, 1))]:
        begun = list(rounds.batch.lengths)
        out = rounds.step(width, kept)
        for row, length in enumerate(begun):
            told = mx.stack([outputs[length - prefilled + place][row] for place in range(width)])
            assert far(out[row], told) <= allowed
            after = states[length - prefilled + kept[row]]
            for mine, theirs in zip(rounds.cache.current, after, strict=True):
                assert mine is not None and theirs is not None and mine.dtype == theirs.dtype
                assert far(mine[row], theirs[row]) <= allowed


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=["float32", "bfloat16"])
def test_what_a_speculative_step_owes_is_small_and_gone_when_it_is_folded(
    layers: tuple[Any, Any], dtype: mx.Dtype
) -> None:
    """No state of any token is kept aside: what a token adds does not grow with the state."""
    rows = Rows(adopted(layers[0], dtype), dtype)
    rows.step(5)
    before = rows.cache[1]
    assert before is not None
    sizes = []
    for width in (1, 9):
        rows.batch.begin(width, tentative=True)
        rows.layer(rows.hidden[:, :width], None, rows.cache)
        rows.batch.close()
        assert rows.cache[1] is before and rows.cache.pending
        assert all(array.shape[-2:] != (SIZE, SIZE) for array in rows.cache.pending)
        sizes.append(sum(array.size for array in rows.cache.pending))
    channels = (2 * KEY_HEADS + VALUE_HEADS) * SIZE
    assert sizes[1] - sizes[0] <= 8 * 2 * (channels + 2 * VALUE_HEADS * (SIZE + 1))
    rows.batch.apply_accepted(mx.array([3, 9]))
    rows.batch.advance([3, 9])
    assert rows.cache.pending == [] and rows.batch.kept is None
    assert [array.shape for array in rows.batch.arrays()] == [(2, 3, channels), (2, VALUE_HEADS, SIZE, SIZE)]
    rows.step(1)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=["float32", "bfloat16"])
def test_a_speculative_step_that_breaks_before_it_counts_changes_nothing_and_can_be_run_again(
    layers: tuple[Any, Any], dtype: mx.Dtype
) -> None:
    layer = adopted(layers[0], dtype)
    broken, whole = Rows(layer, dtype), Rows(layer, dtype)
    for rows in (broken, whole):
        rows.step(4)
        rows.step(3, [1, 2])
    broken.batch.begin(5, tentative=True)
    layer(broken.hidden[:, :5], None, broken.cache)
    broken.batch.drop()
    assert far(broken.step(6, [2, 5]), whole.step(6, [2, 5])) == 0
    for mine, theirs in zip(broken.batch.arrays(), whole.batch.arrays(), strict=True):
        assert far(mine, theirs) == 0


# -- padded rows


@pytest.mark.parametrize("counts", [[0, 1], [31, 32], [33, 70], [70, 64]])
def test_padding_changes_neither_a_rows_outputs_nor_its_state(counts: list[int]) -> None:
    given, before = inputs(70, seed=5), state()
    out, after, _ = chunked(*given, before, mx.array(counts, dtype=mx.int32))
    assert np.isfinite(np.array(out)).all()
    for row, count in enumerate(counts):
        mine = tuple(part[row : row + 1] for part in given)
        if count == 0:
            assert mx.array_equal(after[row], before[row])
            continue
        expected, last, _ = chunked(*cut(mine, 0, count), before[row : row + 1])  # type: ignore[arg-type]
        np.testing.assert_allclose(np.array(out[row, :count]), np.array(expected[0]), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(np.array(after[row]), np.array(last[0]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("counts", [[0, 1, 2], [3, 40, 33], [40, 39, 32]])
def test_a_layers_padded_rows_end_as_rows_without_padding(layers: tuple[Any, Any], counts: list[int]) -> None:
    theirs, _ = layers
    layer = adopted(theirs)
    width, size = max(counts), len(counts)
    hidden = theirs.in_proj_qkv.weight.shape[1]
    x = mx.array(np.random.default_rng(8).standard_normal((size, 50, hidden)).astype(np.float32))

    def prefilled(tokens: mx.array, valid: list[int] | None = None) -> tuple[mx.array, StateCache]:
        batch = Batch([LayerPlan("state", size=2)], PADDED, tokens.shape[0])
        [cache] = batch.flat
        assert isinstance(cache, StateCache)
        outputs = []
        for part, count in ((tokens[:, :7], None), (tokens[:, 7:], valid)):
            if part.shape[1] == 0:
                continue
            batch.begin(part.shape[1], valid=count)
            outputs.append(layer(part, None, batch.layers[0]))
            batch.commit()
        return outputs[-1], cache

    out, cache = prefilled(x[:, : 7 + width], counts)
    for row, count in enumerate(counts):
        expected, alone = prefilled(x[row : row + 1, : 7 + count])
        if count:
            np.testing.assert_allclose(np.array(out[row, :count]), np.array(expected[0]), rtol=1e-5, atol=1e-6)
        for mine, other in zip(cache.of_row(row), alone.arrays(), strict=True):
            np.testing.assert_allclose(np.array(mine), np.array(other), rtol=1e-6, atol=1e-6)
