"""Logits processors against what they say in plain Python: alone, in company, recounted, and with draft tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.engine import logits_processors, sequence
from paceline.engine.logits_processors import LONGEST_MATCH, PROCESSORS, Dry, _repeated
from paceline.types import Sampling, SamplingTokens, ThinkMarks
from tests.engine.test_sampler import Steps, numbers, random_logits, seq
from tests.lengths import examples

VOCABULARY = 12
OPEN, CLOSE, AFTER = 9, 10, 11
THINK = ThinkMarks((OPEN,), CLOSE, (CLOSE,))
CHANNEL = ThinkMarks((8, OPEN), CLOSE, (CLOSE, AFTER, 7))  # as a format of channels has it
DRY: dict[str, Any] = {"dry_multiplier": 2.0, "dry_allowed_length": 1}


def dry(prompt: Sequence[int], breakers: frozenset[int] = frozenset(), **rules: Any) -> sequence.Sequence:
    return seq(Sampling(temperature=0, **{**DRY, **rules}), prompt, SamplingTokens(dry_breakers=breakers))


def banned(prompt: Sequence[int], *words: tuple[int, ...]) -> sequence.Sequence:
    return seq(Sampling(temperature=0), prompt, SamplingTokens(bad_words=words))


def thinking(budget: int, marks: ThinkMarks = THINK, **rules: Any) -> sequence.Sequence:
    return seq(Sampling(temperature=0, thinking_token_budget=budget, **rules), (0,), SamplingTokens(think=marks))


# -- references


def penalties(each: sequence.Sequence) -> np.ndarray[Any, Any]:
    """DRY's by its definition: for each token, the longest repetition that it would make longer."""
    s, breakers = each.sampling, each.request.tokens.dry_breakers
    said = [*each.prompt.token_ids, *each.generated]
    said = said[-s.dry_penalty_last_n :] if s.dry_penalty_last_n > 0 else said
    result = np.zeros(VOCABULARY)
    for place in range(len(said) - 1):
        length = 0
        while length <= place and said[place - length] == said[-1 - length] and said[place - length] not in breakers:
            length += 1
        token = said[place + 1]
        if length >= s.dry_allowed_length and token not in breakers:
            result[token] = max(result[token], s.dry_multiplier * s.dry_base ** (length - s.dry_allowed_length))
    return result


def forced(each: sequence.Sequence) -> tuple[int | None, int | None]:
    """The token that must come, and the one that must not."""
    marks, left = each.request.tokens.think, each.sampling.thinking_token_budget
    assert marks is not None and left is not None
    inside = marks.begins_open
    queue: list[int] = []
    said = each.generated
    for place, token in enumerate(said):
        if inside and left <= 0 and not queue:
            queue = list(marks.forced)
        queue = queue[1:]
        left -= inside and token != marks.close
        inside = (inside and token != marks.close) or tuple(said[: place + 1][-len(marks.open) :]) == marks.open
    if queue or (inside and left <= 0):
        return (queue or marks.forced)[0], None
    return None, marks.close if left <= 0 and len(marks.forced) == 1 else None


def expected(each: sequence.Sequence, logits: np.ndarray[Any, Any]) -> int:
    scores = logits - penalties(each) if Dry.concerns(each) else logits.copy()
    said = [*each.prompt.token_ids, *each.generated]
    for word in each.request.tokens.bad_words:
        if len(word) == 1 or tuple(said[-(len(word) - 1) :]) == word[:-1]:
            scores[word[-1]] = -np.inf
    if each.request.tokens.think is not None:
        token, banned = forced(each)
        if token is not None:
            return token
        if banned is not None:
            scores[banned] = -np.inf
    return int(scores.argmax())


TOKENS = st.integers(0, 4)  # few, so that they repeat
ROWS = st.one_of(
    st.builds(
        dry,
        st.lists(TOKENS, min_size=1, max_size=12),
        st.sampled_from([frozenset(), frozenset({2})]),
        dry_allowed_length=st.integers(1, 3),
        dry_penalty_last_n=st.sampled_from([-1, 3, 7]),
    ),
    st.builds(banned, st.lists(TOKENS, min_size=1, max_size=3), st.tuples(TOKENS), st.tuples(TOKENS, TOKENS, TOKENS)),
    st.builds(
        thinking, st.integers(0, 4), st.sampled_from([THINK, CHANNEL, ThinkMarks((OPEN,), CLOSE, (CLOSE,), True)])
    ),
    st.builds(lambda: seq(Sampling(temperature=0))),
)


@settings(max_examples=examples(60), deadline=None)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=6), seed=st.integers(0, 999), keep=st.integers(0, 63), again=st.booleans()
)
def test_rows_in_any_company_choose_as_the_definition_does_for_each_alone(
    rows: list[sequence.Sequence], seed: int, keep: int, again: bool
) -> None:
    steps = Steps(rows, VOCABULARY)
    for step in range(10):
        logits = random_logits(len(rows), VOCABULARY, seed=seed + step)
        wanted = [expected(each, logits[row]) for row, each in enumerate(rows)]
        assert steps(logits) == wanted
        if step == 4:  # some leave, the others' places change
            rows = [each for row, each in enumerate(rows) if keep >> row & 1][::-1] or rows
            if again:
                steps.sampler.forget()  # as after a preemption
            steps.arrange(rows)


@settings(max_examples=examples(40), deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=4), seed=st.integers(0, 999), width=st.integers(1, 4))
def test_draft_tokens_that_are_verified_give_the_tokens_of_plain_steps(
    rows: list[sequence.Sequence], seed: int, width: int
) -> None:
    """The draft's logits are the target's for some places, others for the rest."""
    steps = Steps(rows, VOCABULARY)
    target = random_logits(len(rows), 40, VOCABULARY, seed=seed)
    draft = random_logits(len(rows), 40, VOCABULARY, seed=seed + 1)
    draft = np.where(np.random.default_rng(seed).random((len(rows), 40, 1)) < 0.7, target, draft)
    last = mx.array([each.prompt.token_ids[-1] for each in rows])
    for _ in range(4):
        guesses: list[mx.array] = []
        for place in range(width):
            at = np.stack([draft[row, len(each.generated) + place] for row, each in enumerate(rows)])
            guesses.append(steps.sampler.propose(mx.array(at.astype(np.float32)), place, guesses))
        for each in rows:
            each.draft.length = width
        logits = np.stack([target[row, len(each.generated) :][: width + 1] for row, each in enumerate(rows)])
        sampled = steps.sampler.verify(mx.array(logits.astype(np.float32)), last, guesses)
        assert sampled.kept is not None and sampled.last is not None
        last = sampled.last
        for row, (each, count) in enumerate(zip(rows, numbers(sampled.kept), strict=True)):
            for token in numbers(sampled.tokens[row])[:count]:
                assert token == expected(each, target[row, len(each.generated)])
                each.generated.append(token)
                each.scheduled += 1


# -- each by itself


def test_a_longer_repetition_costs_more() -> None:
    each = dry((1, 2, 3, 4, 1, 2, 3), dry_base=2.0)
    assert penalties(each)[4] == 2.0 * 2.0**2
    logits = np.zeros((1, VOCABULARY))
    logits[0, 4], logits[0, 5] = 11.0, 2.0
    assert Steps([each], VOCABULARY)(logits) == [4]
    logits[0, 4] = 9.0
    assert Steps([dry((1, 2, 3, 4, 1, 2, 3), dry_base=2.0)], VOCABULARY)(logits) == [5]


def test_a_breaker_ends_a_repetition() -> None:
    logits = np.zeros((1, VOCABULARY))
    logits[0, 4], logits[0, 5] = 1.0, 0.5
    prompt = (1, 2, 4, 1, 2)
    assert Steps([dry(prompt)], VOCABULARY)(logits) == [5]
    assert Steps([dry(prompt, frozenset({2}))], VOCABULARY)(logits) == [4]
    assert Steps([dry(prompt, frozenset({4, 900}))], VOCABULARY)(logits) == [4]  # one past the vocabulary, too


def test_a_history_that_outgrows_its_room_is_made_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logits_processors, "GROWTH", 10)
    each = dry((1, 2, 3))
    steps = Steps([each], VOCABULARY)
    for step in range(40):
        logits = random_logits(1, VOCABULARY, seed=step % 5)
        wanted = expected(each, logits[0])
        assert steps(logits) == [wanted]
    assert steps.sampler._processors[0].state()[0].shape[1] > 16


def test_a_penalty_has_an_end() -> None:
    """A match is counted up to a limit, and a huge base gives no number that is none."""
    each = dry([1] * 400, dry_base=50.0)
    logits = np.zeros((1, VOCABULARY))
    logits[0, 1] = 5.0
    assert Steps([each], VOCABULARY)(logits) == [0]
    assert _repeated(np.array([1] * 400, dtype=np.int32), ()).max() == LONGEST_MATCH


def test_the_end_of_thinking_is_forced_after_the_budget_and_not_before() -> None:
    likes = np.zeros((1, VOCABULARY))
    likes[0, 3] = 5.0
    assert [Steps([thinking(4)], VOCABULARY)(likes) for _ in range(6)] == [[3]] * 6  # it never thinks
    steps = Steps([thinking(2, ThinkMarks((OPEN,), CLOSE, (CLOSE,), begins_open=True))], VOCABULARY)
    assert [steps(likes)[0] for _ in range(6)] == [3, 3, CLOSE, 3, 3, 3]
    steps = Steps([thinking(0, ThinkMarks((OPEN,), CLOSE, (CLOSE, AFTER), begins_open=True))], VOCABULARY)
    assert [steps(likes)[0] for _ in range(4)] == [CLOSE, AFTER, 3, 3]


def test_the_forced_mark_is_not_written_again_unless_it_has_other_uses() -> None:
    likes = np.zeros((1, VOCABULARY))
    likes[0, CLOSE], likes[0, 3] = 5.0, 4.0
    steps = Steps([thinking(0, ThinkMarks((OPEN,), CLOSE, (CLOSE,), begins_open=True))], VOCABULARY)
    assert [steps(likes)[0] for _ in range(4)] == [CLOSE, 3, 3, 3]
    steps = Steps([thinking(0, ThinkMarks((OPEN,), CLOSE, (CLOSE, AFTER), begins_open=True))], VOCABULARY)
    assert [steps(likes)[0] for _ in range(4)] == [CLOSE, AFTER, CLOSE, CLOSE]


def test_a_model_that_ends_its_thinking_itself_is_left_alone() -> None:
    steps = Steps([thinking(2, ThinkMarks((OPEN,), CLOSE, (CLOSE, AFTER), begins_open=True))], VOCABULARY)
    logits = [np.eye(VOCABULARY)[[token]] for token in (3, CLOSE, 4, 5, OPEN, 6, 6, 6)]
    assert [steps(row)[0] for row in logits] == [3, CLOSE, 4, 5, OPEN, 6, CLOSE, AFTER]


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_what_is_forced_is_stronger_than_a_bias(temperature: float) -> None:
    marks = ThinkMarks((OPEN,), CLOSE, (CLOSE,), begins_open=True)
    rules = Sampling(temperature=temperature, seed=1, thinking_token_budget=0, logit_bias={CLOSE: -100.0}, top_k=3)
    steps = Steps([seq(rules, (0,), SamplingTokens(think=marks))], VOCABULARY)
    assert steps(random_logits(1, VOCABULARY)) == [CLOSE]


def test_rows_that_ask_for_nothing_have_no_processor() -> None:
    steps = Steps([seq(Sampling()), seq(Sampling(dry_multiplier=1.0, dry_penalty_last_n=0))], VOCABULARY)
    assert steps.sampler._processors == []
    assert all(not kind.concerns(seq(Sampling(thinking_token_budget=3))) for kind in PROCESSORS)  # it does not think
