"""What is chosen at start-up."""

from __future__ import annotations

from pathlib import Path

from paceline.cache.slot_plan import SIMILAR
from paceline.models.prefill_chunk import prefill_chunk
from tests.engine.stepper import loaded


def test_the_prefill_chunk_is_a_power_of_two_that_follows_the_target(llama: Path) -> None:
    model = loaded(llama).language
    assert prefill_chunk(model, SIMILAR, target=0) == 64
    assert prefill_chunk(model, SIMILAR, target=1e6) == 2048
    assert prefill_chunk(model, SIMILAR).bit_count() == 1
