"""A sequence that is set back and comes again says what it would have said, whatever it did, and nobody else
notices."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.engine.sequence import Sequence
from paceline.models import gated_delta_cuda
from paceline.types import Sampling, Speculation
from tests.engine.stepper import Stepper, loaded
from tests.engine.watched import SMALL
from tests.integration.test_images import ask, expected
from tests.models.test_gated_delta_cuda import stand_in
from tests.models.test_vision import AFTER, ONE, TURNS, TWO
from tests.reference import greedy_text

Tiny = Callable[..., Path]
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"layers": 2},
    "window": {"layers": 3, "sliding_window": 24},
    "hybrid": SMALL,
    "hybrid_moe": SMALL,
}
PLENTY = 1 << 30


def prompt(length: int, start: int = 0) -> tuple[int, ...]:
    return tuple((start + 7 * place * place + 3 * place) % 500 for place in range(length))


def set_back(stepper: Stepper, seqs: list[Sequence], *, keep: bool = True) -> None:
    """As the engine does it: what is under way is settled first."""
    engine = stepper.engine
    stepper.settle()
    engine.preempt([seq for seq in seqs if seq in engine.scheduler.running], "policy", keep=keep)


def disturb(stepper: Stepper, seed: int, share: float) -> None:
    """Step to the end, and set sequences back at random."""
    dice = random.Random(seed)
    for _ in range(3000):
        stepper.step()
        scheduler = stepper.engine.scheduler
        if stepper.engine.in_flight is None and not scheduler.running and not scheduler.waiting:
            return
        if scheduler.running and dice.random() < share:
            seqs = [seq for seq in scheduler.running if dice.random() < 0.5]
            set_back(stepper, seqs, keep=dice.random() < 0.7)
    raise AssertionError("the engine did not come to rest")


@pytest.mark.thin(30)
@pytest.mark.parametrize("cache", [None, PLENTY, 200_000])
@pytest.mark.parametrize(
    ("family", "speculation"),
    [*((family, "off") for family in FAMILIES), ("hybrid", 3), ("hybrid", "auto"), ("hybrid_moe", 2)],
)
def test_sequences_that_are_preempted_say_what_they_would_have_said(
    tiny: Tiny, family: str, cache: int | None, speculation: Speculation
) -> None:
    folder = tiny(family, **FAMILIES[family])
    for layout, seed in (("rows", 1), ("similar", 2), ("padded", 3), ("similar+buckets", 4)):
        chunk = 128 if "+" in layout else 16  # so that prompts share passes
        stepper = Stepper(folder, layout, chunk=chunk, speculation=speculation, cache=cache)
        lengths = {"a": 40, "b": 41, "c": 5, "d": 1, "e": 90}
        heard = {name: stepper.greedy(name, prompt(length), 20) for name, length in lengths.items()}
        disturb(stepper, seed, 0.3)
        assert sum(stepper.engine.scheduler.preemptions.values()) > 2
        for name, length in lengths.items():
            assert heard[name].tokens == greedy_text(folder, prompt(length), 20), (name, layout)
        assert not stepper.runner.seqs


@pytest.mark.parametrize("speculation", ["off", 3])
def test_nobody_reads_the_state_of_padding(
    tiny: Tiny, speculation: Speculation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the CUDA kernel leaves it: not set. Sequences join, leave early and are set back in buckets of rows."""
    folder = tiny("hybrid", **SMALL)
    monkeypatch.setattr(gated_delta_cuda, "step", stand_in)
    for layer in loaded(folder).language.module.layers:
        if "linear_attn" in layer:
            monkeypatch.setattr(layer.linear_attn, "fused", True)
    # The stand-in reads its inputs: it cannot be traced.
    stepper = Stepper(folder, "padded+buckets", chunk=128, speculation=speculation, cache=PLENTY, traces=False)
    lengths, wanted, heard = (40, 5, 1, 41, 12), (20, 4, 24, 5, 16), []
    for place, (length, tokens) in enumerate(zip(lengths, wanted, strict=True)):
        heard.append(stepper.greedy(str(place), prompt(length), tokens))
        stepper.step(place % 3)
    disturb(stepper, 5, 0.5)
    assert sum(stepper.engine.scheduler.preemptions.values()) > 1
    for length, tokens, found in zip(lengths, wanted, heard, strict=True):
        assert found.tokens == greedy_text(folder, prompt(length), 24)[:tokens], length


@pytest.mark.thin(2)
@pytest.mark.parametrize("speculation", ["off", 2])
def test_samples_penalties_and_limits_are_not_disturbed(tiny: Tiny, speculation: Speculation) -> None:
    folder = tiny("hybrid", **SMALL)
    rules = {
        "seeded": Sampling(temperature=1.2, seed=5, max_tokens=24, ignore_eos=True),
        "top": Sampling(temperature=0.9, seed=6, top_k=20, top_p=0.9, min_p=0.01, max_tokens=24, ignore_eos=True),
        "punished": Sampling(
            temperature=0,
            repetition_penalty=1.3,
            presence_penalty=0.5,
            frequency_penalty=0.4,
            max_tokens=24,
            ignore_eos=True,
        ),
        "scored": Sampling(temperature=0, logprobs=3, prompt_logprobs=2, max_tokens=12, ignore_eos=True),
        "patient": Sampling(temperature=0, min_tokens=20, max_tokens=24),
    }
    told = []
    for share in (0.0, 0.25):
        stepper = Stepper(folder, "similar", chunk=16, speculation=speculation, cache=PLENTY)
        heard = {
            name: stepper.submit(name, prompt(33, place), rule) for place, (name, rule) in enumerate(rules.items())
        }
        disturb(stepper, 4, share)
        told.append(heard)
    for name in rules:
        calm, disturbed = told[0][name], told[1][name]
        assert disturbed.tokens == calm.tokens, name
        assert disturbed.finish_reason == calm.finish_reason
        before = [delta.prompt.logprobs for delta in calm.deltas if delta.prompt is not None]
        after = [delta.prompt.logprobs for delta in disturbed.deltas if delta.prompt is not None]
        assert len(after) == 1
        assert (before[0] is None) == (after[0] is None)
        if before[0] is not None and after[0] is not None:
            assert [s and s.token_id for s in before[0]] == [s and s.token_id for s in after[0]]


@pytest.mark.parametrize("length", [30, 33], ids=["in the last chunk of the prompt", "in a chunk of their own"])
def test_a_prompts_logprobs_end_with_it_where_generated_tokens_are_recomputed(llama: Path, length: int) -> None:
    """What it has said is held back, because it may begin a stop string: its prompt is scored again."""
    said = greedy_text(llama, prompt(length), 6)
    held = "".join(f"<{token}>" for token in said[:5])
    sampling = Sampling(temperature=0, prompt_logprobs=2, max_tokens=12, ignore_eos=True, stop=(held + "never",))
    told = []
    for disturbed in (False, True):
        stepper = Stepper(llama, chunk=16)
        heard = stepper.submit("row", prompt(length), sampling)
        (seq,) = stepper.engine.seqs.values()
        while len(seq.generated) < 3:
            stepper.step()
        assert not heard.deltas
        if disturbed:
            set_back(stepper, [seq])
        stepper.finish()
        assert heard.finish_reason == "length" and heard.tokens == greedy_text(llama, prompt(length), 12)
        assert heard.deltas[0].prompt is not None and heard.deltas[0].prompt.logprobs is not None
        told.append([score and score.token_id for score in heard.deltas[0].prompt.logprobs])
    assert told[0] == told[1] == [None, *prompt(length)[1:]]


def test_usage_tells_of_the_first_start_only(tiny: Tiny) -> None:
    stepper = Stepper(tiny("hybrid", **SMALL), chunk=16, cache=PLENTY)
    heard = stepper.greedy("row", prompt(60), 20)
    stepper.step(12)
    set_back(stepper, list(stepper.engine.scheduler.running))
    stepper.finish()
    usage = heard.deltas[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (60, 20, 0)
    assert stepper.reuse.cache.counts.restores == 1


@pytest.mark.slow
@pytest.mark.parametrize("cache", [None, PLENTY])
@pytest.mark.parametrize("speculation", ["off", 2])
def test_sequences_with_images_are_not_disturbed(hybrid: Path, speculation: Speculation, cache: int | None) -> None:
    conversations = {"one": ONE, "two": TWO, "turns": TURNS, "after": AFTER}
    for seed in range(2):
        stepper = Stepper(hybrid, "similar", chunk=16, speculation=speculation, cache=cache, features=PLENTY)
        heard = {name: ask(stepper, hybrid, messages, name) for name, messages in conversations.items()}
        text = stepper.greedy("text", prompt(50), 12)
        disturb(stepper, seed, 0.3)
        assert sum(stepper.engine.scheduler.preemptions.values()) > 1
        for name, messages in conversations.items():
            assert heard[name].tokens == expected(hybrid, messages).tokens, name
        assert text.tokens == greedy_text(hybrid, prompt(50), 12)
