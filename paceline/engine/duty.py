"""How much of the time long prompts that are read sparsely may take from streams that run. No MLX.

A chunk of scoring, or of the sparse prefill behind it, holds up every stream for as long as it takes. After each chunk
the streams are owed time for themselves, so that prompts never take more than a share of it.
"""

from __future__ import annotations

SHARE = 0.2  # of the time, for chunks: streams keep the rest of their pace


class Duty:
    def __init__(self, share: float = SHARE) -> None:
        self.share = share
        self.under_way = 0  # chunks whose time is not known yet
        self._owed = 0.0
        self._now = 0.0

    def rests(self, now: float) -> bool:
        """Do the streams have the next step for themselves?"""
        if not self.under_way:
            self._owed = max(self._owed - max(now - self._now, 0.0), 0.0)
        self._now = now
        return self.under_way > 0 or self._owed > 0.0

    def begun(self) -> None:
        """A chunk was submitted beside streams."""
        self.under_way += 1

    def took(self, seconds: float, now: float) -> None:
        """It is done, and held up the streams for so long."""
        self.under_way -= 1
        self._owed += seconds * (1 - self.share) / self.share
        self._now = now
