"""What is wrapped in a language model at load, and the cache plan of each of its layers.

The module stays mlx-lm's own, used through its cache protocol. Wrapped, per family, with a contract test each:
RoPE (explicit position ids), GatedDeltaNet (chunked prefill, steps that can be rolled back), other recurrent layers
(steps that can be rolled back, padding), the attention call (rows in several buffers), and on CUDA linear layers (few
rows), attention layers (norms and RoPE of heads) and decoder layers (sums and norms).

mlx-lm's models call `scaled_dot_product_attention` by a name in their own module. `install_attention` puts
`batched_attention` under that name; calls with any other cache go on to the library unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.models import base
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache, make_prompt_cache
from mlx_lm.models.qwen3_5 import GatedDeltaNet
from mlx_lm.models.qwen3_next import Qwen3NextGatedDeltaNet
from mlx_lm.models.rope_utils import DynamicNTKScalingRoPE, YarnRoPE

from paceline import platform
from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.kv_quantization import KVQuantization, Quantized, dense
from paceline.cache.layers import AttentionCache, KeysOrValues, RaggedMask
from paceline.cache.shape_buckets import GPU, ShapeBuckets
from paceline.cache.slot_plan import Grouping
from paceline.errors import LoadError
from paceline.models import attention_cpu, attention_cuda, gated_delta_cuda, linear_cuda, qk_norm_rope_cuda, residual
from paceline.models.gated_delta import RowDelta, RowGatedDelta, RowGatedDeltaNext
from paceline.models.inlets import Inlets
from paceline.models.linear_cuda import ROW_MLPS, RowLinear
from paceline.models.lora import Loras
from paceline.models.positions import DynamicRoPE, MRoPE, PositionIdRoPE
from paceline.models.qk_norm_rope_cuda import ROW_ATTENTIONS, RowAttention
from paceline.models.recurrent import ROW_CLASSES, RowState
from paceline.models.residual import ROW_LAYERS, RowLayer
from paceline.models.sharding import whole_logits
from paceline.types import LONGEST_DRAFT, MAX_DRAFTED

MROPE_FAMILIES = ("qwen3_5", "qwen3_5_moe")  # those with an MTP head
INTERLEAVED = ("qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe")  # families that mix the axes of M-RoPE
NEARBY_BLOCK = 2  # times a draft's window: the block of `nearby_attention`
FEW = 8  # queries of a head of quantized keys that are multiplied as they are: for more, dequantizing is faster
ATTENTION = "scaled_dot_product_attention"
library_attention = base.scaled_dot_product_attention


@dataclass(slots=True)
class Adapted:
    """A language model for batches: `module(tokens, cache=batch.layers)` gives logits."""

    module: nn.Module
    plans: tuple[LayerPlan, ...]
    dynamic_rope: bool  # position ids must be explicit, with the reach of every token
    vocab_size: int
    ragged: bool = False  # whether attention runs by our kernel
    kv: KVQuantization | None = None  # how keys and values are quantized
    inlets: Inlets = field(default_factory=Inlets)
    loras: Loras = field(init=False)

    def __post_init__(self) -> None:
        self.loras = Loras(self.module)

    def use_kernels(self, on: bool) -> bool:
        """Switch our kernels on or off. Returns whether that changed anything."""
        ragged, self.ragged = self.ragged, on and bool(mx.cuda.is_available())
        return switch_kernels(self.module, on) or ragged != self.ragged

    @contextmanager
    def plain(self) -> Iterator[None]:
        """Without our kernels: the reference that they are compared with."""
        switched = self.use_kernels(False)
        try:
            yield
        finally:
            if switched:
                self.use_kernels(True)

    @property
    def uses_kernels(self) -> bool:
        return self.ragged or any(getattr(part, "fused", False) for _, part in self.module.named_modules())

    @property
    def longest_draft(self) -> int:
        """Draft tokens that one step can verify. Kernels for recurrent layers take as many as a head drafts."""
        recurrent = any(plan.kind == "state" for plan in flat_plans(self.plans))
        return MAX_DRAFTED if recurrent and self.uses_kernels else LONGEST_DRAFT

    @property
    def skips_tokens(self) -> bool:
        """Whether all layers can leave out some of a step's tokens: padding, and drafts that are rejected."""
        return all(plan.kind == "attention" or plan.apply_accepted is not None for plan in flat_plans(self.plans))

    def batch(self, grouping: Grouping, rows: int = 1) -> Batch:
        return Batch(self.plans, grouping, rows, ragged=self.ragged, kv=self.kv)

    @property
    def inner(self) -> Any:
        """The text model: `model` gives hidden states, with the output head beside it."""
        return getattr(self.module, "language_model", self.module)

    @property
    def dtype(self) -> mx.Dtype:
        """The type that it computes in: that of embeddings, or of the largest weights where those have another name."""
        try:
            return self.embed(mx.array([[0]])).dtype
        except AttributeError:
            weights: Any = tree_flatten(self.module.parameters())
            floating = [array for _, array in weights if mx.issubdtype(array.dtype, mx.floating)]
            return max(floating, key=lambda array: array.size).dtype

    def embed(self, tokens: mx.array) -> mx.array:
        """Token embeddings: for the MTP head, and for prompts in which images' features replace some."""
        return self.inner.model.embed_tokens(tokens)

    @property
    def residual_layers(self) -> int:
        """Before how many layers something of their own is added at media's tokens."""
        return len(self.inlets.residuals)

    def hidden(
        self, tokens: mx.array, cache: Any, embeddings: mx.array | None = None, *residuals: mx.array
    ) -> mx.array:
        """Hidden states after the final norm, for the MTP head and for embeddings.

        Not every family has them (`check.hidden_size`).
        """
        with self.inlets.given(embeddings, residuals) as inputs:
            return self.inner.model(tokens, cache=cache, **inputs)

    def logits_of(
        self, tokens: mx.array, cache: Any, embeddings: mx.array | None = None, *residuals: mx.array
    ) -> mx.array:
        with self.inlets.given(embeddings, residuals) as inputs:
            return self.module(tokens, cache=cache, **inputs)

    def logits(self, hidden: mx.array) -> mx.array:
        inner = self.inner
        return whole_logits(inner)(hidden) if "lm_head" in inner else inner.model.embed_tokens.as_linear(hidden)


def adapt(module: nn.Module, config: dict[str, Any]) -> Adapted:
    plans = tuple(plan_of(cache, config["model_type"]) for cache in make_prompt_cache(module))
    dynamic = wrap_layers(module, config)
    plans = _with_rollback(plans, module)
    install_attention()
    adapted = Adapted(module, plans, dynamic, _vocab_size(config))
    adapted.use_kernels(True)
    return adapted


def buckets_for(language: Adapted) -> ShapeBuckets:
    """The sizes to pad to. Attention and our recurrent layers skip padding in prompts; others would take it for
    tokens."""
    return GPU if language.skips_tokens else replace(GPU, widths=(), prompts=())


def flat_plans(plans: Iterable[LayerPlan]) -> Iterator[LayerPlan]:
    for plan in plans:
        yield from flat_plans(plan.parts) if plan.kind == "list" else (plan,)


def switch_kernels(module: nn.Module, on: bool) -> bool:
    changed = False
    for _, part in module.named_modules():
        if isinstance(part, RowDelta):
            able = gated_delta_cuda.fits(part)
        elif isinstance(part, RowLayer):
            able = residual.fits(part)
        elif isinstance(part, RowAttention):
            able = qk_norm_rope_cuda.fits(part)
        else:
            able = isinstance(part, RowLinear) and linear_cuda.fits(part)
        if able and part.fused != on:
            part.fused = on
            changed = True
    return changed


def wrap_layers(module: nn.Module, config: dict[str, Any]) -> bool:
    """Wrap the parts of a module of this family. Returns whether its RoPE is dynamic."""
    sections = _mrope_sections(config)
    interleaved = config["model_type"] in INTERLEAVED
    dynamic = False
    for _, part in module.named_modules():
        if type(part) is GatedDeltaNet:
            part.__class__ = RowGatedDelta
        elif type(part) is Qwen3NextGatedDeltaNet:
            part.__class__ = RowGatedDeltaNext
        elif type(part) in ROW_CLASSES:
            part.__class__ = ROW_CLASSES[type(part)]
        elif type(part) is nn.Linear and linear_cuda.fits(part):
            part.__class__ = RowLinear
        elif type(part) in ROW_MLPS:
            part.__class__ = ROW_MLPS[type(part)]
        elif type(part) in ROW_LAYERS and residual.fits(part):
            part.__class__ = ROW_LAYERS[type(part)]
        elif type(part) in ROW_ATTENTIONS and qk_norm_rope_cuda.fits(part):
            part.__class__ = ROW_ATTENTIONS[type(part)]
        rope = part.get("rope") if isinstance(part, dict) else None
        if isinstance(rope, DynamicNTKScalingRoPE):
            part.rope = DynamicRoPE(rope)
            dynamic = True
        elif sections is not None and type(rope) in (nn.RoPE, YarnRoPE):
            part.rope = MRoPE(rope, sections, interleaved=interleaved)
    for _, part in module.named_modules():
        linear_cuda.join_siblings(part)
        residual.join_norms(part)
    return dynamic


def _mrope_sections(config: dict[str, Any]) -> list[int] | None:
    """How many pairs of dimensions rotate by time, height and width; None: there is one axis."""
    text = config.get("text_config") or config
    for name in ("rope_parameters", "rope_scaling"):
        sections = (text.get(name) or {}).get("mrope_section")
        if sections and "vision_config" in config:
            return list(sections)
    return None


def stored_quantization(path: str, part: nn.Module, weights: dict[str, mx.array]) -> dict[str, int] | None:
    """How a checkpoint has quantized the part, by the shapes of its tensors; None: it has not."""
    scales = weights.get(f"{path}.scales")
    if scales is None or not hasattr(part, "to_quantized"):
        return None
    inputs = part.weight.shape[-1]
    bits = weights[f"{path}.weight"].shape[-1] * 32 // inputs
    return {"group_size": inputs // scales.shape[-1], "bits": bits}


def accept_position_ids(language: Adapted) -> str | None:
    """Make every RoPE take explicit position ids, for sparse prefill. Returns the reason if that is impossible."""
    if language.dynamic_rope:
        return "its RoPE depends on the prompt's length"
    if any(_windowed(plan) for plan in language.plans):
        return "its layers look back through a window, which counts tokens and not places"
    for _, part in language.module.named_modules():
        rope = part.get("rope") if isinstance(part, dict) else None
        if isinstance(rope, nn.Module) and not isinstance(rope, MRoPE | PositionIdRoPE):
            part.rope = PositionIdRoPE(rope)
    return None


def _windowed(plan: LayerPlan) -> bool:
    return plan.window is not None or any(_windowed(part) for part in plan.parts)


def plan_of(cache: Any, family: str) -> LayerPlan:
    """The batched form of one of the model's caches. Raises LoadError for an unknown kind."""
    if type(cache) is KVCache:
        return LayerPlan("attention")
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return LayerPlan("attention", window=cache.max_size)
    if type(cache) is ArraysCache:
        return LayerPlan("state", size=len(cache.cache))
    if type(cache) is CacheList:
        return LayerPlan("list", parts=tuple(plan_of(part, family) for part in cache.caches))
    raise LoadError(
        f"{family} keeps its context in a {type(cache).__name__}, which Paceline cannot batch yet. "
        "It would give wrong answers, so it is not served."
    )


def _with_rollback(plans: tuple[LayerPlan, ...], module: nn.Module) -> tuple[LayerPlan, ...]:
    """The plans, with states that can accept some of a step's tokens and reject others. A layer without a state may
    have no plan, so states are matched in order; where one has no layer of ours, none has."""
    parts = [part for layer in module.layers for _, part in layer.named_modules() if isinstance(part, RowState)]
    if len(parts) != sum(plan.kind == "state" for plan in flat_plans(plans)):
        return plans
    following = iter(parts)

    def matched(plan: LayerPlan) -> LayerPlan:
        if plan.kind == "list":
            return replace(plan, parts=tuple(matched(part) for part in plan.parts))
        if plan.kind != "state":
            return plan
        part = next(following)
        return replace(plan, apply_accepted=part.apply_accepted, records=part.records)

    return tuple(matched(plan) for plan in plans)


def _vocab_size(config: dict[str, Any]) -> int:
    text = config.get("text_config") or {}
    return int(text.get("vocab_size") or config.get("vocab_size") or 1000)  # the start-up check corrects it


# -- the attention call


def batched_attention(
    queries: mx.array,
    keys: KeysOrValues,
    values: KeysOrValues,
    cache: Any,
    scale: float,
    mask: Any,
    sinks: mx.array | None = None,
) -> mx.array:
    if isinstance(cache, AttentionCache):
        if cache.batch.watch is not None and cache.slot_plan.window is None:
            cache.batch.watch(queries, dense(keys), scale)
        if len(cache.slot_plan.groups) > 1:
            return cache.attend(queries, scale, sinks, attention)
        near = cache.batch.near
        if near is not None and queries.shape[2] > 1:
            keys, values = dense(keys), dense(values)
            if keys.shape[2] > NEARBY_BLOCK * near:
                return nearby_attention(queries, keys, values, near, scale, sinks)
        return attention(queries, keys, values, scale=scale, mask=mask, sinks=sinks)
    return library_attention(queries, keys, values, cache=cache, scale=scale, mask=mask, sinks=sinks)


def attention(
    queries: mx.array,
    keys: KeysOrValues,
    values: KeysOrValues,
    /,
    *,
    scale: float,
    mask: Any,
    sinks: mx.array | None = None,
) -> mx.array:
    """By our kernel, where the mask says how long rows are; by mlx-lm's products of quantized arrays, where there are
    such and queries are few; on a CPU by plain operations; else by MLX's."""
    if isinstance(keys, Quantized) and isinstance(values, Quantized):
        ours = isinstance(mask, RaggedMask) and attention_cuda.fits(queries.dtype, queries.shape[-1])
        if ours and attention_cuda.reads(queries, keys, values):
            return attention_cuda.attention(queries, keys, values, mask.ends, scale, window=mask.window, sinks=sinks)
        few = queries.shape[1] * queries.shape[2] <= FEW * keys.parts[0].shape[1]
        if (
            few
            and not ours
            and keys.form.lines is None
            and sinks is None
            and keys.exact is None
            and not isinstance(mask, str)
        ):
            return _quantized_attention(queries, keys, values, scale, mask)
        if queries.shape[0] > 1:
            return _row_by_row(queries, keys, values, scale, mask, sinks)
    every_key, every_value = dense(keys), dense(values)
    if isinstance(mask, RaggedMask):
        if attention_cuda.fits(queries.dtype, queries.shape[-1], every_value.shape[-1]):
            return attention_cuda.attention(
                queries, every_key, every_value, mask.ends, scale, window=mask.window, sinks=sinks
            )
        mask = mask.array()
    return _dense_attention(queries, every_key, every_value, scale, mask, sinks)


def _dense_attention(
    queries: mx.array, keys: mx.array, values: mx.array, scale: float, mask: Any, sinks: mx.array | None
) -> mx.array:
    if sinks is None and platform.device_kind() == "cpu" and attention_cpu.fits(mask):
        return attention_cpu.attention(queries, keys, values, scale, mask)
    return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=mask, sinks=sinks)


def _side_by_side(queries: mx.array, shared: int, mask: mx.array | None) -> tuple[mx.array, mx.array | None]:
    """The queries that share a head of keys in one head: quantized keys are repeated otherwise, in copies on some
    devices."""
    rows, heads, width, size = queries.shape
    if mask is not None and mask.shape[-2] > 1 and heads > shared:
        mask = mx.concatenate([mask] * (heads // shared), axis=-2)
    return queries.reshape(rows, shared, heads // shared * width, size), mask


def _quantized_attention(queries: mx.array, keys: Quantized, values: Quantized, scale: float, mask: Any) -> mx.array:
    """mlx-lm's products of quantized arrays."""
    before, form = queries.shape[:3], keys.form
    if isinstance(mask, RaggedMask):
        mask = mask.array()
    queries, mask = _side_by_side(queries, keys.parts[0].shape[1], mask)
    output: mx.array = base.quantized_scaled_dot_product_attention(
        queries, keys.parts, values.parts, scale, mask, group_size=form.group_size, bits=form.bits
    )
    return output.reshape(*before, -1)


def _row_by_row(
    queries: mx.array, keys: Quantized, values: Quantized, scale: float, mask: Any, sinks: mx.array | None
) -> mx.array:
    """One after another, so that no more than one row's keys and values are dequantized at a time."""
    outputs: list[mx.array] = []
    for row in range(queries.shape[0]):
        here = slice(row, row + 1)
        own_mask = mask
        if isinstance(mask, RaggedMask):
            own_mask = replace(mask, ends=mask.ends[here])
        elif isinstance(mask, mx.array) and mask.ndim == 4 and mask.shape[0] > 1:
            own_mask = mask[here]
        before = outputs[-1:]
        outputs.append(
            attention(
                queries[here], keys.row(row, before), values.row(row, before), scale=scale, mask=own_mask, sinks=sinks
            )
        )
    return mx.concatenate(outputs)


def nearby_attention(
    queries: mx.array, keys: mx.array, values: mx.array, near: int, scale: float, sinks: mx.array | None = None
) -> mx.array:
    """Causal attention of one row over a short past: a token sees its block and the `near` tokens before the block.

    Blocks are aligned to the row's start, so the result does not depend on prefill chunks.
    """
    stop = keys.shape[2]
    start, size = stop - queries.shape[2], NEARBY_BLOCK * near
    outputs, begin = [], start
    while begin < stop:
        block = begin // size * size
        end, low = min(block + size, stop), max(block - near, 0)
        outputs.append(
            _dense_attention(
                queries[:, :, begin - start : end - start],
                keys[:, :, low:end],
                values[:, :, low:end],
                scale,
                "causal",
                sinks,
            )
        )
        begin = end
    return mx.concatenate(outputs, axis=2) if len(outputs) > 1 else outputs[0]


def install_attention() -> None:
    """Idempotent. Covers the model modules imported so far."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mlx_lm.models.") and getattr(module, ATTENTION, None) is library_attention:
            setattr(module, ATTENTION, batched_attention)
