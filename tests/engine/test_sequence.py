"""A request while the engine works on it: what is left to read, what it holds, and how it begins again."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pytest

from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.types import Media, Prompt, RequestId, Sampling, Usage
from tests.engine.test_scheduler import seq


def wanted(sampling: Sampling, *media: Media) -> Sequence:
    text = TextStream(ByteDetokenizer(lambda token: b""))
    return Sequence(EngineRequest(RequestId("row"), Prompt((0,) * 10, media), sampling, 100), text, lambda delta: None)


@pytest.mark.parametrize(
    ("given", "used"), [(0, 0), (7, 7), (2**64 - 1, 2**64 - 1), (2**64 + 5, 5), (-1, 2**64 - 1), (2**63 + 1, 2**63 + 1)]
)
def test_a_seed_keeps_all_its_64_bits(given: int, used: int) -> None:
    assert wanted(Sampling(seed=given)).seed == used


def test_without_a_seed_each_has_one_of_its_own() -> None:
    assert len({wanted(Sampling()).seed for _ in range(10)}) == 10


def test_each_of_its_media_has_a_cost() -> None:
    film, picture = Media("film", 5, 9, cost=30, kind="video"), Media("picture", 7, 9, cost=28)
    assert wanted(Sampling(), film, picture).media_costs == (30, 28)


def test_a_new_sequence_has_used_nothing_but_its_prompt() -> None:
    asked = seq(10)
    assert asked.usage == Usage(prompt_tokens=10)
    assert (asked.rejected, asked.preemptions, asked.oom_retries, asked.queue.seconds) == (0, 0, 0, 0.0)


def test_the_last_token_of_its_prompt_is_not_prefilled() -> None:
    asked = seq(10)
    assert (asked.remaining, asked.length, asked.is_decoding) == (9, 0, False)
    asked.computed.tokens = 9
    assert (asked.remaining, asked.length, asked.is_decoding) == (0, 9, True)
    asked.scheduled = 3
    assert asked.length == 12


def test_its_last_token_is_never_a_draft_token() -> None:
    asked = seq(10, limit=4)
    assert asked.max_draft_length == 3
    asked.scheduled = 3
    assert asked.max_draft_length == 0
    assert seq(1).max_draft_length == 0  # there is nothing yet that a draft could follow


def test_beginning_again_it_reads_what_it_has_said() -> None:
    asked = seq(10)
    asked.computed.tokens, asked.generated, asked.scheduled, asked.draft.length, asked.accepted = 9, [7, 8], 3, 2, 1
    asked.reset_for_recompute()
    assert asked.context == (*asked.prompt.token_ids, 7, 8)
    assert (asked.remaining, asked.recomputed, asked.scheduled, asked.draft.length, asked.preemptions) == (
        11,
        2,
        2,
        0,
        1,
    )
    assert (asked.usage.prompt_tokens, asked.usage.completion_tokens, asked.usage.accepted_tokens) == (10, 2, 1)


def test_beginning_again_it_keeps_its_choice_of_tokens() -> None:
    asked = seq(10)
    asked.keep_only(np.array([0, 1, 5, 9]), dense_prefix=2)
    assert (len(asked.context), asked.dropped, asked.remaining) == (4, 6, 3)
    asked.generated = [7]
    asked.reset_for_recompute()
    assert len(asked.context) == 5 and asked.dropped == 6 and asked.recomputed == 1


def computed(asked: Sequence) -> dict[str, Any]:
    """What is lost when a sequence begins again."""
    prefix, draft = asdict(asked.prefix), asdict(asked.draft)
    kept = ("key", "tree", "cached_tokens", "pinned", "stored", "mtp_prefill")
    state = asdict(asked.computed) | {"scorer": asked.sparse.scorer}
    return state | {name: value for name, value in [*prefix.items(), *draft.items()] if name not in kept}


def test_beginning_again_nothing_that_was_computed_is_left() -> None:
    asked = seq(10)
    fresh = computed(asked)
    asked.sparse.scorer = 3
    for state in (asked.computed, asked.draft, asked.prefix):
        for part in fields(state):
            setattr(state, part.name, [1] if isinstance(getattr(state, part.name), list) else 3)
    asked.reset_for_recompute()
    assert computed(asked) == fresh == computed(seq(10))
    assert asked.prefix.stored == [1] and asked.prefix.pinned == asked.prefix.key == 3


@pytest.mark.parametrize("greeted", [False, True])
def test_beginning_again_it_scores_its_prompt_anew_unless_that_was_told_already(greeted: bool) -> None:
    asked = wanted(Sampling(prompt_logprobs=1))
    assert asked.prompt_logprobs == [None]
    asked.prompt_logprobs, asked.first_delta_sent = [None, None, None], greeted
    asked.reset_for_recompute()
    assert asked.prompt_logprobs == ([None, None, None] if greeted else [None])
    plain = wanted(Sampling())
    plain.reset_for_recompute()
    assert plain.prompt_logprobs is None


@pytest.mark.parametrize(
    ("share", "chosen", "generated", "decided"),
    [(None, False, 0, True), (0.5, False, 0, False), (0.5, True, 0, True), (0.5, False, 1, True)],
)
def test_beginning_again_it_is_decided_anew_only_where_it_wants_fewer_tokens_and_none_were_chosen(
    share: float | None, chosen: bool, generated: int, decided: bool
) -> None:
    asked = seq(10)
    asked.sparse.keep_ratio = share
    if chosen:
        asked.keep_only(np.array([0, 9]), dense_prefix=1)
    asked.generated = [1] * generated
    asked.reset_for_recompute()
    assert asked.sparse.decided is decided


def test_draft_tokens_that_were_counted_before_they_were_made_are_not_less_than_none() -> None:
    asked = seq(10)
    asked.rejected = -2
    asked.reset_for_recompute()
    assert asked.rejected == 0
    asked.rejected = 2
    asked.reset_for_recompute()
    assert (asked.rejected, asked.preemptions) == (2, 2)
