"""Whoever proposes, and whoever drafts beside it: the tokens are those of plain decoding.

`Oracle` stands for a proposer on the host: it offers drafts of every length, with mistakes at every place. Prompt
lookup itself drafts where a text repeats, as greedy texts of these models do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.cache.slot_plan import LAYOUTS
from paceline.engine.lookup import LookupProposer
from paceline.types import LONGEST_DRAFT, Prompt, Sampling, Speculation, SpeculationMethod
from tests.engine.proposing import Oracle
from tests.engine.stepper import BUCKETED, Heard, Stepper
from tests.engine.watched import SMALL, Tiny, Told, greedy, outcome, prompt, usage
from tests.integration.test_grammar import InTurns
from tests.integration.test_preemption import disturb
from tests.lengths import examples
from tests.reference import greedy_text

LONG = 60
ALL: tuple[SpeculationMethod, ...] = ("mtp", "lookup", "grammar")
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"layers": 2},
    "window": {"layers": 3, "sliding_window": 24},
    "hybrid": SMALL,
    "hybrid_moe": SMALL,
}
MOSTLY_SLOW = [
    pytest.param(name, marks=[pytest.mark.slow] if name in ("window", "hybrid_moe") else []) for name in FAMILIES
]
SIZES = (1, 2, 9, 33, 70)


def truths(folder: Path, sizes: Sequence[int] = SIZES, tokens: int = LONG) -> dict[str, list[int]]:
    """What sequences named after the lengths of their prompts say."""
    return {str(size): greedy_text(folder, prompt(size), tokens) for size in sizes}


def stepper_for(folder: Path, oracle: Oracle, layout: str = "similar", **options: Any) -> Stepper:
    made = Stepper(folder, layout, **{"speculation": "auto", "methods": ALL, **options}, proposers=[oracle])
    made.engine.scheduler.draft_lengths = Told().knowing()
    made.engine.scheduler.draft_lengths.buckets = made.grouping.buckets
    return made


# -- greedy


@pytest.mark.thin(5)
@pytest.mark.parametrize("layout", [*LAYOUTS, *BUCKETED])
@pytest.mark.parametrize("family", MOSTLY_SLOW)
def test_drafts_of_every_length_and_every_mistake_change_no_token(tiny: Tiny, family: str, layout: str) -> None:
    folder = tiny(family, **FAMILIES[family])
    answers = truths(folder)
    oracle = Oracle(answers, len(layout))
    stepper = stepper_for(folder, oracle, layout, methods=("lookup",), chunk=40)
    heard = []
    for place, size in enumerate(SIZES):
        heard.append(stepper.greedy(str(size), prompt(size), LONG - place))
        stepper.step(place % 3)
    stepper.finish()
    for place, (size, each) in enumerate(zip(SIZES, heard, strict=True)):
        assert each.tokens == answers[str(size)][: LONG - place]
        assert usage(each).accepted_tokens > 0
    assert sum(usage(each).rejected_tokens for each in heard) > 0  # one sequence may be spared by chance
    stats = stepper.engine.scheduler.draft_lengths.stats()
    assert set(stats.methods) == {"lookup"}
    assert stats.methods["lookup"].num_accepted_tokens == sum(usage(each).accepted_tokens for each in heard)
    assert max(length for length, count in enumerate(stats.num_steps_per_draft_length) if count) > 8


@pytest.mark.thin(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_alone_a_sequence_says_what_it_says_without_drafts(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **FAMILIES[family])
    answers = truths(folder, (9,))
    oracle = Oracle(answers, 3, silent=0.0)
    stepper = stepper_for(folder, oracle, "rows", methods=("lookup",))
    heard = stepper.greedy("9", prompt(9), LONG)
    stepper.finish()
    assert heard.tokens == answers["9"]
    assert max(oracle.offered) > LONGEST_DRAFT // 2
    assert stepper.engine.counters.decode_steps < LONG // 2


@pytest.mark.thin(4)
@pytest.mark.parametrize("traces", [False, True])
@pytest.mark.parametrize("layout", [*(pytest.param(name, marks=pytest.mark.slow) for name in LAYOUTS), *BUCKETED])
def test_rows_of_one_batch_have_different_proposers_and_change_them(tiny: Tiny, layout: str, traces: bool) -> None:
    folder = tiny("hybrid", **SMALL)
    answers = truths(folder)
    names = {f"{size} {who}": size for size in SIZES[1:] for who in ("mtp", "lookup", "any", "off")}
    known = {name: answers[str(size)] for name, size in names.items()}
    oracle = Oracle({name: text for name, text in known.items() if "mtp" not in name}, 5, silent=0.4)
    stepper = stepper_for(folder, oracle, layout, chunk=64, traces=traces)
    heard = {}
    for place, (name, size) in enumerate(names.items()):
        who = name.split()[1]
        rules: dict[str, Any] = {"speculation": "off"} if who == "off" else {"speculation": "auto"}
        if who in ("mtp", "lookup"):
            rules["speculation_method"] = who
        heard[name] = stepper.submit(name, prompt(size), greedy(LONG - place, **rules))
        stepper.step(place % 2)
    stepper.finish()
    for place, (name, each) in enumerate(heard.items()):
        assert each.tokens == known[name][: LONG - place], name
        assert (usage(each).accepted_tokens + usage(each).rejected_tokens > 0) == ("off" not in name)
    methods = stepper.engine.scheduler.draft_lengths.stats().methods
    assert methods["mtp"].num_accepted_tokens > 0 and methods["lookup"].num_accepted_tokens > 0


@pytest.mark.thin(3)
@pytest.mark.parametrize("depth", [1, 3, 8])
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_a_fixed_draft_length_is_kept_by_every_proposer(tiny: Tiny, family: str, depth: int) -> None:
    folder = tiny(family, **FAMILIES[family])
    answers = truths(folder)
    oracle = Oracle(answers, depth)
    stepper = stepper_for(folder, oracle, speculation=depth)
    heard = [stepper.greedy(str(size), prompt(size), LONG) for size in SIZES]
    stepper.finish()
    assert [each.tokens for each in heard] == list(answers.values())
    steps = stepper.engine.scheduler.draft_lengths.stats().num_steps_per_draft_length
    assert not any(steps[depth + 1 :]) and steps[depth]


ACTIONS = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(SIZES), st.integers(1, LONG), st.sampled_from(["off", "auto", 1, 3, 8])),
    st.tuples(st.just("step"), st.integers(1, 6), st.just(0), st.none()),
    st.tuples(st.just("leave"), st.integers(0, 20), st.just(0), st.none()),
    st.tuples(st.just("preempt"), st.integers(0, 20), st.just(0), st.none()),
)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(ACTIONS, min_size=4, max_size=20),
    layout=st.sampled_from([*sorted(LAYOUTS), *BUCKETED]),
    family=st.sampled_from(["llama", "hybrid"]),
    seed=st.integers(0, 99),
    traces=st.booleans(),
    real=st.booleans(),
)
def test_any_script_of_joins_leaves_and_preemptions_changes_nobodys_tokens(
    tiny: Tiny,
    script: list[tuple[str, int, int, Speculation | None]],
    layout: str,
    family: str,
    seed: int,
    traces: bool,
    real: bool,
) -> None:
    folder = tiny(family, **FAMILIES[family])
    answers = truths(folder)
    oracle = Oracle({}, seed)
    stepper = stepper_for(folder, oracle, layout, chunk=48, max_rows=6, traces=traces)
    if real:
        stepper.engine.scheduler.draft_choice.proposers = (LookupProposer(), oracle)
    asked: dict[str, tuple[int, int]] = {}
    for kind, first, second, depth in script:
        if kind == "join":
            name = str(len(asked))
            asked[name] = (first, second)
            oracle.answers[name] = answers[str(first)]
            stepper.submit(name, prompt(first), greedy(second, speculation=depth))
        elif kind == "step":
            stepper.step(first)
        elif kind == "preempt":
            stepper.settle()
            running = stepper.engine.scheduler.running
            stepper.engine.preempt([seq for seq in running if seq.number % 3 == first % 3], "policy")
        elif asked:
            stepper.abort(str(first % len(asked)))
    stepper.finish(2000)
    for name, (size, tokens) in asked.items():
        heard, text = stepper.heard[name], answers[str(size)][:tokens]
        if heard.finish_reason == "abort":
            text = text[: len(heard.tokens)]
        assert heard.tokens == text
        assert usage(heard).completion_tokens == len(heard.tokens)


# -- prompt lookup itself


@pytest.mark.thin(20)
@pytest.mark.parametrize("family", MOSTLY_SLOW)
@pytest.mark.parametrize("count", [1, 4])
def test_lookup_drafts_where_a_text_repeats_and_changes_no_token(tiny: Tiny, family: str, count: int) -> None:
    folder = tiny(family, **FAMILIES[family])
    tokens = 160
    answers = truths(folder, SIZES[:count], tokens)
    stepper = Stepper(
        folder, "similar", speculation="auto", methods=("lookup",), proposers=[LookupProposer()], chunk=64
    )
    heard = [stepper.greedy(str(size), prompt(size), tokens) for size in SIZES[:count]]
    stepper.finish()
    assert [each.tokens for each in heard] == list(answers.values())
    again = [stepper.greedy(f"again {size}", prompt(size), tokens) for size in SIZES[:count]]
    stepper.finish()
    assert [each.tokens for each in again] == list(answers.values())
    # The second time, the answers are known: recent answers of the same tenant.
    assert all(usage(each).accepted_tokens > tokens // 4 for each in again)


def test_where_there_is_nothing_to_look_up_steps_are_plain_and_run_ahead_of_the_host(tiny: Tiny) -> None:
    folder = tiny("llama", layers=2)
    stepper = Stepper(folder, speculation="auto", methods=("lookup",), proposers=[LookupProposer()])
    text = greedy_text(folder, prompt(33), 12)
    assert len({tuple(text[place : place + 3]) for place in range(10)}) == 10  # nothing repeats in it
    heard = stepper.greedy("row", prompt(33), 12)
    behind = []
    while heard.finish_reason is None:
        stepper.step()
        rows = stepper.runner.seqs
        behind += [seq.scheduled - len(seq.generated) for seq in rows if seq.finished is None and seq.generated]
    assert heard.tokens == text
    assert set(behind) == {1}  # a step is in flight while the host reads the one before
    assert stepper.engine.scheduler.draft_lengths.draft_tokens == 0


# -- ends, rules, seeds

RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "penalties": {
        "repetition_penalty": 1.3,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.4,
        "logit_bias": {token: 50.0 for token in range(20)},
    },
    "bias": {"logit_bias": {7: 15.0, 8: -100.0, 100: 14.0}},
    "dry": {"dry_multiplier": 5.0, "dry_allowed_length": 1, "logit_bias": {token: 9.0 for token in range(20)}},
    "seed": {"temperature": 1.2, "seed": 11},
    "seed, filters": {"temperature": 1.5, "seed": 5, "top_p": 0.9, "top_k": 40, "min_p": 0.01, "typical_p": 0.95},
    "seed, xtc": {"temperature": 1.5, "seed": 6, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    "logprobs": {"logprobs": 3},
    "min_tokens": {"min_tokens": 30},
}


def sampling(name: str, **more: Any) -> Sampling:
    return Sampling(**{"temperature": 0, "max_tokens": LONG, "ignore_eos": True, **RULES[name], **more})


def plainly(folder: Path, wanted: dict[str, Sampling], **options: Any) -> dict[str, Heard]:
    stepper = Stepper(folder, speculation="off", **options)
    heard = {name: stepper.submit(name, prompt(9), each) for name, each in wanted.items()}
    stepper.finish()
    return heard


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_rules_and_seeds_give_what_they_give_without_drafts(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **FAMILIES[family])
    wanted = {name: sampling(name) for name in RULES}
    plain = plainly(folder, wanted)
    oracle = Oracle({name: each.tokens for name, each in plain.items()}, 2)
    stepper = stepper_for(folder, oracle)
    heard = {name: stepper.submit(name, prompt(9), each) for name, each in wanted.items()}
    stepper.finish()
    for name, each in heard.items():
        assert outcome(each) == outcome(plain[name]), name
        assert usage(each).accepted_tokens > 0
    scores = [[score for delta in each["logprobs"].deltas for score in delta.logprobs] for each in (plain, heard)]
    assert len(scores[1]) == LONG
    for one, other in zip(*scores, strict=True):
        assert one.token_id == other.token_id and one.logprob == pytest.approx(other.logprob, abs=1e-4)


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_ends_in_the_middle_of_a_long_draft_are_ends(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **FAMILIES[family])
    text = greedy_text(folder, prompt(9), LONG)
    wanted = {f"stop {place}": greedy(LONG, stop_token_ids=(text[place],)) for place in range(3, 40, 5)}
    wanted |= {f"text {place}": greedy(LONG, stop=(f"{text[place]}><{text[place + 1]}",)) for place in range(3, 40, 7)}
    wanted |= {f"length {tokens}": greedy(tokens) for tokens in (1, 2, 8, 31, 33, 34)}
    plain = plainly(folder, wanted)
    oracle = Oracle(dict.fromkeys(wanted, text), 4, wrong=0.2, silent=0.1)
    stepper = stepper_for(folder, oracle, "padded", methods=("lookup",))
    heard = {name: stepper.submit(name, prompt(9), each) for name, each in wanted.items()}
    stepper.finish()
    for name, each in heard.items():
        assert outcome(each) == outcome(plain[name]), name


@pytest.mark.thin(2)
@pytest.mark.parametrize("method", ["lookup", "grammar"])
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_a_grammar_masks_every_place_of_a_draft_from_the_host(
    tiny: Tiny, family: str, method: SpeculationMethod
) -> None:
    folder = tiny(family, **FAMILIES[family])

    def told(oracle: Oracle | None) -> tuple[list[int], Heard]:
        methods: tuple[SpeculationMethod, ...] = ("mtp",) if oracle is None else ("mtp", method)
        chosen: Speculation = "off" if oracle is None else "auto"
        stepper = Stepper(
            folder, "similar", speculation=chosen, methods=methods, proposers=[] if oracle is None else [oracle]
        )
        grammar = InTurns(stepper.model.language.vocab_size)
        heard = stepper.submit("ruled", prompt(33), greedy(LONG), grammar)
        others = [stepper.greedy(str(size), prompt(size), LONG) for size in (2, 9)]
        stepper.finish()
        assert [each.tokens for each in others] == [greedy_text(folder, prompt(size), LONG) for size in (2, 9)]
        assert grammar.accepted == heard.tokens
        return heard.tokens, heard

    plain, _ = told(None)
    assert [token % 3 for token in plain] == [place % 3 for place in range(LONG)]
    drafted, heard = told(Oracle({"ruled": plain}, 1, method=method))
    assert drafted == plain and usage(heard).accepted_tokens > 0


def test_a_seed_gives_its_text_whoever_drafts_and_every_choice_its_own(tiny: Tiny) -> None:
    folder = tiny("hybrid", **SMALL)
    wanted = {str(place): sampling("seed", seed=20 + place) for place in range(4)}
    plain = plainly(folder, wanted)
    stepper = stepper_for(folder, Oracle({name: each.tokens for name, each in plain.items()}, 8))
    shared = Prompt(prompt(9))
    heard = [stepper.submit(name, shared, each) for name, each in wanted.items()]
    stepper.finish()
    assert [each.tokens for each in heard] == [each.tokens for each in plain.values()]
    assert len({tuple(each.tokens) for each in heard}) == 4


# -- preemption and prefixes


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["llama", "hybrid"])
@pytest.mark.parametrize("cache", [None, 1 << 30])
def test_sequences_that_are_preempted_and_restored_say_the_same(tiny: Tiny, family: str, cache: int | None) -> None:
    folder = tiny(family, **FAMILIES[family])
    answers = truths(folder)
    stepper = stepper_for(folder, Oracle(answers, 6), cache=cache)
    stepper.engine.scheduler.draft_choice.proposers += (LookupProposer(),)
    heard = [stepper.greedy(str(size), prompt(size), LONG) for size in SIZES]
    disturb(stepper, 3, 0.2)
    assert [each.tokens for each in heard] == list(answers.values())


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["llama", "hybrid"])
def test_a_conversation_goes_on_from_what_was_drafted(tiny: Tiny, family: str) -> None:
    """The prefix cache keeps an answer as its drafts have left it."""
    folder = tiny(family, **FAMILIES[family])
    first = prompt(70)
    answer = greedy_text(folder, first, LONG)
    follow = (*first, *answer, *prompt(9, seed=4))
    oracle = Oracle({"first": answer, "second": greedy_text(folder, follow, 20)}, 2, wrong=0.3)
    stepper = stepper_for(folder, oracle, cache=1 << 30)
    stepper.greedy("first", first, LONG)
    stepper.finish()
    heard = stepper.greedy("second", follow, 20)
    stepper.finish()
    assert heard.tokens == greedy_text(folder, follow, 20)
    assert heard.cached >= len(first)


# -- a draft model (alone: engine/test_draft_model.py)

PAIRS = [("llama", "hybrid"), ("hybrid", "llama")]
WITH_DRAFT: tuple[SpeculationMethod, ...] = ("draft_model", "lookup", "grammar")


def drafted_by_a_model(tiny: Tiny, target: str, draft: str, oracle: Oracle, layout: str, **options: Any) -> Stepper:
    """`target`, with a draft model that is often wrong, and an oracle beside it."""
    other = tiny(draft, **{**FAMILIES[draft], "seed": 7})
    stepper = stepper_for(tiny(target, **FAMILIES[target]), oracle, layout, methods=WITH_DRAFT, draft=other, **options)
    stepper.engine.scheduler.draft_lengths.method = "draft_model"
    return stepper


@pytest.mark.slow
@pytest.mark.parametrize("traces", [False, True])
@pytest.mark.parametrize("layout", ["rows", *BUCKETED])
@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_rows_with_a_draft_model_beside_rows_with_others(
    tiny: Tiny, target: str, draft: str, layout: str, traces: bool
) -> None:
    answers = truths(tiny(target, **FAMILIES[target]))
    names = {f"{size} {who}": size for size in SIZES[1:] for who in ("draft_model", "lookup", "any", "off")}
    known = {name: answers[str(size)] for name, size in names.items()}
    oracle = Oracle({name: text for name, text in known.items() if "draft" not in name}, 5, silent=0.4)
    stepper = drafted_by_a_model(tiny, target, draft, oracle, layout, chunk=64, traces=traces)
    heard = {}
    for place, (name, size) in enumerate(names.items()):
        who = name.split()[1]
        rules: dict[str, Any] = (
            {"speculation": "off"} if who == "off" else {"speculation": 2 if who == "any" else "auto"}
        )
        if who in ("draft_model", "lookup"):
            rules |= {"speculation_method": who, "speculation": 3 if who == "draft_model" else "auto"}
        heard[name] = stepper.submit(name, prompt(size), greedy(LONG - place, **rules))
        stepper.step(place % 2)
    stepper.finish()
    for place, (name, each) in enumerate(heard.items()):
        assert each.tokens == known[name][: LONG - place], name
        assert (usage(each).accepted_tokens + usage(each).rejected_tokens > 0) == ("off" not in name)
    methods = stepper.engine.scheduler.draft_lengths.stats().methods
    assert methods["draft_model"].num_draft_tokens > 0 and methods["lookup"].num_accepted_tokens > 0


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(ACTIONS, min_size=4, max_size=16),
    layout=st.sampled_from([*sorted(LAYOUTS), *BUCKETED]),
    pair=st.sampled_from(PAIRS),
    itself=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_script_with_a_draft_model_changes_nobodys_tokens(
    tiny: Tiny,
    script: list[tuple[str, int, int, Speculation | None]],
    layout: str,
    pair: tuple[str, str],
    itself: bool,
    seed: int,
) -> None:
    """`itself`: the target drafts for itself, and all that it drafts is right, whatever happened before."""
    target = pair[0]
    folder = tiny(target, **FAMILIES[target])
    answers = truths(folder)
    oracle = Oracle({}, seed)
    if itself:
        stepper = stepper_for(
            folder, oracle, layout, methods=("draft_model",), draft=folder, chunk=48, max_rows=6, cache=1 << 30
        )
        stepper.engine.scheduler.draft_lengths.method = "draft_model"
    else:
        stepper = drafted_by_a_model(tiny, *pair, oracle, layout, chunk=48, max_rows=6, cache=1 << 30)
    asked: dict[str, tuple[int, int]] = {}
    for kind, first, second, depth in script:
        if kind == "join":
            name = str(len(asked))
            asked[name] = (first, second)
            if not itself:
                oracle.answers[name] = answers[str(first)]
            stepper.submit(name, prompt(first), greedy(second, speculation=depth))
        elif kind == "step":
            stepper.step(first)
        elif kind == "preempt":
            stepper.settle()
            running = stepper.engine.scheduler.running
            stepper.engine.preempt([seq for seq in running if seq.number % 3 == first % 3], "policy")
        elif asked:
            stepper.abort(str(first % len(asked)))
    stepper.finish(2000)
    for name, (size, tokens) in asked.items():
        heard, text = stepper.heard[name], answers[str(size)][:tokens]
        if heard.finish_reason == "abort":
            text = text[: len(heard.tokens)]
        assert heard.tokens == text
        if itself and heard.finish_reason == "length":
            assert usage(heard).rejected_tokens == 0
    assert stepper.draft_model is not None and stepper.draft_model.batch is None


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_a_draft_model_changes_nothing_under_any_rule(tiny: Tiny, name: str) -> None:
    folder = tiny("llama", **FAMILIES["llama"])
    wanted = {"ruled": sampling(name), "other": sampling("plain", max_tokens=40)}
    plain = plainly(folder, wanted)
    stepper = drafted_by_a_model(tiny, "llama", "hybrid", Oracle({}), "similar", speculation=3)
    heard = {who: stepper.submit(who, prompt(9), each) for who, each in wanted.items()}
    stepper.finish()
    for who, each in heard.items():
        assert outcome(each) == outcome(plain[who]), who
    assert stepper.engine.scheduler.draft_lengths.stats().methods["draft_model"].num_drafts > 0


def test_a_grammar_masks_every_place_of_a_draft_models_draft(tiny: Tiny) -> None:
    folder = tiny("llama", **FAMILIES["llama"])

    def told(**options: Any) -> list[int]:
        stepper = Stepper(folder, "similar", **options)
        grammar = InTurns(stepper.model.language.vocab_size)
        heard = stepper.submit("ruled", prompt(33), greedy(LONG), grammar)
        other = stepper.greedy("free", prompt(9), LONG)
        stepper.finish()
        assert other.tokens == greedy_text(folder, prompt(9), LONG) and grammar.accepted == heard.tokens
        return heard.tokens

    assert told(speculation=3, methods=("draft_model",), draft=folder) == told()
