"""Rounds that are traced, that run ahead of the host, and that fail: the same tokens, or an end that says so."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.cache.batch import Batch
from paceline.cache.slot_plan import LAYOUTS
from paceline.engine.forward import Forward, Pass
from paceline.engine.proposer import Offer
from paceline.engine.sequence import Sequence
from paceline.types import Prompt, Sampling, Speculation
from tests.engine.proposing import Oracle
from tests.engine.stepper import BUCKETED, Stepper
from tests.engine.watched import (
    LENGTHS,
    LISTENING,
    PICTURED,
    PLACES,
    SMALL,
    TOKENS,
    Erratic,
    Tiny,
    Watched,
    greedy,
    lengths,
    prompt,
    rounds_alone,
    usage,
)
from tests.integration.test_images import expected
from tests.models.test_vision import TWO, built
from tests.reference import greedy_text


@pytest.fixture(scope="session")
def small(tiny: Tiny) -> Path:
    return tiny("hybrid", **SMALL)


# -- traced


@pytest.mark.slow
@pytest.mark.parametrize(("family", "layout"), PLACES)
def test_traced_speculative_steps_give_the_same_tokens_and_accept_the_same(
    tiny: Tiny, family: str, layout: str
) -> None:
    folder = tiny(family, **LISTENING)
    stepper = Watched(folder, layout, chunk=64, traces=True)
    depths: list[Speculation] = [3, "off", "auto", 5, 1, 3]
    heard = []
    for place, depth in enumerate(depths):
        heard.append(stepper.submit(str(place), prompt(lengths(6)[place]), greedy(TOKENS - place, speculation=depth)))
        stepper.step(place % 3)
    pictured = stepper.submit("picture", built(folder, TWO), greedy(TOKENS, speculation=3))
    stepper.finish()
    for place, length in enumerate(lengths(6)):
        assert heard[place].tokens == greedy_text(folder, prompt(length), TOKENS)[: TOKENS - place]
    assert pictured.tokens[:PICTURED] == expected(folder, TWO).tokens
    for name, text in (("0", Prompt(prompt(1))), ("picture", built(folder, TWO))):
        # Near the end, what there is room for depends on what has been read.
        rounds = [each for each in stepper.runner.rounds[name] if each.depth == 3]
        assert rounds == rounds_alone(folder, text, TOKENS + 12, 3)[: len(rounds)]
        assert len(rounds) > 5
    assert stepper.runner.forward.traced_calls > 10
    assert stepper.runner.drafter.forward.traced_calls > 10


def test_traced_speculative_steps_of_a_draft_length_that_changes_at_every_step_change_no_token(small: Path) -> None:
    stepper = Watched(small, "padded", traces=True, speculation="auto")
    stepper.engine.scheduler.draft_lengths = Erratic(3)
    heard = [stepper.greedy(str(length), prompt(length), TOKENS) for length in LENGTHS]
    stepper.finish()
    assert [each.tokens for each in heard] == [greedy_text(small, prompt(length), TOKENS) for length in LENGTHS]
    assert stepper.runner.forward.traced_calls > 5


@pytest.mark.thin(6)
@pytest.mark.parametrize("depth", ["off", 2])
@pytest.mark.parametrize("layout", [*LAYOUTS, *BUCKETED])
def test_a_prompt_of_one_token_may_come_alone_after_traced_steps(small: Path, layout: str, depth: Speculation) -> None:
    """It has no keys and no states yet, which is more than its shape says."""
    stepper = Watched(small, layout, traces=True, speculation=depth)
    for name in ("first", "second", "third"):
        stepper.submit(name, prompt(9), greedy(12, speculation="off" if name == "first" else depth))
        stepper.finish()
        heard = stepper.greedy(f"short {name}", prompt(1), TOKENS)
        stepper.step(40)
        assert stepper.engine.failure is None
        assert heard.tokens == greedy_text(small, prompt(1), TOKENS)


@pytest.mark.slow
@pytest.mark.parametrize("layout", BUCKETED)
@pytest.mark.parametrize("depth", [2, 4])
def test_with_buckets_all_is_traced_and_changes_no_token(small: Path, layout: str, depth: Speculation) -> None:
    """Prompts, steps and drafts; sequences join padding and leave it, in rows of every bucket up to eight."""
    stepper = Stepper(small, layout, chunk=256, traces=True, speculation=depth)
    runner = stepper.runner
    assert runner.drafter is not None
    asked: dict[str, int] = {}
    for place in range(14):
        name, length = f"row {place}", LENGTHS[place % len(LENGTHS)]
        asked[name] = length
        off = place % 5 == 4
        stepper.submit(name, prompt(length), greedy(TOKENS - place, speculation="off" if off else depth))
        if place % 3 == 2:
            stepper.step(4)
        if place % 6 == 5:
            stepper.abort(f"row {place - 1}")
    stepper.finish()
    for place, (name, length) in enumerate(asked.items()):
        heard, text = stepper.heard[name], greedy_text(small, prompt(length), TOKENS)[: TOKENS - place]
        if heard.finish_reason == "abort":
            assert heard.tokens == text[: len(heard.tokens)] and place in (4, 10)
        else:
            assert heard.tokens == text, name
    assert runner.prompts.traced_calls > 2
    assert runner.forward.traced_calls > 10
    assert runner.drafter.forward.traced_calls > 10
    assert stepper.engine.failure is None and stepper.engine.counters.failed_steps == 0


class Unasked(Oracle):
    """No step in flight is read for its sake."""

    def peek(self, seq: Sequence) -> Offer | None:
        return None


def test_the_host_drafts_nothing_while_tokens_before_it_are_unread(small: Path) -> None:
    """A step that runs ahead repeats the one before: its drafts are the head's. An offer for text that ends earlier
    would be wrong in any case."""
    answers = {str(length): greedy_text(small, prompt(length), TOKENS) for length in LENGTHS}
    oracle = Unasked(answers, wrong=0, silent=0.3)
    stepper = Stepper(small, "padded", traces=True, speculation=1, methods=("mtp", "lookup"), proposers=[oracle])
    stepper.engine.scheduler.draft_choice.longest = 1
    ahead, decode = list[int](), stepper.runner.decode

    def watched(seqs: Collection[Sequence], *rest: Any) -> Any:
        unread = stepper.runner.batch is not None and bool(stepper.runner.batch.unsynced)
        if unread:
            ahead.append(sum(bool(seq.draft.tokens) for seq in seqs))
        return decode(seqs, *rest)

    stepper.runner.decode = watched  # type: ignore[assignment, method-assign]
    heard = [stepper.greedy(str(length), prompt(length), TOKENS) for length in LENGTHS]
    stepper.finish()
    assert [each.tokens for each in heard] == list(answers.values())
    assert stepper.engine.counters.failed_steps == 0
    assert ahead and not any(ahead)
    drafted = stepper.engine.scheduler.draft_lengths.stats().methods["lookup"]
    assert drafted.num_accepted_tokens == drafted.num_draft_tokens > 0


LONG = 72


@pytest.mark.thin(10, first=6)
@pytest.mark.parametrize("layout", [*LAYOUTS, *BUCKETED])
@pytest.mark.parametrize("depth", [1, 3])
def test_a_speculative_step_that_is_submitted_before_the_last_was_read_changes_no_token(
    small: Path, layout: str, depth: int
) -> None:
    stepper = Watched(small, layout, chunk=16, traces=True, speculation=depth)
    texts = {length: greedy_text(small, prompt(length), LONG) for length in (1, 9, 33)}
    heard = [stepper.greedy(str(length), prompt(length), LONG) for length in (1, 9)]
    stepper.step(7)
    heard.append(stepper.greedy("33", prompt(33), LONG))
    off = stepper.submit("off", prompt(9), greedy(20, speculation="off"))
    stops = [
        stepper.submit(f"stop {place}", prompt(9), greedy(LONG, stop_token_ids=(texts[9][place],)))
        for place in (12, 13, 14)
    ]
    stepper.step(11)
    stepper.submit("drawn", prompt(2), Sampling(temperature=1, max_tokens=4, ignore_eos=True))  # nobody follows it
    leaver = stepper.greedy("leaver", prompt(33), LONG)
    stepper.step(12)
    stepper.abort("leaver")
    stepper.finish()
    assert [each.tokens for each in heard] == list(texts.values())
    assert [usage(each).completion_tokens for each in heard] == [LONG] * 3
    assert off.tokens == texts[9][:20]
    for place, each in zip((12, 13, 14), stops, strict=True):
        assert each.tokens == texts[9][: texts[9].index(texts[9][place]) + 1]
        assert usage(each).accepted_tokens < usage(each).completion_tokens == len(each.tokens)
    assert (leaver.finish_reason, leaver.tokens) == ("abort", texts[33][: len(leaver.tokens)])
    assert stepper.runner.followed > 10


# -- when things go wrong


class Failing(Forward):
    """Raises at one call, before or after the pass, and never again."""

    def __init__(self, forward: Forward, call: int, after: bool) -> None:
        super().__init__(forward._function, traces=forward.traces, trace_after=1)
        self.left = call
        self.after = after

    def __call__(self, batch: Batch, width: int, inputs: list[mx.array], **options: Any) -> Pass:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise RuntimeError("the device is busy")
        result = super().__call__(batch, width, inputs, **options)
        if self.left == 0:
            raise RuntimeError("the device is gone")
        return result


@pytest.mark.thin(8)
@pytest.mark.parametrize("traces", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("part", ["target", "head"])
def test_a_speculative_step_that_fails_is_run_again(small: Path, part: str, after: bool, traces: bool) -> None:
    for call in (3, 4, 5, 6, 9) if part == "target" else (4, 5, 6, 7, 15, 16):
        stepper = Watched(small, "padded", traces=traces, speculation=2)
        drafter = stepper.runner.drafter
        if part == "target":
            failing = stepper.runner.forward = Failing(stepper.runner.forward, call, after)
        else:
            failing = drafter.forward = Failing(drafter.forward, call, after)
        heard = [stepper.greedy(str(length), prompt(length), TOKENS) for length in (9, 33)]
        stepper.step(20)  # enough; a head that is in pieces must not keep the test waiting
        assert failing.left < 0
        assert stepper.engine.failure is None, f"call {call}"
        stepper.finish()
        assert [each.tokens for each in heard] == [greedy_text(small, prompt(length), TOKENS) for length in (9, 33)]


@pytest.mark.thin(6)
@pytest.mark.parametrize("turn", range(4, 12))
def test_a_step_that_is_lost_when_the_next_is_planned_is_made_up_for(small: Path, turn: int) -> None:
    """A traced step is read after the next was planned, where that one does not repeat it: here somebody joins, or
    leaves. The plan's sequences have lost their caches then."""
    stepper = Watched(small, "padded", chunk=16, traces=True, speculation=3)
    lengths = {2: TOKENS, 9: 6, 33: TOKENS}
    heard = []
    for length, tokens in lengths.items():
        heard.append(stepper.greedy(str(length), prompt(length), tokens))
        stepper.step(2)
    stepper.step(turn - 4)
    stepper.runner.lose = True
    stepper.finish()
    assert not stepper.runner.lose
    assert [each.tokens for each in heard] == [greedy_text(small, prompt(n), tokens) for n, tokens in lengths.items()]


def test_a_speculative_step_that_is_lost_is_made_up_for_and_nobody_notices(small: Path) -> None:
    stepper = Watched(small, "padded", chunk=8, speculation=3)
    lost = [stepper.greedy(str(length), prompt(length), TOKENS) for length in (1, 2)]
    stepper.step(4)
    later = stepper.greedy("later", prompt(33), TOKENS)  # in the middle of its prompt when it happens
    stepper.step()
    stepper.runner.lose = True
    stepper.finish()
    for length, each in zip((1, 2), lost, strict=True):
        assert each.tokens == greedy_text(small, prompt(length), TOKENS)
    assert later.tokens == greedy_text(small, prompt(33), TOKENS)
    assert stepper.runner.rounds["later"] == rounds_alone(small, Prompt(prompt(33)), TOKENS, 3)
