"""Which layout a model gets on which device; padding is checked before it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models import llama

from paceline import platform
from paceline.cache.batch import LayerPlan
from paceline.cache.kv_quantization import KVQuantization, Lines
from paceline.cache.shape_buckets import EXACT, GPU
from paceline.cache.slot_plan import AUTO, LAYOUTS, PADDED, Grouping
from paceline.engine import layout
from paceline.errors import LoadError
from paceline.models import attention_cuda, check, kv_lines_cuda
from paceline.models.adapter import buckets_for
from paceline.models.loader import LoadedModel
from tests.engine.stepper import loaded

Tiny = Callable[..., Path]
DEVICES = ["cpu", "cuda", "metal"]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda kind: monkeypatch.setattr(platform, "device_kind", lambda: kind)


@pytest.mark.parametrize("kind", DEVICES)
def test_a_gpu_gets_buckets_and_a_cpu_exact_shapes(tiny: Tiny, on: Callable[[str], None], kind: str) -> None:
    on(kind)
    found = layout.choose(loaded(tiny("llama")))
    assert found == replace(AUTO[kind][0], buckets=EXACT if kind == "cpu" else GPU)


@pytest.mark.thin(4)
@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_settings_decide_if_they_say_something(tiny: Tiny, on: Callable[[str], None], kind: str, name: str) -> None:
    on(kind)
    model = loaded(tiny("llama"))
    assert layout.choose(model, name, "off") == LAYOUTS[name]
    assert layout.choose(model, name, "on") == replace(LAYOUTS[name], buckets=GPU)


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["llama", "window", "hybrid"])
def test_every_family_of_ours_passes_the_check_with_buckets(tiny: Tiny, family: str) -> None:
    assert layout.choose(loaded(tiny(family)), "similar", "on").buckets == GPU


def test_a_model_for_which_padding_fails_gets_exact_shapes_and_a_warning(
    tiny: Tiny, on: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    on("cuda")
    right = check.batched_error

    def fails(model: Any, grouping: Grouping, *more: Any) -> float | None:
        if grouping.buckets.rows:
            raise ValueError("it wants no padding")
        return right(model, grouping, *more)

    monkeypatch.setattr(check, "batched_error", fails)
    assert layout.choose(loaded(tiny("llama"))) == PADDED
    assert "padding fails with this model: it wants no padding" in caplog.text


def test_a_model_that_padding_changes_gets_exact_shapes_and_a_warning(
    tiny: Tiny, on: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    on("cuda")
    errors = iter([0.25, None])
    monkeypatch.setattr(check, "batched_error", lambda *_: next(errors))
    monkeypatch.setattr(check, "choose_layout", lambda model, choices: choices[1])
    model = loaded(tiny("llama"))
    notes = list(model.notes)
    try:
        assert layout.choose(model) == LAYOUTS["similar"]
        assert "logits differ by 0.25" in caplog.text
        assert model.notes[len(notes) :] == ["llama needs the padded layout."]
    finally:
        model.notes[:] = notes


def test_a_recurrent_family_that_takes_padding_for_tokens_gets_no_width_buckets(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    language = loaded(tiny("hybrid")).language
    assert buckets_for(language) == GPU
    state = LayerPlan("list", parts=(LayerPlan("attention"), LayerPlan("state", size=1)))
    monkeypatch.setattr(language, "plans", [LayerPlan("attention"), state])
    assert buckets_for(language) == replace(GPU, widths=(), prompts=())


@pytest.fixture
def model(tiny: Tiny) -> Iterator[LoadedModel]:
    found = loaded(tiny("llama"))
    yield found
    found.language.kv = None


@pytest.mark.parametrize("bits", [8, 4])
def test_keys_and_values_are_quantized_if_the_model_is_right_with_it(
    model: LoadedModel, bits: int, caplog: pytest.LogCaptureFixture
) -> None:
    kv = KVQuantization(bits, 32)
    with caplog.at_level("INFO", "paceline"):
        layout.quantize_kv(model, LAYOUTS["similar"], kv)
    assert model.language.kv == kv and f"have {bits} bits in groups of 32: logits differ by" in caplog.text


def test_heads_that_groups_do_not_divide_are_told_with_the_groups_that_do(model: LoadedModel) -> None:
    wanted = "heads have 32 numbers, which groups of 64 do not divide. Use --kv-group-size 32."
    with pytest.raises(LoadError, match=wanted):
        layout.quantize_kv(model, LAYOUTS["similar"], KVQuantization(8, 64))
    assert model.language.kv is None


def test_a_model_that_reads_its_keys_itself_is_refused(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary = llama.scaled_dot_product_attention

    def reads(queries: Any, keys: Any, *rest: Any, **more: Any) -> Any:
        return ordinary(queries, keys.swapaxes(2, 3).swapaxes(2, 3), *rest, **more)

    monkeypatch.setattr(llama, "scaled_dot_product_attention", reads)
    with pytest.raises(LoadError, match="its attention does not take quantized keys"):
        layout.quantize_kv(model, LAYOUTS["similar"], KVQuantization(8, 32))
    assert model.language.kv is None


def test_a_model_that_differs_in_company_is_refused(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "company_error", lambda *_: 0.3)
    with pytest.raises(LoadError, match=r"in a batch by 0\.3 from those alone"):
        layout.quantize_kv(model, LAYOUTS["similar"], KVQuantization(8, 32))
    assert model.language.kv is None


def test_quantized_keys_lie_in_lines_where_our_kernels_agree(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kv, right = KVQuantization(8, 32), {64: True, 128: False}
    monkeypatch.setattr(attention_cuda, "fits_packed", lambda dtype, size, form: size in right)
    monkeypatch.setattr(kv_lines_cuda, "agrees", lambda dtype, size, form: right[size])
    assert layout.in_lines(model.language, kv, {64}).lines is None, "no kernel attends here"
    monkeypatch.setattr(model.language, "ragged", True)
    found = layout.in_lines(model.language, kv, {64}).lines
    assert found is not None and found.dtype == model.language.dtype
    assert all(layout.in_lines(model.language, kv, sizes).lines is None for sizes in ({96}, {64, 128}))
    assert not caplog.text
    assert layout.in_lines(model.language, kv, {128}).lines is None and "disagree" in caplog.text


def test_a_draft_model_does_not_take_its_targets_lines(model: LoadedModel) -> None:
    target = KVQuantization(8, 32, lines=Lines(mx.bfloat16))
    layout.quantize_kv(model, LAYOUTS["similar"], target)
    assert model.language.kv == KVQuantization(8, 32)
    layout.use_quantized_kv(model, target, 0.0)
    assert model.language.kv == KVQuantization(8, 32)


@pytest.mark.parametrize("kind", DEVICES)
def test_what_is_taken_unchecked_is_what_is_tried_first(
    model: LoadedModel, on: Callable[[str], None], kind: str
) -> None:
    on(kind)
    assert layout.assumed(model) == layout.choose(model)
    assert layout.assumed(model, "rows", "on") == layout.choose(model, "rows", "on")
