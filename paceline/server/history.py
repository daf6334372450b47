"""What happened in the last minutes, in slots of a few seconds: tokens, cache hits, drafts, and percentiles of times.

Filled from the deltas of requests, on the event loop. Nothing runs when nothing happens, and a slot without events does
not exist.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

SLOT_SECONDS = 5
SLOTS = 120  # ten minutes
SHORTEST = 0.0005  # seconds: the first bucket of a distribution
PER_DOUBLING = 4  # buckets: a percentile is off by a tenth at most
BOUNDS = [SHORTEST * 2 ** (bucket / PER_DOUBLING) for bucket in range(32 * PER_DOUBLING)]  # of buckets; to weeks


COUNTS = ("prompt_tokens", "cached_tokens", "generation_tokens", "accepted_tokens", "drafted_tokens", "finished")


class Distribution:
    """Times in buckets that grow by a constant factor."""

    def __init__(self) -> None:
        self._buckets: dict[int, int] = defaultdict(int)
        self._count = 0

    def add(self, seconds: float) -> None:
        self._count += 1
        self._buckets[bisect_left(BOUNDS, seconds)] += 1

    def percentile(self, share: float) -> float | None:
        """The middle of the bucket that it lies in; None where there are no times."""
        before = 0
        for bucket in sorted(self._buckets):
            before += self._buckets[bucket]
            if before >= share * self._count:
                return float(SHORTEST * 2 ** ((bucket - 0.5) / PER_DOUBLING))
        return None


@dataclass(slots=True)
class Slot:
    number: int  # slots since 1970
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generation_tokens: int = 0
    accepted_tokens: int = 0
    drafted_tokens: int = 0
    finished: int = 0
    first_token: Distribution = field(default_factory=Distribution)
    inter_token: Distribution = field(default_factory=Distribution)

    def shown(self) -> dict[str, Any]:
        return {
            "time": self.number * SLOT_SECONDS,
            **{name: getattr(self, name) for name in COUNTS},
            "first_token_ms": [_milliseconds(self.first_token.percentile(share)) for share in (0.5, 0.95)],
            "inter_token_ms": [_milliseconds(self.inter_token.percentile(share)) for share in (0.5, 0.95)],
        }


class History:
    def __init__(self) -> None:
        self._slots: deque[Slot] = deque(maxlen=SLOTS)

    def now(self) -> Slot:
        """The slot that events are counted in."""
        number = int(time.time()) // SLOT_SECONDS
        if not self._slots or self._slots[-1].number < number:
            self._slots.append(Slot(number))
        return self._slots[-1]

    def latest(self, count: int = SLOTS) -> list[dict[str, Any]]:
        """The slots of the last `count` times `SLOT_SECONDS`, in order; those without events are left out."""
        oldest = int(time.time()) // SLOT_SECONDS - count
        return [slot.shown() for slot in tuple(self._slots) if slot.number > oldest]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
