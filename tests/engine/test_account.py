from __future__ import annotations

import pytest

from paceline.cache.budget import Budget
from paceline.cache.memory_model import AttentionCost, MemoryModel
from paceline.cache.slot_plan import capacity
from paceline.engine.account import EVERY, RECENT, Account, Memory
from paceline.engine.admission import Admission
from tests.engine.test_scheduler import row


def test_the_error_is_relative_and_says_in_which_direction() -> None:
    assert Memory(110, 100, 120, 5).error == pytest.approx(0.1)
    assert Memory(90, 100, 120, 5).error == pytest.approx(-0.1)
    assert Memory(90, 0, 0, 0).error == 0.0


def test_a_look_is_due_every_half_second() -> None:
    account = Account()
    account.look(None, [], 10.0, 0, 0)
    assert account.memory is None  # nothing is estimated where memory is no matter
    assert not account.due(10.0 + EVERY / 2)
    assert account.due(10.0 + EVERY)


def test_an_estimate_is_what_is_held_and_not_what_is_promised() -> None:
    budget = Budget(10**9)
    for name, size in (("weights", 1000), ("prefixes", 200), ("pictures", 30), ("promised", 10**6)):
        budget.hold(name, size)
    admission = Admission(budget, MemoryModel((AttentionCost(None, 2),), state=5))
    assert admission.held([]) == 1230
    reads, speaks = row(1000), row(600)
    reads.prefilled, speaks.prefilled = 500, 599
    account = Account()
    account.look(admission, [reads, speaks], 1.0, 0, 0)
    assert account.memory is not None
    assert account.memory.estimate == 1230 + 2 * 5 + 2 * (capacity(None, 500) + capacity(None, 599))
    assert account.memory.active >= 0 and account.memory.peak >= account.memory.active


def test_rates_are_those_of_the_latest_looks_and_end_with_the_work() -> None:
    account = Account()
    assert account.rates(0.0, 0, 0)["generated_tokens_per_second"] == 0.0
    for step in range(100):
        account.look(None, [], step * EVERY, step * 100, step * 10)
    now = 99 * EVERY
    rates = account.rates(now, 9900, 990)
    assert rates == {"prompt_tokens_per_second": 200.0, "generated_tokens_per_second": 20.0}
    assert account.rates(now + RECENT / 2, 9900, 990)["generated_tokens_per_second"] < 20.0
    assert account.rates(now + RECENT + 1, 9900, 990)["generated_tokens_per_second"] == 0.0
