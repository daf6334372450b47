"""What prompt lookup offers, how sure it is of it, and whose answers it looks at."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from paceline.engine import lookup
from paceline.engine.lookup import CLASSES, NEW, PRIOR, QUIET, AnswerPool, LookupProposer
from paceline.engine.sequence import EngineRequest
from paceline.engine.sequence import Sequence as EngineSequence
from paceline.engine.token_index import TokenIndex
from paceline.types import LONGEST_DRAFT, Prompt, RequestId, Sampling


def seq(prompt: Sequence[int], generated: Sequence[int] = (), *, salt: str = "", cached: bool = True) -> EngineSequence:
    text = Prompt(tuple(prompt), salt=salt, cached=cached)
    made = EngineSequence(EngineRequest(RequestId("a"), text, Sampling(), 1000), None, lambda delta: None)  # type: ignore[arg-type]
    made.generated += generated
    return made


FILE = list(range(100, 200))


def test_a_repetition_is_offered_and_anything_else_is_not() -> None:
    proposer = LookupProposer()
    assert proposer.offer(seq(FILE)) is None
    assert proposer.offer(seq(FILE, [1, 2, 3])) is None
    assert proposer.offer(seq(FILE, [1, 2, 111])) is None  # one token is chance
    pair = proposer.offer(seq(FILE, [1, 110, 111]))
    assert pair is not None and pair.tokens[0] == 112
    offer = proposer.offer(seq(FILE, [1, 110, 111, 112]))
    assert offer is not None and offer.method == "lookup"
    assert offer.tokens == tuple(range(113, 113 + len(offer.tokens)))
    assert len(offer.rates) == len(offer.tokens)


def test_the_longer_the_match_the_longer_the_draft_up_to_the_longest() -> None:
    lengths = []
    for match in (3, 6, 12, 40):
        offer = LookupProposer().offer(seq(FILE, [1, *FILE[:match]]))
        assert offer is not None
        lengths.append(len(offer.tokens))
        assert list(offer.rates) == sorted(offer.rates)
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1] == LONGEST_DRAFT


def test_after_the_step_in_flight_the_offer_goes_on_behind_its_token() -> None:
    proposer = LookupProposer()
    row = seq(FILE, [1, *FILE[:20]])
    now, then = proposer.offer(row), proposer.peek(row)
    assert now is not None and then is not None
    assert then.tokens[:-1] == now.tokens[1:]
    assert then.rates[0] == pytest.approx(now.rates[0] * now.rates[1])


def test_a_text_that_has_not_repeated_itself_for_long_is_looked_at_seldom() -> None:
    proposer, row = LookupProposer(), seq(FILE, range(QUIET))
    looks = []
    for place in range(12):
        assert proposer.peek(row) is None
        looks.append(row.lookup.read == len(row.generated))
        row.generated.append(1000 + place)
    assert looks == [True, *[False, False, False, True] * 2, False, False, False]
    seen = []
    for token in FILE[:14]:
        seen.append(proposer.peek(row) is not None)
        row.generated.append(token)
    assert not any(seen[:3]) and all(seen[9:]), "from the first occurrence on at every step"


def test_what_was_not_looked_at_is_found_later() -> None:
    proposer, row = LookupProposer(), seq(FILE, range(1000, 1000 + QUIET))
    assert proposer.peek(row) is None
    row.generated += [1, *range(2000, 2020)]
    assert proposer.peek(row) is None and row.lookup.read == len(row.generated)
    row.generated += [3, *range(2004, 2010)]  # of what was skipped
    offer = proposer.offer(row)
    assert offer is not None and offer.tokens[:2] == (2010, 2011)
    assert row.lookup.best.length == 6 and row.lookup.own.tokens == [*FILE, *row.generated]


def test_what_a_sequence_says_is_compared_with_what_was_expected_though_nothing_is_drafted() -> None:
    proposer = LookupProposer()
    row = seq([7, 8, 9, 1, 7, 8, 9, 2, 7, 8, 9, 3])
    for last in range(4, 60):
        row.generated += [7, 8, 9]
        proposer.peek(row)
        row.generated.append(last)
    offer = proposer.offer(row)
    row.generated += [7, 8, 9]
    offer = proposer.offer(row)
    assert offer is None or offer.rates[0] < PRIOR[0]


def test_new_sequences_expect_what_others_have_seen() -> None:
    proposer = LookupProposer()
    for _ in range(20):
        row = seq(FILE, [1, *FILE[:60]])
        proposer.offer(row)
    offer, first = proposer.offer(seq(FILE, [1, *FILE[:3]])), LookupProposer().offer(seq(FILE, [1, *FILE[:3]]))
    assert offer is not None and first is not None
    assert offer.rates[0] > first.rates[0]


def test_an_index_built_ahead_is_shared_by_the_choices_of_a_request() -> None:
    text = Prompt(tuple(FILE))
    request = EngineRequest(RequestId("a"), text, Sampling(), 100, lookup_index=TokenIndex(FILE))
    rows = [EngineSequence(request, None, lambda delta: None) for _ in range(2)]  # type: ignore[arg-type]
    proposer = LookupProposer()
    rows[0].generated += [1, 110, 111, 112]
    rows[1].generated += [2, 120, 121, 122]
    offers = [proposer.offer(row) for row in rows]
    assert [offer.tokens[0] for offer in offers if offer is not None] == [113, 123]
    assert request.lookup_index.tokens == FILE


def test_recent_answers_are_offered_to_the_same_tenant_only() -> None:
    proposer = LookupProposer()
    done = seq([1, 2], FILE, salt="mine")
    done.finished = "stop"
    proposer.finished(done)
    assert done.lookup is None
    for salt, cached, knows in (
        ("mine", True, True),
        ("other", True, False),
        ("", True, False),
        ("mine", False, False),
    ):
        offer = proposer.offer(seq([5], FILE[20:25], salt=salt, cached=cached))
        assert (offer is not None) == knows
    quiet = LookupProposer(answers=False)
    quiet.finished(done)
    assert quiet.offer(seq([5], FILE[20:25], salt="mine")) is None


@pytest.mark.parametrize(("reason", "cached"), [("abort", True), ("error", True), ("stop", False)])
def test_an_answer_that_failed_or_may_not_be_kept_is_offered_to_nobody(reason: str, cached: bool) -> None:
    proposer = LookupProposer()
    done = seq([1, 2], FILE, cached=cached)
    done.finished = reason  # type: ignore[assignment]
    proposer.finished(done)
    assert proposer.offer(seq([5], FILE[20:25])) is None


def test_the_pool_is_bounded_and_forgets_the_tenants_that_were_silent_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "GENERATION", 100)
    monkeypatch.setattr(lookup, "MAX_POOLED", 1000)
    pool = AnswerPool()
    for place in range(50):
        pool.add(f"tenant {place % 5}", range(40 * place, 40 * place + 40))
        assert pool.tokens <= 1000
        assert pool.tokens == sum(len(index) for salt in range(5) for index in pool.of(f"tenant {salt}"))
    assert all(len(pool.of(f"tenant {place}")) <= 2 for place in range(5))
    for place in range(30):
        pool.add(f"new {place}", range(40))
    assert pool.of("tenant 0") == [] and pool.of("new 29")


def test_empty_answers_are_not_pooled() -> None:
    """They have no tokens to be counted by: the pool would never forget their tenants."""
    proposer = LookupProposer()
    for place in range(50):
        done = seq(FILE, salt=f"tenant {place}")
        done.finished = "stop"
        proposer.finished(done)
    assert proposer.pool is not None and not proposer.pool._answers


def test_how_often_a_token_brings_the_first_occurrence_is_learnt_and_worth_waiting_for() -> None:
    proposer = LookupProposer()
    row = seq(FILE, [1])
    assert proposer.peek(row) is None
    for first in range(100, 180, 4):
        row.generated += [first, first + 1, first + 2, first]  # nothing, a pair that goes on, and an end
    waited = proposer.peek(row)
    assert waited is not None and len(waited.tokens) == 1 and waited.rates[0] > 0.2
    assert proposer.offer(row) is None, "what is hoped for is not drafted"
    for token in range(1000, 1000 + QUIET // 2):
        row.generated.append(token)
    later = proposer.peek(row)
    assert later is not None and later.rates[0] < waited.rates[0]


def test_an_answer_that_begins_within_a_repetition_has_not_found_it() -> None:
    proposer = LookupProposer()
    row = seq([*FILE, 1, *FILE[:20]], [FILE[20]])
    proposer.offer(row)
    assert row.lookup.rates.trials[NEW] == 0


def test_every_class_of_lengths_has_a_prior_and_new_ones_too() -> None:
    assert len(PRIOR) == len(CLASSES) + 2 == NEW + 1
    assert list(PRIOR[:NEW]) == sorted(PRIOR[:NEW])
