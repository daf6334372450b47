"""Prompt lookup: where a sequence repeats its prompt, its own answer or a recent answer of the same tenant, what stood
there next is proposed. No weights, no MLX.

Edits, diffs and tool results repeat their context for hundreds of tokens. Every sequence follows the longest earlier
occurrence of its last tokens (engine/token_index), and how often such an occurrence went on as the sequence did is
counted by its length, also while nothing is drafted: so a text that does not repeat itself is known as such before a
single token is drafted for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paceline.engine.proposer import HostProposer, Offer
from paceline.engine.token_index import Follower, TokenIndex

if TYPE_CHECKING:
    from paceline.engine import sequence

CLASSES = (2, 3, 5, 8, 16)  # tokens of an occurrence: below the first, below the second, and so on
NEW = len(CLASSES) + 1  # no occurrence: how often the next token has one, and that goes on
PRIOR = (0.25, 0.25, 0.35, 0.5, 0.7, 0.9, 0.05)  # of each class, and new ones: how often it goes on, at first
PRIOR_WEIGHT = 20.0
SEQUENCE_WEIGHT = 8.0  # tokens' worth of trust in all sequences' rate for a single one
FORGET, FORGET_ALL = 0.98, 0.999  # per token
QUIET, SELDOM = 16, 4  # after so many tokens without an offer, a sequence is looked at every few tokens
UNLIKELY = 0.1  # a draft ends where the probability that it gets so far is lower
GENERATION = 1 << 14  # tokens of a tenant's answers; as many older ones are kept beside them
MAX_POOLED = 1 << 18  # tokens of all tenants' answers
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
        if not tokens:
            return
        pooled = self._answers.setdefault(salt, [])
        self._answers.move_to_end(salt)
        if not pooled or len(pooled[-1]) >= GENERATION:
            pooled.append(TokenIndex())
            if len(pooled) > 2:
                self.tokens -= len(pooled.pop(0))
        new = tokens[-LONGEST_POOLED:]
        pooled[-1].extend(new)
        self.tokens += len(new)
        while self.tokens > MAX_POOLED:
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
        self.quiet = 0  # tokens since there was something to offer
        self.best: Follower | None = None  # the longest occurrence that goes on
        self.follow()
        self.new = False  # there was none before the last token

    def follow(self) -> None:
        """The text is new, or has one more token."""
        before, best, longest = self.best, None, 0
        for follower in self.followers:
            follower.follow(self.own)
            if follower.length > longest and follower.position < len(follower.index.tokens):
                best, longest = follower, follower.length
        self.best = best
        self.new = before is None and best is not None

    def skip(self, tokens: Sequence[int]) -> None:
        """The text has several tokens more, of which only the last ones are looked up."""
        self.own.extend(tokens)
        for follower in self.followers:
            follower.restart()
        self.follow()
        self.new = False


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
        before = 0 if state is None else state.read
        state = self._update(seq)
        found: Offer | None = None
        if state.best is not None:
            found = self._offered(state, state.best, 1)
        elif (rate := self._rate(state, NEW)) >= UNLIKELY:  # of a token that is not known yet
            found = Offer(self.method, (0,), (rate,))
        state.quiet = state.quiet + state.read - before if found is None else 0
        return found

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
        for kind in range(_class(length), NEW):
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
        """Read what the sequence has said since the last call. Where nothing was offered for long, only the last of
        several tokens are looked up."""
        state: LookupState | None = seq.lookup
        if state is None:
            pooled = self.pool is not None and seq.prompt.cached
            state = seq.lookup = LookupState(seq, self.pool.of(seq.prompt.scope) if pooled and self.pool else ())
        unread = seq.generated[state.read :]
        if state.quiet >= QUIET and len(unread) >= SELDOM:
            self._learn(state, unread[0])
            state.skip(unread)
        else:
            for token in unread:
                self._read(state, token)
        state.read = len(seq.generated)
        return state

    def _read(self, state: LookupState, token: int) -> None:
        known = state.best is not None
        self._learn(state, token)
        state.own.append(token)
        state.follow()
        if not known and not state.new:
            self._count(state, NEW, False)

    def _learn(self, state: LookupState, token: int) -> None:
        """Did the text go on as its best occurrence did?"""
        if state.best is not None:
            hit = state.best.next == token
            self._count(state, _class(state.best.length), hit)
            if state.new:
                self._count(state, NEW, hit)

    def _count(self, state: LookupState, kind: int, hit: bool) -> None:
        state.rates.add(kind, hit, FORGET)
        self._all.add(kind, hit, FORGET_ALL)

    def finished(self, seq: sequence.Sequence) -> None:
        if self.pool is not None and seq.prompt.cached and seq.finished in ("stop", "length"):
            self.pool.add(seq.prompt.scope, seq.generated)
        seq.lookup = None


def _class(length: int) -> int:
    for kind, limit in enumerate(CLASSES):
        if length < limit:
            return kind
    return len(CLASSES)
