"""How many prompt tokens a step may take, so that running streams keep their pace. No MLX, no clock of its own."""

from __future__ import annotations

MIN_CHUNK = 32  # prompt tokens: a smaller chunk pays for a whole pass and brings little
RISE, FALL = 0.5, 0.1  # weight of a new measurement above, and below, the estimate
SPARSE_SHARE = 0.2  # of the time, for chunks of sparse prefill while streams run


class PrefillBudget:
    """`target`: seconds between two tokens of a stream, None: unlimited. `max_chunk`: prompt tokens a step takes at
    most.

    A step with prefill takes the time of a decode step, and so much more for each prompt token. Both are estimated from
    the steps themselves. Estimates rise at once and fall slowly, so that slow steps keep the target too.
    """

    def __init__(self, target: float | None, max_chunk: int) -> None:
        self.target = target
        self.max_chunk = max_chunk
        self._step_seconds: float | None = None  # of a step that only decodes
        self._token_seconds: float | None = None  # that each prompt token adds
        self.halvings = 0  # of the chunk, after out of memory

    @property
    def ceiling(self) -> int:
        return max(self.max_chunk >> self.halvings, min(MIN_CHUNK, self.max_chunk))

    def chunk(self, decoding: bool) -> int:
        """Prompt tokens for the next step."""
        if not decoding or self.target is None or self._token_seconds is None:
            return self.ceiling
        left = self.target - (self._step_seconds or 0.0)
        fits = int(max(left, 0.0) / self._token_seconds) // MIN_CHUNK * MIN_CHUNK
        return min(max(fits, MIN_CHUNK), self.ceiling)

    def observe(self, tokens: int, seconds: float) -> None:
        """A step in which streams were running, with so many prompt tokens, took so long."""
        if tokens == 0:
            self._step_seconds = _smooth(self._step_seconds, seconds)
        else:
            extra = max(seconds - (self._step_seconds or 0.0), 1e-6)
            self._token_seconds = _smooth(self._token_seconds, extra / tokens)

    def shrink(self) -> None:
        """Out of memory: halve the chunk."""
        if self.ceiling > MIN_CHUNK:
            self.halvings += 1

    def grow(self) -> None:
        """Memory has sufficed for a while."""
        self.halvings = max(self.halvings - 1, 0)


class SparseBudget:
    """The share of time that sparse prefill may take from streams.

    A chunk of scoring, or of the sparse prefill behind it, stalls every stream while it runs. After each chunk streams
    have time for themselves, in proportion."""

    def __init__(self, share: float = SPARSE_SHARE) -> None:
        self.share = share
        self.in_flight = 0  # chunks whose time is not known yet
        self._owed = 0.0  # seconds, to the streams
        self._now = 0.0

    def is_spent(self, now: float) -> bool:
        """Do the streams have the next step for themselves?"""
        if not self.in_flight:
            self._owed = max(self._owed - max(now - self._now, 0.0), 0.0)
        self._now = now
        return self.in_flight > 0 or self._owed > 0.0

    def started(self) -> None:
        """A chunk was submitted beside streams."""
        self.in_flight += 1

    def finished(self, seconds: float, now: float) -> None:
        """The chunk is done, and stalled the streams for so long."""
        self.in_flight -= 1
        self._owed += seconds * (1 - self.share) / self.share
        self._now = now


def _smooth(estimate: float | None, seen: float) -> float:
    if estimate is None:
        return seen
    return estimate + (RISE if seen > estimate else FALL) * (seen - estimate)
