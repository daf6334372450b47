from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from paceline.cache.budget import Budget
from paceline.cache.memory_model import AttentionCost, MemoryModel
from paceline.engine.admission import Admission
from paceline.parallel.roles import backend, memory_of, take_tightest


def admission(limit: int, weights: int, token: int, chunk: float) -> Admission:
    budget = Budget(limit)
    budget.hold("weights", weights)
    return Admission(budget, MemoryModel((AttentionCost(None, token),), chunk_token=chunk), width=1)


def test_admission_counts_with_the_memory_of_the_tightest_rank() -> None:
    mine = admission(1000, 300, token=4, chunk=2.0)
    others = [memory_of(admission(900, 500, token=6, chunk=1.0)), memory_of(admission(2000, 300, token=2, chunk=3.0))]
    take_tightest(mine, others)
    assert mine.budget.usable - mine.budget.holding("weights") == 400
    assert mine.memory_model.attention[0].token == 6
    assert mine.memory_model.chunk_token == 3.0


def test_a_rank_0_that_is_the_tightest_stays_as_it_is() -> None:
    mine = admission(1000, 300, token=4, chunk=2.0)
    before = memory_of(mine)
    take_tightest(mine, [memory_of(admission(2000, 300, token=4, chunk=2.0))])
    assert memory_of(mine) == before


COSTS = [part.name for part in fields(MemoryModel) if part.name not in ("attention", "grouping")]


@pytest.mark.parametrize("name", COSTS)
def test_every_cost_is_the_highest_of_all_ranks(name: str) -> None:
    mine, other = (admission(1000, 300, token=4, chunk=2.0) for _ in range(2))
    dearer: dict[str, Any] = {name: 9}
    other.memory_model = replace(other.memory_model, **dearer)
    take_tightest(mine, [memory_of(other)])
    assert mine.memory_model == other.memory_model
    take_tightest(mine, [memory_of(admission(1000, 300, token=4, chunk=2.0))])
    assert mine.memory_model == other.memory_model


@pytest.mark.parametrize("name", ["token", "dense", "exact"])
def test_every_cost_of_a_slot_is_the_highest_of_the_ranks_with_that_window(name: str) -> None:
    mine, other, elsewhere = (admission(1000, 300, token=4, chunk=2.0) for _ in range(3))
    (slot,) = other.memory_model.attention
    other.memory_model = replace(other.memory_model, attention=(replace(slot, **{name: 9}),))
    elsewhere.memory_model = replace(mine.memory_model, attention=(replace(slot, window=5, **{name: 99}),))
    take_tightest(mine, [memory_of(other), memory_of(elsewhere)])
    assert mine.memory_model == other.memory_model


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"MLX_HOSTFILE": "hosts.json"}, "ring"),
        ({"MLX_JACCL_COORDINATOR": "10.0.0.1:5000"}, "jaccl"),
        ({"NCCL_HOST_IP": "10.0.0.1"}, "nccl"),
    ],
)
def test_the_backend_is_the_one_that_was_prepared(env: dict[str, str], expected: str) -> None:
    assert backend(env) == expected
