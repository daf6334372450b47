"""How the draft ranks a prompt's chunks, as SpecPrefill does: does it keep the chunk that holds the fact?

The draft reads the prompt and goes on for a few tokens; the attention of those tokens over the prompt, its maximum
over layers and heads, its mean over the tokens, smoothed, then averaged by chunk, is the chunks' score. Written out
plainly here, on Paceline's loader, so that a figure exists whatever the engine's own form does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from numpy.typing import NDArray

from paceline.cache.grouping import ROWS
from paceline.models import loader

LOOK_AHEAD = 8
CHUNK = 32
KEPT = 0.2
POOL = 13
STEP = 1024  # prompt tokens a forward pass


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


class Draft:
    def __init__(self, folder: Path) -> None:
        self.model = loader.load(str(folder), "float32").language
        self.watched: list[Watched] = []
        for layer in self.model.inner.model.layers:
            if not layer.is_linear:
                layer.self_attn = Watched(layer.self_attn)
                self.watched.append(layer.self_attn)

    def scores(self, prompt: Sequence[int]) -> NDArray[np.float32]:
        """One score for every token of the prompt."""
        for layer in self.watched:
            layer.seen.clear()
        batch = self.model.batch(ROWS)
        tokens = list(prompt)
        for start in range(0, len(tokens), STEP):
            logits = self._forward(tokens[start : start + STEP], batch)
        for _ in range(LOOK_AHEAD):
            (chosen,) = mx.argmax(logits[:, -1], axis=-1).tolist()  # type: ignore[misc]
            logits = self._forward([int(chosen)], batch)
        found = [_attention(layer, len(tokens)) for layer in self.watched]
        per_token = mx.max(mx.concatenate(found, axis=0), axis=0)  # over layers and heads: (look-ahead, prompt)
        smooth = np.pad(np.array(mx.mean(per_token, axis=0)), POOL // 2, mode="edge")
        return np.convolve(smooth, np.ones(POOL, np.float32) / POOL, mode="valid").astype(np.float32)

    def _forward(self, tokens: list[int], batch: Any) -> mx.array:
        batch.begin(len(tokens))
        states = self.model.hidden(mx.array([tokens]), batch.layers)
        batch.commit()
        logits = self.model.logits(states[:, -1:])
        mx.eval(logits, batch.arrays(), [layer.seen[-1] for layer in self.watched])
        return logits

    def kept(self, prompt: Sequence[int]) -> set[int]:
        """The chunks of the prompt that are among the best fifth."""
        scores = self.scores(prompt)
        chunks = -(-len(scores) // CHUNK)
        padded = np.pad(scores, (0, chunks * CHUNK - len(scores)), constant_values=np.nan)
        ranked = np.argsort(-np.nanmean(padded.reshape(chunks, CHUNK), axis=1), kind="stable")
        return set(ranked[: max(1, round(chunks * KEPT))].tolist())


def chunks_of(first: int, last: int) -> set[int]:
    """The chunks that hold the tokens [first, last)."""
    return set(range(first // CHUNK, (last - 1) // CHUNK + 1))


def _attention(layer: Watched, prompt: int) -> mx.array:
    """Softmax of the look-ahead queries over the prompt's keys: (heads, look-ahead, prompt)."""
    part = layer.inner
    x = mx.concatenate(layer.seen, axis=1)
    heads, kv_heads = part.num_attention_heads, part.num_key_value_heads
    ahead = x[:, prompt:]
    queries, _ = mx.split(part.q_proj(ahead).reshape(1, ahead.shape[1], heads, -1), 2, axis=-1)
    queries = part.rope(part.q_norm(queries).transpose(0, 2, 1, 3), offset=prompt)
    keys = part.k_norm(part.k_proj(x[:, :prompt]).reshape(1, prompt, kv_heads, -1)).transpose(0, 2, 1, 3)
    keys = mx.repeat(part.rope(keys, offset=0), heads // kv_heads, axis=1)
    return mx.softmax((queries @ keys.transpose(0, 1, 3, 2)) * part.scale, axis=-1)[0]
