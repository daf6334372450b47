"""A device that tells of an error later than the call that caused it: whoever waits next is not to blame."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.engine.in_flight import InFlightStep
from paceline.engine.sequence import Sequence
from paceline.types import Speculation
from tests.engine.stepper import Stepper
from tests.engine.test_pooling import embed, text, vector
from tests.engine.watched import SMALL
from tests.integration.test_faults import LENGTHS, PLENTY, calm, check_rest, stepper_of, submit_all, told

Tiny = Callable[..., Path]


class LateDevice:
    """Stands before a runner's calls. What went wrong in one is raised by a later one: at the latest by the next that
    waits for anything."""

    def __init__(self, stepper: Stepper, seed: int, words: str = "the device lost its way") -> None:
        self.dice, self.words = random.Random(seed), words
        self.broken = False  # work under way has gone wrong, and nobody was told
        self.faults = 0
        self.bad: Callable[[Sequence], bool] = lambda seq: False  # a sequence whose prompt goes wrong each time
        self.once = 0  # steps until one goes wrong, once
        runner = self.runner = stepper.runner
        runner.reports_late = True
        for name in ("prefill", "prefill_together", "decode", "collect", "read", "wait"):
            setattr(runner, name, self._late(name, getattr(runner, name)))

    def _late(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(argument: Any, *more: Any) -> Any:
            waits = name == "wait" or (name in ("collect", "read") and argument.sampled is not None)
            if self.broken and (waits or (name not in ("collect", "read") and self.dice.random() < 0.3)):
                self.broken = False
                raise RuntimeError(self.words)
            result = real(argument, *more)
            self._harm(name, argument, result)
            return result

        return call

    def _harm(self, name: str, argument: Any, result: Any) -> None:
        prefills = name in ("prefill", "prefill_together")
        works = prefills or (name == "decode" and isinstance(result, InFlightStep) and result.seqs)
        if prefills and any(map(self.bad, argument if isinstance(argument, list) else [argument])):
            self.broken, self.faults = True, self.faults + 1
        elif works and self.once:
            self.once -= 1
            if not self.once:
                self.broken, self.faults = True, self.faults + 1


def bucketed(folder: Path, speculation: Speculation) -> Stepper:
    """Its prompts share passes."""
    return Stepper(folder, "similar+buckets", chunk=256, speculation=speculation, cache=PLENTY)


WORDS = ["the device lost its way", "Command buffer execution failed: Insufficient Memory"]


@pytest.mark.thin(4)
@pytest.mark.parametrize("speculation", ["off", 2])
@pytest.mark.parametrize("words", WORDS)
def test_a_fault_that_is_told_of_late_and_passes_changes_nobodys_tokens(
    tiny: Tiny, words: str, speculation: Speculation
) -> None:
    folder = tiny("hybrid", **SMALL)
    expected = calm(folder, speculation)
    for once in range(1, 14, 2):
        stepper = bucketed(folder, speculation) if once in (1, 5) else stepper_of(folder, "similar", speculation)
        device = LateDevice(stepper, once, words)
        device.once = once
        submit_all(stepper)
        stepper.finish(limit=2000)
        assert device.faults == 1
        assert told(stepper) == expected
        assert {heard.finish_reason for heard in stepper.heard.values()} == {"length"}
        check_rest(stepper)


@pytest.mark.thin(8)
@pytest.mark.parametrize("speculation", ["off", 2])
@pytest.mark.parametrize("culprit", LENGTHS)
def test_a_prompt_whose_error_surfaces_in_others_work_ends_alone(
    tiny: Tiny, culprit: str, speculation: Speculation
) -> None:
    folder = tiny("hybrid", **SMALL)
    expected = calm(folder, speculation)
    for seed in range(4):
        stepper = bucketed(folder, speculation) if seed == 3 else stepper_of(folder, "similar", speculation)
        device = LateDevice(stepper, seed)
        device.bad = lambda seq: seq.id == culprit
        others = {name: length for name, length in LENGTHS.items() if name != culprit}
        submit_all(stepper)
        stepper.finish(limit=2000)
        assert device.faults > 1  # the first might have been anybody's
        heard = stepper.heard[culprit]
        assert heard.finish_reason == "error" and "lost its way" in (heard.deltas[-1].error or "")
        assert {name: stepper.heard[name].tokens for name in others} == {name: expected[name] for name in others}
        check_rest(stepper)


def test_a_sequence_alone_is_to_blame_at_once(tiny: Tiny) -> None:
    stepper = stepper_of(tiny("hybrid", **SMALL), "similar", "off")
    device = LateDevice(stepper, 0)
    device.bad = lambda seq: True
    stepper.greedy("alone", text(9), 4)
    stepper.finish(limit=100)
    assert stepper.heard["alone"].finish_reason == "error" and device.faults == 1
    check_rest(stepper)


def test_an_embedding_that_goes_wrong_late_ends_alone_and_the_search_is_over(tiny: Tiny) -> None:
    stepper = stepper_of(tiny("hybrid", **SMALL), "similar", "off")
    device = LateDevice(stepper, 0)
    device.bad = lambda seq: seq.id == "bad"
    for name in ("good", "bad", "better"):
        embed(stepper, name, text(20))
    stepper.finish(limit=500)
    assert stepper.heard["bad"].finish_reason == "error"
    assert vector(stepper.heard["good"]).tolist() == vector(stepper.heard["better"]).tolist()
    check_rest(stepper)


def test_an_error_of_the_hosts_own_is_its_sequences_alone(tiny: Tiny) -> None:
    """Nobody begins again for a prompt that Python could not handle."""
    folder = tiny("hybrid", **SMALL)
    stepper = stepper_of(folder, "similar", "off")
    stepper.runner.reports_late = True
    prefill = stepper.runner.prefill

    def fails(seq: Any, tokens: int) -> Any:
        if seq.id == "b":
            raise ValueError("no such prompt")
        return prefill(seq, tokens)

    stepper.runner.prefill = fails  # type: ignore[method-assign]
    submit_all(stepper)
    stepper.finish()
    assert stepper.heard["b"].deltas[-1].error == "no such prompt"
    assert stepper.engine.scheduler.preemptions["fault"] == 0
    check_rest(stepper)


def test_an_error_that_cost_only_a_prefix_may_have_been_anothers(tiny: Tiny) -> None:
    folder = tiny("hybrid", **SMALL)
    expected = calm(folder, "off")
    stepper = stepper_of(folder, "similar", "off")
    stepper.runner.reports_late = True
    submit_all(stepper)
    stepper.step(3)
    publish, reuse = stepper.runner.on_checkpoint, stepper.reuse

    def late(seq: Sequence, stop: int) -> Any:
        stepper.runner.on_checkpoint = publish
        with reuse._tolerating(seq):
            raise RuntimeError("the device lost its way")
        return []

    stepper.runner.on_checkpoint = late
    stepper.finish()
    assert stepper.engine.scheduler.preemptions["fault"] > 0
    assert told(stepper) == expected
    check_rest(stepper)


def test_an_error_that_surfaces_in_a_shared_pass_may_have_been_anothers(tiny: Tiny) -> None:
    """What a stream computed before may be lost: to prefill each prompt alone would not be enough."""
    folder = tiny("hybrid", **SMALL)
    expected = calm(folder, "off")
    stepper = bucketed(folder, "off")
    stepper.runner.reports_late = True
    together = stepper.runner.prefill_together
    thrown: list[bool] = []

    def late(seqs: Any, sizes: Any) -> Any:
        if not thrown:
            thrown.append(True)
            raise RuntimeError("the device lost its way")
        return together(seqs, sizes)

    stepper.runner.prefill_together = late  # type: ignore[method-assign]
    submit_all(stepper)
    stepper.finish()
    assert thrown and stepper.engine.scheduler.preemptions["fault"] > 0
    assert told(stepper) == expected
    check_rest(stepper)
