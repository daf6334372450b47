"""Deltas, from the engine's thread to event loops."""

from __future__ import annotations

import asyncio

from paceline.delta_stream import MAX_READS_WITHOUT_YIELD, DeltaDispatcher, DeltaStream
from paceline.types import Delta


async def test_reading_a_long_backlog_lets_other_tasks_run() -> None:
    stream = DeltaStream(DeltaDispatcher(), 10**6, lambda: None)
    for _ in range(MAX_READS_WITHOUT_YIELD * 10):
        stream.deliver(Delta(token_ids=(1,)))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    for _ in range(MAX_READS_WITHOUT_YIELD * 10):
        await stream.get()
    beside.cancel()
    assert turns >= 9
