from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from paceline.server import status_stream
from paceline.server.app import create_app
from paceline.server.http.drain import DrainGate
from paceline.server.http.requests import Requests, Viewer
from paceline.server.metrics import Metrics
from paceline.server.state import AppState
from paceline.server.status_stream import END, StatusBroadcast
from paceline.settings import Settings
from paceline.stats import Stats
from tests.server.fake_service import SCHEDULING, SEQUENCE, FakeService
from tests.server.harness import post_chat, refused, serve, user
from tests.waiting import WAIT

ADMIN = Viewer(None, admin=True)


def read(lines: Iterator[str]) -> tuple[str, Any]:
    """The next event of a stream, comments left out."""
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        if line.startswith("data: "):
            return name, json.loads(line.removeprefix("data: "))
    return "", None


def parsed(content: bytes) -> tuple[str, Any]:
    return read(iter(content.decode().splitlines()))


def state_of(service: FakeService) -> AppState:
    metrics = Metrics("m", service.stats)
    return AppState(service, Settings(), metrics, DrainGate(), Requests(service.abort))


@asynccontextmanager
async def opened(broadcast: StatusBroadcast, viewer: Viewer = ADMIN) -> AsyncIterator[Any]:
    """A reader that has had its first two events."""
    events = broadcast.events(viewer)
    assert parsed(await anext(events))[0] == "history"
    assert parsed(await anext(events))[0] == "status"
    waiting = asyncio.create_task(anext(events))  # it is a reader from here on
    while not broadcast.readers:
        await asyncio.sleep(0)
    try:
        yield waiting, events
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await events.aclose()


def test_a_reader_sees_a_request_come_and_go() -> None:
    service = FakeService()
    service.statistics = SCHEDULING
    with serve(service, Settings()) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        post_chat(http)
        with http.stream("GET", "/v1/status/stream") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            lines = response.iter_lines()
            name, history = read(lines)
            assert name == "history" and sum(slot["finished"] for slot in history["slots"]) == 1
            name, status = read(lines)
            assert name == "status" and status["num_requests_running"] == 0
            assert status["memory_budget"]["parts"] == {"weights": 400, "sequence images": 200}
            assert status["requests_refused"]["queue_full"] == 0
            body = {"messages": user("!hang 1"), "stream": True}
            with http.stream("POST", "/v1/chat/completions", json=body) as answer:
                chunks = answer.iter_bytes()
                assert any(b'"H"' in chunk for chunk in chunks)
                service.statistics = replace(SCHEDULING, time=1.0, running_sequences=(SEQUENCE,))
                while not status["running_sequences"]:
                    status = read(lines)[1]
                assert status["num_requests_running"] == 1
                assert status["running_sequences"][0]["tenant"] == "key-1"
                service.statistics = SCHEDULING
                service.release()
                assert any(b"[DONE]" in chunk for chunk in chunks)
            while status["num_requests_running"]:
                status = read(lines)[1]
            assert status["slots"][-1]["finished"] >= 1


def test_the_stream_needs_a_key_where_the_server_has_keys() -> None:
    settings = Settings.load({"api_key": "sk-one"}, None, {})
    with serve(FakeService(settings), settings) as address, httpx.Client(base_url=address) as http:
        assert http.get("/v1/status/stream").status_code == 401


async def test_ids_are_shown_to_their_owner_and_to_administrators_only() -> None:
    service = FakeService()
    service.statistics = replace(SCHEDULING, running_sequences=(SEQUENCE,), waiting_sequences=(SEQUENCE,))
    broadcast = StatusBroadcast(state_of(service))
    owners: Any = {"chatcmpl-1": "key-1"}
    mine, other, nobody = Viewer("key-1", False), Viewer("key-2", False), Viewer(None, False)
    _, encoded = broadcast._sample({ADMIN, mine, other, nobody}, owners)
    ids = {
        viewer: {row["id"] for kind in ("running", "waiting") for row in parsed(content)[1][f"{kind}_sequences"]}
        for viewer, content in encoded.items()
    }
    assert ids == {ADMIN: {"chatcmpl-1"}, mine: {"chatcmpl-1"}, other: {None}, nobody: {None}}


async def test_an_idle_server_takes_no_statistics_and_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0

    def count() -> Stats:
        nonlocal taken
        taken += 1
        return SCHEDULING

    service = FakeService()
    monkeypatch.setattr(service, "stats", count)
    monkeypatch.setattr(status_stream, "IDLE_SECONDS", 3600.0)
    state = state_of(service)
    broadcast = StatusBroadcast(state)
    async with opened(broadcast) as (waiting, _):
        while taken < 2:  # the first event's, and the sampler's first
            await asyncio.sleep(0.001)
        for _ in range(100):
            await asyncio.sleep(0)
        assert (taken, waiting.done()) == (2, False)
        state.metrics.activity.set()
        while taken < 3:
            await asyncio.sleep(0.001)


async def test_statistics_are_taken_once_for_all_readers_and_off_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_stream, "IDLE_SECONDS", 3600.0)
    monkeypatch.setattr(status_stream, "BUSY_SECONDS", 3600.0)
    threads: list[int] = []
    service = FakeService()

    def count() -> Stats:
        threads.append(threading.get_ident())
        return replace(SCHEDULING, steps=len(threads))

    monkeypatch.setattr(service, "stats", count)
    state = state_of(service)
    broadcast = StatusBroadcast(state)
    async with opened(broadcast) as (first, events), opened(broadcast) as (other, others):
        await first  # the sampler's first look
        assert len(threads) == 3
        again = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        state.metrics.activity.set()
        latest, read = await again, await other
        if read != latest:  # the second reader was there in time for the first look
            read = await anext(others)
        assert read == latest
        assert len(threads) == 4 and threading.get_ident() not in threads


async def test_a_slow_reader_gets_the_latest_event_and_not_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_stream, "BUSY_SECONDS", 0.0)
    steps = 0
    service = FakeService()

    def grow() -> Stats:
        nonlocal steps
        steps += 1
        return replace(SCHEDULING, num_requests_running=1, steps=steps)

    monkeypatch.setattr(service, "stats", grow)
    broadcast = StatusBroadcast(state_of(service))
    async with opened(broadcast) as (waiting, events):
        await waiting
        reader = next(iter(broadcast.readers))
        seen = steps
        while steps < seen + 10:
            await asyncio.sleep(0.001)
        assert reader.latest is not None
        assert parsed(await anext(events))[1]["steps"] > seen + 5


async def test_the_sampler_ends_with_its_last_reader() -> None:
    broadcast = StatusBroadcast(state_of(FakeService()))
    async with opened(broadcast):
        assert broadcast._sampling is not None
    assert broadcast._sampling is None and not broadcast.readers


async def test_a_sampler_that_is_cancelled_ends_no_reader_that_came_meanwhile() -> None:
    broadcast = StatusBroadcast(state_of(FakeService()))
    later = broadcast.events(ADMIN)
    for _ in range(2):
        await anext(later)
    async with opened(broadcast) as (first, _):
        sampler = broadcast._sampling
        assert sampler is not None
        first.cancel()
        second = asyncio.create_task(anext(later))  # a reader before the sampler knows that it has ended
        await asyncio.gather(sampler, return_exceptions=True)
        [reader] = broadcast.readers
        assert sampler.cancelled() and broadcast._sampling not in (None, sampler)
        assert not reader.ended
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
    await later.aclose()


async def test_streams_end_when_a_stopping_server_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_stream, "IDLE_SECONDS", 0.01)
    state = state_of(FakeService())
    async with opened(StatusBroadcast(state)) as (waiting, _):
        state.gate.enter()
        state.gate.closed = True
        await asyncio.sleep(0.05)
        assert not waiting.done()  # requests inside can still be watched
        state.gate.leave()
        assert await waiting == END


async def test_a_stopping_server_opens_no_stream() -> None:
    gate = DrainGate()
    app = create_app(FakeService(), Settings(), gate=gate)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1234))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http,
    ):
        gate.closed = True
        refused(await http.get("/v1/status/stream"), 503, None, "shutting down")


async def test_many_sequences_are_cut_off() -> None:
    service = FakeService()
    service.statistics = replace(SCHEDULING, running_sequences=(SEQUENCE,) * 1000, waiting_sequences=(SEQUENCE,) * 1000)
    _, encoded = StatusBroadcast(state_of(service))._sample({ADMIN}, {})
    status = parsed(encoded[ADMIN])[1]
    assert len(status["running_sequences"]) == status_stream.MAX_RUNNING
    assert len(status["waiting_sequences"]) == status_stream.MAX_WAITING
