"""`python -m benchmarks streams`."""

from __future__ import annotations

import pytest

from benchmarks.streams import BODIES, measure


@pytest.mark.slow
async def test_every_api_streams_to_its_end_and_is_timed() -> None:
    costs = await measure(2, 20, 1)
    assert [cost.endpoint for cost in costs] == list(BODIES)
    assert all(min(*cost.microseconds, *cost.steps, cost.alone) > 0 for cost in costs)
