"""The CUDA kernels of GatedDeltaNet's prefill against the plain forms. Where there is no CUDA: where they are used."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.gated_delta import gated_delta_update

from paceline.models import gated_delta_prefill_cuda
from paceline.models.adapter import switch_kernels, wrap_layers
from paceline.models.gated_delta import chunked, log_decay
from paceline.models.gated_delta_prefill_cuda import CHUNK, fits, prefill, shared_bytes
from tests.cuda import on_cuda
from tests.models.test_gated_delta_cuda import (
    CHANNELS,
    DTYPES,
    ROWS,
    SIZE,
    TAPS,
    VALUE_HEADS,
    Memory,
    Result,
    Rows,
    Tokens,
    far,
    layer,
)

WIDTHS = [1, 10, 31, 32, 33, 64, 100, 513]


class Prompt:
    """Random inputs of a prefill."""

    def __init__(self, width: int, dtype: mx.Dtype, rows: int = ROWS, channels: int = CHANNELS) -> None:
        rng = np.random.default_rng([width, rows])

        def normal(*shape: int) -> mx.array:
            return mx.array(rng.standard_normal(shape).astype(np.float32)).astype(dtype)

        self.tokens = Tokens(*(normal(rows, width, size) for size in (channels, VALUE_HEADS, VALUE_HEADS)))
        state = normal(rows, VALUE_HEADS, SIZE, SIZE).astype(mx.float32)
        self.memory = Memory(normal(rows, TAPS - 1, channels), state)


def plain(
    module: Any, tokens: Tokens, memory: Memory, valid: mx.array | None = None, *, stepwise: bool = False
) -> Result:
    """In plain ops: in chunks, or token by token as mlx-lm does."""
    stream = mx.concatenate([memory.window, tokens.mixed], axis=1)
    convolved = module.conv1d(stream)
    queries, keys, values = module._heads(convolved * mx.sigmoid(convolved))
    if stepwise:
        gates = tokens.a, tokens.b, module.A_log, module.dt_bias
        out, after = gated_delta_update(queries, keys, values, *gates, memory.state)
    else:
        decay = log_decay(module.A_log, tokens.a, module.dt_bias)
        out, after, _ = chunked(queries, keys, values, decay, mx.sigmoid(tokens.b), memory.state, valid)
    return out, Memory(module._ended(stream, valid), after)


def kernel(module: Any, tokens: Tokens, memory: Memory, valid: mx.array | None = None) -> Result:
    out, *after = prefill(module, *tokens, *memory, valid)
    return out, Memory(*after)


def compare(found: Result, expected: Result, allowed: float) -> None:
    (out, after), (wanted, later) = found, expected
    assert far(out, wanted) < allowed
    assert mx.array_equal(after.window, later.window)
    assert after.state.dtype == mx.float32
    assert far(after.state, later.state) < allowed


# -- anywhere


@pytest.mark.parametrize(
    ("sizes", "fit"),
    [
        ({}, True),
        ({"linear_key_head_dim": 64, "linear_value_head_dim": 64}, True),
        ({"linear_key_head_dim": 96}, False),
        ({"linear_key_head_dim": 256}, False),
        ({"linear_value_head_dim": 32}, False),
    ],
)
def test_the_kernels_are_for_heads_of_some_sizes_on_cuda_only(
    sizes: dict[str, int], fit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = layer(mx.float32, **sizes)
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
    assert not fits(module)
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    assert fits(module) == fit


def test_several_blocks_share_a_processor_and_its_memory() -> None:
    module = layer(mx.bfloat16)
    within, across = shared_bytes(module, mx.bfloat16)
    assert 4 * within < gated_delta_prefill_cuda.MAX_SHARED
    assert 3 * across < gated_delta_prefill_cuda.MAX_SHARED


def test_prefill_and_padded_steps_go_through_the_kernels_and_decode_steps_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def stand_in(module: Any, *parts: Any) -> list[mx.array]:
        mixed, a, b, window, state, valid = parts
        calls.append((mixed.shape[1], valid is not None))
        out, after = plain(module, Tokens(mixed, a, b), Memory(window, state), valid)
        return [out.astype(mixed.dtype), *after]

    def no_step(*_: Any, **__: Any) -> list[mx.array]:
        raise AssertionError("a step's kernel has no padding")

    monkeypatch.setattr(gated_delta_prefill_cuda, "prefill", stand_in)
    monkeypatch.setattr(gated_delta_prefill_cuda, "fits", lambda module: True)
    monkeypatch.setattr("paceline.models.gated_delta_cuda.step", no_step)
    reference, module = layer(mx.float32), layer(mx.float32)
    module.fused = True
    one, two = Rows(reference, mx.float32), Rows(module, mx.float32)
    for width, valid in ((3, None), (40, None), (5, [5, 0, 2])):
        assert far(two.step(width, valid=valid), one.step(width, valid=valid)) < 1e-5
    assert calls == [(3, False), (40, False), (5, True)]
    for mine, theirs in zip(two.batch.arrays(), one.batch.arrays(), strict=True):
        assert far(mine, theirs) < 1e-5


def test_projections_of_one_product_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    def stand_in(module: Any, mixed: mx.array, a: mx.array, b: mx.array, *parts: Any, first: Any = None) -> Any:
        window, state, valid = parts
        firsts.append(first)
        if first is not None:
            assert mixed is a is b
            mixed, a, b = (
                every[..., start : start + size]
                for every, start, size in [(mixed, 0, module.conv_dim), *((a, at, VALUE_HEADS) for at in first)]
            )
        out, after = plain(module, Tokens(mixed, a, b), Memory(window, state), valid)
        return [out.astype(mixed.dtype), *after]

    firsts: list[Any] = []
    monkeypatch.setattr(gated_delta_prefill_cuda, "prefill", stand_in)
    monkeypatch.setattr(gated_delta_prefill_cuda, "fits", lambda module: True)
    monkeypatch.setattr("paceline.models.linear_cuda.MAX_MERGED", 256)
    monkeypatch.setattr("paceline.models.linear_cuda.fits", lambda module: True)
    apart, merged = layer(mx.bfloat16), layer(mx.bfloat16)
    wrap_layers(merged, {"model_type": "qwen3_5"})
    switch_kernels(merged, True)
    apart.fused = merged.fused = True
    one, two = Rows(apart, mx.bfloat16), Rows(merged, mx.bfloat16)
    for width, valid in ((40, None), (20, [20, 0, 2])):
        assert far(two.step(width, valid=valid), one.step(width, valid=valid)) < 2e-2
    assert [first is not None for first in firsts] == [True, False, True, False]
    for mine, theirs in zip(two.batch.arrays(), one.batch.arrays(), strict=True):
        assert far(mine, theirs) < 2e-2


# -- on CUDA


@on_cuda
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", DTYPES)
def test_the_kernels_are_the_plain_chunks_at_every_width(name: str, width: int) -> None:
    dtype, allowed = DTYPES[name]
    module, given = layer(dtype), Prompt(width, dtype)
    found = kernel(module, given.tokens, given.memory)
    assert found[0].shape == (ROWS, width, VALUE_HEADS, SIZE) and found[0].dtype == dtype
    compare(found, plain(module, given.tokens, given.memory), allowed)


@on_cuda
@pytest.mark.parametrize("name", DTYPES)
def test_the_kernels_read_projections_that_lie_side_by_side(name: str) -> None:
    dtype, allowed = DTYPES[name]
    module, given = layer(dtype), Prompt(50, dtype)
    mixed, a, b = given.tokens
    every = mx.concatenate([mixed, mx.ones((*mixed.shape[:2], 48), dtype), b, a], axis=-1)
    first = mixed.shape[-1] + 48
    out, *after = prefill(module, every, every, every, *given.memory, first=(first + VALUE_HEADS, first))
    compare((out, Memory(*after)), kernel(module, given.tokens, given.memory), allowed)


@on_cuda
@pytest.mark.parametrize("width", [10, 33, 100])
@pytest.mark.parametrize("name", DTYPES)
def test_the_kernels_are_mlx_lms_tokens_one_by_one(name: str, width: int) -> None:
    dtype, allowed = DTYPES[name]
    module, given = layer(dtype), Prompt(width, dtype)
    compare(
        kernel(module, given.tokens, given.memory), plain(module, given.tokens, given.memory, stepwise=True), allowed
    )


@on_cuda
@pytest.mark.parametrize("sizes", [{"linear_key_head_dim": 64}, {"linear_value_head_dim": 64}])
def test_the_kernels_take_other_sizes_of_heads(sizes: dict[str, int]) -> None:
    module = layer(mx.float32, **sizes)
    given = Prompt(70, mx.float32, channels=module.conv_dim)
    state = given.memory.state[:, :, : module.head_v_dim, : module.head_k_dim]
    memory = Memory(given.memory.window, mx.contiguous(state))
    compare(kernel(module, given.tokens, memory), plain(module, given.tokens, memory), 1e-4)


@on_cuda
@pytest.mark.parametrize("counts", [[0, 1, 32], [33, 70, 0], [70, 69, 64]])
@pytest.mark.parametrize("name", DTYPES)
def test_padding_changes_no_row_whatever_it_holds(name: str, counts: list[int]) -> None:
    dtype, _ = DTYPES[name]
    module, given = layer(dtype), Prompt(70, dtype)
    real = (mx.arange(70) < mx.array(counts)[:, None])[..., None]
    padded = Tokens(*(mx.where(real, part, mx.array(mx.nan, part.dtype)) for part in given.tokens))
    out, after = kernel(module, padded, given.memory, mx.array(counts, dtype=mx.int32))
    assert mx.isfinite(out.astype(mx.float32)).all()
    for row, count in enumerate(counts):
        mine, later = out[row : row + 1, :count], given.memory.of(row)
        if count:
            said, later = kernel(module, given.tokens.cut(row, 0, count), later)
            assert mx.array_equal(mine, said)
        assert all(mx.array_equal(part, whole) for part, whole in zip(after.of(row), later, strict=True))


@on_cuda
@pytest.mark.parametrize("name", DTYPES)
def test_a_prompt_in_pieces_is_the_prompt_in_one_pass(name: str) -> None:
    dtype, allowed = DTYPES[name]
    module, given = layer(dtype), Prompt(150, dtype)
    memory, outputs = given.memory, []
    for start, stop in ((0, 11), (11, 11 + 2 * CHUNK), (11 + 2 * CHUNK, 150)):
        out, memory = kernel(module, Tokens(*(part[:, start:stop] for part in given.tokens)), memory)
        outputs.append(out)
    compare((mx.concatenate(outputs, axis=1), memory), kernel(module, given.tokens, given.memory), allowed)


@on_cuda
@pytest.mark.parametrize("decay", [-12.0, 0.0, 6.0], ids=["remembers", "between", "forgets"])
@pytest.mark.parametrize("keys", ["same", "nearly the same", "two in turn"])
def test_repeated_keys_written_in_full_stay_finite_and_right(keys: str, decay: float) -> None:
    """Repeated inputs have repeated keys, as the convolution sees nothing else."""
    module, given = layer(mx.float32), Prompt(130, mx.float32)
    mixed, a, b = given.tokens
    first, second = mx.broadcast_to(mixed[:, :1], mixed.shape), mx.broadcast_to(mixed[:, 1:2], mixed.shape)
    turns = (mx.arange(130) % 2 == 0)[None, :, None]
    repeated = {
        "same": first,
        "nearly the same": first + 1e-4 * mixed,
        "two in turn": mx.where(turns, first, second),
    }[keys]
    values = mx.arange(CHANNELS) >= CHANNELS - VALUE_HEADS * SIZE
    tokens = Tokens(mx.where(values, mixed, repeated), mx.full(a.shape, decay), mx.full(b.shape, 12.0))
    out, after = kernel(module, tokens, given.memory)
    assert mx.isfinite(out).all() and mx.isfinite(after.state).all()
    compare((out, after), plain(module, tokens, given.memory, stepwise=True), 5e-4)


@on_cuda
@pytest.mark.parametrize("name", DTYPES)
def test_a_layer_that_prefills_by_the_kernels_decodes_as_one_that_does_not(name: str) -> None:
    dtype, allowed = DTYPES[name]
    plain_layer, fused = layer(dtype), layer(dtype)
    assert switch_kernels(fused, True)
    one, two = Rows(plain_layer, dtype), Rows(fused, dtype)
    for width in (45, 1, 12, 1, 1):
        assert far(two.step(width), one.step(width)) < allowed
    for mine, theirs in zip(two.batch.arrays(), one.batch.arrays(), strict=True):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        assert far(mine, theirs) < allowed


@on_cuda
def test_a_wide_step_first_applies_the_pending_tokens() -> None:
    plain_layer, fused = layer(mx.float32), layer(mx.float32)
    assert switch_kernels(fused, True)
    one, two = Rows(plain_layer, mx.float32), Rows(fused, mx.float32)
    for width, kept in ((11, None), (4, [1, 4, 2]), (12, None), (1, None)):
        assert far(two.step(width, kept), one.step(width, kept)) < 1e-4
