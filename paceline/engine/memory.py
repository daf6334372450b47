"""Memory at start-up: the budget, the prefix cache that the settings ask for, and the profile of a model.

The profile is read off the model: run a little, and see what MLX holds. On the engine's thread.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
from PIL import Image as PictureFile

from paceline import platform
from paceline.cache.batch import Batch
from paceline.cache.budget import Budget
from paceline.cache.disk import Disk
from paceline.cache.disk_summary import clear, summaries
from paceline.cache.layers import AttentionCache, StateCache
from paceline.cache.memory_model import AttentionCost, MemoryModel
from paceline.cache.prefix import PrefixCache
from paceline.cache.stacking import Shapes, allocate, shapes
from paceline.cache.tier import DiskTier
from paceline.engine.checkpoints import CHEAP, Worth
from paceline.engine.prefix_manager import PrefixManager
from paceline.engine.prompt_runner import slots_of
from paceline.engine.runner import Runner
from paceline.engine.sampler import Sampler
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.errors import LoadError
from paceline.host_memory import RequestMemory
from paceline.models.adapter import Adapted, flat_plans
from paceline.models.files import fingerprint
from paceline.models.vision import Vision
from paceline.types import Lora, Media, Prompt, RequestId, Sampling

if TYPE_CHECKING:
    from paceline.settings import Settings

log = logging.getLogger("paceline")
BUFFERS = 0.4  # of those that Metal allows, for cached prefixes
HEADROOM = 0.1  # of the memory, for what is not modelled: MLX's buffer cache, copies while buffers grow
DENSE_SHARE = 2 / 3  # of what may be used, for dequantized weights: the rest is for sequences and prefixes
POOL = 0.5  # of the headroom, for MLX's cache of freed buffers


def budget_for(settings: Settings, weights: int) -> Budget:
    """The memory that may be used with a model of this many bytes loaded. Raises LoadError."""
    budget = _whole_budget(settings)
    limit, headroom = budget.limit, budget.headroom
    budget.hold("weights", weights)
    if budget.usable <= weights:
        raise LoadError(
            f"The model's weights take {weights / 1e9:.2f} GB, and {limit / 1e9:.2f} GB may be used, of which "
            f"{headroom / 1e9:.2f} GB stay free. Use a smaller model, or raise --memory-limit-gb."
        )
    return budget


def dequantize_within(settings: Settings, held: int = 0) -> int | None:
    """Bytes that dense weights may take beside `held` bytes of others. None: quantized weights stay as they are."""
    if settings.dequantize == "off" or platform.device_kind() != "cpu":
        return None
    return max(int(_whole_budget(settings).usable * DENSE_SHARE) - held, 0)


def _whole_budget(settings: Settings) -> Budget:
    kind = platform.device_kind()
    if settings.memory_limit_gb is not None:
        limit = int(settings.memory_limit_gb * 1e9)
    else:
        limit = platform.memory_limit(kind).bytes
        if kind != "metal":  # they report what is free now
            limit += mx.get_active_memory() + mx.get_cache_memory()
    asked = settings.scheduler_headroom_gb
    return Budget(limit, int(limit * HEADROOM) if asked is None else int(asked * 1e9))


def limit_mlx(budget: Budget) -> tuple[int, int]:
    """Set MLX's memory and cache limits; returns the limits before."""
    return mx.set_memory_limit(budget.limit), mx.set_cache_limit(int(budget.headroom * POOL))


def free() -> None:
    """Give back what MLX holds for this thread, at its end."""
    gc.collect()
    mx.clear_cache()
    mx.clear_streams()  # left to the interpreter's exit, they abort the process


def request_memory(settings: Settings, budget: Budget, wake: Callable[[], None]) -> RequestMemory:
    """Host memory for requests. Beside a GPU with memory of its own it has a budget of its own."""
    if platform.device_kind() == "cuda":
        return RequestMemory.apart(platform.memory_limit("cpu").bytes, settings.queue_timeout)
    return RequestMemory.of(budget, wake, settings.queue_timeout)


def most_prefixes(language: Adapted) -> int | None:
    """How many prefixes may be held, whatever their size: Metal limits the number of buffers, and a prefix has some for
    every layer. None: there is no limit."""
    buffers = platform.device_info().get("resource_limit") if platform.device_kind() == "metal" else None
    if not isinstance(buffers, int):
        return None
    layers, arrays = len(list(flat_plans(language.plans))), 2 if language.kv is None else 2 + language.kv.arrays
    return max(int(buffers * BUFFERS) // (layers * arrays), 1)


def build_prefix_manager(
    settings: Settings,
    runner: Runner,
    budget: Budget,
    name: str,
    wake: Callable[[], None],
    overhead: Callable[[], int],
) -> PrefixManager | None:
    """None: disabled by the settings. Raises DiskError if the folder cannot be used. `overhead`: of a pass, in prompt
    tokens (`overhead_tokens`)."""
    if not settings.prefix_cache:
        log.info("prefix cache off: the server is set so")
        return None
    if settings.cache_memory_gb is None:
        most = budget.room("prefixes") // 2
    else:
        most = int(settings.cache_memory_gb * 1e9)
    cache = PrefixCache(lambda: min(most, budget.room("prefixes")), most_entries=most_prefixes(runner.language))
    tier = None
    if settings.cache_dir is not None:
        tier = DiskTier(cache, _disk(settings.cache_dir, settings.cache_disk_gb, runner, name, wake))
    feeds_head = settings.speculation != "off" and "mtp" in settings.draft_methods
    worth = CHEAP
    if runner.grouping.buckets.widths and not runner.language.dynamic_rope:
        worth = Worth.where_passes_split(overhead())
    manager = PrefixManager(cache, runner, feeds_head=feeds_head, disk=tier, budget=budget, worth=worth)
    if tier is not None:
        try:
            log.info("%d cached prefixes found in %s", tier.open(), settings.cache_dir)
        except BaseException:
            manager.close()  # or the folder would stay locked
            raise
    log.info("prefix cache on: up to %.2f GB of memory", cache.limit() / 1e9)
    if worth is not CHEAP:
        log.info("prefixes of %d tokens or more are stored, %d apart", worth.stored, worth.apart)
    return manager


def _disk(folder: Path, gigabytes: float, runner: Runner, name: str, wake: Callable[[], None]) -> Disk:
    """This model's share of the folder. Other models keep up to half of it, the latest ones."""
    dtype = str(runner.language.dtype)
    head = "head" if runner.drafter is not None else "no head"
    quantization = runner.model.quantization
    dense = ("dequantized",) if quantization is not None and quantization.dense is not None else ()
    kv = () if runner.language.kv is None else (f"keys and values of {runner.language.kv}",)
    mine = fingerprint(runner.model.folder, "prefixes 1", dtype, head, *dense, *kv)
    limit = int(gigabytes * 1e9)
    others = [other for other in summaries(folder) if other.fingerprint != mine] if folder.is_dir() else []
    others.sort(key=lambda other: other.last_used)
    taken = sum(other.bytes for other in others)
    for other in others:
        if taken > limit // 2 and not other.in_use:
            log.info("cached prefixes of %s (%.2f GB) make room", other.model, other.bytes / 1e9)
            clear(folder, other.fingerprint)
            taken -= other.bytes
    return Disk(folder, mine, max(limit - taken, limit // 2), name, on_done=wake)


CHUNK = 128  # tokens of each chunk that is measured
CHUNKS = 4
DECODED = (128, 512)  # tokens of the rows whose decode steps are measured
DECODING = 4  # rows of each
SAMPLED = Sampling(temperature=1.0, top_k=20, top_p=0.95, seed=0)  # most filters need a sort: the usual one
IMAGE_SIDES = (224, 448)  # sides of the images that are measured, in pixels
AUDIO_SECONDS = (1, 4)  # of the recordings that are measured


def profile_memory(runner: Runner, *, head: bool = True) -> MemoryModel:
    """Measure what sequences, chunks and media cost with this model, on this machine. `head`: its MTP head reads
    prompts."""
    adapter = next(iter(runner.language.loras.loaded), None)  # its passes need a little more
    prompt = Prompt((0,) * (CHUNK * CHUNKS + 1), cached=False, lora=adapter)
    seq = _sequence(prompt)
    seq.draft.mtp_prefill = head and runner.drafter is not None
    peaks = []
    for _ in range(CHUNKS):
        before = seq.computed.tokens
        peaks.append((before, _peak(lambda: mx.eval(runner.prefill(seq, CHUNK)))))
    assert seq.computed.batch is not None
    held = [seq.computed.batch] if seq.draft.batch is None else [seq.computed.batch, seq.draft.batch]
    attention = _attention(held)
    pair, token = _line([((before + CHUNK), peak / CHUNK) for before, peak in peaks])
    dense = max((layer.dense for layer in attention if layer.window is None), default=0)
    pair = max(pair - dense / CHUNK, 0.0)  # the memory model counts it apart
    decode_pair, decode_token = _profile_decoding(runner, shapes(seq.computed.batch), adapter)
    media_byte, encode_byte, encode_pair = _profile_media(runner)
    return MemoryModel(
        attention=attention,
        state=sum(_bytes(cache) for batch in held for cache in batch.flat if isinstance(cache, StateCache)),
        chunk_token=token,
        chunk_pair=pair,
        decode_token=decode_token,
        decode_pair=decode_pair,
        media_byte=media_byte,
        encode_byte=encode_byte,
        encode_pair=encode_pair,
        grouping=runner.grouping,
    )


def _sequence(prompt: Prompt, sampling: Sampling | None = None) -> Sequence:
    return Sequence.silent(EngineRequest(RequestId("measure"), prompt, sampling or Sampling(), 1))


class DecodeTrial:
    """Rows of so many tokens that decode and sample as the engine does. Nothing is prefilled: what buffers hold does
    not matter."""

    def __init__(self, runner: Runner, like: Shapes, adapter: Lora | None = None) -> None:
        self.language, self.grouping = runner.language, runner.grouping
        self.like = like
        self.adapter = adapter

    def rows(self, count: int, tokens: int) -> Batch:
        """So many rows that lack one token of `tokens`."""
        padded = self.grouping.buckets.row_count(count)
        batch = self.language.batch(self.grouping, padded)
        batch.active = [place < count for place in range(padded)]
        batch.reserve(tokens)
        allocate(batch, self.like)
        batch.lengths = [tokens - 1 if active else 0 for active in batch.active]
        batch.trim()
        batch.evaluate()
        return batch

    def step(self, batch: Batch) -> mx.array:
        """Launch a step; returns its tokens."""
        sampler = Sampler(self.language.vocab_size)
        seqs = [_sequence(Prompt((0,), lora=self.adapter), SAMPLED) if active else None for active in batch.active]
        sampler.arrange(seqs)
        batch.begin(1)
        with self.language.loras.reading(slots_of(seqs)):
            logits = self.language.module(mx.zeros((batch.rows, 1), dtype=mx.int32), cache=batch.layers)
        tokens = sampler(logits[:, -1]).tokens
        batch.commit()
        mx.async_eval(tokens, batch.arrays())
        return tokens


def _profile_decoding(runner: Runner, like: Shapes, adapter: Lora | None) -> tuple[float, float]:
    """Bytes of a row's decode step, per pair of its token and one before it, and for itself. Dequantized keys and
    values are counted apart."""
    trial, points = DecodeTrial(runner, like, adapter), []
    for tokens in DECODED:
        batch = trial.rows(DECODING, tokens)
        points.append((tokens, _peak(lambda batch=batch: mx.eval(trial.step(batch))) / batch.rows))  # type: ignore[misc]
    return _line(points)


def _attention(batches: Collection[Batch]) -> tuple[AttentionCost, ...]:
    costs: dict[int | None, AttentionCost] = {}
    for batch in batches:
        for cache in batch.flat:
            if isinstance(cache, AttentionCache) and cache.filled:
                window = cache.slot_plan.window
                token, exact = cache.slot_bytes
                known = costs.get(window, AttentionCost(window, 0))
                costs[window] = AttentionCost(
                    window,
                    known.token + token,
                    known.layers + 1,
                    max(known.dense, cache.dense_bytes),
                    known.exact + exact,
                    cache.exact,
                )
    return tuple(costs.values())


def _bytes(cache: AttentionCache | StateCache) -> int:
    return sum(array.nbytes for array in cache.arrays())


def _profile_media(runner: Runner) -> tuple[float, float, float]:
    """Bytes of features per byte of inputs; and that the tower needs, per byte of inputs and per pair of them."""
    vision = runner.model.vision
    if vision is None:
        return 0.0, 0.0, 0.0
    found = [_profile(vision, [vision.preprocess(PictureFile.new("RGB", (side, side))) for side in IMAGE_SIDES])]
    if (audio := vision.audio_processor) is not None:
        lengths = [int(audio.rate * seconds) for seconds in AUDIO_SECONDS]
        found.append(_profile(vision, [audio.preprocess(np.zeros(length, np.float32)) for length in lengths]))
    kept, single, pair = (max(values) for values in zip(*found, strict=True))
    return kept, single, pair


def _profile(vision: Vision, media: Collection[Media]) -> tuple[float, float, float]:
    points, kept = [], 0.0
    for medium in media:
        features: list[mx.array] = []
        peak = _peak(partial(_encode, vision, medium, features))
        kept = max(kept, features[0].nbytes / medium.cost)
        points.append((medium.cost, peak / medium.cost))
    pair, single = _line(points)
    return kept, single, pair


def _encode(vision: Vision, medium: Media, features: list[mx.array]) -> None:
    features.append(vision.encode(medium))
    mx.eval(features)


def _peak(work: Callable[[], object]) -> int:
    """Peak bytes of MLX while this ran, beyond what it held before."""
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    work()
    return max(mx.get_peak_memory() - before, 0)


def _line(points: Collection[tuple[float, float]]) -> tuple[float, float]:
    """Slope and height of a line above all points, with the slope between the first and the last."""
    (x0, y0), *_, (x1, y1) = points
    slope = max((y1 - y0) / (x1 - x0), 0.0) if x1 != x0 else 0.0
    return slope, max(max(y - slope * x for x, y in points), 0.0)
