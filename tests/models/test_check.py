"""The start-up check lets through what is right in a batch, and nothing else."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.cache.batch import Batch
from paceline.cache.slot_plan import LAYOUTS, PADDED, ROWS, SIMILAR, Grouping
from paceline.engine import layout
from paceline.engine.forward import Forward
from paceline.errors import LoadError
from paceline.models import check
from paceline.models.adapter import Adapted, adapt, buckets_for
from paceline.models.check import hidden_size
from paceline.models.loader import LoadedModel, load
from tests import synthetic
from tests.engine.stepper import BUCKETED, grouping, loaded
from tests.models import families

Tiny = Callable[..., Path]
nn: Any = importlib.import_module("mlx.nn")  # its stubs re-export nothing in strict mode
FAMILIES = list(synthetic.FAMILIES)
Pass = tuple[mx.array, Callable[[], None]]


@pytest.fixture
def llama_alone(llama: Path) -> LoadedModel:
    """A model of this test's own, to be broken."""
    return load(str(llama))


def layers(model: Adapted) -> list[Any]:
    found: list[Any] = model.module.layers
    return found


@pytest.mark.thin(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_right_in_every_layout(tiny: Tiny, family: str, layout: str) -> None:
    model = loaded(tiny(family)).language
    assert check.choose_layout(model, (LAYOUTS[layout],)) is LAYOUTS[layout]


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "llama3", "longrope"])
def test_every_scaled_rope_is_right(tiny: Tiny, kind: str) -> None:
    # A window of four tokens: the check's few tokens are past it.
    model = loaded(tiny("llama", **synthetic.scaled_rope(kind, window=4))).language
    assert model.dynamic_rope == (kind == "dynamic")
    assert check.choose_layout(model, (SIMILAR, PADDED)) is SIMILAR


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_other_types_are_right_within_their_rounding(llama: Path, dtype: str) -> None:
    model = load(str(llama), dtype).language
    assert check.choose_layout(model, (SIMILAR,)) is SIMILAR


def test_the_vocabulary_is_corrected_to_the_logits_own(llama_alone: LoadedModel) -> None:
    model = llama_alone.language
    model.vocab_size = 300  # as where a checkpoint's table is longer than its configuration says
    check.choose_layout(model, (SIMILAR,))
    assert model.vocab_size == 512


@pytest.mark.parametrize("family", ["llama", "window", "hybrid"])
def test_a_prompt_in_one_wide_pass_is_right_too(tiny: Tiny, family: str) -> None:
    model = loaded(tiny(family)).language
    assert check.batched_error(model, PADDED, check.WIDE, max(check.WIDE)) is None


def test_a_kernel_that_is_wrong_in_wide_passes_only_is_switched_off(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = load(str(hybrid)).language
    layer = layers(model)[0].linear_attn

    class WrongWhenWide(type(layer)):  # type: ignore[misc]
        def __call__(self, inputs: mx.array, mask: Any = None, cache: Any = None) -> Any:
            out = super().__call__(inputs, mask, cache)
            return out + 10.0 if self.fused and inputs.shape[1] > 32 and hasattr(cache, "pending") else out

    layer.__class__ = WrongWhenWide
    monkeypatch.setattr("paceline.models.gated_delta_cuda.fits", lambda part: part is layer)
    monkeypatch.setattr("paceline.models.gated_delta_cuda.WIDEST", 0)  # there is no kernel here to take a step
    assert model.use_kernels(True) and model.uses_kernels
    assert check.choose_layout(model, (PADDED,)) is PADDED
    assert not model.uses_kernels
    assert "kernels disagree" in caplog.text


def test_a_kernel_that_is_wrong_beside_padding_only_is_switched_off(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = load(str(hybrid)).language
    layer = layers(model)[0].linear_attn

    class WrongBesidePadding(type(layer)):  # type: ignore[misc]
        def __call__(self, inputs: mx.array, mask: Any = None, cache: Any = None) -> Any:
            out = super().__call__(inputs, mask, cache)
            return out + 10.0 if self.fused and hasattr(cache, "active") and not all(cache.active.tolist()) else out

    layer.__class__ = WrongBesidePadding
    monkeypatch.setattr("paceline.models.gated_delta_cuda.fits", lambda part: part is layer)
    monkeypatch.setattr("paceline.models.gated_delta_cuda.WIDEST", 0)  # there is no kernel here to take a step
    for form in (PADDED, replace(PADDED, buckets=buckets_for(model))):
        assert model.use_kernels(True)
        assert check.choose_layout(model, (form,)) is form
        assert model.uses_kernels == (form is PADDED)
        model.use_kernels(False)
    assert "kernels disagree" in caplog.text


# -- models that are wrong in a batch


class ForgetfulRoPE(nn.Module):  # type: ignore[misc]
    """As a model would that takes one row's offset for all."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def __call__(self, x: mx.array, offset: Any = 0) -> mx.array:
        first: Any = offset[0].item() if isinstance(offset, mx.array) else offset
        rotated: mx.array = self.inner(x, offset=first)
        return rotated


def test_a_model_that_ignores_its_rows_offsets_is_refused_in_one_line(llama_alone: LoadedModel) -> None:
    model = llama_alone.language
    for layer in layers(model):
        layer.self_attn.rope = ForgetfulRoPE(layer.self_attn.rope)
    with pytest.raises(LoadError, match="not served: logits differ by .* of the largest") as refusal:
        check.choose_layout(model, (SIMILAR, PADDED))
    assert "\n" not in str(refusal.value)


def test_a_model_that_raises_in_a_batch_is_refused_with_its_words(llama_alone: LoadedModel) -> None:
    model = llama_alone.language

    class OneRowOnly(type(model.module)):  # type: ignore[misc]
        def __call__(self, tokens: mx.array, cache: Any = None) -> Any:
            if len(tokens) > 1:
                raise ValueError("one row only")
            return super().__call__(tokens, cache=cache)

    model.module.__class__ = OneRowOnly
    with pytest.raises(LoadError, match="not served: ValueError: one row only$"):
        check.choose_layout(model, (SIMILAR, PADDED))


def test_a_model_whose_state_mixes_rows_is_refused(hybrid: Path) -> None:
    model = load(str(hybrid)).language
    layer = layers(model)[0].linear_attn

    class Mixed(type(layer)):  # type: ignore[misc]
        def __call__(self, inputs: mx.array, mask: Any = None, cache: Any = None) -> Any:
            out = super().__call__(inputs, mask, cache)
            return mx.broadcast_to(out.mean(axis=0, keepdims=True), out.shape)

    layer.__class__ = Mixed
    with pytest.raises(LoadError, match="logits differ"):
        check.choose_layout(model, (SIMILAR, PADDED))


def test_logits_that_are_not_numbers_are_refused(llama_alone: LoadedModel) -> None:
    model = llama_alone.language
    norm = layers(model)[0].input_layernorm
    norm.weight = mx.full(norm.weight.shape, np.nan)
    with pytest.raises(LoadError, match="logits differ by inf"):
        check.choose_layout(model, (SIMILAR,))


def straight_to_the_kernel(
    queries: mx.array, keys: mx.array, values: mx.array, cache: Any, scale: float, mask: Any, sinks: Any = None
) -> mx.array:
    """As the models of mlx-lm that call `mx.fast` themselves: the cache is not asked."""
    return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=mask)


def test_a_model_that_calls_the_attention_kernel_itself_is_served_padded(
    llama_alone: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    library: Any = importlib.import_module("mlx_lm.models.llama")
    monkeypatch.setattr(library, "scaled_dot_product_attention", straight_to_the_kernel)
    model = llama_alone.language
    assert check.batched_error(model, PADDED) is None
    assert check.batched_error(model, ROWS) is not None
    # "similar" puts the check's short rows together, and would be right in the check only.
    assert check.batched_error(model, SIMILAR) is None
    assert check.choose_layout(model, (SIMILAR, PADDED)) is PADDED
    with pytest.raises(LoadError, match="not served"):
        check.choose_layout(model, (ROWS, SIMILAR))


def test_the_layout_that_is_left_is_noted(llama_alone: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = importlib.import_module("mlx_lm.models.llama")
    monkeypatch.setattr(library, "scaled_dot_product_attention", straight_to_the_kernel)
    monkeypatch.setattr("paceline.platform.device_kind", lambda: "cpu")
    assert layout.choose(llama_alone) is PADDED
    assert llama_alone.notes == ["llama needs the padded layout."]
    with pytest.raises(LoadError):
        layout.choose(llama_alone, "rows")


# -- another way to run a step


def traced(model: Adapted) -> tuple[check.Step, Forward]:
    forward = Forward(lambda inputs, batch: [model.module(inputs[0], cache=batch.layers)], traces=True, trace_after=1)

    def step(tokens: mx.array, batch: Batch, tentative: bool) -> Pass:
        (logits,), close = forward(batch, tokens.shape[1], [tokens], tentative=tentative)
        return logits, close

    return step, forward


@pytest.mark.thin(3)
@pytest.mark.parametrize("layout", [*LAYOUTS, *BUCKETED])
@pytest.mark.parametrize("family", ["llama", "window", "hybrid", "hybrid_moe"])
def test_the_traced_step_agrees_with_the_plain_one(tiny: Tiny, family: str, layout: str) -> None:
    model = loaded(tiny(family))
    forms = 2 if layout.startswith("similar") else 1
    step, forward = traced(model.language)
    assert check.agrees(model.language, grouping(layout, model), step)
    assert forward.traced_calls == forms * check.STEPS


@pytest.mark.thin(4)
@pytest.mark.parametrize("way", ["plain", "traced"])
@pytest.mark.parametrize("layout", [*LAYOUTS, *BUCKETED])
@pytest.mark.parametrize("family", ["llama", "window", "hybrid", "hybrid_moe"])
def test_rejected_tokens_leave_nothing_behind(tiny: Tiny, family: str, layout: str, way: str) -> None:
    model = loaded(tiny(family))
    step = check.plain_step(model.language) if way == "plain" else traced(model.language)[0]
    assert check.rolls_back(model.language, grouping(layout, model), step)


def test_forms_share_plain_steps_unless_they_differ(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(llama).language
    made: list[Any] = []
    of, compare = check._Plain.of, check._rolls_back

    def counted(model: Adapted, form: Grouping) -> Any:
        made.append(of(model, form))
        return made[-1]

    monkeypatch.setattr(check._Plain, "of", counted)
    assert check.rolls_back(model, SIMILAR, check.plain_step(model))
    assert len(made) == 1

    made.clear()
    compared: list[int] = []

    def only_own(model: Adapted, form: Grouping, step: check.Step, plain: Any) -> bool:
        """As if the second form rounded otherwise than the first."""
        compared.append([one is plain for one in made].index(True))
        return compare(model, form, step, plain) and compared[-1] == (form.skew == PADDED.skew)

    monkeypatch.setattr(check, "_rolls_back", only_own)
    assert check.rolls_back(model, SIMILAR, check.plain_step(model))
    assert compared == [0, 0, 1]


def test_a_step_that_differs_in_one_form_only_does_not_agree(llama: Path) -> None:
    model = loaded(llama).language
    plain = check.plain_step(model)

    def wrong_apart(tokens: mx.array, batch: Batch, tentative: bool) -> Pass:
        logits, close = plain(tokens, batch, tentative)
        apart = any(len(slot_plan.groups) > 1 for slot_plan in batch.slot_plans.values())
        return logits + 10 * apart, close

    for question in (check.agrees, check.rolls_back):
        assert question(model, PADDED, wrong_apart)
        assert not question(model, SIMILAR, wrong_apart)


def test_a_step_that_loses_a_token_does_not_agree(llama: Path) -> None:
    model = loaded(llama).language
    plain = check.plain_step(model)

    def forgets(tokens: mx.array, batch: Batch, tentative: bool) -> Pass:
        logits, close = plain(tokens, batch, tentative)

        def close_shorter() -> None:
            close()
            batch.lengths = [length - 1 for length in batch.lengths]

        return logits, close_shorter

    for question in (check.agrees, check.rolls_back):
        assert not question(model, PADDED, forgets)


def test_a_step_that_keeps_rejected_tokens_does_not_roll_back(hybrid: Path) -> None:
    """A tentative step that folds everything in at once, as one of a model that knows no other. In plain operations:
    where a kernel of ours steps, it folds what the step before owed by itself."""
    model = load(str(hybrid)).language
    model.use_kernels(False)
    for plan in model.plans:
        if plan.apply_accepted is not None:

            def all_of_them(
                current: Any,
                pending: Any,
                kept: mx.array,
                *,
                now: bool = False,
                apply_accepted: Any = plan.apply_accepted,
            ) -> Any:
                return apply_accepted(current, pending, mx.full(kept.shape, 3, dtype=kept.dtype))

            model.plans = tuple(replace(p, apply_accepted=all_of_them) if p is plan else p for p in model.plans)
            break
    assert check.agrees(model, PADDED, check.plain_step(model))
    assert not check.rolls_back(model, PADDED, check.plain_step(model))


@pytest.mark.parametrize("name", ["llama", "gemma2", "granite", "cohere2", "qwen3_next", "lfm2", "gpt_oss", "mistral3"])
def test_states_that_choose_the_models_own_tokens_are_taken(name: str) -> None:
    assert hidden_size(adapt(families.build(families.FAMILIES[name]), families.FAMILIES[name])) == 64


@pytest.mark.parametrize("name", ["gpt_neox", "mamba2", "gpt_bigcode"])
def test_a_family_whose_text_model_ends_otherwise_has_none(name: str) -> None:
    assert hidden_size(adapt(families.build(families.FAMILIES[name]), families.FAMILIES[name])) is None
