"""How many prompt tokens a step takes, on a machine whose steps cost what we say."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from paceline.engine.prefill_budget import MIN_CHUNK, PrefillBudget, SparseBudget
from tests.integration.test_sparse_exactness import prompt
from tests.reference import greedy_text
from tests.sparse.stepper import SparseStepper


def test_without_a_target_or_without_streams_it_takes_all() -> None:
    assert PrefillBudget(None, 512).chunk(True) == 512
    paced = PrefillBudget(0.05, 512)
    paced.observe(0, 0.02)
    paced.observe(512, 1.0)
    assert paced.chunk(False) == 512


def test_before_anything_is_measured_it_takes_all() -> None:
    assert PrefillBudget(0.05, 512).chunk(True) == 512


def test_it_takes_what_the_target_leaves_beside_decoding() -> None:
    paced = PrefillBudget(0.05, 4096)
    paced.observe(0, 0.01)
    paced.observe(100, 0.01 + 0.1)  # a millisecond a token
    assert paced.chunk(True) == 32
    paced.target = 0.210 + 1e-6
    assert paced.chunk(True) == 192  # 200, in whole passes of the least


def test_it_never_takes_less_than_the_least() -> None:
    paced = PrefillBudget(0.001, 512)
    paced.observe(0, 0.5)
    paced.observe(512, 5.0)
    assert paced.chunk(True) == MIN_CHUNK
    assert PrefillBudget(0.001, 8).chunk(True) == 8


def test_a_machine_that_becomes_faster_gets_more_again() -> None:
    paced = PrefillBudget(0.1, 4096)
    for _ in range(50):
        paced.observe(0, 0.02)
        paced.observe(64, 0.02 + 64 * 0.002)
    slow = paced.chunk(True)
    for _ in range(100):
        paced.observe(64, 0.02 + 64 * 0.0002)
    assert slow == MIN_CHUNK
    assert paced.chunk(True) == pytest.approx(400, abs=2 * MIN_CHUNK)


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
@pytest.mark.parametrize(("step", "token"), [(0.02, 0.0002), (0.01, 0.001), (0.03, 0.00005)])
def test_the_slow_steps_keep_the_target_and_the_others_use_it(step: float, token: float, noise: float) -> None:
    dice = random.Random(7)
    paced = PrefillBudget(0.1, 2048)
    gaps, sizes = [], []
    for number in range(1200):
        tokens = paced.chunk(True) if number % 4 else 0
        seconds = (step + tokens * token) * dice.uniform(1 - noise, 1 + noise)
        paced.observe(tokens, seconds)
        if number > 200:
            gaps.append(seconds)
            sizes.append(tokens)
    gaps.sort()
    assert gaps[int(0.99 * len(gaps))] <= 0.1 * (1 + noise) * 1.1
    wanted = min((0.1 - step) / token, 2048)
    assert max(sizes) >= 0.5 * wanted


def test_memory_halves_the_chunk_and_gives_it_back_step_by_step() -> None:
    paced = PrefillBudget(None, 512)
    sizes = []
    for _ in range(8):
        paced.shrink()
        sizes.append(paced.chunk(True))
    assert sizes == [256, 128, 64, 32, 32, 32, 32, 32]
    grown = []
    for _ in range(6):
        paced.grow()
        grown.append(paced.chunk(True))
    assert grown == [64, 128, 256, 512, 512, 512]


def test_a_small_chunk_cannot_be_squeezed() -> None:
    paced = PrefillBudget(None, 16)
    paced.shrink()
    assert paced.ceiling == 16
    paced.grow()
    assert paced.ceiling == 16


def test_streams_are_repaid_for_the_time_that_chunks_take() -> None:
    duty = SparseBudget(share=0.25)
    assert not duty.is_spent(10.0)
    duty.started()
    assert duty.is_spent(10.0) and duty.is_spent(20.0), "nobody knows yet how long it takes"
    duty.finished(0.5, 21.0)
    assert duty.is_spent(21.0) and duty.is_spent(22.4)
    assert not duty.is_spent(22.6), "three times as long for the streams"


@pytest.mark.slow
def test_chunks_beside_streams_take_no_more_than_their_share(llama: Path) -> None:
    """With a clock of its own: every chunk takes 0.3 s, every step 0.1 s."""
    stepper = SparseStepper(llama, chunk=16, read=16)
    now = [0.0]
    engine = stepper.engine
    engine.clock = lambda: now[0]
    duty = engine.scheduler.sparse_budget
    took = duty.finished
    duty.finished = lambda seconds, now: took(0.3, now)  # type: ignore[method-assign]
    stream = stepper.greedy("stream", prompt(20, 1), 600)
    stepper.step(4)
    long = stepper.scored("long", prompt(), 4)
    chunks = steps = 0
    while not long.deltas:
        before = duty.in_flight
        stepper.step()
        steps += 1
        chunks += duty.in_flight > before
        now[0] += 0.1 + 0.3 * (duty.in_flight > before)
    assert chunks > 20
    assert 0.3 * chunks / now[0] < duty.share + 0.05
    stepper.finish()
    assert stream.tokens == greedy_text(llama, prompt(20, 1), 600)
