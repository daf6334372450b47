"""What the prefix cache says it holds is what MLX holds: nothing keeps a whole buffer alive for a piece of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.types import Prompt, Speculation
from tests.engine.stepper import Stepper
from tests.memory import held

PLENTY = 1 << 30


@pytest.mark.thin(6)
@pytest.mark.parametrize("speculation", ["off", 2])
@pytest.mark.parametrize("layout", ["rows", "padded"])
def test_pieces_cut_inside_a_chunk_hold_no_more_than_they_say(
    hybrid: Path, layout: str, speculation: Speculation
) -> None:
    """A restored row has room for all of its prompt at once, and its stops lie anywhere."""
    stepper = Stepper(hybrid, layout, chunk=300, cache=PLENTY, speculation=speculation)
    tokens = tuple((7 * place * place + place) % 500 for place in range(3000))
    stepper.greedy("warm", tokens[:40], 3)
    stepper.finish()
    before = held() - stepper.reuse.cache.memory
    stepper.greedy("long", Prompt(tokens, boundaries=(110, 740, 1490, 2210)), 3)
    stepper.greedy("other", Prompt((*tokens[:1490], *tokens[:900]), boundaries=(110, 740, 1490)), 3)
    stepper.finish()
    counted = stepper.reuse.cache.memory
    assert counted > 1_000_000
    assert abs(held() - before - counted) < 0.1 * counted
