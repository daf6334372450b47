"""Whatever breaks, at whatever step: the neighbours say what they say when nothing breaks, and nothing is left behind.

Two kinds of faults: those that come once (a row that is in their way is computed again, and nobody notices), and those
that belong to one row and come back each time that it is there (it ends alone, with an error).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.engine.faults import MAX_FAILING_STEPS
from paceline.types import Prompt, RequestId, Sampling, Speculation
from tests.engine.stepper import Stepper
from tests.engine.watched import SMALL
from tests.lengths import turns
from tests.models.test_vision import built, user

Tiny = Callable[..., Path]
LENGTHS = {"a": 30, "b": 47, "c": 9, "d": 62}
TOKENS = 14
PLENTY = 1 << 30
SAMPLING = Sampling(temperature=0, max_tokens=TOKENS, ignore_eos=True)
LAYOUTS = ("rows", "similar", "padded")
ERRORS: dict[str, Callable[[], Exception]] = {
    "exception": lambda: RuntimeError("a fault"),
    "out of memory": lambda: RuntimeError("[malloc] Unable to allocate 123 bytes."),
}


def prompt(length: int, start: int = 0) -> tuple[int, ...]:
    return tuple((start + 11 * place * place + 5 * place) % 500 for place in range(length))


class Breaks:
    """Stands in for something callable; breaks before or after the real call when its dice say so."""

    def __init__(self, real: Any, due: Callable[[], Exception | None], *, after: bool = False) -> None:
        self.real, self.due, self.after = real, due, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        error = self.due()
        if error is not None and not self.after:
            raise error
        result = self.real(*arguments, **options)
        if error is not None:
            raise error
        return result


class Instead:
    """Called, it is another function; otherwise it is what it stands for."""

    def __init__(self, real: Any, call: Callable[..., Any]) -> None:
        self.real, self.call = real, call

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.call(*arguments, **options)


class Dice:
    """Says when to break: at most `faults` times, and never twice within three calls."""

    def __init__(self, seed: int, make: Callable[[], Exception], faults: int = 4) -> None:
        self.random = random.Random(seed)
        self.make, self.left, self.thrown, self.since = make, faults, 0, 0

    def __call__(self) -> Exception | None:
        self.since += 1
        if self.left == 0 or self.since < 4 or self.random.random() > 0.3:
            return None
        self.left, self.thrown, self.since = self.left - 1, self.thrown + 1, 0
        return self.make()


def stepper_of(folder: Path, layout: str, speculation: Speculation) -> Stepper:
    return Stepper(folder, layout, chunk=16, speculation=speculation, cache=PLENTY)


def submit_all(stepper: Stepper) -> None:
    for name, length in LENGTHS.items():
        stepper.greedy(name, prompt(length), TOKENS)


def told(stepper: Stepper) -> dict[str, list[int]]:
    return {name: heard.tokens for name, heard in stepper.heard.items()}


_calm: dict[tuple[Path, Speculation], dict[str, list[int]]] = {}


def calm(folder: Path, speculation: Speculation) -> dict[str, list[int]]:
    """The run without faults."""
    if (folder, speculation) not in _calm:
        stepper = stepper_of(folder, "similar", speculation)
        submit_all(stepper)
        stepper.finish()
        _calm[folder, speculation] = told(stepper)
    return _calm[folder, speculation]


def check_rest(stepper: Stepper) -> None:
    scheduler = stepper.engine.scheduler
    assert (scheduler.running, scheduler.waiting, stepper.engine.seqs, stepper.runner.seqs) == ([], [], {}, [])
    assert not scheduler.isolation.active
    assert stepper.engine.failure is None


def break_forward(stepper: Stepper, due: Callable[[], Exception | None]) -> None:
    stepper.runner.forward = Breaks(stepper.runner.forward, due, after=True)  # type: ignore[assignment]


def break_sampler(stepper: Stepper, due: Callable[[], Exception | None]) -> None:
    sampler = stepper.runner.sampler
    sampler_stand_in = Breaks(sampler, due, after=True)
    sampler_stand_in.verify = Breaks(sampler.verify, due, after=True)  # type: ignore[attr-defined]
    stepper.runner.sampler = sampler_stand_in  # type: ignore[assignment]


def break_commit(stepper: Stepper, due: Callable[[], Exception | None]) -> None:
    forward = stepper.runner.forward

    def broken(*arguments: Any, **options: Any) -> Any:
        outputs, close = forward(*arguments, **options)
        return outputs, Breaks(close, due, after=bool(stepper.engine.counters.steps % 2))

    stepper.runner.forward = Instead(forward, broken)  # type: ignore[assignment]


def break_read(stepper: Stepper, due: Callable[[], Exception | None]) -> None:
    collect = stepper.runner.collect
    broken = Breaks(collect, due)
    stepper.runner.collect = (  # type: ignore[method-assign]
        lambda step: broken(step) if step.seqs else collect(step)
    )


def break_restore(stepper: Stepper, due: Callable[[], Exception | None]) -> None:
    stepper.reuse._restore = Breaks(stepper.reuse._restore, due, after=True)  # type: ignore[method-assign]


def break_join(stepper: Stepper, due: Callable[[], Exception | None]) -> None:
    stepper.runner._join = Breaks(stepper.runner._join, due, after=True)  # type: ignore[method-assign]


def break_prefill(stepper: Stepper, due: Callable[[], Exception | None]) -> None:
    stepper.runner.prefill = Breaks(stepper.runner.prefill, due)  # type: ignore[method-assign]


def break_wait(stepper: Stepper, due: Callable[[], Exception | None]) -> None:
    stepper.runner.wait = Breaks(stepper.runner.wait, due)  # type: ignore[method-assign]


PLACES: dict[str, Callable[[Stepper, Callable[[], Exception | None]], None]] = {
    "forward": break_forward,
    "sampler": break_sampler,
    "commit": break_commit,
    "read": break_read,
    "restore": break_restore,
    "join": break_join,
}
LEAST = turns(13, 13, 4)  # faults of each kind, with and without drafting: 52 at each place


def seeds() -> Iterator[int]:
    yield from range(1000)


@pytest.mark.thin(24)
@pytest.mark.parametrize("speculation", ["off", 2])
@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("place", PLACES)
def test_faults_that_pass_change_nobodys_tokens(tiny: Tiny, place: str, kind: str, speculation: Speculation) -> None:
    folder = tiny("hybrid", **SMALL)
    expected = calm(folder, speculation)
    thrown = 0
    for seed in seeds():
        stepper = stepper_of(folder, LAYOUTS[seed % 3], speculation)
        dice = Dice(seed, ERRORS[kind])
        if place == "restore":  # there must be something to restore
            submit_all(stepper)
            stepper.finish()
        PLACES[place](stepper, dice)
        submit_all(stepper)
        stepper.finish()
        assert told(stepper) == expected, (seed, dice.thrown)
        check_rest(stepper)
        thrown += dice.thrown
        if thrown >= LEAST:
            return
    raise AssertionError("the dice threw too little")


@pytest.mark.thin(12, first=1)
@pytest.mark.parametrize("speculation", ["off", 2])
@pytest.mark.parametrize("place", ["forward", "sampler", "read", "prefill", "text", "logits"])
def test_a_sequence_that_breaks_every_step_it_is_in_ends_alone(
    tiny: Tiny, place: str, speculation: Speculation
) -> None:
    folder = tiny("hybrid", **SMALL)
    expected = calm(folder, speculation)
    for seed, culprit in enumerate([*LENGTHS] * turns(2, 2, 1)):
        stepper = stepper_of(folder, LAYOUTS[seed % 3], speculation)
        begins = seed % 4  # tokens that it may have before it goes bad
        submit_all(stepper)

        def bad(stepper: Stepper = stepper, culprit: str = culprit, begins: int = begins) -> bool:
            return any(row.id == culprit and len(row.generated) >= begins for row in stepper.runner.seqs)

        def due(bad: Callable[[], bool] = bad) -> Exception | None:
            return RuntimeError("a poisoned row") if bad() else None

        poison(stepper, place, culprit, due)
        stepper.finish()
        assert stepper.heard[culprit].finish_reason == "error"
        for name in LENGTHS:
            if name != culprit:
                assert stepper.heard[name].tokens == expected[name], (culprit, name)
        assert expected[culprit][: len(stepper.heard[culprit].tokens)] == stepper.heard[culprit].tokens
        check_rest(stepper)


def poison(stepper: Stepper, place: str, culprit: str, due: Callable[[], Exception | None]) -> None:
    if place in PLACES:
        PLACES[place](stepper, due)
    elif place == "prefill":
        prefill = stepper.runner.prefill

        def broken(seq: Any, tokens: int) -> Any:
            if seq.id == culprit and (seq.computed.tokens or len(seq.context) < 16):
                raise RuntimeError("a poisoned prompt")
            return prefill(seq, tokens)

        stepper.runner.prefill = broken  # type: ignore[method-assign]
    elif place == "text":
        stepper.step()
        stepper.engine.seqs[RequestId(culprit)].text.push = Breaks(None, lambda: ValueError("no text"))  # type: ignore
    else:
        forward = stepper.runner.forward

        def poisoned(*arguments: Any, **options: Any) -> Any:
            outputs, close = forward(*arguments, **options)
            if due() is not None:
                places = mx.array([row is not None and row.id == culprit for row in stepper.runner.rows])[:, None, None]
                outputs[0] = mx.where(places, mx.nan, outputs[0])
            return outputs, close

        stepper.runner.forward = Instead(forward, poisoned)  # type: ignore[assignment]


def test_a_device_that_is_gone_stops_the_engine_after_some_failing_steps(tiny: Tiny) -> None:
    stepper = stepper_of(tiny("hybrid", **SMALL), "similar", "off")
    break_forward(stepper, lambda: RuntimeError("the device is gone"))
    for turn in range(MAX_FAILING_STEPS):
        if stepper.engine.failure is not None:
            break
        stepper.submit(f"row {turn}", Prompt(prompt(5, turn)), SAMPLING)
        for _ in range(50):
            if stepper.engine.failure is None:  # the engine's thread steps no more
                stepper.step()
    assert stepper.engine.failure is not None
    assert "the device is gone" in stepper.engine.failure
    assert stepper.engine.counters.failed_steps == MAX_FAILING_STEPS


def test_images_that_cannot_be_encoded_end_their_own_sequences(tiny: Tiny) -> None:
    folder = tiny("hybrid")
    pictured = built(folder, (user(1, "What is this?"),))
    text = prompt(40)
    stepper = Stepper(folder, "similar", chunk=16, speculation=2)
    stepper.greedy("text", text, TOKENS)
    seen = stepper.greedy("seen", pictured, TOKENS)
    stepper.finish()
    expected = told(stepper)
    assert seen.finish_reason == "length"
    for turn in range(turns(10, 10, 3)):
        stepper = Stepper(folder, LAYOUTS[turn % 3], chunk=16, speculation=2)
        encode, dice = stepper.runner.encode, random.Random(turn)

        def fails(seq: Any, encode: Any = encode, dice: random.Random = dice) -> None:
            if seq.id.startswith("blind"):
                if dice.random() < 0.5:  # half way: one picture is there, the row is not
                    encode(seq)
                raise RuntimeError("the tower fell")
            encode(seq)

        stepper.runner.encode = fails  # type: ignore[method-assign]
        stepper.greedy("text", text, TOKENS)
        for place in range(5):
            stepper.greedy(f"blind {place}", pictured, TOKENS)
        stepper.greedy("seen", pictured, TOKENS)
        stepper.finish()
        assert {name: stepper.heard[name].tokens for name in expected} == expected
        assert all(stepper.heard[f"blind {place}"].finish_reason == "error" for place in range(5))
        check_rest(stepper)


@pytest.mark.slow
def test_an_image_that_finds_no_memory_is_encoded_again(tiny: Tiny) -> None:
    folder = tiny("hybrid")
    pictured = built(folder, (user(1, "What is this?"),))
    stepper = Stepper(folder, "similar", chunk=16, cache=PLENTY)
    calm_row = stepper.greedy("calm", pictured, TOKENS)
    stepper.finish()
    stepper = Stepper(folder, "similar", chunk=16, cache=PLENTY)
    stepper.runner.encode = Breaks(stepper.runner.encode, Dice(3, ERRORS["out of memory"], faults=2))  # type: ignore
    for turn in range(20):
        row = stepper.greedy(f"row {turn}", pictured, TOKENS)
        stepper.reuse.clear()
        stepper.finish()
        assert row.tokens == calm_row.tokens
    assert stepper.engine.counters.out_of_memory == 2


def test_texts_that_fail_end_their_own_sequences(tiny: Tiny) -> None:
    folder = tiny("hybrid", **SMALL)
    expected = calm(folder, "off")
    for seed in range(turns(50, 20, 6)):
        dice = random.Random(seed)
        stepper = stepper_of(folder, LAYOUTS[seed % 3], "off")
        submit_all(stepper)
        stepper.step()
        victim = dice.choice(list(LENGTHS))
        text = stepper.engine.seqs[RequestId(victim)].text
        count, last = [0], dice.randrange(TOKENS - 1)

        def push(
            *arguments: Any, real: Any = text.push, count: list[int] = count, last: int = last, **more: Any
        ) -> Any:
            count[0] += 1
            if count[0] > last:
                raise ValueError("no such character")
            return real(*arguments, **more)

        text.push = push  # type: ignore[method-assign]
        stepper.finish()
        heard = told(stepper)
        assert stepper.heard[victim].finish_reason == "error"
        assert {name: heard[name] for name in LENGTHS if name != victim} == {
            name: expected[name] for name in LENGTHS if name != victim
        }
        check_rest(stepper)


@pytest.mark.thin(6)
@pytest.mark.parametrize("breaks", [break_prefill, break_wait])
@pytest.mark.parametrize("speculation", ["off", 2])
def test_a_prompt_that_finds_no_memory_does_not_disturb_those_who_count_their_tokens(
    tiny: Tiny, speculation: Speculation, breaks: Callable[[Stepper, Callable[[], Exception | None]], None]
) -> None:
    """It is set back while steps of others are under way, whose tokens nobody has counted yet."""
    folder = tiny("hybrid", **SMALL)
    punished = Sampling(
        temperature=0, frequency_penalty=1.5, repetition_penalty=1.2, max_tokens=40, min_tokens=30, ignore_eos=True
    )
    heard = []
    for faults in (0, 3):  # more of them, and a row is given up
        stepper = stepper_of(folder, "similar", speculation)
        breaks(stepper, Dice(1, ERRORS["out of memory"], faults))
        rows = [stepper.submit(f"punished {place}", Prompt(prompt(20 + place)), punished) for place in range(2)]
        stepper.step(5)
        rows += [stepper.greedy(f"late {place}", prompt(60 + 9 * place, place), TOKENS) for place in range(5)]
        stepper.finish()
        assert bool(faults) == bool(stepper.engine.counters.out_of_memory)
        heard.append([row.tokens for row in rows])
        check_rest(stepper)
    assert heard[0] == heard[1]
