"""Drafting where sequences come and go, as on a GPU: after the warm-up, "auto" meets no shape that it has to trace.

The layers' kernel has a stand-in of plain operations that can be traced. As the kernel does, it leaves the accepted
tokens of a speculative step to the next step.
"""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from paceline.cache import slot_plan
from paceline.engine import warmup
from paceline.engine.draft_length import SAMPLES, DraftLengths
from paceline.engine.runner import APART
from paceline.engine.warmup import WarmUpScope, warm_up
from paceline.models import gated_delta, gated_delta_cuda
from paceline.models.recurrent import ended
from paceline.types import Speculation
from tests.engine.stepper import Heard, Stepper, loaded
from tests.engine.watched import LISTENING, Tiny, Told, greedy, prompt
from tests.reference import greedy_text

STREAMS, TOKENS = 8, 16
PROMPTS = (49, 55, 63, 70)  # in buffers of 64 or 96 slots


def _tokens(module: Any, mixed: Any, a: Any, b: Any, window: mx.array, state: mx.array) -> Any:
    stream = mx.concatenate([window, mixed], axis=1)
    decay = gated_delta.log_decay(module.A_log, a, module.dt_bias)
    queries, keys, values = module._heads(nn.silu(module.conv1d(stream)))
    return stream, *gated_delta.tried(queries, keys, values, decay, mx.sigmoid(b), state)


def _after(state: mx.array, rest: Any, kept: mx.array) -> mx.array:
    keys, updates, decays = rest
    return gated_delta.folded(state, keys, updates, decays, kept)


def kernel(
    module: Any,
    mixed: mx.array,
    a: mx.array,
    b: mx.array,
    window: mx.array,
    state: mx.array,
    pending: Any = (),
    kept: Any = None,
    active: Any = None,
    *,
    eager: bool = True,
    gates: mx.array | None = None,
) -> list[mx.array]:
    """What `gated_delta_cuda.step` does."""
    taps = module.conv_kernel_size
    if pending:
        mixed_before, a_before, b_before = pending
        stream, _, rest = _tokens(module, mixed_before, a_before, b_before, window, state)
        window, state = ended(stream, taps, kept), _after(state, rest, kept)
    stream, out, rest = _tokens(module, mixed, a, b, window, state)
    if eager:
        every = mx.full((mixed.shape[0],), mixed.shape[1], dtype=mx.int32)
        window, state = ended(stream, taps, every), _after(state, rest, every)
    return [out if gates is None else module.norm(out, gates), window, state]


@pytest.fixture
def folder(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Buffers that grow by sixteen slots: short prompts see them grow."""
    monkeypatch.setattr(slot_plan, "STEP", 16)
    for name, value in {"SHORT": 8, "LONG": 70, "CAPACITIES": (64, 96)}.items():
        monkeypatch.setattr(warmup, name, value)
    path = tiny("hybrid", **LISTENING)
    monkeypatch.setattr(gated_delta_cuda, "step", kernel)
    for layer in loaded(path).language.module.layers:
        if "linear_attn" in layer:
            monkeypatch.setattr(layer.linear_attn, "fused", True)
    return path


def stepped(folder: Path, speculation: Speculation) -> Stepper:
    stepper = Stepper(folder, "padded+buckets", chunk=256, speculation=speculation, traces=True)
    stepper.runner.apart = APART
    stepper.engine.scheduler.draft_lengths = Told(3).knowing()  # drafting pays here, at every batch size
    stepper.engine.scheduler.draft_lengths.buckets = stepper.grouping.buckets
    return stepper


@pytest.mark.slow
def test_auto_meets_no_new_shape_after_the_warm_up(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    stepper = stepped(folder, "auto")
    with caplog.at_level(logging.WARNING, "paceline"):
        warm_up(stepper.runner, WarmUpScope(STREAMS, 256), draft_lengths=(0, 1, 2, 3))
    assert not caplog.records
    met = stepper.runner.new_shapes
    chance, names = np.random.default_rng(0), itertools.count()
    heard: dict[str, tuple[int, int, Heard]] = {}
    for _ in range(120):
        while len(stepper.engine.seqs) < STREAMS and len(heard) < 24:
            length, tokens = int(chance.choice(PROMPTS)), int(chance.integers(4, TOKENS + 1))
            name = str(next(names))
            heard[name] = length, tokens, stepper.submit(name, prompt(length), greedy(tokens))
        stepper.step()
    stepper.finish()
    assert stepper.runner.new_shapes == met
    assert stepper.engine.scheduler.draft_lengths.accepted_tokens > 50
    for length, tokens, found in heard.values():
        assert found.tokens == greedy_text(folder, prompt(length), TOKENS)[:tokens]


def drafted(stepper: Stepper, speculation: Speculation, tokens: int = 12) -> list[int]:
    """Steps by draft length, of two sequences that run together."""
    lengths = stepper.engine.scheduler.draft_lengths
    before = list(lengths.steps)
    heard = [stepper.submit(str(n), prompt(n), greedy(tokens, speculation=speculation)) for n in (5, 9)]
    stepper.finish()
    assert [each.tokens for each in heard] == [greedy_text(stepper.model.folder, prompt(n), tokens) for n in (5, 9)]
    return [now - then for now, then in zip(lengths.steps, before, strict=False)]


def test_without_it_auto_tries_new_shapes_seldom_and_a_request_that_names_a_length_gets_it(folder: Path) -> None:
    stepper = stepped(folder, "auto")
    assert not any(drafted(stepper, "auto")[1:])
    stepper.runner.apart = 4
    plain, *others = drafted(stepper, "auto")
    assert any(others) and plain >= 4  # of two sequences, before it is worth it
    stepper.runner.apart = 1 << 20
    assert drafted(stepper, 2)[2]
    assert not drafted(stepper, "auto")[3]  # which is new; a shorter draft is known
    assert any(drafted(stepper, "auto")[1:])
    costs = stepper.engine.scheduler.draft_lengths
    for length in SAMPLES * [1, 2]:
        DraftLengths.timed(costs, 2, length, 9.0)  # now they do not pay: rather none than those
    assert not any(drafted(stepper, "auto")[1:])


@pytest.mark.parametrize("depth", [1, 3])
def test_lengths_that_change_are_folded_exactly(folder: Path, depth: int) -> None:
    """Plain steps between speculative ones, as sequences with and without drafts come and go."""
    stepper = stepped(folder, "off")
    heard = []
    for place, (length, speculation) in enumerate([(5, depth), (9, "off"), (33, 2), (9, depth)]):
        heard.append((length, stepper.submit(str(place), prompt(length), greedy(TOKENS, speculation=speculation))))
        stepper.step(5)
    stepper.finish()
    for length, found in heard:
        assert found.tokens == greedy_text(folder, prompt(length), TOKENS)
