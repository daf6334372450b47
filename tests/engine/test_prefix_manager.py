"""What the prefix manager holds for a sequence, and lets go. What it restores: integration/test_prefix_*.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.cache.budget import Budget
from paceline.engine.prefix_manager import WRITE_SHARE, PrefixManager
from paceline.engine.queueing import Timeouts
from tests.conftest import Tiny
from tests.engine.stepper import Stepper
from tests.reference import greedy_text


@pytest.fixture(scope="module")
def llama(tiny: Tiny) -> Path:
    return tiny("llama")


def text(length: int, first: int = 1) -> list[int]:
    return [first, *((7 * place) % 90 + 2 for place in range(length - 1))]


def pinned(manager: PrefixManager) -> int:
    return sum(node.pins for node in manager.cache.nodes())


def test_a_prefix_is_pinned_while_a_sequence_uses_it(llama: Path) -> None:
    stepper = Stepper(llama, chunk=16, cache=1 << 24)
    stepper.greedy("first", text(64), 2)
    stepper.finish()
    assert pinned(stepper.reuse) == 0
    again = stepper.greedy("again", text(64), 8)
    stepper.step(2)
    assert pinned(stepper.reuse) > 0
    stepper.finish()
    assert pinned(stepper.reuse) == 0 and again.cached > 0


def test_a_prefix_that_cannot_be_restored_is_not_pinned(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(llama, chunk=16, cache=1 << 24)
    stepper.greedy("first", text(64), 2)
    stepper.finish()
    monkeypatch.setattr(stepper.reuse, "_fits", lambda seq, hit: False)
    again = stepper.greedy("again", text(64), 8)
    stepper.finish()
    assert (pinned(stepper.reuse), again.cached) == (0, 0)


def test_a_preempted_sequence_waits_for_nobody_and_the_others_wait_on(llama: Path) -> None:
    stepper = Stepper(llama, chunk=16, cache=1 << 24)
    heard = [stepper.greedy(name, text(128), 4) for name in ("computes", "waits", "preempted")]
    stepper.step(2)
    manager, waiting = stepper.reuse, {str(wait.seq.id): wait.seq for wait in stepper.reuse._waits}
    assert set(waiting) == {"waits", "preempted"}
    manager.on_preempt(waiting["preempted"], keep=True)
    assert [wait.seq.id for wait in manager._waits] == ["waits"]
    manager.on_admit(waiting["preempted"])
    stepper.finish()
    assert heard[0].tokens == heard[1].tokens == heard[2].tokens and heard[1].cached >= 100
    assert pinned(manager) == 0


@pytest.mark.parametrize("steps", [3, 10], ids=["in its prompt", "in its answer"])
def test_a_request_whose_time_is_over_goes_on_where_it_was_when_it_comes_again(llama: Path, steps: int) -> None:
    """Nothing is wrong with what it has computed."""
    stepper = Stepper(llama, chunk=16, cache=1 << 24)
    now = 100.0
    stepper.engine.timeouts, stepper.engine.clock = Timeouts(request=10.0), lambda: now
    late = stepper.greedy("late", text(96), 30)
    stepper.step(steps)
    now += 11
    stepper.finish()
    assert late.finish_reason == "error" and late.deltas[-1].refusal is not None
    assert bool(late.tokens) == (steps == 10)
    again = stepper.greedy("again", text(96), 8)
    stepper.finish()
    assert again.cached >= 16 * min(steps - 1, 5) and again.tokens == greedy_text(llama, text(96), 8)
    assert pinned(stepper.reuse) == 0


def test_after_its_end_the_runner_stores_nothing(llama: Path) -> None:
    stepper = Stepper(llama, chunk=16, cache=1 << 24)
    stepper.reuse.close()
    late = stepper.greedy("late", text(64), 8)
    stepper.step(8)
    assert late.tokens and stepper.reuse.stats().entries == 0


def test_a_prefix_may_end_anywhere_only_where_no_layer_and_no_head_needs_a_checkpoint(tiny: Tiny) -> None:
    def anywhere(family: str, **made: bool) -> bool:
        return Stepper(tiny(family, **made), cache=1 << 20, speculation="auto").reuse.cache.anywhere

    assert [anywhere("llama"), anywhere("hybrid", mtp=False), anywhere("hybrid")] == [True, False, False]


def test_pending_writes_are_bounded_by_the_memory_that_is_left(llama: Path, tmp_path: Path) -> None:
    stepper = Stepper(llama, cache=1 << 20, disk=tmp_path)
    manager, budget = stepper.reuse, Budget(1 << 20, headroom=0)
    manager.budget = budget
    assert manager.disk is not None
    manager.enforce_budget()
    assert manager.disk.write_limit == (1 << 20) // WRITE_SHARE
    budget.hold("rows", (1 << 20) - 100)
    manager.enforce_budget()
    assert manager.disk.write_limit == 100
    stepper.close()
