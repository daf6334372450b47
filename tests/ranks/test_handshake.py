from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.ranks.handshake import Identity, RankRefused

LEADER = Identity(0, 2, "1.0", "mlx 1, mlx-lm 2", "abc", {"dtype": "float32", "max_draft": "4"})
OTHER = replace(LEADER, rank=1)


def test_a_rank_that_is_the_same_is_accepted() -> None:
    LEADER.check(Identity.from_json(OTHER.to_json()))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": "1.1"}, "it has Paceline 1.1, and rank 0 has 1.0"),
        ({"packages": "mlx 2"}, "it has packages mlx 2"),
        ({"weights": "abd"}, "its weights or its config.json differ"),
        ({"world": 3}, "one of 3 ranks, and rank 0 as one of 2"),
        ({"rank": 2}, "there is no rank 2 among 2"),
        ({"rank": 0}, "there is no rank 0 among 2"),
        ({"settings": {"dtype": "float32", "max_draft": "8"}}, "max_draft is 8 there, and 4 on rank 0"),
        ({"settings": {"dtype": "float32"}}, "max_draft is nothing there, and 4 on rank 0"),
    ],
)
def test_what_differs_is_the_reason(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(RankRefused, match=said):
        LEADER.check(replace(OTHER, **changed))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (OTHER.to_json() | {"protocol": 2}, "version 2 of the protocol"),
        ({"hello": "world"}, "version None of the protocol"),
        ([1], "version None of the protocol"),
        ({"protocol": 1, "rank": 1}, "it does not say who it is"),
    ],
)
def test_what_is_no_identity_is_refused(found: Any, said: str) -> None:
    with pytest.raises(RankRefused, match=said):
        Identity.from_json(found)
