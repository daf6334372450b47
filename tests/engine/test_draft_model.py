"""A draft model in a batch of its own: what it reads, what it offers, and what happens when it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.engine.draft_model import MAX_FAILURES, DraftModelProposer, why_not
from paceline.engine.forward import Forward
from paceline.engine.sequence import DRAFT_LAG
from paceline.models.loader import load
from paceline.types import Prompt, Sampling
from tests.engine.stepper import BUCKETED, Stepper, loaded
from tests.engine.watched import SMALL, Told, greedy, prompt, usage
from tests.reference import greedy_text

Tiny = Callable[..., Path]
FAMILIES: dict[str, dict[str, Any]] = {"llama": {"layers": 2}, "hybrid": SMALL, "window": {"layers": 3}}
LONG = 40


def stepper_for(target: Path, draft: Path | None = None, layout: str = "similar", **options: Any) -> Stepper:
    """The target drafts for itself: all that its draft says is accepted."""
    given = {"speculation": 3, "methods": ("draft_model",), **options}
    stepper = Stepper(target, layout, **given, draft=draft or target)
    stepper.engine.scheduler.draft_lengths = Told().knowing()
    stepper.engine.scheduler.draft_lengths.method = "draft_model"
    stepper.engine.scheduler.draft_lengths.buckets = stepper.grouping.buckets
    return stepper


def proposer(stepper: Stepper) -> DraftModelProposer:
    assert stepper.draft_model is not None
    return stepper.draft_model


@pytest.mark.thin(12)
@pytest.mark.parametrize("layout", ["rows", "similar", *BUCKETED])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_drafts_for_itself_is_always_right(tiny: Tiny, family: str, layout: str) -> None:
    """So it has read every token, each once, at its place: also those that were accepted as it had drafted them."""
    folder = tiny(family, **FAMILIES[family])
    stepper = stepper_for(folder, layout=layout)
    heard = {size: stepper.greedy(str(size), prompt(size), LONG) for size in (1, 9, 33, 70)}
    stepper.finish()
    for size, each in heard.items():
        assert each.tokens == greedy_text(folder, prompt(size), LONG)
        assert usage(each).rejected_tokens == 0 and usage(each).accepted_tokens > LONG // 2
    stats = stepper.engine.scheduler.draft_lengths.stats()
    assert set(stats.methods) == {"draft_model"}


@pytest.mark.thin(18)
@pytest.mark.parametrize("traces", [False, True])
@pytest.mark.parametrize("layout", ["similar", *BUCKETED])
@pytest.mark.parametrize(("target", "draft"), [("llama", "hybrid"), ("hybrid", "llama"), ("llama", "llama")])
def test_another_model_errs_and_changes_no_token(
    tiny: Tiny, target: str, draft: str, layout: str, traces: bool
) -> None:
    folder, other = tiny(target, **FAMILIES[target]), tiny(draft, **FAMILIES[draft], seed=5)
    stepper = stepper_for(folder, other, layout, speculation="auto", traces=traces)
    heard = {size: stepper.greedy(str(size), prompt(size), LONG) for size in (1, 2, 9, 33, 70)}
    stepper.finish()
    for size, each in heard.items():
        assert each.tokens == greedy_text(folder, prompt(size), LONG)
    assert sum(usage(each).rejected_tokens for each in heard.values()) > 0


def test_a_long_prompt_that_takes_the_whole_budget_does_not_end_drafting_beside_it(tiny: Tiny) -> None:
    folder = tiny("llama", layers=2)
    stepper = stepper_for(folder, chunk=16)
    short = stepper.greedy("short", prompt(20), LONG)
    long = stepper.greedy("long", prompt(900), 2)
    while not short.finish_reason:
        stepper.engine.step()
    assert not long.tokens  # its prompt was still read
    assert usage(short).accepted_tokens > LONG // 2
    stepper.finish()


def test_a_long_prompt_is_read_in_chunks_beside_the_steps_of_its_answer(tiny: Tiny) -> None:
    folder = tiny("llama", layers=2)
    stepper = stepper_for(folder, chunk=64)
    heard = stepper.greedy("row", prompt(400), LONG)
    reads: list[int] = []
    lengths: list[int] = []
    real = proposer(stepper).read

    def read(seq: Any, tokens: int) -> None:
        reads.append(tokens)
        real(seq, tokens)

    proposer(stepper).read = read  # type: ignore[method-assign]
    while heard.finish_reason is None:
        stepper.step()
        lengths += [seq.draft.length for seq in stepper.runner.seqs]
    assert heard.tokens == greedy_text(folder, prompt(400), LONG)
    assert max(reads) <= 64 and sum(reads) >= 400 - DRAFT_LAG - 1
    first = next(place for place, length in enumerate(lengths) if length)
    assert first >= 4 and set(lengths[:first]) == {0}  # it decodes before it is read, and drafts once it is
    assert usage(heard).rejected_tokens == 0 and usage(heard).accepted_tokens > 0


class Pausing(Told):
    """Drafts nothing for a while, and then three tokens in every step."""

    def choose(self, seqs: Any) -> tuple[int, ...]:
        return tuple(
            min(3, seq.max_draft_length) if len(seq.generated) > 2 * DRAFT_LAG and seq.draft_is_ready else 0
            for seq in seqs
        )


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_what_is_decoded_without_drafts_is_read_behind_it(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **FAMILIES[family])
    stepper = stepper_for(folder, speculation="auto", chunk=64)
    stepper.engine.scheduler.draft_lengths = Pausing()
    stepper.engine.scheduler.draft_lengths.method = "draft_model"
    tokens = 2 * DRAFT_LAG + LONG
    heard = [stepper.greedy(str(size), prompt(size), tokens) for size in (9, 33)]
    lags = []
    while any(each.finish_reason is None for each in heard):
        stepper.step()
        lags += [seq.length + 1 - seq.draft.read for seq in stepper.runner.seqs if seq.draft.joined]
    assert max(lags) <= DRAFT_LAG + 2 and max(lags) > DRAFT_LAG // 2
    for size, each in zip((9, 33), heard, strict=True):
        assert each.tokens == greedy_text(folder, prompt(size), tokens)
        assert usage(each).rejected_tokens == 0 and usage(each).accepted_tokens > LONG // 2


def broken(*arguments: Any, **options: Any) -> Any:
    raise RuntimeError("no draft today")


@pytest.mark.parametrize("where", ["propose", "read", "join"])
def test_a_draft_model_that_fails_costs_no_sequence_anything(
    tiny: Tiny, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tiny("llama", layers=2)
    stepper = stepper_for(folder)
    mine = proposer(stepper)
    target = {"propose": "forward", "read": "_last_logits", "join": "_join"}[where]
    setattr(mine, target, Forward(broken) if where == "propose" else broken)
    heard = {size: stepper.greedy(str(size), prompt(size), LONG) for size in (2, 9, 33)}
    stepper.finish()
    for size, each in heard.items():
        assert each.tokens == greedy_text(folder, prompt(size), LONG)
        assert usage(each).accepted_tokens == 0
    assert "no draft today" in caplog.text and stepper.engine.counters.failed_steps == 0
    assert mine.batch is None and mine.rows == []


def test_a_draft_model_that_fails_again_and_again_is_left_alone(tiny: Tiny, caplog: pytest.LogCaptureFixture) -> None:
    folder = tiny("llama", layers=2)
    stepper = stepper_for(folder)
    mine = proposer(stepper)
    mine._last_logits = broken  # type: ignore[method-assign]
    for place in range(MAX_FAILURES + 2):
        stepper.greedy(str(place), prompt(9), 8)
        stepper.finish()
    assert mine.broken and caplog.text.count("the draft model failed, and") == MAX_FAILURES
    assert "not used any more" in caplog.text


def test_a_failed_step_is_retried_without_the_draft_model(tiny: Tiny) -> None:
    folder = tiny("llama", layers=2)
    stepper = stepper_for(folder)
    heard = stepper.greedy("row", prompt(9), LONG)
    stepper.step(6)
    [seq] = stepper.runner.seqs
    assert seq.draft.joined
    real, stepper.runner.forward = stepper.runner.forward, Forward(broken)
    stepper.step()
    stepper.runner.forward = real
    stepper.finish()
    assert heard.tokens == greedy_text(folder, prompt(9), LONG)
    assert seq.draft_model_off


def test_sequences_with_images_use_other_proposers(tiny: Tiny) -> None:
    stepper = stepper_for(tiny("llama", layers=2))
    stepper.greedy("row", prompt(9), LONG)
    stepper.step(3)
    [seq] = stepper.runner.seqs
    assert seq.uses_draft_model
    object.__setattr__(seq, "prompt", Prompt(seq.prompt.token_ids, media=(object(),)))  # type: ignore[arg-type]
    assert not seq.uses_draft_model and not seq.draft_is_ready


def test_a_sequence_that_asks_for_no_drafts_is_not_read(tiny: Tiny) -> None:
    stepper = stepper_for(tiny("llama", layers=2))
    stepper.submit("row", prompt(9), greedy(LONG, speculation="off"))
    stepper.finish()
    assert proposer(stepper).batch is None and stepper.engine.scheduler.draft_lengths.drafts == 0


def test_a_sequence_that_leaves_gives_its_row_back(tiny: Tiny) -> None:
    stepper = stepper_for(tiny("llama", layers=2), layout="padded")
    stepper.greedy("short", prompt(9), 32)
    long = stepper.greedy("long", prompt(33), LONG + 24)
    mine = proposer(stepper)
    while len([seq for seq in mine.rows if seq is not None]) < 2:
        assert stepper.heard["short"].finish_reason is None
        stepper.step()
    while stepper.heard["short"].finish_reason is None:
        stepper.step()
    stepper.step(2)
    assert [seq.id for seq in mine.rows if seq is not None] == ["long"]
    assert mine.batch is not None and mine.batch.rows == 1
    stepper.finish()
    assert mine.batch is None and usage(long).rejected_tokens == 0


def test_logits_have_the_size_of_the_targets_vocabulary(tiny: Tiny) -> None:
    language = loaded(tiny("llama", layers=2)).language
    logits = mx.zeros((2, language.vocab_size))
    stepper = stepper_for(tiny("llama", layers=2))
    for size in (language.vocab_size - 7, language.vocab_size, language.vocab_size + 7):
        mine = DraftModelProposer(language, size, stepper.grouping)
        fitted = mine._fitted(logits)
        assert fitted.shape == (2, size)
        assert mx.isinf(fitted).sum().item() == 2 * max(size - language.vocab_size, 0)


def test_who_cannot_draft_says_why(tiny: Tiny) -> None:
    assert why_not(loaded(tiny("hybrid", **SMALL)).language) is None
    folder = tiny("llama", rope_scaling={"rope_type": "dynamic", "factor": 2.0})
    assert "length of the text" in (why_not(load(str(folder), "float32").language) or "")


@pytest.mark.thin(5)
@pytest.mark.parametrize("seed", [3, 4])
def test_a_seed_gives_its_text_with_and_without_a_draft_model(tiny: Tiny, seed: int) -> None:
    folder = tiny("hybrid", **SMALL)
    rules = Sampling(temperature=1.2, top_p=0.95, seed=seed, max_tokens=LONG, ignore_eos=True)
    plain = Stepper(folder, "similar")
    expected = plain.submit("row", prompt(9), rules)
    plain.finish()
    stepper = stepper_for(folder, tiny("hybrid", **SMALL, seed=5))
    heard = stepper.submit("row", prompt(9), rules)
    stepper.greedy("other", prompt(33), LONG)
    stepper.finish()
    assert heard.tokens == expected.tokens and usage(heard).accepted_tokens + usage(heard).rejected_tokens > 0
