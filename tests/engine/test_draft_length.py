"""How deep to draft, on simulated machines: no MLX, no clock, the same numbers in every run."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from paceline.cache.shape_buckets import GPU
from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine import sequence
from paceline.engine.draft_length import FORGET, AcceptanceRecord, DraftLengths, bucket
from paceline.engine.speculation_policy import SpeculationMode, SpeculationPolicy
from paceline.types import MAX_DRAFTED, Prompt, RequestId, Sampling, Speculation

Cost = Callable[[int, int], float]  # seconds of a step, by sequences and depth
ROUTER = SpeculationPolicy()


def seq(speculation: Speculation = "auto", *, limit: int = 10**9, prompt: int = 8) -> sequence.Sequence:
    asked = Sampling(speculation=speculation)
    text = TextStream(ByteDetokenizer(lambda token: b""))
    ids = Prompt((0,) * prompt)
    return sequence.Sequence(
        sequence.EngineRequest(RequestId("row"), ids, asked, limit, ROUTER.mode(ids, asked)), text, lambda delta: None
    )


class Machine:
    """Steps as the engine takes them. A step is timed if the one before was of its kind, as the engine does."""

    def __init__(
        self, cost: Cost, rates: Sequence[float], depths: DraftLengths | None = None, noise: float = 0.03
    ) -> None:
        self.cost, self.rates, self.noise = cost, rates, noise
        self.depths = depths or DraftLengths()
        self.luck = random.Random(1)
        self.before: tuple[int, int] | None = None
        self.restart()

    def restart(self) -> None:
        self.tokens = 0
        self.seconds = [0.0] * (MAX_DRAFTED + 1)  # by depth

    def step(self, seqs: Sequence[sequence.Sequence]) -> int:
        lengths = self.depths.choose(seqs)
        for each, length in zip(seqs, lengths, strict=True):
            each.draft.length = length
        depth = max(lengths, default=0)
        kind = (len(seqs), depth)
        seconds = self.cost(*kind) * self.luck.lognormvariate(0, self.noise)
        if kind == self.before:
            self.depths.timed(*kind, seconds)
        self.before = kind
        self.seconds[depth] += seconds
        for each in seqs:
            accepted = 0
            while accepted < each.draft.length and self.luck.random() < self.rates[accepted]:
                accepted += 1
            if each.draft.length:
                self.depths.verified(each, each.draft.length, accepted)
            each.scheduled += accepted + 1
            self.tokens += accepted + 1
        return depth

    def run(self, steps: int, seqs: Sequence[sequence.Sequence]) -> list[int]:
        return [self.step(seqs) for _ in range(steps)]

    def share(self, *depths: int) -> float:
        """Of the time, that in steps of these depths."""
        return sum(self.seconds[depth] for depth in depths) / sum(self.seconds)

    @property
    def speed(self) -> float:
        return self.tokens / sum(self.seconds)


def expected(rates: Sequence[float], depth: int) -> float:
    """Tokens of one sequence in a step."""
    total = reach = 1.0
    for rate in rates[:depth]:
        reach *= rate
        total += reach
    return total


def best(cost: Cost, rates: Sequence[float], seqs: int, most: int = MAX_DRAFTED) -> tuple[int, float]:
    """The depth that brings the most tokens a second, and how many."""
    speeds = [seqs * expected(rates, depth) / cost(seqs, depth) for depth in range(most + 1)]
    return speeds.index(max(speeds)), max(speeds)


def linear(first: float, each: float) -> Cost:
    """A round costs `first` of a plain step, and `each` for every guess."""
    return lambda seqs, depth: 1 + (first + each * depth if depth else 0)


FALLING = [0.8, 0.7, 0.6, 0.4, 0.3, 0.3, 0.3, 0.3]
PAYS: dict[str, tuple[Cost, list[float], int]] = {
    "one guess": (linear(0, 0.4), [0.7, 0.3, *[0.2] * 6], 1),
    "three guesses": (linear(0.1, 0.15), FALLING, 3),
    "as many as there may be": (linear(0.1, 0.05), [0.95] * 8, 8),
    "a round is dear and a guess is cheap": (linear(0.8, 0.03), [0.8] * 8, 8),
    "up to where another kernel is taken": (lambda seqs, depth: 1 + 0.1 * depth + (depth > 3), [0.8] * 8, 3),
}
NEVER_PAYS: dict[str, tuple[Cost, list[float]]] = {
    "poor guesses": (linear(0, 0.9), [0.3] * 8),
    "poor and dear guesses": (linear(0, 3.0), [0.3] * 8),
    "no guess is ever right": (linear(0.5, 0.4), [0.0] * 8),
    "good guesses that cost more than they bring": (linear(0.9, 0.9), [0.8] * 8),
}


# -- what pays


@pytest.mark.thin(3)
@pytest.mark.parametrize("count", [1, 5, 16])
@pytest.mark.parametrize("name", PAYS)
def test_it_comes_to_the_draft_length_that_brings_the_most_tokens_a_second(name: str, count: int) -> None:
    cost, rates, depth = PAYS[name]
    machine, seqs = Machine(cost, rates), [seq() for _ in range(count)]
    assert best(cost, rates, count)[0] == depth
    machine.run(1000, seqs)
    machine.restart()
    machine.run(2000, seqs)
    assert machine.speed > 0.97 * best(cost, rates, count)[1]
    assert machine.share(depth) > 0.7


@pytest.mark.parametrize("name", PAYS)
def test_it_learns_what_pays_in_a_few_hundred_steps(name: str) -> None:
    cost, rates, _ = PAYS[name]
    machine = Machine(cost, rates)
    machine.run(300, [seq() for _ in range(4)])
    assert machine.speed > 0.85 * best(cost, rates, 4)[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", NEVER_PAYS)
@pytest.mark.parametrize("count", [1, 8])
def test_where_drafting_does_not_pay_twenty_thousand_steps_spend_three_percent_on_finding_out(
    name: str, count: int
) -> None:
    cost, rates = NEVER_PAYS[name]
    machine, seqs = Machine(cost, rates), [seq() for _ in range(count)]
    machine.run(20_000, seqs)
    assert machine.share(0) > 0.97
    assert machine.speed > 0.97 * best(cost, rates, count)[1]


@pytest.mark.parametrize("agreement", [0.0, 0.5])
def test_among_many_that_come_and_go_the_first_thousand_steps_spend_two_percent_on_finding_out(
    agreement: float,
) -> None:
    """As on a GPU with 32 streams, where a draft token nearly doubles a step's time."""
    machine, luck = Machine(lambda seqs, depth: 1 + 0.8 * depth, [agreement] * 8), random.Random(2)
    machine.depths.buckets = GPU
    seqs = [seq() for _ in range(32)]
    depths = []
    for _ in range(1250):
        depths.append(machine.step(seqs))
        if luck.random() < 0.2:  # one has ended, and another comes: the step that reads its prompt is not timed
            seqs[luck.randrange(32)] = seq()
            machine.before = None
    assert sum(depth > 0 for depth in depths) < 0.02 * len(depths)
    assert machine.depths.cost(32, 1) is not None  # and it did find out


def test_the_draft_length_follows_the_number_of_sequences() -> None:
    def busy(seqs: int, depth: int) -> float:
        return 1 + 0.1 * depth if seqs < 8 else 1 + depth  # few sequences leave the machine idle, many do not

    machine, seqs = Machine(busy, [0.7] * 8), [seq() for _ in range(16)]
    for _ in range(3):
        machine.run(500, seqs[:2])
        machine.run(500, seqs)
    machine.restart()
    machine.run(200, seqs[:2])
    assert machine.share(0, 1) < 0.1
    machine.restart()
    machine.run(200, seqs)
    assert machine.share(0) > 0.9


def test_a_number_of_sequences_that_is_new_starts_where_its_neighbour_is() -> None:
    cost, rates, depth = PAYS["three guesses"]
    machine, seqs = Machine(cost, rates), [seq() for _ in range(4)]
    machine.run(1000, seqs[:3])
    assert machine.step(seqs) in (depth - 1, depth, depth + 1)


@pytest.mark.parametrize("steps", [100, 3000])
def test_draft_tokens_that_become_worthless_are_given_up_within_a_hundred_steps(steps: int) -> None:
    machine, seqs = Machine(linear(0.1, 0.15), FALLING), [seq(), seq()]
    machine.run(steps, seqs)
    machine.rates = [0.02] * 8
    machine.run(100, seqs)
    machine.restart()
    machine.run(400, seqs)
    assert machine.share(0) > 0.85


@pytest.mark.parametrize("steps", [200, 2000])
def test_draft_tokens_that_become_good_are_noticed_in_about_the_time_they_were_bad(steps: int) -> None:
    machine, seqs = Machine(linear(0.1, 0.15), [0.02] * 8), [seq(), seq()]
    machine.run(steps, seqs)
    machine.rates = [0.9] * 8
    machine.run(2 * steps, seqs)
    machine.restart()
    machine.run(500, seqs)
    assert machine.speed > 0.9 * best(linear(0.1, 0.15), machine.rates, 2)[1]


@pytest.mark.parametrize("name", PAYS)
def test_answers_of_fifty_tokens_one_after_another_are_nearly_as_fast_as_the_best_fixed_draft_length(name: str) -> None:
    cost, rates, depth = PAYS[name]
    choices: tuple[Speculation, ...] = ("auto", depth)
    speeds = []
    for speculation in choices:
        machine = Machine(cost, rates)
        for number in range(120):
            each = seq(speculation, limit=50)
            if number == 20:
                machine.restart()
            while each.scheduled < 50:
                machine.step([each])
        speeds.append(machine.speed)
    assert speeds[0] > 0.9 * speeds[1]


def test_a_cost_that_changes_is_noticed() -> None:
    machine, seqs = Machine(linear(0.1, 0.15), FALLING), [seq() for _ in range(4)]
    machine.run(500, seqs)
    machine.cost = linear(0.5, 1.5)
    machine.run(300, seqs)
    machine.restart()
    machine.run(300, seqs)
    assert machine.share(0) > 0.85


def test_a_single_slow_step_does_not_change_the_choice() -> None:
    cost, rates, depth = PAYS["three guesses"]
    machine, seqs = Machine(cost, rates, noise=0.0), [seq() for _ in range(16)]
    machine.run(1000, seqs)
    for _ in range(5):
        machine.depths.timed(16, depth, 1000.0)
        machine.run(20, seqs)
    machine.restart()
    machine.run(200, seqs)
    assert machine.share(depth - 1, depth, depth + 1) > 0.95


# -- sequences


def test_no_sequences_no_draft_length() -> None:
    depths = DraftLengths()
    assert depths.choose([]) == ()
    assert sum(depths.steps) == 0


@pytest.mark.parametrize("speculation", [1, 3, 8])
def test_a_fixed_draft_length_is_drafted_at_every_step_whatever_it_costs(speculation: int) -> None:
    cost, rates = NEVER_PAYS["no guess is ever right"]
    machine, seqs = Machine(cost, rates), [seq(speculation), seq(speculation)]
    assert set(machine.run(300, seqs)) == {speculation}
    assert machine.depths.steps[speculation] == 300


def test_a_sequence_that_may_not_draft_never_does() -> None:
    cost, rates, _ = PAYS["three guesses"]
    machine, seqs = Machine(cost, rates), [seq("off"), seq("off")]
    assert set(machine.run(100, seqs)) == {0}


def test_each_sequence_of_a_step_drafts_by_its_own_route() -> None:
    cost, rates, depth = PAYS["three guesses"]
    machine = Machine(cost, rates)
    off, auto, five, one = seqs = [seq("off"), seq("auto"), seq(5), seq(1)]
    seen = set()
    for _ in range(300):
        assert machine.step(seqs) == 5
        assert (off.draft.length, five.draft.length, one.draft.length) == (0, 5, 1)
        seen.add(auto.draft.length)
    assert auto.draft.length >= depth  # the step pays for five guesses anyhow
    assert max(seen) <= MAX_DRAFTED


def test_a_sequence_drafts_no_more_than_it_has_room_for() -> None:
    depths = DraftLengths()
    seqs = [seq(2), seq(6, limit=4), seq("off")]
    assert depths.choose(seqs) == (2, 3, 0)
    seqs[1].scheduled = 3
    assert depths.choose(seqs) == (2, 0, 0)


@pytest.mark.parametrize("speculation", ["auto", 8])
def test_a_sequence_never_drafts_beyond_its_last_token(speculation: Speculation) -> None:
    cost, rates, _ = PAYS["as many as there may be"]
    machine, company = Machine(cost, rates), seq("auto")
    machine.run(500, [company])
    machine.run(500, [company, seq("auto")])
    for limit in range(1, 12):
        each = seq(speculation, limit=limit)
        while each.scheduled < limit:
            room = limit - each.scheduled - 1
            machine.step([company, each])
            assert 0 <= each.draft.length <= room
        assert each.scheduled == limit


@pytest.mark.parametrize("speculation", ["auto", 4])
def test_a_prompt_of_one_token_starts_without_a_draft(speculation: Speculation) -> None:
    """The head has seen nothing yet."""
    cost, rates, _ = PAYS["as many as there may be"]
    machine = Machine(cost, rates)
    machine.run(500, [seq("auto")])
    young, old = seq(speculation, prompt=1), seq(4)
    assert machine.step([young]) == 0
    assert max(machine.run(10, [young])) > 0
    young = seq(speculation, prompt=1)
    assert machine.step([young, old]) == 4
    assert (young.draft.length, old.draft.length) == (0, 4)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_nobody_drafts_more_than_the_server_allows(most: int) -> None:
    cost, rates, _ = PAYS["as many as there may be"]
    machine = Machine(cost, rates, DraftLengths(most))
    seqs = [seq(), seq()]
    machine.run(300, seqs)
    machine.restart()
    assert max(machine.run(500, seqs)) == most
    assert machine.share(most) > 0.9
    assert machine.step([seq(8), seq("auto")]) == most


def test_sequences_that_draft_token_well_are_not_held_back_by_one_that_does_not() -> None:
    """The step's depth is for all: what counts is the sum."""
    cost = linear(0.1, 0.1)
    depths = DraftLengths()
    good, bad = [seq() for _ in range(7)], seq()
    machine = Machine(cost, [0.9] * 8, depths)
    for _ in range(500):
        machine.step([*good, bad])
        bad.acceptance = AcceptanceRecord()
        for _ in range(100):
            bad.acceptance.add(8, 0, FORGET)
    machine.restart()
    machine.run(100, [*good, bad])
    assert machine.share(0, 1, 2) < 0.2


# -- records


def test_draft_tokens_after_a_wrong_one_are_not_counted_as_tried() -> None:
    record = AcceptanceRecord()
    record.add(4, 1, 1.0)
    assert record.trials[:4] == [1, 1, 0, 0]
    assert record.hits[:4] == [1, 0, 0, 0]
    record.add(2, 2, 1.0)
    assert record.trials[:4] == [2, 2, 0, 0]
    assert record.hits[:4] == [2, 1, 0, 0]


def test_a_sequence_that_nobody_knows_draft_tokens_as_all_others_do() -> None:
    assert AcceptanceRecord().rates([0.1 * place for place in range(8)]) == pytest.approx(
        [0.1 * place for place in range(8)]
    )
    depths = DraftLengths()
    for _ in range(500):
        depths.verified(seq(), 3, 2)
    assert depths.rates()[:3] == pytest.approx([1, 1, 0], abs=0.05)
    assert depths.rates()[3] == pytest.approx(depths.rates()[2])  # never tried: as the one before it


def test_what_was_drafted_is_counted() -> None:
    depths = DraftLengths()
    one, two = seq(3), seq("off")
    for accepted in (0, 2, 3):
        depths.choose([one, two])
        depths.verified(one, 3, accepted)
    depths.choose([two])
    depths.timed(2, 3, 0.04)
    stats = depths.stats()
    assert (stats.num_drafts, stats.num_draft_tokens, stats.num_accepted_tokens) == (3, 9, 5)
    assert stats.num_accepted_tokens_per_pos == (2, 2, 1, 0, 0, 0, 0, 0)
    assert stats.num_steps_per_draft_length == (1, 0, 0, 3, 0, 0, 0, 0, 0)
    assert stats.cost_model.step_ms == {"2": {}}  # one time is not enough to go by
    for _ in range(2):
        depths.timed(2, 3, 0.04)
    assert depths.stats().cost_model.step_ms == {"2": {"3": 40.0}}


def test_sequence_counts_that_cost_about_the_same_are_learnt_together() -> None:
    assert [bucket(seqs) for seqs in range(1, 18)] == [1, 2, 3, 4, 6, 6, 8, 8, 12, 12, 12, 12, 16, 16, 16, 16, 24]
    assert all(seqs <= bucket(seqs) <= 1.5 * seqs for seqs in range(1, 300))


def test_a_route_of_no_draft_is_not_one_that_is_free() -> None:
    free, never = SpeculationMode(None, ""), SpeculationMode(0, "")
    assert free.drafts and not never.drafts and SpeculationMode(2, "").drafts


def test_lengths_that_pay_are_known_best_first() -> None:
    """For a step whose own length would be a new shape: a shorter one that does not pay is worse than none."""
    depths = DraftLengths(3)
    depths.buckets = GPU
    for depth, seconds in {0: 1.0, 1: 1.6, 2: 1.7, 3: 1.9}.items():
        for _ in range(3):
            depths.timed(32, depth, seconds)
    many = [seq() for _ in range(32)]
    for each in many:
        for _ in range(40):
            depths.verified(each, 3, 3 if each.number % 2 else 0)
    assert depths.choose(many)[0] == 3
    assert depths.paying == (3, 2), "one draft token brings less than plain steps"


@pytest.mark.parametrize("number", range(4))
def test_slow_first_steps_do_not_decide_where_sequences_come_and_go(number: int) -> None:
    """Every few steps another sequence joins, in a step that is not timed; there a probe brings few times or none."""
    costs = {0: 4.8, 1: 6.6, 2: 7.6, 3: 8.6, 5: 11.2, 8: 11.8}
    depths = DraftLengths()
    depths.buckets = GPU
    machine = Machine(lambda seqs, depth: costs[depth], [0.7] * 8, depths)
    machine.luck = random.Random(number)
    met: dict[int, int] = {}

    def cost(seqs: int, depth: int) -> float:
        met[depth] = met.get(depth, 0) + 1
        late = machine.luck.uniform(5, 30) if met[depth] <= 8 or machine.luck.random() < 0.06 else 0.0
        return costs[depth] + late

    machine.cost = cost
    seqs = [seq() for _ in range(8)]
    for step in range(4500):
        if step == 3500:
            machine.restart()
        if machine.luck.random() < 0.12:
            machine.before = None
            seqs[machine.luck.randrange(8)] = seq()
        machine.step(seqs)
    assert machine.share(3) > 0.9
