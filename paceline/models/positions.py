"""Position is data: RoPE at explicit positions, where a row's positions do not simply count up.

A prefill with pictures has positions in three axes (time, height, width), one that leaves tokens out has gaps, and a
scaled RoPE whose base follows the sequence length needs that length for every token. All travel as a `Positions` object
through the cache's `offset` to a `PositionedRoPE`; every other step passes an integer or an array, and takes mlx-lm's
own fast path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.rope_utils import DynamicNTKScalingRoPE, YarnRoPE
from numpy.typing import NDArray


class Positions:
    """Explicit positions of one step: `places` is (rows, width), or (3, rows, width) for time, height and width.

    `reach` (rows, width), where the model needs it, is the sequence length each token was scaled for.
    """

    def __init__(self, position_ids: mx.array, reach: mx.array | None = None) -> None:
        self.position_ids = position_ids
        self.reach = reach
        self._memo: dict[object, tuple[mx.array, mx.array]] = {}

    @property
    def simple(self) -> bool:
        """One place a token, and nothing else: mlx-lm's own RoPE can take it."""
        return self.position_ids.ndim == 2 and self.reach is None

    def rotation(self, rope: MRoPE) -> tuple[mx.array, mx.array]:
        """Cosine and sine for one RoPE; all layers with the same RoPE share them."""
        if rope.key not in self._memo:
            angles = rope.angles(self)[:, None]
            self._memo[rope.key] = (rope.stretch * mx.cos(angles), rope.stretch * mx.sin(angles))
        return self._memo[rope.key]


def rope_at(rope: Any, x: mx.array, position_ids: mx.array) -> mx.array:
    """mlx-lm's RoPE for tokens that stand anywhere: each is a row of its own, which has an offset of its own. The same
    arithmetic as in decoding, so that it makes no difference how a token came to its place."""
    rows, heads, width, size = x.shape
    apart = x.swapaxes(1, 2).reshape(rows * width, heads, 1, size)
    turned: mx.array = rope(apart, offset=position_ids.reshape(rows * width))
    return turned.reshape(rows, width, heads, size).swapaxes(1, 2)


class PositionIdRoPE(nn.Module):  # type: ignore[misc]
    """Wraps any RoPE of mlx-lm's that takes an offset for every row."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self._inner = inner

    def __call__(self, x: mx.array, offset: Any = 0) -> mx.array:
        if isinstance(offset, Positions):
            return rope_at(self._inner, x, offset.position_ids)
        return self._inner(x, offset=offset)


class MRoPE(nn.Module):  # type: ignore[misc]
    """Wraps a RoPE of mlx-lm's, plain or YaRN; `sections` are M-RoPE's, interleaved as in Qwen3.5."""

    stretch = 1.0  # YaRN lengthens what it turns
    fixed = True  # a token's angles depend on its place only

    def __init__(self, inner: nn.Module, sections: Sequence[int] | None = None) -> None:
        super().__init__()
        self._inner = inner
        self.dims = inner.dims
        if getattr(inner, "traditional", False):
            raise ValueError("explicit positions need the half-split form of RoPE")
        half = self.dims // 2
        if isinstance(inner, YarnRoPE):
            frequencies, self.stretch = 1 / np.array(inner._freqs, dtype=np.float64), inner.mscale
        else:
            frequencies = inner.scale * inner.base ** (-np.arange(half, dtype=np.float64) / half)
        self._frequencies = mx.array(frequencies.astype(np.float32))
        axes = np.zeros(half, dtype=np.int32)
        if sections:
            for axis in (1, 2):
                axes[axis : min(sections[axis] * 3, half) : 3] = axis
        self._axes = mx.array(axes)
        self.key: object = (self.dims, frequencies.tobytes(), self.stretch, tuple(sections or ()))

    def angles(self, positions: Positions) -> mx.array:
        position_ids = positions.position_ids.astype(mx.float32)[..., None] * self._frequencies
        if position_ids.ndim == 4:
            position_ids = mx.where(
                self._axes == 1, position_ids[1], mx.where(self._axes == 2, position_ids[2], position_ids[0])
            )
        return position_ids

    def __call__(self, x: mx.array, offset: Any = 0) -> mx.array:
        if not isinstance(offset, Positions):
            return self._inner(x, offset=offset)
        if offset.simple and self.fixed:
            return rope_at(self._inner, x, offset.position_ids)
        cos, sin = offset.rotation(self)
        return _rotate(x, cos, sin, self.dims)


class DynamicRoPE(MRoPE):
    """RoPE whose base grows with the sequence ("dynamic" scaling), for rows of different lengths in one batch.

    mlx-lm takes the length at the end of the chunk it computes, so what a token got depends on the chunk it rode
    in. Here `reach` carries, for every token, the length that mlx-lm's own schedule would have used, so that the
    result depends neither on our chunks nor on the neighbours.
    """

    fixed = False

    def __init__(self, inner: DynamicNTKScalingRoPE) -> None:
        nn.Module.__init__(self)
        if inner.traditional:
            raise ValueError("explicit positions need the half-split form of RoPE")
        self._inner = inner
        self.dims = inner.dims
        self._base, self._factor, self._window = inner.base, inner.factor, inner.max_position_embeddings
        self.key = ("dynamic", self.dims, self._base, self._factor, self._window)

    def angles(self, positions: Positions) -> mx.array:
        if positions.reach is None:
            raise ValueError("a dynamic RoPE needs the reach of every token")
        reach = mx.maximum(positions.reach, self._window).astype(mx.float32)
        growth = self._factor * reach / self._window - (self._factor - 1)
        base = self._base * growth ** (self.dims / (self.dims - 2))
        exponents = mx.arange(0, self.dims, 2, dtype=mx.float32) / self.dims
        return positions.position_ids.astype(mx.float32)[..., None] * mx.exp(-exponents * mx.log(base)[..., None])

    def __call__(self, x: mx.array, offset: Any = 0) -> mx.array:
        if isinstance(offset, mx.array):
            raise TypeError("a dynamic RoPE takes explicit positions")
        return super().__call__(x, offset)


def dynamic_reach(start: int, stop: int, prompt: int, chunk: int = 2048) -> NDArray[np.int32]:
    """The lengths mlx-lm scales tokens [start, stop) for: ends of its prefill chunks, then one token at a time."""
    position_ids = np.arange(start, stop)
    ends = np.minimum((position_ids // chunk + 1) * chunk, prompt - 1)
    return np.where(position_ids < prompt - 1, ends, position_ids + 1).astype(np.int32)


def image_positions(
    token_ids: Sequence[int], grids: Sequence[tuple[int, int, int]], image_token: int, merge: int
) -> tuple[NDArray[np.int32], int]:
    """Qwen's M-RoPE: (3, tokens) positions, and the delta that continues them (next position - tokens).

    Text counts up in all three axes; a picture's tokens share the time of its start and spread over height and
    width; what follows continues after the largest position used.
    """
    ids = np.asarray(token_ids)
    position_ids = np.empty((3, len(ids)), dtype=np.int32)
    cursor = position = 0
    for time, height, width in grids:
        height, width = height // merge, width // merge
        begins = np.nonzero(ids[cursor:] == image_token)[0]
        if len(begins) == 0:
            raise ValueError("fewer picture placeholders than pictures")
        begin = cursor + int(begins[0])
        position_ids[:, cursor:begin] = np.arange(position, position + begin - cursor)
        position += begin - cursor
        count = time * height * width
        position_ids[:, begin : begin + count] = position + np.indices((time, height, width)).reshape(3, -1)
        cursor = begin + count
        position += max(time, height, width)
    position_ids[:, cursor:] = np.arange(position, position + len(ids) - cursor)
    position += len(ids) - cursor
    return position_ids, position - len(ids)


def _rotate(x: mx.array, cos: mx.array, sin: mx.array, dims: int) -> mx.array:
    half = dims // 2
    first, second, rest = x[..., :half], x[..., half:dims], x[..., dims:]
    first, second = first.astype(mx.float32), second.astype(mx.float32)
    turned = [first * cos - second * sin, second * cos + first * sin]
    return mx.concatenate([part.astype(x.dtype) for part in turned] + [rest], axis=-1)
