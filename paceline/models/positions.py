"""RoPE at explicit position ids, for rows whose positions do not simply count up.

A prefill with images has position ids in three axes (time, height, width), a sparse prefill has gaps, and a dynamic
RoPE, whose base follows the sequence length, needs that length for every token. All travel as a `Positions` object
through the cache's `offset` to one of the RoPEs here. Every other step passes an integer or an array and takes mlx-lm's
fast path.
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
    """The position ids of one step: (rows, width), or (3, rows, width) for time, height and width.

    `reach` (rows, width), for dynamic RoPEs, is the sequence length that each token is scaled for.
    """

    def __init__(self, position_ids: mx.array, reach: mx.array | None = None) -> None:
        self.position_ids = position_ids
        self.reach = reach
        self._memo: dict[object, tuple[mx.array, mx.array]] = {}

    @property
    def simple(self) -> bool:
        """Whether there is one position id per token and no reach, so that mlx-lm's RoPE can take them."""
        return self.position_ids.ndim == 2 and self.reach is None

    def rotation(self, rope: MRoPE) -> tuple[mx.array, mx.array]:
        """Cosine and sine for one RoPE, shared by all layers with the same RoPE."""
        if rope.key not in self._memo:
            angles = rope.angles(self)[:, None]
            self._memo[rope.key] = (rope.stretch * mx.cos(angles), rope.stretch * mx.sin(angles))
        return self._memo[rope.key]


def rope_at(rope: Any, x: mx.array, position_ids: mx.array) -> mx.array:
    """mlx-lm's RoPE at any position ids: each token becomes a row with an offset of its own.

    This is the arithmetic of decoding, so a token gets the same rotation in prefill and decoding.
    """
    rows, heads, width, size = x.shape
    apart = x.swapaxes(1, 2).reshape(rows * width, heads, 1, size)
    turned = rope(apart, offset=position_ids.reshape(rows * width))
    return turned.reshape(rows, width, heads, size).swapaxes(1, 2)


class PositionIdRoPE(nn.Module):  # type: ignore[misc]
    """Wraps any RoPE of mlx-lm's that takes an offset per row. For one position id per token."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self._inner = inner

    def __call__(self, x: mx.array, offset: Any = 0) -> mx.array:
        if isinstance(offset, Positions):
            return rope_at(self._inner, x, offset.position_ids)
        return self._inner(x, offset=offset)


class MRoPE(nn.Module):  # type: ignore[misc]
    """Wraps a plain or YaRN RoPE of mlx-lm's. `sections` are M-RoPE's: interleaved as in Qwen3.5, or one after
    another as in Qwen2-VL."""

    stretch = 1.0  # YaRN scales the rotated vectors
    fixed = True  # the angles depend only on the position id

    def __init__(self, inner: nn.Module, sections: Sequence[int] | None = None, *, interleaved: bool = True) -> None:
        super().__init__()
        self._inner = inner
        self.dims = inner.dims
        self._pairs = bool(getattr(inner, "traditional", False))  # even and odd dimensions turn together, as in GLM-4
        half = self.dims // 2
        if isinstance(inner, YarnRoPE):
            frequencies, self.stretch = 1 / np.array(inner._freqs, dtype=np.float64), inner.mscale
        else:
            frequencies = inner.scale * inner.base ** (-np.arange(half, dtype=np.float64) / half)
        self._frequencies = mx.array(frequencies.astype(np.float32))
        axes = np.zeros(half, dtype=np.int32)
        if sections and not interleaved:
            axes[:] = np.repeat(np.arange(3), sections)
        elif sections:
            for axis in (1, 2):
                axes[axis : min(sections[axis] * 3, half) : 3] = axis
        self._axes = mx.array(axes)
        self.key: object = (self.dims, frequencies.tobytes(), self.stretch, tuple(sections or ()), interleaved)

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
        return _rotate(x, cos, sin, self.dims, pairs=self._pairs)


class DynamicRoPE(MRoPE):
    """RoPE whose base grows with the sequence ("dynamic" scaling), for rows of different lengths in one batch.

    mlx-lm uses the length at the end of the computed chunk, so a token's rotation depends on its chunk. Here `reach`
    has, for every token, the length that mlx-lm's own chunks would give, so the result depends neither on our chunks
    nor on the other rows.
    """

    fixed = False

    def __init__(self, inner: DynamicNTKScalingRoPE) -> None:
        nn.Module.__init__(self)
        if inner.traditional:
            raise ValueError("explicit positions need the half-split form of RoPE")
        self._inner = inner
        self._pairs = False
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
    """The lengths for which mlx-lm scales tokens [start, stop): ends of its prefill chunks, then each token's own."""
    position_ids = np.arange(start, stop)
    ends = np.minimum((position_ids // chunk + 1) * chunk, prompt - 1)
    return np.where(position_ids < prompt - 1, ends, position_ids + 1).astype(np.int32)


def image_positions(
    token_ids: Sequence[int], grids: Sequence[tuple[int, int, int]], image_token: int, merge: int
) -> tuple[NDArray[np.int32], int]:
    """Qwen's M-RoPE: position ids (3, tokens), and the delta for the tokens after them (next id - tokens).

    Text counts up in all three axes. An image's tokens share one time and spread over height and width. Text after
    it continues after the largest id used.
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


def _rotate(x: mx.array, cos: mx.array, sin: mx.array, dims: int, *, pairs: bool = False) -> mx.array:
    half, rest = dims // 2, x[..., dims:]
    first, second = (x[..., 0:dims:2], x[..., 1:dims:2]) if pairs else (x[..., :half], x[..., half:dims])
    first, second = first.astype(mx.float32), second.astype(mx.float32)
    turned = [part.astype(x.dtype) for part in (first * cos - second * sin, second * cos + first * sin)]
    if pairs:
        turned = [mx.stack(turned, axis=-1).reshape(*x.shape[:-1], dims)]
    return mx.concatenate([*turned, rest], axis=-1)
