"""When a request is over and its caller has let go, nothing of it waits for Python's garbage collector."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.engine.sequence import ComputedState, DraftState, Sequence
from paceline.errors import QueueFull, RequestFailed
from paceline.requests import GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Prompt, RequestId, Sampling
from tests.engine.stepper import Stepper
from tests.integration.test_exactness import prompt

WAIT = 60.0
SAMPLING = Sampling(temperature=0, max_tokens=6, ignore_eos=True)


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Reference counts alone; and no record of the log that keeps a traceback, and with it all of its frames."""
    gc.collect()
    gc.disable()
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
    gc.enable()


class Watched:
    """All sequences that are made, and the batches that they are given, known weakly."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[weakref.ref[Any]] = []
        made = self.made

        class Computed(ComputedState):
            def __setattr__(self, name: str, value: Any) -> None:
                if name == "batch" and value is not None:
                    made.append(weakref.ref(value))
                super().__setattr__(name, value)

        class Draft(DraftState):
            def __setattr__(self, name: str, value: Any) -> None:
                if name == "batch" and value is not None:
                    made.append(weakref.ref(value))
                super().__setattr__(name, value)

        class Noted(Sequence):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                made.append(weakref.ref(self))

        monkeypatch.setattr("paceline.engine.sequence.Sequence", Noted)
        monkeypatch.setattr("paceline.engine.sequence.ComputedState", Computed)
        monkeypatch.setattr("paceline.engine.sequence.DraftState", Draft)

    def left(self) -> list[str]:
        return [f"{thing!r}, held by {gc.get_referrers(thing)}" for made in self.made if (thing := made()) is not None]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


# -- stepped by hand


def finishes(stepper: Stepper) -> None:
    stepper.finish()


def is_aborted(stepper: Stepper) -> None:
    stepper.step(2)
    for name in list(stepper.heard):
        stepper.abort(name)
    stepper.finish()


def fails_in_its_prompt(stepper: Stepper) -> None:
    def prefill(seq: Any, tokens: int) -> Any:
        raise ValueError(f"no such prompt: {seq.id}")

    stepper.runner.prefill = prefill  # type: ignore[method-assign]
    stepper.finish()


def fails_in_its_step(stepper: Stepper) -> None:
    """Looked for by trying, until each is found to be the culprit."""
    stepper.step(2)
    forward = stepper.runner.forward

    class Fails:
        steady = True
        traces = False

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            raise RuntimeError("no such step")

    stepper.runner.forward = Fails()  # type: ignore[assignment]
    stepper.finish()
    stepper.runner.forward = forward


def loses_a_step(stepper: Stepper) -> None:
    stepper.step(3)
    collect = stepper.runner.collect
    lost: list[bool] = []

    def fails(step: Any) -> Any:
        if step.seqs and len(lost) < 2:
            lost.append(True)
            raise RuntimeError("a passing fault")
        return collect(step)

    stepper.runner.collect = fails  # type: ignore[method-assign]
    stepper.finish()


@pytest.mark.thin(6)
@pytest.mark.parametrize("ends", [finishes, is_aborted, fails_in_its_prompt, fails_in_its_step, loses_a_step])
@pytest.mark.parametrize("cache", [None, 1 << 30])
def test_sequences_are_freed_by_counting_references_alone(
    hybrid: Path, watched: Watched, ends: Callable[[Stepper], None], cache: int | None
) -> None:
    stepper = Stepper(hybrid, "similar", chunk=16, cache=cache, max_rows=3, speculation="auto")
    for place in range(4):
        stepper.submit(str(place), Prompt(prompt(20 + 9 * place)), SAMPLING)
    ends(stepper)
    assert len(watched.made) >= 4
    assert watched.left() == []


# -- through the service


async def until_freed(watched: Watched) -> None:
    """The engine's thread goes through one more step or two before it rests."""
    async with asyncio.timeout(WAIT):
        while watched.left():
            await asyncio.sleep(0.005)


@pytest.fixture(scope="module")
def service(llama: Path) -> Iterator[Service]:
    service = Service(Settings(model=str(llama), max_num_seqs=2, context_length=600, prefill_chunk=64, max_queue=4))
    asyncio.run(service.start())
    yield service
    asyncio.run(service.stop())


def asked(count: int, tokens: int | None, name: str = "request") -> GenerateRequest:
    sampling = Sampling(temperature=0, max_tokens=tokens, ignore_eos=True)
    return GenerateRequest("on and on", sampling, n=count, request_id=RequestId(name))


@pytest.mark.parametrize("count", [1, 3])
async def test_a_request_that_finished_is_freed(service: Service, watched: Watched, count: int) -> None:
    completion = await service.generate(asked(count, 5))
    assert len(completion.choices) == count
    await until_freed(watched)


@pytest.mark.parametrize("count", [1, 3])
async def test_a_request_that_was_aborted_is_freed(service: Service, watched: Watched, count: int) -> None:
    stream = service.stream_generate(asked(count, None))
    await anext(stream)
    service.abort(RequestId("request"))
    reasons = [delta.finish_reason async for delta in stream if delta.finish_reason is not None]
    assert reasons == ["abort"] * count
    await until_freed(watched)


@pytest.mark.parametrize("count", [1, 3])
async def test_a_request_whose_caller_went_away_is_freed(service: Service, watched: Watched, count: int) -> None:
    stream = service.stream_generate(asked(count, None))
    await anext(stream)
    await stream.aclose()
    del stream
    await until_freed(watched)


@pytest.mark.parametrize("count", [1, 3])
async def test_a_request_that_failed_is_freed(
    service: Service, watched: Watched, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    runner = service._get_runtime().engine.core.runner
    assert runner is not None

    def collect(launched: Any) -> Any:
        for seq in launched.seqs[:1]:
            seq.text.push = None
        return real(launched)

    real = runner.collect
    with monkeypatch.context() as patch:
        patch.setattr(runner, "collect", collect)
        with pytest.raises(RequestFailed):
            await service.generate(asked(count, None))
    await until_freed(watched)


@pytest.mark.thin(2)
@pytest.mark.parametrize("count", [1, 3])
async def test_a_request_that_was_turned_away_is_freed(service: Service, watched: Watched, count: int) -> None:
    async def ask(place: int) -> bool:
        try:
            await service.generate(asked(count, 40, f"request {place}"))
        except QueueFull:
            return True
        return False

    assert any(await asyncio.gather(*(ask(place) for place in range(12))))
    await until_freed(watched)
