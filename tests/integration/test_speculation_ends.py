"""Rows that end in the middle of a round, and rows with rules: what plain decoding gives, counted once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.types import Prompt, Sampling, Speculation
from tests.engine.stepper import Heard
from tests.engine.watched import FAMILIES, SMALL, TOKENS, Tiny, Watched, greedy, outcome, prompt, rounds_alone, usage
from tests.reference import greedy_text


@pytest.fixture(scope="session")
def small(tiny: Tiny) -> Path:
    return tiny("hybrid", **SMALL)


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


@pytest.mark.thin(4)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("depth", [2, 5])
def test_a_sequence_ends_at_its_max_tokens_wherever_a_speculative_step_would_go_on(
    tiny: Tiny, family: str, depth: int
) -> None:
    folder = tiny(family, **SMALL)
    heard = both(folder, 9, [greedy(tokens) for tokens in range(1, 14)], depth)
    text = greedy_text(folder, prompt(9), TOKENS)
    for tokens, each in enumerate(heard, 1):
        assert (each.tokens, each.finish_reason) == (text[:tokens], "length")
        assert usage(each).completion_tokens == tokens
        assert usage(each).accepted_tokens < tokens


@pytest.mark.thin(4)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("depth", [2, 5])
def test_a_stop_token_in_the_middle_of_a_speculative_step_is_the_last_that_is_delivered(
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


@pytest.mark.thin(4, first=2)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("depth", [2, 5])
def test_a_stop_string_in_the_middle_of_a_speculative_step_cuts_the_text(tiny: Tiny, family: str, depth: int) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_sequence_ends_before_its_min_tokens_at_any_place_of_a_speculative_step(tiny: Tiny, family: str) -> None:
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


@pytest.mark.thin(2, first=1)
@pytest.mark.parametrize("depth", [2, 5])
def test_a_draft_token_past_a_stop_is_no_part_of_the_completion(small: Path, depth: int) -> None:
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
        accepted = len(drafted & set(range(end - 1)))  # the end itself counts as the model's own: nothing follows it
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


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_penalties_and_bias_give_the_same_tokens_with_speculation(tiny: Tiny, family: str) -> None:
    wanted = [greedy(**rules) for rules in RULES.values()]
    for depth in (1, 3, 5):
        heard = both(tiny(family, **SMALL), 9, wanted, depth)
        assert len({tuple(each.tokens) for each in heard}) == len(RULES)  # every rule does something
        assert all(usage(each).accepted_tokens > 0 for each in heard)


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_are_those_of_plain_decoding(tiny: Tiny, family: str) -> None:
    folder = tiny(family, **SMALL)
    wanted = [
        greedy(logprobs=4),
        greedy(logprobs=0),
        greedy(logprobs=0, logprob_token_ids=(9, 3)),
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
                ids = sampling.logprob_token_ids
                assert len(b.top) == (len({b.token_id, *ids}) if ids else sampling.logprobs)
                # The unlikelier, the coarser: a mixture's plain prefill and plain decoding differ by as much.
                np.testing.assert_allclose([p for _, p in a.top], [p for _, p in b.top], atol=5e-4)
