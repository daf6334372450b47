"""How many slots a buffer gets."""

from __future__ import annotations

import itertools

import pytest

from paceline.cache.slots import MARGIN, STEP, capacity


@pytest.mark.parametrize(
    ("need", "slots"), [(1, 256), (256, 256), (257, 512), (2047, 2048), (2049, 2304), (5000, 5120)]
)
def test_buffers_grow_in_steps(need: int, slots: int) -> None:
    assert capacity(None, need) == slots


def test_long_buffers_grow_in_eighths() -> None:
    sizes = sorted({capacity(None, need) for need in range(1, 100_000, 50)})
    assert all(STEP <= later - size <= max(STEP, later // 8 + STEP) for size, later in itertools.pairwise(sizes))


@pytest.mark.parametrize("window", [None, 24, 512, 4096])
def test_there_is_room_for_what_is_needed_and_more_need_never_gets_less(window: int | None) -> None:
    sizes = [capacity(window, need) for need in range(1, 6000)]
    assert all(size >= need for need, size in enumerate(sizes, 1))
    assert all(later >= size for size, later in itertools.pairwise(sizes))


def test_a_window_has_room_for_a_step_before_its_next_shift_and_no_more() -> None:
    assert capacity(512, 512 + MARGIN) >= 512 + MARGIN + STEP
    assert capacity(512, 512 + MARGIN) < 512 + MARGIN + 2 * STEP


def test_a_windows_buffer_has_few_sizes() -> None:
    assert {capacity(512, need) for need in range(1, 1025)} == {256, 512, 1024}
    assert {capacity(24, need) for need in range(1, 300)} == {512}
    assert (capacity(512, 512), capacity(512, 513)) == (512, 1024)
