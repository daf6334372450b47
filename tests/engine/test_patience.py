"""When a request's time is over. No MLX, no clock."""

from __future__ import annotations

import pytest

from paceline.engine.patience import Patience
from paceline.engine.row import Company
from paceline.errors import DeadlineExceeded, QueueTimeout
from tests.engine.test_scheduler import row

ALL = Patience(queue_timeout=5, first_token=10, request=20)


def why(patience: Patience, age: float, *, started: bool = False, generated: int = 0) -> type[Exception] | None:
    asked = row(8)
    asked.arrived, asked.company.started, asked.generated = 100.0, started, [1] * generated
    found = patience.overdue(asked, 100.0 + age, retry_after=7)
    assert found is None or found.retry_after == 7
    return None if found is None else type(found)


def test_whoever_is_given_all_the_time_has_it() -> None:
    assert why(Patience(), 1e9) is None


@pytest.mark.parametrize("age, expected", [(5, None), (5.1, QueueTimeout), (10.1, DeadlineExceeded)])
def test_a_request_that_has_not_run_may_wait_only_so_long(age: float, expected: type[Exception] | None) -> None:
    assert why(ALL, age) is expected


@pytest.mark.parametrize("age, expected", [(10, None), (10.1, DeadlineExceeded)])
def test_one_that_runs_must_say_something_in_time(age: float, expected: type[Exception] | None) -> None:
    assert why(ALL, age, started=True) is expected


@pytest.mark.parametrize("age, expected", [(20, None), (20.1, DeadlineExceeded)])
def test_one_that_speaks_must_come_to_an_end_in_time(age: float, expected: type[Exception] | None) -> None:
    assert why(ALL, age, started=True, generated=3) is expected


def test_a_choice_whose_sibling_runs_has_had_its_turn() -> None:
    first, second = row(8), row(8)
    first.company = second.company = Company([first, second])
    first.company.started = True
    assert Patience(queue_timeout=5).overdue(second, 1000.0, 1) is None
