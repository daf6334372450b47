"""Sequences whose hidden states are pooled: the same vector in any company and any chunks, and nothing left of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.types import Pooling, Prompt, Sampling, Speculation
from tests.engine.stepper import BUCKETED, Heard, Stepper, counts_passes
from tests.lengths import examples
from tests.reference import greedy_text, load_text

Tiny = Callable[..., Path]
EXACT = 1e-5
FAMILIES = ("llama", "qwen3", "window", "hybrid", "hybrid_moe")


def text(length: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(length).integers(0, 480, length).tolist())


def reference(folder: Path, ids: Sequence[int], pooling: Pooling = "mean") -> Any:
    """mlx-lm's own module, alone, without a cache of ours, all tokens at once."""
    model, _ = load_text(folder)
    inner = getattr(model, "language_model", model)
    states = np.array(inner.model(mx.array([list(ids)])).astype(mx.float32))[0].astype(np.float64)
    pooled = states.mean(axis=0) if pooling == "mean" else states[-1]
    return pooled / np.linalg.norm(pooled)


def embed(stepper: Stepper, name: str, ids: Sequence[int], pooling: Pooling = "mean") -> Heard:
    return stepper.submit(name, Prompt(tuple(ids), cached=False, pooling=pooling), Sampling())


def vector(heard: Heard) -> Any:
    (delta,) = heard.deltas
    assert delta.finish_reason == "stop" and delta.vector is not None
    assert delta.prompt is not None and delta.usage is not None
    assert (delta.usage.prompt_tokens, delta.usage.completion_tokens) == (len(delta.prompt.token_ids), 0)
    return delta.vector


def is_at_rest(stepper: Stepper) -> bool:
    runner = stepper.runner
    return not stepper.engine.seqs and not stepper.engine.scheduler.running and runner.batch is None


@pytest.mark.thin(3)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_a_vector_is_what_mlx_lms_states_give(tiny: Tiny, family: str, pooling: Pooling) -> None:
    folder = tiny(family)
    stepper = Stepper(folder, chunk=16)
    heard = [embed(stepper, f"{n}", text(n), pooling) for n in (1, 2, 16, 17, 75)]
    stepper.finish()
    for seq, length in zip(heard, (1, 2, 16, 17, 75), strict=True):
        np.testing.assert_allclose(vector(seq), reference(folder, text(length), pooling), atol=EXACT)
        assert abs(np.linalg.norm(vector(seq)) - 1) < 1e-6
    assert is_at_rest(stepper)


@pytest.mark.thin(6)
@pytest.mark.parametrize("family", ["llama", "hybrid"])
@pytest.mark.parametrize("layout", ["rows", "similar", "padded", *BUCKETED])
def test_sequences_that_decode_and_sequences_that_are_pooled_do_not_change_each_other(
    tiny: Tiny, family: str, layout: str
) -> None:
    folder = tiny(family)
    stepper = Stepper(folder, layout, chunk=8, speculation="auto" if family == "hybrid" else "off")
    talking = [stepper.greedy(f"talks {n}", text(n), 30) for n in (5, 40)]
    stepper.step(4)
    pooled = [embed(stepper, f"pooled {n}", text(n)) for n in (3, 60)]
    stepper.step(3)
    late = stepper.greedy("late", text(12), 20)
    stepper.finish()
    for seq, length in zip(pooled, (3, 60), strict=True):
        np.testing.assert_allclose(vector(seq), reference(folder, text(length)), atol=EXACT)
    assert [seq.tokens for seq in talking] == [greedy_text(folder, text(n), 30) for n in (5, 40)]
    assert late.tokens == greedy_text(folder, text(12), 20)
    assert is_at_rest(stepper)


@counts_passes
def test_decoding_goes_on_in_every_step_beside_a_long_text(llama: Path) -> None:
    stepper = Stepper(llama, chunk=8)
    talking = stepper.greedy("talks", text(5), 200)
    stepper.step(4)
    embed(stepper, "long", text(400))
    for _ in range(20):
        before = len(talking.tokens)
        stepper.step()
        assert len(talking.tokens) == before + 1
    assert not stepper.heard["long"].deltas


@settings(max_examples=examples(25))
@given(
    length=st.integers(1, 90),
    chunk=st.integers(1, 100),
    company=st.lists(st.integers(1, 60), max_size=3),
    layout=st.sampled_from(["similar", "similar+buckets"]),
)
def test_the_chunks_and_the_batch_do_not_matter(
    hybrid: Path, length: int, chunk: int, company: list[int], layout: str
) -> None:
    stepper = Stepper(hybrid, layout, chunk=chunk)
    for place, other in enumerate(company):
        embed(stepper, f"pooled {place}", text(other)) if place % 2 else stepper.greedy(f"{place}", text(other), 5)
    heard = embed(stepper, "row", text(length))
    stepper.finish()
    np.testing.assert_allclose(vector(heard), reference(hybrid, text(length)), atol=EXACT)


def test_a_sequence_that_is_given_up_leaves_nothing(llama: Path) -> None:
    stepper = Stepper(llama, chunk=8, cache=1 << 24)
    waiting = embed(stepper, "waiting", text(100))
    stepper.step(3)
    stepper.abort("waiting")
    stepper.step()
    assert waiting.finish_reason == "abort" and is_at_rest(stepper)
    ready = embed(stepper, "ready", text(4))
    stepper.step()  # its vector is computed, and not read yet
    assert not ready.deltas
    stepper.abort("ready")
    stepper.finish()
    assert [delta.finish_reason for delta in ready.deltas] == ["abort"] and is_at_rest(stepper)


def test_no_prefix_is_used_and_none_is_left(llama: Path) -> None:
    stepper = Stepper(llama, chunk=16, cache=1 << 24)
    stepper.greedy("first", text(64), 2)
    stepper.finish()
    entries = stepper.reuse.stats().entries
    heard = embed(stepper, "row", text(64))
    stepper.finish()
    assert heard.cached == 0 and stepper.reuse.stats().entries == entries
    np.testing.assert_allclose(vector(heard), reference(llama, text(64)), atol=EXACT)


def test_a_vector_does_not_hang_on_the_tokens_of_its_step(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = Stepper(llama, chunk=16)
    talking = stepper.greedy("talks", text(5), 12)
    stepper.step(4)
    heard = embed(stepper, "row", text(4))
    stepper.step()

    def broken(launched: object) -> None:
        raise RuntimeError("the device is gone")

    with monkeypatch.context() as patch:
        patch.setattr(stepper.runner, "collect", broken)
        stepper.step()
    stepper.finish()
    np.testing.assert_allclose(vector(heard), reference(llama, text(4)), atol=EXACT)
    assert talking.finish_reason is not None and is_at_rest(stepper)


@pytest.mark.thin(11)
@pytest.mark.parametrize("speculation", ["off", 2])
@pytest.mark.parametrize("words", ["the device is gone", "[malloc] Unable to allocate 12 bytes."])
@pytest.mark.parametrize("lost", range(1, 7))
def test_a_vector_ends_whichever_step_is_lost(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch, lost: int, words: str, speculation: Speculation
) -> None:
    """Also where its last chunk is in the step behind the lost one."""
    stepper = Stepper(hybrid, chunk=16, speculation=speculation)
    talking = stepper.greedy("talks", text(5), 12)
    stepper.step(4)
    heard = embed(stepper, "row", text(40))
    for method in ("collect", "read"):
        real, calls = getattr(stepper.runner, method), [0]

        def fails(launched: Any, real: Any = real, calls: list[int] = calls) -> Any:
            calls[0] += 1
            if calls[0] == lost:
                raise RuntimeError(words)
            return real(launched)

        monkeypatch.setattr(stepper.runner, method, fails)
    stepper.finish(limit=500)
    np.testing.assert_allclose(vector(heard), reference(hybrid, text(40)), atol=EXACT)
    assert talking.tokens == greedy_text(hybrid, text(5), 12) and is_at_rest(stepper)


@counts_passes
def test_prompts_are_waited_for_whichever_step_is_lost(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their batches are their own: they go on, but not unseen."""
    stepper = Stepper(llama, chunk=16)
    talking = stepper.greedy("talks", text(5), 12)
    stepper.step(4)
    late = stepper.greedy("late", text(80), 12)
    stepper.step()
    collect, wait, prefill = stepper.runner.collect, stepper.runner.wait, stepper.runner.prefill
    submitted: list[int] = []
    waited: list[int] = []

    def submits(seq: Any, tokens: int) -> Any:
        arrays = prefill(seq, tokens)
        submitted.append(id(arrays))
        kept.append(arrays)  # or the next list may have its id
        return arrays

    def waits(arrays: Any) -> None:
        waited.append(id(arrays))
        wait(arrays)

    def fails(launched: Any) -> Any:
        monkeypatch.setattr(stepper.runner, "collect", collect)
        raise RuntimeError("a passing fault")

    kept: list[Any] = []
    stepper.step()
    monkeypatch.setattr(stepper.runner, "prefill", submits)
    stepper.step()
    monkeypatch.setattr(stepper.runner, "wait", waits)
    monkeypatch.setattr(stepper.runner, "collect", fails)
    stepper.finish()
    assert len(submitted) > 1 and set(submitted) <= set(waited)
    assert [seq.tokens for seq in (talking, late)] == [greedy_text(llama, text(n), 12) for n in (5, 80)]


@counts_passes
def test_a_sequence_that_is_preempted_begins_again(llama: Path) -> None:
    stepper = Stepper(llama, chunk=8)
    heard = embed(stepper, "row", text(40))
    stepper.step(3)
    (seq,) = stepper.engine.scheduler.running
    assert seq.computed.pooled is not None and seq.remaining
    seq.reset_for_recompute()
    assert seq.computed.pooled is None
    stepper.finish()
    np.testing.assert_allclose(vector(heard), reference(llama, text(40)), atol=EXACT)


def test_states_that_are_not_numbers_are_an_error(llama: Path) -> None:
    stepper = Stepper(llama, chunk=4)
    heard = embed(stepper, "row", text(8))
    stepper.step()
    (seq,) = stepper.engine.scheduler.running
    seq.computed.pooled = seq.computed.pooled * float("nan")
    stepper.finish()
    assert heard.finish_reason == "error" and "not numbers" in (heard.deltas[0].error or "")
