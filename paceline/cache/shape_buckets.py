"""The shapes that a GPU sees: everything is padded up to the next of a small set of sizes. One table. No MLX.

On a GPU a shape that was not seen before costs many times a known one: kernels are chosen or compiled, attention
is planned, steps are traced. Real traffic is nothing but new shapes: prompts of any length, sequences that come and go.
So sizes are rounded up to buckets, and what does not fill its bucket is padding that changes nothing: rows without a
sequence, and tokens that are never committed. On a CPU padding costs arithmetic, and shapes are exact.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShapeBuckets:
    """Sizes in rising order; above the largest, multiples of it. None: exact sizes."""

    rows: tuple[int, ...] = ()  # decoding rows that share a buffer
    widths: tuple[int, ...] = ()  # tokens of each prompt in a prefill pass
    prompts: tuple[int, ...] = ()  # prompts in a prefill pass
    drafts: tuple[int, ...] = ()  # draft tokens of a speculative step
    geometric: bool = False  # capacities of buffers: two per power of two, instead of steps

    def row_count(self, rows: int) -> int:
        return _up(self.rows, rows)

    def width(self, tokens: int) -> int:
        return _up(self.widths, tokens)

    def prompt_count(self, prompts: int) -> int:
        return _up(self.prompts, prompts)

    def draft_length(self, tokens: int) -> int:
        return _up(self.drafts, tokens)

    def draft_lengths(self, most: int) -> tuple[int, ...]:
        """The lengths worth trying, 0 among them."""
        return (0, *(size for size in self.drafts or range(1, most) if size < most), *([most] if most else []))

    def longest_draft(self, rows: int, most: int, always: int) -> int:
        """The most draft tokens of each of so many rows: `most`, but above `always` only while the step stays small.
        Every row of a step pays for its longest draft."""
        return max(min(most, MAX_VERIFIED // max(self.row_count(rows), 1) - 1), min(most, always))

    def within(self, tokens: int) -> int:
        """The most prompt tokens whose bucket is at most `tokens`; at least one bucket."""
        if not self.widths:
            return tokens
        largest = self.widths[-1]
        if tokens >= largest:
            return tokens // largest * largest
        return max((width for width in self.widths if width <= tokens), default=self.widths[0])

    def capacity(self, need: int, step: int) -> int | None:
        """Slots of a buffer for `need` tokens: 1, 2, 3, 4, 6, 8, 12, 16, ... times `step`. None: not of these."""
        if not self.geometric:
            return None
        size = step
        while size < need:
            if size * 3 // 2 >= need and size > step:
                return size * 3 // 2
            size *= 2
        return size


MAX_VERIFIED = 256  # tokens of all rows in a step whose drafts are longer than a head's
EXACT = ShapeBuckets()
GPU = ShapeBuckets(
    rows=(1, 2, 4, 8, 10, 16, 24, 32, 48, 64),
    widths=(32, 128, 256, 512, 768, 1024, 1536, 2048),
    prompts=(1, 2, 4, 8, 16),
    drafts=(1, 2, 3, 5, 8, 16, 32),
    geometric=True,
)


def _up(sizes: tuple[int, ...], size: int) -> int:
    if not sizes or size <= 0:
        return size
    if size > sizes[-1]:
        return -(-size // sizes[-1]) * sizes[-1]
    return sizes[bisect_left(sizes, size)]
