"""Given these sequences and this budget, this is the plan. No MLX, no time, no threads."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cache.shape_buckets import GPU, ShapeBuckets
from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine.policy import Priority
from paceline.engine.scheduler import Scheduler
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.engine.speculation_policy import SpeculationMode
from paceline.types import Media, Prompt, RequestId, Sampling
from tests.engine import simulator
from tests.engine.planned import Planned, planned
from tests.lengths import examples

NUMBERS = itertools.count()
PICTURE = Media("picture", 1, 9, (9,), cost=4)


def seq(prompt: int, *, limit: int = 1000, images: int = 0, name: str = "") -> Sequence:
    text = TextStream(ByteDetokenizer(lambda token: b""))
    request_id = RequestId(name or f"row {next(NUMBERS)}")
    return Sequence(
        EngineRequest(request_id, Prompt((0,) * prompt, (PICTURE,) * images), Sampling(), limit),
        text,
        lambda delta: None,
    )


def scheduler(*seqs: Sequence, max_rows: int = 64, budget: int = 10) -> Scheduler:
    result = Scheduler(max_rows, budget)
    for each in seqs:
        result.add(each)
    return result


def ride(plan: Planned) -> None:
    """What a runner does to the sequences of a plan."""
    for each in plan.decode:
        each.scheduled += 1
    for chunk in plan.prefill:
        chunk.seq.computed.tokens += chunk.tokens
    if plan.encode is not None:
        plan.encode.computed.features.append(object())
        plan.encode.computed.media += 1


def chunks(plan: Planned) -> list[tuple[Sequence, int]]:
    return [(chunk.seq, chunk.tokens) for chunk in plan.prefill]


def test_planning_needs_no_mlx() -> None:
    code = "import sys, paceline.engine.scheduler; sys.exit(any(n.split('.')[0] == 'mlx' for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_sequences_the_plan_is_empty() -> None:
    assert planned(scheduler()).empty
    assert planned(scheduler()) == Planned()


def test_the_plan_is_as_deep_as_its_deepest_sequence_and_sequences_that_prefill_do_not_count() -> None:
    plain, two, prefilling = seq(1), seq(2), seq(9)
    two.computed.tokens, two.speculation = 1, SpeculationMode(2, "")
    prefilling.speculation = SpeculationMode(5, "")
    plan = planned(scheduler(plain, two, prefilling, budget=4))
    assert (plan.decode, plan.depth) == ((plain, two), 2)
    assert (plain.draft.length, two.draft.length, prefilling.draft.length) == (0, 2, 0)


def test_sequences_enter_in_order_of_arrival_up_to_the_limit() -> None:
    seqs = [seq(1) for _ in range(5)]
    queue = scheduler(*seqs, max_rows=2)
    assert planned(queue).decode == tuple(seqs[:2])
    assert list(queue.waiting) == seqs[2:]
    queue.remove(seqs[0])
    assert planned(queue).decode == (seqs[1], seqs[2])
    queue.remove(seqs[1])
    queue.remove(seqs[2])
    assert planned(queue).decode == (seqs[3], seqs[4])
    assert not queue.waiting


def test_a_long_prompt_among_the_running_takes_a_place_too() -> None:
    long, short = seq(10_000), seq(1)
    queue = scheduler(long, short, max_rows=1)
    assert planned(queue).decode == ()
    assert list(queue.waiting) == [short]


def test_the_last_prompt_token_is_left_for_the_common_batch() -> None:
    only, two = seq(1), seq(2)
    plan = planned(scheduler(only, two))
    assert plan.decode == (only,)
    assert chunks(plan) == [(two, 1)]


def test_decoding_is_never_skipped_for_a_prompt() -> None:
    decoding = [seq(1) for _ in range(3)]
    queue = scheduler(*decoding, seq(500), seq(500), budget=7)
    for _ in range(30):
        plan = planned(queue)
        assert plan.decode[:3] == tuple(decoding)
        assert sum(chunk.tokens for chunk in plan.prefill) == 7
        ride(plan)


def test_a_sequence_decodes_in_the_step_after_its_prompt_is_done() -> None:
    only = seq(11)
    queue = scheduler(only, budget=10)
    plan = planned(queue)
    assert (plan.decode, chunks(plan)) == ((), [(only, 10)])
    ride(plan)
    plan = planned(queue)
    assert (plan.decode, plan.prefill) == ((only,), ())


def test_a_prompt_alone_gets_the_whole_budget() -> None:
    only = seq(1000)
    assert chunks(planned(scheduler(only, budget=64))) == [(only, 64)]


def test_the_oldest_prompt_gets_half_and_the_shortest_the_rest() -> None:
    long, middle, short = seq(1001), seq(101), seq(4)
    queue = scheduler(long, middle, short, budget=20)
    plan = planned(queue)
    assert chunks(plan) == [(long, 10), (middle, 7), (short, 3)]
    ride(plan)
    plan = planned(queue)
    assert plan.decode == (short,)
    assert chunks(plan) == [(long, 10), (middle, 10)]


def test_half_an_odd_budget_is_rounded_up_so_that_the_oldest_always_moves() -> None:
    long, short = seq(1001), seq(101)
    assert chunks(planned(scheduler(long, short, budget=1))) == [(long, 1)]
    assert chunks(planned(scheduler(long, short, budget=7))) == [(long, 4), (short, 3)]


def test_what_the_short_prompts_leave_goes_to_the_oldest() -> None:
    long, short = seq(1001), seq(3)
    assert chunks(planned(scheduler(long, short, budget=20))) == [(long, 18), (short, 2)]


def test_an_oldest_prompt_that_needs_less_than_half_leaves_the_rest() -> None:
    first, second = seq(3), seq(1001)
    assert chunks(planned(scheduler(first, second, budget=20))) == [(first, 2), (second, 18)]


def test_a_short_prompt_does_not_wait_for_a_long_ones_many_chunks() -> None:
    queue = scheduler(seq(100_000), budget=64)
    ride(planned(queue))
    late = seq(30)
    queue.add(late)
    ride(planned(queue))
    assert late in planned(queue).decode


def test_one_image_is_encoded_a_step_and_its_prompt_waits_for_all_of_them() -> None:
    pictured, other, text = seq(9, images=2), seq(9, images=1), seq(1)
    queue = scheduler(pictured, other, text)
    steps = []
    for _ in range(5):
        plan = planned(queue)
        steps.append((plan.encode, [chunk.seq for chunk in plan.prefill]))
        assert text in plan.decode
        ride(plan)
    assert steps == [(pictured, []), (pictured, []), (other, [pictured]), (None, [other]), (None, [])]
    assert planned(queue).decode == (pictured, other, text)


def test_images_whose_features_are_used_up_are_not_encoded_again() -> None:
    pictured = seq(9, images=2)
    queue = scheduler(pictured)
    for _ in range(3):
        ride(planned(queue))
    pictured.computed.features = []  # the runner lets them go when the sequence joins the batch
    plan = planned(queue)
    assert (plan.encode, plan.prefill, plan.decode) == (None, (), (pictured,))


def test_a_sequence_whose_last_token_is_under_way_rides_no_further() -> None:
    short = seq(1, limit=2)
    queue = scheduler(short)
    for _ in range(2):
        plan = planned(queue)
        assert plan.decode == (short,)
        ride(plan)
    assert planned(queue).empty
    assert queue.running == [short]  # until its tokens have been delivered


def test_a_sequence_can_be_removed_in_any_phase() -> None:
    pictured, prefilling, decoding, waiting = seq(9, images=1), seq(100), seq(1), seq(1)
    everyone = [pictured, prefilling, decoding, waiting]
    for gone in everyone:
        queue = scheduler(*everyone, max_rows=3)
        planned(queue)
        queue.remove(gone)
        plan = planned(queue)
        others = [each for each in everyone if each is not gone]
        assert queue.running == others
        assert not queue.waiting
        assert gone not in plan.decode and plan.encode is not gone
        assert all(chunk.seq is not gone for chunk in plan.prefill)


def test_to_remove_a_sequence_that_is_not_there_does_nothing() -> None:
    queue = scheduler(seq(1))
    queue.remove(seq(1))
    assert len(queue.waiting) == 1


def test_a_finished_sequence_is_not_planned_even_before_it_is_removed() -> None:
    prefilling, decoding = seq(100), seq(1)
    queue = scheduler(prefilling, decoding)
    planned(queue)
    prefilling.finished = decoding.finished = "abort"
    assert planned(queue).empty


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 4),  # steps before it arrives
        st.integers(1, 60),  # prompt
        st.integers(1, 5),  # tokens it may generate
        st.integers(0, 2),  # pictures
        st.integers(0, 12) | st.none(),  # steps until its caller leaves
    ),
    max_size=12,
)


@settings(deadline=None)
@given(arrivals=ARRIVALS, max_rows=st.integers(1, 5), budget=st.integers(1, 40))
def test_every_sequence_comes_to_its_end_and_none_is_lost(arrivals: list[Any], max_rows: int, budget: int) -> None:
    queue = Scheduler(max_rows, budget)
    coming = list(arrivals)
    entered: list[Sequence] = []
    seqs: list[Sequence] = []
    leaving: dict[int, list[Sequence]] = {}
    ended: list[Sequence] = []
    now, wait = 0, 0
    while coming or queue.running or queue.waiting:
        assert now < 3000, "a row starves"
        while coming and wait >= coming[0][0]:
            _, prompt, limit, images, patience = coming.pop(0)
            new = seq(max(prompt, 2) if images else prompt, limit=limit, images=images)
            queue.add(new)
            seqs.append(new)
            wait = 0
            if patience is not None:
                leaving.setdefault(now + patience, []).append(new)
        for gone in leaving.pop(now, []):
            if gone not in ended:
                gone.finished = "abort"
                queue.remove(gone)
                ended.append(gone)
        before = [(each, each.remaining, each.media_left) for each in queue.running]
        plan = planned(queue)
        entered += [each for each in queue.running if each not in entered]
        assert len(queue.running) <= max_rows
        assert set(plan.decode) == {each for each in queue.running if each.is_decoding}
        granted = [chunk.tokens for chunk in plan.prefill]
        assert all(1 <= chunk.tokens <= chunk.seq.remaining for chunk in plan.prefill)
        assert sum(granted) <= budget
        wanted = [each for each in queue.running if each.remaining and not each.media_left]
        assert sum(granted) == min(budget, sum(each.remaining for each in wanted))
        if wanted:
            oldest = next(chunk for chunk in plan.prefill if chunk.seq is wanted[0])
            assert oldest.tokens >= min(oldest.seq.remaining, (budget + 1) // 2)
        assert (plan.encode is None) == all(not each.media_left for each in queue.running)
        assert all(each in queue.running for each, _, _ in before)
        ride(plan)
        for each in list(queue.running):
            if each.scheduled == each.max_tokens:
                each.finished = "length"
                queue.remove(each)
                ended.append(each)
        now, wait = now + 1, wait + 1
    assert sorted(map(id, ended)) == sorted(map(id, seqs))
    assert all(each.scheduled == each.max_tokens for each in seqs if each.finished == "length")
    assert entered == [each for each in seqs if each in entered]  # in order of arrival


# -- buckets


def test_a_chunk_costs_its_bucket() -> None:
    long, short = seq(1001), seq(11)
    queue = scheduler(long, short, budget=24)
    queue.buckets = ShapeBuckets(widths=(8, 16))
    assert chunks(planned(queue)) == [(long, 8), (short, 10)]  # 8 of 24, and 16
    queue = scheduler(long, short, budget=20)
    queue.buckets = ShapeBuckets(widths=(8, 16))
    assert chunks(planned(queue)) == [(long, 16)]  # 12 do not suffice for the short one, and it is not divided


def test_a_budget_below_the_smallest_bucket_is_one_bucket_for_the_first() -> None:
    long, short = seq(1001), seq(11)
    queue = scheduler(long, short, budget=3)
    queue.buckets = GPU
    assert chunks(planned(queue)) == [(long, 32)]


@settings(max_examples=examples(200))
@given(
    lengths=st.lists(st.integers(2, 5000), min_size=1, max_size=8),
    budget=st.integers(1, 4096),
    widths=st.sampled_from([GPU.widths, (), (1,), (4, 8), (7, 100)]),
)
def test_the_padded_cost_of_a_step_stays_within_the_budget_and_the_first_prompt_progresses(
    lengths: list[int], budget: int, widths: tuple[int, ...]
) -> None:
    seqs = [seq(length) for length in lengths]
    queue = scheduler(*seqs, budget=budget)
    queue.buckets = buckets = ShapeBuckets(widths=widths)
    for _ in range(10):
        left = [each for each in seqs if each.remaining]
        if not left:
            return
        plan = planned(queue)
        first, granted = left[0], dict(chunks(plan))
        cost = sum(map(buckets.width, granted.values()))
        assert cost <= max(budget, buckets.width(1))
        assert all(0 < tokens <= each.remaining for each, tokens in granted.items())
        half = max((budget + 1) // 2, buckets.width(1))
        assert granted[first] >= min(first.remaining, buckets.within(half)) > 0
        for each in left:  # what is left would not do for anybody; in buckets only the first is divided
            have = granted.get(each, 0)
            if have < each.remaining:
                more = have + 1 if each is first or not widths else each.remaining
                assert buckets.width(more) - buckets.width(have) > budget - cost
        ride(plan)


def test_whom_not_even_all_others_could_make_room_for_costs_few_looks_at_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = Scheduler(64, 10, policy=Priority())
    full.admission = simulator.admission(8000)
    pinned = simulator.seq(2000, limit=1)
    small = [simulator.seq(100, limit=1, priority=5) for _ in range(12)]
    for each in (pinned, *small):
        full.add(each)
    assert len(planned(full).admitted) == 13
    looks = Mock(wraps=full.admission.fits)
    monkeypatch.setattr(full.admission, "fits", looks)
    full.add(simulator.seq(6500, limit=1))
    assert not planned(full).preempt
    assert looks.call_count == 2
    full.add(simulator.seq(3000, limit=1))
    assert 0 < len(planned(full).preempt) < 12  # as few as will do
