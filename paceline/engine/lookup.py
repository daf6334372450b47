"""Prompt lookup: where a sequence repeats its prompt, its own answer or a recent answer of the same tenant, what stood
there next is proposed. No weights, no MLX.

Edits, diffs and tool results repeat their context for hundreds of tokens. Every sequence follows the longest earlier
occurrence of its last tokens (engine/token_index), and how often such an occurrence went on as the sequence did is
counted by its length, also while nothing is drafted: so a text that does not repeat itself is known as such before a
single token is drafted for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paceline.engine.proposer import HostProposer, Offer
from paceline.engine.token_index import RUN, Follower, TokenIndex

if TYPE_CHECKING:
    from paceline.engine import sequence

CLASSES = (3, 5, 8, 16)  # tokens of an occurrence: below the first, below the second, and so on
NEW = len(CLASSES) + 1  # no occurrence: how often the next token has one, and that goes on
PRIOR = (0.25, 0.35, 0.5, 0.7, 0.9, 0.05)  # of each class, and new ones: how often it goes on, before anything is known
PRIOR_WEIGHT = 20.0
SEQUENCE_WEIGHT = 8.0  # tokens' worth of trust in all sequences' rate for a single one
FORGET, FORGET_ALL = 0.98, 0.999  # per token
QUIET, SELDOM = 16, 4  # after so many tokens without a run of three, a step in flight is looked at every few tokens
UNLIKELY = 0.1  # a draft ends where the probability that it gets so far is lower
GENERATION = 1 << 14  # tokens of a tenant's answers; as many older ones are kept beside them
MOST_POOLED = 1 << 18  # tokens of all tenants' answers
LONGEST_POOLED = 1 << 12  # tokens of one answer, the last ones


class Rates:
    """How often an occurrence went on as the text did, by class, as decayed counts."""

    __slots__ = ("hits", "trials")

    def __init__(self) -> None:
        self.hits = [0.0] * len(PRIOR)
        self.trials = [0.0] * len(PRIOR)

    def add(self, kind: int, hit: bool, forget: float) -> None:
        self.hits[kind] = self.hits[kind] * forget + hit
        self.trials[kind] = self.trials[kind] * forget + 1

    def rate(self, kind: int, prior: float, weight: float) -> float:
        return (self.hits[kind] + weight * prior) / (self.trials[kind] + weight)


class AnswerPool:
    """Recent answers, by salt: tenants that share no prefixes share no answers. Bounded."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, list[TokenIndex]] = OrderedDict()  # by salt: older, newer
        self.tokens = 0

    def add(self, salt: str, tokens: Sequence[int]) -> None:
        pooled = self._answers.setdefault(salt, [])
        self._answers.move_to_end(salt)
        if not pooled or len(pooled[-1]) >= GENERATION:
            pooled.append(TokenIndex())
            if len(pooled) > 2:
                self.tokens -= len(pooled.pop(0))
        new = tokens[-LONGEST_POOLED:]
        pooled[-1].extend(new)
        self.tokens += len(new)
        while self.tokens > MOST_POOLED:
            _, oldest = self._answers.popitem(last=False)
            self.tokens -= sum(map(len, oldest))

    def of(self, salt: str) -> list[TokenIndex]:
        return self._answers.get(salt, [])


class LookupState:
    """What a sequence has said, and where it stands in earlier text. It depends on tokens only: preemption keeps it."""

    __slots__ = ("best", "followers", "new", "own", "quiet", "rates", "read")

    def __init__(self, seq: sequence.Sequence, answers: Sequence[TokenIndex]) -> None:
        base = seq.request.lookup_index
        self.own = TokenIndex(seq.prompt.token_ids) if base is None else base.fork()
        self.followers = [Follower(self.own, repeats=True), *map(Follower, reversed(answers))]
        self.rates = Rates()
        self.read = 0  # generated tokens so far
        self.quiet = 0  # tokens since there was an occurrence of a run of three
        self.best: Follower | None = None  # the longest occurrence that goes on
        self.follow()
        self.new = False  # there was none before the last token

    def follow(self) -> None:
        """The text is new, or has one more token."""
        text, before, best = self.own.tokens, self.best, None
        for follower in self.followers:
            follower.follow(text)
            if follower.length and (best is None or follower.length > best.length) and follower.next is not None:
                best = follower
        self.best = best
        self.new = before is None and best is not None
        self.quiet = 0 if best is not None and best.length >= RUN else self.quiet + 1


class LookupProposer(HostProposer):
    method = "lookup"

    def __init__(self, *, answers: bool = True) -> None:
        """`answers`: also look at recent answers of the same tenant."""
        self.pool = AnswerPool() if answers else None
        self._all = Rates()

    def offer(self, seq: sequence.Sequence) -> Offer | None:
        state = self._update(seq)
        return None if state.best is None else self._offered(state, state.best, 0)

    def peek(self, seq: sequence.Sequence) -> Offer | None:
        state: LookupState | None = seq.lookup
        if state is not None and state.quiet >= QUIET and len(seq.generated) - state.read < SELDOM:
            return None
        state = self._update(seq)
        if state.best is not None:
            return self._offered(state, state.best, 1)
        rate = self._rate(state, NEW)
        return Offer(self.method, (0,), (rate,)) if rate >= UNLIKELY else None  # of a token that is not known yet

    def _offered(self, state: LookupState, best: Follower, skipped: int) -> Offer | None:
        """What stands behind an occurrence, without the first tokens, which must come first."""
        rates = self._rates(state, best.length, self.longest + skipped)
        if len(rates) <= skipped:
            return None
        tokens = best.following(len(rates))
        if len(tokens) <= skipped:
            return None
        if skipped:
            rates[skipped] *= rates[0]
        return Offer(self.method, tuple(tokens[skipped:]), tuple(rates[skipped : len(tokens)]))

    def _rates(self, state: LookupState, length: int, most: int) -> list[float]:
        """How likely an occurrence of this length goes on, token by token, as far as that is likely at all."""
        rates: list[float] = []
        reach = 1.0
        for kind in range(bisect_right(CLASSES, length), NEW):
            rate = self._rate(state, kind)
            end = most if kind == len(CLASSES) else min(most, CLASSES[kind] - length)
            while len(rates) < end:
                reach *= rate
                if reach < UNLIKELY:
                    return rates
                rates.append(rate)
        return rates

    def _rate(self, state: LookupState, kind: int) -> float:
        return state.rates.rate(kind, self._all.rate(kind, PRIOR[kind], PRIOR_WEIGHT), SEQUENCE_WEIGHT)

    def _update(self, seq: sequence.Sequence) -> LookupState:
        """Read what the sequence has said since the last call."""
        state: LookupState | None = seq.lookup
        if state is None:
            pooled = self.pool is not None and seq.prompt.cached
            state = seq.lookup = LookupState(seq, self.pool.of(seq.prompt.scope) if pooled and self.pool else ())
        while state.read < len(seq.generated):
            self._read(state, seq.generated[state.read])
            state.read += 1
        return state

    def _read(self, state: LookupState, token: int) -> None:
        best = state.best
        if best is not None:
            hit = best.next == token
            self._count(state, bisect_right(CLASSES, best.length), hit)
            if state.new:
                self._count(state, NEW, hit)
        state.own.append(token)
        state.follow()
        if best is None and not state.new:
            self._count(state, NEW, False)

    def _count(self, state: LookupState, kind: int, hit: bool) -> None:
        state.rates.add(kind, hit, FORGET)
        self._all.add(kind, hit, FORGET_ALL)

    def finished(self, seq: sequence.Sequence) -> None:
        if self.pool is not None and seq.prompt.cached and seq.finished in ("stop", "length"):
            self.pool.add(seq.prompt.scope, seq.generated)
        seq.lookup = None
