"""Batched equals alone: greedy tokens of every row are mlx-lm's own, whatever else rides in the batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.stepper import BUCKETED, Stepper
from tests.lengths import examples, turns
from tests.reference import greedy_text

Tiny = Callable[..., Path]
FAMILIES = ["llama", "qwen3", "window", "window_llama", "hybrid", "hybrid_moe"]
LAYOUTS = ["rows", "padded", "similar", *BUCKETED]
TOKENS = 24
SLIDES = turns(420, 420, 100)


def prompt(length: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(np.random.default_rng([length, seed]).integers(0, 480, length).tolist())


@pytest.mark.thin(7, first=1)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_four_sequences_of_different_lengths_equal_each_alone(tiny: Tiny, family: str, layout: str) -> None:
    folder = tiny(family)
    stepper = Stepper(folder, layout, chunk=48)
    prompts = [prompt(n) for n in (1, 9, 70, 180)]
    heard = [stepper.greedy(str(i), p, TOKENS) for i, p in enumerate(prompts)]
    stepper.finish()
    assert [h.tokens for h in heard] == [greedy_text(folder, p, TOKENS) for p in prompts]


@pytest.mark.thin(6, first=1)
@pytest.mark.parametrize("family", FAMILIES)
def test_sixteen_sequences_that_join_late_and_leave_early_equal_each_alone(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    stepper = Stepper(folder, chunk=64)
    heard = []
    for i in range(16):
        heard.append(stepper.greedy(str(i), prompt(1 + 11 * i), 4 + 3 * i % 17))
        stepper.step(i % 3)
    stepper.finish()
    for i, row in enumerate(heard):
        assert row.tokens == greedy_text(folder, prompt(1 + 11 * i), 4 + 3 * i % 17)


@pytest.mark.thin(4, first=2)
@pytest.mark.parametrize("family", ["llama", "window", "hybrid", "hybrid_moe"])
def test_every_chunk_size_gives_the_same_tokens(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    text = prompt(41)
    expected = greedy_text(folder, text, 8)
    for chunk in range(1, len(text) + 1, turns(1, 1, 5)):
        stepper = Stepper(folder, chunk=chunk)
        heard = stepper.greedy("row", text, 8)
        stepper.finish()
        assert heard.tokens == expected, f"chunk {chunk}"


@pytest.mark.thin(9)
@pytest.mark.parametrize("layout", BUCKETED)
@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_that_share_passes_equal_each_alone(tiny: Tiny, family: str, layout: str) -> None:
    """Their rows join padding, leave padding, and take larger and smaller buckets."""
    folder = tiny(family)
    stepper = Stepper(folder, layout, chunk=512)
    lengths = (20, 3, 31, 120, 90, 33, 2, 30, 29, 28)
    heard = []
    for place, length in enumerate(lengths):
        heard.append(stepper.greedy(str(place), prompt(length), 4 + 5 * place % 13))
        stepper.step(place % 4 == 3)
    stepper.finish()
    for place, length in enumerate(lengths):
        assert heard[place].tokens == greedy_text(folder, prompt(length), 4 + 5 * place % 13)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["rows", "padded+buckets"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_sequence_of_three_thousand_tokens_rides_beside_short_ones(tiny: Tiny, family: str, layout: str) -> None:
    folder = tiny(family)
    prompts = [prompt(n) for n in (3000, 1, 17, 700)]
    stepper = Stepper(folder, layout, chunk=512)
    heard = [stepper.greedy(str(i), p, 12) for i, p in enumerate(prompts)]
    stepper.finish()
    assert [h.tokens for h in heard] == [greedy_text(folder, p, 12) for p in prompts]


@pytest.mark.thin(10, first=7)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", ["window", "window_llama"])
def test_a_window_that_slides_while_decoding_stays_exact(tiny: Tiny, family: str, layout: str) -> None:
    folder = tiny(family)
    stepper = Stepper(folder, layout, chunk=40)
    heard = [stepper.greedy(str(n), prompt(n), SLIDES) for n in (5, 150)]
    stepper.finish()
    assert [h.tokens for h in heard] == [greedy_text(folder, prompt(n), SLIDES) for n in (5, 150)]


ACTIONS = st.one_of(
    st.tuples(st.just("join"), st.integers(1, 90), st.integers(1, 20)),
    st.tuples(st.just("step"), st.integers(1, 6), st.just(0)),
    st.tuples(st.just("leave"), st.integers(0, 20), st.just(0)),
)


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["hybrid", "window"])
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(ACTIONS, min_size=4, max_size=24),
    chunk=st.integers(1, 100),
    layout=st.sampled_from(LAYOUTS),
    max_rows=st.integers(1, 8),
)
def test_any_script_of_joins_and_leaves_changes_nobodys_tokens(
    tiny: Tiny, family: str, script: list[tuple[str, int, int]], chunk: int, layout: str, max_rows: int
) -> None:
    folder = tiny(family)
    stepper = Stepper(folder, layout, chunk, max_rows)
    asked: dict[str, tuple[int, int]] = {}
    aborted = set()
    for kind, first, second in script:
        if kind == "join":
            name = str(len(asked))
            asked[name] = (first, second)
            stepper.greedy(name, prompt(first), second)
        elif kind == "step":
            stepper.step(first)
        elif asked:
            name = str(first % len(asked))
            aborted.add(name)
            stepper.abort(name)
    stepper.finish()
    for name, (length, tokens) in asked.items():
        heard = stepper.heard[name]
        expected = greedy_text(folder, prompt(length), 20)[:tokens]
        if heard.finish_reason == "abort":
            assert name in aborted
            assert heard.tokens == expected[: len(heard.tokens)]
        else:
            assert (heard.finish_reason, heard.tokens) == ("length", expected)


ROPES = ["yarn", "llama3", "linear", "dynamic", "longrope"]


@pytest.mark.thin(10)
@pytest.mark.parametrize("layout", ["rows", "padded+buckets"])
@pytest.mark.parametrize("kind", ROPES)
def test_a_scaled_rope_past_its_window_equals_mlx_lm(tiny: Tiny, kind: str, layout: str) -> None:
    from tests.synthetic import scaled_rope

    folder = tiny("llama", **scaled_rope(kind, window=64))
    lengths = (3, 60, 130, 300)
    stepper = Stepper(folder, layout, chunk=37)
    heard = [stepper.greedy(str(n), prompt(n), 30) for n in lengths]
    stepper.finish()
    assert [h.tokens for h in heard] == [greedy_text(folder, prompt(n), 30) for n in lengths]
