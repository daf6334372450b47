"""What is wrapped in a language model at load, and what its layers remember.

The module stays mlx-lm's own, used through its cache protocol. Wrapped, per family, with a contract test each:
RoPE (explicit positions), GatedDeltaNet (chunked prefill), the attention call (rows in several buffers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache, make_prompt_cache
from mlx_lm.models.qwen3_5 import GatedDeltaNet
from mlx_lm.models.rope_utils import DynamicNTKScalingRoPE, YarnRoPE

from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.grouping import Grouping
from paceline.errors import LoadError
from paceline.models import attention, gated_delta_cuda
from paceline.models.gated_delta import RowGatedDelta
from paceline.models.positions import DynamicRoPE, PositionedRoPE

MROPE_FAMILIES = ("qwen3_5", "qwen3_5_moe")


@dataclass(slots=True)
class Adapted:
    """A language model ready for rows: `module(tokens, cache=batch.layers)` gives logits."""

    module: nn.Module
    plans: tuple[LayerPlan, ...]
    dynamic_rope: bool  # positions must be explicit, with the reach of every token
    vocab_size: int

    def use_kernels(self, on: bool) -> bool:
        """Switch our own kernels on or off; returns whether that changed anything."""
        changed = False
        for _, part in self.module.named_modules():
            if isinstance(part, RowGatedDelta) and gated_delta_cuda.fits(part.head_k_dim) and part.fused != on:
                part.fused = on
                changed = True
        return changed

    def batch(self, grouping: Grouping, rows: int = 1) -> Batch:
        return Batch(self.plans, grouping, rows)

    def embed(self, tokens: mx.array) -> mx.array:
        """Token embeddings, for rows whose pictures' features take the place of some."""
        inner = getattr(self.module, "language_model", self.module)
        return inner.model.embed_tokens(tokens)


def adapt(module: nn.Module, config: dict[str, Any]) -> Adapted:
    plans = tuple(_plan(cache, config["model_type"]) for cache in make_prompt_cache(module))
    sections = None
    if config["model_type"] in MROPE_FAMILIES:
        text = config.get("text_config", config)
        sections = (text.get("rope_parameters") or {}).get("mrope_section")
    dynamic = False
    for _, part in module.named_modules():
        if type(part) is GatedDeltaNet:
            part.__class__ = RowGatedDelta
        rope = part.get("rope") if isinstance(part, dict) else None
        if isinstance(rope, DynamicNTKScalingRoPE):
            part.rope = DynamicRoPE(rope)
            dynamic = True
        elif sections is not None and type(rope) in (nn.RoPE, YarnRoPE):
            part.rope = PositionedRoPE(rope, sections)
    attention.install()
    adapted = Adapted(module, plans, dynamic, _vocab_size(config))
    adapted.use_kernels(True)
    return adapted


def _plan(cache: Any, family: str) -> LayerPlan:
    """The row form of one of the model's own caches; a kind we have none for is refused here."""
    if type(cache) is KVCache:
        return LayerPlan("attention")
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return LayerPlan("attention", window=cache.max_size)
    if type(cache) is ArraysCache:
        return LayerPlan("state", size=len(cache.cache))
    if type(cache) is CacheList:
        return LayerPlan("list", parts=tuple(_plan(part, family) for part in cache.caches))
    raise LoadError(
        f"{family} keeps its context in a {type(cache).__name__}, which Paceline cannot batch yet. "
        "It would give wrong answers, so it is not served."
    )


def _vocab_size(config: dict[str, Any]) -> int:
    text = config.get("text_config") or {}
    return int(text.get("vocab_size") or config.get("vocab_size") or 1000)  # the start-up check corrects it
