"""A check that has passed is not run again, and the engine is the same; one that has failed is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline import platform
from paceline.cache.kv_quantization import KVQuantization
from paceline.cache.slot_plan import LAYOUTS, PADDED, ROWS, SIMILAR
from paceline.engine import layout, media_check, warmup
from paceline.engine import memory as memory_module
from paceline.engine import startup_checks as module
from paceline.engine.runner import Runner
from paceline.engine.startup_checks import StartupChecks
from paceline.models import check, verdicts
from paceline.models.loader import LoadedModel, load
from paceline.models.verdicts import Verdicts
from paceline.requests import GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests.conftest import Tiny
from tests.engine.stepper import loaded

PROMPT = [5 + place * 7 % 1000 for place in range(40)]


class Starts:
    """Starts of one key, one after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, use: Callable[[StartupChecks], Any]) -> tuple[Any, int]:
        """What a start has found, and how many verdicts it took from earlier ones."""
        checks = StartupChecks(Verdicts(self.folder, {}))
        found = use(checks)
        checks.verdicts.write()
        return found, checks.verdicts.recalled


@pytest.fixture
def start(tmp_path: Path) -> Starts:
    return Starts(tmp_path)


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("a check ran again")


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_layout_that_passed_is_taken_with_its_buckets_and_vocabulary(
    start: Starts, hybrid: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "device_kind", lambda: kind)
    model = loaded(hybrid)
    first, recalled = start(lambda checks: checks.layout(model))
    assert recalled == 0 and bool(first.buckets.rows) is (kind == "cuda")
    size, model.language.vocab_size = model.language.vocab_size, 7
    monkeypatch.setattr(check, "batched_error", never)
    assert start(lambda checks: checks.layout(model)) == (first, 1)
    assert model.language.vocab_size == size


def test_a_layout_that_was_not_the_first_choice_is_checked_again(
    start: Starts, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(llama)
    calls: list[object] = []

    def second(language: object, choices: Any) -> Any:
        calls.append(language)
        return choices[1]

    monkeypatch.setattr(check, "choose_layout", second)
    for _ in range(2):
        assert start(lambda checks: checks.layout(model))[1] == 0
        model.notes.clear()
    assert len(calls) == 2


def test_padding_that_failed_is_tried_again(start: Starts, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, plain = loaded(llama), check.batched_error

    def fails(language: Any, grouping: Any, *more: Any) -> float | None:
        return 0.5 if grouping.buckets.rows else plain(language, grouping, *more)

    monkeypatch.setattr(check, "batched_error", fails)
    assert start(lambda checks: checks.layout(model, "rows", "on")) == (ROWS, 0)
    monkeypatch.undo()
    grouping, recalled = start(lambda checks: checks.layout(model, "rows", "on"))
    assert grouping.buckets.rows and recalled == 0


def test_kernels_that_were_switched_off_are_tried_again(
    start: Starts, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(llama)

    def switches(language: Any, choices: Any) -> Any:
        language.ragged = False
        return choices[0]

    monkeypatch.setattr(check, "choose_layout", switches)
    for _ in range(2):
        model.language.ragged = True  # a kernel of ours is in use
        assert start(lambda checks: checks.layout(model))[1] == 0


def test_steps_that_passed_are_taken(start: Starts, hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(str(hybrid), "float32")
    head = model.head
    found, _ = start(lambda checks: checks.steps(model, SIMILAR))
    monkeypatch.setattr(check, "rolls_back", never)
    model.no_rollback = "not known yet"
    assert start(lambda checks: checks.steps(model, SIMILAR)) == (found, 1)
    assert model.no_rollback is None and model.head is head
    with pytest.raises(AssertionError, match="ran again"):  # another layout was not checked
        monkeypatch.setattr(warmup, "check_steps", never)
        start(lambda checks: checks.steps(model, PADDED))


def test_steps_that_disagreed_are_checked_again(start: Starts, hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "rolls_back", lambda *given: False)
    model = load(str(hybrid), "float32")
    head = model.head
    for _ in range(2):
        model.head = head
        assert start(lambda checks: checks.steps(model, SIMILAR))[1] == 0
        assert isinstance(model.head, str)


def test_a_tracing_that_failed_is_tried_again(start: Starts, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(llama)
    monkeypatch.setattr(platform, "device_kind", lambda: "cuda")
    monkeypatch.setattr(check, "agrees", lambda *given: False)
    for _ in range(2):
        assert start(lambda checks: checks.steps(model, PADDED)) == (False, 0)


def test_media_that_passed_are_taken_and_others_are_checked_again(
    start: Starts, hybrid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(model: LoadedModel, grouping: object) -> None:
        model.vision = None

    model = load(str(hybrid), "float32")
    monkeypatch.setattr(module, "check_media", lost)
    start(lambda checks: checks.media(model, SIMILAR))
    assert model.vision is None
    monkeypatch.undo()
    model = load(str(hybrid), "float32")
    assert start(lambda checks: checks.media(model, SIMILAR))[1] == 0
    monkeypatch.setattr(media_check, "disagreement", never)
    assert start(lambda checks: checks.media(model, SIMILAR))[1] == 1
    assert model.vision is not None


def test_quantized_keys_that_passed_are_used_and_told(
    start: Starts, llama: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model, kv = loaded(llama), KVQuantization(8, 32)
    with caplog.at_level(logging.INFO, "paceline"):
        try:
            start(lambda checks: checks.quantize_kv(model, SIMILAR, kv))
            model.language.kv = None
            monkeypatch.setattr(check, "company_error", never)
            assert start(lambda checks: checks.quantize_kv(model, SIMILAR, kv))[1] == 1
            assert model.language.kv == kv
        finally:
            model.language.kv = None
    first, second = (line for line in caplog.messages if line.startswith("keys and values"))
    assert first == second and "8 bits" in first


def test_what_was_measured_is_the_same_object_again(
    start: Starts, hybrid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(loaded(hybrid), LAYOUTS["similar"])

    def measured(checks: StartupChecks) -> list[Any]:
        return [
            checks.memory(runner, head=True),
            checks.prefill_chunk(runner.model, runner.grouping, 512),
            checks.overhead(runner, 64),
            checks.hidden_size(runner.model),
        ]

    first, _ = start(measured)
    for place, name in ((memory_module, "profile_memory"), (module, "prefill_chunk"), (module, "overhead_tokens")):
        monkeypatch.setattr(place, name, never)
    monkeypatch.setattr(check, "hidden_size", never)
    assert start(measured) == (first, 4)


def test_a_model_without_hidden_states_is_asked_again(
    start: Starts, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(llama)
    monkeypatch.setattr(check, "hidden_size", lambda language: None)
    for _ in range(2):
        assert start(lambda checks: checks.hidden_size(model)) == (None, 0)


# -- whole starts


async def answered(folder: Path, **fields: Any) -> tuple[list[int], Any]:
    rules = Sampling(temperature=0, max_tokens=12, ignore_eos=True)
    async with Service(Settings(model=str(folder), dtype="float32", **fields)) as service:
        result = await service.generate(GenerateRequest(PROMPT, rules))
        return list(result.choices[0].token_ids), service.stats().model


async def test_an_engine_with_kept_verdicts_is_the_same_and_gives_the_same_tokens(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tiny("hybrid")
    monkeypatch.setattr(verdicts, "cache_folder", lambda: tmp_path)
    checked = await answered(folder)
    (file,) = tmp_path.iterdir()
    monkeypatch.setattr(layout, "choose", never)
    monkeypatch.setattr(module, "check_media", never)
    monkeypatch.setattr(warmup, "check_steps", never)
    monkeypatch.setattr(memory_module, "profile_memory", never)
    with caplog.at_level(logging.INFO, "paceline"):
        assert await answered(folder) == checked
    assert any("the engine started in" in line and "layout" in line for line in caplog.messages)
    assert list(tmp_path.iterdir()) == [file]
    for again in ({"startup_checks": "always"}, {"kv_layout": "padded"}):
        with pytest.raises(AssertionError, match="ran again"):
            await answered(folder, **again)


async def test_a_start_that_fails_keeps_nothing(llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(memory_module, "profile_memory", never)
    with pytest.raises(AssertionError, match="ran again"):
        await answered(llama)
    assert not list(tmp_path.iterdir())
