"""A plan is a value: frozen, and the same after a round trip through JSON."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine.plan import PrefillChunk, StepPlan
from paceline.engine.proposer import Draft
from paceline.types import SPECULATION_METHODS, RequestId

IDS = st.text(min_size=1, max_size=8).map(RequestId)
SOME = st.lists(IDS, max_size=4, unique=True).map(tuple)
CHUNKS = st.lists(st.builds(PrefillChunk, IDS, st.integers(1, 4096)), max_size=3).map(tuple)
DRAFTS = st.builds(
    Draft,
    st.sampled_from(SPECULATION_METHODS),
    st.integers(0, 32),
    st.lists(st.integers(0, 9), max_size=3).map(tuple),
)
PLANS = SOME.flatmap(
    lambda decode: st.builds(
        StepPlan,
        decode=st.just(decode),
        drafts=st.lists(DRAFTS, min_size=len(decode), max_size=len(decode)).map(tuple),
        shorter=st.lists(st.integers(1, 8), max_size=3).map(tuple),
        prefill=CHUNKS,
        encode=st.none() | IDS,
        score=st.none() | IDS,
        draft_prefill=CHUNKS,
        admit=SOME,
        preempt=SOME,
        cause=st.sampled_from(["memory", "policy", "fault"]),
        exceeds_memory=st.none() | IDS,
    )
)


@given(PLANS)
def test_a_plan_is_the_same_after_json(plan: StepPlan) -> None:
    read = StepPlan.from_json(plan.to_json())
    assert read == plan and hash(read) == hash(plan)
    assert read.to_json() == plan.to_json()


def test_a_plan_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        StepPlan().decode = (RequestId("a"),)  # type: ignore[misc]


def test_a_plan_that_admits_preempts_or_ends_somebody_is_no_step() -> None:
    one = (RequestId("a"),)
    assert StepPlan().is_step and StepPlan().empty
    assert StepPlan(decode=one, drafts=(Draft(length=3),)).draft_length == 3
    assert not StepPlan(admit=one).is_step
    assert not StepPlan(preempt=one).is_step
    assert not StepPlan(exceeds_memory=one[0]).is_step
