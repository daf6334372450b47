"""Ten thousand rounds leave memory where it was."""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.types import Sampling
from tests.engine.stepper import Stepper
from tests.integration.test_speculative_sampling import SMALLEST
from tests.lengths import turns

Tiny = Callable[..., Path]
STATM = Path("/proc/self/statm")
ROUNDS = turns(10_000, 2_500)
MEGABYTE = 1 << 20
KINDS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 1.0},
    {"temperature": 0},
    {"temperature": 0, "frequency_penalty": 0.5, "logprobs": 2},
    {"temperature": 0},
    {"temperature": 0.8, "seed": 7, "top_p": 0.9},
]


def resident() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def requests() -> Iterator[tuple[str, tuple[int, ...], Sampling]]:
    """Of every kind and of many lengths, without end."""
    for place in itertools.count():
        kind = KINDS[place % len(KINDS)]
        tokens = 60 + 83 * place % 400
        yield str(place), tuple(range(1 + 13 * place % 50)), Sampling(max_tokens=tokens, ignore_eos=True, **kind)


def drive(stepper: Stepper, arrivals: Iterator[tuple[str, tuple[int, ...], Sampling]], rounds: int) -> None:
    """Two rows at any time; who ends is replaced, and now and then one leaves early."""
    depths = stepper.engine.scheduler.draft_lengths
    goal = sum(depths.steps[1:]) + rounds
    while sum(depths.steps[1:]) < goal:
        while len(stepper.engine.seqs) < 2:
            stepper.heard.clear()  # what was heard is the test's own memory
            stepper.submit(*next(arrivals))
        stepper.step(25)
        if sum(depths.steps) % 1000 < 25:
            stepper.abort(min(stepper.engine.seqs, default=""))


@pytest.mark.slow
@pytest.mark.own_process
@pytest.mark.skipif(not STATM.exists(), reason="reads resident memory from /proc")
def test_ten_thousand_speculative_steps_leave_memory_where_it_was(tiny: Tiny) -> None:
    stepper = Stepper(tiny("hybrid", **SMALLEST), "padded", speculation=2)
    arrivals = requests()
    drive(stepper, arrivals, 600)  # warm: MLX's pool, compiled functions, Python's own arenas

    def measured() -> tuple[int, int]:
        gc.collect()
        mx.clear_cache()
        return resident(), mx.get_active_memory()

    before = measured()
    drive(stepper, arrivals, ROUNDS)
    after = measured()
    assert stepper.engine.counters.finished.keys() == {"length", "abort"}
    assert abs(after[0] - before[0]) < 20 * MEGABYTE
    assert abs(after[1] - before[1]) < 1 * MEGABYTE
    stepper.abort(min(stepper.engine.seqs))
    stepper.finish()
    assert measured()[1] - before[1] < MEGABYTE // 2
