"""A request while the engine works on it: what is left to read, what it holds, and how it begins again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine.row import Row
from paceline.types import Image, Prompt, RequestId, Sampling, Usage
from tests.engine.test_scheduler import row


def wanted(sampling: Sampling, *images: Image) -> Row:
    text = TextStream(ByteDetokenizer(lambda token: b""))
    return Row(RequestId("row"), Prompt((0,) * 10, images), sampling, 100, text, lambda delta: None)


@pytest.mark.parametrize(
    ("given", "used"), [(0, 0), (7, 7), (2**64 - 1, 2**64 - 1), (2**64 + 5, 5), (-1, 2**64 - 1), (2**63 + 1, 2**63 + 1)]
)
def test_a_seed_keeps_all_its_64_bits(given: int, used: int) -> None:
    assert wanted(Sampling(seed=given)).seed == used


def test_without_a_seed_each_has_one_of_its_own() -> None:
    assert len({wanted(Sampling()).seed for _ in range(10)}) == 10


def test_a_picture_has_the_patches_of_its_whole_grid() -> None:
    nothing = np.zeros((0,), dtype=np.float32)
    assert wanted(Sampling(), Image(nothing, (2, 3, 5), "film"), Image(nothing, (1, 7, 4), "picture")).patches == (
        30,
        28,
    )


def test_a_new_row_has_used_nothing_but_its_prompt() -> None:
    asked = row(10)
    assert asked.usage == Usage(prompt_tokens=10)
    assert (asked.rejected, asked.setbacks, asked.troubles, asked.queued) == (0, 0, 0, 0.0)


def test_the_last_token_of_its_prompt_is_not_prefilled() -> None:
    asked = row(10)
    assert (asked.remaining, asked.length, asked.decodes) == (9, 0, False)
    asked.prefilled = 9
    assert (asked.remaining, asked.length, asked.decodes) == (0, 9, True)
    asked.launched = 3
    assert asked.length == 12


def test_its_last_token_is_never_a_guess() -> None:
    asked = row(10, limit=4)
    assert asked.room == 3
    asked.launched = 3
    assert asked.room == 0
    assert row(1).room == 0  # there is nothing yet that a draft could follow


def test_beginning_again_it_reads_what_it_has_said() -> None:
    asked = row(10)
    asked.prefilled, asked.generated, asked.launched, asked.depth, asked.accepted = 9, [7, 8], 3, 2, 1
    asked.restart()
    assert asked.context == (*asked.prompt.token_ids, 7, 8)
    assert (asked.remaining, asked.said, asked.launched, asked.depth, asked.setbacks) == (11, 2, 2, 0, 1)
    assert (asked.usage.prompt_tokens, asked.usage.completion_tokens, asked.usage.accepted_tokens) == (10, 2, 1)


def test_beginning_again_it_keeps_its_choice_of_tokens() -> None:
    asked = row(10)
    asked.choose(np.array([0, 1, 5, 9]), whole=2)
    assert (len(asked.context), asked.dropped, asked.remaining) == (4, 6, 3)
    asked.generated = [7]
    asked.restart()
    assert len(asked.context) == 5 and asked.dropped == 6 and asked.said == 1


def computed(asked: Row) -> dict[str, Any]:
    """What is lost when a row begins again."""
    names = "prefilled pictured skipped paired delta depth encoded stops batch head carry places pooled remains"
    return {name: getattr(asked, name) for name in [*names.split(), "held", "reads_asked", "group", "scout"]}


def test_beginning_again_nothing_that_was_computed_is_left() -> None:
    asked = row(10)
    fresh = computed(asked)
    for name, value in fresh.items():
        setattr(asked, name, [1] if isinstance(value, list) else 3)
    asked.restart()
    assert computed(asked) == fresh == computed(row(10))


@pytest.mark.parametrize("greeted", [False, True])
def test_beginning_again_it_scores_its_prompt_anew_unless_that_was_told_already(greeted: bool) -> None:
    asked = wanted(Sampling(prompt_logprobs=1))
    assert asked.prompt_logprobs == [None]
    asked.prompt_logprobs, asked.greeted = [None, None, None], greeted
    asked.restart()
    assert asked.prompt_logprobs == ([None, None, None] if greeted else [None])
    plain = wanted(Sampling())
    plain.restart()
    assert plain.prompt_logprobs is None


@pytest.mark.parametrize(
    ("share", "chosen", "generated", "decided"),
    [(None, False, 0, True), (0.5, False, 0, False), (0.5, True, 0, True), (0.5, False, 1, True)],
)
def test_beginning_again_it_is_decided_anew_only_where_it_wants_fewer_tokens_and_none_were_chosen(
    share: float | None, chosen: bool, generated: int, decided: bool
) -> None:
    asked = row(10)
    asked.share = share
    if chosen:
        asked.choose(np.array([0, 9]), whole=1)
    asked.generated = [1] * generated
    asked.restart()
    assert asked.decided is decided


def test_guesses_that_were_counted_before_they_were_made_are_not_less_than_none() -> None:
    asked = row(10)
    asked.rejected = -2
    asked.restart()
    assert asked.rejected == 0
    asked.rejected = 2
    asked.restart()
    assert (asked.rejected, asked.setbacks) == (2, 2)
