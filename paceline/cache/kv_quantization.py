"""Quantized keys and values: MLX's affine format, groups of numbers with a scale and a bias each.

A buffer of keys or values is three arrays then, whose slots lie in the same order. Error is a property of the format: a
token's keys and values are quantized once, when they are written, and what lies in rows, in cached prefixes and on disk
is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

PARTS = 3  # arrays of quantized keys, or of values
GROUP_SIZES = (32, 64, 128)  # that MLX has


@dataclass(frozen=True, slots=True)
class KVQuantization:
    """`start`: in layers without a window, so many tokens at the beginning of a sequence are not quantized. `kernel`:
    our attention kernel reads such keys and values as they are, and has been compared on this machine."""

    bits: int
    group_size: int = 64
    start: int = 0
    kernel: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.bits} bits in groups of {self.group_size}" + (
            f" after {self.start} tokens" if self.start else ""
        )

    def quantize(self, array: mx.array) -> tuple[mx.array, ...]:
        """Packed numbers, scales, biases."""
        return tuple(mx.quantize(array, group_size=self.group_size, bits=self.bits))


@dataclass(frozen=True, slots=True)
class Quantized:
    """Keys or values as an attention layer gets them; `parts` as `KVQuantization.quantize` returns them. `exact` are
    the first of them, as they were."""

    parts: tuple[mx.array, ...]
    form: KVQuantization
    exact: mx.array | None = None

    def row(self, row: int, after: Sequence[mx.array] = ()) -> Quantized:
        """Of one row, not before these arrays are there."""
        parts = [part[row : row + 1] for part in self.parts]
        exact = None if self.exact is None else self.exact[row : row + 1]
        return Quantized(tuple(mx.depends(parts, list(after)) if after else parts), self.form, exact)

    def dense(self) -> mx.array:
        first = 0 if self.exact is None else self.exact.shape[2]
        if self.exact is not None and first == self.parts[0].shape[2]:
            return self.exact
        packed, scales, biases = (part[:, :, first:] if first else part for part in self.parts)
        rest = mx.dequantize(packed, scales, biases, group_size=self.form.group_size, bits=self.form.bits)
        return rest if self.exact is None else mx.concatenate([self.exact, rest], axis=2)


def dense(array: mx.array | Quantized) -> mx.array:
    return array.dense() if isinstance(array, Quantized) else array


def views(parts: Sequence[mx.array], form: KVQuantization | None) -> tuple[mx.array | Quantized, mx.array | Quantized]:
    """Keys and values of these parts, the keys' first; after those that are quantized the exact ones, if there are."""
    if form is None:
        return parts[0], parts[1]
    exact_keys, exact_values = parts[2 * PARTS :] or (None, None)
    keys, values = tuple(parts[:PARTS]), tuple(parts[PARTS : 2 * PARTS])
    return Quantized(keys, form, exact_keys), Quantized(values, form, exact_values)
