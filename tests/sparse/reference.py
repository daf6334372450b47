"""What sparse prefill is compared with: mlx-lm's own module and caches, a token at a time, each at a place that is
said; and attention written out plainly, for scores."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.cache import KVCache, make_prompt_cache
from numpy.typing import NDArray

from tests.reference import load_text


class PlacedCache(KVCache):  # type: ignore[misc]
    """Keys and values in the order in which they come; `offset`, which RoPE reads, is whatever `place` says."""

    def __init__(self) -> None:
        self.stored: list[mx.array] = []
        self.place = 0

    @property
    def offset(self) -> int:
        return self.place

    @offset.setter
    def offset(self, value: int) -> None: ...

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        if self.stored:
            keys = mx.concatenate([self.stored[0], keys], axis=2)
            values = mx.concatenate([self.stored[1], values], axis=2)
        self.stored = [keys, values]
        return keys, values

    def make_mask(self, *_: Any, **__: Any) -> None:
        return None


def continued(folder: Path | str, prompt: Sequence[int], chosen: Sequence[int], count: int) -> tuple[list[int], Any]:
    """Greedy tokens after the chosen tokens of a prompt, each at its own place; and the log probabilities of each."""
    return _continued(str(folder), tuple(prompt), tuple(chosen), count)


@functools.cache
def _continued(
    folder: str, prompt: tuple[int, ...], chosen: tuple[int, ...], count: int
) -> tuple[list[int], list[NDArray[np.float32]]]:
    model = load_text(folder)[0]
    caches = [PlacedCache() if type(cache) is KVCache else cache for cache in make_prompt_cache(model)]

    def forward(token: int, place: int) -> mx.array:
        for each in caches:
            if isinstance(each, PlacedCache):
                each.place = place
        logits: mx.array = model(mx.array([[token]]), cache=caches)[0, -1]
        mx.eval(logits)
        return logits

    for place in chosen:
        logits = forward(prompt[place], place)
    said: list[int] = []
    scores: list[NDArray[np.float32]] = []
    for step in range(count):
        scores.append(np.array(logits.astype(mx.float32) - mx.logsumexp(logits.astype(mx.float32))))
        said.append(int(np.argmax(scores[-1])))
        if step < count - 1:
            logits = forward(said[-1], len(prompt) + step)
    return said, scores


class Watched(nn.Module):  # type: ignore[misc]
    """An attention layer that remembers what came in."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.seen: list[mx.array] = []

    def __call__(self, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        self.seen.append(x)
        result: mx.array = self.inner(x, mask, cache)
        return result


def scores(model: Any, prompt: Sequence[int], look_ahead: int, observed: int, pool: int) -> NDArray[np.float64]:
    """The published procedure on a module of mlx-lm's, in one pass and in numpy, layer by layer; beside the look-ahead
    for the last tokens of the prompt, too."""
    layers = getattr(model, "language_model", model).model.layers
    held = [(layer, layer.self_attn) for layer in layers if "self_attn" in layer]
    watched = []
    for layer, attention in held:
        layer.self_attn = Watched(attention)
        watched.append(layer.self_attn)
    try:
        cache = make_prompt_cache(model)
        logits = model(mx.array([list(prompt)]), cache=cache)
        for _ in range(look_ahead):
            logits = model(mx.argmax(logits[:, -1], axis=-1)[:, None], cache=cache)
        mx.eval(logits)
        found = np.concatenate([_shares(layer, len(prompt), observed) for layer in watched])  # (heads, tokens, n)
    finally:
        for layer, attention in held:
            layer.self_attn = attention
    side, count = pool // 2, len(prompt)
    smooth = np.stack([found[..., max(place - side, 0) : place + side + 1].mean(-1) for place in range(count)], axis=-1)
    most = smooth.max(0)  # (tokens, n)
    larger: NDArray[np.float64] = np.maximum(most[:observed].mean(0), most[observed:].mean(0))
    return larger


def _shares(layer: Watched, prompt: int, observed: int) -> NDArray[np.float64]:
    part = layer.inner
    x = mx.concatenate(layer.seen, axis=1)
    heads = getattr(part, "num_attention_heads", None) or part.n_heads
    kv_heads = getattr(part, "num_key_value_heads", None) or part.n_kv_heads
    queries = part.q_proj(x).reshape(1, x.shape[1], heads, -1)
    keys = part.k_proj(x).reshape(1, x.shape[1], kv_heads, -1)
    if queries.shape[-1] == 2 * keys.shape[-1]:  # Qwen3.5's gate
        queries, _ = mx.split(queries, 2, axis=-1)
    if "q_norm" in part:
        queries, keys = part.q_norm(queries), part.k_norm(keys)
    queries, keys = (part.rope(each.transpose(0, 2, 1, 3)) for each in (queries, keys))
    keys = mx.repeat(keys, heads // kv_heads, axis=1)
    queries, keys = queries[0, :, prompt - observed :], keys[0, :, :prompt]
    weights = np.array((queries @ keys.swapaxes(1, 2)) * part.scale, dtype=np.float64)
    places = np.arange(prompt - observed, prompt - observed + weights.shape[1])
    weights[:, np.arange(prompt) > places[:, None]] = -np.inf
    weights = np.exp(weights - weights.max(-1, keepdims=True))
    probabilities: NDArray[np.float64] = weights / weights.sum(-1, keepdims=True)
    return probabilities
