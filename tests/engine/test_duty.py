"""The share of the time that sparse prompts may take beside streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.engine.duty import Duty
from tests.integration.test_sparse_exactness import prompt
from tests.reference import greedy_text
from tests.sparse.stepper import SparseStepper


def test_streams_are_repaid_for_the_time_that_chunks_take() -> None:
    duty = Duty(share=0.25)
    assert not duty.rests(10.0)
    duty.begun()
    assert duty.rests(10.0) and duty.rests(20.0), "nobody knows yet how long it takes"
    duty.took(0.5, 21.0)
    assert duty.rests(21.0) and duty.rests(22.4)
    assert not duty.rests(22.6), "three times as long for the streams"


@pytest.mark.slow
def test_chunks_beside_streams_take_no_more_than_their_share(llama: Path) -> None:
    """With a clock of its own: every chunk takes 0.3 s, every step 0.1 s."""
    stepper = SparseStepper(llama, chunk=16, read=16)
    now = [0.0]
    engine = stepper.engine
    engine.clock = lambda: now[0]
    duty = engine.scheduler.duty
    took = duty.took
    duty.took = lambda seconds, now: took(0.3, now)  # type: ignore[method-assign]
    stream = stepper.greedy("stream", prompt(20, 1), 600)
    stepper.step(4)
    long = stepper.scored("long", prompt(), 4)
    chunks = steps = 0
    while not long.deltas:
        before = duty.under_way
        stepper.step()
        steps += 1
        chunks += duty.under_way > before
        now[0] += 0.1 + 0.3 * (duty.under_way > before)
    assert chunks > 20
    assert 0.3 * chunks / now[0] < duty.share + 0.05
    stepper.finish()
    assert stream.tokens == greedy_text(llama, prompt(20, 1), 600)
