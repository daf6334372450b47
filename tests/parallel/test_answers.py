from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from paceline.cache.budget import Budget
from paceline.parallel.answers import AskedBudget, Following, Leading, RanksFailed, StepClock
from tests.parallel.recorded import Player, Recorder


def test_rank_0_sends_its_answers_and_others_take_them() -> None:
    link = Recorder()
    leading = Leading(cast(Any, link), StepClock())
    with leading.order("step", {"more": 1}):
        assert leading("bytes", lambda: 7) == 7
    step, answer = link.orders
    assert (step.kind, step.body["more"], answer.body) == ("step", 1, {"value": 7})
    following = Following(cast(Any, Player([answer])), StepClock())
    following.active = True
    assert following("bytes", lambda: 0) == 7


def test_between_orders_and_on_other_threads_everybody_answers_for_himself() -> None:
    link = Recorder()
    leading = Leading(cast(Any, link), StepClock())
    assert leading("bytes", lambda: 7) == 7
    with leading.order("step", {}):
        thread = threading.Thread(target=leading, args=("bytes", lambda: 8))
        thread.start()
        thread.join()
    assert [order.kind for order in link.orders] == ["step"]
    assert Following(cast(Any, Player([])), StepClock())("bytes", lambda: 3) == 3


def test_the_clock_stands_still_while_an_order_is_carried_out() -> None:
    clock, link = StepClock(), Recorder()
    with Leading(cast(Any, link), clock).order("step", {}):
        now = clock()
        assert clock() == now == link.orders[0].body["now"]
    assert clock() >= now


def test_an_answer_that_cannot_be_sent_ends_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise ConnectionError("rank 1 is gone")

    link = Recorder()
    monkeypatch.setattr(link, "send", gone)
    with pytest.raises(RanksFailed, match="rank 1 is gone"), Leading(cast(Any, link), StepClock()).order("step", {}):
        pass


def test_a_budget_answers_with_rank_0s_numbers() -> None:
    inner = Budget(100)
    answers = iter([40, 5])
    budget = AskedBudget(inner, cast(Any, lambda kind, answer: next(answers)))
    budget.hold("weights", 10)
    assert (budget.room("prefixes"), budget.holding("weights")) == (40, 5)
    assert (inner.held(), budget.held(), budget.usable) == ({"weights": 10}, {"weights": 10}, 100)
