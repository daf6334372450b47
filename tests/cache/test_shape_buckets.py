"""Sizes are rounded up to buckets: never below the need, and the same whoever asks."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cache import slot_plan
from paceline.cache.shape_buckets import EXACT, GPU, ShapeBuckets
from paceline.cache.slot_plan import STEP, capacity

SIZES = st.lists(st.integers(1, 100), min_size=1, max_size=6, unique=True).map(lambda sizes: tuple(sorted(sizes)))
NEED = st.integers(0, 5000)


def test_the_table_needs_no_mlx() -> None:
    code = "import sys, paceline.cache.shape_buckets; sys.exit(any(n.split('.')[0] == 'mlx' for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(sizes=SIZES, need=NEED)
def test_a_bucket_holds_its_need_and_is_its_own_bucket(sizes: tuple[int, ...], need: int) -> None:
    table = ShapeBuckets(rows=sizes, widths=sizes, prompts=sizes)
    for bucket in (table.row_count, table.width, table.prompt_count):
        assert bucket(need) >= need
        assert bucket(bucket(need)) == bucket(need)
        assert bucket(need) <= bucket(need + 1)
        assert bucket(need) in sizes or bucket(need) % sizes[-1] == 0


@given(sizes=SIZES, need=st.integers(1, 5000))
def test_no_smaller_bucket_would_do(sizes: tuple[int, ...], need: int) -> None:
    bucket = ShapeBuckets(widths=sizes).width(need)
    multiples = [size * sizes[-1] for size in range(1, need // sizes[-1] + 2)]
    assert bucket == min(size for size in (*sizes, *multiples) if size >= need)


@given(sizes=SIZES, tokens=st.integers(0, 5000))
def test_within_is_the_largest_width_that_a_budget_allows(sizes: tuple[int, ...], tokens: int) -> None:
    table = ShapeBuckets(widths=sizes)
    found = table.within(tokens)
    assert table.width(found) == found >= sizes[0]
    if tokens >= sizes[0]:
        assert found <= tokens < table.width(found + 1)
    else:  # there is nothing smaller
        assert found == sizes[0]


@given(need=NEED, step=st.integers(1, 300))
def test_exact_sizes_are_the_needs(need: int, step: int) -> None:
    assert EXACT.row_count(need) == EXACT.width(need) == EXACT.prompt_count(need) == EXACT.within(need) == need
    assert EXACT.capacity(need, step) is None


def test_capacities_are_two_per_power_of_two() -> None:
    found = {GPU.capacity(need, 4) for need in range(1, 200)}
    assert found == {4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256}


@given(need=st.integers(0, 200_000), step=st.sampled_from([2, 4, 16, 256]))
def test_a_capacity_holds_its_need_and_wastes_no_more_than_half_of_it(need: int, step: int) -> None:
    size, larger = GPU.capacity(need, step), GPU.capacity(need + 1, step)
    assert size is not None and larger is not None
    assert need <= size <= larger
    assert GPU.capacity(size, step) == size and size % step == 0
    assert size <= max(2 * step, 3 * need // 2 + step)


@pytest.mark.parametrize("window", [None, 1, 5, 100, 512, 4096])
@given(need=st.integers(1, 20_000))
def test_a_buffer_with_buckets_is_never_smaller_than_its_need_and_never_shrinks_with_it(
    window: int | None, need: int
) -> None:
    size = capacity(window, need, GPU)
    assert size >= need and size % STEP == 0
    assert size <= capacity(window, need + 1, GPU)


@given(window=st.integers(1, 5000), need=st.integers(1, 6000))
def test_a_window_that_is_decoded_has_the_same_slots_with_and_without_buckets_in_the_end(
    window: int, need: int
) -> None:
    kept = window + slot_plan.MARGIN
    assert capacity(window, kept, GPU) == capacity(window, kept)
    if need <= kept:
        assert capacity(window, need, GPU) <= capacity(window, kept)


def test_the_gpus_sizes_rise_and_begin_with_one_row_and_one_prompt() -> None:
    for sizes in (GPU.rows, GPU.widths, GPU.prompts):
        assert list(sizes) == sorted(set(sizes))
    assert GPU.rows[0] == GPU.prompts[0] == 1  # a new group has one row, and a long prompt a pass of its own


def test_a_draft_takes_the_next_length_and_none_stays_none() -> None:
    assert [GPU.draft_length(length) for length in (0, 1, 2, 3, 4, 5, 6, 8)] == [0, 1, 2, 3, 5, 5, 8, 8]
    assert [EXACT.draft_length(length) for length in (0, 4)] == [0, 4]
