"""How many tokens to draft: the depth that brings the most tokens a second, by what was measured on this machine.

Two things are learnt while serving. What a step costs, by rows and depth (drafting included). And how often a guess is
right, by its place in the draft, for each row and for all. A step at depth k brings 1 + a1 + a1 a2 + ... tokens of a
row; the policy takes the depth with the highest sum over rows divided by the step's cost, 0 included. Depths that were
not measured lately are probed for a few steps; the more often that does not pay, the rarer. No MLX, no clock.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paceline.engine.request import MOST_DRAFTED

if TYPE_CHECKING:
    from paceline.engine.row import Row

PRIOR = 0.6  # how often a guess is right, before anything is known
WEIGHT = 6.0  # steps' worth of trust in what other rows' guesses say about a row
FORGET = 0.97  # per step: a row's text changes
FORGET_ALL = 0.995
SAMPLES = 15  # step times kept for each (rows, depth); their median counts
ENOUGH = 3
PROBE = 5  # steps of a probe; the first one pays for the change, and its time is not told
FIRST_WAIT = 64  # steps before a depth that lost is tried again; doubled each time it loses
LONGEST_WAIT = 8192
LASTS = 8  # steps a choice holds, unless rows come or go


class Record:
    """How often guesses were right, by place: decayed counts."""

    def __init__(self) -> None:
        self.hits = [0.0] * MOST_DRAFTED
        self.trials = [0.0] * MOST_DRAFTED

    def add(self, drafted: int, accepted: int, forget: float) -> None:
        """Guesses after the first wrong one were never tried."""
        for place in range(min(drafted, accepted + 1)):
            self.trials[place] = self.trials[place] * forget + 1
            self.hits[place] = self.hits[place] * forget + (place < accepted)

    def rates(self, prior: Sequence[float]) -> list[float]:
        columns = zip(self.hits, self.trials, prior, strict=True)
        return [(hits + WEIGHT * rate) / (trials + WEIGHT) for hits, trials, rate in columns]


@dataclass(slots=True)
class _Measured:
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    wait: int = FIRST_WAIT
    due: int = 0  # the step count at which it may be probed again

    @property
    def cost(self) -> float | None:
        return statistics.median(self.seconds) if len(self.seconds) >= ENOUGH else None


@dataclass(slots=True)
class _Probe:
    rows: int
    depth: int
    left: int = PROBE


class Depths:
    """`choose` gives every row its depth for the coming step; `timed` and `verified` tell how it went."""

    def __init__(self, most: int = MOST_DRAFTED) -> None:
        self.most = most
        self.steps = [0] * (MOST_DRAFTED + 1)  # decode steps by depth
        self.drafts = self.draft_tokens = self.accepted_tokens = 0
        self.accepted_at = [0] * MOST_DRAFTED
        self._all = Record()
        self._costs: dict[int, dict[int, _Measured]] = {}
        self._clock = 0
        self._probe: _Probe | None = None
        self._held: tuple[int, int, int] = (0, 0, -1)  # rows, depth, until when

    # -- choosing

    def choose(self, rows: Sequence[Row]) -> int:
        """Sets each row's depth; returns the step's, the largest."""
        free = [row for row in rows if row.route.depth is None]
        fixed = max((min(row.route.depth or 0, row.room) for row in rows), default=0)
        depth = self._auto(len(rows), free, fixed) if free else 0
        for row in rows:
            wanted = depth if row.route.depth is None else row.route.depth
            row.depth = max(0, min(wanted, row.room, self.most))
        deepest = max((row.depth for row in rows), default=0)
        if rows:
            self.steps[deepest] += 1
        return deepest

    def _auto(self, count: int, free: Sequence[Row], fixed: int) -> int:
        self._clock += 1
        size = bucket(count)
        probe = self._probe
        if probe is not None:
            if probe.rows == size and probe.left > 0:
                probe.left -= 1
                return probe.depth
            self._probe = None
            self._held = (0, 0, -1)
        held_rows, held, until = self._held
        if held_rows == size and self._clock < until:
            return held
        best = self._best(size, free, fixed)
        self._held = (size, best, self._clock + LASTS)
        if fixed == 0:
            other = self._worth_a_probe(size, best, free)
            if other is not None:
                self._probe = _Probe(size, other, PROBE - 1)
                return other
        return best

    def _best(self, size: int, free: Sequence[Row], fixed: int) -> int:
        """Among what was measured at this size, fewer guesses where two are alike."""
        known = [depth for depth in range(self.most + 1) if self._cost(size, max(depth, fixed)) is not None]
        if not known:
            return 0
        gains = self._gains(free)
        return max(known, key=lambda depth: (gains[depth] / (self._cost(size, max(depth, fixed)) or 1.0), -depth))

    def _worth_a_probe(self, size: int, best: int, free: Sequence[Row]) -> int | None:
        costs = self._costs.setdefault(size, {})
        if self._cost(size, best) is None or best not in costs or costs[best].cost is None:
            return best  # never measured here: the plain step first
        gains = self._gains(free)
        now = gains[best] / (self._cost(size, best) or 1.0)
        hopes = []
        for depth in range(self.most + 1):
            measured = costs.setdefault(depth, _Measured())
            if depth == best:
                continue
            if self._clock < measured.due:
                continue
            expected = self._expected(size, depth)
            if measured.cost is None and (expected is None or gains[depth] / expected > 1.02 * now):
                hopes.append((abs(depth - best), depth))  # unknown and hopeful: nearest first
            elif measured.cost is not None:
                hopes.append((MOST_DRAFTED + measured.wait, depth))
        if not hopes:
            return None
        depth = min(hopes)[1]
        measured = costs[depth]
        measured.due = self._clock + measured.wait
        measured.wait = min(2 * measured.wait, LONGEST_WAIT)
        costs[best].wait = FIRST_WAIT
        return depth

    def _gains(self, free: Sequence[Row]) -> list[float]:
        """Tokens a step is expected to bring, by depth."""
        prior = self.rates()
        gains = [float(len(free))] * (self.most + 1)
        for row in free:
            reach, total = 1.0, 0.0
            for depth, rate in enumerate(row.record.rates(prior)[: self.most], 1):
                reach *= rate
                if depth <= row.room:
                    total += reach
                gains[depth] += total
        return gains

    def rates(self) -> list[float]:
        """How often the guess at each place is right, over all rows, given that those before it were."""
        rates: list[float] = []
        for hits, trials in zip(self._all.hits, self._all.trials, strict=True):
            prior = rates[-1] if rates else PRIOR
            rates.append((hits + 2 * prior) / (trials + 2))
        return rates

    def _cost(self, size: int, depth: int) -> float | None:
        measured = self._costs.get(size, {}).get(depth)
        return measured.cost if measured is not None else None

    def _expected(self, size: int, depth: int) -> float | None:
        """A cost that was not measured: on the line through the two nearest depths that were."""
        known = [(abs(d - depth), d, m.cost) for d, m in self._costs.get(size, {}).items() if m.cost is not None]
        if len(known) < 2:
            return None
        (_, d1, c1), (_, d2, c2) = sorted(known)[:2]
        return max(c1 + (c2 - c1) * (depth - d1) / (d2 - d1), 0.8 * min(c1, c2))

    # -- learning

    def timed(self, rows: int, depth: int, seconds: float) -> None:
        """A step of decoding alone, after one of its own kind, took this long."""
        self._costs.setdefault(bucket(rows), {}).setdefault(depth, _Measured()).seconds.append(seconds)

    def verified(self, row: Row, drafted: int, accepted: int) -> None:
        """Of a row's `drafted` guesses the first `accepted` were right."""
        row.record.add(drafted, accepted, FORGET)
        self._all.add(drafted, accepted, FORGET_ALL)
        self.drafts += 1
        self.draft_tokens += drafted
        self.accepted_tokens += accepted
        for place in range(accepted):
            self.accepted_at[place] += 1

    def stats(self) -> dict[str, Any]:
        costs = {
            str(size): {str(d): round(1e3 * m.cost, 3) for d, m in sorted(by.items()) if m.cost is not None}
            for size, by in sorted(self._costs.copy().items())
        }
        return {
            "drafts": self.drafts,
            "draft_tokens": self.draft_tokens,
            "accepted_tokens": self.accepted_tokens,
            "accepted_per_position": list(self.accepted_at),
            "depths": list(self.steps),
            "cost_model": {
                "step_ms_by_rows_and_depth": costs,
                "acceptance_by_position": [round(rate, 3) for rate in self.rates()[: self.most]],
                "depth_now": self._held[1],
            },
        }


def bucket(rows: int) -> int:
    """Row counts whose steps cost about the same are learnt together: 1 to 4 apart, then in halves of powers of two."""
    if rows <= 4:
        return rows
    size = 4
    while size < rows:
        half = size + size // 2
        if rows <= half:
            return half
        size *= 2
    return size
