"""Whether a prompt waits for another to share its prefill pass. No MLX, no clock of its own."""

from __future__ import annotations

from collections import deque

HOST_BOUND = 0.9  # of a step: a host that works longer sets the pace, and not the device
WEIGHT = 0.02  # of a step in that estimate
MOST_WAIT = 0.08  # seconds that a prompt waits for another
LEAST_ROWS = 16  # that decode meanwhile: among fewer, a row that stays empty costs more than a pass
ARRIVALS = 8  # over which the time between two is averaged
MIXED_WIDTH = 1024  # tokens of a prompt that shares a pass with wider or narrower ones


class PrefillCompany:
    """A pass has as many launches for two prompts as for one. Where the host's launches set the pace, and not the
    device, two short prompts in a pass cost hardly more than one; so one waits for the next if others come often."""

    def __init__(self) -> None:
        self._busy = 0.0  # the share of steps in which the host works; at first it is not known
        self._arrivals: deque[float] = deque(maxlen=ARRIVALS + 1)

    def arrived(self, now: float) -> None:
        self._arrivals.append(now)

    def observe(self, seconds: float, busy: float) -> None:
        """A step took so long, and the host worked so long for it."""
        self._busy += WEIGHT * (min(busy / max(seconds, 1e-9), 1.0) - self._busy)

    @property
    def pays(self) -> bool:
        """Do prompts of different widths share passes, for all their padding?"""
        return self._busy > HOST_BOUND

    def is_expected(self, rows: int, waited: float) -> bool:
        """Does a prompt that has waited so long wait for another, while so many rows decode?"""
        if not self.pays or rows < LEAST_ROWS or len(self._arrivals) <= ARRIVALS:
            return False
        between = (self._arrivals[-1] - self._arrivals[0]) / ARRIVALS
        return between < MOST_WAIT and waited < min(2 * between, MOST_WAIT)
