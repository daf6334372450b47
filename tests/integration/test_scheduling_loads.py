"""Random loads on a whole scheduler (tests/engine/simulator): every request comes to one end, memory suffices."""

from __future__ import annotations

import random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from paceline.engine.policy import POLICIES, PolicyName, Priority
from paceline.engine.prefill_budget import MIN_CHUNK
from paceline.engine.scheduler import Scheduler
from tests.engine import simulator
from tests.engine.simulator import Guest, Script, Simulator, admission
from tests.lengths import turns


def starvation_bound(script: Script, failures: int) -> float:
    """Seconds that a sequence can wait at a stretch, at most.

    When it has waited for S (the starvation seconds), nobody passes it any more; ahead of it are only sequences that
    began to wait before it, at most n, the sequences of the script. Each of them, and then the sequence itself, comes
    in as soon as those that run have had their time, which is S from when they came in, and have said a token, for
    which they may first have to read a prompt: T, all prompts of the script by the least chunk, and all pictures, one a
    step. Rows under suspicion have their trial first, one after another: that is a T more for each time that a step
    failed, and for each sequence. So S + (n + 1) (S + T) + (n + 1) T f.
    """
    scheduler, guests = script.scheduler, script.guests
    least = min(MIN_CHUNK, scheduler.prefill_budget.max_chunk)
    contexts = sum(len(guest.seq.prompt.token_ids) + min(guest.says, guest.seq.max_tokens) for guest in guests)
    pictures = sum(len(guest.seq.media_costs) for guest in guests)
    reading = (contexts / least + len(guests) + pictures + 2) * simulator.LONGEST
    slices = (len(guests) + 1) * (scheduler.starvation + reading)
    return scheduler.starvation + slices + (len(guests) + 1) * reading * failures


def simulate(seed: int, policy: PolicyName) -> Simulator:
    dice = random.Random(seed)
    run = Simulator(simulator.random_script(dice, policy), dice)
    run.run()
    queue = run.scheduler
    assert all(len(endings) == 1 for endings in run.endings.values()), run.endings
    assert len(run.endings) == len(run.script.guests)
    assert not queue.running and not queue.waiting and not queue.isolation.trial
    assert queue.admission is not None
    parts = queue.admission.budget.held()
    assert all(parts.get(name, 0) == 0 for name in ("sequences", "reserved", "activations", "sequence images"))
    longest = max((seconds for seconds, _ in run.spells), default=0.0)
    assert longest <= starvation_bound(run.script, run.failures)
    return run


@pytest.mark.thin(4)
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=turns(50, 25, 6), phases=[Phase.generate])  # a smaller seed is not a simpler script
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_memory_suffices_and_everybody_comes_to_one_end(policy: PolicyName, seed: int) -> None:
    """2,400 random scripts, or 10,000 (four policies, 50 examples, 12 or 50 each): arrivals, growth, cancellations,
    faults, steps that run out of memory, preemption, over random budgets, prices and layouts. `Simulator` checks the
    bytes before and after every step, and that planning ends."""
    for number in range(turns(50, 12, 12)):
        simulate(seed * 50 + number, policy)


@pytest.mark.slow
def test_the_random_scripts_are_hard_enough() -> None:
    causes: dict[str, int] = {}
    setbacks: dict[str, int] = {}
    for seed in range(120):
        for policy in POLICIES:
            run = simulate(seed, policy)
            for endings in run.endings.values():
                causes[endings[0]] = causes.get(endings[0], 0) + 1
            for cause, count in run.scheduler.preemptions.items():
                setbacks[cause] = setbacks.get(cause, 0) + count
    assert set(causes) == {"answered", "outgrown", "cancelled", "failed", "queue full", "never fits"}
    assert min(causes.values()) >= 3 and causes["answered"] > sum(causes.values()) / 3
    assert min(setbacks.values()) >= 10, setbacks


def test_a_stream_of_urgent_requests_does_not_stop_the_others() -> None:
    queue = Scheduler(2, 64, policy=Priority(), starvation=1.0)
    queue.admission = admission(4096)
    guests = [Guest(simulator.seq(50, limit=40, priority=9), 0.0, 40) for _ in range(3)]
    guests += [Guest(simulator.seq(50, limit=40), 0.3 * number, 40) for number in range(200)]
    run = Simulator(Script(queue, guests, tokens=4), random.Random(1))
    run.run()
    assert max(run.ended_at[guest.seq.number] for guest in guests[:3]) < run.now / 2
