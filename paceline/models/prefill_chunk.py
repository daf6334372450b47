"""The automatic prefill chunk: how many prompt tokens a step may take without a long pause for running streams.

On a GPU passes are timed. On a CPU, other processes make a pass several times slower, so timing alone gives another
chunk at every start. There the time is counted, from the model's size and the number of cores, and a timed pass
overrules a count only if that is far off (no BLAS, a quantized model, experts). While streams run,
`engine/prefill_budget` adapts to real steps in any case.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import mlx.core as mx
from mlx.utils import tree_flatten

from paceline import platform
from paceline.cache.slot_plan import Grouping
from paceline.models.adapter import Adapted

Run = Callable[[int], None]  # a pass over so many prompt tokens
Clock = Callable[[], float]

TARGET = 0.25  # seconds
SMALLEST, LARGEST, LARGEST_GPU = 64, 2048, 4096  # tokens
DYNAMIC = 256  # for dynamic RoPE, whose passes depend on the prompt's length
CORE_RATE = 30e9  # float32 operations per second of a core, with an optimised BLAS
LAYER_SECONDS = 75e-6  # per token and layer, for what BLAS does not do
FAR_OFF = 4.0  # a count is overruled by a pass that is faster or slower by this factor
WIDTH = 128  # tokens of the first pass that is timed
WIDEST = 2048
WIDER = 4  # times the width of the pass before
TRIES = 3
MAX_OVERHEAD = 1024  # tokens: a pause while it is timed must not keep all prompts from being stored


def prefill_chunk(model: Adapted, grouping: Grouping, target: float = TARGET, most: int | None = None) -> int:
    """The largest power of two of prompt tokens, 64 to `most`, that takes at most about `target` seconds."""
    if model.dynamic_rope:
        return DYNAMIC
    run = partial(_run, model, grouping)
    most = most or largest()
    if platform.device_kind() == "cpu":
        seconds = cpu_token_seconds(count_token_seconds(model, platform.usable_cpus()), run, target)
    else:
        seconds = gpu_token_seconds(run, target, most)
    return largest_chunk(seconds, target, most)


def largest() -> int:
    """The most prompt tokens of an automatic chunk on this device."""
    return LARGEST if platform.device_kind() == "cpu" else LARGEST_GPU


def largest_chunk(token_seconds: float, target: float, most: int) -> int:
    chunk = SMALLEST
    while chunk < most and 2 * chunk * token_seconds <= target:
        chunk *= 2
    return chunk


def count_token_seconds(model: Adapted, cores: int) -> float:
    """What a prompt token takes on a CPU that does nothing else. All experts count: their products are slow."""
    layers = model.module.layers
    weights = sum(array.size for layer in layers for _, array in tree_flatten(layer.parameters()))
    return 2 * weights / (CORE_RATE * cores) + LAYER_SECONDS * len(layers)


def cpu_token_seconds(
    counted: float, run: Run, target: float, wall: Clock = time.perf_counter, cpu: Clock = time.process_time
) -> float:
    """The counted time, unless the fastest of a few passes shows that it is far off."""
    if largest_chunk(counted / FAR_OFF, target, LARGEST) == SMALLEST:  # whatever a pass would show
        return counted
    best = float("inf")
    for _ in range(TRIES):
        begun = wall(), cpu()
        run(WIDTH)
        # Of all threads together: not less than the pass takes on idle cores, and time of other processes is not in it.
        best = min(best, (wall() - begun[0]) / WIDTH, (cpu() - begun[1]) / WIDTH)
        if counted / FAR_OFF < best < counted * FAR_OFF:
            return counted
    return best


def gpu_token_seconds(run: Run, target: float, most: int, wall: Clock = time.perf_counter) -> float:
    """By warm passes, each wider than the one before while they are quick: a narrow one mostly launches kernels."""
    width = WIDTH
    while True:
        best = _quickest(run, width, wall)
        if best > target or width * WIDER > min(most, WIDEST):
            return best / width
        width *= WIDER


def overhead_tokens(run: Run, chunk: int, wall: Clock = time.perf_counter) -> int:
    """A pass of few tokens takes as long as so many tokens more in a wide one.

    What a token takes shows between passes that keep the device busy: in narrow ones it waits for launches.
    """
    wide = max(min(chunk, WIDEST), 2 * WIDTH)
    few, half, whole = (_quickest(run, width, wall) for width in (WIDTH // 4, wide // 2, wide))
    token = max(whole - half, 1e-9) / (wide - wide // 2)
    return min(int(few / token), MAX_OVERHEAD)


def _quickest(run: Run, width: int, wall: Clock) -> float:
    """The time of a warm pass."""
    run(width)  # compiles
    best = float("inf")
    for _ in range(TRIES):
        begun = wall()
        run(width)
        best = min(best, wall() - begun)
    return best


def _run(model: Adapted, grouping: Grouping, width: int) -> None:
    row = model.batch(grouping)
    row.begin(width)
    model.module(mx.zeros((1, width), dtype=mx.int32), cache=row.layers)
    row.commit()
    mx.eval(row.arrays())
