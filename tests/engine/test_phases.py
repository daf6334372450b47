from __future__ import annotations

from paceline.engine.phases import Phases


def test_phases_follow_each_other_and_add_up() -> None:
    times = iter([10.0, 11.0, 13.5, 14.0])
    phases = Phases(lambda: next(times))
    for name in ("imports", "weights", "imports"):
        phases.done(name)
    assert phases.line() == "4.0 s: imports 1.5, weights 2.5"
