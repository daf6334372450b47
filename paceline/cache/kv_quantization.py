"""Quantized keys and values: MLX's affine format, groups of numbers with a scale and a bias each.

A buffer of keys or values is three arrays then, whose slots lie in the same order; or both are one array (`Lines`).
Error is a property of the format: a token's keys and values are quantized once, when they are written, and what lies in
rows, in cached prefixes and on disk is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

PARTS = 3  # arrays of quantized keys, or of values
GROUP_SIZES = (32, 64, 128)  # that MLX has
ALIGNED = 4  # words: lines start at multiples of 16 bytes


@dataclass(frozen=True, slots=True)
class Lines:
    """A token's keys and values of a head in one line of 32-bit words: packed keys, packed values, a scale and a bias
    of every group of keys, those of values, zeros. A step writes one array instead of six, each of which costs the host
    of a GPU a launch. Here by plain operations; `models/kv_lines_cuda` has kernels."""

    dtype: mx.Dtype  # of the numbers, before and after

    def head_dim(self, form: KVQuantization, words: int) -> int:
        """Of lines with so many words. Zeros take less than a group."""
        group = form.group_size * form.bits // 32 + self.dtype.size // 2
        return words // (2 * group) * form.group_size

    def pack(self, form: KVQuantization, keys: mx.array, values: mx.array) -> mx.array:
        packed, affine = [], []
        for each in (keys, values):
            words, *pair = mx.quantize(each.astype(self.dtype), group_size=form.group_size, bits=form.bits)
            packed.append(words)
            affine.append(mx.stack(pair, axis=-1).view(mx.uint32).flatten(-2))
        line = mx.concatenate([*packed, *affine], axis=-1)
        return mx.pad(line, [(0, 0)] * 3 + [(0, -line.shape[3] % ALIGNED)])

    def unpack(self, form: KVQuantization, lines: mx.array, place: int) -> mx.array:
        """The keys (place 0) or the values (1)."""
        dim = self.head_dim(form, lines.shape[3])
        words, groups = dim * form.bits // 32, dim // form.group_size
        pairs = groups * self.dtype.size // 2
        start = 2 * words + place * pairs
        affine = mx.contiguous(lines[..., start : start + pairs]).view(self.dtype).reshape(*lines.shape[:3], groups, 2)
        packed = lines[..., place * words : (place + 1) * words]
        return mx.dequantize(packed, affine[..., 0], affine[..., 1], group_size=form.group_size, bits=form.bits)


@dataclass(frozen=True, slots=True)
class KVQuantization:
    """`start`: in layers without a window, so many tokens at the beginning of a sequence are not quantized. `lines`:
    keys and values lie in one array, which our attention kernel reads; None: in six."""

    bits: int
    group_size: int = 64
    start: int = 0
    lines: Lines | None = None

    def __str__(self) -> str:
        return (
            f"{self.bits} bits in groups of {self.group_size}"
            + (f" after {self.start} tokens" if self.start else "")
            + (" in lines" if self.lines is not None else "")
        )

    @property
    def arrays(self) -> int:
        """That hold keys and values together."""
        return 2 * PARTS if self.lines is None else 1

    def quantize(self, array: mx.array) -> tuple[mx.array, ...]:
        """Packed numbers, scales, biases."""
        return tuple(mx.quantize(array, group_size=self.group_size, bits=self.bits))

    def quantize_both(self, keys: mx.array, values: mx.array) -> tuple[mx.array, ...]:
        """As they are stored."""
        if self.lines is not None:
            return (self.lines.pack(self, keys, values),)
        return (*self.quantize(keys), *self.quantize(values))


@dataclass(frozen=True, slots=True)
class Quantized:
    """Keys or values as an attention layer gets them; `parts` as `KVQuantization.quantize` returns them, or the lines
    that have both. `exact` are the first of them, as they were."""

    parts: tuple[mx.array, ...]
    form: KVQuantization
    exact: mx.array | None = None
    place: int = 0  # in lines: 0 for keys, 1 for values

    def row(self, row: int, after: Sequence[mx.array] = ()) -> Quantized:
        """Of one row, not before these arrays are there."""
        parts = [part[row : row + 1] for part in self.parts]
        exact = None if self.exact is None else self.exact[row : row + 1]
        return Quantized(tuple(mx.depends(parts, list(after)) if after else parts), self.form, exact, self.place)

    def dense(self) -> mx.array:
        if self.form.lines is not None:
            return self.form.lines.unpack(self.form, self.parts[0], self.place)
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
    if form.lines is not None:
        lines = tuple(parts)
        return Quantized(lines, form), Quantized(lines, form, place=1)
    exact_keys, exact_values = parts[2 * PARTS :] or (None, None)
    keys, values = tuple(parts[:PARTS]), tuple(parts[PARTS : 2 * PARTS])
    return Quantized(keys, form, exact_keys), Quantized(values, form, exact_values)
