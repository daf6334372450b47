"""One row's way through a grammar: the engine's `Grammar`, on llguidance's matcher."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from paceline.errors import RequestFailed
from paceline.models.files import one_line


class Matcher:
    """`allowed` never raises, for a step is everybody's; what went wrong is raised by the row's own `accept`."""

    def __init__(self, matcher: LLMatcher, vocab_size: int, ends: frozenset[int]) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._ends = ends
        self._over = False  # an end token was accepted

    def allowed(self, guesses: Sequence[int]) -> NDArray[np.bool_]:
        """After a guess that breaks the grammar, and after one that ends the answer, everything."""
        masks = np.ones((len(guesses) + 1, self._vocab_size), dtype=np.bool_)
        if self._over:
            masks[0] = False
            masks[0, list(self._ends)] = True
            return masks
        self._fill(masks[0])
        taken = 0
        for place, guess in enumerate(guesses, start=1):
            if guess in self._ends or not 0 <= guess < self._vocab_size or self._matcher.is_error():
                break
            if self._matcher.try_consume_tokens([guess]) == 0:
                break
            taken += 1
            self._fill(masks[place])
        if taken:
            self._matcher.rollback(taken)
        return masks

    def accept(self, token: int) -> None:
        if self._matcher.is_error():
            raise self._failed()
        if token in self._ends:
            if not self._over and not self._matcher.is_accepting():
                raise RequestFailed("The answer was ended before its grammar was complete.")
            self._over = True
        elif self._over or not 0 <= token < self._vocab_size or not self._matcher.consume_token(token):
            raise self._failed()

    def _fill(self, mask: NDArray[np.bool_]) -> None:
        """A complete grammar allows end tokens only. In a matcher that has failed everything stays allowed."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        if not self._matcher.is_error():
            mask[:] = np.unpackbits(bits, count=self._vocab_size, bitorder="little")

    def _failed(self) -> RequestFailed:
        said = one_line(Exception(self._matcher.get_error().replace("<non-verbose/>", ""))) or "no token fits it"
        return RequestFailed(f"The answer could not follow its grammar: {said}")
