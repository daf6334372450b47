"""How many prompt tokens a step takes, on a machine whose steps cost what we say."""

from __future__ import annotations

import random

import pytest

from paceline.engine.pace import LEAST, Pace


def test_without_a_target_or_without_streams_it_takes_all() -> None:
    assert Pace(None, 512).chunk(True) == 512
    paced = Pace(0.05, 512)
    paced.timed(0, 0.02)
    paced.timed(512, 1.0)
    assert paced.chunk(False) == 512


def test_before_anything_is_measured_it_takes_all() -> None:
    assert Pace(0.05, 512).chunk(True) == 512


def test_it_takes_what_the_target_leaves_beside_decoding() -> None:
    paced = Pace(0.05, 4096)
    paced.timed(0, 0.01)
    paced.timed(100, 0.01 + 0.1)  # a millisecond a token
    assert paced.chunk(True) == 32
    paced.target = 0.210 + 1e-6
    assert paced.chunk(True) == 192  # 200, in whole passes of the least


def test_it_never_takes_less_than_the_least() -> None:
    paced = Pace(0.001, 512)
    paced.timed(0, 0.5)
    paced.timed(512, 5.0)
    assert paced.chunk(True) == LEAST
    assert Pace(0.001, 8).chunk(True) == 8


def test_a_machine_that_becomes_faster_gets_more_again() -> None:
    paced = Pace(0.1, 4096)
    for _ in range(50):
        paced.timed(0, 0.02)
        paced.timed(64, 0.02 + 64 * 0.002)
    slow = paced.chunk(True)
    for _ in range(100):
        paced.timed(64, 0.02 + 64 * 0.0002)
    assert slow == LEAST
    assert paced.chunk(True) == pytest.approx(400, abs=2 * LEAST)


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
@pytest.mark.parametrize(("step", "token"), [(0.02, 0.0002), (0.01, 0.001), (0.03, 0.00005)])
def test_the_slow_steps_keep_the_target_and_the_others_use_it(step: float, token: float, noise: float) -> None:
    dice = random.Random(7)
    paced = Pace(0.1, 2048)
    gaps, sizes = [], []
    for number in range(1200):
        tokens = paced.chunk(True) if number % 4 else 0
        seconds = (step + tokens * token) * dice.uniform(1 - noise, 1 + noise)
        paced.timed(tokens, seconds)
        if number > 200:
            gaps.append(seconds)
            sizes.append(tokens)
    gaps.sort()
    assert gaps[int(0.99 * len(gaps))] <= 0.1 * (1 + noise) * 1.1
    wanted = min((0.1 - step) / token, 2048)
    assert max(sizes) >= 0.5 * wanted


def test_memory_halves_the_chunk_and_gives_it_back_step_by_step() -> None:
    paced = Pace(None, 512)
    sizes = []
    for _ in range(8):
        paced.squeeze()
        sizes.append(paced.chunk(True))
    assert sizes == [256, 128, 64, 32, 32, 32, 32, 32]
    grown = []
    for _ in range(6):
        paced.relax()
        grown.append(paced.chunk(True))
    assert grown == [64, 128, 256, 512, 512, 512]


def test_a_small_chunk_cannot_be_squeezed() -> None:
    paced = Pace(None, 16)
    paced.squeeze()
    assert paced.ceiling == 16
    paced.relax()
    assert paced.ceiling == 16
