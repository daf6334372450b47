"""Quantized keys and values: greedy tokens of a row in company are those of the row alone with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache, QuantizedKVCache, make_prompt_cache

from paceline.cache.kv_quantization import KVQuantization, Lines
from paceline.engine.lookup import LookupProposer
from paceline.engine.speculation_policy import HEADED
from paceline.types import Prompt, Sampling, Speculation, SpeculationMethod
from tests.engine.stepper import BUCKETED, Heard, Stepper, loaded
from tests.integration.test_exactness import FAMILIES, prompt
from tests.lengths import turns
from tests.loras import added, make, write_mlx_lm

Tiny = Callable[..., Path]
LAYOUTS = ["rows", "padded", "similar", *BUCKETED]
IN_LINES = KVQuantization(8, 32, lines=Lines(mx.float32))
FORMS = [KVQuantization(8, 32), KVQuantization(4, 32), KVQuantization(4, 32, start=40)]
TOKENS = 16
CLOSE = 0.1  # by so much at most one logprob exceeds another that a single level may put before it
by_bits = pytest.mark.parametrize("kv", [*FORMS, pytest.param(IN_LINES, marks=pytest.mark.slow)], ids=str)


@contextmanager
def quantized(folder: Path, kv: KVQuantization | None) -> Iterator[None]:
    """Batches of this model have such keys and values meanwhile."""
    language = loaded(folder).language
    language.kv = kv
    try:
        yield
    finally:
        language.kv = None


@cache
def alone(folder: Path, kv: KVQuantization | None, tokens: tuple[int, ...], count: int) -> list[int]:
    """Of a row by itself, prefilled in one pass."""
    with quantized(folder, kv):
        stepper = Stepper(folder, chunk=8192)
        heard = stepper.greedy("alone", tokens, count)
        stepper.finish()
        return heard.tokens


def alone_with_logprobs(folder: Path, kv: KVQuantization, tokens: tuple[int, ...], count: int) -> Heard:
    with quantized(folder, kv):
        stepper = Stepper(folder, chunk=8192)
        heard = stepper.submit("alone", tokens, Sampling(temperature=0, max_tokens=count, ignore_eos=True, logprobs=2))
        stepper.finish()
        return heard


def assert_same_but_for_a_level(tokens: Sequence[int], row: Heard) -> None:
    """A number between two levels of the quantization may be rounded to the other one in company, where its last bit
    differs. Over hundreds of tokens that can decide between two that are almost as likely; nothing else may."""
    at = next((place for place, pair in enumerate(zip(tokens, row.tokens, strict=True)) if pair[0] != pair[1]), None)
    if at is not None:
        (best, best_logprob), (second, second_logprob) = [x for delta in row.deltas for x in delta.logprobs][at].top
        assert {tokens[at], row.tokens[at]} == {best, second}
        assert best_logprob - second_logprob < CLOSE


def together(stepper: Stepper, prompts: Sequence[tuple[int, ...]], count: int = TOKENS) -> list[list[int]]:
    heard = []
    for place, tokens in enumerate(prompts):
        heard.append(stepper.greedy(f"{place} of {len(stepper.heard)}", tokens, count))
        stepper.step(place % 3)
    stepper.finish()
    return [row.tokens for row in heard]


@pytest.mark.thin(18, first=5)
@by_bits
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_different_lengths_equal_each_alone(tiny: Tiny, family: str, layout: str, kv: KVQuantization) -> None:
    folder = tiny(family)
    prompts = [prompt(n) for n in (1, 9, 70, 180, 33)]
    wanted = [alone(folder, kv, each, TOKENS) for each in prompts]
    with quantized(folder, kv):
        assert together(Stepper(folder, layout, chunk=48), prompts) == wanted


@pytest.mark.parametrize("layout", ["rows", "padded+buckets"])
def test_rows_in_lines_equal_each_alone(tiny: Tiny, layout: str) -> None:
    folder, prompts = tiny("window_llama"), [prompt(n) for n in (1, 9, 70, 33)]
    wanted = [alone(folder, IN_LINES, each, 8) for each in prompts]
    with quantized(folder, IN_LINES):
        assert together(Stepper(folder, layout, chunk=48), prompts, 8) == wanted


@pytest.mark.parametrize("kv", FORMS[:2], ids=str)
@pytest.mark.parametrize("family", ["llama", pytest.param("hybrid", marks=pytest.mark.slow)])
def test_a_row_equals_mlx_lm_with_its_own_quantized_cache(tiny: Tiny, family: str, kv: KVQuantization) -> None:
    folder, text = tiny(family), prompt(70)
    module = loaded(folder).language.module
    caches = [
        QuantizedKVCache(kv.group_size, kv.bits) if type(each) is KVCache else each
        for each in make_prompt_cache(module)
    ]
    tokens: list[int] = []
    logits = module(mx.array([text]), cache=caches)
    for _ in range(TOKENS):
        best: Any = mx.argmax(logits[0, -1]).item()
        tokens.append(best)
        logits = module(mx.array([tokens[-1:]]), cache=caches)
    assert alone(folder, kv, text, TOKENS) == tokens


def test_tokens_before_the_start_are_not_quantized(tiny: Tiny) -> None:
    folder, text = tiny("llama"), prompt(60)
    exact = alone(folder, None, text, TOKENS)
    assert alone(folder, KVQuantization(4, 32, start=200), text, TOKENS) == exact
    assert alone(folder, KVQuantization(4, 32), text, TOKENS) != exact


@pytest.mark.thin(4)
@by_bits
@pytest.mark.parametrize("family", ["llama", "window", "hybrid"])
def test_every_chunk_size_gives_the_same_tokens(tiny: Tiny, family: str, kv: KVQuantization) -> None:
    folder, text = tiny(family), prompt(41)
    wanted = alone(folder, kv, text, 8)
    with quantized(folder, kv):
        for chunk in range(1, len(text) + 1, turns(1, 5, 13)):
            assert together(Stepper(folder, chunk=chunk), [text], 8) == [wanted], f"chunk {chunk}"


@pytest.mark.thin(8)
@by_bits
@pytest.mark.parametrize("layout", ["rows", "padded+buckets"])
@pytest.mark.parametrize("family", ["window", "window_llama"])
def test_a_window_that_slides_stays_exact(tiny: Tiny, family: str, layout: str, kv: KVQuantization) -> None:
    folder, count = tiny(family), turns(420, 420, 60)
    prompts = [prompt(5), prompt(150)]
    rows = [alone_with_logprobs(folder, kv, each, count) for each in prompts]
    with quantized(folder, kv):
        for tokens, row in zip(together(Stepper(folder, layout, chunk=40), prompts, count), rows, strict=True):
            assert_same_but_for_a_level(tokens, row)


@pytest.mark.thin(6, first=1)
@by_bits
@pytest.mark.parametrize("family", ["llama", "window", "hybrid"])
def test_a_prefix_is_restored_at_any_token(tiny: Tiny, family: str, kv: KVQuantization) -> None:
    folder, text = tiny(family), prompt(120)
    asked = [text, text[:50] + prompt(20, 1), text[:51] + prompt(7, 2), text + prompt(30, 3), text[:119]]
    wanted = [alone(folder, kv, each, TOKENS) for each in asked]
    with quantized(folder, kv):
        stepper = Stepper(folder, cache=1 << 26, chunk=32)
        for tokens, answer in zip(asked, wanted, strict=True):
            heard = stepper.greedy(str(len(stepper.heard)), tokens, TOKENS)
            stepper.finish()
            assert heard.tokens == answer
        assert heard.cached


@pytest.mark.thin(4)
@by_bits
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_a_prefix_survives_on_disk(tiny: Tiny, family: str, kv: KVQuantization, tmp_path: Path) -> None:
    folder, text = tiny(family), prompt(100)
    wanted = alone(folder, kv, text, TOKENS)
    with quantized(folder, kv):
        for cached in (False, True):
            stepper = Stepper(folder, cache=1 << 26, disk=tmp_path)
            heard = stepper.greedy("row", text, TOKENS)
            stepper.finish()
            stepper.close()
            assert (heard.tokens, bool(heard.cached)) == (wanted, cached)


def test_a_cached_prefix_is_as_small_as_its_bits_say(tiny: Tiny) -> None:
    folder, sizes = tiny("llama"), []
    for kv in (None, *FORMS[:2], IN_LINES):
        with quantized(folder, kv):
            stepper = Stepper(folder, cache=1 << 26)
            together(stepper, [prompt(100)], 1)
            sizes.append(stepper.reuse.cache.memory)
    assert [sizes[0] / size for size in sizes[1:]] == pytest.approx(
        [32 / 10, 32 / 6, 32 / 10]
    )  # scale and bias: 2 bits each


@pytest.mark.thin(8, first=2)
@by_bits
@pytest.mark.parametrize("speculation", [1, 3])
@pytest.mark.parametrize("proposer", ["head", "lookup"])
def test_rejected_drafts_change_nothing(
    tiny: Tiny, speculation: Speculation, proposer: str, kv: KVQuantization
) -> None:
    folder = tiny("hybrid")
    prompts = [prompt(20) * 2, prompt(33), prompt(7) * 4]
    wanted = [alone(folder, kv, each, TOKENS) for each in prompts]
    methods: tuple[SpeculationMethod, ...] = ("lookup",) if proposer == "lookup" else HEADED
    with quantized(folder, kv):
        proposers = [LookupProposer()] if proposer == "lookup" else []
        stepper = Stepper(folder, speculation=speculation, methods=methods, proposers=proposers)
        assert together(stepper, prompts) == wanted


@pytest.mark.slow  # the CPU compiles
@by_bits
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_traced_steps_give_the_same_tokens(tiny: Tiny, family: str, kv: KVQuantization) -> None:
    folder, prompts = tiny(family), [prompt(12), prompt(40)]
    wanted = [alone(folder, kv, each, TOKENS) for each in prompts]
    with quantized(folder, kv):
        stepper = Stepper(folder, "padded+buckets", traces=True)
        assert together(stepper, prompts) == wanted
        assert stepper.runner.forward.traced_calls


@pytest.mark.thin(2)
@by_bits
def test_a_preempted_row_goes_on(tiny: Tiny, kv: KVQuantization) -> None:
    folder, prompts = tiny("hybrid"), [prompt(30), prompt(50)]
    wanted = [alone(folder, kv, each, TOKENS) for each in prompts]
    with quantized(folder, kv):
        stepper = Stepper(folder, cache=1 << 26)
        heard = [stepper.greedy(str(place), each, TOKENS) for place, each in enumerate(prompts)]
        stepper.step(6)
        stepper.settle()
        stepper.engine.preempt(list(stepper.runner.seqs), "memory")
        stepper.finish()
        assert [row.tokens for row in heard] == wanted


@pytest.mark.thin(2)
@by_bits
def test_rows_of_an_adapter_equal_each_alone(tiny: Tiny, tmp_path: Path, kv: KVQuantization) -> None:
    folder, text = tiny("llama"), prompt(30)
    write_mlx_lm(tmp_path / "adapter", make(folder, rank=6, seed=1))
    with added(loaded(folder), tmp_path / "adapter") as [lora], quantized(folder, kv):
        answers = []
        for names in (["base"], ["lora"], ["base", "lora", "base"]):
            stepper = Stepper(folder, "padded")
            heard = [
                stepper.greedy(f"{place}", Prompt(text, lora=lora if name == "lora" else None), TOKENS)
                for place, name in enumerate(names)
            ]
            stepper.finish()
            answers.append([row.tokens for row in heard])
    [[base], [changed], both] = answers
    assert both == [base, changed, base] and base != changed
