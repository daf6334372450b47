"""The prefix cache changes when tokens come, never which: cold, warm, evicting. test_prefix_disk has the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline.cache.slot_plan import Placement
from paceline.engine import sequence
from paceline.engine.forward import Forward
from paceline.types import Prompt, Sampling, Speculation
from tests.engine.conversations import SCRIPTS, SYSTEM, Conversations, Move, check_rest, quiet, words
from tests.engine.stepper import BUCKETED, Heard, Stepper, counts_passes
from tests.engine.watched import LISTENING, SMALL, Told, usage
from tests.reference import greedy_text
from tests.synthetic import scaled_rope

Tiny = Callable[..., Path]
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"layers": 2},
    "window": {"layers": 3, "sliding_window": 24},
    "window_llama": {"layers": 3, "sliding_window": 24},
    "hybrid": SMALL,
    "hybrid_moe": SMALL,
}
LAYOUTS = ["rows", "padded", "similar", *BUCKETED]
PLENTY = 1 << 30
TINY = 250_000  # two or three prompts
BUDGETS = st.sampled_from([PLENTY, PLENTY, TINY, TINY, TINY, 0])
# What the server is set to; then what single requests may ask for instead.
PLAIN: tuple[Speculation, ...] = ("off",)
MODES: list[tuple[str, tuple[Speculation, ...]]] = [
    *((family, PLAIN) for family in FAMILIES),
    ("hybrid", ("auto",)),
    ("hybrid", (3, "off")),
    ("hybrid", ("off", 2)),
    ("hybrid_moe", ("auto", 1)),
    ("hybrid_moe", (3,)),
]


def scripts(examples: int) -> Callable[[Any], Any]:
    """A script that fails is shown as it is: to shrink it takes minutes."""
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=examples, suppress_health_check=quiet, phases=(Phase.explicit, Phase.generate))


def stepped(
    folder: Path, mode: Sequence[Speculation], layout: str = "similar", chunk: int = 32, **more: Any
) -> Stepper:
    stepper = Stepper(folder, layout, chunk, speculation=mode[0], **more)
    if "auto" in mode:
        stepper.engine.scheduler.draft_lengths = Told().knowing()
    return stepper


def ask(stepper: Stepper, name: str, prompt: Sequence[int], tokens: int = 8, **about: Any) -> Heard:
    heard = stepper.greedy(name, Prompt(tuple(prompt), **about), tokens)
    with quiet():
        stepper.finish()
    return heard


def single(mode: tuple[Speculation, ...]) -> tuple[Speculation | None, ...]:
    return (None, *mode[1:])


# -- any script


@pytest.mark.thin(10)
@pytest.mark.parametrize(("family", "mode"), MODES)
@scripts(5)
@given(
    script=SCRIPTS,
    budget=BUDGETS,
    layout=st.sampled_from(LAYOUTS),
    chunk=st.sampled_from([5, 17, 32, 64, 200]),
    max_rows=st.sampled_from([1, 2, 8, 8]),
)
def test_no_script_of_conversations_changes_a_token(
    tiny: Tiny,
    family: str,
    mode: tuple[Speculation, ...],
    script: list[Move],
    budget: int,
    layout: str,
    chunk: int,
    max_rows: int,
) -> None:
    folder = tiny(family, **FAMILIES[family])
    stepper = stepped(folder, mode, layout, chunk, max_rows=max_rows, cache=budget)
    conversations = Conversations(stepper, folder, single(mode))
    conversations.play(script)
    conversations.check()


# -- checkpoints inside a pass


@counts_passes
@pytest.mark.thin(2)
@pytest.mark.parametrize(("family", "mode"), [("hybrid", ("off",)), ("hybrid", (3,)), ("window", ("off",))])
def test_checkpoints_split_no_pass_and_are_where_they_were_asked_for(
    tiny: Tiny, family: str, mode: tuple[Speculation, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny(family, **FAMILIES[family])
    stepper = stepped(folder, mode, chunk=200, cache=PLENTY)
    passes: list[tuple[int, int]] = []
    plain = stepper.runner._prefill

    def counted(seqs: Any, sizes: Any, *checkpoints: Any) -> Any:
        passes.append((seqs[0].computed.tokens, seqs[0].computed.tokens + sizes[0]))
        return plain(seqs, sizes, *checkpoints)

    monkeypatch.setattr(stepper.runner, "_prefill", counted)
    prompt = [*words(1, 50), *words(2, 50), *words(3, 50)]
    first = ask(stepper, "first", prompt, boundaries=(40, 90, 146))
    assert passes == [(0, 149)]
    assert first.tokens == expected(folder, prompt)
    for shared in (40, 90, 146):
        other = [*prompt[:shared], *words(shared, 20)]
        answer = ask(stepper, f"after {shared}", other)
        assert answer.cached == shared
        assert answer.tokens == expected(folder, other)


# -- single moves, and how much of them is reused


def expected(folder: Path, prompt: Sequence[int], tokens: int = 8) -> list[int]:
    return greedy_text(folder, prompt, tokens)


@pytest.mark.thin(8)
@pytest.mark.parametrize(("family", "mode"), MODES)
def test_a_conversation_goes_on_where_it_was(tiny: Tiny, family: str, mode: tuple[Speculation, ...]) -> None:
    folder = tiny(family, **FAMILIES[family])
    stepper = stepped(folder, mode, cache=PLENTY)
    prompt = SYSTEM + words(1, 20)
    first = ask(stepper, "first", prompt)
    assert (first.tokens, first.cached) == (expected(folder, prompt), 0)
    again = ask(stepper, "again", prompt)
    assert (again.tokens, again.cached) == (first.tokens, len(prompt) - 1)
    turn = (*prompt, *first.tokens, *words(2, 10))
    second = ask(stepper, "second", turn)
    assert second.tokens == expected(folder, turn)
    # Its last token was never an input, or only of a step that ran ahead.
    unread = len(prompt) + len(first.tokens) - second.cached
    assert unread == 1 or (unread == 0 and stepper.runner.forward.traces)
    edited = (*SYSTEM, *words(3, 20))
    for name in ("edited", "edited again"):
        other = ask(stepper, name, edited, boundaries=(len(SYSTEM),))
        assert other.tokens == expected(folder, edited)
    assert other.cached == len(edited) - 1
    third = ask(stepper, "branch", (*SYSTEM, *words(0, 9)))
    assert third.cached == len(SYSTEM)
    check_rest(stepper.reuse)


@pytest.mark.thin(10, first=5)
@pytest.mark.parametrize(("family", "mode"), MODES)
def test_sequences_that_come_together_compute_what_they_share_once(
    tiny: Tiny, family: str, mode: tuple[Speculation, ...]
) -> None:
    """The second shares the system prompt with the first, the third more than that with the second."""
    folder = tiny(family, **FAMILIES[family])
    stepper = stepped(folder, mode, "padded", 16, cache=PLENTY)
    prompts = [SYSTEM + words(1, 30), SYSTEM + words(2, 30), SYSTEM + words(2, 24) + words(3, 20)]
    prompts += prompts[:2]
    heard = [stepper.greedy(str(place), prompt, 6) for place, prompt in enumerate(prompts)]
    with quiet():
        stepper.finish()
    assert [each.tokens for each in heard] == [expected(folder, prompt, 6) for prompt in prompts]
    assert [each.cached for each in heard] == [0, 40, 64, 69, 69]
    assert stepper.engine.counters.prompt_tokens == 69 + 29 + 19
    check_rest(stepper.reuse)


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_salts_and_uncached_prompts_share_nothing(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **FAMILIES[family])
    stepper = Stepper(folder, cache=PLENTY)
    prompt = SYSTEM + words(1, 20)
    private = ask(stepper, "private", prompt, cached=False)
    assert stepper.reuse.cache.memory == 0
    mine = ask(stepper, "mine", prompt, salt="me")
    yours = ask(stepper, "yours", prompt, salt="you")
    still = ask(stepper, "still private", prompt, cached=False)
    again = ask(stepper, "mine again", prompt, salt="me")
    assert [each.cached for each in (private, mine, yours, still, again)] == [0, 0, 0, 0, 59]
    assert all(each.tokens == expected(folder, prompt) for each in (private, mine, yours, still, again))


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_a_sequence_whose_source_is_cancelled_goes_on_alone(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **FAMILIES[family])
    prompt = SYSTEM + words(1, 30)
    for steps in range(1, 6):
        stepper = Stepper(folder, chunk=16, cache=PLENTY)
        stepper.greedy("source", prompt, 8)
        waits = stepper.greedy("waits", prompt, 8)
        stepper.step(steps)
        stepper.abort("source")
        stepper.finish()
        assert waits.tokens == expected(folder, prompt)
        check_rest(stepper.reuse)


@pytest.mark.thin(2)
@pytest.mark.parametrize(("family", "mode"), MODES)
def test_sampled_tokens_and_their_scores_are_the_same_warm(
    tiny: Tiny, family: str, mode: tuple[Speculation, ...]
) -> None:
    folder = tiny(family, **FAMILIES[family])
    stepper = stepped(folder, mode, cache=PLENTY)
    prompt = SYSTEM + words(1, 20)
    sampling = Sampling(temperature=0.8, seed=7, max_tokens=12, ignore_eos=True, logprobs=3)
    heard = []
    for name in ("cold", "warm"):
        heard.append(stepper.submit(name, prompt, sampling))
        stepper.finish()
    cold, warm = heard
    assert warm.tokens == cold.tokens and len(cold.tokens) == 12
    assert (cold.cached, warm.cached) == (0, len(prompt) - 1)
    scores = [[score for delta in each.deltas for score in delta.logprobs] for each in heard]
    for one, other in zip(*scores, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
        assert [token for token, _ in one.top] == [token for token, _ in other.top]


def test_scores_of_a_prompt_are_computed_whatever_is_known(tiny: Tiny) -> None:
    folder = tiny("hybrid", **SMALL)
    stepper = Stepper(folder, cache=PLENTY)
    prompt = SYSTEM + words(1, 20)
    sampling = Sampling(temperature=0, max_tokens=4, ignore_eos=True, prompt_logprobs=1)
    heard = [ask(stepper, "known", prompt)]
    for name in ("one", "two"):
        heard.append(stepper.submit(name, prompt, sampling))
        stepper.finish()
    infos = [each.deltas[0].prompt for each in heard[1:]]
    assert all(info is not None and info.logprobs is not None and len(info.logprobs) == 60 for info in infos)
    assert [each.cached for each in heard] == [0, 0, 0]


class Failing:
    """A grammar that fails at the third token."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.accepted = 0

    def allowed(self, guesses: Sequence[int]) -> NDArray[np.bool_]:
        return np.ones((len(guesses) + 1, self.size), dtype=np.bool_)

    def accept(self, token: int) -> None:
        self.accepted += 1
        if self.accepted == 3:
            raise RuntimeError("no more")


@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_what_a_sequence_that_failed_has_made_is_not_used_again(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **FAMILIES[family])
    stepper = Stepper(folder, cache=PLENTY)
    known, prompt = SYSTEM + words(1, 5), SYSTEM + words(2, 20)
    ask(stepper, "known", known)
    grammar = Failing(stepper.model.language.vocab_size)
    failed = stepper.submit("failed", prompt, Sampling(temperature=0, max_tokens=8, ignore_eos=True), grammar)
    stepper.finish()
    assert failed.finish_reason == "error"
    heard = ask(stepper, "heard", prompt)
    assert heard.tokens == expected(folder, prompt) and heard.cached <= len(SYSTEM)
    check_rest(stepper.reuse)


def foresee(stepper: Stepper, said: Sequence[int]) -> None:
    """Every guess about the one sequence that runs is right."""

    def propose(logits: mx.array, place: int, guesses: Sequence[mx.array]) -> mx.array:
        (seq,) = stepper.runner.seqs
        return mx.array([[*said, *[0] * 16][seq.scheduled + place]], dtype=mx.int32)

    stepper.runner.sampler.propose = propose  # type: ignore[method-assign, assignment]


@pytest.mark.thin(3)
@pytest.mark.parametrize(("family", "mode"), [MODES[0], MODES[3], ("hybrid", (5,))])
def test_a_stop_string_inside_a_speculative_step_leaves_nothing_behind_it(
    tiny: Tiny, family: str, mode: tuple[Speculation, ...]
) -> None:
    folder = tiny(family, **FAMILIES[family])
    prompt = SYSTEM + words(1, 20)
    said = expected(folder, prompt, 24)
    for at in (1, 2, 5, 11, 19):
        stepper = stepped(folder, mode, cache=PLENTY)
        if mode != PLAIN:
            foresee(stepper, said)
        ended = said[: said.index(said[at]) + 1]
        sampling = Sampling(temperature=0, max_tokens=24, ignore_eos=True, stop=(f"<{said[at]}>",))
        heard = stepper.submit("row", prompt, sampling)
        stepper.finish()
        assert heard.finish_reason == "stop"
        assert mode == PLAIN or at < 2 or usage(heard).accepted_tokens > 0
        for node in stepper.reuse.cache.nodes():
            segment: Any = node.segment
            assert segment.arrays[0].shape[2] == len(node.key) and node.stop <= len(prompt) + len(ended)
        turn = (*prompt, *ended, *words(3, 9))
        foresee(stepper, expected(folder, turn))
        following = ask(stepper, "turn", turn)
        assert following.tokens == expected(folder, turn) and following.cached >= len(prompt) - 1
        check_rest(stepper.reuse)


def test_what_the_head_has_not_read_is_no_prefix_for_a_sequence_that_drafts(tiny: Tiny) -> None:
    folder = tiny("hybrid", **SMALL)
    stepper = Stepper(folder, cache=PLENTY)  # set to "off": the head reads nothing unasked
    prompt = SYSTEM + words(1, 20)
    sampling = Sampling(temperature=0, max_tokens=8, ignore_eos=True, speculation=2)
    cached = []
    for name, rules in {"plain": replace(sampling, speculation=None), "drafts": sampling, "again": sampling}.items():
        heard = stepper.submit(name, prompt, rules)
        stepper.finish()
        assert heard.tokens == expected(folder, prompt)
        cached.append(heard.cached)
    assert cached == [0, 0, 59]


# -- the draft head


def watch_places(stepper: Stepper) -> None:
    """From now on, wherever a sequence joins, the head stands where the target stands but for the pair that it is
    owed."""
    drafter, runner = stepper.runner.drafter, stepper.runner
    assert drafter is not None
    join = drafter.join

    def watched(seq: sequence.Sequence, at: Placement) -> None:
        join(seq, at)
        assert drafter.batch is not None and drafter.pending is not None and runner.batch is not None
        owed = drafter.pending.counts
        assert isinstance(owed, list)
        assert drafter.batch.next_positions[at.row] + owed[at.row] == runner.batch.next_positions[at.row]

    drafter.join = watched  # type: ignore[method-assign]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["padded", "padded+buckets"])
def test_the_head_draft_tokens_the_same_warm_as_cold(tiny: Tiny, layout: str) -> None:
    """Its guesses depend on all that it has read, and where: nothing of that may be lost on the way."""
    folder = tiny("hybrid", **LISTENING)
    prompt, other = SYSTEM + words(1, 30), SYSTEM + words(2, 30)
    turn = prompt + words(3, 9)

    def told(stepper: Stepper, name: str, text: Sequence[int]) -> tuple[int, ...]:
        heard = ask(stepper, name, text, 24)
        assert heard.tokens == greedy_text(folder, text, 24)
        return usage(heard).accepted_tokens, usage(heard).rejected_tokens

    cold = [told(stepped(folder, (3,), layout), "row", text) for text in (prompt, other, turn)]
    stepper = stepped(folder, (3,), layout, cache=PLENTY)
    watch_places(stepper)
    told(stepper, "first", prompt)
    told(stepper, "branch", other)  # splits what the first has left
    warm = [told(stepper, f"warm {place}", text) for place, text in enumerate((prompt, other, turn))]
    assert warm == cold


def test_every_pair_of_the_head_is_kept_with_its_own_token(tiny: Tiny) -> None:
    """The first token has none; a split must not hand one branch's pair to another."""
    folder = tiny("hybrid", **SMALL)
    stepper = stepped(folder, (3,), cache=PLENTY)
    for seed in (1, 2, 3):
        ask(stepper, str(seed), SYSTEM + words(seed, 30))
    nodes = list(stepper.reuse.cache.nodes())
    assert any(node.start == 40 for node in nodes)
    for node in nodes:
        segment: Any = node.segment
        if node.stop > 69:
            continue  # an answer: steps without a draft leave gaps
        assert segment.pairs[0].shape[2] == len(node.key) - (node.start == 0)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2])
def test_traced_speculative_steps_that_run_ahead_leave_what_is_true(tiny: Tiny, depth: int) -> None:
    """A sequence may end while the round after its end is under way and unread."""
    folder = tiny("hybrid", **SMALL)
    stepper = stepped(folder, (depth,), "padded", cache=PLENTY)
    runner = stepper.runner
    assert runner.drafter is not None
    runner.forward = Forward(runner._states_and_logits, traces=True, trace_after=1)
    runner.drafter.forward = Forward(runner.drafter._draft, traces=True, trace_after=1)
    for place in range(6):
        prompt = SYSTEM + words(place % 4, 10 + place)
        said = greedy_text(folder, prompt, 24)
        stop = said[9 + place]
        ended = said[: said.index(stop) + 1]
        sampling = Sampling(temperature=0, max_tokens=24, ignore_eos=True, stop_token_ids=(stop,))
        heard = stepper.submit(str(place), prompt, sampling)
        with quiet():
            stepper.finish()
        assert heard.tokens == ended
        turn = (*prompt, *ended, *words(3, 5))
        following = ask(stepper, f"turn {place}", turn)
        assert following.tokens == expected(folder, turn)
    assert runner.forward.traced_calls > 5
    check_rest(stepper.reuse)


# -- a scaled RoPE


@pytest.mark.slow
def test_a_dynamic_rope_shares_only_what_mlx_lm_would_compute_the_same(tiny: Tiny) -> None:
    """Its keys depend on how long the prompt is, but at the ends of mlx-lm's own chunks."""
    folder = tiny("llama", layers=2, **scaled_rope("dynamic", window=64))
    long = tuple(np.random.default_rng(5).integers(0, 480, 2300).tolist())
    stepper = Stepper(folder, chunk=512, cache=PLENTY)
    for name, prompt in {
        "long": long,
        "again": long,
        "branch": long[:2100] + words(1, 30),
        "shorter": long[:1500] + words(2, 20),
        "short": long[:90] + words(3, 20),
        "shorter again": long[:1500] + words(2, 30),
    }.items():
        heard = ask(stepper, name, prompt, 12)
        assert heard.tokens == greedy_text(folder, prompt, 12), name
        assert heard.cached >= {"again": 2048, "branch": 2048}.get(name, 0)
    check_rest(stepper.reuse)


# -- after a restart
