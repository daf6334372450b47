"""Which proposer drafts, on simulated machines: no MLX, no clock, the same numbers in every run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from paceline.cache.shape_buckets import EXACT
from paceline.engine import sequence
from paceline.engine.draft_choice import FIRST_WAIT, LENGTHS, RECONSIDER, STALE, DraftChoice
from paceline.engine.draft_length import ENOUGH, DraftLengths
from paceline.engine.proposer import NO_DRAFT, Draft, HostProposer, Offer
from paceline.engine.speculation_policy import SpeculationMode
from paceline.types import Prompt, RequestId, Sampling, SpeculationMethod

BOTH: tuple[SpeculationMethod, ...] = ("mtp", "lookup")


class Fixed(HostProposer):
    """Offers what it is told, by sequence."""

    def __init__(self, method: SpeculationMethod = "lookup") -> None:
        self.method = method
        self.offers: dict[int, Offer] = {}
        self.asked = 0
        self.ended: list[sequence.Sequence] = []

    def give(self, seq: sequence.Sequence, count: int, rate: float) -> None:
        self.offers[id(seq)] = Offer(self.method, tuple(range(count)), (rate,) * count)

    def offer(self, seq: sequence.Sequence) -> Offer | None:
        self.asked += 1
        return self.offers.get(id(seq))

    peek = offer

    def finished(self, seq: sequence.Sequence) -> None:
        self.ended.append(seq)


def seq(methods: tuple[SpeculationMethod, ...] = BOTH, length: int | None = None, limit: int = 1000) -> Any:
    request = sequence.EngineRequest(
        RequestId("a"), Prompt((1, 2, 3)), Sampling(), limit, SpeculationMode(length, "", methods)
    )
    return sequence.Sequence(request, None, lambda delta: None)  # type: ignore[arg-type]


def measured(plain: float = 1.0, head: float = 0.3, seqs: int = 1) -> DraftLengths:
    """A machine on which a draft of n tokens by the head costs n times `head` more."""
    model = DraftLengths()
    for length in range(9):
        for _ in range(ENOUGH):
            model.timed(seqs, length, plain + head * length)
    return model


def choose(choice: DraftChoice, seqs: Sequence[Any], lengths: Sequence[int], model: DraftLengths) -> tuple[Draft, ...]:
    model.steps[max(lengths)] += 1  # as its own `choose` does
    return choice.choose(seqs, lengths, model)


def test_without_an_offer_the_step_is_as_the_head_wants_it() -> None:
    proposer = Fixed()
    rows = [seq(), seq(), seq()]
    chosen = choose(DraftChoice([proposer]), rows, (0, 3, 1), measured(seqs=3))
    assert chosen == (NO_DRAFT, Draft(length=3), Draft(length=1))
    assert not DraftChoice([proposer]).wants_tokens(rows, measured(seqs=3))
    assert choose(DraftChoice(), rows, (0, 3, 1), measured(seqs=3)) == chosen


def test_a_good_offer_is_taken_and_a_poor_one_is_not() -> None:
    proposer, model = Fixed(), measured()
    choice, row = DraftChoice([proposer]), seq()
    proposer.give(row, 20, 0.95)
    assert choice.wants_tokens([row], model)
    [draft] = choose(choice, [row], (0,), model)
    assert draft.method == "lookup" and len(draft.tokens) == draft.length > 8
    assert draft.tokens == tuple(range(draft.length))
    proposer.give(row, 20, 0.02)
    assert not choice.wants_tokens([row], model)
    assert choose(choice, [row], (0,), model) == (NO_DRAFT,)


def test_what_steps_cost_decides_how_much_of_an_offer_is_taken() -> None:
    proposer, model = Fixed(), measured()
    row = seq()
    proposer.give(row, 32, 0.9)
    found = []
    for slope in (0.01, 0.1, 0.3, 2.0):
        choice = DraftChoice([proposer])
        for length in LENGTHS:
            choice.timed(1, 0, length, 1 + slope * length)
        [draft] = choose(choice, [row], (0,), model)
        found.append(draft.length)
    assert found == sorted(found, reverse=True)
    assert found[0] == 32 and found[-1] == 0


def test_sequences_of_one_step_have_different_proposers() -> None:
    proposer, model = Fixed(), measured(head=0.05, seqs=3)
    rows = [seq(), seq(), seq(("mtp",))]
    proposer.give(rows[1], 16, 0.98)
    proposer.give(rows[2], 16, 0.98)  # which does not look anything up
    for row in rows:
        for _ in range(30):
            row.acceptance.add(3, 3, 0.97)
    chosen = choose(DraftChoice([proposer]), rows, (3, 3, 3), model)
    assert [draft.method for draft in chosen] == ["mtp", "lookup", "mtp"]
    assert [draft.length for draft in chosen] == [3, 16, 3]


def test_a_sequence_goes_back_to_the_head_when_that_is_better() -> None:
    proposer, model = Fixed(), measured(head=0.05)
    choice, row = DraftChoice([proposer]), seq()
    for _ in range(50):
        row.acceptance.add(5, 5, 0.97)
        model.verified(row, 5, 5)
    proposer.give(row, 1, 0.5)
    assert choose(choice, [row], (5,), model) == (Draft(length=5),)
    proposer.give(row, 30, 0.99)
    [draft] = choose(choice, [row], (5,), model)
    assert draft.method == "lookup"


def test_one_long_draft_is_not_worth_what_it_costs_all_others() -> None:
    """Every row of a step is as wide as the longest draft."""
    proposer, model = Fixed(), measured(seqs=8)
    choice, rows = DraftChoice([proposer]), [seq() for _ in range(8)]
    for length in LENGTHS:
        choice.timed(model.size(8), 0, length, 1 + 0.3 * length)
    proposer.give(rows[0], 32, 0.97)
    assert choose(choice, rows, (0,) * 8, model) == (NO_DRAFT,) * 8
    for row in rows:
        proposer.give(row, 32, 0.97)
    assert all(draft.length for draft in choose(choice, rows, (0,) * 8, model))


@pytest.mark.parametrize(("ruled", "seconds", "taken"), [(1, 1.2, False), (1, 1.04, True), (5, 1.2, True)])
def test_few_grammars_draft_only_what_does_not_slow_down_the_others(ruled: int, seconds: float, taken: bool) -> None:
    proposer, model = Fixed("grammar"), measured(seqs=9)
    choice, rows = DraftChoice([proposer]), [seq(("grammar",)) for _ in range(9)]
    for row in rows[:ruled]:
        row.grammar = object()
        proposer.give(row, 8, 0.98)
    for length in LENGTHS:
        choice.timed(model.size(9), 0, length, seconds)
    assert choice.wants_tokens(rows, model) is taken
    assert bool(proposer.asked) is taken, "to ask takes time"
    assert any(draft.tokens for draft in choose(choice, rows, (0,) * 9, model)) is taken


@pytest.mark.parametrize(("seqs", "steps"), [(9, 2), (20, 0)])
def test_few_grammars_are_seldom_asked_before_a_draft_was_timed_and_never_where_it_could_not_pay(
    seqs: int, steps: int
) -> None:
    """To ask takes longer than all else that a step decides. A draft token that all of twenty pay for does not pay,
    whatever the grammar forces; of nine it might."""
    proposer, model = Fixed("grammar"), measured(seqs=seqs)
    choice, rows = DraftChoice([proposer]), [seq(("grammar",)) for _ in range(seqs)]
    rows[0].grammar = object()
    proposer.give(rows[0], 8, 0.5)
    assert not any(choice.wants_tokens(rows, model) for _ in range(RECONSIDER + 2))
    assert proposer.asked == seqs * steps, "every row is asked, or none"
    choice.timed(model.size(seqs), 0, 1, 1.01)
    asked = proposer.asked
    choice.wants_tokens(rows, model)
    assert proposer.asked > asked, "here it is nearly free"


def test_what_is_not_worth_waiting_for_is_weighed_again_when_something_has_changed() -> None:
    def declined() -> tuple[DraftChoice, Fixed, list[Any]]:
        proposer = Fixed()
        choice, rows = DraftChoice([proposer]), [seq(("lookup",)) for _ in range(8)]
        for length in LENGTHS:
            choice.timed(8, 0, length, 1.6)
        for row in rows[:1]:
            proposer.give(row, 4, 0.9)
        assert not choice.wants_tokens(rows, measured(seqs=8))
        return choice, proposer, rows

    choice, proposer, rows = declined()
    for row in rows[1:]:
        proposer.give(row, 4, 0.9)
    assert choice.wants_tokens(rows, measured(seqs=8))  # more is offered
    choice, _, rows = declined()
    for length in LENGTHS:
        for _ in range(7):
            choice.timed(8, 0, length, 1.1)
    assert choice.wants_tokens(rows, measured(seqs=8))  # a step was faster
    choice, _, rows = declined()
    slower = measured(1.5, seqs=8)
    assert [choice.wants_tokens(rows, slower) for _ in range(RECONSIDER + 1)] == [False] * RECONSIDER + [True]


def test_beside_few_grammars_that_are_too_slow_others_still_draft() -> None:
    lookup, grammar, model = Fixed(), Fixed("grammar"), measured(seqs=9)
    choice, rows = DraftChoice([lookup, grammar]), [seq(("lookup", "grammar")) for _ in range(9)]
    for length in LENGTHS:
        choice.timed(model.size(9), 0, length, 1.2)
    rows[0].grammar = object()
    grammar.give(rows[0], 8, 0.98)
    assert not choice.wants_tokens(rows, model)
    for row in rows[1:]:
        lookup.give(row, 8, 0.98)
    assert choice.wants_tokens(rows, model)
    drafts = choose(choice, rows, (0,) * 9, model)
    assert {draft.method for draft in drafts} == {"lookup", "grammar"} and all(draft.tokens for draft in drafts)
    fixed = seq(("grammar",), length=2)
    fixed.grammar = object()
    grammar.give(fixed, 8, 0.98)
    assert choice.wants_tokens([fixed, *[seq() for _ in range(8)]], model)


def test_a_fixed_length_takes_the_better_proposal_whatever_it_costs() -> None:
    proposer, model = Fixed(), measured(head=5.0)
    row, headless = seq(length=4), seq(("lookup",), length=4)
    choice = DraftChoice([proposer])
    for length in LENGTHS:
        choice.timed(1, 0, length, 100.0)
    proposer.give(headless, 20, 0.4)
    assert choose(choice, [headless], (0,), model) == (Draft("lookup", 4, (0, 1, 2, 3)),)
    assert choice.wants_tokens([headless], model)
    proposer.give(row, 20, 0.99)
    assert choose(choice, [row], (4,), model) == (Draft("lookup", 4, (0, 1, 2, 3)),)
    proposer.give(row, 20, 0.01)
    assert choose(choice, [row], (4,), model) == (Draft(length=4),)


def test_an_offer_waits_until_all_tokens_were_read() -> None:
    proposer, model = Fixed(), measured()
    row = seq()
    proposer.give(row, 20, 0.95)
    row.scheduled = 1
    assert choose(DraftChoice([proposer]), [row], (0,), model) == (NO_DRAFT,)
    row.generated.append(5)
    assert choose(DraftChoice([proposer]), [row], (0,), model) != (NO_DRAFT,)


@pytest.mark.parametrize("left", [1, 2, 5])
def test_the_last_token_is_never_a_draft_token(left: int) -> None:
    proposer, model = Fixed(), measured()
    row = seq(limit=left)
    proposer.give(row, 20, 0.95)
    [draft] = choose(DraftChoice([proposer]), [row], (0,), model)
    assert draft.length <= left - 1


def test_a_model_that_verifies_few_tokens_gets_few() -> None:
    proposer, model = Fixed(), measured()
    row = seq()
    proposer.give(row, 32, 0.99)
    [draft] = choose(DraftChoice([proposer], longest=8), [row], (0,), model)
    assert draft.length == 8


def test_many_rows_never_make_a_step_of_more_tokens_than_memory_is_kept_for() -> None:
    proposer = Fixed()
    for count in (1, 4, 8, 20, 64):
        model = measured(seqs=count)
        rows = [seq() for _ in range(count)]
        for row in rows:
            proposer.give(row, 32, 0.999)
        longest = max(draft.length for draft in choose(DraftChoice([proposer]), rows, (0,) * count, model))
        assert longest <= EXACT.longest_draft(count, 32, 8)
        assert count * (longest + 1) <= 256 or longest <= 8


def test_what_was_too_slow_once_is_tried_again_now_and_then() -> None:
    proposer, model = Fixed(), measured()
    choice, row = DraftChoice([proposer]), seq()
    for length in LENGTHS:
        choice.timed(1, 0, length, 500.0)  # the machine was busy with something else
    proposer.give(row, 16, 0.95)
    taken = []
    for _ in range(8 * FIRST_WAIT):
        [draft] = choose(choice, [row], (0,), model)
        taken.append(draft.length > 0)
        if draft.length:
            choice.timed(1, 0, draft.length, 1.5)
    assert not any(taken[: FIRST_WAIT - 1]) and taken[FIRST_WAIT - 1]


def test_the_time_of_a_busy_moment_does_not_count_for_ever() -> None:
    """Another length is taken meanwhile, so that nothing is declined."""
    proposer, model = Fixed(), measured()
    choice, row = DraftChoice([proposer]), seq()
    choice.timed(1, 0, 8, 50.0)
    choice.timed(1, 0, 1, 1.05)
    proposer.give(row, 8, 0.98)
    taken = []
    for _ in range(64 * STALE):
        [draft] = choose(choice, [row], (0,), model)
        taken.append(draft.length)
        choice.timed(1, 0, draft.length, 1 + 0.05 * draft.length)
    assert taken[0] == 1
    assert taken[-STALE:] == [8] * STALE


def test_a_length_that_stays_slow_is_tried_more_and_more_rarely() -> None:
    proposer, model = Fixed(), measured()
    choice, row = DraftChoice([proposer]), seq()
    proposer.give(row, 8, 0.98)
    slow = []
    for turn in range(64 * STALE):
        [draft] = choose(choice, [row], (0,), model)
        if draft.length > 3:
            slow.append(turn)
        choice.timed(1, 0, draft.length, 20.0 if draft.length > 3 else 1 + 0.05 * draft.length)
    assert 0 < len(slow) < 16


def test_a_shorter_draft_costs_no_more_than_a_longer_one() -> None:
    choice = DraftChoice([Fixed()])
    for length, seconds in ((1, 9.0), (3, 0.5), (8, 0.75)):
        choice.timed(1, 0, length, seconds)
    assert choice.costs() == {"1": {"1": 500.0, "3": 500.0, "8": 750.0}}


@pytest.mark.parametrize(("ruled", "plain"), [(4, True), (3, False)])
def test_where_grammars_make_all_wait_plain_steps_are_compared_that_waited(ruled: int, plain: bool) -> None:
    """Else with those that did not."""
    proposer, model = Fixed("lookup"), measured(plain=2.0, seqs=8)
    choice, rows = DraftChoice([proposer]), [seq() for _ in range(8)]
    for row in rows[:ruled]:
        row.grammar = object()
    for row in rows:
        proposer.give(row, 1, 0.9)
    choice.timed(8, 0, 0, 1.0)
    choice.timed(8, 0, 1, 2.5)
    assert all(draft is NO_DRAFT for draft in choose(choice, rows, (0,) * 8, model)) is plain


def test_the_better_of_two_offers_is_taken() -> None:
    one, two, model = Fixed(), Fixed("grammar"), measured()
    row = seq(("lookup", "grammar"))
    one.give(row, 3, 0.5)
    two.give(row, 3, 0.9)
    [draft] = choose(DraftChoice([one, two]), [row], (0,), model)
    assert draft.method == "grammar"


def test_steps_are_counted_by_their_longest_draft() -> None:
    proposer, model = Fixed(), measured(head=0.05)
    row = seq()
    proposer.give(row, 16, 0.99)
    [draft] = choose(DraftChoice([proposer]), [row], (2,), model)
    assert draft.length == 16
    assert sum(model.steps) == 1 and model.steps[16] == 1


def test_mixed_steps_are_not_counted_as_the_cost_of_either() -> None:
    choice = DraftChoice([Fixed()])
    choice.timed(1, 3, 8, 9.0)
    assert choice.costs() == {}
    choice.timed(1, 0, 7, 0.5)
    assert choice.costs() == {"1": {"8": 500.0}}


def test_proposers_hear_that_a_sequence_has_ended() -> None:
    proposer, row = Fixed(), seq()
    DraftChoice([proposer]).finished(row)
    assert proposer.ended == [row]
