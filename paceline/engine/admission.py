"""Whether the memory there is suffices: for one more row, for the next steps, at all. No MLX.

All answers come from the one budget (cache/budget) and the memory model (cache/memory_model). A row costs what it
has and what it is likely to say (engine/outputs). What prefixes hold that nobody uses counts as free: the cache gives
it back as soon as the account says that rows need it, which `account` does before they use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from paceline.cache.budget import REQUEST_PARTS, Budget
from paceline.cache.memory_model import MemoryModel
from paceline.engine.outputs import Outputs
from paceline.engine.pace import LEAST
from paceline.engine.row import Row
from paceline.errors import NeverFits

GROWTH = 128  # tokens that a row is taken to need still, whatever it was expected to say
AHEAD = 96  # tokens that rows may grow by between two looks


class Admission:
    def __init__(
        self, budget: Budget, memory_model: MemoryModel, outputs: Outputs | None = None, *, width: int = 1
    ) -> None:
        self.budget = budget
        self.memory_model = memory_model
        self.outputs = outputs or Outputs()
        self.width = width  # tokens that a row may have in a decode step
        self.scoring: Callable[[int], int] | None = None  # bytes that a draft takes to score a prompt of so many tokens
        self.low_memory = False  # there is no room to copy the buffers of all layers at once

    # -- for any thread

    def check(self, tokens: int, patches: Sequence[int] = (), place: str = "messages") -> None:
        """Raise NeverFits for a prompt that does not fit even if it had the machine for itself."""
        need = self._alone(tokens, patches)
        if need > self.budget.usable:
            base = self.budget.holding("weights")
            raise NeverFits(tokens, need - base, max(self.budget.usable - base, 0), field=place)

    def _alone(self, tokens: int, patches: Sequence[int]) -> int:
        """What `used` will say of a row that has just come in, with nobody else there and the least chunk."""
        memory_model = self.memory_model
        activations = memory_model.step(1, self.width) + self._chunk(tokens, LEAST)
        length = tokens + 2 * self.width
        held = memory_model.row(length) + memory_model.copying([length]) + memory_model.stretch(tokens, LEAST)
        return self.budget.holding("weights") + held + activations + memory_model.pictures(patches)

    # -- on the engine's thread

    def expected_length(self, row: Row) -> int:
        """How long the row is likely to become."""
        said = len(row.generated) + GROWTH
        expected = self.outputs.expected
        output = said if said > expected else expected
        return len(row.prompt.token_ids) + (row.limit if row.limit < output else output)

    def fits(self, running: Sequence[Row], row: Row, chunk: int = LEAST) -> bool:
        """May `row` run beside the others? Prefixes give way, and chunks may shrink to `chunk`."""
        if not running and self._alone(len(row.context), row.patches) <= self.budget.usable:
            return True  # it may outgrow the memory later, and nobody can know
        return self.promised([*running, row], chunk) + self.budget.holding(*REQUEST_PARTS) <= self.budget.usable

    def promised(self, rows: Sequence[Row], chunk: int) -> int:
        """Bytes in use when all these have become as long as they are likely to."""
        return (
            self._base(rows)
            + self._batch([self.expected_length(row) for row in rows], rows)
            + self._activations(rows, chunk)
        )

    def left(self, rows: Sequence[Row]) -> int:
        """What the next steps of the rows that run leave for reading prompts; less than nothing: they do not fit."""
        return self.budget.usable - self.used(rows, 0, AHEAD)

    def outgrown(self, row: Row, chunk: int = LEAST) -> bool:
        """Is there no room for another step of a row that is alone, even so?"""
        return self.used([row], chunk, 2 * self.width) > self.budget.usable

    def used(self, rows: Sequence[Row], chunk: int, ahead: int = 0) -> int:
        """Bytes in use now; or when all have read their prompts, and have become longer by `ahead`."""
        lengths = [self._length(row, ahead) for row in rows]
        return self._base(rows) + self._batch(lengths, rows) + self._activations(rows, chunk)

    def chunk(self, rows: Sequence[Row], wanted: int, left: int) -> int:
        """As many prompt tokens of `wanted` as what is `left` allows in one step, but not fewer than the least."""
        least = min(LEAST, wanted)
        size = wanted
        while size > least and self.reading(rows, size) > left:
            size //= 2
        return max(size, least)

    def reading(self, rows: Sequence[Row], chunk: int) -> int:
        """A chunk of the longest prompt still to be read; and what chunks leave in windows until their rows decode."""
        prompts = [len(row.context) for row in rows if row.remaining]
        if not prompts or not chunk:
            return 0
        stretch = sum(self.memory_model.stretch(prompt, chunk) for prompt in prompts)
        return self._chunk(max(prompts), chunk) + stretch

    def holding(self, row: Row) -> int:
        """What a row takes, when it has become as long as it is likely to."""
        return self.memory_model.row(self.expected_length(row))

    def account(self, rows: Sequence[Row], chunk: int) -> None:
        """Write down what rows hold and what they were promised: prefixes give way at once."""
        groups = self._groups(rows)
        now = self.memory_model.batch([row.length for row in rows], groups)
        later = self.memory_model.batch([self.expected_length(row) for row in rows], groups)
        self.budget.hold("rows", now)
        self.budget.hold("promised", max(later - now, 0))
        lengths = [self.expected_length(row) for row in rows]
        copying = self.memory_model.copying(lengths, groups)
        self.low_memory = self.memory_model.copying(lengths, groups, at_once=True) - copying > self.spare
        self.budget.hold("activations", self._activations(rows, chunk) + copying)
        self.budget.hold("pictures of rows", self._pictures(rows))
        self.budget.hold("draft", self._scoring(rows))

    @property
    def spare(self) -> int:
        """What a step may take for a moment without having said so: a part of the headroom, which is for more."""
        return self.budget.headroom // 4

    def lingers(self, ended: Sequence[Row]) -> bool:
        """Do rows that have ended hold more than that, as long as they have not left the batch?"""
        return sum(self.memory_model.row(row.length) for row in ended) > self.spare

    def held(self, rows: Sequence[Row]) -> int:
        """What we think is held between two steps, with nothing promised to anybody."""
        memory_model = self.memory_model
        together = memory_model.batch([row.length for row in rows if not row.remaining])
        apart = sum(memory_model.row(row.length) for row in rows if row.remaining)
        pictures = sum(memory_model.patch * size for row in rows if row.remaining for size in row.patches)
        return (
            self.budget.holding("weights", "prefixes", "copies", "draft prefixes", "pictures")
            + together
            + apart
            + int(pictures)
        )

    def stats(self) -> dict[str, Any]:
        budget = self.budget
        return {
            "limit_bytes": budget.limit,
            "headroom_bytes": budget.headroom,
            "parts": budget.held(),
            "free_bytes": max(budget.usable - sum(budget.held().values()), 0),
            "expected_output_tokens": self.outputs.expected,
        }

    # -- inside

    def _batch(self, lengths: Sequence[int], rows: Sequence[Row]) -> int:
        groups = self._groups(rows)
        return self.memory_model.batch(lengths, groups) + self.memory_model.copying(lengths, groups)

    def _base(self, rows: Sequence[Row]) -> int:
        return self.budget.holding("weights") + self._pictures(rows) + self._scoring(rows)

    def _scoring(self, rows: Sequence[Row]) -> int:
        """One prompt is scored at a time."""
        if self.scoring is None:
            return 0
        prompts = [len(row.prompt.token_ids) for row in rows if not row.decided]
        return self.scoring(max(prompts)) if prompts else 0

    def _pictures(self, rows: Sequence[Row]) -> int:
        sizes = [size for row in rows if row.patches and row.remaining for size in row.patches]
        return self.memory_model.pictures(sizes) if sizes else 0

    def _activations(self, rows: Sequence[Row], chunk: int) -> int:
        """A decode step of all rows, and a chunk of a prompt that is still read."""
        return self.memory_model.step(len(rows), self.width) + self.reading(rows, chunk)

    def _chunk(self, prompt: int, chunk: int) -> int:
        return self.memory_model.chunk(min(chunk, prompt), prompt)

    def _groups(self, rows: Sequence[Row]) -> list[list[int]] | None:
        memory_model = self.memory_model
        if memory_model.grouping.skew == 0:
            return None
        return memory_model.groups([(row.group, max(row.length, len(row.context) - 1)) for row in rows])

    @staticmethod
    def _length(row: Row, ahead: int) -> int:
        length = row.length
        if not ahead:
            return length
        longest = len(row.prompt.token_ids) + row.limit
        return min(max(length, len(row.context)) + ahead, longest)
