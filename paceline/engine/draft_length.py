"""How many tokens a device proposer drafts: the length that brings the most tokens per second, as measured.

Two things are measured: the time of a step by batch size and draft length, and the acceptance rate by position in the
draft, per sequence and overall. A step with draft length k is expected to bring 1 + a1 + a1 a2 + ... tokens per
sequence; the policy takes the length with the highest sum over sequences divided by the step's time, 0 included.
Lengths that were not measured lately are probed for a few steps, more rarely the less they pay. No MLX, no clock.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paceline.cache.shape_buckets import EXACT
from paceline.stats import DraftCostModel, MethodStats, SpecDecodeStats
from paceline.types import MAX_DRAFTED, SpeculationMethod

if TYPE_CHECKING:
    from paceline.engine.sequence import Sequence

PRIOR = 0.6  # acceptance rate before anything is measured
WEIGHT = 16.0  # steps' worth of trust in the overall acceptance rate for a single sequence
FORGET = 0.97  # per step: a sequence's text changes
FORGET_ALL = 0.995
SAMPLES = 20  # step times kept for each batch size and length; their median counts
ENOUGH = 3
PROBE = 6  # steps of a probe; the first two are not representative, and are not reported
PROBE_OF_MANY = 3  # the same of a known length among many sequences: each step tries as many drafts
MANY = 8
FIRST_WAIT = 64  # steps between two probes of known lengths; doubled by those of a length with all its samples
LONGEST_WAIT = 8192
LASTS = 16  # steps that a choice holds, unless sequences come or go
FRUITLESS = 3  # probes in a row without any time before a pause
HOPE = 1.02  # another length is tried, or taken, if it promises this much more
WORTH = 1.05  # drafting must promise this much more than plain steps


class AcceptanceRecord:
    """Acceptance by position, as decayed counts."""

    def __init__(self) -> None:
        self.hits = [0.0] * MAX_DRAFTED
        self.trials = [0.0] * MAX_DRAFTED

    def add(self, drafted: int, accepted: int, forget: float) -> None:
        """Draft tokens after the first rejected one were never tried."""
        for place in range(min(drafted, accepted + 1)):
            self.trials[place] = self.trials[place] * forget + 1
            self.hits[place] = self.hits[place] * forget + (place < accepted)

    def rates(self, prior: Collection[float]) -> list[float]:
        columns = zip(self.hits, self.trials, prior, strict=True)
        return [(hits + WEIGHT * rate) / (trials + WEIGHT) for hits, trials, rate in columns]


class _BatchSize:
    """Measurements of steps of about one batch size."""

    def __init__(self) -> None:
        self.seconds: dict[int, deque[float]] = {}  # by draft length
        self.tried: dict[int, int] = {}  # by draft length: when it was last probed
        self.best = 0
        self.wait = FIRST_WAIT
        self.due = 0
        self.fruitless = 0  # probes in a row without any time
        self.next_probe = 0  # no probe before this

    def add(self, length: int, seconds: float) -> None:
        self.seconds.setdefault(length, deque(maxlen=SAMPLES)).append(seconds)

    def cost(self, length: int) -> float | None:
        """The median: a pause is not a cost, nor is what the first steps of a shape take longer."""
        times = self.seconds.get(length, ())
        return statistics.median_low(times) if len(times) >= ENOUGH else None

    def is_sure(self, length: int) -> bool:
        return len(self.seconds.get(length, ())) == SAMPLES

    @property
    def costs(self) -> dict[int, float]:
        known = {length: self.cost(length) for length in sorted(self.seconds)}
        return {length: cost for length, cost in known.items() if cost is not None}


@dataclass(slots=True)
class _Probe:
    size: int
    length: int
    left: int  # steps


class DraftLengths:
    """`choose` gives every sequence its draft length for the next step; `timed` and `verified` report the results."""

    def __init__(self, most: int = MAX_DRAFTED) -> None:
        self.most = most
        self.method: SpeculationMethod = "mtp"  # who drafts on the device
        self.buckets = EXACT
        self.steps = [0] * (MAX_DRAFTED + 1)  # decode steps by draft length
        self.drafts = self.draft_tokens = self.accepted_tokens = 0
        self.accepted_at = [0] * MAX_DRAFTED
        self.by_method: dict[SpeculationMethod, MethodStats] = {}
        self._all = AcceptanceRecord()
        self._sizes: dict[int, _BatchSize] = {}
        self._clock = 0
        self._probe: _Probe | None = None
        self._held: tuple[int, int, int] = (0, 0, -1)  # batch size, draft length, until when
        self.paying: tuple[int, ...] = ()  # lengths that pay by the last choice, best first

    # -- choosing

    def choose(self, seqs: Collection[Sequence]) -> tuple[int, ...]:
        """The draft length of each sequence in a step of all of them."""
        if seqs and all(seq.speculation.head_length == 0 for seq in seqs):
            self.steps[0] += 1
            return (0,) * len(seqs)
        free = [seq for seq in seqs if seq.speculation.head_length is None and seq.draft_is_ready]
        most = [min(seq.max_draft_length, self.most) if seq.draft_is_ready else 0 for seq in seqs]
        fixed = max(
            (min(seq.speculation.head_length or 0, each) for seq, each in zip(seqs, most, strict=True)), default=0
        )
        length = self._auto(self.size(len(seqs)), free, fixed) if free else 0
        wanted = (length if seq.speculation.head_length is None else seq.speculation.head_length for seq in seqs)
        lengths = tuple(max(0, min(pair)) for pair in zip(wanted, most, strict=True))
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
        self.paying = self._paying(here, gains)
        if best != here.best:
            here.best, here.wait, here.due = best, FIRST_WAIT, self._clock + FIRST_WAIT
        self._held = (size, best, self._clock + LASTS)
        if fixed == 0:
            other = self._worth_a_probe(here, gains)
            if other is not None:
                here.tried[other] = self._clock
                brief = size >= MANY and here.cost(other) is not None
                self._probe = _Probe(size, other, (PROBE_OF_MANY if brief else PROBE) - 1)
                return other
        return best

    def _end_probe(self, probe: _Probe) -> None:
        """A probe without any time (the steps also prefilled, or traced) is not repeated at once."""
        here = self._sizes[probe.size]
        if here.cost(probe.length) is None:
            here.fruitless += 1
            here.next_probe = self._clock + FIRST_WAIT if here.fruitless % FRUITLESS == 0 else 0
        else:
            here.fruitless = 0
        self._probe = None
        self._held = (0, 0, -1)

    def _best(self, here: _BatchSize, gains: list[float], fixed: int) -> int:
        """The best measured length at this batch size. Every step pays for `fixed`.

        Drafting must promise a little more than plain steps, and another length a little more than the current one:
        switching between equals costs more than either.
        """
        costs = {length: here.cost(max(length, fixed)) for length in self._lengths}
        known = {length: gains[length] / cost for length, cost in costs.items() if cost is not None}
        if not known:
            return min(here.best, self.most)
        best = max(known, key=lambda length: (known[length], -length))
        if best and 0 in known and known[best] < WORTH * known[0]:
            best = 0
        now = known.get(here.best, 0.0)
        pays = here.best == 0 or now >= WORTH * known.get(0, 0.0)
        return here.best if pays and known[best] < HOPE * now else best

    def _paying(self, here: _BatchSize, gains: list[float]) -> tuple[int, ...]:
        costs = here.costs
        least = WORTH * gains[0] / costs[0] if 0 in costs else 0.0
        values = {length: gains[length] / costs[length] for length in self._lengths if length and length in costs}
        return tuple(sorted((length for length in values if values[length] >= least), key=lambda each: -values[each]))

    def _worth_a_probe(self, here: _BatchSize, gains: list[float]) -> int | None:
        """Unknown lengths that may be better at once; known ones that may have changed now and then."""
        best, costs = here.best, here.costs
        if self._clock < here.next_probe:
            return None
        if best not in costs:
            return best
        if 0 not in costs:
            return 0
        now = gains[best] / costs[best]
        for length in (self._beside(max(costs), 1), self._beside(best, -1)):
            if (
                0 < length <= self.most
                and length not in costs
                and gains[length] / _expected(costs, length) > HOPE * now
            ):
                return length
        if self._clock < here.due:
            return None
        here.due = self._clock + here.wait
        if best == 0:  # acceptance is not measured any more: probe the most promising length
            here.wait = min(2 * here.wait, LONGEST_WAIT)
            drafting = {length: gains[length] / cost for length, cost in costs.items() if 0 < length <= self.most}
            return max(drafting, key=lambda length: drafting[length]) if drafting else None
        near = {0, self._beside(best, -1), self._beside(best, 1)} - {best}
        others = [length for length in near if length in costs and length <= self.most]
        if all(map(here.is_sure, others)):  # where sequences come and go, a probe may bring one sample or none
            here.wait = min(2 * here.wait, LONGEST_WAIT)
        return min(others, key=lambda length: here.tried.get(length, 0)) if others else None

    @property
    def _lengths(self) -> tuple[int, ...]:
        """The lengths to choose from."""
        return self.buckets.draft_lengths(self.most)

    def _beside(self, length: int, step: int) -> int:
        """The next longer of them, or the next shorter; the same where there is none."""
        others = [other for other in self._lengths if (other - length) * step > 0]
        return min(others, key=lambda other: abs(other - length), default=length)

    def _unknown(self, size: int) -> _BatchSize:
        """A new batch size starts with the choice of its nearest neighbour."""
        new = _BatchSize()
        new.due = self._clock + FIRST_WAIT  # what the first probes have found needs no other at once
        if self._sizes:
            new.best = self._sizes[min(self._sizes, key=lambda known: abs(known - size))].best
        return new

    def _gains(self, free: Collection[Sequence]) -> list[float]:
        """Expected tokens of a step, by draft length; as if no sequence were about to finish."""
        prior = self.rates()
        gains = [float(len(free))] * (self.most + 1)
        for seq in free:
            reach, total = 1.0, 0.0
            for length, rate in enumerate(seq.acceptance.rates(prior)[: self.most], 1):
                reach *= rate
                total += reach
                gains[length] += total
        return gains

    def expected(self, seq: Sequence, length: int) -> float:
        """Draft tokens of a sequence that are expected to be accepted, of so many."""
        reach, total = 1.0, 0.0
        for rate in seq.acceptance.rates(self.rates())[:length] if length else ():
            reach *= rate
            total += reach
        return total

    def cost(self, size: int, length: int) -> float | None:
        """Seconds of a step of this batch size, as measured."""
        here = self._sizes.get(size)
        return None if here is None else here.cost(length)

    def rates(self) -> list[float]:
        """Acceptance rate by position over all sequences, given that earlier positions were accepted."""
        rates: list[float] = []
        for hits, trials in zip(self._all.hits, self._all.trials, strict=True):
            prior = rates[-1] if rates else PRIOR
            rates.append((hits + 2 * prior) / (trials + 2))
        return rates

    def size(self, seqs: int) -> int:
        """The batch size that steps of so many sequences count for: those that cost the same share measurements."""
        return self.buckets.row_count(seqs) if self.buckets.rows else bucket(seqs)

    # -- measurements

    def timed(self, seqs: int, length: int, seconds: float) -> None:
        """A decode-only step, after one of the same shape, took this long."""
        size = self.size(seqs)
        if size not in self._sizes:
            self._sizes[size] = self._unknown(size)
        self._sizes[size].add(length, seconds)

    def verified(self, seq: Sequence, drafted: int, accepted: int, method: SpeculationMethod = "mtp") -> None:
        """Of `drafted` tokens the first `accepted` were accepted."""
        if method == self.method:  # the host's proposers count for themselves
            seq.acceptance.add(drafted, accepted, FORGET)
            self._all.add(drafted, accepted, FORGET_ALL)
        self.drafts += 1
        self.draft_tokens += drafted
        self.accepted_tokens += accepted
        self.by_method[method] = self.by_method.get(method, MethodStats()).plus(drafted, accepted)
        self.accepted_at += [0] * (accepted - len(self.accepted_at))
        for place in range(accepted):
            self.accepted_at[place] += 1

    def recount(self, before: int, after: int) -> None:
        """The step that was just chosen has another longest draft."""
        self.steps += [0] * (after + 1 - len(self.steps))
        self.steps[before] -= 1
        self.steps[after] += 1

    def stats(self, host_costs: Mapping[str, Mapping[str, float]] | None = None) -> SpecDecodeStats:
        sizes = sorted(self._sizes.copy().items())
        return SpecDecodeStats(
            num_drafts=self.drafts,
            num_draft_tokens=self.draft_tokens,
            num_accepted_tokens=self.accepted_tokens,
            num_accepted_tokens_per_pos=tuple(self.accepted_at),
            num_steps_per_draft_length=tuple(self.steps),
            methods={method: counts for method, counts in sorted(self.by_method.copy().items())},
            cost_model=DraftCostModel(
                step_ms={
                    str(size): {str(length): round(1e3 * cost, 3) for length, cost in here.costs.items()}
                    for size, here in sizes
                },
                host_step_ms=host_costs or {},
                acceptance_per_pos=tuple(round(rate, 3) for rate in self.rates()[: self.most]),
                best_draft_length={str(size): here.best for size, here in sizes},
            ),
        )


def _expected(costs: Mapping[int, float], length: int) -> float:
    """An unmeasured time: on the line through the two nearest measured lengths.

    The plain step is not on that line: the first draft token also pays for drafting and verification as such.
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
    """Batch sizes whose steps cost about the same share measurements: 1 to 4 apart, then in halves of powers of two."""
    if seqs <= 4:
        return seqs
    size = 4
    while size < seqs:
        half = size + size // 2
        if seqs <= half:
            return half
        size *= 2
    return size
