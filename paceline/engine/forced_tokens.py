"""The grammar as a proposer: tokens that it forces (keys, quotes, braces) are drafted. No MLX.

What a grammar forces is text, and of JSON text in its usual style; the model may write other tokens or other blanks, so
a forced token is verified like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.engine.proposer import HostProposer, Offer
from paceline.types import is_forcing

if TYPE_CHECKING:
    from paceline.engine import sequence

PRIOR, WEIGHT = 0.9, 10.0  # how often forced tokens are what the model writes, before anything is known
FORGET = 0.99  # per token
OWN_WEIGHT, OWN_FORGET = 2.0, 0.9  # the same for one token: trust in the rate of all, and how fast it forgets


class GrammarProposer(HostProposer):
    method = "grammar"

    def __init__(self) -> None:
        self._hits, self._trials = PRIOR * WEIGHT, WEIGHT
        self._own: dict[int, tuple[float, float]] = {}  # by token: hits and trials

    @property
    def rate(self) -> float:
        return self._hits / self._trials

    def rate_of(self, token: int) -> float:
        """Inside a key a model has no choice; at a blank or a quote it may write another token."""
        hits, trials = self._own.get(token, (0.0, 0.0))
        return (hits + OWN_WEIGHT * self.rate) / (trials + OWN_WEIGHT)

    def offer(self, seq: sequence.Sequence) -> Offer | None:
        self._compare(seq)
        tokens = self._forced(seq)
        if not tokens:
            return None
        seq.forced = (len(seq.generated), tokens)
        return Offer(self.method, tokens, tuple(map(self.rate_of, tokens)))

    def peek(self, seq: sequence.Sequence) -> Offer | None:
        """If the step in flight writes the first forced token, the others follow."""
        tokens = self._forced(seq)
        if len(tokens) < 2:
            return None
        before, first, *others = map(self.rate_of, tokens)
        return Offer(self.method, tokens[1:], (before * first, *others))

    def _forced(self, seq: sequence.Sequence) -> tuple[int, ...]:
        if not is_forcing(seq.grammar) or seq.failure is not None:
            return ()
        return tuple(seq.grammar.forced()[: self.longest])

    def _compare(self, seq: sequence.Sequence) -> None:
        """What was forced the last time, with what the model wrote."""
        if seq.forced is None:
            return
        place, tokens = seq.forced
        seq.forced = None
        written = seq.generated[place : place + len(tokens)]
        for token, forced in zip(written, tokens, strict=False):
            self._hits = self._hits * FORGET + (token == forced)
            self._trials = self._trials * FORGET + 1
            hits, trials = self._own.get(forced, (0.0, 0.0))
            self._own[forced] = (hits * OWN_FORGET + (token == forced), trials * OWN_FORGET + 1)
            if token != forced:
                return
