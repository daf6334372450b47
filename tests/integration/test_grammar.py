"""A grammar masks every position, drafted or not, and goes by the tokens that were kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.engine.forward import Forward
from paceline.engine.in_flight import InFlightStep, Token
from paceline.engine.runner import Runner
from paceline.types import INHERITS, Sampling, Speculation
from tests.engine.stepper import Instead, Stepper, counts_passes
from tests.reference import greedy_text

Tiny = Callable[..., Path]
PROMPT = tuple(range(5, 45))


class InTurns:
    """Tokens of each residue in turn: 0, 1, 2, 0, 1, 2, ..."""

    def __init__(self, vocab: int, size: int = 3) -> None:
        self.ids = np.arange(vocab) % size
        self.size = size
        self.accepted: list[int] = []

    def allowed(self, guesses: Sequence[int]) -> NDArray[np.bool_]:
        begun = len(self.accepted)
        return np.stack([self.ids == (begun + place) % self.size for place in range(len(guesses) + 1)])

    def accept(self, token: int) -> None:
        self.accepted.append(token)


class Inheriting(InTurns):
    """The same, where what is allowed has the probability of all that is not: the likeliest stays the likeliest."""

    def allowed(self, guesses: Sequence[int]) -> NDArray[np.uint8]:  # type: ignore[override]
        return super().allowed(guesses).astype(np.uint8) * INHERITS


def told(
    folder: Path,
    speculation: Speculation,
    *,
    neighbours: int = 0,
    traces: bool = False,
    layout: str = "rows",
    kind: type[InTurns] = InTurns,
    **rules: Any,
) -> tuple[list[int], InTurns]:
    stepper = Stepper(folder, layout)
    if traces:
        stepper.runner = Runner(stepper.model, stepper.runner.grouping, traces=True)
        stepper.runner.forward._trace_after = 1
    grammar = kind(stepper.model.language.vocab_size)
    sampling = Sampling(**{"temperature": 0, "max_tokens": 24, "ignore_eos": True, "speculation": speculation, **rules})
    heard = stepper.submit("ruled", PROMPT, sampling, grammar)
    others = [stepper.greedy(str(place), PROMPT[: 5 + place], 20) for place in range(neighbours)]
    stepper.finish()
    for place, other in enumerate(others):
        assert other.tokens == greedy_text(folder, PROMPT[: 5 + place], 20)
    return heard.tokens, grammar


@pytest.mark.thin(2)
@pytest.mark.parametrize("speculation", ["off", 1, 3, 5, "auto"])
def test_every_token_obeys_and_is_what_plain_decoding_gives(tiny: Tiny, speculation: Speculation) -> None:
    folder = tiny("hybrid")
    tokens, grammar = told(folder, speculation)
    assert [token % 3 for token in tokens] == [place % 3 for place in range(24)]
    assert grammar.accepted == tokens
    assert tokens == told(folder, "off")[0]


@pytest.mark.thin(2)
@pytest.mark.parametrize("speculation", ["off", 3])
def test_neighbours_without_a_grammar_do_not_notice(tiny: Tiny, speculation: Speculation) -> None:
    tokens, _ = told(tiny("hybrid"), speculation, neighbours=3)
    assert tokens == told(tiny("hybrid"), "off")[0]


@pytest.mark.thin(2)
@pytest.mark.parametrize("speculation", ["off", 3])
def test_a_row_whose_tokens_inherit_does_not_move_its_neighbours(tiny: Tiny, speculation: Speculation) -> None:
    tokens, _ = told(tiny("hybrid"), speculation, neighbours=3, kind=Inheriting)
    assert tokens == told(tiny("hybrid"), "off")[0]


@pytest.mark.thin(2, first=1)
@pytest.mark.parametrize("traces", [False, True])
def test_padding_beside_it_changes_nothing(tiny: Tiny, traces: bool) -> None:
    folder = tiny("hybrid")
    tokens, grammar = told(folder, 3, neighbours=4, traces=traces, layout="padded+buckets")  # five rows of eight
    assert tokens == grammar.accepted == told(folder, "off")[0]


def test_a_seed_gives_the_same_text_at_every_draft_length(tiny: Tiny) -> None:
    folder = tiny("hybrid")
    texts = [told(folder, depth, temperature=1.0, seed=5)[0] for depth in ("off", 1, 4)]
    assert texts[0] == texts[1] == texts[2]
    assert [token % 3 for token in texts[0]] == [place % 3 for place in range(24)]


def test_without_a_seed_draft_tokens_that_break_it_are_never_kept(tiny: Tiny) -> None:
    tokens, _ = told(tiny("hybrid"), 4, temperature=1.3)
    assert [token % 3 for token in tokens] == [place % 3 for place in range(24)]


def test_traced_speculative_steps_wait_for_it_too(tiny: Tiny) -> None:
    folder = tiny("hybrid")
    assert told(folder, 3, neighbours=2, traces=True)[0] == told(folder, "off")[0]


@pytest.mark.slow
def test_a_fault_between_two_speculative_steps_changes_nobodys_text(tiny: Tiny) -> None:
    """Guessing fails now and then, while rounds run ahead of what the host knows."""
    folder = tiny("hybrid")
    stepper = Stepper(folder, "padded", speculation=3)
    stepper.runner = Runner(stepper.model, stepper.runner.grouping, traces=True)
    drafter = stepper.runner.drafter
    assert drafter is not None
    stepper.runner.forward = Forward(stepper.runner._states_and_logits, traces=True, trace_after=1)
    drafter.forward = Forward(drafter._draft, traces=True, trace_after=1)
    propose, calls = stepper.runner.sampler.propose, [0]

    def failing(*args: object) -> object:
        calls[0] += 1
        if calls[0] in (20, 60, 95):
            raise RuntimeError("a passing fault")
        return propose(*args)  # type: ignore[arg-type]

    stepper.runner.sampler.propose = failing  # type: ignore[method-assign,assignment]
    first = stepper.greedy("first", PROMPT, 120)
    stepper.step(24)
    second = stepper.greedy("second", PROMPT[:9], 60)
    stepper.finish()
    assert calls[0] > 95
    assert first.tokens == greedy_text(folder, PROMPT, 120)
    assert second.tokens == greedy_text(folder, PROMPT[:9], 60)


# -- one grammar among others


class Ordered(Runner):
    """Remembers the order of passes and reads."""

    def __init__(self, stepper: Stepper) -> None:
        super().__init__(stepper.model, stepper.grouping)
        self.events: list[str] = []
        self.lose = 0  # reads until one fails
        forward = self.forward

        def counted(batch: Any, width: int, inputs: Any, **options: Any) -> Any:
            self.events.append("pass")
            return forward(batch, width, inputs, **options)

        self.forward = Instead(forward, counted)  # type: ignore[assignment]
        sampler = self.sampler

        def sampled(*arguments: Any) -> Any:
            self.events.append("sample")
            return sampler(*arguments)

        self.sampler = Instead(sampler, sampled)  # type: ignore[assignment]

    def collect(self, step: InFlightStep) -> list[Token]:
        if step.sampled is not None:
            self.events.append("read")
            self.lose -= 1
            if self.lose == 0:
                raise RuntimeError("the tokens are lost")
        return super().collect(step)


def among(folder: Path, free: int, lose: int = 0, cache: int | None = None) -> tuple[Ordered, InTurns]:
    stepper = Stepper(folder, "similar", cache=cache)
    runner = stepper.runner = Ordered(stepper)
    runner.lose = lose
    grammar = InTurns(stepper.model.language.vocab_size)
    ruled = stepper.submit("ruled", PROMPT, Sampling(temperature=0, max_tokens=12, ignore_eos=True), grammar)
    others = [stepper.greedy(str(place), PROMPT[: 5 + place], 20 - 3 * place) for place in range(free)]
    stepper.finish()
    assert ruled.tokens == told(folder, "off")[0][:12] == grammar.accepted
    for place, other in enumerate(others):
        assert other.tokens == greedy_text(folder, PROMPT[: 5 + place], 20 - 3 * place)
    return runner, grammar


def ahead(events: Sequence[str]) -> list[int]:
    """At each read, how many passes were submitted after the one that is read."""
    reads = [place for place, event in enumerate(events) if event == "read"]
    return [events[:place].count("pass") - 1 - events[:place].count("read") for place in reads]


@counts_passes
@pytest.mark.thin(3, first=2)
@pytest.mark.parametrize("family", ["llama", "window", "hybrid"])
def test_one_grammar_among_others_is_no_reason_to_wait_for_the_host(tiny: Tiny, family: str) -> None:
    """The next pass is under way before a step is read."""
    runner, _ = among(tiny(family), 3)
    assert ahead(runner.events)[:10] == [1] * 10


def test_no_text_is_delivered_between_the_read_and_the_next_sampling(tiny: Tiny) -> None:
    """Neither of the others nor its own: the device waits for the mask, clients for nothing."""
    stepper = Stepper(tiny("hybrid"), "similar")
    runner = stepper.runner = Ordered(stepper)
    grammar = InTurns(stepper.model.language.vocab_size)
    ruled = stepper.submit("ruled", PROMPT, Sampling(temperature=0, max_tokens=12, ignore_eos=True), grammar)
    for each in (ruled, *(stepper.greedy(str(place), PROMPT[: 5 + place], 12) for place in range(3))):
        each.deltas = Reported(runner.events)
    for seq in stepper.engine.seqs.values():
        seq.sink = stepper.heard[seq.id].deltas.append
    stepper.finish()
    turns = "".join(event[0] for event in runner.events).split("p")
    assert turns[6:11] == ["rsdddd"] * 5  # after each pass


class Reported(list[Any]):
    def __init__(self, events: list[str]) -> None:
        self._events = events

    def append(self, delta: Any) -> None:
        self._events.append("delivery")
        super().append(delta)


@pytest.mark.parametrize("speculation", ["off", 2])
def test_a_traced_step_with_a_grammar_writes_into_the_buffers_that_it_reads(
    tiny: Tiny, speculation: Speculation
) -> None:
    """As one without does: a copy of all keys and values would be a second batch in memory."""
    stepper = Stepper(tiny("hybrid"), "padded+buckets", chunk=512, traces=True, speculation=speculation)
    sampling = Sampling(temperature=0, max_tokens=60, ignore_eos=True, speculation=speculation)
    stepper.submit("ruled", PROMPT * 40, sampling, InTurns(stepper.model.language.vocab_size))
    for place in range(3):
        stepper.greedy(str(place), PROMPT, 60)
    stepper.step(16)
    assert stepper.runner.batch is not None
    keys = sum(array.nbytes for cache in stepper.runner.batch.flat for array in cache.arrays() if array.ndim == 4)
    mx.synchronize()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    stepper.step(3)
    mx.synchronize()
    assert len(stepper.runner.seqs) == 4 and mx.get_peak_memory() - before < keys / 2


def test_where_grammars_are_at_least_half_each_step_is_read_first(tiny: Tiny) -> None:
    runner, _ = among(tiny("llama"), 1)
    assert ahead(runner.events)[2:10] == [0] * 8


@pytest.mark.thin(5)
@pytest.mark.parametrize("lose", range(1, 9))
def test_a_step_that_is_lost_while_the_next_waits_for_masks_is_made_up_for(tiny: Tiny, lose: int) -> None:
    runner, _ = among(tiny("hybrid"), 3, lose, cache=1 << 30)
    assert runner.lose < 0


@pytest.mark.thin(2, first=1)
@pytest.mark.parametrize("traces", [False, True])
def test_those_that_end_beside_a_grammar_leave_what_is_true_in_the_prefix_cache(tiny: Tiny, traces: bool) -> None:
    """By a stop string, which is found one step late, by an abort, and by the grammar's own limit."""
    folder = tiny("hybrid")
    stepper = Stepper(folder, "similar+buckets", cache=1 << 30, traces=traces)
    expected = greedy_text(folder, PROMPT[:9], 30)
    stop = f"<{expected[11]}>"
    end = expected.index(expected[11])
    grammar = InTurns(stepper.model.language.vocab_size)
    ruled = stepper.submit("ruled", PROMPT, Sampling(temperature=0, max_tokens=24, ignore_eos=True), grammar)
    stopped = stepper.submit("stopped", PROMPT[:9], Sampling(temperature=0, max_tokens=30, stop=(stop,)))
    others = [stepper.greedy(f"other {place}", PROMPT[: 12 + place], 40) for place in range(3)]
    stepper.step(8)
    stepper.abort("other 0")
    stepper.finish()
    assert stopped.finish_reason == "stop" and stopped.tokens[:end] == expected[:end]
    assert ruled.tokens == grammar.accepted == told(folder, "off")[0]
    for place, other in enumerate(others[1:], start=1):
        assert other.tokens == greedy_text(folder, PROMPT[: 12 + place], 40)
    said = ((PROMPT[:9], expected[: end + 1]), (PROMPT, ruled.tokens), (PROMPT[:13], others[1].tokens))
    for prompt, answer in said:
        again = (*prompt, *answer, 7, 8)
        after = stepper.greedy("again", again, 6)
        stepper.finish()
        assert after.cached > len(prompt) and after.tokens == greedy_text(folder, again, 6)


@pytest.mark.thin(4)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("fails", [3, 4, 6, 9])
def test_a_sampling_that_fails_after_the_read_is_made_up_for(tiny: Tiny, fails: int, late: bool) -> None:
    """The pass is committed, and its grammar has heard nothing of the step before it. `late`: the device may have
    meant any other work, so that all is recomputed, without what was read."""
    folder = tiny("hybrid")
    stepper = Stepper(folder, "similar", cache=1 << 30)
    stepper.runner.reports_late = late
    sampler, calls = stepper.runner.sampler, [0]

    def failing(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == fails:
            raise RuntimeError("a passing fault")
        return sampler(*arguments)

    stepper.runner.sampler = Instead(sampler, failing)  # type: ignore[assignment]
    grammar = InTurns(stepper.model.language.vocab_size)
    ruled = stepper.submit("ruled", PROMPT, Sampling(temperature=0, max_tokens=12, ignore_eos=True), grammar)
    others = [stepper.greedy(str(place), PROMPT[: 5 + place], 20 - 3 * place) for place in range(3)]
    stepper.finish()
    assert calls[0] > fails and stepper.engine.scheduler.preemptions["fault"]
    assert ruled.tokens == told(folder, "off")[0][:12] == grammar.accepted
    for place, other in enumerate(others):
        assert other.tokens == greedy_text(folder, PROMPT[: 5 + place], 20 - 3 * place)
