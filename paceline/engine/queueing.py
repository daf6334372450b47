"""How long requests may wait, when a refused one should come back, and how long answers are. The clock is the
caller's."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from paceline.engine.sequence import Sequence
from paceline.errors import DeadlineExceeded, QueueTimeout, Refused

DEPARTURES = 32  # that count
DEFAULT_RETRY = 5.0  # seconds, before anybody has left
MIN_RETRY, MAX_RETRY = 1, 600  # seconds
DEFAULT_OUTPUT = 256  # tokens, before any answer has ended
ANSWERS = 64  # that count
QUANTILE = 0.75  # of answers are no longer than the estimate


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds; None: no limit. `max_queue`: requests that may wait."""

    max_queue: int | None = None
    queue: float | None = None
    first_token: float | None = None
    request: float | None = None

    def exceeded(self, seq: Sequence, now: float, retry_after: int) -> Refused | None:
        """Which timeout the sequence has exceeded, if any."""
        age = now - seq.queue.arrived
        if self.request is not None and age > self.request:
            return DeadlineExceeded(f"The request took longer than the {self.request:g} s it may take.", retry_after)
        if self.first_token is not None and age > self.first_token and not seq.generated and not seq.first_delta_sent:
            return DeadlineExceeded(f"No token came within {self.first_token:g} s.", retry_after)
        if self.queue is not None and age > self.queue and not seq.siblings.started:
            return QueueTimeout(f"The request waited {self.queue:g} s and did not get its turn.", retry_after)
        return None


class DepartureRate:
    """How fast requests leave."""

    def __init__(self) -> None:
        self._departures: deque[float] = deque(maxlen=DEPARTURES)

    def departed(self, now: float) -> None:
        """A request has ended, and made room."""
        self._departures.append(now)

    def per_second(self, now: float) -> float | None:
        """None: too little is known. The longer nobody leaves, the lower the rate."""
        if len(self._departures) < 2:
            return None
        seconds = max(now - self._departures[0], 1e-3)
        return len(self._departures) / seconds

    def retry_after(self, ahead: int, now: float) -> int:
        """Whole seconds until `ahead` requests will have left."""
        rate = self.per_second(now)
        seconds = DEFAULT_RETRY if rate is None else (ahead + 1) / rate
        return min(max(math.ceil(seconds), MIN_RETRY), MAX_RETRY)


class OutputEstimate:
    """How many tokens an answer has, by the latest ones. Memory is reserved by this, never by max_tokens alone."""

    def __init__(self) -> None:
        self._lengths: deque[int] = deque([DEFAULT_OUTPUT] * 4, maxlen=ANSWERS)
        self.expected = DEFAULT_OUTPUT

    def observe(self, tokens: int) -> None:
        """An answer ended by itself or at its limit."""
        self._lengths.append(tokens)
        ranked = sorted(self._lengths)
        self.expected = max(ranked[int(QUANTILE * (len(ranked) - 1))], 1)
