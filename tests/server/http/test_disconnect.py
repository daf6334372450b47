from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from paceline.server.http.disconnect import unless_disconnected


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def gone() -> Message:
    return {"type": "http.disconnect"}


async def test_work_is_done_while_the_client_stays() -> None:
    assert await unless_disconnected(never, asyncio.sleep(0, "done")) == "done"


async def test_work_that_fails_raises_its_own_error() -> None:
    async def fail() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await unless_disconnected(never, fail())


async def test_work_is_cancelled_and_waited_for_when_the_client_goes() -> None:
    ended = False

    async def work() -> None:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended = True

    with pytest.raises(ClientDisconnect):
        await unless_disconnected(gone, work())
    assert ended


async def test_work_is_cancelled_with_its_caller() -> None:
    ended = asyncio.Event()

    async def stream() -> AsyncIterator[None]:
        try:
            await asyncio.Event().wait()
            yield
        finally:
            ended.set()

    async def work() -> None:
        async for _ in stream():
            pass

    caller = asyncio.create_task(unless_disconnected(never, work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set()
