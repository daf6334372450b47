"""Speculation changes when tokens come, never which: greedy rows give mlx-lm's and mlx-vlm's own at every depth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.cache.batch import Batch
from paceline.cache.grouping import LAYOUTS, Grouping
from paceline.engine.depth import ENOUGH, Depths
from paceline.engine.forward import Forward, Pass
from paceline.engine.request import MOST_DRAFTED, Prompt, Sampling, Speculation, Usage
from paceline.engine.row import Row
from paceline.engine.runner import Launched, Runner, StepLost
from paceline.engine.speculate import Choose, Drafter
from paceline.models.loader import LoadedModel
from paceline.models.positions import Positions
from tests.engine.stepper import Heard, Stepper, loaded
from tests.engine.test_images import CONVERSATIONS, TEXT, expected
from tests.models.test_vision import TWO, Message, built, user
from tests.reference import greedy_text

Tiny = Callable[..., Path]
FAMILIES = ["hybrid", "hybrid_moe"]
DEPTHS: list[Speculation] = [1, 2, 3, 5, "auto"]
SMALL = {"layers": 4}  # three with a state, one with attention, and the head: half the time
# Here a guess depends on all that the head has read, not just on the last token: where it stands shows in its guesses.
LISTENING = {"layers": 4, "mix": 3.0}
LENGTHS = (1, 2, 9, 33, 70)  # of prompts; few, because the references are computed once for each
TOKENS = 24
PICTURED = 12  # tokens of the answers about pictures


@pytest.fixture(scope="session")
def small(tiny: Tiny) -> Path:
    return tiny("hybrid", **SMALL)


def prompt(length: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(np.random.default_rng([length, seed]).integers(0, 480, length).tolist())


def greedy(tokens: int = TOKENS, **rules: Any) -> Sampling:
    return Sampling(temperature=0, max_tokens=tokens, ignore_eos=True, **rules)


def lengths(count: int) -> list[int]:
    return [LENGTHS[place % len(LENGTHS)] for place in range(count)]


class Told(Depths):
    """Measures nothing: a step costs what a fast machine's would, so that "auto" drafts, and the same in every run."""

    def timed(self, rows: int, depth: int, seconds: float) -> None:
        super().timed(rows, depth, 1 + 0.1 * depth)

    def knowing(self) -> Told:
        """As after some time: a busy minute of coming and going would not be enough to measure anything."""
        for rows in range(1, 33):
            for depth in range(MOST_DRAFTED + 1):
                for _ in range(ENOUGH):
                    self.timed(rows, depth, 0)
        return self


class Erratic(Depths):
    """Every row that drafts gets any depth at every step."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = np.random.default_rng(seed)

    def choose(self, rows: Sequence[Row]) -> int:
        for row in rows:
            wanted = int(self.random.integers(0, 6)) if row.route.drafts else 0
            row.depth = max(0, min(wanted, row.room))
        deepest = max((row.depth for row in rows), default=0)
        self.steps[deepest] += 1
        return deepest


class Round(NamedTuple):
    """One of a row's: its guesses, and how many tokens it kept, the last of which was none."""

    depth: int
    kept: int
    guesses: tuple[int, ...]

    @property
    def wrong(self) -> int:
        return self.depth - self.kept + 1


class WatchedDrafter(Drafter):
    def propose(self, depth: int, choose: Choose) -> list[mx.array]:
        self.guesses = super().propose(depth, choose)
        return self.guesses


class WatchedRunner(Runner):
    """Remembers each row's rounds."""

    def __init__(self, model: LoadedModel, grouping: Grouping, ends: Callable[[Row], frozenset[int]]) -> None:
        super().__init__(model, grouping, ends)
        assert not isinstance(model.head, str), model.head
        self.drafter: WatchedDrafter = WatchedDrafter(model.head, grouping)
        self.rounds: dict[str, list[Round]] = defaultdict(list)
        self._guesses: dict[int, list[mx.array]] = {}  # of rounds that were not read yet
        self.followed = 0  # rounds that were submitted before the one before was read
        self.drifted = 0  # times that the head stood elsewhere than the target, but for what it is owed
        self.lose = False

    def _round(self, batch: Batch, drafter: Drafter, depth: int) -> Launched:
        launched = super()._round(batch, drafter, depth)
        self._guesses[id(launched)] = self.drafter.guesses
        return launched

    def follows(self, launched: Launched, rows: Sequence[Row], depth: int) -> bool:
        result = super().follows(launched, rows, depth)
        self.followed += result
        return result

    def read(self, launched: Launched) -> None:
        if self.lose:
            self.lose = False
            raise StepLost(launched)
        super().read(launched)
        guesses: Any = mx.stack(self._guesses.pop(id(launched)), axis=1).tolist()
        for row, depth, kept, mine in zip(launched.rows, launched.depths, launched.kept, guesses, strict=True):
            if depth and row.finished is None:
                self.rounds[str(row.id)].append(Round(depth, kept, tuple(mine[:depth])))
        if self.batch is not None and not self.batch.ahead:
            self.drifted += self._drifts(self.batch)

    def _drifts(self, batch: Batch) -> bool:
        assert self.drafter.batch is not None and self.drafter.feed is not None
        head, owed = self.drafter.batch, self.drafter.feed.counts
        if head.ahead or not isinstance(owed, list):
            return True
        places = [place + count for place, count in zip(head.places, owed, strict=True)]
        rows = zip(self.rows, batch.places, places, strict=True)
        return any(mine != theirs for row, mine, theirs in rows if row.route.drafts)


class Watched(Stepper):
    runner: WatchedRunner

    def __init__(self, folder: Path, layout: str = "rows", *, traces: bool = False, **options: Any) -> None:
        super().__init__(folder, layout, **options)
        self.runner = WatchedRunner(self.model, LAYOUTS[layout], self.engine.ends)
        if traces:
            drafter = self.runner.drafter
            self.runner.forward = Forward(self.runner._states_and_logits, traces=True, patience=1)
            drafter.forward = Forward(drafter._guess, traces=True, patience=1)
        self.engine.scheduler.depths = Told().knowing()

    def finish(self, limit: int = 20_000) -> None:
        super().finish(limit)
        assert not self.runner.drifted

    @property
    def drafts(self) -> list[int]:
        """By depth, the decode steps so far."""
        return self.engine.scheduler.depths.steps


def usage(heard: Heard) -> Usage:
    found = heard.deltas[-1].usage
    assert found is not None
    return found


def outcome(heard: Heard) -> tuple[Any, ...]:
    """All that a caller can tell of an answer, however it came about."""
    last, used = heard.deltas[-1], usage(heard)
    text = "".join(delta.text for delta in heard.deltas)
    return heard.tokens, text, last.finish_reason, last.stop_reason, used.prompt_tokens, used.completion_tokens


def ask(stepper: Stepper, folder: Path, messages: Sequence[Message], name: str, depth: Speculation | None) -> Heard:
    return stepper.submit(name, built(folder, messages), greedy(PICTURED, speculation=depth))


# -- text: numbers of rows, depths, layouts, chunks


ROWS = {1: "padded", 4: "similar", 8: "rows", 16: "padded"}
CROWDS: list[tuple[str, Speculation, int]] = [("hybrid", depth, count) for depth in DEPTHS for count in ROWS]
CROWDS += [("hybrid_moe", 5, 1), ("hybrid_moe", 3, 4), ("hybrid_moe", "auto", 8), ("hybrid_moe", 1, 16)]
CROWDS += [("hybrid_moe", 2, 16)]
# Every layout for the dense model, one for the mixture.
PLACES = [*(("hybrid", layout) for layout in LAYOUTS), ("hybrid_moe", "similar")]


@pytest.mark.parametrize(("family", "depth", "count"), CROWDS)
def test_rows_that_join_late_and_leave_early_give_mlx_lms_tokens(
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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_four_rows_of_different_lengths_give_mlx_lms_tokens_in_every_layout(
    small: Path, layout: str, depth: Speculation
) -> None:
    """The longest outgrows its buffer of 256 in the middle of a round, and "similar" keeps it apart."""
    stepper = Watched(small, layout, chunk=80, speculation=depth)
    sizes = (1, 9, 70, 245)
    heard = [stepper.greedy(str(length), prompt(length), TOKENS) for length in sizes]
    stepper.finish()
    assert [each.tokens for each in heard] == [greedy_text(small, prompt(length), TOKENS) for length in sizes]
    assert sum(stepper.drafts[1:]) > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_auto_goes_through_many_depths_and_changes_no_token(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **SMALL)
    stepper = Watched(folder, "padded", speculation="auto")
    stepper.engine.scheduler.depths = Told()  # learns, probes, and grows sure
    heard = [stepper.greedy(str(length), prompt(length), 90) for length in (2, 9)]
    stepper.finish()
    assert [each.tokens for each in heard] == [greedy_text(folder, prompt(length), 90) for length in (2, 9)]
    assert sum(count > 0 for count in stepper.drafts) >= 4


@pytest.mark.parametrize(("family", "layout"), PLACES)
def test_rows_of_different_depths_ride_in_one_step(tiny: Tiny, family: str, layout: str) -> None:
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
    assert [max(rounds[str(place)])[0] for place in (2, 3, 5, 6)] == [1, 5, 2, MOST_DRAFTED]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_depth_that_changes_at_every_step_changes_no_token(small: Path, layout: str) -> None:
    stepper = Watched(small, layout, chunk=30, speculation="auto")
    depths = stepper.engine.scheduler.depths = Erratic(7)
    heard = []
    for place, length in enumerate(lengths(8)):
        heard.append(stepper.greedy(str(place), prompt(length), TOKENS - place))
        stepper.step(place % 3)
    stepper.finish()
    for place, length in enumerate(lengths(8)):
        assert heard[place].tokens == greedy_text(small, prompt(length), TOKENS)[: TOKENS - place]
    assert sum(count > 0 for count in depths.steps) >= 4


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


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(ACTIONS, min_size=4, max_size=24),
    chunk=st.integers(1, 100),
    layout=st.sampled_from(sorted(LAYOUTS)),
    max_rows=st.integers(1, 8),
    erratic=st.none() | st.integers(0, 9),
    traces=st.booleans(),
)
def test_any_script_of_joins_leaves_and_depths_changes_nobodys_tokens(
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
        stepper.engine.scheduler.depths = Erratic(erratic)
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
def test_conversations_with_and_without_pictures_ride_together(
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


@pytest.mark.parametrize(("family", "layout"), [("hybrid", "padded"), ("hybrid_moe", "rows")])
def test_four_pictures_give_the_same_four_answers_as_without_speculation(tiny: Tiny, family: str, layout: str) -> None:
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


def test_a_chunk_may_end_anywhere_in_a_picture_and_the_same_is_accepted(tiny: Tiny) -> None:
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


_alone: dict[tuple[Any, ...], list[Round]] = {}


def rounds_alone(folder: Path, text: Prompt, tokens: int, depth: Speculation) -> list[Round]:
    key = folder, text.token_ids, tuple(image.digest for image in text.images), tokens, depth
    if key not in _alone:
        stepper = Watched(folder, chunk=4096)
        stepper.submit("row", text, greedy(tokens, speculation=depth))
        stepper.finish()
        _alone[key] = stepper.runner.rounds["row"]
    return _alone[key]


@pytest.mark.parametrize(("family", "layout"), PLACES)
def test_a_row_beside_others_accepts_what_it_accepts_alone(tiny: Tiny, family: str, layout: str) -> None:
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


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pictures", [False, True])
def test_a_row_accepts_after_some_tokens_what_it_accepts_when_they_are_in_its_prompt(
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
        longer = Prompt((*text.token_ids, *tokens.tokens[:count]), text.images)
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
    if text.images:
        features = mx.concatenate([vision.encode(image) for image in text.images])
        embeddings[:, mx.array(np.flatnonzero(ids == vision.image_token))] = features
    places = mx.array(vision.positions(tuple(ids.tolist()), text.images)[0])[:, None]
    target, mine = language.batch(LAYOUTS["rows"]), head.batch(LAYOUTS["rows"])
    target.begin(len(ids), Positions(places))
    hidden = language.hidden(mx.array(ids)[None], target.layers, embeddings)
    mine.begin(len(ids) - 1, Positions(places[..., :-1]))
    states = head.hidden(embeddings[:, 1:], hidden[:, :-1], mine)
    best: Any = mx.argmax(language.logits(states)[0], axis=-1).tolist()
    return [int(token) for token in best[len(text.token_ids) - 2 :]]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["text", "two pictures", "three pictures in three turns"])
def test_the_first_guess_of_every_round_is_that_of_one_pass_over_prompt_and_answer(
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


def test_a_row_that_takes_its_place_before_others_leaves_them_their_guesses(tiny: Tiny) -> None:
    """Among groups of similar length, a newcomer joins its own, before the rows of a later one."""
    folder = tiny("hybrid", **LISTENING)
    stepper = Watched(folder, "similar", chunk=1024, speculation=3)
    order = (9, 600, 33, 70, 590)
    for length in order:
        stepper.greedy(str(length), prompt(length), TOKENS)
        stepper.step(2)
    assert [len(row.prompt.token_ids) for row in stepper.runner.rows] == [9, 33, 70, 600, 590]
    stepper.finish()
    for length in order:
        assert stepper.heard[str(length)].tokens == greedy_text(folder, prompt(length), TOKENS)
        assert stepper.runner.rounds[str(length)] == rounds_alone(folder, Prompt(prompt(length)), TOKENS, 3)


@pytest.mark.parametrize("depth", DEPTHS)
def test_usage_counts_every_guess_once(small: Path, depth: Speculation) -> None:
    stepper = Watched(small, "similar", speculation=depth)
    heard = {name: stepper.greedy(name, prompt(length), TOKENS) for name, length in (("a", 1), ("b", 33), ("c", 2))}
    stepper.finish()
    for name, each in heard.items():
        used, rounds = usage(each), stepper.runner.rounds[name]
        assert used.accepted_tokens + used.rejected_tokens == sum(each.depth for each in rounds) > 0
        assert used.accepted_tokens == sum(each.kept - 1 for each in rounds)
        assert used.completion_tokens == len(each.tokens) == TOKENS
    stats = stepper.engine.scheduler.depths.stats()
    assert stats["accepted_tokens"] == sum(usage(each).accepted_tokens for each in heard.values())
    assert stats["accepted_tokens"] == sum(stats["accepted_per_position"])
    assert stats["draft_tokens"] - stats["accepted_tokens"] == sum(usage(e).rejected_tokens for e in heard.values())


# -- rows that end in the middle of what was accepted


def in_a_run(folder: Path, length: int, depth: int) -> list[int]:
    """Places in the greedy answer that are followed by another token of the same round."""
    places: list[int] = []
    done = int(length == 1)  # a prompt of one token begins with a plain step
    for each in rounds_alone(folder, Prompt(prompt(length)), TOKENS, depth):
        places += range(done, done + each.kept - 1)
        done += each.kept
    return places


def both(folder: Path, length: int, wanted: Sequence[Sampling], depth: Speculation, **options: Any) -> list[Heard]:
    """The same requests, as rows of one batch, with and without speculation: what their callers hear is the same."""
    answers = []
    for speculation in ("off", depth):
        stepper = Watched(folder, "padded", speculation=speculation, **options)
        answers.append([stepper.submit(str(place), prompt(length), each) for place, each in enumerate(wanted)])
        stepper.finish()
    plain, drafted = answers
    for place, (one, other) in enumerate(zip(plain, drafted, strict=True)):
        assert outcome(one) == outcome(other), wanted[place]
    return drafted


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("depth", [2, 5])
def test_a_row_ends_at_its_max_tokens_wherever_a_round_would_go_on(tiny: Tiny, family: str, depth: int) -> None:
    folder = tiny(family, **SMALL)
    heard = both(folder, 9, [greedy(tokens) for tokens in range(1, 14)], depth)
    text = greedy_text(folder, prompt(9), TOKENS)
    for tokens, each in enumerate(heard, 1):
        assert (each.tokens, each.finish_reason) == (text[:tokens], "length")
        assert usage(each).completion_tokens == tokens
        assert usage(each).accepted_tokens < tokens


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("depth", [2, 5])
def test_a_stop_token_in_the_middle_of_a_round_is_the_last_that_is_delivered(
    tiny: Tiny, family: str, depth: int
) -> None:
    folder = tiny(family, **SMALL)
    text = greedy_text(folder, prompt(9), TOKENS)
    places = range(14)
    assert set(in_a_run(folder, 9, depth)) & set(places)
    heard = both(folder, 9, [greedy(stop_token_ids=(text[place],)) for place in places], depth)
    for place, each in enumerate(heard):
        end = text.index(text[place]) + 1
        assert (each.tokens, each.finish_reason) == (text[:end], "stop")
        assert each.deltas[-1].stop_reason == text[place]
        assert usage(each).completion_tokens == end


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("depth", [2, 5])
def test_a_stop_string_in_the_middle_of_a_round_cuts_the_text(tiny: Tiny, family: str, depth: int) -> None:
    """A token's text is its id in angle brackets: a stop string may lie in one token, or across two."""
    folder = tiny(family, **SMALL)
    text = greedy_text(folder, prompt(9), TOKENS)
    assert set(in_a_run(folder, 9, depth)) & set(range(9))
    stops = [f"<{text[place]}>" for place in range(9)]
    stops += [f"{text[place]}><{str(text[place + 1])[0]}" for place in range(9)]
    heard = both(folder, 9, [greedy(stop=(stop,)) for stop in stops], depth)
    whole = "".join(f"<{token}>" for token in text)
    for stop, each in zip(stops, heard, strict=True):
        assert "".join(delta.text for delta in each.deltas) == whole[: whole.index(stop)]
        assert (each.finish_reason, each.deltas[-1].stop_reason) == ("stop", stop)
        assert usage(each).completion_tokens == whole[: whole.index(stop) + len(stop) - 1].count("<")


@pytest.mark.parametrize("family", FAMILIES)
def test_no_row_ends_before_its_min_tokens_at_any_place_of_a_round(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **SMALL)
    text = greedy_text(folder, prompt(9), TOKENS)
    ends = frozenset(text[1:14:2])
    wanted = [Sampling(temperature=0, max_tokens=TOKENS, min_tokens=least) for least in range(14)]
    wanted += [Sampling(temperature=0, max_tokens=TOKENS, min_tokens=least, stop=(">",)) for least in range(5)]
    for depth in (2, 5):
        heard = both(folder, 9, wanted, depth, end_ids=ends)
        for each, sampling in zip(heard, wanted, strict=True):
            assert ends.isdisjoint(each.tokens[: sampling.min_tokens])
            assert usage(each).completion_tokens >= sampling.min_tokens


@pytest.mark.parametrize("depth", [2, 5])
def test_a_guess_past_a_stop_is_no_part_of_the_completion(small: Path, depth: int) -> None:
    """It was right, and nobody got it: it was thrown away like a wrong one."""
    text = greedy_text(small, prompt(9), TOKENS)
    stepper = Watched(small, speculation=depth)
    heard = [
        stepper.submit(str(place), prompt(9), greedy(stop_token_ids=(token,))) for place, token in enumerate(text[:12])
    ]
    stepper.finish()
    drafted = set(in_a_run(small, 9, depth))
    for place, each in enumerate(heard):
        end = text.index(text[place]) + 1
        accepted = len(drafted & set(range(end)))
        tried = sum(each.depth for each in stepper.runner.rounds[str(place)])
        assert usage(each).accepted_tokens == accepted
        assert usage(each).rejected_tokens == tried - accepted


# -- rules and scores

FEW = {token: 50.0 for token in range(20)}  # a choice among these, so that penalties decide
RULES: dict[str, dict[str, Any]] = {
    "repetition": {"logit_bias": FEW, "repetition_penalty": 5.0},
    "presence": {"logit_bias": FEW, "presence_penalty": 2.0},
    "frequency": {"logit_bias": FEW, "frequency_penalty": -4.0},
    "bias": {"logit_bias": {7: 15.0, 8: -100.0, 100: 14.0}},
    "few": {"logit_bias": FEW},
    "all": {"logit_bias": FEW, "repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.4},
    "none": {},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_penalties_and_bias_give_the_same_tokens_with_speculation(tiny: Tiny, family: str) -> None:
    wanted = [greedy(**rules) for rules in RULES.values()]
    for depth in (1, 3, 5):
        heard = both(tiny(family, **SMALL), 9, wanted, depth)
        assert len({tuple(each.tokens) for each in heard}) == len(RULES)  # every rule does something
        assert all(usage(each).accepted_tokens > 0 for each in heard)


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_are_those_of_plain_decoding(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **SMALL)
    wanted = [
        greedy(logprobs=4),
        greedy(logprobs=0),
        greedy(),
        greedy(logprobs=2, presence_penalty=1.0, logit_bias={7: 9.0}),
        Sampling(temperature=1.1, seed=5, max_tokens=TOKENS, ignore_eos=True, logprobs=3, prompt_logprobs=1),
    ]
    answers = []
    for depth in ("off", 3, 5):
        stepper = Watched(folder, "similar", speculation=depth)
        answers.append([stepper.submit(str(i), prompt(33), sampling) for i, sampling in enumerate(wanted)])
        stepper.finish()
    for drafted in answers[1:]:
        for sampling, one, other in zip(wanted, answers[0], drafted, strict=True):
            scores = [[score for delta in each.deltas for score in delta.logprobs] for each in (one, other)]
            assert len(scores[1]) == (0 if sampling.logprobs is None else TOKENS)
            for a, b in zip(*scores, strict=True):
                assert a.token_id == b.token_id
                assert a.logprob == pytest.approx(b.logprob, abs=1e-4)
                assert [token for token, _ in a.top] == [token for token, _ in b.top]
                assert len(b.top) == sampling.logprobs
                # The unlikelier, the coarser: a mixture's plain prefill and plain decoding differ by as much.
                np.testing.assert_allclose([p for _, p in a.top], [p for _, p in b.top], atol=5e-4)


# -- traced


@pytest.mark.parametrize(("family", "layout"), PLACES)
def test_traced_rounds_give_the_same_tokens_and_accept_the_same(tiny: Tiny, family: str, layout: str) -> None:
    folder = tiny(family, **LISTENING)
    stepper = Watched(folder, layout, chunk=64, traces=True)
    depths: list[Speculation] = [3, "off", "auto", 5, 1, 3]
    heard = []
    for place, depth in enumerate(depths):
        heard.append(stepper.submit(str(place), prompt(lengths(6)[place]), greedy(TOKENS - place, speculation=depth)))
        stepper.step(place % 3)
    pictured = stepper.submit("picture", built(folder, TWO), greedy(TOKENS, speculation=3))
    stepper.finish()
    for place, length in enumerate(lengths(6)):
        assert heard[place].tokens == greedy_text(folder, prompt(length), TOKENS)[: TOKENS - place]
    assert pictured.tokens[:PICTURED] == expected(folder, TWO).tokens
    for name, text in (("0", Prompt(prompt(1))), ("picture", built(folder, TWO))):
        # Near the end, what there is room for depends on what has been read.
        rounds = [each for each in stepper.runner.rounds[name] if each.depth == 3]
        assert rounds == rounds_alone(folder, text, TOKENS + 12, 3)[: len(rounds)]
        assert len(rounds) > 5
    assert stepper.runner.forward.traced_calls > 10
    assert stepper.runner.drafter.forward.traced_calls > 10


def test_traced_rounds_of_a_depth_that_changes_at_every_step_change_no_token(small: Path) -> None:
    stepper = Watched(small, "padded", traces=True, speculation="auto")
    stepper.engine.scheduler.depths = Erratic(3)
    heard = [stepper.greedy(str(length), prompt(length), TOKENS) for length in LENGTHS]
    stepper.finish()
    assert [each.tokens for each in heard] == [greedy_text(small, prompt(length), TOKENS) for length in LENGTHS]
    assert stepper.runner.forward.traced_calls > 5


@pytest.mark.parametrize("depth", ["off", 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_prompt_of_one_token_may_come_alone_after_traced_steps(small: Path, layout: str, depth: Speculation) -> None:
    """It has no keys and no states yet, which is more than its shape says."""
    stepper = Watched(small, layout, traces=True, speculation=depth)
    for name in ("first", "second", "third"):
        stepper.submit(name, prompt(9), greedy(12, speculation="off" if name == "first" else depth))
        stepper.finish()
        heard = stepper.greedy(f"short {name}", prompt(1), TOKENS)
        stepper.step(40)
        assert stepper.engine.failure is None
        assert heard.tokens == greedy_text(small, prompt(1), TOKENS)


LONG = 72


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("depth", [1, 3])
def test_a_round_that_is_submitted_before_the_last_was_read_changes_no_token(
    small: Path, layout: str, depth: int
) -> None:
    stepper = Watched(small, layout, chunk=16, traces=True, speculation=depth)
    texts = {length: greedy_text(small, prompt(length), LONG) for length in (1, 9, 33)}
    heard = [stepper.greedy(str(length), prompt(length), LONG) for length in (1, 9)]
    stepper.step(7)
    heard.append(stepper.greedy("33", prompt(33), LONG))
    off = stepper.submit("off", prompt(9), greedy(20, speculation="off"))
    stops = [
        stepper.submit(f"stop {place}", prompt(9), greedy(LONG, stop_token_ids=(texts[9][place],)))
        for place in (12, 13, 14)
    ]
    stepper.step(11)
    stepper.submit("drawn", prompt(2), Sampling(temperature=1, max_tokens=4, ignore_eos=True))  # nobody follows it
    leaver = stepper.greedy("leaver", prompt(33), LONG)
    stepper.step(12)
    stepper.abort("leaver")
    stepper.finish()
    assert [each.tokens for each in heard] == list(texts.values())
    assert [usage(each).completion_tokens for each in heard] == [LONG] * 3
    assert off.tokens == texts[9][:20]
    for place, each in zip((12, 13, 14), stops, strict=True):
        assert each.tokens == texts[9][: texts[9].index(texts[9][place]) + 1]
        assert usage(each).accepted_tokens < usage(each).completion_tokens == len(each.tokens)
    assert (leaver.finish_reason, leaver.tokens) == ("abort", texts[33][: len(leaver.tokens)])
    assert stepper.runner.followed > 10


# -- when things go wrong


class Failing(Forward):
    """Raises at one call, before or after the pass, and never again."""

    def __init__(self, forward: Forward, call: int, after: bool) -> None:
        super().__init__(forward._function, traces=forward.traces, patience=1)
        self.left = call
        self.after = after

    def __call__(self, batch: Batch, width: int, inputs: Sequence[mx.array], **options: Any) -> Pass:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise RuntimeError("the device is busy")
        result = super().__call__(batch, width, inputs, **options)
        if self.left == 0:
            raise RuntimeError("the device is gone")
        return result


@pytest.mark.parametrize("traces", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("part", ["target", "head"])
def test_a_round_that_fails_is_run_again(small: Path, part: str, after: bool, traces: bool) -> None:
    for call in (3, 4, 5, 6, 9) if part == "target" else (4, 5, 6, 7, 15, 16):
        stepper = Watched(small, "padded", traces=traces, speculation=2)
        drafter = stepper.runner.drafter
        if part == "target":
            failing = stepper.runner.forward = Failing(stepper.runner.forward, call, after)
        else:
            failing = drafter.forward = Failing(drafter.forward, call, after)
        heard = [stepper.greedy(str(length), prompt(length), TOKENS) for length in (9, 33)]
        stepper.step(20)  # enough; a head that is in pieces must not keep the test waiting
        assert failing.left < 0
        assert stepper.engine.failure is None, f"call {call}"
        stepper.finish()
        assert [each.tokens for each in heard] == [greedy_text(small, prompt(length), TOKENS) for length in (9, 33)]


def test_a_round_that_is_lost_ends_its_rows_and_no_others(small: Path) -> None:
    stepper = Watched(small, "padded", chunk=8, speculation=3)
    lost = [stepper.greedy(str(length), prompt(length), TOKENS) for length in (1, 2)]
    stepper.step(4)
    later = stepper.greedy("later", prompt(33), TOKENS)  # in the middle of its prompt when it happens
    stepper.step()
    stepper.runner.lose = True
    stepper.finish()
    for length, each in zip((1, 2), lost, strict=True):
        assert each.finish_reason == "error"
        assert each.tokens == greedy_text(small, prompt(length), TOKENS)[: len(each.tokens)]
    assert later.tokens == greedy_text(small, prompt(33), TOKENS)
    assert stepper.runner.rounds["later"] == rounds_alone(small, Prompt(prompt(33)), TOKENS, 3)
