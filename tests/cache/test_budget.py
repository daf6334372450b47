"""One account of the device's memory."""

from __future__ import annotations

from paceline.cache.budget import Budget


def test_what_others_hold_is_not_there_for_me() -> None:
    budget = Budget(1000, headroom=100)
    assert budget.room("prefixes") == 900
    budget.hold("weights", 400)
    budget.hold("sequences", 200)
    assert budget.room("prefixes") == 300 and budget.room("sequences") == 500
    budget.hold("prefixes", 250)
    assert budget.room("prefixes") == 300 and budget.room("sequences") == 250  # what I hold is mine already
    budget.hold("sequences", 0)
    assert budget.room("prefixes") == 500
    assert budget.held() == {"weights": 400, "sequences": 0, "prefixes": 250}


def test_there_is_never_less_than_nothing() -> None:
    budget = Budget(100, headroom=50)
    budget.hold("weights", 400)
    assert budget.room("prefixes") == 0


def test_what_is_told_is_a_copy() -> None:
    budget = Budget(10)
    budget.held()["sequences"] = 5
    assert budget.held() == {}


def test_the_headroom_is_nobodys() -> None:
    assert Budget(1000, headroom=100).usable == 900
    assert Budget(100, headroom=1000).usable == 0
    assert Budget(100).usable == 100


def test_parts_are_counted_together_by_name() -> None:
    budget = Budget(1000)
    budget.hold("weights", 400)
    budget.hold("sequences", 30)
    assert budget.holding("weights") == 400
    assert budget.holding("weights", "sequences", "nobody") == 430
