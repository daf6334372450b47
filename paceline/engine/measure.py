"""Read a model's price list off the model itself: run a little, and look at what it holds. On the engine's thread."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import mlx.core as mx
from PIL import Image as PictureFile

from paceline.cache.batch import Batch
from paceline.cache.layers import AttentionCache, StateCache
from paceline.cache.memory_model import AttentionCost, MemoryModel
from paceline.conversation.detokenize import ByteDetokenizer
from paceline.conversation.text import TextStream
from paceline.engine.row import Row
from paceline.engine.runner import Runner
from paceline.models.vision import Vision
from paceline.types import Image, Prompt, RequestId, Sampling

log = logging.getLogger("paceline")
CHUNK = 128  # tokens of each chunk that is measured
CHUNKS = 4
LOGITS = 8  # float32 copies of a token's logits that sampling makes at most
PICTURES = (224, 448)  # sides of the pictures that are measured, in pixels


def measure(runner: Runner, *, head: bool = True) -> MemoryModel:
    """What rows, chunks and pictures cost with this model, on this machine. `head`: its MTP head, if it has one, reads
    the prompts."""
    row = Row(
        RequestId("measure"),
        Prompt((0,) * (CHUNK * CHUNKS + 1), cached=False),
        Sampling(),
        1,
        TextStream(ByteDetokenizer(lambda token: b"")),
        lambda delta: None,
    )
    row.feeds = head and runner.drafter is not None
    peaks = []
    for _ in range(CHUNKS):
        before = row.prefilled
        peaks.append((before, _peak(lambda: mx.eval(runner.prefill(row, CHUNK)))))
    assert row.batch is not None
    held = [row.batch] if row.head is None else [row.batch, row.head]
    pair, token = _line([((before + CHUNK), peak / CHUNK) for before, peak in peaks])
    patch, tower_patch, tower_pair = _pictures(runner)
    return MemoryModel(
        attention=_attention(held),
        state=sum(_bytes(cache) for batch in held for cache in batch.flat if isinstance(cache, StateCache)),
        chunk_token=token,
        chunk_pair=pair,
        decode_token=token + LOGITS * 4 * runner.language.vocab_size,
        patch=patch,
        tower_patch=tower_patch,
        tower_pair=tower_pair,
        grouping=runner.grouping,
    )


def _attention(batches: Sequence[Batch]) -> tuple[AttentionCost, ...]:
    tokens: dict[int | None, int] = defaultdict(int)
    layers: dict[int | None, int] = defaultdict(int)
    for batch in batches:
        for cache in batch.flat:
            if isinstance(cache, AttentionCache) and cache.keys:
                tokens[cache.slot_plan.window] += _bytes(cache) // cache.slot_plan.groups[0].capacity
                layers[cache.slot_plan.window] += 1
    return tuple(AttentionCost(window, token, layers[window]) for window, token in tokens.items())


def _bytes(cache: AttentionCache | StateCache) -> int:
    return sum(array.nbytes for array in cache.arrays())


def _pictures(runner: Runner) -> tuple[float, float, float]:
    """Bytes for each patch that stay, and that the tower takes: for each patch, and for each pair."""
    vision = runner.model.vision
    if vision is None:
        return 0.0, 0.0, 0.0
    points, kept = [], 0.0
    for side in PICTURES:
        image = vision.preprocess(PictureFile.new("RGB", (side, side)))
        size = image.grid[0] * image.grid[1] * image.grid[2]
        features: list[mx.array] = []

        peak = _peak(partial(_encode, vision, image, features))
        kept = max(kept, features[0].nbytes / size)
        points.append((size, peak / size))
    pair, patch = _line(points)
    return kept, patch, pair


def _encode(vision: Vision, image: Image, features: list[mx.array]) -> None:
    features.append(vision.encode(image))
    mx.eval(features)


def _peak(work: Callable[[], object]) -> int:
    """Bytes that MLX held at most while this ran, beyond what it held before."""
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    work()
    return max(mx.get_peak_memory() - before, 0)


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Slope and height of a line that runs through no point's underside: first and last point tell its slope."""
    (x0, y0), (x1, y1) = points[0], points[-1]
    slope = max((y1 - y0) / (x1 - x0), 0.0) if x1 != x0 else 0.0
    return slope, max(max(y - slope * x for x, y in points), 0.0)
