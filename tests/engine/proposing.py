"""Proposers for tests: one that knows the answer, and errs as often as it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from paceline.engine import sequence
from paceline.engine.proposer import HostProposer, Offer
from paceline.types import SpeculationMethod


class Oracle(HostProposer):
    """Offers what a sequence will say, of any length up to the longest, with a wrong token in some offers. So every
    number of accepted tokens occurs at every length of a draft."""

    def __init__(
        self,
        answers: Mapping[str, Sequence[int]],
        seed: int = 0,
        *,
        wrong: float = 0.5,
        silent: float = 0.2,
        method: SpeculationMethod = "lookup",
        vocab: int = 480,
    ) -> None:
        self.method = method
        self.answers = dict(answers)
        self.random = np.random.default_rng(seed)
        self.wrong, self.silent, self.vocab = wrong, silent, vocab
        self.offered: list[int] = []

    def offer(self, seq: sequence.Sequence) -> Offer | None:
        known = self.answers.get(str(seq.id))
        done = len(seq.generated)
        length = int(self.random.integers(1, self.longest + 1))
        if known is None or self.random.random() < self.silent or done >= len(known):
            return None
        assert list(known[:done]) == seq.generated, "an offer is made for tokens that were all read"
        tokens = list(known[done : done + length])
        if self.random.random() < self.wrong:
            place = int(self.random.integers(0, len(tokens)))
            tokens[place] = (tokens[place] + 1 + int(self.random.integers(0, 9))) % self.vocab
        self.offered.append(len(tokens))
        return Offer(self.method, tuple(tokens), (0.99,) * len(tokens))

    def peek(self, seq: sequence.Sequence) -> Offer | None:
        """At random: a step may be read early, or not, whatever comes of it."""
        if str(seq.id) not in self.answers or self.random.random() < self.silent:
            return None
        return Offer(self.method, (0,) * 8, (0.99,) * 8)
