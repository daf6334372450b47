"""Which sequence makes a step fail? Plain Python; tested by reporting failures to it.

A failed step is retried without its newest sequences; if that does not help, its sequences are tried in halves. One
group is on trial at a time, beside sequences that are cleared and have had a successful step without any suspect since
the last failure. A group whose step succeeds is cleared, one whose step fails is halved, and a sequence that fails
twice as the only one on trial is the culprit. A fault that does not recur clears all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from paceline.engine.sequence import Sequence

OUT_OF_MEMORY = (
    "out of memory",
    "outofmemory",
    "unable to allocate",
    "cannot allocate memory",
    "failed to allocate",
    "bad_alloc",
    "[malloc]",
    "malloc_or_wait",
    "insufficient memory",
    "maximum allowed buffer size",
    "[metal::malloc] resource limit",  # of the number of buffers
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """After a failed step: sequences that leave the batch until they are tried again, and the culprit."""

    isolate: tuple[Sequence, ...] = ()
    culprit: Sequence | None = None


class FaultIsolation:
    def __init__(self) -> None:
        self._groups: list[list[Sequence]] = []  # the first is on trial, the others wait
        self._clearing: list[Sequence] = []  # must have a step without any suspect before the next trial
        self._retrying: list[Sequence] = []  # retried once unchanged
        self._blamed: Sequence | None = None  # has failed once as the only one on trial

    @property
    def active(self) -> bool:
        """Is a fault being isolated? Then every step must be read before the next."""
        return bool(self._groups or self._retrying)

    @property
    def trial(self) -> list[Sequence]:
        return self._groups[0] if self._groups else []

    def may_run(self, seq: Sequence) -> bool:
        waiting = self._groups if self._clearing else self._groups[1:]
        return not any(seq in group for group in waiting)

    def is_suspect(self, seq: Sequence) -> bool:
        return any(seq in group for group in self._groups)

    def succeeded(self, seqs: Collection[Sequence]) -> None:
        """A step with these sequences succeeded."""
        self._retrying, self._clearing = [], []
        for seq in seqs:
            seq.proven = True
        if self._groups:
            if self._blamed in seqs:
                self._blamed = None
            self._groups[0] = [seq for seq in self._groups[0] if seq.finished is None and seq not in seqs]
            self._drop_empty()

    def failed(self, seqs: Collection[Sequence]) -> Verdict:
        """A step with these sequences failed."""
        seqs = [seq for seq in seqs if seq.finished is None]
        if not seqs:
            return Verdict()
        self._clearing = []
        tried = [seq for seq in self.trial if seq in seqs]
        if len(tried) == 1:
            return self._blame(tried[0], seqs)
        if tried:
            return self._isolate(_halves(tried), seqs)
        newest = [seq for seq in seqs if not seq.proven]
        if 0 < len(newest) < len(seqs):
            return self._isolate([newest], seqs)
        if not self._retrying:
            self._retrying = seqs
            self._clearing = [seq for seq in seqs if not self.is_suspect(seq)]
            return Verdict()
        self._retrying = []
        if len(seqs) == 1:
            return Verdict(culprit=seqs[0])
        return self._isolate(_halves(seqs), seqs)

    def _blame(self, seq: Sequence, seqs: Collection[Sequence]) -> Verdict:
        if self._blamed is seq:
            self.remove(seq)
            return Verdict(culprit=seq)
        self._blamed = seq
        return self._isolate([[seq]], seqs)

    def _isolate(self, groups: list[list[Sequence]], seqs: Collection[Sequence]) -> Verdict:
        """Try these groups next, one after another; but first a step without any suspect must succeed."""
        new = [seq for group in groups for seq in group]
        others = [[seq for seq in group if seq not in new] for group in self._groups]
        self._groups = [*groups, *others]
        self._drop_empty()
        self._retrying = []
        self._clearing = [seq for seq in seqs if not self.is_suspect(seq)]
        return Verdict(tuple(seq for group in self._groups for seq in group))

    def remove(self, seq: Sequence) -> None:
        """The sequence has ended."""
        self._blamed = None if self._blamed is seq else self._blamed
        self._clearing = [other for other in self._clearing if other is not seq]
        self._retrying = [other for other in self._retrying if other is not seq]
        if self._groups:
            self._groups = [[other for other in group if other is not seq] for group in self._groups]
            self._drop_empty()

    def _drop_empty(self) -> None:
        self._groups = [group for group in self._groups if group]


def _halves(seqs: list[Sequence]) -> list[list[Sequence]]:
    middle = (len(seqs) + 1) // 2
    return [list(seqs[:middle]), list(seqs[middle:])]


def is_out_of_memory(error: BaseException | None) -> bool:
    """Is an error, or its cause, MLX's out of memory? MLX has no type for it, only words, which differ by device."""
    seen = 0
    while error is not None and seen < 8:
        if isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in OUT_OF_MEMORY):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False
