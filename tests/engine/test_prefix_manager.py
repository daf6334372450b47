"""What the prefix manager holds for a sequence, and lets go. What it restores: integration/test_prefix_*.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.engine.prefix_manager import PrefixManager
from tests.conftest import Tiny
from tests.engine.stepper import Stepper


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


def test_after_its_end_the_runner_stores_nothing(llama: Path) -> None:
    stepper = Stepper(llama, chunk=16, cache=1 << 24)
    stepper.reuse.close()
    late = stepper.greedy("late", text(64), 8)
    stepper.step(8)
    assert late.tokens and stepper.reuse.stats().entries == 0
