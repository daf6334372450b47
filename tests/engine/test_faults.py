"""Failures stay with their sequence; a device that keeps failing ends the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.engine.faults import MAX_FAILING_STEPS
from paceline.engine.sequence import Sequence
from paceline.types import RequestId
from tests.engine.stepper import Instead, Stepper
from tests.engine.test_pooling import embed, text, vector
from tests.integration.test_exactness import prompt
from tests.reference import greedy_text

Tiny = Callable[..., Path]


def held(stepper: Stepper) -> tuple[int, int, int, int]:
    """What an engine holds: running and waiting sequences, known requests, sequences in the batch."""
    engine = stepper.engine
    stepper.step(2)
    return len(engine.scheduler.running), len(engine.scheduler.waiting), len(engine.seqs), len(stepper.runner.seqs)


def test_a_sequence_whose_prefill_fails_ends_alone(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid, "similar")
    good = stepper.greedy("good", prompt(40), 12)
    stepper.step(3)
    bad = stepper.greedy("bad", prompt(50), 12)
    prefill = stepper.runner.prefill

    def fails(seq: Sequence, tokens: int) -> list[mx.array]:
        if seq.id == "bad":
            raise RuntimeError("no such thing")
        return prefill(seq, tokens)

    monkeypatch.setattr(stepper.runner, "prefill", fails)
    late = stepper.greedy("late", prompt(30), 12)
    stepper.finish()
    assert (bad.finish_reason, bad.deltas[-1].error) == ("error", "no such thing")
    assert good.tokens == greedy_text(hybrid, prompt(40), 12)
    assert late.tokens == greedy_text(hybrid, prompt(30), 12)
    assert held(stepper) == (0, 0, 0, 0)


def test_a_sequence_whose_logits_are_not_numbers_ends_alone(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid, "similar")
    good = stepper.greedy("good", prompt(40), 20)
    bad = stepper.greedy("bad", prompt(41), 20)
    forward = stepper.runner.forward
    steps = 0

    def poisoned(*arguments: Any, **options: Any) -> Any:
        nonlocal steps
        steps += 1
        (logits, *others), close = forward(*arguments, **options)
        if steps == 5:
            place = [seq and seq.id for seq in stepper.runner.rows].index(RequestId("bad"))
            logits = mx.where((mx.arange(logits.shape[0]) == place)[:, None, None], mx.nan, logits)
        return [logits, *others], close

    monkeypatch.setattr(stepper.runner, "forward", Instead(forward, poisoned))
    stepper.finish()
    assert bad.finish_reason == "error"
    assert bad.tokens == greedy_text(hybrid, prompt(41), 20)[: len(bad.tokens)]
    assert good.tokens == greedy_text(hybrid, prompt(40), 20)


def test_a_sequence_whose_text_fails_ends_alone(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid)
    good = stepper.greedy("good", prompt(10), 8)
    bad = stepper.greedy("bad", prompt(11), 8)
    stepper.step()

    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("not a character")

    monkeypatch.setattr(stepper.engine.seqs[RequestId("bad")].text, "push", broken)
    stepper.finish()
    assert bad.finish_reason == "error"
    assert good.tokens == greedy_text(hybrid, prompt(10), 8)


def test_a_step_that_fails_once_is_run_again_and_nobody_notices(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid, "similar")
    seqs = [stepper.greedy(str(n), prompt(n), 16) for n in (20, 33)]
    forward = stepper.runner.forward
    steps = 0

    def sometimes(*arguments: Any, **options: Any) -> Any:
        nonlocal steps
        steps += 1
        out = forward(*arguments, **options)
        if steps % 4 == 0:  # a step that breaks half way: begun, never closed
            raise RuntimeError("a passing fault")
        return out

    monkeypatch.setattr(stepper.runner, "forward", Instead(forward, sometimes))
    stepper.finish()
    assert [seq.tokens for seq in seqs] == [greedy_text(hybrid, prompt(n), 16) for n in (20, 33)]
    assert stepper.engine.failure is None


def test_a_sampler_that_fails_once_changes_nobodys_tokens(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid, "similar")
    seqs = [stepper.greedy(str(n), prompt(n), 16) for n in (20, 33)]
    sampler = stepper.runner.sampler
    steps = 0

    def sometimes(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps % 5 == 0:
            raise RuntimeError("a passing fault")
        return sampler(*arguments)

    monkeypatch.setattr(stepper.runner, "sampler", Instead(sampler, sometimes))
    stepper.finish()
    assert [seq.tokens for seq in seqs] == [greedy_text(hybrid, prompt(n), 16) for n in (20, 33)]


def test_reads_that_keep_failing_stop_the_engine_too(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(hybrid)
    monkeypatch.setattr(stepper.runner, "collect", lambda launched: 1 / 0)
    for n in range(MAX_FAILING_STEPS):
        if stepper.engine.failure is None:
            stepper.greedy(str(n), prompt(4), 3)
            stepper.step(3)
    assert stepper.engine.failure is not None
    assert {heard.finish_reason for heard in stepper.heard.values()} <= {"error", None}


def test_prompts_that_fail_are_the_devices_fault_only_if_it_can_do_nothing_else(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = Stepper(hybrid)
    monkeypatch.setattr(stepper.runner, "prefill", lambda seq, tokens: 1 / 0)
    for n in range(2 * MAX_FAILING_STEPS):
        stepper.greedy(f"poison {n}", prompt(9), 3)
        stepper.step(3)
    assert stepper.engine.failure is None
    monkeypatch.setattr(stepper.runner, "probe", lambda: 1 / 0)
    for n in range(MAX_FAILING_STEPS):
        assert stepper.engine.failure is None
        stepper.greedy(f"gone {n}", prompt(9), 3)
        stepper.step(1)
    assert stepper.engine.failure is not None
    assert {heard.finish_reason for heard in stepper.heard.values()} == {"error"}


def test_an_embedding_shows_that_the_device_works(llama: Path) -> None:
    """Where nothing else is asked for, passing faults between them are never in a row."""
    stepper = Stepper(llama)
    for n in range(MAX_FAILING_STEPS + 1):
        stepper.engine.faults.attempt(lambda: 1 / 0)
        heard = embed(stepper, str(n), text(4))
        stepper.finish()
        assert len(vector(heard))
    assert stepper.engine.failure is None
    assert stepper.engine.counters.failed_steps == MAX_FAILING_STEPS + 1


@pytest.mark.parametrize("company", [False, True], ids=["alone", "beside another"])
def test_embeddings_beside_a_search_clear_and_blame_nobody(
    llama: Path, monkeypatch: pytest.MonkeyPatch, company: bool
) -> None:
    """That they come out says nothing of the sequences that decode."""
    stepper = Stepper(llama, "similar", chunk=16)
    bad = stepper.greedy("bad", text(9), 20)
    stepper.step(4)
    good = stepper.greedy("good", text(8), 20) if company else None
    forward = stepper.runner.forward

    def fails(*arguments: Any, **options: Any) -> Any:
        if any(seq is not None and seq.id == "bad" for seq in stepper.runner.rows):
            raise RuntimeError("no such step")
        return forward(*arguments, **options)

    monkeypatch.setattr(stepper.runner, "forward", Instead(forward, fails))
    for n in range(MAX_FAILING_STEPS):
        embed(stepper, str(n), text(4))
        stepper.step()
    stepper.finish()
    assert (bad.finish_reason, stepper.engine.failure) == ("error", None)
    assert stepper.engine.counters.failed_steps < MAX_FAILING_STEPS
    assert good is None or good.tokens == greedy_text(llama, text(8), 20)
