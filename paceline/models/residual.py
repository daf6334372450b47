"""Decoder layers whose sums and norms are one kernel (norm_cuda): `h = x + r`, and the norm that reads h.

The sum at a layer's end is read by a norm of the next layer, or by the model's last one. The layer computes both, and
the norm finds its result ready.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import llama, qwen3, qwen3_5, qwen3_next

from paceline.models import norm_cuda


class NextNorm:
    """A norm, and its result for the states of the layer before, until it is asked for."""

    def __init__(self, norm: nn.RMSNorm) -> None:
        self._norm = norm
        self._made: tuple[mx.array, mx.array] | None = None  # states, and the norm of them

    def add(self, states: mx.array, update: mx.array) -> mx.array:
        self._made = norm_cuda.add_norm(states, update, self._norm)
        return self._made[0]

    def take(self, states: mx.array) -> mx.array | None:
        made, self._made = self._made, None
        return made[1] if made is not None and made[0] is states else None


class RowNorm(nn.RMSNorm):  # type: ignore[misc]
    """Adopted by norms at load (same parameters)."""

    ready: NextNorm

    def __call__(self, x: mx.array) -> mx.array:
        found = self.ready.take(x)
        return super().__call__(x) if found is None else found


class RowLayer:
    """Adopted by mlx-lm's decoder layers at load (same parameters)."""

    fused = False  # whether sums and norms are one kernel: set by the adapter, checked at start-up
    next_norm: NextNorm | None = None

    def __call__(self: Any, x: mx.array, mask: mx.array | None = None, cache: Any = None) -> mx.array:
        if not self.fused:
            out: mx.array = super().__call__(x, mask, cache)  # type: ignore[misc]
            return out
        mixer = self.linear_attn if "linear_attn" in self else self.self_attn
        update = mixer(self.input_layernorm(x), mask, cache)
        h, normed = norm_cuda.add_norm(x, update, self.post_attention_layernorm)
        update = self.mlp(normed)
        return h + update if self.next_norm is None else self.next_norm.add(h, update)


# Layers of this form: h = x + mixer(input_layernorm(x)); out = h + mlp(post_attention_layernorm(h)).
ROW_LAYERS: dict[type, type] = {
    kind: type(f"Row{kind.__name__}", (RowLayer, kind), {})
    for kind in (
        qwen3_5.DecoderLayer,
        qwen3_next.Qwen3NextDecoderLayer,
        qwen3.TransformerBlock,
        llama.TransformerBlock,
    )
}


def fits(layer: Any) -> bool:
    """Whether the kernel can compute a layer's sums and norms here."""
    return norm_cuda.fits(layer.post_attention_layernorm)


def join_norms(module: nn.Module) -> None:
    """Let the adopted layers of a module know the norms that read their outputs."""
    layers = module.get("layers")
    if not isinstance(layers, list):
        return
    norms = [layer["input_layernorm"] if type(layer) in ROW_LAYERS.values() else None for layer in layers]
    for layer, norm in zip(layers, [*norms[1:], module.get("norm")], strict=True):
        if isinstance(layer, RowLayer) and type(norm) is nn.RMSNorm and norm_cuda.fits(norm):
            layer.next_norm = NextNorm(norm)
            norm.__class__ = RowNorm
            norm.ready = layer.next_norm
