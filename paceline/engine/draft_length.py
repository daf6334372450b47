"""How many tokens to draft: the depth that brings the most tokens a second, by what was measured on this machine.

Two things are learnt while serving. What a step costs, by sequences and depth (drafting included). And how often a
guess is right, by its place in the draft, for each sequence and for all. A step at depth k brings 1 + a1 + a1 a2 + ...
tokens of a sequence; the policy takes the depth with the highest sum over sequences divided by the step's cost, 0
included. Depths that were not measured lately are probed for a few steps; the more often that does not pay, the rarer.
No MLX, no clock.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paceline.stats import DraftCostModel, SpecDecodeStats
from paceline.types import MOST_DRAFTED

if TYPE_CHECKING:
    from paceline.engine.sequence import Sequence

PRIOR = 0.6  # how often a guess is right, before anything is known
WEIGHT = 16.0  # steps' worth of trust in what other sequences' guesses say about a sequence
FORGET = 0.97  # per step: a sequence's text changes
FORGET_ALL = 0.995
SAMPLES = 20  # step times kept for each (rows, depth); their mean counts, but for the longest of them
ENOUGH = 3
PROBE = 6  # steps of a probe; the first two pay for the change, and their times are not told
FIRST_WAIT = 64  # steps between two probes of what is known; doubled each time nothing comes of it
LONGEST_WAIT = 8192
LASTS = 16  # steps a choice holds, unless sequences come or go
FRUITLESS = 3  # probes in a sequence that bring no times before there is a pause
HOPE = 1.02  # an unknown depth is tried, and a known one taken, if it promises this much more
WORTH = 1.05  # drafting must promise this much more than plain steps


class AcceptanceRecord:
    """How often guesses were right, by place: decayed counts."""

    def __init__(self) -> None:
        self.hits = [0.0] * MOST_DRAFTED
        self.trials = [0.0] * MOST_DRAFTED

    def add(self, drafted: int, accepted: int, forget: float) -> None:
        """Guesses after the first wrong one were never tried."""
        for place in range(min(drafted, accepted + 1)):
            self.trials[place] = self.trials[place] * forget + 1
            self.hits[place] = self.hits[place] * forget + (place < accepted)

    def rates(self, prior: Collection[float]) -> list[float]:
        columns = zip(self.hits, self.trials, prior, strict=True)
        return [(hits + WEIGHT * rate) / (trials + WEIGHT) for hits, trials, rate in columns]


class _BatchSize:
    """What is known about steps of about so many sequences."""

    def __init__(self) -> None:
        self.seconds: dict[int, deque[float]] = {}  # by depth
        self.tried: dict[int, int] = {}  # by depth: when it was last probed
        self.best = 0
        self.wait = FIRST_WAIT
        self.due = 0
        self.fruitless = 0  # probes in a sequence that brought no times
        self.patience = 0  # no probe before this

    def add(self, length: int, seconds: float) -> None:
        self.seconds.setdefault(length, deque(maxlen=SAMPLES)).append(seconds)

    def cost(self, length: int) -> float | None:
        times = sorted(self.seconds.get(length, ()))
        if len(times) < ENOUGH:
            return None
        return statistics.fmean(times[: max(ENOUGH, len(times) - len(times) // 7)])  # a pause is not a cost

    @property
    def costs(self) -> dict[int, float]:
        known = {length: self.cost(length) for length in sorted(self.seconds)}
        return {length: cost for length, cost in known.items() if cost is not None}


@dataclass(slots=True)
class _Probe:
    size: int
    length: int
    left: int = PROBE - 1


class DraftLengths:
    """`choose` gives every sequence its depth for the coming step; `timed` and `verified` tell how it went."""

    def __init__(self, most: int = MOST_DRAFTED) -> None:
        self.most = most
        self.steps = [0] * (MOST_DRAFTED + 1)  # decode steps by depth
        self.drafts = self.draft_tokens = self.accepted_tokens = 0
        self.accepted_at = [0] * MOST_DRAFTED
        self._all = AcceptanceRecord()
        self._sizes: dict[int, _BatchSize] = {}
        self._clock = 0
        self._probe: _Probe | None = None
        self._held: tuple[int, int, int] = (0, 0, -1)  # size, depth, until when

    # -- choosing

    def choose(self, seqs: Collection[Sequence]) -> tuple[int, ...]:
        """How many tokens each of these is to draft in a step of them all."""
        free = [seq for seq in seqs if seq.speculation.draft_length is None]
        fixed = max(
            (min(seq.speculation.draft_length or 0, seq.max_draft_length, self.most) for seq in seqs), default=0
        )
        length = self._auto(bucket(len(seqs)), free, fixed) if free else 0
        wanted = (length if seq.speculation.draft_length is None else seq.speculation.draft_length for seq in seqs)
        lengths = tuple(
            max(0, min(each, seq.max_draft_length, self.most)) for each, seq in zip(wanted, seqs, strict=True)
        )
        if seqs:
            self.steps[max(lengths)] += 1
        return lengths

    def _auto(self, size: int, free: Collection[Sequence], fixed: int) -> int:
        self._clock += 1
        probe = self._probe
        if probe is not None:
            if probe.size == size and probe.left > 0:
                probe.left -= 1
                return probe.length
            self._end_probe(probe)
        held_size, held, until = self._held
        if held_size == size and self._clock < until:
            return held
        if size not in self._sizes:
            self._sizes[size] = self._unknown(size)
        here = self._sizes[size]
        gains = self._gains(free)
        best = self._best(here, gains, fixed)
        if best != here.best:
            here.best, here.wait, here.due = best, FIRST_WAIT, self._clock + FIRST_WAIT
        self._held = (size, best, self._clock + LASTS)
        if fixed == 0:
            other = self._worth_a_probe(here, gains)
            if other is not None:
                here.tried[other] = self._clock
                self._probe = _Probe(size, other)
                return other
        return best

    def _end_probe(self, probe: _Probe) -> None:
        """One that brought no times (steps were not alone, or not steady yet) is not repeated at once for ever."""
        here = self._sizes[probe.size]
        if here.cost(probe.length) is None:
            here.fruitless += 1
            here.patience = self._clock + FIRST_WAIT if here.fruitless % FRUITLESS == 0 else 0
        else:
            here.fruitless = 0
        self._probe = None
        self._held = (0, 0, -1)

    def _best(self, here: _BatchSize, gains: list[float], fixed: int) -> int:
        """Among what was measured at this size. Every step pays for `fixed`.

        Drafting has to promise a little more than plain steps do, and another depth a little more than the one we
        have: where two are alike, going to and fro between them costs more than either.
        """
        costs = {length: here.cost(max(length, fixed)) for length in range(self.most + 1)}
        known = {length: gains[length] / cost for length, cost in costs.items() if cost is not None}
        if not known:
            return min(here.best, self.most)
        best = max(known, key=lambda length: (known[length], -length))
        if best and 0 in known and known[best] < WORTH * known[0]:
            best = 0
        now = known.get(here.best, 0.0)
        pays = here.best == 0 or now >= WORTH * known.get(0, 0.0)
        return here.best if pays and known[best] < HOPE * now else best

    def _worth_a_probe(self, here: _BatchSize, gains: list[float]) -> int | None:
        """What is not known and may be better, at once; what is known and may have changed, now and then."""
        best, costs = here.best, here.costs
        if self._clock < here.patience:
            return None
        if best not in costs:
            return best
        if 0 not in costs:
            return 0
        now = gains[best] / costs[best]
        for length in (max(costs) + 1, best - 1):
            if (
                0 < length <= self.most
                and length not in costs
                and gains[length] / _expected(costs, length) > HOPE * now
            ):
                return length
        if self._clock < here.due:
            return None
        here.due = self._clock + here.wait
        here.wait = min(2 * here.wait, LONGEST_WAIT)
        if best == 0:  # guesses are not seen any more: look at the most promising ones
            drafting = {length: gains[length] / cost for length, cost in costs.items() if 0 < length <= self.most}
            return max(drafting, key=lambda length: drafting[length]) if drafting else None
        others = [length for length in {0, best - 1, best + 1} if length in costs and length <= self.most]
        return min(others, key=lambda length: here.tried.get(length, 0)) if others else None

    def _unknown(self, size: int) -> _BatchSize:
        """A size seen for the first time starts where its nearest neighbour is."""
        new = _BatchSize()
        if self._sizes:
            new.best = self._sizes[min(self._sizes, key=lambda known: abs(known - size))].best
        return new

    def _gains(self, free: Collection[Sequence]) -> list[float]:
        """Tokens a step is expected to bring, by depth; as if no sequence were about to end, for others will follow
        it."""
        prior = self.rates()
        gains = [float(len(free))] * (self.most + 1)
        for seq in free:
            reach, total = 1.0, 0.0
            for length, rate in enumerate(seq.acceptance.rates(prior)[: self.most], 1):
                reach *= rate
                total += reach
                gains[length] += total
        return gains

    def rates(self) -> list[float]:
        """How often the guess at each place is right, over all sequences, given that those before it were."""
        rates: list[float] = []
        for hits, trials in zip(self._all.hits, self._all.trials, strict=True):
            prior = rates[-1] if rates else PRIOR
            rates.append((hits + 2 * prior) / (trials + 2))
        return rates

    # -- learning

    def timed(self, seqs: int, length: int, seconds: float) -> None:
        """A step of decoding alone, after one of its own kind, took this long."""
        size = bucket(seqs)
        if size not in self._sizes:
            self._sizes[size] = self._unknown(size)
        self._sizes[size].add(length, seconds)

    def verified(self, seq: Sequence, drafted: int, accepted: int) -> None:
        """Of a sequence's `drafted` guesses the first `accepted` were right."""
        seq.acceptance.add(drafted, accepted, FORGET)
        self._all.add(drafted, accepted, FORGET_ALL)
        self.drafts += 1
        self.draft_tokens += drafted
        self.accepted_tokens += accepted
        for place in range(accepted):
            self.accepted_at[place] += 1

    def stats(self) -> SpecDecodeStats:
        sizes = sorted(self._sizes.copy().items())
        return SpecDecodeStats(
            num_drafts=self.drafts,
            num_draft_tokens=self.draft_tokens,
            num_accepted_tokens=self.accepted_tokens,
            num_accepted_tokens_per_pos=tuple(self.accepted_at),
            num_steps_per_draft_length=tuple(self.steps),
            cost_model=DraftCostModel(
                step_ms={
                    str(size): {str(depth): round(1e3 * cost, 3) for depth, cost in here.costs.items()}
                    for size, here in sizes
                },
                acceptance_per_pos=tuple(round(rate, 3) for rate in self.rates()[: self.most]),
                best_draft_length={str(size): here.best for size, here in sizes},
            ),
        )


def _expected(costs: Mapping[int, float], length: int) -> float:
    """A cost that was not measured: on the line through the two nearest depths that were.

    The plain step is not on that line: the first guess also pays for all that makes a round a round.
    """
    known = sorted((known for known in costs if known), key=lambda known: abs(known - length))
    if not known:
        return costs[0]
    if len(known) == 1:
        return 1.1 * costs[known[0]]
    one, two = known[:2]
    slope = (costs[two] - costs[one]) / (two - one)
    return max(costs[one] + slope * (length - one), 0.8 * min(costs[one], costs[two]))


def bucket(seqs: int) -> int:
    """Row counts whose steps cost about the same are learnt together: 1 to 4 apart, then in halves of powers of two."""
    if seqs <= 4:
        return seqs
    size = 4
    while size < seqs:
        half = size + size // 2
        if seqs <= half:
            return half
        size *= 2
    return size
