"""A request while the engine works on it: what is left to read, what it holds, and how it begins again."""

from __future__ import annotations

import numpy as np

from tests.engine.test_scheduler import row


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
