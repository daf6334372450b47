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
from paceline.types import LONGEST_DRAFT, MAX_DRAFTED, SpeculationMethod

if TYPE_CHECKING:
    from paceline.engine import sequence

LENGTHS = (1, 2, 3, 5, 8, 16, 32)  # the longest draft of a step
SLOPE = 0.04  # of a plain step's time that each further draft token takes, before it is measured
SPARING = 1.05  # times a step without offers: what the drafts of a few grammars may cost the other sequences
PROMISING = 1.3  # times the tokens of a step without offers: worth another measurement now and then
FIRST_WAIT, LONGEST_WAIT = 16, 4096  # promising offers that are declined before one is taken; doubled each time
SAMPLES = 7  # step times kept for each batch size and length: their median counts
STALE = 32  # steps after which one step's time counts for less; doubled by each further time
RECONSIDER = 8  # steps that are not worth waiting for, before an equal hope is weighed again


class _BatchSize:
    """Steps of about one batch size that began when all tokens before were read."""

    def __init__(self) -> None:
        self.seconds: dict[int, deque[float]] = {}  # by longest draft; 0: plain steps
        self.timed: dict[int, int] = {}  # by longest draft: when
        self.clock = 0  # steps
        self.declined = 0
        self.wait = FIRST_WAIT
        self.slow = 0  # steps for which drafts of a few grammars are known to be slow
        self.hopeless: tuple[float, int] = (0.0, 0)  # draft tokens not worth waiting for, and for how many more steps

    def add(self, length: int, seconds: float) -> None:
        self.clock += 1
        self.slow, self.hopeless = 0, (0.0, 0)
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
    taken: Mapping[int, int]  # by place: draft tokens from the host
    tokens: float  # expected of the step
    seconds: float

    @property
    def value(self) -> float:
        return self.tokens / self.seconds


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
        ruled = [seq for seq in seqs if seq.grammar is not None and seq.speculation.draft_length != 0]
        peeks = self._offers(seqs, peek=True, grammars=not ruled)
        if ruled and (peeks or not self._grammars_are_slow(ruled, seqs, model)):
            peeks = self._offers(seqs, peek=True)  # only then: to ask a grammar takes longer than all else here
        if not peeks:
            return False
        lengths = tuple(0 if seq.draft.tokens else seq.draft.length for seq in seqs)
        hope = sum(_gains(offer.rates)[-1] for offer in peeks.values())
        if any(lengths) or any(seqs[place].speculation.draft_length for place in peeks):
            return bool(self._best(seqs, lengths, peeks, model, counts=False))
        if hope < (WORTH - 1) * len(seqs):  # even if drafts cost nothing
            return False
        here = self._sizes.setdefault(model.size(len(seqs)), _BatchSize())
        known, left = here.hopeless
        if left and hope <= WORTH * known:
            here.hopeless = (known, left - 1)
            return False
        pays = bool(self._best(seqs, lengths, peeks, model, counts=False))
        here.hopeless = (0.0, 0) if pays else (hope, RECONSIDER)
        return pays

    def choose(
        self, seqs: Sequence[sequence.Sequence], lengths: Sequence[int], model: DraftLengths
    ) -> tuple[Draft, ...]:
        """`lengths`: what each sequence would draft with a device proposer."""
        offers = self._offers(seqs) if self.proposers else {}
        if not offers:
            return tuple(Draft(model.method, length) if length else NO_DRAFT for length in lengths)
        taken = self._best(seqs, lengths, offers, model)
        chosen = tuple(
            Draft(offers[place].method, taken[place], offers[place].tokens[: taken[place]])
            if place in taken
            else Draft(model.method, length)
            if length
            else NO_DRAFT
            for place, length in enumerate(lengths)
        )
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
                if offer is not None and (best is None or _gains(offer.rates)[-1] > _gains(best.rates)[-1]):
                    best = offer
            if best is not None and (room := min(seq.max_draft_length - peek, self.longest)) > 0:
                found[place] = best if len(best.tokens) <= room else best.cut(room)
        return found

    def _proposers(self, methods: tuple[SpeculationMethod, ...]) -> tuple[HostProposer, ...]:
        known = self._allowed.get(methods)
        if known is None:
            known = self._allowed[methods] = tuple(each for each in self.proposers if each.method in methods)
        return known

    def _grammars_are_slow(
        self, ruled: Sequence[sequence.Sequence], seqs: Sequence[sequence.Sequence], model: DraftLengths
    ) -> bool:
        """Can no draft of the few grammars here pay without slowing down the others (`_spares`)? Then they are not
        asked; and seldom before a draft was timed here."""
        if 2 * len(ruled) >= len(seqs) or any(seq.drafts_on_device for seq in seqs):
            return False
        if any(seq.speculation.draft_length for seq in ruled):  # fixed: whatever it costs
            return False
        here = self._sizes.setdefault(model.size(len(seqs)), _BatchSize())
        if here.slow:
            here.slow -= 1
            return True
        points = self._points(seqs, model)
        slow = not _may_pay(points, len(ruled), len(seqs))
        here.slow = RECONSIDER if slow or not any(points) else 0
        return slow

    def _best(
        self,
        seqs: Sequence[sequence.Sequence],
        lengths: Sequence[int],
        offers: Mapping[int, Offer],
        model: DraftLengths,
        *,
        counts: bool = True,
    ) -> Mapping[int, int]:
        """By place: the draft tokens to take from the host; the others draft as `lengths` say."""
        here = self._sizes.setdefault(model.size(len(seqs)), _BatchSize())
        most = min(model.buckets.longest_draft(len(seqs), LONGEST_DRAFT, MAX_DRAFTED), self.longest)
        longest = min(max(len(offer.tokens) for offer in offers.values()), most)
        limits = [0, *(length for length in LENGTHS if length < longest), longest]
        heads = [model.expected(seq, length) if length else 0.0 for seq, length in zip(seqs, lengths, strict=True)]
        gains = {place: _gains(offer.rates) for place, offer in offers.items()}
        expected = len(seqs) + sum(heads)
        costs = self._points(seqs, model)

        def option(limit: int) -> _Option:
            """Offers count for up to `limit` tokens. A sequence with a fixed draft length takes its better proposal
            whatever it costs."""
            taken, total = {}, expected
            for place, mine in gains.items():
                fixed = seqs[place].speculation.draft_length
                count = min(limit if fixed is None else fixed, len(mine) - 1)
                if mine[count] > heads[place]:
                    taken[place] = count
                    total += mine[count] - heads[place]
            head = 0
            if any(lengths):
                head = max((length for place, length in enumerate(lengths) if place not in taken), default=0)
            cost = self._cost(model.size(len(seqs)), head, max(taken.values(), default=0), model, costs)
            return _Option(taken, total, cost)

        without, *others = map(option, limits)
        sparing = [each for each in others if _spares(each, without, offers, len(seqs))]
        best = max(sparing or others, key=lambda each: each.value)
        if sparing and best.value >= WORTH * without.value:
            here.wait, here.declined = FIRST_WAIT, 0
            return best.taken
        if counts and best.tokens >= PROMISING * without.tokens:
            here.declined += 1
            if here.declined >= here.wait:
                here.wait, here.declined = min(2 * here.wait, LONGEST_WAIT), 0
                return best.taken
        return without.taken

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


def _spares(option: _Option, without: _Option, offers: Mapping[int, Offer], seqs: int) -> bool:
    """A few answers with grammars do not slow down the free streams around them, however many tokens that would bring
    them: their drafts are taken where they cost next to nothing. Prompt lookup may pay for more: it brings more."""
    ruled = sum(offers[place].method == "grammar" for place in option.taken)
    return ruled < len(option.taken) or 2 * ruled >= seqs or option.seconds <= SPARING * without.seconds


def _may_pay(points: Mapping[int, float], ruled: int, seqs: int) -> bool:
    """Would drafts of a few grammars pay, and spare the others, if all of their tokens were accepted?"""
    plain = _expected(points, 0)
    costs = {length: _expected(points, length) for length in LENGTHS}
    sparing = {length: cost for length, cost in costs.items() if cost <= SPARING * plain}
    return any((seqs + ruled * length) * plain >= WORTH * seqs * cost for length, cost in sparing.items())


def _gains(rates: Sequence[float]) -> list[float]:
    """By length: draft tokens that are expected to be accepted."""
    reach, totals = 1.0, [0.0]
    for rate in rates:
        reach *= rate
        totals.append(totals[-1] + reach)
    return totals


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
