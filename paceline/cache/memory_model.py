"""The memory model: bytes that rows, chunks, steps and media take. For admission, chunk sizing, preemption, status.

No MLX. The numbers are read off the model at start (engine/memory); here is only the arithmetic. It follows the
buffers: they grow in steps (cache/slot_plan), a window bounds them, and rows of one group are padded to its longest.
Where shapes come from buckets, the bucket is priced: a group has padding rows, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from paceline.cache.slot_plan import MARGIN, ROWS, Grouping, capacity


@dataclass(frozen=True, slots=True)
class AttentionCost:
    """All layers with the same window; `token` is the bytes of a slot in all of them together."""

    window: int | None
    token: int
    layers: int = 0  # the number of layers; 0: copies are not counted
    dense: int = 0  # bytes of a slot of the largest layer while its quantized keys and values are dequantized
    exact: int = 0  # additional bytes of a slot in all layers, of the first `exact_slots` that are not quantized
    exact_slots: int = 0

    def tokens(self, length: int) -> int:
        """Tokens of a decoding row of this length that these layers have."""
        return length if self.window is None else min(length, self.window + MARGIN)

    def row(self, slots: int) -> int:
        """Bytes of a row with so many slots."""
        return self.token * slots + self.exact * (min(slots, self.exact_slots) + 1)


@dataclass(frozen=True, slots=True)
class MemoryModel:
    attention: tuple[AttentionCost, ...] = ()
    state: int = 0  # recurrent states of a row
    fixed: int = 0  # other bytes of a row: sampling, pending pairs of the head
    chunk_token: float = 0.0  # activations, per token of a prefill chunk
    chunk_pair: float = 0.0  # and per pair of such a token and a token before it
    decode_token: float = 0.0  # activations and sampling, per token of a decode step
    decode_pair: float = 0.0  # and per pair of such a token and a token before it
    media_byte: float = 0.0  # features that a row keeps until prefill has read them, per byte of its media's inputs
    encode_byte: float = 0.0  # an encoder's activations, per byte of the inputs that it encodes
    encode_pair: float = 0.0  # and per pair of such bytes
    grouping: Grouping = ROWS

    def beside(self, other: MemoryModel) -> MemoryModel:
        """Two models that step with the same rows, in the layout of this one: their rows and passes cost both."""
        costs: dict[int | None, AttentionCost] = {}
        for layer in (*self.attention, *other.attention):
            known = costs.get(layer.window, AttentionCost(layer.window, 0))
            costs[layer.window] = AttentionCost(
                layer.window,
                known.token + layer.token,
                known.layers + layer.layers,
                max(known.dense, layer.dense),
                known.exact + layer.exact,
                max(known.exact_slots, layer.exact_slots),
            )
        return replace(
            self,
            attention=tuple(costs.values()),
            state=self.state + other.state,
            fixed=self.fixed + other.fixed,
            chunk_token=self.chunk_token + other.chunk_token,
            chunk_pair=self.chunk_pair + other.chunk_pair,
            decode_token=self.decode_token + other.decode_token,
            decode_pair=self.decode_pair + other.decode_pair,
        )

    def row(self, tokens: int) -> int:
        """A row in buffers of its own."""
        return self.state + self.fixed + self._slots_of(tokens)

    def stretch(self, tokens: int, chunk: int) -> int:
        """Additional bytes of the windows of a row of so many tokens while it is prefilled in such chunks."""
        total = 0
        for layer in self.attention:
            if layer.window is not None:
                kept = layer.tokens(tokens)
                wide = self._capacity(layer.window, min(tokens, kept + chunk))
                total += layer.token * max(wide - self._capacity(layer.window, kept), 0)
        return total

    def batch(self, lengths: Sequence[int], groups: Sequence[Sequence[int]] | None = None) -> int:
        """Rows that decode together; `groups`: which share a buffer (see `groups`), if that is known."""
        shared = groups if groups is not None else self.groups([(None, length) for length in lengths])
        counts = [self.grouping.buckets.row_count(len(group)) for group in shared]
        slots = sum(
            count * self._slots_of(max(lengths[place] for place in group))
            for count, group in zip(counts, shared, strict=True)
        )
        return (self.state + self.fixed) * sum(counts) + slots

    def copying(
        self, lengths: Sequence[int], groups: Sequence[Sequence[int]] | None = None, *, at_once: bool = False
    ) -> int:
        """Additional bytes while the largest group's buffers grow, or a row joins it: old and new buffers are in memory
        together, of one layer at a time or, `at_once`, of all layers."""
        shared = groups if groups is not None else self.groups([(None, length) for length in lengths])
        most = total = 0
        for layer in self.attention:
            if not layer.layers:
                continue
            largest = 0
            for group in shared:
                longest = layer.tokens(max(lengths[place] for place in group))
                rows = self.grouping.buckets.row_count(len(group))
                largest = max(largest, rows * layer.row(self._capacity(layer.window, longest)))
            most, total = max(most, largest // layer.layers), total + largest
        return total if at_once else most

    def passing(self, lengths: Sequence[int], groups: Sequence[Sequence[int]] | None = None, *, width: int = 1) -> int:
        """Additional bytes of a decode step at its peak. Where memory is short, buffers are copied before the step, so
        that the two are not in memory at the same time (cache/batch)."""
        return max(self.copying(lengths, groups), self.step(len(lengths), width, max(lengths, default=0)))

    def groups(self, rows: Sequence[tuple[int | None, int]]) -> list[list[int]]:
        """Which rows share a buffer, by their index in `rows`. Rows of the batch stay in their group, whatever their
        lengths become; the others will join the first group that accepts them.

        Each row is (its group or None, its length, or the length that it will join with).
        """
        grouping = self.grouping
        if grouping.skew == float("inf") or not self.attention:  # states lie in one array, whatever the layout
            return [list(range(len(rows)))] if rows else []
        if grouping.skew == 0:
            return [[place] for place in range(len(rows))]
        known: dict[int, list[int]] = {}
        for place, (group, _) in enumerate(rows):
            if group is not None:
                known.setdefault(group, []).append(place)
        groups = list(known.values())
        for place, (group, length) in enumerate(rows):
            if group is None:
                for members in groups:
                    if grouping.accepts([rows[member][1] for member in members], length):
                        members.append(place)
                        break
                else:
                    groups.append([place])
        return groups

    def chunk(self, tokens: int, before: int) -> int:
        """Activations of a prefill chunk of a row that has `before` tokens."""
        dense = max((layer.dense for layer in self.attention if layer.window is None), default=0)
        return int(tokens * (self.chunk_token + self.chunk_pair * (before + tokens)) + dense * (before + tokens))

    def step(self, rows: int, width: int, longest: int = 0) -> int:
        """Activations of a decode step whose longest row has so many tokens. Quantized keys and values of a row in one
        layer are in memory dequantized, too."""
        slots = [self._capacity(layer.window, layer.tokens(longest)) for layer in self.attention]
        dense = max((count * layer.dense for count, layer in zip(slots, self.attention, strict=True)), default=0)
        tokens = self.grouping.buckets.row_count(rows) * width
        return int(tokens * (self.decode_token + self.decode_pair * max(slots, default=0))) + (dense if rows else 0)

    def media(self, costs: Sequence[int]) -> int:
        """Media whose inputs have so many bytes, encoded one after another."""
        largest = max(costs, default=0)
        return int(sum(costs) * self.media_byte + largest * (self.encode_byte + self.encode_pair * largest))

    def _slots_of(self, tokens: int) -> int:
        """Bytes of a decoding row's slots."""
        return sum(layer.row(self._capacity(layer.window, layer.tokens(tokens))) for layer in self.attention)

    def _capacity(self, window: int | None, need: int) -> int:
        return capacity(window, need, self.grouping.buckets)
