"""How many prompt tokens a step may take so that running streams keep their pace. Plain numbers; no clock of its own.

A step with prefill takes what decoding takes, plus so much for each prompt token. Both are learnt from the steps
themselves; what is learnt rises at once and falls slowly, so that the slow steps, not the average one, keep the target.
"""

from __future__ import annotations

LEAST = 32  # prompt tokens a step takes at least: less would pay the price of a pass for nothing
RISE, FALL = 0.5, 0.1  # weight of a new measurement above, and below, what is known


class Pace:
    """`target`: seconds between two tokens of a stream, None: no matter. `most`: prompt tokens a step takes at all."""

    def __init__(self, target: float | None, most: int) -> None:
        self.target = target
        self.most = most
        self._step: float | None = None  # seconds of a step that only decodes
        self._token: float | None = None  # seconds that each prompt token adds
        self.squeezed = 0  # times that the chunk was halved for want of memory, and not grown again

    @property
    def ceiling(self) -> int:
        return max(self.most >> self.squeezed, min(LEAST, self.most))

    def chunk(self, decoding: bool) -> int:
        """Prompt tokens for the next step."""
        if not decoding or self.target is None or self._token is None:
            return self.ceiling
        left = self.target - (self._step or 0.0)
        fits = int(max(left, 0.0) / self._token) // LEAST * LEAST
        return min(max(fits, LEAST), self.ceiling)

    def timed(self, tokens: int, seconds: float) -> None:
        """A step in which streams were running, with so many prompt tokens, took so long."""
        if tokens == 0:
            self._step = _follow(self._step, seconds)
        else:
            self._token = _follow(self._token, max(seconds - (self._step or 0.0), 1e-6) / tokens)

    def squeeze(self) -> None:
        """Memory is short: take less at a time."""
        if self.ceiling > LEAST:
            self.squeezed += 1

    def relax(self) -> None:
        """Memory has been enough for a while."""
        self.squeezed = max(self.squeezed - 1, 0)


def _follow(known: float | None, seen: float) -> float:
    if known is None:
        return seen
    return known + (RISE if seen > known else FALL) * (seen - known)
