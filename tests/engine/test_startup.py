"""What is chosen at start-up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from paceline.cache.budget import Budget
from paceline.cache.memory_model import MemoryModel
from paceline.cache.slot_plan import SIMILAR
from paceline.engine.admission import Admission
from paceline.engine.startup import Startup
from paceline.errors import LoadError
from paceline.models.prefill_chunk import prefill_chunk
from paceline.requests import GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests.engine.stepper import loaded

Tiny = Callable[..., Path]


def test_the_prefill_chunk_is_a_power_of_two_that_follows_the_target(llama: Path) -> None:
    model = loaded(llama).language
    assert prefill_chunk(model, SIMILAR, target=0) == 64
    assert prefill_chunk(model, SIMILAR, target=1e6) == 2048
    assert prefill_chunk(model, SIMILAR).bit_count() == 1


async def started(caplog: pytest.LogCaptureFixture, **fields: Any) -> tuple[Any, list[str], list[int]]:
    """What /v1/status says of the model, what the log says, and the weights in the budget."""
    with caplog.at_level(logging.INFO, "paceline"):
        async with Service(Settings(prefill_chunk=64, **fields)) as service:
            stats = service.stats()
    assert stats.model is not None and stats.memory_budget is not None
    lines = [record.getMessage() for record in caplog.records]
    return stats.model, lines, [stats.model.weights_bytes, stats.memory_budget.parts["weights"]]


async def test_a_quantized_model_becomes_dense_on_a_cpu_and_status_log_and_budget_know(
    four_bit: Tiny, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.platform.device_kind", lambda: "cpu")
    folder = str(four_bit("llama"))
    model, lines, (weights, counted) = await started(caplog, model=folder, dtype="float32")
    assert model.quantization == "4-bit, dequantized to float32" and not model.notes
    assert any("GB of weights (4-bit, dequantized to float32), context" in line for line in lines)

    caplog.clear()
    kept, lines, (fewer, counted_fewer) = await started(caplog, model=folder, dtype="float32", dequantize="off")
    assert kept.quantization == "4-bit" and not kept.notes
    assert any("GB of weights (4-bit), context" in line for line in lines)
    assert counted == weights > 4 * fewer and counted_fewer == fewer


@pytest.mark.slow
async def test_without_memory_for_dense_weights_a_quantized_model_is_served_as_it_is(
    four_bit: Tiny, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.platform.device_kind", lambda: "cpu")
    folder = four_bit("llama", hidden=384, intermediate=1152, heads=8)
    dense = loaded(folder).nbytes * 5 / 1e9  # 4 bits and their scales become 32
    model, lines, _ = await started(caplog, model=str(folder), dtype="float32", memory_limit_gb=dense)
    assert model.quantization == "4-bit"
    (note,) = model.notes
    assert "stay quantized" in note and note in lines


async def test_the_log_says_nothing_of_quantization_and_draft_models_where_there_are_none(
    llama: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, lines, _ = await started(caplog, model=str(llama), dtype="float32")
    assert "speculation on: by lookup, grammar" in lines and not any("draft_model" in line for line in lines)
    assert model.quantization is None
    assert not any("quantized" in line for line in lines)


async def test_bits_of_keys_and_values_are_in_status_and_log(llama: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, lines, _ = await started(caplog, model=str(llama), kv_bits=8, kv_group_size=32)
    assert model.kv_bits == 8
    assert any(line.startswith("keys and values of llama have 8 bits in groups of 32") for line in lines)


@pytest.mark.slow
async def test_a_model_whose_keys_cannot_be_quantized_is_refused_at_start(llama: Path) -> None:
    with pytest.raises(LoadError, match="--kv-bits 4 cannot be used with llama: its heads have 32 numbers"):
        await Service(Settings(model=str(llama), kv_bits=4)).start()


@pytest.mark.parametrize("method", [None, "lookup"])
async def test_a_request_may_ask_for_drafts_where_the_default_is_off(
    llama: Path, method: Literal["lookup"] | None
) -> None:
    rules = Sampling(temperature=0, max_tokens=24, ignore_eos=True)
    asks = replace(rules, speculation=3, speculation_method=method)
    async with Service(Settings(model=str(llama), prefill_chunk=64, speculation="off")) as service:
        plain = await service.generate(GenerateRequest((7, 8, 9) * 10, rules))
        drafted = await service.generate(GenerateRequest((7, 8, 9) * 10, asks))
    assert (plain.usage.accepted_tokens, plain.usage.rejected_tokens) == (0, 0)
    assert drafted.usage.accepted_tokens + drafted.usage.rejected_tokens > 0
    assert drafted.choices[0].token_ids == plain.choices[0].token_ids


def test_after_the_end_admission_knows_no_draft_and_so_holds_no_model() -> None:
    """The service goes on to say what was admitted."""
    startup = Startup(Settings(), None)
    startup.admission = Admission(Budget(1000), MemoryModel())
    startup.admission.scoring = lambda tokens: tokens
    startup.close()
    assert startup.admission.scoring is None
