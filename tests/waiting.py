"""Waiting for what another thread or process does: for the thing itself, never for the time it should take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

WAIT = 120.0  # seconds until a test that waits has failed: no machine is so busy


def until(holds: Callable[[], object], seconds: float = WAIT) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


async def until_async(holds: Callable[[], object]) -> None:
    """The same for a test that runs on an event loop."""
    deadline = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.002)
