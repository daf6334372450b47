"""Rows of adapters: greedy tokens of every row are those of mlx-lm with that adapter alone, in company of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from paceline.engine.lookup import LookupProposer
from paceline.engine.speculation_policy import HEADED
from paceline.types import Lora, Prompt, Sampling, Speculation, SpeculationMethod
from tests.engine.stepper import Heard, Stepper, loaded
from tests.integration.test_exactness import prompt
from tests.loras import ATTENTION, DELTA, added, make, reference, write_mlx_lm, write_peft
from tests.reference import greedy_text

Tiny = Callable[..., Path]
FAMILIES = ["llama", "hybrid", "qwen3", "window", "hybrid_moe"]
LAYOUTS = ["rows", "padded", "similar+buckets"]
TOKENS = 16


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], tuple[Path, Path]]:
    """Two adapters of a model, of different ranks, for different layers."""
    home = tmp_path_factory.mktemp("adapters")

    def folders(model: Path) -> tuple[Path, Path]:
        place = home / model.name
        if not place.exists():
            write_mlx_lm(place / "wide", make(model, rank=6, seed=1))
            write_mlx_lm(place / "narrow", make(model, (*ATTENTION[:2], DELTA[0]), rank=3, seed=2))
        return place / "wide", place / "narrow"

    return folders


Adapters = Callable[[Path], tuple[Path, Path]]


def expected(model: Path, adapter: Path | None, tokens: tuple[int, ...], count: int = TOKENS) -> list[int]:
    return greedy_text(model if adapter is None else reference(model, adapter), tokens, count)


def ask(stepper: Stepper, name: str, tokens: tuple[int, ...], lora: Lora | None, count: int = TOKENS) -> Heard:
    return stepper.greedy(name, Prompt(tokens, lora=lora), count)


@pytest.mark.thin(8, first=0)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_the_base_and_of_two_adapters_equal_each_alone(
    tiny: Tiny, adapters: Adapters, family: str, layout: str
) -> None:
    folder = tiny(family)
    wide, narrow = adapters(folder)
    who = [None, wide, narrow, wide, None, narrow]
    prompts = [prompt(n) for n in (9, 9, 9, 70, 33, 120)]
    with added(loaded(folder), wide, narrow) as loras:
        lora = dict(zip((wide, narrow), loras, strict=True))
        stepper = Stepper(folder, layout, chunk=48)
        heard = []
        for place, (tokens, adapter) in enumerate(zip(prompts, who, strict=True)):
            heard.append(ask(stepper, str(place), tokens, None if adapter is None else lora[adapter]))
            stepper.step(place % 3)
        stepper.finish()
    wanted = [expected(folder, adapter, tokens) for tokens, adapter in zip(prompts, who, strict=True)]
    assert [row.tokens for row in heard] == wanted
    assert len({tuple(row) for row in wanted[:3]}) == 3  # the same prompt, and the adapters matter


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_every_chunk_size_gives_the_same_tokens(tiny: Tiny, adapters: Adapters, family: str) -> None:
    folder = tiny(family)
    wide, narrow = adapters(folder)
    text = prompt(41)
    with added(loaded(folder), narrow, wide) as loras:
        for chunk in (1, 7, 40, 64):
            stepper = Stepper(folder, chunk=chunk)
            heard = [ask(stepper, "narrow", text, loras[0], 8), ask(stepper, "wide", text, loras[1], 8)]
            stepper.finish()
            assert [row.tokens for row in heard] == [expected(folder, each, text, 8) for each in (narrow, wide)], chunk


@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_prefixes_are_shared_within_an_adapter_and_never_across(tiny: Tiny, adapters: Adapters, family: str) -> None:
    folder = tiny(family)
    wide, narrow = adapters(folder)
    text = prompt(60)
    with added(loaded(folder), wide, narrow) as loras:
        stepper = Stepper(folder, cache=1 << 26)
        for turn in ("cold", "warm"):
            for name, adapter, lora in (("base", None, None), ("wide", wide, loras[0]), ("narrow", narrow, loras[1])):
                heard = ask(stepper, f"{name} {turn}", text, lora)
                stepper.finish()
                assert heard.tokens == expected(folder, adapter, text)
                assert bool(heard.cached) == (turn == "warm"), name


@pytest.mark.thin(2)
@pytest.mark.parametrize("speculation", [1, 3])
def test_drafts_of_the_head_and_of_lookup_change_nothing(
    tiny: Tiny, adapters: Adapters, speculation: Speculation
) -> None:
    folder = tiny("hybrid")
    wide, narrow = adapters(folder)
    text = prompt(20) * 2
    with added(loaded(folder), wide, narrow) as loras:
        for proposers in ([], [LookupProposer()]):
            methods: tuple[SpeculationMethod, ...] = ("lookup",) if proposers else HEADED
            stepper = Stepper(folder, speculation=speculation, methods=methods, proposers=proposers)
            who = [(None, None), (wide, loras[0]), (narrow, loras[1])]
            heard = [ask(stepper, str(place), text, lora) for place, (_, lora) in enumerate(who)]
            stepper.finish()
            assert [row.tokens for row in heard] == [expected(folder, adapter, text) for adapter, _ in who]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_traced_steps_take_adapters_as_they_are_now(tiny: Tiny, adapters: Adapters, family: str) -> None:
    folder = tiny(family)
    wide, narrow = adapters(folder)
    text = prompt(12)
    model = loaded(folder)
    stepper = Stepper(folder, "padded+buckets", traces=True)
    with added(model, wide, narrow) as loras:
        first = [ask(stepper, "w", text, loras[0]), ask(stepper, "n", text, loras[1]), ask(stepper, "b", text, None)]
        stepper.finish()
        assert [row.tokens for row in first] == [expected(folder, each, text) for each in (wide, narrow, None)]
        assert stepper.runner.forward.traced_calls
        model.language.loras.remove(loras[0])  # the other one moves up
        stepper.runner.forget_loras()
        after = ask(stepper, "again", text, loras[1])
        stepper.finish()
        assert after.tokens == expected(folder, narrow, text)


def test_a_preempted_row_goes_on_with_its_adapter(tiny: Tiny, adapters: Adapters) -> None:
    folder = tiny("hybrid")
    wide, _ = adapters(folder)
    text = prompt(30)
    with added(loaded(folder), wide) as loras:
        stepper = Stepper(folder)
        heard = [ask(stepper, "wide", text, loras[0]), ask(stepper, "base", text, None)]
        stepper.step(6)
        stepper.settle()
        stepper.engine.preempt(list(stepper.runner.seqs), "memory")
        stepper.finish()
    assert [row.tokens for row in heard] == [expected(folder, wide, text), expected(folder, None, text)]


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_a_quantized_base_takes_adapters(four_bit: Tiny, adapters: Adapters, family: str) -> None:
    folder = four_bit(family)
    wide, narrow = adapters(folder)
    text = prompt(25)
    with added(loaded(folder), wide, narrow) as loras:
        stepper = Stepper(folder, chunk=10)
        heard = [ask(stepper, "base", text, None), *(ask(stepper, lora.name, text, lora) for lora in loras)]
        stepper.finish()
    assert [row.tokens for row in heard] == [expected(folder, each, text) for each in (None, wide, narrow)]


def test_both_layouts_of_an_adapter_agree(tiny: Tiny, tmp_path: Path) -> None:
    folder = tiny("llama")
    made = make(folder, rank=5, seed=4)
    mine, theirs = write_mlx_lm(tmp_path / "mlx-lm", made), write_peft(tmp_path / "peft", made)
    text = prompt(18)
    with added(loaded(folder), mine, theirs) as loras:
        stepper = Stepper(folder)
        heard = [ask(stepper, lora.name, text, lora) for lora in loras]
        stepper.finish()
    assert heard[0].tokens == heard[1].tokens == expected(folder, mine, text)


def test_scores_and_states_of_a_prompt_are_the_adapters(tiny: Tiny, adapters: Adapters) -> None:
    folder = tiny("llama")
    wide, _ = adapters(folder)
    text = prompt(14)
    alone = reference(folder, wide)
    logits = alone(mx.array([text]))[0].astype(mx.float32)
    wanted = (logits - mx.logsumexp(logits, axis=-1, keepdims=True))[mx.arange(13), mx.array(text[1:])]
    states = alone.model(mx.array([text]))[0].mean(axis=0)
    with added(loaded(folder), wide) as loras:
        stepper = Stepper(folder, chunk=6)
        asked = Prompt(text, lora=loras[0])
        scored = stepper.submit("scored", asked, Sampling(temperature=0, max_tokens=1, prompt_logprobs=0))
        pooled = stepper.submit("pooled", replace(asked, pooling="mean", cached=False), Sampling())
        stepper.finish()
    told = scored.deltas[0].prompt
    assert told is not None and told.logprobs is not None
    found = [entry.logprob for entry in told.logprobs if entry is not None]
    assert np.abs(np.array(found) - np.array(wanted)).max() < 1e-3
    vector = pooled.deltas[-1].vector
    assert vector is not None
    assert np.abs(vector - np.array(states / mx.linalg.norm(states))).max() < 1e-4
