"""How long answers are, learnt from the latest ones. Rows are priced by it, never by max_tokens alone."""

from __future__ import annotations

from collections import deque

PRIOR = 256  # tokens, as long as nothing is known
LATEST = 64  # answers that count
SHARE = 0.75  # of them are no longer than what is expected


class Outputs:
    def __init__(self) -> None:
        self._lengths: deque[int] = deque([PRIOR] * 4, maxlen=LATEST)
        self._expected = PRIOR

    def learn(self, tokens: int) -> None:
        """An answer ended by itself or at its limit."""
        self._lengths.append(tokens)
        ranked = sorted(self._lengths)
        self._expected = max(ranked[int(SHARE * (len(ranked) - 1))], 1)

    @property
    def expected(self) -> int:
        return self._expected
