"""A traced pass is the plain pass: same outputs, same layers afterwards, whatever sequences join and leave in
between."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.cache import slot_plan
from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.layers import AttentionCache, StateCache
from paceline.cache.shape_buckets import ShapeBuckets
from paceline.cache.slot_plan import LAYOUTS, PADDED
from paceline.engine import forward as forward_module
from paceline.engine.forward import Forward, RowCounts
from paceline.models.positions import Positions
from tests.engine.stepper import loaded

Tiny = Callable[..., Path]


def taken_in(
    current: Sequence[mx.array | None],
    pending: Sequence[mx.array],
    kept: mx.array | None = None,
    *,
    now: bool = True,
) -> list[mx.array]:
    """A state that each token halves and adds itself to, after the first `kept[i]` of the pending ones (None: all).

    In closed form: on CPU every new chain of small operations is compiled, and a loop would be one for every width.
    """
    [tokens] = pending
    seqs, width = tokens.shape
    counts = (mx.full((seqs,), width) if kept is None else kept)[:, None]
    state = mx.zeros((seqs, 1)) if current[0] is None else current[0]
    weights = mx.where(mx.arange(width) < counts, 0.5 ** (counts - 1 - mx.arange(width)), 0)
    return [0.5**counts * state + (tokens[:, None].astype(mx.float32) @ weights[..., None])[:, 0]]


def later(
    current: Sequence[mx.array | None], pending: Sequence[mx.array], kept: mx.array, *, now: bool = False
) -> list[mx.array] | None:
    """As a kernel does it: the layer's next step applies the pending tokens, unless they are needed now."""
    return taken_in(current, pending, kept) if now else None


FULL, WINDOW = LayerPlan("attention"), LayerPlan("attention", window=6)
FOLDS, DEFERS = LayerPlan("state", size=1, apply_accepted=taken_in), LayerPlan("state", size=1, apply_accepted=later)
MODELS = {
    "attention": (FULL, WINDOW),
    "folding": (FOLDS, FULL),
    "deferring": (DEFERS, FULL, DEFERS),
    "states": (DEFERS, FOLDS),
}


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers that grow by sixteen slots, so that short scripts see them grow and slide."""
    monkeypatch.setattr(slot_plan, "STEP", 16)


def toy(inputs: Sequence[mx.array], batch: Batch) -> list[mx.array]:
    """All that models do with their caches: positions, attention over the buffers, states with and without owing."""
    [tokens] = inputs
    seqs, width = tokens.shape
    offset: Any = batch.step.offset
    places = mx.broadcast_to(mx.array(offset).reshape(-1, 1), (seqs, 1))
    h = (TABLE[tokens] + TABLE[(places + mx.arange(width)) % len(TABLE)])[:, None]
    for cache in batch.flat:
        if isinstance(cache, AttentionCache):
            cache.update_and_fetch(h, h)
            h = cache.attend(h @ MIX, 0.5, None, mx.fast.scaled_dot_product_attention)
        elif isinstance(cache, StateCache):
            state: Sequence[mx.array | None] = [cache[0]]
            if cache.pending:
                [cache[0]] = state = taken_in(state, cache.pending, cache.kept)
            after = taken_in(state, [tokens])
            if cache.tentative:
                cache.set_pending([tokens])
            else:
                [cache[0]] = after
            h = h + after[0][:, None, :, None]
    return [h, tokens]


TABLE = mx.array(np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32))
MIX = mx.array(np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32))


class Pair:
    """Two batches of the same sequences: one stepped plainly, one through the forward under test."""

    def __init__(self, plans: Sequence[LayerPlan], layout: str, forward: Forward, function: Any = toy) -> None:
        self.plans, self.grouping = plans, LAYOUTS[layout]
        self.forward, self.function = forward, function
        self.plain = Batch(plans, self.grouping)
        self.other = Batch(plans, self.grouping)
        self.tokens = np.random.default_rng(5)
        self.step(3)

    def step(self, width: int, kept: Sequence[int] | None = None) -> None:
        tentative = kept is not None
        tokens = [mx.array(self.tokens.integers(0, 200, (self.plain.rows, width)), dtype=mx.int32)]
        self.plain.begin(width, tentative=tentative)
        expected = self.function(tokens, self.plain)
        self.plain.close()
        found, close = self.forward(self.other, width, tokens, tentative=tentative)
        close()
        for batch in (self.plain, self.other):
            if kept is not None:
                batch.apply_accepted(mx.array(list(kept), dtype=mx.int32))
            batch.advance([width] * batch.rows if kept is None else kept)
        mx.eval(expected, found, self.plain.arrays(), self.other.arrays())
        self.compare(expected, found)

    def round_ahead(self, width: int, kept: list[int]) -> None:
        """A round that the other batch's host does not read yet."""
        tokens = [mx.array(self.tokens.integers(0, 200, (self.plain.rows, width)), dtype=mx.int32)]
        counts = mx.array(kept, dtype=mx.int32)
        self.plain.begin(width, tentative=True)
        expected = self.function(tokens, self.plain)
        self.plain.close()
        self.plain.apply_accepted(counts)
        self.plain.advance(kept)
        found, close = self.forward(self.other, width, tokens, tentative=True)
        close()
        self.other.apply_accepted(counts)
        self.other.advance_on_device(counts, width)
        for one, two in zip(expected, found, strict=True):
            np.testing.assert_allclose(np.array(two), np.array(one), rtol=1e-4, atol=1e-4)

    def compare(self, expected: Sequence[mx.array], found: Sequence[mx.array]) -> None:
        for one, two in zip(expected, found, strict=True):
            np.testing.assert_allclose(np.array(two), np.array(one), rtol=1e-4, atol=1e-4)
        assert self.plain.lengths == self.other.lengths
        assert (self.plain.kept is None) == (self.other.kept is None)
        for mine, theirs in zip(self.plain.states(), self.other.states(), strict=True):
            assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
            np.testing.assert_allclose(np.array(theirs), np.array(mine), rtol=1e-4, atol=1e-4)
        assert [array.shape for array in self.plain.arrays()] == [array.shape for array in self.other.arrays()]

    def join(self, length: int, delta: int = 0) -> None:
        tokens = [mx.array(self.tokens.integers(0, 200, (1, length)), dtype=mx.int32)] if length else []
        for batch in (self.plain, self.other):
            seq = Batch(self.plans, self.grouping)
            if length:
                seq.begin(length)
                self.function(tokens, seq)
                seq.commit()
            seq.deltas[0] = delta
            batch.join(seq)

    def keep(self, seqs: Sequence[int]) -> None:
        self.plain.keep(seqs)
        self.other.keep(seqs)


def script(pair: Pair) -> int:
    """Widths and kinds in every order, sequences that come and go, buffers that grow. Returns the number of steps."""
    pair.step(1)
    pair.step(3, [2])
    pair.step(3, [1])  # the same shape again, with tokens pending
    pair.step(1)
    pair.join(20, delta=-3)
    pair.step(1)
    pair.step(3, [3, 1])
    pair.join(4)  # between a round and what takes it in
    pair.step(3, [1, 2, 3])
    pair.keep([0, 2])
    pair.step(5, [5, 1])
    pair.step(1)
    for kept in ([5, 5], [2, 4], [5, 1], [1, 5]):
        pair.step(5, kept)
    pair.step(2)
    pair.keep([1])
    pair.step(3, [3])
    pair.step(1)
    return 16


@pytest.mark.thin(4, first=3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model", MODELS)
def test_a_traced_pass_is_the_plain_pass_whatever_came_before(model: str, layout: str) -> None:
    forward = Forward(toy, traces=True, trace_after=1)
    pair = Pair(MODELS[model], layout, forward)
    first = forward.traced_calls  # a sequence's very first step allocates, and cannot be traced
    steps = script(pair)
    assert (first, forward.traced_calls) == (0, steps)
    assert forward._batch is None


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", ["window", "hybrid"])
def test_a_real_models_traced_pass_is_its_plain_pass(tiny: Tiny, family: str, layout: str) -> None:
    language = loaded(tiny(family, layers=4 if family == "hybrid" else 3)).language

    def function(inputs: Sequence[mx.array], batch: Batch) -> list[mx.array]:
        return [language.module(inputs[0], cache=batch.layers)]

    forward = Forward(function, traces=True, trace_after=1)
    pair = Pair(language.plans, layout, forward, function)
    assert script(pair) == forward.traced_calls


def test_a_pass_that_is_not_traced_is_the_plain_pass() -> None:
    forward = Forward(toy)
    pair = Pair(MODELS["deferring"], "similar", forward)
    script(pair)
    assert forward.traced_calls == 0


# -- when it is traced


def test_a_shape_is_traced_when_it_has_been_seen_for_a_while() -> None:
    forward = Forward(toy, traces=True, trace_after=3)
    pair = Pair(MODELS["attention"], "padded", forward)
    counts = []
    for width in (1, 1, 2, 1, 1, 2, 2, 1):  # in a buffer that need not grow
        known = forward.is_traced(pair.other, width)
        pair.step(width)
        counts.append(forward.traced_calls)
        assert forward.is_traced(pair.other, width) >= known
    # The third of its width is traced, whatever came between; what is known stays known.
    assert counts == [0, 0, 0, 1, 2, 2, 3, 4]
    assert not forward.is_traced(pair.other, 1, tentative=True)


def test_shapes_that_never_come_back_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_module, "MAX_SHAPES", 4)
    forward = Forward(toy, traces=True, trace_after=3)
    pair = Pair(MODELS["attention"], "padded", forward)
    for width in (1, 2, 4, 5, 6, 7, 8, 9):
        pair.step(width)
        assert len(forward._seen) <= 4
    assert forward.traced_calls == 0


def test_rows_that_come_and_go_within_a_bucket_are_the_same_trace() -> None:
    traced = []

    def flags(inputs: Sequence[mx.array], batch: Batch) -> list[mx.array]:
        traced.append(batch.rows)
        cache = batch.flat[0]
        assert isinstance(cache, StateCache)
        return [cache.active + 0, *toy(inputs, batch)]

    grouping = replace(PADDED, buckets=ShapeBuckets(rows=(6,)))

    def row() -> Batch:
        made = Batch([DEFERS], grouping)
        made.begin(2)
        toy([mx.ones((1, 2), dtype=mx.int32)], made)
        made.commit()
        return made

    batch, forward, seen = row(), Forward(flags, traces=True), []
    for kept in (None, None, [0, 2], None, [1]):
        if kept is None:
            batch.join(row())
        else:
            batch.keep(kept)
        for _ in range(2):
            (active, *_), close = forward(batch, 1, [mx.ones((batch.rows, 1), dtype=mx.int32)])
            close()
            batch.advance([1] * batch.rows)
            assert active.tolist() == batch.active
        seen.append(sum(batch.active))
    assert seen == [2, 3, 2, 3, 1] and forward.traced_calls == 10
    assert traced == [6]


def test_a_speculative_step_and_a_plain_step_of_one_width_are_two_shapes() -> None:
    forward = Forward(toy, traces=True, trace_after=2)
    pair = Pair(MODELS["attention"], "padded", forward)
    counts = []
    for kept in (None, [2], None, [2]):
        pair.step(2, kept)
        counts.append(forward.traced_calls)
    assert counts == [0, 0, 1, 2]


@pytest.mark.parametrize("model", ["deferring", "states"])
def test_a_step_is_one_trace_whatever_draft_length_the_one_before_it_had(model: str) -> None:
    traced = []

    def counted(inputs: Sequence[mx.array], batch: Batch) -> list[mx.array]:
        traced.append((inputs[0].shape[1], batch.step.tentative))
        return toy(inputs, batch)

    forward = Forward(counted, traces=True, trace_after=1)
    pair = Pair(MODELS[model], "padded", forward)
    for batch in (pair.plain, pair.other):
        batch.reserve(40)  # it need not grow below
    pair.step(1)
    pair.step(2, [1])  # from here on it is known what these layers leave to the next step
    pair.step(2, [2])
    assert forward.is_traced(pair.other, 2, tentative=True)
    traced.clear()
    for width, kept in [(3, [2]), (2, [1]), (1, None), (3, [3]), (3, [1]), (1, None), (1, None), (2, [1]), (1, [1])]:
        pair.step(width, kept)
    assert sorted(traced) == [(1, True), (3, True)]


def test_explicit_positions_are_never_traced() -> None:
    positions = Positions(mx.array([[4]]))
    seen: list[Any] = []

    def looks(inputs: Sequence[mx.array], batch: Batch) -> list[mx.array]:
        seen.append(batch.step.offset)
        return list(inputs)

    forward = Forward(looks, traces=True, trace_after=1)
    batch = Batch((), PADDED)
    for _ in range(3):
        _, close = forward(batch, 1, [mx.array([[1]])], positions=positions)
        close()
    assert seen == [positions] * 3
    assert forward.traced_calls == 0


def test_past_so_many_shapes_the_traces_are_dropped_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward_module, "MAX_SHAPES", 3)
    forward = Forward(toy, traces=True, trace_after=1)
    pair = Pair(MODELS["folding"], "padded", forward)
    for width in (1, 2, 3, 4, 1, 2, 5, 1):
        pair.step(width)
        assert len(forward._known) <= 3 and len(forward._functions) <= 3
    assert forward.traced_calls == 8


# -- rounds that follow each other before the host has read them


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model", MODELS)
def test_traced_speculative_steps_that_run_ahead_are_speculative_steps_that_are_read_one_by_one(
    model: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_plan, "STEP", 64)  # a buffer that grows is another shape
    forward = Forward(toy, traces=True, trace_after=1)
    pair = Pair(MODELS[model], layout, forward)
    pair.join(20, delta=-3)
    pair.join(4)
    pair.step(4, [1, 4, 2])
    pair.step(4, [4, 1, 3])  # a layer that defers has now been traced with tokens pending
    unread: list[list[int]] = []
    for kept in ([4, 4, 4], [1, 1, 1], [2, 4, 1], [3, 1, 4]):
        assert forward.is_traced(pair.other, 4, tentative=True)
        pair.round_ahead(4, kept)
        unread.append(kept)
        if len(unread) > 1:
            pair.other.sync_lengths(unread.pop(0))
    pair.other.sync_lengths(unread.pop(0))
    pair.step(2)
    pair.keep([0, 2])
    pair.step(1)


def test_a_shape_that_is_not_traced_waits_for_the_host() -> None:
    forward = Forward(toy, traces=True, trace_after=2)
    pair = Pair(MODELS["folding"], "padded", forward)
    pair.round_ahead(3, [2])
    assert not forward.is_traced(pair.other, 3, tentative=True)
    with pytest.raises(RuntimeError, match="must be synced"):
        forward(pair.other, 2, [mx.ones((1, 2), dtype=mx.int32)], tentative=True)
    pair.other.sync_lengths([2])
    pair.step(3, [1])


def test_without_traces_nothing_is_ever_traced() -> None:
    forward = Forward(toy, trace_after=1)
    pair = Pair(MODELS["folding"], "padded", forward)
    pair.step(1)
    assert not forward.is_traced(pair.other, 1)


# -- what the call leaves alone


def held(batch: Batch) -> tuple[Any, ...]:
    arrays = [id(array) for array in batch.arrays()]
    return arrays, list(batch.lengths), list(batch.deltas), id(batch.kept)


def refuses(inputs: Sequence[mx.array], batch: Batch) -> list[mx.array]:
    toy(inputs, batch)
    raise RuntimeError("half way")


@pytest.mark.parametrize("tentative", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_a_traced_pass_that_fails_leaves_the_batch_as_it_was(model: str, tentative: bool) -> None:
    forward = Forward(toy, traces=True, trace_after=1)
    pair = Pair(MODELS[model], "padded", forward)
    pair.join(5)
    pair.step(3, [1, 3])
    pair.other.reserve(4)
    broken = Forward(refuses, traces=True, trace_after=1)
    broken._settle(pair.other, 4, tentative)
    before = held(pair.other)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="half way"):
            broken(pair.other, 4, [mx.ones((2, 4), dtype=mx.int32)], tentative=tentative)
        assert held(pair.other) == before
        with pytest.raises(RuntimeError, match="begin"):
            _ = pair.other.step
    pair.step(4, [2, 4] if tentative else None)
    pair.step(1)


@pytest.mark.parametrize("tentative", [False, True])
def test_a_traced_pass_changes_nothing_before_it_is_closed(tentative: bool) -> None:
    forward = Forward(toy, traces=True, trace_after=1)
    pair = Pair(MODELS["deferring"], "padded", forward)
    pair.step(3, [2])
    pair.other.reserve(2)
    forward._settle(pair.other, 2, tentative)
    before = held(pair.other)
    for _ in range(2):
        forward(pair.other, 2, [mx.ones((1, 2), dtype=mx.int32)], tentative=tentative)
        assert held(pair.other) == before
    pair.step(2, [1] if tentative else None)


def test_traces_do_not_hold_the_batch_they_were_made_with() -> None:
    forward = Forward(toy, traces=True, trace_after=1)
    pair = Pair(MODELS["deferring"], "padded", forward)
    pair.step(1)
    gone = weakref.ref(pair.other)
    pair.other = Batch(pair.plans, pair.grouping)
    assert forward.traced_calls == 1 and gone() is None


def test_a_pass_is_steady_when_it_will_go_on_costing_what_it_cost() -> None:
    """Neither one that waits to be traced nor the one that is traced; those after it, until another shape comes."""
    forward = Forward(toy, traces=True, trace_after=3)
    pair = Pair(MODELS["attention"], "padded", forward)
    steady = []
    for width in (1, 1, 1, 1, 1, 2, 1):
        pair.step(width)
        steady.append(forward.steady)
    assert steady == [False, False, False, True, True, False, True]
    plain = Forward(toy)
    Pair(MODELS["attention"], "padded", plain).step(1)
    assert plain.steady


def test_counts_on_the_device_are_those_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    real = mx.array
    counts = RowCounts()
    for given in ([1, 0], [2, 0], [2, 1], [1], [2]):
        counts(given)  # these changes are kept from now on
    counts = RowCounts()

    def array(*args: Any, **options: Any) -> mx.array:
        made.append(args)
        return real(*args, **options)

    monkeypatch.setattr(mx, "array", array)
    for numbers, from_host in [
        ([5, 7], True),
        ([6, 7], False),
        ([6, 8], False),
        ([6, 8], False),
        ([6, 9], False),
        ([6, 11], True),
        ([5, 11], True),
        ([5, 11, 1], True),
        ([1], True),
        ([0] * (RowCounts.SIZE + 1), True),
        ([2], False),
        ([2, 5], True),
    ]:
        made.clear()
        found = counts(numbers)
        assert found.tolist() == numbers and found.dtype == mx.int32
        assert bool(made) == from_host, numbers
