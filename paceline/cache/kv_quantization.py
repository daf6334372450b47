"""Quantized keys and values: MLX's affine format, groups of numbers with a scale and a bias each.

A buffer of keys or values is three arrays then, whose slots lie in the same order. Error is a property of the format: a
token's keys and values are quantized once, when they are written, and what lies in rows, in cached prefixes and on disk
is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

GROUP_SIZES = (32, 64, 128)  # that MLX has


@dataclass(frozen=True, slots=True)
class KVQuantization:
    bits: int
    group_size: int = 64

    def __str__(self) -> str:
        return f"{self.bits} bits in groups of {self.group_size}"

    def quantize(self, array: mx.array) -> tuple[mx.array, ...]:
        """Packed numbers, scales, biases."""
        return tuple(mx.quantize(array, group_size=self.group_size, bits=self.bits))


@dataclass(frozen=True, slots=True)
class Quantized:
    """Keys or values as an attention layer gets them; `parts` as `KVQuantization.quantize` returns them."""

    parts: tuple[mx.array, ...]
    form: KVQuantization

    def row(self, row: int, after: Sequence[mx.array] = ()) -> Quantized:
        """Of one row, not before these arrays are there."""
        parts = [part[row : row + 1] for part in self.parts]
        return Quantized(tuple(mx.depends(parts, list(after)) if after else parts), self.form)

    def dense(self) -> mx.array:
        return mx.dequantize(*self.parts, group_size=self.form.group_size, bits=self.form.bits)


def dense(array: mx.array | Quantized) -> mx.array:
    return array.dense() if isinstance(array, Quantized) else array


def views(parts: Sequence[mx.array], form: KVQuantization | None) -> tuple[mx.array | Quantized, mx.array | Quantized]:
    """Keys and values of these parts, the keys' first."""
    if form is None:
        keys, values = parts
        return keys, values
    half = len(parts) // 2
    return Quantized(tuple(parts[:half]), form), Quantized(tuple(parts[half:]), form)
