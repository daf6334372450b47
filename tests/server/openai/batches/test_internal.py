"""The server's requests to itself have the answers that clients get."""

from __future__ import annotations

import asyncio

import pytest

from paceline.server.app import create_app
from paceline.server.http.requests import Requests
from paceline.server.openai.batches.internal import InternalCalls
from paceline.settings import Settings
from tests.server.fake_service import REPLY, FakeService


async def test_a_call_needs_no_key_and_has_the_routes_answer() -> None:
    service = FakeService()
    await service.start()
    requests = Requests(service.abort)
    calls = InternalCalls(create_app(service, Settings.model_validate({"api_key": "secret"})), requests)
    good = await calls.post("/v1/completions", {"prompt": "x", "max_tokens": 100}, "key-1")
    assert good.status == 200 and good.body["choices"][0]["text"] == REPLY
    assert service.requests[-1].tenant == "batches/key-1"
    await calls.post("/v1/completions", {"prompt": "x", "user": "ann"}, None)
    assert service.requests[-1].tenant == "batches/all"
    bad = await calls.post("/v1/completions", {}, "key-1")
    assert bad.status == 400 and bad.body["error"]["param"] == "prompt"
    crashed = await calls.post("/v1/completions", {"prompt": "!crash"}, "key-1")
    assert crashed.status == 500 and crashed.body["error"]["type"] == "server_error"


async def test_a_cancelled_call_frees_its_sequences() -> None:
    service = FakeService()
    await service.start()
    calls = InternalCalls(create_app(service, Settings()), Requests(service.abort))
    task = asyncio.create_task(calls.post("/v1/completions", {"prompt": "!hang 1"}, None))
    await asyncio.to_thread(service.hanging.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.idle.is_set()
