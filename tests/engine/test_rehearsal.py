"""What is rehearsed before the first request leaves nothing behind, and changes nobody's tokens."""

from __future__ import annotations

import logging
from typing import Any

import mlx.core as mx
import pytest

from paceline.engine.rehearsal import TURNS, rehearse
from paceline.models import loader
from paceline.sparse.scorer import Draft
from tests.engine.watched import LISTENING, SMALL, TOKENS, Tiny, Watched, greedy, prompt
from tests.integration.test_images import expected
from tests.memory import held
from tests.models.test_vision import TWO, built
from tests.reference import greedy_text


@pytest.mark.slow
@pytest.mark.parametrize(("family", "layout"), [("hybrid", "similar"), ("hybrid_moe", "padded")])
def test_it_leaves_nothing_behind(tiny: Tiny, family: str, layout: str, caplog: pytest.LogCaptureFixture) -> None:
    folder = tiny(family)
    stepper = Watched(folder, layout, traces=True)
    runner = stepper.runner
    draft = Draft(loader.load(str(tiny("llama")), "float32").language)
    depths = (0,) if runner.drafter is None else (0, 1, 3)
    with caplog.at_level(logging.WARNING, "paceline"):
        rehearse(runner, depths=depths, draft=draft)
        before = held()
        rehearse(runner, depths=depths, draft=draft)
    assert not caplog.records  # nothing broke off
    assert held() == before
    assert runner.batch is None and runner.rows == []
    assert runner.forward.traced_calls > TURNS
    heard = stepper.submit("after", built(folder, TWO) if runner.model.vision else prompt(40), greedy(TOKENS))
    stepper.finish()
    if runner.model.vision:
        told = expected(folder, TWO).tokens
        assert heard.tokens[: len(told)] == told
    else:
        assert heard.tokens == greedy_text(folder, prompt(40), TOKENS)


@pytest.mark.slow
def test_rounds_after_it_are_what_they_were(tiny: Tiny) -> None:
    folder = tiny("hybrid", **LISTENING)
    stepper = Watched(folder, "padded", traces=True)
    rehearse(stepper.runner, depths=(0, 1, 3))
    heard = [stepper.submit(str(size), prompt(size), greedy(TOKENS, speculation=3)) for size in (5, 40)]
    stepper.finish()
    assert [each.tokens for each in heard] == [greedy_text(folder, prompt(size), TOKENS) for size in (5, 40)]


def test_what_breaks_in_it_is_said_and_stops_nobody(
    tiny: Tiny, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny("hybrid", **SMALL)
    stepper = Watched(folder, "similar")

    def breaks(*_: Any) -> list[mx.array]:
        raise RuntimeError("no kernel for that")

    runner = stepper.runner
    monkeypatch.setattr(runner, "prefill", breaks)
    with caplog.at_level(logging.WARNING, "paceline"):
        rehearse(runner)
    assert "no kernel for that" in caplog.text
    monkeypatch.undo()
    heard = stepper.submit("after", prompt(20), greedy(TOKENS))
    stepper.finish()
    assert heard.tokens == greedy_text(folder, prompt(20), TOKENS)
