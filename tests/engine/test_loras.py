"""Adapters by name: who uses them, and what becomes of memory and requests as they come and go."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.cache.budget import Budget
from paceline.engine.loras import LoraRegistry, install, load_all, uninstall
from paceline.errors import EngineUnavailable, InvalidRequest, LoadError, Refused, UnknownLora
from paceline.models import check, lora_files
from paceline.types import Prompt
from tests.engine.stepper import Stepper, loaded
from tests.integration.test_exactness import prompt
from tests.loras import added, make, reference, write_mlx_lm
from tests.reference import greedy_text


class Inbox:
    """An engine's thread that does its work when told to."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self.calls: list[tuple[Callable[[], Any], Future[Any]]] = []
        self.gone = self.at_once = False

    def call(self, work: Callable[[], Any]) -> Future[Any]:
        if self.gone:
            raise EngineUnavailable("gone")
        done: Future[Any] = Future()
        self.calls.append((work, done))
        if self.at_once:
            self.run()
        return done

    def run(self) -> None:
        for work, done in self.calls:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001
                done.set_exception(error)
        self.calls = []


@pytest.fixture(scope="module")
def adapter(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mlx_lm(tmp_path_factory.mktemp("adapters") / "wide", make(llama, rank=6, seed=1))


@pytest.fixture
def stepper(llama: Path) -> Any:
    stepper = Stepper(llama)
    yield stepper
    for lora in list(stepper.model.language.loras.loaded):
        stepper.model.language.loras.remove(lora)


def budgeted(stepper: Stepper, limit: int) -> Budget:
    budget = Budget(limit)
    budget.hold("weights", 1000)
    stepper.engine.scheduler.admission = SimpleNamespace(budget=budget)  # type: ignore[assignment]
    return budget


def test_an_adapter_is_priced_like_weights(stepper: Stepper, adapter: Path) -> None:
    budget = budgeted(stepper, 1 << 30)
    one = install(stepper.engine, "one", lora_files.read(adapter))
    held = stepper.model.language.loras.nbytes
    assert held > 0 and budget.holding("weights") == 1000 + held
    two = install(stepper.engine, "two", lora_files.read(adapter))
    assert budget.holding("weights") == 1000 + stepper.model.language.loras.nbytes > 1000 + held
    uninstall(stepper.engine, one)
    uninstall(stepper.engine, two)
    assert budget.holding("weights") == 1000


def test_an_adapter_that_does_not_fit_now_is_refused_and_leaves_nothing(stepper: Stepper, adapter: Path) -> None:
    budget = budgeted(stepper, 2000)
    with pytest.raises(Refused, match="GB are free"):
        install(stepper.engine, "one", lora_files.read(adapter))
    assert budget.holding("weights") == 1000 and not stepper.model.language.loras.loaded


def test_an_adapter_that_fails_leaves_nothing(stepper: Stepper, adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = budgeted(stepper, 1 << 30)
    monkeypatch.setattr(check, "lora_agrees", lambda language, slot: False)
    with pytest.raises(LoadError, match="in a batch as alone"):
        install(stepper.engine, "one", lora_files.read(adapter))
    assert budget.holding("weights") == 1000 and not stepper.model.language.loras.loaded


def test_an_adapter_whose_check_breaks_off_leaves_nothing(
    stepper: Stepper, adapter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks_off(language: Any, slot: int) -> bool:
        raise MemoryError

    budget = budgeted(stepper, 1 << 30)
    monkeypatch.setattr(check, "lora_agrees", breaks_off)
    with pytest.raises(MemoryError):
        install(stepper.engine, "one", lora_files.read(adapter))
    assert budget.holding("weights") == 1000
    assert not stepper.model.language.loras.loaded and not stepper.model.language.loras.nbytes


def test_an_adapter_comes_and_goes_while_others_answer(stepper: Stepper, llama: Path, adapter: Path) -> None:
    text = prompt(30)
    base = stepper.greedy("base", text, 20)
    stepper.step(5)
    lora = install(stepper.engine, "one", lora_files.read(adapter))
    adapted = stepper.greedy("adapted", Prompt(text, lora=lora), 8)
    stepper.step(4)
    other = install(stepper.engine, "two", lora_files.read(adapter))
    stepper.step(2)
    uninstall(stepper.engine, other)
    stepper.finish()
    assert base.tokens == greedy_text(llama, text, 20)
    assert adapted.tokens == greedy_text(reference(llama, adapter), text, 8)


def test_the_start_names_an_adapter_that_cannot_be_used(llama: Path, adapter: Path, tmp_path: Path) -> None:
    language = loaded(llama).language
    with pytest.raises(LoadError, match=r"The adapter 'odd' cannot be used\. There is no folder"):
        load_all(language, {"odd": tmp_path / "nowhere"})
    assert [lora.name for lora in load_all(language, {"fine": adapter})] == ["fine"]
    language.loras.remove(language.loras.loaded[0])


@pytest.fixture
def inbox(stepper: Stepper) -> Inbox:
    return Inbox(stepper.engine)


def registry(inbox: Inbox, adapter: Path) -> LoraRegistry:
    inbox.at_once = True
    found = LoraRegistry(inbox, (), ["the/model"])  # type: ignore[arg-type]
    found.load("one", adapter)
    inbox.at_once = False
    return found


def test_the_base_model_needs_no_adapter_and_an_unknown_one_is_named(inbox: Inbox, adapter: Path) -> None:
    known = registry(inbox, adapter)
    with known.using(None) as nobody, known.using("one") as lora:
        assert nobody is None and lora is not None and lora.name == "one"
    with pytest.raises(UnknownLora, match="no adapter 'two' here; loaded are: 'one'"), known.using("two"):
        pass


def test_an_unloaded_adapter_takes_no_new_requests_and_is_freed_after_its_last(inbox: Inbox, adapter: Path) -> None:
    known = registry(inbox, adapter)
    [lora] = known.loaded
    with known.using("one"):
        with known.using("one"):
            known.unload("one")
            assert known.loaded == () and not inbox.calls
            with pytest.raises(UnknownLora), known.using("one"):
                pass
        assert not inbox.calls
    inbox.run()
    assert lora.slot == 0


def test_a_name_may_be_loaded_again_while_its_old_adapter_still_answers(inbox: Inbox, adapter: Path) -> None:
    known = registry(inbox, adapter)
    inbox.at_once = True
    with known.using("one") as old:
        known.unload("one")
        new = known.load("one", adapter)
        assert old is not None and new is not old and (old.slot, new.slot) == (1, 2)
    assert (old.slot, new.slot) == (0, 1)
    known.unload("one")
    assert new.slot == 0


def test_names_that_are_taken_and_folders_that_are_bad(inbox: Inbox, adapter: Path, tmp_path: Path) -> None:
    known = registry(inbox, adapter)
    with pytest.raises(InvalidRequest, match="'one' is loaded already"):
        known.load("one", adapter)
    with pytest.raises(InvalidRequest, match="name of the model itself"):
        known.load("the/model", adapter)
    with pytest.raises(InvalidRequest, match="There is no folder") as caught:
        known.load("two", tmp_path / "nowhere")
    assert caught.value.field == "lora_path"
    with pytest.raises(UnknownLora):
        known.unload("two")


def test_an_engine_that_has_stopped_frees_nothing_more(inbox: Inbox, adapter: Path) -> None:
    known = registry(inbox, adapter)
    with known.using("one"):
        known.unload("one")
        inbox.gone = True


def test_helpers_leave_the_model_as_it_was(llama: Path, adapter: Path) -> None:
    with added(loaded(llama), adapter):
        pass
    assert not loaded(llama).language.loras.loaded and not loaded(llama).language.loras.nbytes
