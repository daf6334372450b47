"""The automatic prefill chunk is the same on a busy machine as on an idle one, and warm passes decide on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from paceline.cache.slot_plan import SIMILAR
from paceline.models.prefill_chunk import (
    DYNAMIC,
    FAR_OFF,
    MAX_OVERHEAD,
    TRIES,
    WIDTH,
    count_token_seconds,
    cpu_token_seconds,
    gpu_token_seconds,
    largest_chunk,
    overhead_tokens,
    prefill_chunk,
)
from tests import synthetic
from tests.engine.stepper import loaded

Tiny = Callable[..., Path]
TARGET = 0.25
COUNTED = 0.001  # seconds per token


class Machine:
    """Clocks that a pass moves: `wall` and `cpu` are seconds of each pass, the last one's for all that follow."""

    def __init__(self, wall: Sequence[float], cpu: Sequence[float] = ()) -> None:
        self.wall, self.cpu, self.passes = wall, cpu or wall, 0
        self.now = self.used = 0.0

    def run(self, width: int) -> None:
        self.now += self.wall[min(self.passes, len(self.wall) - 1)]
        self.used += self.cpu[min(self.passes, len(self.cpu) - 1)]
        self.passes += 1

    def token_seconds(self, counted: float = COUNTED) -> float:
        return cpu_token_seconds(counted, self.run, TARGET, lambda: self.now, lambda: self.used)


class Gpu:
    """A pass takes `launch` seconds and `token` seconds for each token; the first of a width also `compiling`."""

    def __init__(self, launch: float, token: float, compiling: float = 5.0) -> None:
        self.launch, self.token, self.compiling = launch, token, compiling
        self.now, self.widths = 0.0, list[int]()

    def run(self, width: int) -> None:
        self.now += self.launch + self.token * width + (0 if width in self.widths else self.compiling)
        self.widths.append(width)

    def chunk(self, most: int = 2048) -> int:
        return largest_chunk(gpu_token_seconds(self.run, TARGET, most, lambda: self.now), TARGET, most)


@pytest.mark.parametrize("slower", [0.3, 0.7, 1.0, 1.5, 2.0, 3.9])
def test_a_busy_or_a_faster_machine_gets_the_counted_chunk(slower: float) -> None:
    machine = Machine([COUNTED * WIDTH * slower])
    assert machine.token_seconds() == COUNTED
    assert machine.passes == 1


def test_time_that_other_processes_took_does_not_count() -> None:
    machine = Machine(wall=[COUNTED * WIDTH * 20], cpu=[COUNTED * WIDTH * 1.5])
    assert machine.token_seconds() == COUNTED


def test_threads_that_spin_do_not_count() -> None:
    machine = Machine(wall=[COUNTED * WIDTH], cpu=[COUNTED * WIDTH * 64])
    assert machine.token_seconds() == COUNTED


def test_one_quick_pass_among_slow_ones_decides() -> None:
    machine = Machine([COUNTED * WIDTH * slower for slower in (9, 7, 2)])
    assert machine.token_seconds() == COUNTED
    assert machine.passes == 3


@pytest.mark.parametrize("factor", [FAR_OFF * 3, 1 / FAR_OFF / 3])
def test_a_count_that_is_far_off_is_overruled(factor: float) -> None:
    machine = Machine([COUNTED * WIDTH * factor])
    assert machine.token_seconds() == pytest.approx(COUNTED * factor)
    assert machine.passes == TRIES


def test_a_model_that_is_far_too_large_is_not_timed() -> None:
    machine = Machine([100.0])
    assert largest_chunk(machine.token_seconds(counted=0.1), TARGET, 2048) == 64
    assert machine.passes == 0


def test_more_cores_and_fewer_weights_count_as_faster(tiny: Tiny) -> None:
    small, large = (loaded(tiny("llama", hidden=hidden)).language for hidden in (64, 256))
    assert count_token_seconds(small, 2) < count_token_seconds(large, 2)
    assert count_token_seconds(large, 8) < count_token_seconds(large, 2)


@pytest.mark.parametrize("slower", [0.5, 1.0, 2.0, 3.0])
def test_the_embedded_models_chunk_on_two_cores_does_not_depend_on_their_load(slower: float) -> None:
    counted = count_token_seconds(loaded("paceline-mini").language, 2)
    machine = Machine([counted * WIDTH * slower])
    assert largest_chunk(machine.token_seconds(counted), TARGET, 2048) == 128


def test_compiling_is_not_timed_on_a_gpu() -> None:
    assert Gpu(launch=0.001, token=0.0001, compiling=60.0).chunk() == 2048


def test_a_gpu_is_not_judged_by_launches() -> None:
    gpu = Gpu(launch=0.12, token=0.00002)  # 128 tokens take half of the target, and so do 2,048
    assert gpu.chunk() == 2048
    assert sorted(set(gpu.widths)) == [128, 512, 2048]


def test_a_slow_gpu_runs_no_wide_passes() -> None:
    gpu = Gpu(launch=0.001, token=0.002)
    assert gpu.chunk() == 64
    assert set(gpu.widths) == {128}


def test_the_widest_pass_decides_on_a_gpu_also_for_larger_chunks() -> None:
    gpu = Gpu(launch=0.001, token=0.00002)
    assert gpu.chunk(most=8192) == 8192
    assert max(gpu.widths) == 2048


def test_no_pass_is_wider_than_the_largest_chunk() -> None:
    gpu = Gpu(launch=0.001, token=0.00002)
    assert gpu.chunk(most=1024) == 1024
    assert max(gpu.widths) == 512


def test_the_overhead_of_a_pass_is_counted_in_tokens() -> None:
    gpu = Gpu(launch=0.0068, token=0.000015)
    assert overhead_tokens(gpu.run, 4096, lambda: gpu.now) == pytest.approx(485, abs=1)
    mac = Gpu(launch=0.02, token=0.001)
    assert overhead_tokens(mac.run, 256, lambda: mac.now) == pytest.approx(52, abs=1)
    assert max(gpu.widths) == 2048 and max(mac.widths) == 256


def test_the_overhead_is_not_counted_in_tokens_that_wait_for_launches() -> None:
    """The device takes 19 us a token; below 760 tokens the launches take longer."""
    now = 0.0

    def run(width: int) -> None:
        nonlocal now
        now += max(0.0145, 19e-6 * width)

    assert overhead_tokens(run, 4096, lambda: now) == pytest.approx(763, abs=1)


def test_a_pause_while_the_overhead_is_timed_does_not_turn_the_prefix_cache_off() -> None:
    gpu = Gpu(launch=0.5, token=0.0)
    assert overhead_tokens(gpu.run, 4096, lambda: gpu.now) == MAX_OVERHEAD


def test_a_dynamic_rope_has_a_fixed_chunk(tiny: Tiny) -> None:
    model = loaded(tiny("llama", **synthetic.scaled_rope("dynamic"))).language
    assert prefill_chunk(model, SIMILAR) == DYNAMIC
