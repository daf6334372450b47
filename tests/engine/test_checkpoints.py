from __future__ import annotations

from itertools import pairwise

from paceline.engine.checkpoints import CHECKPOINT_EVERY, HISTORY_SPACING, MIN_STORED, Worth, choose, rope_blocks


def test_a_short_prompt_leaves_none() -> None:
    assert choose(0, MIN_STORED - 1, [12, 15, 50]) == []
    assert choose(0, MIN_STORED, [12, 15, 50]) == [50, MIN_STORED]


def test_a_short_turn_of_a_longer_conversation_leaves_its_start_and_its_end() -> None:
    assert choose(300, 345, [250, 286, 300, 340]) == [340, 345]


def test_a_boundary_right_after_what_is_cached_is_not_worth_it() -> None:
    assert choose(300, 345, [310]) == [345]


def test_the_end_of_the_system_prompt_and_the_start_of_the_last_turn_are_always_chosen() -> None:
    assert choose(0, 320, [250, 253, 290, 315]) == [250, 315, 320]


def test_turn_ends_close_together_share_one() -> None:
    ends = list(range(16, 4800, 16))
    stops = choose(0, 4790, ends)
    inner = stops[1:-2]  # without the first turn, the last and the end
    assert len(inner) < 30
    for before, stop in pairwise(inner):
        assert stop - before >= max(MIN_STORED, HISTORY_SPACING * stop)


def test_where_a_prompt_left_another_is_chosen() -> None:
    assert choose(100, 400, [], known=217) == [217, 400]
    assert choose(217, 400, [], known=217) == [400]


def test_a_long_prompt_has_some_at_regular_distances() -> None:
    assert choose(10, 10_000, []) == [10 + CHECKPOINT_EVERY, 10 + 2 * CHECKPOINT_EVERY, 10_000]


def test_where_passes_split_only_what_saves_more_than_a_pass_is_chosen() -> None:
    worth = Worth.where_passes_split(460)
    assert choose(0, 919, [12, 200], worth=worth) == []
    assert choose(0, 920, [250, 895], known=217, worth=worth) == [920]
    assert choose(0, 3000, [1000, 1100, 2995], worth=worth) == [1000, 2995, 3000]
    assert choose(20_000, 20_600, [20_300, 20_595], worth=worth) == [20_600]


def test_where_a_pass_of_few_tokens_is_cheap_splitting_makes_no_difference_but_for_the_first() -> None:
    assert Worth.where_passes_split(10) == Worth(first=MIN_STORED)


def test_a_dynamic_rope_has_them_at_its_blocks() -> None:
    assert rope_blocks(0, 5000) == [2048, 4096]
    assert rope_blocks(2048, 4095) == []
