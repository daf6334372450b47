"""The CUDA kernel of GatedDeltaNet against its plain twin. Where there is no CUDA, the twin against the layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.gated_delta import gated_delta_update
from mlx_lm.models.qwen3_5 import GatedDeltaNet, TextModelArgs

from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.layers import StateCache
from paceline.cache.slot_plan import PADDED
from paceline.models import check, gated_delta_cuda, norm_cuda
from paceline.models.adapter import switch_kernels
from paceline.models.gated_delta import RowGatedDelta
from paceline.models.gated_delta_cuda import FEW, SPLIT, WIDEST, blocks, fits, step
from paceline.models.loader import load
from paceline.types import MAX_DRAFTED
from tests.cuda import on_cuda

ROWS, HIDDEN, KEY_HEADS, VALUE_HEADS, SIZE, TAPS = 3, 256, 2, 4, 128, 4
CHANNELS = (2 * KEY_HEADS + VALUE_HEADS) * SIZE
DTYPES = {"float32": (mx.float32, 1e-4), "bfloat16": (mx.bfloat16, 0.02)}  # and how far, of the largest number


def layer(dtype: mx.Dtype, **sizes: int) -> Any:
    mx.random.seed(0)
    shape = {"linear_key_head_dim": SIZE, "linear_value_head_dim": SIZE, **sizes}
    arguments = TextModelArgs(
        hidden_size=HIDDEN, linear_num_key_heads=KEY_HEADS, linear_num_value_heads=VALUE_HEADS, **shape
    )
    made = GatedDeltaNet(arguments)
    decays = mx.log(mx.array(np.geomspace(0.005, 2.0, VALUE_HEADS).astype(np.float32)))
    made.set_dtype(dtype)
    made.A_log = decays
    made.__class__ = RowGatedDelta
    made.eval()
    return made


class Tokens(NamedTuple):
    """What a step gets of its tokens, before the convolution."""

    mixed: mx.array
    a: mx.array
    b: mx.array

    def cut(self, row: int, start: int, stop: int) -> Tokens:
        return Tokens(*(part[row : row + 1, start:stop] for part in self))


class Memory(NamedTuple):
    window: mx.array
    state: mx.array

    def of(self, row: int) -> Memory:
        return Memory(*(part[row : row + 1] for part in self))


class Given:
    """Random inputs of a step: `width` new tokens after `owed` ones, of which rows keep some."""

    def __init__(self, width: int, pending: int, dtype: mx.Dtype, rows: int = ROWS) -> None:
        rng = np.random.default_rng([width, pending])

        def normal(*shape: int) -> mx.array:
            return mx.array(rng.standard_normal(shape).astype(np.float32)).astype(dtype)

        def tokens(count: int) -> Tokens:
            return Tokens(*(normal(rows, count, size) for size in (CHANNELS, VALUE_HEADS, VALUE_HEADS)))

        state = normal(rows, VALUE_HEADS, SIZE, SIZE).astype(mx.float32)
        self.memory = Memory(normal(rows, TAPS - 1, CHANNELS), state)
        self.new, self.pending = tokens(width), tokens(pending) if pending else None
        self.kept: list[int] = rng.integers(0, pending + 1, rows).tolist()


Result = tuple[mx.array, Memory]  # outputs (rows, tokens, heads, dim), and what the layer remembers afterwards


def kernel(
    module: Any,
    new: Tokens,
    memory: Memory,
    pending: Tokens | None = None,
    kept: Sequence[int] = (),
    *,
    active: Sequence[bool] | None = None,
    eager: bool = True,
) -> Result:
    counts = None if pending is None else mx.array(list(kept), dtype=mx.int32)
    flags = None if active is None else mx.array(list(active), dtype=mx.int32)
    out, *after = step(module, *new, *memory, pending or (), counts, flags, eager=eager)
    return out, Memory(*after)


def twin(
    module: Any,
    new: Tokens,
    memory: Memory,
    pending: Tokens | None = None,
    kept: Sequence[int] = (),
    *,
    active: Sequence[bool] | None = None,
    eager: bool = True,
) -> Result:
    """The same in plain ops: row by row, the kept tokens first and then the new ones. Nobody may read what padding
    remembers."""
    outputs, memories = [], []
    for row in range(new.mixed.shape[0]):
        mine = memory.of(row)
        if active is not None and not active[row]:
            heads = (module.num_v_heads, module.head_v_dim)
            outputs.append(mx.zeros((1, new.mixed.shape[1], *heads), new.mixed.dtype))
            memories.append(Memory(*(mx.full(part.shape, mx.nan, part.dtype) for part in mine)))
            continue
        if pending is not None and kept[row]:
            _, mine = _plainly(module, pending.cut(row, 0, kept[row]), mine)
        out, after = _plainly(module, new.cut(row, 0, new.mixed.shape[1]), mine)
        outputs.append(out)
        memories.append(after if eager else mine)
    return mx.concatenate(outputs), Memory(*(mx.concatenate(list(parts)) for parts in zip(*memories, strict=True)))


def _plainly(module: Any, tokens: Tokens, memory: Memory) -> Result:
    stream = mx.concatenate([memory.window, tokens.mixed], axis=1)
    convolved = module.conv1d(stream)
    queries, keys, values = module._heads(convolved * mx.sigmoid(convolved))
    gates = tokens.a, tokens.b, module.A_log, module.dt_bias
    out, after = gated_delta_update(queries, keys, values, *gates, memory.state)
    return out, Memory(stream[:, 1 - module.conv_kernel_size :], after)


def stand_in(module: Any, *parts: Any, eager: bool = True, gates: mx.array | None = None) -> list[mx.array]:
    """The twin, called as the kernel is."""
    mixed, a, b, window, state, pending, kept, *flags = parts
    assert mx.isfinite(mixed).all().item()
    old = Tokens(*pending) if pending else None
    counts = [] if kept is None else kept.tolist()
    active = flags[0].tolist() if flags else None
    out, after = twin(module, Tokens(mixed, a, b), Memory(window, state), old, counts, active=active, eager=eager)
    return [out if gates is None else module.norm(out, gates), *after]


def far(ours: mx.array, theirs: mx.array) -> float:
    """The largest difference, as a share of the largest number."""
    one, two = (np.array(part.astype(mx.float32)) for part in (ours, theirs))
    return float(np.abs(one - two).max() / np.abs(two).max())


class Rows:
    """Rows of one layer that decode the same hidden states."""

    def __init__(self, module: Any, dtype: mx.Dtype) -> None:
        self.module = module
        self.batch = Batch([LayerPlan("state", size=2, apply_accepted=module.apply_accepted)], PADDED, ROWS)
        drawn = np.random.default_rng(1).standard_normal((ROWS, 80, HIDDEN)).astype(np.float32)
        self.hidden = mx.array(drawn).astype(dtype)

    def step(self, width: int, kept: list[int] | None = None, valid: list[int] | None = None) -> mx.array:
        tokens = mx.stack([self.hidden[row, n : n + width] for row, n in enumerate(self.batch.lengths)])
        self.batch.begin(width, tentative=kept is not None, valid=valid)
        out: mx.array = self.module(tokens, None, self.batch.layers[0])
        self.batch.close()
        if kept is not None:
            self.batch.apply_accepted(mx.array(kept, dtype=mx.int32))
        self.batch.advance(kept or valid or [width] * ROWS)
        mx.eval(out, self.batch.arrays())
        return out


ROUNDS: list[tuple[int, list[int] | None]] = [
    (11, None),
    (4, [1, 4, 2]),
    (9, [9, 1, 5]),
    (1, None),
    (2, [2, 1, 1]),
    (9, [3, 8, 9]),
    (9, [9, 9, 1]),
    (1, None),
    (1, [1, 1, 1]),
    (1, None),
]


# -- anywhere


@pytest.mark.slow
@pytest.mark.parametrize("name", DTYPES)
def test_the_twin_is_what_the_layer_does_without_a_kernel(name: str) -> None:
    dtype, allowed = DTYPES[name]
    module = layer(dtype)
    rows = Rows(module, dtype)
    rows.step(6)
    [cache] = rows.batch.flat
    assert isinstance(cache, StateCache)
    for _ in range(3):
        x = mx.stack([rows.hidden[row, n : n + 1] for row, n in enumerate(rows.batch.lengths)])
        tokens = Tokens(module.in_proj_qkv(x), module.in_proj_a(x), module.in_proj_b(x))
        expected, after = twin(module, tokens, Memory(*cache.arrays()))
        gates = module.in_proj_z(x).reshape(ROWS, 1, VALUE_HEADS, SIZE)
        expected = module.out_proj(module.norm(expected, gates).reshape(ROWS, 1, -1))
        assert far(rows.step(1), expected) < allowed
        assert all(far(mine, theirs) < allowed for mine, theirs in zip(cache.arrays(), after, strict=True))


def test_what_the_twin_owes_and_keeps_is_the_tokens_one_after_another() -> None:
    module, given = layer(mx.float32), Given(3, 4, mx.float32)
    assert given.pending is not None
    out, before = twin(module, given.new, given.memory, given.pending, given.kept, eager=False)
    _, after = twin(module, given.new, given.memory, given.pending, given.kept)
    for row, kept in enumerate(given.kept):
        mine = given.memory.of(row)
        for place in range(kept):
            _, mine = twin(module, given.pending.cut(row, place, place + 1), mine)
        assert all(far(part, whole) < 1e-5 for part, whole in zip(before.of(row), mine, strict=True))
        for place in range(3):
            said, mine = twin(module, given.new.cut(row, place, place + 1), mine)
            assert far(out[row, place], said[0, 0]) < 1e-5
        assert all(far(part, whole) < 1e-5 for part, whole in zip(after.of(row), mine, strict=True))


def test_few_rows_have_more_blocks_and_no_thread_holds_too_much_of_a_state() -> None:
    assert [blocks(rows, 128, 128) for rows in (1, FEW, FEW + 1, 64)] == [SPLIT, SPLIT, 1, 1]
    assert [blocks(8, *sizes) for sizes in ((32, 32), (128, 256), (256, 256), (256, 512))] == [1, 2, 4, 4]


def test_the_kernel_takes_as_many_tokens_as_a_speculative_step_may_have() -> None:
    assert WIDEST == MAX_DRAFTED + 1


@pytest.mark.parametrize(
    ("sizes", "fit"),
    [
        ({}, True),
        ({"linear_key_head_dim": 64, "linear_value_head_dim": 64}, True),
        ({"linear_key_head_dim": 48}, False),
        ({"linear_value_head_dim": 48}, False),
        ({"linear_key_head_dim": 512}, False),
    ],
)
def test_the_kernel_is_for_heads_of_some_sizes_on_cuda_only(
    sizes: dict[str, int], fit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = layer(mx.float32, **sizes)
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
    assert not fits(module) and not switch_kernels(module, True) and not module.fused
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    assert fits(module) == fit
    assert switch_kernels(module, True) == fit == module.fused
    assert not switch_kernels(module, True)  # nothing changes twice
    assert switch_kernels(module, False) == fit
    assert not module.fused


@pytest.mark.parametrize("name", DTYPES)
def test_speculative_steps_that_defer_are_speculative_steps_that_fold_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the twin in the kernel's place: what is owed, kept and taken in later comes to the same."""
    dtype, allowed = DTYPES[name]
    monkeypatch.setattr(gated_delta_cuda, "step", stand_in)
    plain, fused = layer(dtype), layer(dtype)
    fused.fused = True
    compare_in_rounds(plain, fused, dtype, allowed)


class Launches(list[tuple[str, dict[str, Any]]]):
    """Kernels that give zeros, and with which constants they were launched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
        monkeypatch.setattr(gated_delta_cuda, "_kernel", lambda: self.of("step"))
        monkeypatch.setattr(norm_cuda, "_gated_norm", lambda: self.of("norm"))

    def of(self, name: str) -> Any:
        def launch(*, template: Any, output_shapes: Any, output_dtypes: Any, **_: Any) -> list[mx.array]:
            self.append((name, dict(template)))
            return [mx.zeros(*form) for form in zip(output_shapes, output_dtypes, strict=True)]

        return launch


@pytest.mark.parametrize(
    ("rows", "size", "launches"),
    [
        (1, 128, [("step", 1, 1)]),
        (FEW + 1, 128, [("step", 1, 1)]),
        (1, 256, [("step", SPLIT, 0), ("norm",)]),  # a block cannot hold the head
        (FEW + 1, 256, [("step", SPLIT, 0), ("norm",)]),
    ],
)
def test_the_gated_norm_is_in_the_kernel_where_a_block_has_a_whole_head(
    rows: int, size: int, launches: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = layer(mx.bfloat16, linear_key_head_dim=size, linear_value_head_dim=size)
    found = Launches(monkeypatch)
    channels = (2 * KEY_HEADS + VALUE_HEADS) * size
    mixed, a = mx.zeros((rows, 2, channels), mx.bfloat16), mx.zeros((rows, 2, VALUE_HEADS), mx.bfloat16)
    memory = mx.zeros((rows, TAPS - 1, channels), mx.bfloat16), mx.zeros((rows, VALUE_HEADS, size, size))
    gates = mx.zeros((rows, 2, VALUE_HEADS, size), mx.bfloat16)
    assert step(module, mixed, a, a, *memory, gates=gates)[0].shape == gates.shape
    assert [(n, t["Split"], t["Normed"]) if n == "step" else (n,) for n, t in found] == launches
    found.clear()
    step(module, mixed, a, a, *memory)  # as pending tokens are applied: nobody reads the outputs
    assert [(n, t["Split"], t["Normed"]) for n, t in found] == [("step", blocks(rows, size, size), 0)]


def test_the_start_up_check_compares_the_norm_of_the_steps(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def without_gates(module: Any, *parts: Any, eager: bool = True, gates: mx.array | None = None) -> list[mx.array]:
        return stand_in(module, *parts, eager=eager, gates=None if gates is None else mx.ones_like(gates))

    monkeypatch.setattr(gated_delta_cuda, "fits", lambda module: True)
    monkeypatch.setattr(gated_delta_cuda, "step", stand_in)
    model = load(str(tiny("hybrid"))).language
    assert check.choose_layout(model, (PADDED,)) is PADDED and model.uses_kernels
    monkeypatch.setattr(gated_delta_cuda, "step", without_gates)
    assert check.choose_layout(model, (PADDED,)) is PADDED and not model.uses_kernels
    assert "kernels disagree" in caplog.text


def compare_in_rounds(plain: Any, fused: Any, dtype: mx.Dtype, allowed: float) -> None:
    one, two = Rows(plain, dtype), Rows(fused, dtype)
    for place, (width, kept) in enumerate(ROUNDS):
        assert far(two.step(width, kept), one.step(width, kept)) < allowed, f"step {place}"
        deferred = kept is not None
        [cache] = two.batch.flat
        assert isinstance(cache, StateCache)
        assert [array.shape[:2] for array in cache.pending] == [(ROWS, width)] * 3 * deferred
        assert (two.batch.kept is not None) == deferred
        [settled] = one.batch.flat
        assert isinstance(settled, StateCache)
        for row in range(ROWS):  # as the prefix cache cuts it out
            pairs = zip(cache.of_row(row), settled.of_row(row), strict=True)
            assert all(far(mine, theirs) < allowed for mine, theirs in pairs), f"row {row} after step {place}"
    for mine, theirs in zip(two.batch.arrays(), one.batch.arrays(), strict=True):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        assert far(mine, theirs) < allowed


# -- on CUDA


@on_cuda
@pytest.mark.parametrize("eager", [True, False], ids=["certain", "tentative"])
@pytest.mark.parametrize("pending", [0, 1, 4, 9])
@pytest.mark.parametrize("name", DTYPES)
def test_the_kernel_is_its_twin_at_every_width(name: str, pending: int, eager: bool) -> None:
    dtype, allowed = DTYPES[name]
    module = layer(dtype)
    for width in range(1, WIDEST + 1):
        given = Given(width, pending, dtype, rows=ROWS * (1 + width % 2))  # few, and more
        found, remembered = kernel(module, given.new, given.memory, given.pending, given.kept, eager=eager)
        expected, after = twin(module, given.new, given.memory, given.pending, given.kept, eager=eager)
        assert found.shape == expected.shape and found.dtype == dtype
        assert far(found, expected) < allowed, f"{width} tokens"
        assert mx.array_equal(remembered.window, after.window), f"the window after {width} tokens"
        assert remembered.state.dtype == mx.float32
        assert far(remembered.state, after.state) < allowed, f"the state after {width} tokens"


@on_cuda
@pytest.mark.parametrize("eager", [True, False], ids=["certain", "tentative"])
@pytest.mark.parametrize("rows", [3, 9])
@pytest.mark.parametrize("name", DTYPES)
def test_padding_costs_nothing_and_changes_no_bit_of_the_other_rows(name: str, rows: int, eager: bool) -> None:
    dtype, _ = DTYPES[name]
    module, given = layer(dtype), Given(2, 4, dtype, rows)
    active = [row % 3 != 1 for row in range(rows)]
    unset = [mx.where(mx.array(active).reshape(-1, *[1] * (part.ndim - 1)), part, mx.nan) for part in given.memory]
    every, after = kernel(module, given.new, given.memory, given.pending, given.kept, eager=eager)
    out, left = kernel(
        module,
        given.new,
        Memory(*unset),
        given.pending,
        [7 if not on else n for n, on in zip(given.kept, active, strict=True)],
        active=active,
        eager=eager,
    )
    for row, on in enumerate(active):
        assert mx.array_equal(out[row], every[row] if on else mx.zeros_like(every[row]))
        assert not on or all(mx.array_equal(*pair) for pair in zip(left.of(row), after.of(row), strict=True))


@on_cuda
@pytest.mark.parametrize("kept", [[0, 0, 0], [5, 1, 3], [9, 9, 9], [2, 9, 0]])
@pytest.mark.parametrize("name", DTYPES)
def test_tokens_taken_in_later_are_to_the_last_bit_tokens_taken_in_one_by_one(name: str, kept: list[int]) -> None:
    dtype, _ = DTYPES[name]
    module, given = layer(dtype), Given(2, 9, dtype)
    assert given.pending is not None
    out, after = kernel(module, given.new, given.memory, given.pending, kept)
    for row, count in enumerate(kept):
        mine = given.memory.of(row)
        for place in range(count):
            _, mine = kernel(module, given.pending.cut(row, place, place + 1), mine)
        for place in range(2):
            said, mine = kernel(module, given.new.cut(row, place, place + 1), mine)
            assert mx.array_equal(out[row, place], said[0, 0])
        assert all(mx.array_equal(part, whole) for part, whole in zip(after.of(row), mine, strict=True))


@on_cuda
@pytest.mark.parametrize("name", DTYPES)
def test_speculative_steps_with_the_kernel_are_speculative_steps_without(name: str) -> None:
    dtype, allowed = DTYPES[name]
    plain, fused = layer(dtype), layer(dtype)
    assert switch_kernels(fused, True)
    compare_in_rounds(plain, fused, dtype, allowed)


@on_cuda
@pytest.mark.parametrize("rows", [1, 3, 8, 33])
@pytest.mark.parametrize("name", DTYPES)
def test_the_gated_norm_in_the_kernel_is_the_norms_own_kernel_to_the_last_bit(name: str, rows: int) -> None:
    dtype, allowed = DTYPES[name]
    module = layer(dtype)
    module.norm.weight = (1 + mx.random.normal((SIZE,)) / 8).astype(dtype)
    active = mx.array([row % 4 != 2 for row in range(rows)], dtype=mx.int32)
    for width, pending in [(1, 0), (1, 3), (4, 2), (9, 9)]:
        given = Given(width, pending, dtype, rows)
        counts = mx.array(given.kept, dtype=mx.int32) if pending else None
        gates = 3 * mx.random.normal((rows, width, VALUE_HEADS, SIZE)).astype(dtype)
        for eager in (True, False):
            parts = (module, *given.new, *given.memory, given.pending or (), counts, active)
            ours, apart = step(*parts, eager=eager, gates=gates), step(*parts, eager=eager)
            apart[0] = norm_cuda.gated_norm(apart[0], gates, module.norm)
            for mine, other in zip(ours, apart, strict=True):
                for row in range(rows):
                    assert not active[row].item() or mx.array_equal(mine[row], other[row]), (width, row)
            assert mx.array_equal(ours[0], apart[0])
            out, _ = twin(module, given.new, given.memory, given.pending, given.kept, eager=eager)
            normed = mx.where(active[:, None, None, None], module.norm(out, gates), 0)
            assert far(ours[0], normed) < allowed
