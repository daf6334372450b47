"""How fast requests leave, and so when a refused one should come back. The clock is the caller's."""

from __future__ import annotations

import math
from collections import deque

LATEST = 32  # departures that count
UNKNOWN = 5.0  # seconds to come back after, as long as nobody has left
SOONEST, LATEST_SECONDS = 1, 600


class Rate:
    def __init__(self) -> None:
        self._left: deque[float] = deque(maxlen=LATEST)

    def left(self, now: float) -> None:
        """A request has ended, and made room."""
        self._left.append(now)

    def per_second(self, now: float) -> float | None:
        """None: too little is known. A standstill counts: the longer nobody leaves, the lower the rate."""
        if len(self._left) < 2:
            return None
        seconds = max(now - self._left[0], 1e-3)
        return len(self._left) / seconds

    def retry_after(self, ahead: int, now: float) -> int:
        """Whole seconds until `ahead` requests will have left."""
        rate = self.per_second(now)
        seconds = UNKNOWN if rate is None else (ahead + 1) / rate
        return min(max(math.ceil(seconds), SOONEST), LATEST_SECONDS)
