"""Which chunks share a pass, and what an error in one leaves behind."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.cache.shape_buckets import GPU
from paceline.cache.slot_plan import PADDED
from paceline.engine.prompt_runner import SHARED_SLOTS, SHARED_WIDTH
from paceline.engine.runner import Runner
from paceline.engine.sequence import Sequence
from paceline.types import Media, Prompt, RequestId, Sampling, Speculation
from tests.engine.stepper import Instead, Stepper, loaded
from tests.engine.test_scheduler import seq as plain
from tests.engine.watched import SMALL
from tests.reference import greedy_text

Tiny = Callable[..., Path]
PICTURE = Media("picture", 1, 9, (9,), cost=4)
NUMBERS = itertools.count()
LENGTHS = (20, 31, 9, 100)  # the last has a bucket of its own
TOKENS = 8


def text(length: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(length).integers(0, 480, length).tolist())


def seq(length: int = 20, sampling: Sampling | None = None, **prompt: Any) -> Sequence:
    made = plain(length)
    made.prompt = Prompt(text(length), **prompt)
    made.context, made.id = made.prompt.token_ids, RequestId(f"row {next(NUMBERS)}")
    made.sampling = sampling or made.sampling
    return made


@pytest.fixture
def runner(tiny: Tiny) -> Runner:
    return Runner(loaded(tiny("hybrid", **SMALL)), replace(PADDED, buckets=GPU))


def shared(runner: Runner, *chunks: tuple[Sequence, int]) -> list[list[Sequence]]:
    return [[seq for seq, _ in group] for group in runner.shared(chunks)]


# -- who shares


def test_short_chunks_of_one_bucket_share_a_pass(runner: Runner) -> None:
    one, two, wide, wider = seq(), seq(33), seq(129), seq(100)
    assert shared(runner, (one, 19), (wide, 128), (two, 32), (wider, 99)) == [[one, two], [wide, wider]]


def test_a_blank_pass_is_one_like_those_of_prompts(tiny: Tiny) -> None:
    """Padded, traced from its second time on, and it leaves nothing behind."""
    runner = Runner(loaded(tiny("hybrid", **SMALL)), replace(PADDED, buckets=GPU), traces=True)
    for _ in range(3):
        runner.read_blank(100)
    assert runner.prompts.traced_calls == 2
    assert runner.prompts.new_shapes == 1
    assert runner.prompts.steady
    mx.eval(runner.prefill(seq(101), 100))
    assert (runner.prompts.traced_calls, runner.prompts.new_shapes) == (3, 1)
    assert not runner.seqs


def head_reads(runner: Runner) -> list[Sequence]:
    """One prompt in two chunks, two in one pass, and one of two tokens; of each the head reads all pairs but the last.
    The first of all passes is not traced."""
    for _ in range(2):
        read = [seq(71), seq(60), seq(50), seq(3)]
        for each in read:
            each.draft.mtp_prefill = True
        mx.eval(runner.prefill(read[0], 40))
        mx.eval(runner.prefill(read[0], 30))
        mx.eval(runner.prefill_together(read[1:3], [59, 49]))
        mx.eval(runner.prefill(read[3], 2))
    return read


def test_the_head_reads_the_same_in_traced_passes_and_in_exact_ones(tiny: Tiny) -> None:
    model, buckets = loaded(tiny("hybrid", **SMALL)), replace(PADDED, buckets=GPU)
    traced, padded, exact = Runner(model, buckets, traces=True), Runner(model, buckets), Runner(model, PADDED)
    found = [head_reads(each) for each in (traced, padded)]
    found.append([seq(length) for length in (71, 60, 50, 3)])
    for each in found[-1]:  # whole and alone
        each.draft.mtp_prefill = True
        mx.eval(exact.prefill(each, each.remaining))
    assert traced.drafter is not None and padded.drafter is not None
    assert (traced.drafter.first_chunks.traced_calls, traced.drafter.later_chunks.traced_calls) == (5, 2)
    assert not padded.drafter.first_chunks.traced_calls
    for same in zip(*found, strict=True):
        batches = [one.draft.batch for one in same if one.draft.batch is not None]
        [length] = {batch.lengths[0] for batch in batches}
        assert len(batches) == 3 and length == same[0].computed.tokens - 1
        for ours, other, alone in zip(*(batch.arrays() for batch in batches), strict=True):
            keys = [part[:, :, :length] for part in (ours, other, alone)]
            assert mx.allclose(keys[0], keys[1], atol=1e-5) and mx.allclose(keys[0], keys[2], atol=1e-4)
        states = [one.draft.last_hidden for one in same]
        assert mx.allclose(states[0], states[1], atol=1e-5) and mx.allclose(states[0], states[2], atol=1e-4)


def test_nobody_shares_alone_or_without_buckets(runner: Runner, tiny: Tiny) -> None:
    assert shared(runner) == shared(runner, (seq(), 19)) == shared(runner, (seq(), 19), (seq(100), 99)) == []
    exact = Runner(runner.model, PADDED)
    assert shared(exact, (seq(), 19), (seq(), 19)) == []
    no_widths = Runner(runner.model, replace(PADDED, buckets=replace(GPU, widths=(), prompts=())))
    assert shared(no_widths, (seq(), 19), (seq(), 19)) == []


def test_no_pass_has_more_prompts_than_the_largest_bucket(runner: Runner) -> None:
    seqs = [seq() for _ in range(GPU.prompts[-1] + 3)]
    assert [len(group) for group in shared(runner, *((each, 19) for each in seqs))] == [GPU.prompts[-1], 3]
    assert [len(group) for group in shared(runner, *((each, 19) for each in seqs[:17]))] == [GPU.prompts[-1]]


def pictured() -> Sequence:
    return seq(media=(PICTURE,))


def pooled() -> Sequence:
    return seq(pooling="mean")


def scored() -> Sequence:
    return seq(sampling=Sampling(prompt_logprobs=1))


def sparse() -> Sequence:
    made = seq()
    made.keep_only(np.arange(20), 0)
    return made


def checkpointed() -> Sequence:
    made = seq()
    made.prefix.checkpoint_positions = [10]
    return made


@pytest.mark.parametrize("other", [pictured, pooled, scored, sparse, checkpointed])
def test_a_chunk_that_is_more_than_plain_text_has_a_pass_of_its_own(
    runner: Runner, other: Callable[[], Sequence]
) -> None:
    one, two = seq(), seq()
    assert shared(runner, (one, 19), (other(), 19), (two, 19)) == [[one, two]]


def test_a_checkpoint_at_the_end_of_a_chunk_or_behind_it_does_not_matter(runner: Runner) -> None:
    one, two = seq(), seq(100)
    one.prefix.checkpoint_positions, two.prefix.checkpoint_positions = [19], [20, 40]
    assert shared(runner, (one, 19), (two, 19)) == [[one, two]]


def test_a_long_chunk_and_one_with_a_long_past_fill_the_device_alone(runner: Runner) -> None:
    width = SHARED_WIDTH + 1
    assert shared(runner, (seq(2000), width), (seq(2000), width)) == []
    old, one, two = seq(2000), seq(), seq()
    old.computed.tokens = SHARED_SLOTS + 1
    runner.batch_of(old).lengths = [SHARED_SLOTS + 1]
    runner.batch_of(old).reserve(1)
    assert shared(runner, (one, 19), (old, 19), (two, 19)) == [[one, two]]


def test_the_head_reads_all_of_a_pass_or_none_and_begins_with_all_or_none(runner: Runner) -> None:
    kinds = []
    for fed, begun in itertools.product((False, True), repeat=2):
        for _ in range(2):
            made = seq()
            made.draft.mtp_prefill, made.draft.last_hidden = fed, mx.zeros((1, 1, 4)) if begun else None
            kinds.append(made)
    found = shared(runner, *((each, 19) for each in [*kinds[::2], *kinds[1::2]]))
    assert sorted(map(len, found)) == [2, 2, 2, 2]
    assert all(group in [kinds[i : i + 2] for i in range(0, 8, 2)] for group in found)


def test_positions_that_depend_on_the_length_are_not_shared(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner.language, "dynamic_rope", True)
    assert shared(runner, (seq(), 19), (seq(), 19)) == []


# -- what a shared pass does


def test_a_shared_pass_gives_each_what_it_gets_alone(runner: Runner) -> None:
    together, alone = ([seq(n), seq(n + 5), seq(n + 9)] for n in (20, 20))
    for made in (*together, *alone):
        made.draft.mtp_prefill = True
    for sizes in ([12, 9, 20], [7, 15, 8]):
        mx.eval(runner.prefill_together(together, sizes))
        for each, size in zip(alone, sizes, strict=True):
            mx.eval(runner.prefill(each, size))
    for mine, other in zip(together, alone, strict=True):
        assert mine.computed.tokens == other.computed.tokens
        for one, two in ((mine.computed.batch, other.computed.batch), (mine.draft.batch, other.draft.batch)):
            assert one is not None and two is not None and one.lengths == two.lengths
            length = one.lengths[0]
            for a, b in zip(one.arrays(), two.arrays(), strict=True):
                a, b = (array[:, :, :length] if array.shape[2] == 256 else array for array in (a, b))
                assert a.shape == b.shape and mx.allclose(a, b, atol=1e-4)
        assert mx.allclose(mine.draft.last_hidden, other.draft.last_hidden, atol=1e-4)


# -- errors


def started(folder: Path, speculation: Speculation = "off", **more: Any) -> Stepper:
    stepper = Stepper(folder, "padded+buckets", chunk=256, speculation=speculation, **more)
    for length in LENGTHS:
        stepper.greedy(str(length), text(length), TOKENS)
    return stepper


def check_all(stepper: Stepper, folder: Path, but: int | None = None) -> None:
    for length in LENGTHS:
        heard = stepper.heard[str(length)]
        if length == but:
            assert (heard.finish_reason, heard.tokens) == ("error", [])
        else:
            assert (heard.finish_reason, heard.tokens) == ("length", greedy_text(folder, text(length), TOKENS))


def test_short_prompts_that_wait_together_are_prefilled_together(tiny: Tiny) -> None:
    folder = tiny("hybrid", **SMALL)
    stepper = started(folder)
    rows: list[int] = []
    forward = stepper.runner.prompts

    def call(batch: Any, *arguments: Any, **options: Any) -> Any:
        rows.append(batch.rows)
        return forward(batch, *arguments, **options)

    stepper.runner.prompts = Instead(forward, call)  # type: ignore[assignment]
    stepper.finish()
    assert rows == [4, 1]  # three of one bucket and a row of padding; the long one
    check_all(stepper, folder)


def test_a_step_reports_its_prompt_tokens_with_their_padding(tiny: Tiny) -> None:
    """Its time is that of the padded pass: a token beside 31 of padding would look 32 times as slow as it is."""
    stepper = started(tiny("hybrid", **SMALL))
    stepper.step()
    assert stepper.engine.in_flight is not None
    assert stepper.engine.in_flight.prompt_tokens == 3 * 32 + 128
    assert stepper.engine.counters.prompt_tokens == sum(LENGTHS) - len(LENGTHS)


@pytest.mark.parametrize("speculation", ["off", 2])
def test_a_prompt_that_breaks_a_shared_pass_fails_alone(tiny: Tiny, speculation: Speculation) -> None:
    folder = tiny("hybrid", **SMALL)
    stepper = started(folder, speculation)
    forward, bad = stepper.runner.prompts, text(31)[:5]
    widths: list[int] = []

    def call(batch: Any, width: int, inputs: list[mx.array], **options: Any) -> Any:
        widths.append(inputs[0].shape[0])
        if (np.array(inputs[0])[:, :5] == bad).all(axis=1).any():
            raise ValueError("this prompt is bad")
        return forward(batch, width, inputs, **options)

    stepper.runner.prompts = Instead(forward, call)  # type: ignore[assignment]
    stepper.finish()
    assert widths[0] == 4 and set(widths[1:]) == {1}
    check_all(stepper, folder, but=31)


def fail_in_forward(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = runner.prompts

    def call(batch: Any, *arguments: Any, **options: Any) -> Any:
        found = forward(batch, *arguments, **options)
        if batch.rows > 1:
            raise ValueError("no")
        return found

    runner.prompts = Instead(forward, call)  # type: ignore[assignment]


def fail_in_head(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runner.drafter is not None
    prefill = runner.drafter.prefill

    def call(seqs: list[Sequence], *arguments: Any, **options: Any) -> Any:
        found = prefill(seqs, *arguments, **options)
        if len(seqs) > 1:
            raise ValueError("no")
        return found

    monkeypatch.setattr(runner.drafter, "prefill", call)


def fail_in_submission(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted = runner._submitted

    def call(waits: list[list[mx.array]]) -> Any:
        if len(waits) > 1:
            raise RuntimeError("[malloc] Unable to allocate 1 bytes.")
        return submitted(waits)

    monkeypatch.setattr(runner, "_submitted", call)


def fail_in_checkpoint(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, calls = runner._reached, itertools.count()

    def call(seq: Sequence, stop: int) -> Any:
        found = reached(seq, stop)
        if next(calls) == 1:  # the second of a shared pass
            raise ValueError("no")
        return found

    monkeypatch.setattr(runner, "_reached", call)


FAILURES = [fail_in_forward, fail_in_head, fail_in_submission, fail_in_checkpoint]


@pytest.mark.parametrize("fail", FAILURES)
def test_an_error_anywhere_in_a_shared_pass_leaves_every_sequence_as_it_was(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, fail: Callable[..., None]
) -> None:
    """Each is then prefilled alone, from where it was."""
    folder = tiny("hybrid", **SMALL)
    stepper = started(folder, 2)
    fail(stepper.runner, monkeypatch)
    stepper.finish()
    check_all(stepper, folder)


@pytest.mark.parametrize("fail", FAILURES)
def test_an_error_in_the_second_pass_of_prompts_changes_nothing(
    tiny: Tiny, runner: Runner, monkeypatch: pytest.MonkeyPatch, fail: Callable[..., None]
) -> None:
    seqs = [seq(60), seq(50)]
    for made in seqs:
        made.draft.mtp_prefill = True
    mx.eval(runner.prefill_together(seqs, [20, 9]))
    for made in seqs:
        made.prefix.checkpoint_positions = [made.computed.tokens + 8]
    before = [state(made) for made in seqs]
    fail(runner, monkeypatch)
    with pytest.raises((ValueError, RuntimeError)):
        runner.prefill_together(seqs, [8, 8])
    assert [state(made) for made in seqs] == before


def state(seq: Sequence) -> list[Any]:
    """All that prefill has made of a sequence."""
    batches = [seq.computed.batch, seq.draft.batch]
    return [
        seq.computed.tokens,
        list(seq.prefix.checkpoint_positions),
        np.array(seq.draft.last_hidden).tolist(),
        [
            (
                list(batch.lengths),
                [(group.capacity, list(group.starts)) for plan in batch.slot_plans.values() for group in plan.groups],
                [np.array(array).tolist() for array in batch.arrays()],
            )
            for batch in batches
            if batch is not None
        ],
    ]
