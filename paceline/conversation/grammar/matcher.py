"""One row's way through a grammar: the engine's `Grammar`, on llguidance's matcher."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from paceline.errors import InvalidRequest, RequestFailed
from paceline.models.files import one_line

UNFIT = "doesn't satisfy the grammar"  # llguidance, of a token that it had not allowed


class Matcher:
    """`allowed` never raises, for a step is everybody's; what went wrong is raised by the row's own `accept`."""

    def __init__(self, matcher: LLMatcher, vocab_size: int, ends: frozenset[int], field: str | None = None) -> None:
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._ends = ends
        self._field = field  # of the request, for error messages
        self._over = False  # an end token was accepted

    def allowed(self, guesses: Sequence[int]) -> NDArray[np.bool_]:
        """After a guess that breaks the grammar, and after one that ends the answer, everything."""
        masks = np.empty((len(guesses) + 1, self._vocab_size), dtype=np.bool_)
        taken = 0
        self._fill(masks[0])
        while taken < len(guesses) and self._follows(guesses[taken]):
            taken += 1
            self._fill(masks[taken])
        masks[taken + 1 :] = True
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

    def _follows(self, guess: int) -> bool:
        if self._over or guess in self._ends or not 0 <= guess < self._vocab_size or self._matcher.is_error():
            return False
        return self._matcher.try_consume_tokens([guess]) == 1

    def _fill(self, mask: NDArray[np.bool_]) -> None:
        """A complete grammar allows end tokens only; a matcher that has failed, everything."""
        if self._over:
            mask[:] = False
            mask[list(self._ends)] = True
            return
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        if self._matcher.is_error():
            mask[:] = True
        else:
            mask[:] = np.unpackbits(bits, count=self._vocab_size, bitorder="little")

    def _failed(self) -> InvalidRequest | RequestFailed:
        """A grammar that compiles may still be too much to follow, which is found on the way."""
        error = self._matcher.get_error().replace("<non-verbose/>", "").strip()
        said = one_line(Exception(error or "no token fits it"))
        if not error or UNFIT in error:
            return RequestFailed(f"The answer could not follow its grammar: {said}")
        return InvalidRequest(f"The grammar is too complex to follow: {said}", field=self._field)
