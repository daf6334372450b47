"""What a grammar forces is offered, and how often the model writes it so is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.engine import sequence
from paceline.engine.forced_tokens import PRIOR, GrammarProposer
from paceline.types import LONGEST_DRAFT, Prompt, RequestId, Sampling


class Silent:
    """A grammar that does not say what it forces."""

    def allowed(self, draft_tokens: Sequence[int]) -> NDArray[np.bool_]:
        raise AssertionError("no mask is needed for an offer")

    def accept(self, token: int) -> None: ...


class Forcing(Silent):
    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tokens

    def forced(self) -> Sequence[int]:
        return self.tokens

    def packed(self, draft_tokens: Sequence[int], said: Sequence[int] = ()) -> Any:
        raise AssertionError("no mask is needed for an offer")


def seq(grammar: Any) -> sequence.Sequence:
    request = sequence.EngineRequest(RequestId("a"), Prompt((1, 2)), Sampling(), 100)
    return sequence.Sequence(request, None, lambda delta: None, grammar)  # type: ignore[arg-type]


def test_forced_tokens_are_offered_up_to_the_longest_draft() -> None:
    proposer = GrammarProposer()
    offer = proposer.offer(seq(Forcing([5, 6, 7])))
    assert offer is not None and (offer.method, offer.tokens) == ("grammar", (5, 6, 7))
    long = proposer.offer(seq(Forcing(range(100))))
    assert long is not None and len(long.tokens) == len(long.rates) == LONGEST_DRAFT


def test_where_nothing_is_forced_nothing_is_offered() -> None:
    proposer = GrammarProposer()
    assert proposer.offer(seq(Forcing([]))) is None
    assert proposer.offer(seq(Silent())) is None
    assert proposer.offer(seq(None)) is None
    failed = seq(Forcing([5]))
    failed.failure = "the grammar is too complex"
    assert proposer.offer(failed) is None


def test_a_model_that_writes_other_tokens_is_believed() -> None:
    proposer, row = GrammarProposer(), seq(Forcing([5, 6, 7]))
    for _ in range(200):
        proposer.offer(row)
        row.generated += [5, 9]
    assert abs(proposer.rate - 0.5) < 0.1
    for _ in range(400):
        proposer.offer(row)
        row.generated += [5, 6, 7]
    assert proposer.rate > PRIOR


def test_a_step_in_flight_is_worth_waiting_for_where_more_than_its_token_is_forced() -> None:
    proposer = GrammarProposer()
    offer = proposer.peek(seq(Forcing([5, 6, 7])))
    assert offer is not None and offer.tokens == (6, 7)
    assert offer.rates[0] < offer.rates[1] == proposer.rate_of(7)
    assert proposer.peek(seq(Forcing([5]))) is None
    assert proposer.peek(seq(None)) is None


def test_each_token_is_believed_by_itself() -> None:
    """A model that writes other blanks still has no choice inside a key."""
    proposer, key, blank = GrammarProposer(), seq(Forcing([5, 6])), seq(Forcing([7]))
    for _ in range(50):
        proposer.offer(key)
        key.generated += [5, 6]
        proposer.offer(blank)
        blank.generated += [8]
    assert proposer.rate_of(5) > 0.9 and proposer.rate_of(6) > 0.9
    assert proposer.rate_of(7) < 0.2
    offer = proposer.offer(seq(Forcing([5, 7])))
    assert offer is not None and offer.rates == (proposer.rate_of(5), proposer.rate_of(7))
