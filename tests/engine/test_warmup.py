"""What is rehearsed before the first request leaves nothing behind, and changes nobody's tokens."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.cache.slot_plan import PADDED, Grouping
from paceline.engine.runner import Runner
from paceline.engine.warmup import TURNS, WarmUpScope, _WarmUp, check_steps, warm_up
from paceline.models import check, loader
from paceline.models.adapter import Adapted
from paceline.models.loader import load
from paceline.models.mtp import MTPHead
from paceline.sparse.scorer import Draft
from paceline.types import Prompt
from tests import synthetic
from tests.engine.stepper import Stepper, loaded
from tests.engine.watched import LISTENING, SMALL, TOKENS, Tiny, Watched, greedy, prompt
from tests.integration.test_images import expected
from tests.loras import added, make, reference, write_mlx_lm
from tests.memory import held
from tests.models.test_vision import TWO, built
from tests.reference import greedy_text


@pytest.mark.slow
@pytest.mark.parametrize(("family", "layout"), [("hybrid", "similar"), ("hybrid_moe", "padded")])
def test_it_leaves_nothing_behind(tiny: Tiny, family: str, layout: str, caplog: pytest.LogCaptureFixture) -> None:
    folder = tiny(family)
    stepper = Watched(folder, layout, traces=True)
    runner = stepper.runner
    draft = Draft(loader.load(str(tiny("llama")), "float32").language)
    depths = (0,) if runner.drafter is None else (0, 1, 3)
    with caplog.at_level(logging.WARNING, "paceline"):
        warm_up(runner, draft_lengths=depths, draft=draft, embeds=True)
        before = held()
        warm_up(runner, draft_lengths=depths, draft=draft, embeds=True)
    assert not caplog.records  # nothing broke off
    assert held() == before
    assert runner.batch is None and runner.seqs == []
    assert runner.forward.traced_calls > TURNS
    heard = stepper.submit("after", built(folder, TWO) if runner.model.vision else prompt(40), greedy(TOKENS))
    stepper.finish()
    if runner.model.vision:
        told = expected(folder, TWO).tokens
        assert heard.tokens[: len(told)] == told
    else:
        assert heard.tokens == greedy_text(folder, prompt(40), TOKENS)


@pytest.mark.slow
def test_every_bucket_is_met_before_the_first_request(tiny: Tiny, caplog: pytest.LogCaptureFixture) -> None:
    folder = tiny("hybrid", **LISTENING)
    stepper = Stepper(folder, "padded+buckets", chunk=128, traces=True)
    runner, told = stepper.runner, list[tuple[int, int]]()
    scope = WarmUpScope(8, 128, lambda seqs, tokens: seqs * tokens <= 2048)
    with caplog.at_level(logging.WARNING, "paceline"):
        warm_up(runner, scope, draft_lengths=(0, 1, 3), progress=lambda what, done, total: told.append((done, total)))
    assert not caplog.records
    assert runner.batch is None and runner.seqs == []
    assert told[0][0] == 0 and told[-1][0] == told[-1][1] and [done for done, _ in told] == sorted(dict(told))
    met = runner.new_shapes
    heard = [stepper.submit(str(size), prompt(size), greedy(4, speculation="off")) for size in (5, 40, 100)]
    stepper.finish()
    assert runner.new_shapes == met
    assert [each.tokens for each in heard] == [greedy_text(folder, prompt(size), 4) for size in (5, 40, 100)]


@pytest.mark.slow
def test_passes_with_adapters_are_met_too(tiny: Tiny, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tiny("llama")
    adapter = write_mlx_lm(tmp_path, make(folder, rank=3))
    stepper = Stepper(folder, "padded+buckets", chunk=64, traces=True)
    with added(stepper.model, adapter) as [lora], caplog.at_level(logging.WARNING, "paceline"):
        warm_up(stepper.runner, WarmUpScope(2, 64))
        assert not caplog.records
        met = stepper.runner.new_shapes
        heard = [stepper.submit(str(size), Prompt(prompt(size), lora=lora), greedy(4)) for size in (5, 40)]
        stepper.finish()
        assert stepper.runner.new_shapes == met
    assert [each.tokens for each in heard] == [greedy_text(reference(folder, adapter), prompt(n), 4) for n in (5, 40)]


@pytest.mark.slow
def test_speculative_steps_after_it_are_what_they_were(tiny: Tiny) -> None:
    folder = tiny("hybrid", **LISTENING)
    stepper = Watched(folder, "padded", traces=True)
    warm_up(stepper.runner, draft_lengths=(0, 1, 3))
    heard = [stepper.submit(str(size), prompt(size), greedy(TOKENS, speculation=3)) for size in (5, 40)]
    stepper.finish()
    assert [each.tokens for each in heard] == [greedy_text(folder, prompt(size), TOKENS) for size in (5, 40)]


def test_a_picture_that_must_be_read_in_one_piece_is_read(seeing: Callable[[str], Path]) -> None:
    warm = _WarmUp(Runner(loaded(seeing("gemma4_two_sided")), PADDED), None, embeds=False, lora=None)
    seq = warm.with_image()
    warm.prefill(seq)
    assert seq.remaining == 0


def test_what_breaks_in_it_is_said_and_stops_nobody(
    tiny: Tiny, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny("hybrid", **SMALL)
    stepper = Watched(folder, "similar")

    def breaks(*_: Any) -> list[mx.array]:
        raise RuntimeError("no kernel for that")

    runner = stepper.runner
    monkeypatch.setattr(runner, "prefill", breaks)
    with caplog.at_level(logging.WARNING, "paceline"):
        warm_up(runner)
    assert "no kernel for that" in caplog.text
    monkeypatch.undo()
    heard = stepper.submit("after", prompt(20), greedy(TOKENS))
    stepper.finish()
    assert heard.tokens == greedy_text(folder, prompt(20), TOKENS)


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
    assert check_steps(loaded(llama), PADDED) is False


@pytest.mark.usefixtures("on_cuda")
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_steps_are_traced_where_that_helps_and_agrees(
    tiny: Tiny, family: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(tiny(family))
    head = model.head
    assert check_steps(model, PADDED) is True
    assert model.head is head
    assert caplog.messages == []


@pytest.mark.usefixtures("on_cuda")
def test_a_dynamic_rope_is_never_traced(tiny: Tiny, caplog: pytest.LogCaptureFixture) -> None:
    dynamic = loaded(tiny("llama", **synthetic.scaled_rope("dynamic", window=4)))
    assert check_steps(dynamic, PADDED) is False
    assert caplog.messages == []


@pytest.mark.usefixtures("on_cuda")
@pytest.mark.parametrize("answer", [never, fails])
def test_a_traced_step_that_disagrees_or_cannot_be_traced_is_not_used(
    hybrid: Path, answer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(hybrid)
    monkeypatch.setattr(check, "agrees", answer)
    assert check_steps(model, PADDED) is False
    assert ("disagrees" if answer is never else "no tracing here") in caplog.messages[-1]
    assert isinstance(model.head, MTPHead)  # rounds were right, and run untraced


@pytest.mark.usefixtures("on_cuda")
def test_a_traced_speculative_step_that_disagrees_leaves_the_head_its_plain_speculative_steps(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(hybrid)
    answers = iter([True, False])
    monkeypatch.setattr(check, "rolls_back", lambda *arguments: next(answers))
    assert check_steps(model, PADDED) is False
    assert "disagrees" in caplog.messages[-1]
    assert isinstance(model.head, MTPHead)


def test_a_model_whose_speculative_steps_disagree_loses_its_head_and_is_served(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(str(hybrid))
    monkeypatch.setattr(check, "rolls_back", never)
    check_steps(model, PADDED)
    assert model.head == "speculative steps do not give what plain decoding gives on this machine"


def test_kernels_that_disagree_in_speculative_steps_are_switched_off_before_the_head_is_lost(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(hybrid)
    switched: list[bool] = []

    def use_kernels(self: Adapted, on: bool) -> bool:
        switched.append(on)
        return True

    monkeypatch.setattr(Adapted, "use_kernels", use_kernels)
    monkeypatch.setattr(check, "rolls_back", lambda *arguments: bool(switched))
    check_steps(model, PADDED)
    assert switched == [False]
    assert isinstance(model.head, MTPHead)
    assert "kernels disagree" in caplog.messages[-1]
