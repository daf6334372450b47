"""Which proposer drafts for each sequence of a step, and how many tokens: what brings the most tokens per second.

Device proposers draft by the lengths of engine/draft_length. Here offers of the host's proposers compete with those: a
step with offers is expected to bring, for each sequence, 1 + r1 + r1 r2 + ... tokens, and its time is measured by batch
size and longest draft. Every row of a step pays for the longest draft, so lengths come from a short table. No MLX.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paceline.engine.draft_length import WORTH, DraftLengths
from paceline.engine.proposer import NO_DRAFT, Draft, HostProposer, Offer
from paceline.types import LONGEST_DRAFT, MOST_DRAFTED, SpeculationMethod

if TYPE_CHECKING:
    from paceline.engine import sequence

LENGTHS = (1, 2, 3, 5, 8, 16, 32)  # the longest draft of a step
SLOPE = 0.04  # of a plain step's time that each further draft token takes, before it is measured
SPARING = 1.05  # times a step without offers: what the drafts of a few grammars may cost the other sequences
PROMISING = 1.3  # times the tokens of a step without offers: worth another measurement now and then
FIRST_WAIT, LONGEST_WAIT = 16, 4096  # promising offers that are declined before one is taken; doubled each time
SAMPLES = 7  # step times kept for each batch size and length: their median counts
STALE = 32  # steps after which one step's time counts for less; doubled by each further time


class _BatchSize:
    """Steps of about one batch size that began when all tokens before were read."""

    def __init__(self) -> None:
        self.seconds: dict[int, deque[float]] = {}  # by longest draft; 0: plain steps
        self.timed: dict[int, int] = {}  # by longest draft: when
        self.clock = 0  # steps
        self.declined = 0
        self.wait = FIRST_WAIT

    def add(self, length: int, seconds: float) -> None:
        self.clock += 1
        self.seconds.setdefault(length, deque(maxlen=SAMPLES)).append(seconds)
        self.timed[length] = self.clock

    def costs(self, plain: float | None) -> dict[int, float]:
        """By longest draft. A longer one is never cheaper. A time of a busy moment does not count for ever: what is
        stale is left out, to be estimated from the others; if all are, what they have beyond a `plain` step shrinks."""
        every = sorted((length for length in self.seconds if length), reverse=True)
        ages = {length: (self.clock - self.timed[length]) / (STALE << len(self.seconds[length])) for length in every}
        found: dict[int, float] = {}
        least = math.inf
        for length in [length for length in every if ages[length] <= 1] or every:
            cost = statistics.median_low(self.seconds[length])
            if plain is not None and ages[length] > 1:
                cost = plain + max(cost - plain, 0.0) / ages[length]
            least = found[length] = min(cost, least)
        return found

    @property
    def plain(self) -> float | None:
        return statistics.median_low(self.seconds[0]) if 0 in self.seconds else None


@dataclass(frozen=True, slots=True)
class _Option:
    drafts: tuple[Draft, ...]
    tokens: float  # expected of the step
    value: float  # the same per second

    @property
    def from_host(self) -> bool:
        return any(draft.tokens for draft in self.drafts)

    @property
    def seconds(self) -> float:
        return self.tokens / self.value


class DraftChoice:
    def __init__(self, proposers: Sequence[HostProposer] = (), longest: int = LONGEST_DRAFT) -> None:
        """`longest`: draft tokens that the model can verify in one step."""
        self.proposers = tuple(proposers)
        self.longest = longest
        self._sizes: dict[int, _BatchSize] = {}
        self._allowed: dict[tuple[SpeculationMethod, ...], tuple[HostProposer, ...]] = {}  # by what a request allows

    def finished(self, seq: sequence.Sequence) -> None:
        for proposer in self.proposers:
            proposer.finished(seq)

    def wants_tokens(self, seqs: Collection[sequence.Sequence], model: DraftLengths) -> bool:
        """Should the step in flight, which is of these sequences, be read before the next is planned? If a proposer on
        the host will probably have an offer that pays."""
        if not self.proposers:
            return False
        seqs = list(seqs)
        lengths = tuple(0 if seq.draft.tokens else seq.draft.length for seq in seqs)
        if self._grammars_are_slow(seqs, lengths, model) and not self._offers(seqs, peek=True, grammars=False):
            return False  # before the grammars are asked, which takes longer than all else here
        peeks = self._offers(seqs, peek=True)
        if not peeks:
            return False
        return self._best(seqs, lengths, peeks, model, counts=False).from_host

    def choose(
        self, seqs: Sequence[sequence.Sequence], lengths: Sequence[int], model: DraftLengths
    ) -> tuple[Draft, ...]:
        """`lengths`: what each sequence would draft with a device proposer."""
        offers = self._offers(seqs) if self.proposers else {}
        if not offers:
            return tuple(Draft(model.method, length) if length else NO_DRAFT for length in lengths)
        chosen = self._best(seqs, lengths, offers, model).drafts
        before, after = max(lengths), max(draft.length for draft in chosen)
        if before != after:
            model.recount(before, after)
        return chosen

    def _offers(
        self, seqs: Sequence[sequence.Sequence], *, peek: bool = False, grammars: bool = True
    ) -> dict[int, Offer]:
        """By place: of each sequence's offers, the one that promises the most."""
        found = {}
        for place, seq in enumerate(seqs):
            mode = seq.speculation
            if mode.draft_length == 0 or (not peek and seq.scheduled != len(seq.generated)):
                continue
            best: Offer | None = None
            for proposer in self._proposers(mode.methods):
                if proposer.method == "grammar" and not grammars:
                    continue
                offer = proposer.peek(seq) if peek else proposer.offer(seq)
                if offer is not None and (best is None or _gain(offer.rates) > _gain(best.rates)):
                    best = offer
            if best is not None and (room := min(seq.max_draft_length - peek, self.longest)) > 0:
                found[place] = Offer(best.method, best.tokens[:room], best.rates[:room])
        return found

    def _proposers(self, methods: tuple[SpeculationMethod, ...]) -> tuple[HostProposer, ...]:
        known = self._allowed.get(methods)
        if known is None:
            known = self._allowed[methods] = tuple(each for each in self.proposers if each.method in methods)
        return known

    def _grammars_are_slow(
        self, seqs: Sequence[sequence.Sequence], lengths: Sequence[int], model: DraftLengths
    ) -> bool:
        """Would even one draft token of the few grammars here slow down the others (`_spares`)?"""
        ruled = [seq for seq in seqs if seq.grammar is not None]
        if not ruled or 2 * len(ruled) >= len(seqs) or any(lengths):
            return False
        if any(seq.speculation.draft_length for seq in ruled):  # fixed: whatever it costs
            return False
        points = self._points(seqs, model)
        return _expected(points, 1) > SPARING * _expected(points, 0)

    def _best(
        self,
        seqs: Sequence[sequence.Sequence],
        lengths: Sequence[int],
        offers: Mapping[int, Offer],
        model: DraftLengths,
        *,
        counts: bool = True,
    ) -> _Option:
        size = model.size(len(seqs))
        here = self._sizes.setdefault(size, _BatchSize())
        heads = [model.expected(seq, length) for seq, length in zip(seqs, lengths, strict=True)]
        most = min(model.buckets.longest_draft(len(seqs), LONGEST_DRAFT, MOST_DRAFTED), self.longest)
        longest = min(max(len(offer.tokens) for offer in offers.values()), most)
        limits = [0, *(length for length in LENGTHS if length < longest), longest]
        costs = self._points(seqs, model)
        options = [self._option(seqs, lengths, heads, offers, limit, model, size, costs) for limit in limits]
        without, *others = options
        sparing = [option for option in others if _spares(option, without)]
        best = max(sparing or others, key=lambda option: option.value)
        if sparing and best.value >= WORTH * without.value:
            here.wait, here.declined = FIRST_WAIT, 0
            return best
        if counts and best.tokens >= PROMISING * without.tokens:
            here.declined += 1
            if here.declined >= here.wait:
                here.wait, here.declined = min(2 * here.wait, LONGEST_WAIT), 0
                return best
        return without

    def _option(
        self,
        seqs: Sequence[sequence.Sequence],
        lengths: Sequence[int],
        heads: Sequence[float],
        offers: Mapping[int, Offer],
        limit: int,
        model: DraftLengths,
        size: int,
        costs: Mapping[int, float],
    ) -> _Option:
        """A step in which offers count for up to `limit` tokens. A sequence with a fixed draft length takes its better
        proposal whatever it costs."""
        drafts, total = [], 0.0
        for place, (seq, length) in enumerate(zip(seqs, lengths, strict=True)):
            draft, gain = (Draft(model.method, length) if length else NO_DRAFT), heads[place]
            offer = offers.get(place)
            if offer is not None:
                fixed = seq.speculation.draft_length
                taken = min(limit if fixed is None else fixed, len(offer.tokens))
                mine = _gain(offer.rates[:taken])
                if taken and mine > gain:
                    draft, gain = Draft(offer.method, taken, offer.tokens[:taken]), mine
            drafts.append(draft)
            total += 1 + gain
        head = max((draft.length for draft in drafts if not draft.tokens), default=0)
        host = max((len(draft.tokens) for draft in drafts), default=0)
        return _Option(tuple(drafts), total, total / self._cost(size, head, host, model, costs))

    # -- costs

    def timed(self, size: int, head: int, host: int, seconds: float) -> None:
        """A decode-only step that began when all tokens before were read took this long. Mixed steps are not counted:
        their cost is put together from others."""
        if not head:
            length = next((length for length in LENGTHS if length >= host), LENGTHS[-1]) if host else 0
            self._sizes.setdefault(size, _BatchSize()).add(length, seconds)

    def _points(self, seqs: Sequence[sequence.Sequence], model: DraftLengths) -> dict[int, float]:
        """Known times of a verification, by longest draft; the plain step has none. Where grammars make every step wait
        for the one before, so does the plain one."""
        here = self._sizes.setdefault(model.size(len(seqs)), _BatchSize())
        plain = here.plain if waits_for_grammars(seqs) else None
        if plain is None:
            plain = model.cost(model.size(len(seqs)), 0)
        known = here.costs(plain)
        if plain is not None:
            known[0] = plain
        return known or {0: 1.0}

    def _cost(self, size: int, head: int, host: int, model: DraftLengths, points: Mapping[int, float]) -> float:
        if not head:
            return _expected(points, host)
        drafting = model.cost(size, head)
        if drafting is None:
            drafting = _expected(points, head) * (1 + SLOPE * head)
        return _expected(points, max(head, host)) + max(drafting - _expected(points, head), 0.0)

    def costs(self) -> dict[str, dict[str, float]]:
        """Milliseconds of a step, by batch size and longest draft from the host."""
        return {
            str(size): {str(length): round(1e3 * cost, 3) for length, cost in sorted(costs.items())}
            for size, here in sorted(self._sizes.copy().items())
            if (costs := here.costs(here.plain))
        }


def waits_for_grammars(seqs: Collection[sequence.Sequence]) -> bool:
    """Must the tokens of a plain step be known before the next is planned? Grammars need them for masks, which can be
    made while the next pass runs; but where at least half of the sequences have one, what the grammars force is worth
    more than that."""
    ruled = sum(seq.grammar is not None for seq in seqs)
    return ruled > 0 and 2 * ruled >= len(seqs)


def _spares(option: _Option, without: _Option) -> bool:
    """A few answers with grammars do not slow down the free streams around them, however many tokens that would bring
    them: their drafts are taken where they cost next to nothing. Prompt lookup may pay for more: it brings more."""
    ruled = sum(draft.method == "grammar" for draft in option.drafts if draft.tokens)
    others = sum(draft.method != "grammar" for draft in option.drafts if draft.tokens)
    return bool(others) or 2 * ruled >= len(option.drafts) or option.seconds <= SPARING * without.seconds


def _gain(rates: Sequence[float]) -> float:
    """Draft tokens that are expected to be accepted."""
    reach, total = 1.0, 0.0
    for rate in rates:
        reach *= rate
        total += reach
    return total


def _expected(points: Mapping[int, float], length: int) -> float:
    """The time at a length: on the line between the measured ones around it, or beyond them."""
    if length in points:
        return points[length]
    below = max((known for known in points if known < length), default=None)
    above = min((known for known in points if known > length), default=None)
    if below is None:
        assert above is not None
        return points[above] * (1 + SLOPE * length) / (1 + SLOPE * above)
    if above is None:
        before = max((known for known in points if known < below), default=None)
        slope = SLOPE * points[below] / (1 + SLOPE * below)
        if before is not None:
            slope = max((points[below] - points[before]) / (below - before), 0.0)
        return points[below] + slope * (length - below)
    share = (length - below) / (above - below)
    return points[below] + share * (points[above] - points[below])
