"""Ways to run a step are used only where they give what plain decoding gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.cache.slot_plan import PADDED, Grouping
from paceline.engine.steps import prepare_steps
from paceline.models import check
from paceline.models.adapter import Adapted
from paceline.models.loader import load
from paceline.models.mtp import Head
from tests import synthetic
from tests.engine.stepper import loaded

Tiny = Callable[..., Path]


@pytest.fixture
def on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.platform.device_kind", lambda: "cuda")


def never(model: Adapted, grouping: Grouping, step: Any) -> bool:
    return False


def fails(model: Adapted, grouping: Grouping, step: Any) -> bool:
    raise RuntimeError("no tracing here")


def test_on_a_cpu_nothing_is_traced(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arithmetic takes the time there, not the host."""
    monkeypatch.setattr("paceline.platform.device_kind", lambda: "cpu")
    assert prepare_steps(loaded(llama), PADDED) is False


@pytest.mark.usefixtures("on_cuda")
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_steps_are_traced_where_that_helps_and_agrees(
    tiny: Tiny, family: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(tiny(family))
    head = model.head
    assert prepare_steps(model, PADDED) is True
    assert model.head is head
    assert caplog.messages == []


@pytest.mark.usefixtures("on_cuda")
def test_a_dynamic_rope_is_never_traced(tiny: Tiny, caplog: pytest.LogCaptureFixture) -> None:
    dynamic = loaded(tiny("llama", **synthetic.scaled_rope("dynamic", window=4)))
    assert prepare_steps(dynamic, PADDED) is False
    assert caplog.messages == []


@pytest.mark.usefixtures("on_cuda")
@pytest.mark.parametrize("answer", [never, fails])
def test_a_traced_step_that_disagrees_or_cannot_be_traced_is_not_used(
    hybrid: Path, answer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(hybrid)
    monkeypatch.setattr(check, "agrees", answer)
    assert prepare_steps(model, PADDED) is False
    assert ("disagrees" if answer is never else "no tracing here") in caplog.messages[-1]
    assert isinstance(model.head, Head)  # rounds were right, and run untraced


@pytest.mark.usefixtures("on_cuda")
def test_a_traced_round_that_disagrees_leaves_the_head_its_plain_rounds(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(hybrid)
    answers = iter([True, False])
    monkeypatch.setattr(check, "rolls_back", lambda *arguments: next(answers))
    assert prepare_steps(model, PADDED) is False
    assert "disagrees" in caplog.messages[-1]
    assert isinstance(model.head, Head)


def test_a_model_whose_rounds_disagree_loses_its_head_and_is_served(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(str(hybrid))
    monkeypatch.setattr(check, "rolls_back", never)
    prepare_steps(model, PADDED)
    assert model.head == "rounds do not give what plain decoding gives on this machine"


def test_kernels_that_disagree_in_rounds_are_switched_off_before_the_head_is_lost(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(hybrid)
    switched: list[bool] = []

    def use_kernels(self: Adapted, on: bool) -> bool:
        switched.append(on)
        return True

    monkeypatch.setattr(Adapted, "use_kernels", use_kernels)
    monkeypatch.setattr(check, "rolls_back", lambda *arguments: bool(switched))
    prepare_steps(model, PADDED)
    assert switched == [False]
    assert isinstance(model.head, Head)
    assert "kernels disagree" in caplog.messages[-1]
