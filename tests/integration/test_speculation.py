"""Speculation changes when tokens come, never which: greedy rows give mlx-lm's and mlx-vlm's own at every depth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.cache.slot_plan import LAYOUTS
from paceline.models.positions import Positions
from paceline.types import MAX_DRAFTED, Prompt, Speculation
from tests.engine.stepper import BUCKETED, loaded
from tests.engine.watched import (
    DEPTHS,
    FAMILIES,
    LENGTHS,
    LISTENING,
    PLACES,
    SMALL,
    TOKENS,
    Erratic,
    Tiny,
    Told,
    Watched,
    ask,
    greedy,
    lengths,
    prompt,
    rounds_alone,
    usage,
)
from tests.integration.test_images import CONVERSATIONS, TEXT, expected
from tests.lengths import examples
from tests.models.test_vision import TWO, built, user
from tests.reference import greedy_text


@pytest.fixture(scope="session")
def small(tiny: Tiny) -> Path:
    return tiny("hybrid", **SMALL)


# -- text: numbers of rows, depths, layouts, chunks


ROWS = {1: "padded", 4: "similar", 8: "rows", 16: "padded"}
CROWDS: list[tuple[str, Speculation, int]] = [("hybrid", depth, count) for depth in DEPTHS for count in ROWS]
CROWDS += [("hybrid_moe", 5, 1), ("hybrid_moe", 3, 4), ("hybrid_moe", "auto", 8), ("hybrid_moe", 1, 16)]
CROWDS += [("hybrid_moe", 2, 16)]


# Every layout for the dense model, one for the mixture.
@pytest.mark.thin(12, first=5)
@pytest.mark.parametrize(("family", "depth", "count"), CROWDS)
def test_sequences_that_join_late_and_leave_early_give_mlx_lms_tokens(
    tiny: Tiny, family: str, depth: Speculation, count: int
) -> None:
    folder = tiny(family, **SMALL)
    stepper = Watched(folder, ROWS[count], chunk=40, speculation=depth)
    wanted = [TOKENS if count == 1 else 3 + 7 * place % (TOKENS - 2) for place in range(count)]
    heard = []
    for place, length in enumerate(lengths(count)):
        heard.append(stepper.greedy(str(place), prompt(length), wanted[place]))
        stepper.step(place % 3)
    stepper.step(2)
    if count > 4:
        stepper.abort("3")
    stepper.finish()
    for place, length in enumerate(lengths(count)):
        tokens = greedy_text(folder, prompt(length), TOKENS)[: wanted[place]]
        if heard[place].finish_reason == "abort":
            assert place == 3
            tokens = tokens[: len(heard[place].tokens)]
        assert heard[place].tokens == tokens
        assert usage(heard[place]).completion_tokens == len(tokens)
    assert sum(stepper.drafts[1:]) > 0


@pytest.mark.thin(14)
@pytest.mark.parametrize("layout", [*LAYOUTS, *BUCKETED])
@pytest.mark.parametrize("depth", DEPTHS)
def test_four_sequences_of_different_lengths_give_mlx_lms_tokens_in_every_layout(
    small: Path, layout: str, depth: Speculation
) -> None:
    """The longest outgrows its buffer of 256 in the middle of a round, and "similar" keeps it apart."""
    stepper = Watched(small, layout, chunk=80, speculation=depth)
    sizes = (1, 9, 70, 245)
    heard = [stepper.greedy(str(length), prompt(length), TOKENS) for length in sizes]
    stepper.finish()
    assert [each.tokens for each in heard] == [greedy_text(small, prompt(length), TOKENS) for length in sizes]
    assert sum(stepper.drafts[1:]) > 0


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_auto_goes_through_many_draft_lengths_and_changes_no_token(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **SMALL)
    stepper = Watched(folder, "padded", speculation="auto")
    stepper.engine.scheduler.draft_lengths = Told()  # learns, probes, and grows sure
    heard = [stepper.greedy(str(length), prompt(length), 90) for length in (2, 9)]
    stepper.finish()
    assert [each.tokens for each in heard] == [greedy_text(folder, prompt(length), 90) for length in (2, 9)]
    assert sum(count > 0 for count in stepper.drafts) >= 4


@pytest.mark.thin(4)
@pytest.mark.parametrize(("family", "layout"), PLACES)
def test_sequences_of_different_draft_lengths_ride_in_one_step(tiny: Tiny, family: str, layout: str) -> None:
    folder = tiny(family)
    stepper = Watched(folder, layout, chunk=64, speculation="off")
    depths: list[Speculation | None] = ["off", "auto", 1, 5, None, 2, 8]
    heard = []
    for place, depth in enumerate(depths):
        heard.append(stepper.submit(str(place), prompt(lengths(7)[place]), greedy(speculation=depth)))
        stepper.step(place % 2)
    stepper.finish()
    for length, each in zip(lengths(7), heard, strict=True):
        assert each.tokens == greedy_text(folder, prompt(length), TOKENS)
    drafted = [usage(each).accepted_tokens + usage(each).rejected_tokens for each in heard]
    assert [count > 0 for count in drafted] == [depth not in ("off", None) for depth in depths]
    rounds = stepper.runner.rounds
    assert [max(rounds[str(place)])[0] for place in (2, 3, 5, 6)] == [1, 5, 2, MAX_DRAFTED]


@pytest.mark.thin(5, first=1)
@pytest.mark.parametrize("layout", [*LAYOUTS, *BUCKETED])
def test_a_draft_length_that_changes_at_every_step_changes_no_token(small: Path, layout: str) -> None:
    stepper = Watched(small, layout, chunk=30, speculation="auto")
    depths = stepper.engine.scheduler.draft_lengths = Erratic(7)
    heard = []
    for place, length in enumerate(lengths(8)):
        heard.append(stepper.greedy(str(place), prompt(length), TOKENS - place))
        stepper.step(place % 3)
    stepper.finish()
    for place, length in enumerate(lengths(8)):
        assert heard[place].tokens == greedy_text(small, prompt(length), TOKENS)[: TOKENS - place]
    assert sum(count > 0 for count in depths.steps) >= 4


@pytest.mark.slow
@pytest.mark.thin(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_chunk_size_gives_the_same_tokens_and_accepts_the_same(tiny: Tiny, family: str) -> None:
    """That a guess is right shows that the head has read the prompt: no token would tell."""
    folder = tiny(family, **LISTENING)
    text = prompt(33)
    chunks = (1, 2, 3, 5, 8, 11, 16, 17, 31, 32, 33) if family == "hybrid" else (1, 7, 32)
    found = []
    for chunk in chunks:
        stepper = Watched(folder, chunk=chunk, speculation=3)
        heard = stepper.greedy("row", text, 16)
        stepper.finish()
        assert heard.tokens == greedy_text(folder, text, TOKENS)[:16], f"chunk {chunk}"
        found.append(stepper.runner.rounds["row"])
    assert found == [found[0]] * len(chunks)
    assert sum(each.kept - 1 for each in found[0]) > 0


ACTIONS = st.one_of(
    st.tuples(
        st.just("join"), st.sampled_from(LENGTHS), st.integers(1, TOKENS), st.sampled_from(["off", "auto", 1, 2, 3, 5])
    ),
    st.tuples(st.just("step"), st.integers(1, 6), st.just(0), st.none()),
    st.tuples(st.just("leave"), st.integers(0, 20), st.just(0), st.none()),
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(ACTIONS, min_size=4, max_size=24),
    chunk=st.integers(1, 100),
    layout=st.sampled_from([*sorted(LAYOUTS), *BUCKETED]),
    max_rows=st.integers(1, 8),
    erratic=st.none() | st.integers(0, 9),
    traces=st.booleans(),
)
def test_any_script_of_joins_leaves_and_draft_lengths_changes_nobodys_tokens(
    small: Path,
    script: list[tuple[str, int, int, Speculation | None]],
    chunk: int,
    layout: str,
    max_rows: int,
    erratic: int | None,
    traces: bool,
) -> None:
    stepper = Watched(small, layout, chunk=chunk, max_rows=max_rows, traces=traces)
    if erratic is not None:
        stepper.engine.scheduler.draft_lengths = Erratic(erratic)
    asked: dict[str, tuple[int, int]] = {}
    aborted = set()
    for kind, first, second, depth in script:
        if kind == "join":
            name = str(len(asked))
            asked[name] = (first, second)
            stepper.submit(name, prompt(first), greedy(second, speculation=depth))
        elif kind == "step":
            stepper.step(first)
        elif asked:
            name = str(first % len(asked))
            aborted.add(name)
            stepper.abort(name)
    stepper.finish(1000)
    for name, (length, tokens) in asked.items():
        heard = stepper.heard[name]
        text = greedy_text(small, prompt(length), TOKENS)[:tokens]
        if heard.finish_reason == "abort":
            assert name in aborted
            assert heard.tokens == text[: len(heard.tokens)]
        else:
            assert (heard.finish_reason, heard.tokens) == ("length", text)
        used = usage(heard)
        assert used.completion_tokens == len(heard.tokens)
        assert used.accepted_tokens <= used.completion_tokens


# -- pictures


@pytest.mark.thin(6, first=2)
@pytest.mark.parametrize(
    ("family", "layout", "depth"),
    [
        ("hybrid", "rows", 1),
        ("hybrid", "similar", 2),
        ("hybrid", "padded", 3),
        ("hybrid", "similar", 5),
        ("hybrid", "padded", "auto"),
        ("hybrid_moe", "similar", 3),
    ],
)
def test_conversations_with_and_without_images_ride_together(
    tiny: Tiny, family: str, layout: str, depth: Speculation
) -> None:
    """One picture, two, several turns, text after a picture, and text alone; the last ones join late."""
    folder = tiny(family)
    stepper = Watched(folder, layout, chunk=48, speculation=depth)
    heard = {}
    for turn, (name, messages) in enumerate([("text", TEXT), *CONVERSATIONS.items()]):
        heard[name] = ask(stepper, folder, messages, name, None)
        stepper.step(turn % 3)
    plain = stepper.greedy("tokens", prompt(9), TOKENS)
    stepper.finish()
    assert heard.pop("text").tokens == expected(folder, TEXT).tokens
    for name, each in heard.items():
        assert each.tokens == expected(folder, CONVERSATIONS[name]).tokens, name
    assert plain.tokens == greedy_text(folder, prompt(9), TOKENS)
    assert sum(stepper.drafts[1:]) > 0


@pytest.mark.thin(2)
@pytest.mark.parametrize(("family", "layout"), [("hybrid", "padded"), ("hybrid_moe", "rows")])
def test_four_images_give_the_same_four_answers_as_without_speculation(tiny: Tiny, family: str, layout: str) -> None:
    folder = tiny(family)
    questions = [(user(place, "What is this?"),) for place in range(4)]
    answers = []
    mixes: list[list[Speculation]] = [["off"] * 4, [3] * 4, ["auto", 1, "off", 5]]
    for depths in mixes:
        stepper = Watched(folder, layout, chunk=40)
        heard = [
            ask(stepper, folder, question, str(place), depth)
            for place, (question, depth) in enumerate(zip(questions, depths, strict=True))
        ]
        text = stepper.submit("text", prompt(2), greedy(speculation=2))
        stepper.finish()
        answers.append([each.tokens for each in heard])
        assert text.tokens == greedy_text(folder, prompt(2), TOKENS)
    assert answers == [[expected(folder, question).tokens for question in questions]] * 3
    assert len(set(map(tuple, answers[0]))) == 4


@pytest.mark.slow
def test_a_chunk_may_end_anywhere_in_an_image_and_the_same_is_accepted(tiny: Tiny) -> None:
    folder = tiny("hybrid", **LISTENING)
    found = []
    for chunk in (1, 5, 9, 16, 33, 200):
        stepper = Watched(folder, "padded", chunk=chunk)
        stepper.submit("before", prompt(2), greedy(40, speculation=2))
        stepper.step(2)
        heard = ask(stepper, folder, TWO, "row", 3)
        stepper.finish()
        assert heard.tokens == expected(folder, TWO).tokens, f"chunk {chunk}"
        found.append(stepper.runner.rounds["row"])
    assert found == [found[0]] * 6
    assert sum(each.kept - 1 for each in found[0]) > 0


# -- what is accepted


@pytest.mark.slow
@pytest.mark.parametrize(("family", "layout"), PLACES)
def test_a_sequence_beside_others_accepts_what_it_accepts_alone(tiny: Tiny, family: str, layout: str) -> None:
    folder = tiny(family, **LISTENING)
    texts = [Prompt(prompt(length)) for length in LENGTHS] + [built(folder, TWO)]
    company: list[Speculation] = ["off", 1, 5, "auto", 8]
    stepper = Watched(folder, layout, chunk=24)
    for place, depth in enumerate(company):
        stepper.submit(f"other {place}", prompt(lengths(5)[-place]), greedy(6 + 5 * place, speculation=depth))
        stepper.submit(str(place), texts[place], greedy(speculation=3))
        stepper.step(place % 3)
    stepper.submit("5", texts[5], greedy(speculation=3))
    stepper.finish()
    for place, text in enumerate(texts):
        rounds = rounds_alone(folder, text, TOKENS, 3)
        assert stepper.runner.rounds[str(place)] == rounds
        used = usage(stepper.heard[str(place)])
        assert used.accepted_tokens == sum(each.kept - 1 for each in rounds) > 0
        assert used.rejected_tokens == sum(each.wrong for each in rounds)


@pytest.mark.thin(4)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pictures", [False, True])
def test_a_sequence_accepts_after_some_tokens_what_it_accepts_when_they_are_in_its_prompt(
    tiny: Tiny, family: str, pictures: bool
) -> None:
    """The head's keys, values and positions while decoding are those of a prefill, after pictures too."""
    folder = tiny(family, **LISTENING)
    text = built(folder, TWO) if pictures else Prompt(prompt(9))
    stepper = Watched(folder, chunk=4096, speculation=3)
    tokens = stepper.greedy("row", text, TOKENS)
    stepper.finish()
    rounds = list(stepper.runner.rounds["row"])
    done = [sum(each.kept for each in rounds[:place]) for place in range(len(rounds))]
    for count in done:
        longer = Prompt((*text.token_ids, *tokens.tokens[:count]), text.media)
        stepper.greedy(f"after {count}", longer, TOKENS - count)
    stepper.finish()
    assert [stepper.runner.rounds[f"after {count}"][0] for count in done] == rounds


def guesses_of_one_pass(folder: Path, text: Prompt, tokens: Sequence[int]) -> list[int]:
    """What the head guesses after each of `tokens` and before the first: all of it read at once, places explicit."""
    model = loaded(folder)
    language, head, vision = model.language, model.head, model.vision
    assert not isinstance(head, str) and vision is not None
    ids = np.array([*text.token_ids, *tokens])
    embeddings = language.embed(mx.array(ids)[None])
    if text.media:
        features = mx.concatenate([vision.encode(image) for image in text.media])
        embeddings[:, mx.array(np.flatnonzero(ids == vision.image_token))] = features
    found = vision.positions(tuple(ids.tolist()), text.media)
    assert found is not None
    places = mx.array(found[0])[:, None]
    target, mine = language.batch(LAYOUTS["rows"]), head.batch(LAYOUTS["rows"])
    target.begin(len(ids), Positions(places))
    hidden = language.hidden(mx.array(ids)[None], target.layers, embeddings)
    mine.begin(len(ids) - 1, Positions(places[..., :-1]))
    states = head.hidden(embeddings[:, 1:], hidden[:, :-1], mine)
    best: Any = mx.argmax(language.logits(states)[0], axis=-1).tolist()
    return [int(token) for token in best[len(text.token_ids) - 2 :]]


@pytest.mark.thin(3)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["text", "two pictures", "three pictures in three turns"])
def test_the_first_draft_token_of_every_speculative_step_is_that_of_one_pass_over_prompt_and_answer(
    tiny: Tiny, family: str, name: str
) -> None:
    folder = tiny(family, **LISTENING)
    text = Prompt(prompt(33)) if name == "text" else built(folder, CONVERSATIONS[name])
    stepper = Watched(folder, chunk=20, speculation=2)
    tokens = stepper.greedy("row", text, TOKENS)
    stepper.finish()
    guesses = guesses_of_one_pass(folder, text, tokens.tokens)
    done = 0
    for each in stepper.runner.rounds["row"]:
        assert each.guesses[0] == guesses[done], f"after {done} tokens"
        done += each.kept


@pytest.mark.slow
def test_a_sequence_that_takes_its_place_before_others_leaves_them_their_draft_tokens(tiny: Tiny) -> None:
    """Among groups of similar length, a newcomer joins its own, before the rows of a later one."""
    folder = tiny("hybrid", **LISTENING)
    stepper = Watched(folder, "similar", chunk=1024, speculation=3)
    order = (9, 600, 33, 70, 590)
    for length in order:
        stepper.greedy(str(length), prompt(length), TOKENS)
        stepper.step(2)
    assert [len(row.prompt.token_ids) for row in stepper.runner.seqs] == [9, 33, 70, 600, 590]
    stepper.finish()
    for length in order:
        assert stepper.heard[str(length)].tokens == greedy_text(folder, prompt(length), TOKENS)
        assert stepper.runner.rounds[str(length)] == rounds_alone(folder, Prompt(prompt(length)), TOKENS, 3)


@pytest.mark.thin(3)
@pytest.mark.parametrize("depth", DEPTHS)
def test_usage_counts_every_draft_token_once(small: Path, depth: Speculation) -> None:
    stepper = Watched(small, "similar", speculation=depth)
    heard = {name: stepper.greedy(name, prompt(length), TOKENS) for name, length in (("a", 1), ("b", 33), ("c", 2))}
    stepper.finish()
    for name, each in heard.items():
        used, rounds = usage(each), stepper.runner.rounds[name]
        assert used.accepted_tokens + used.rejected_tokens == sum(each.depth for each in rounds) > 0
        assert used.accepted_tokens == sum(each.kept - 1 for each in rounds)
        assert used.completion_tokens == len(each.tokens) == TOKENS
    stats = stepper.engine.scheduler.draft_lengths.stats()
    assert stats.num_accepted_tokens == sum(usage(each).accepted_tokens for each in heard.values())
    assert stats.num_accepted_tokens == sum(stats.num_accepted_tokens_per_pos)
    assert stats.num_draft_tokens - stats.num_accepted_tokens == sum(usage(e).rejected_tokens for e in heard.values())
