"""/v1/status/stream: the batch as it runs, for pages that stay open.

One task samples for all readers, and only while there are any. It sends while sequences run or wait, and is silent
while nothing changes. The statistics are taken and encoded on another thread: neither a lock of the engine nor many
sequences hold up the event loop. A reader that is slow misses events in between, and never makes others wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response

from paceline.errors import EngineUnavailable
from paceline.server.http.requests import Viewer
from paceline.server.http.response import encode_json, start_stream
from paceline.server.state import AppState
from paceline.stats import SequenceStats, Stats
from paceline.types import RequestId

BUSY_SECONDS = 0.25  # between two events while sequences run or wait
IDLE_SECONDS = 1.0  # between two looks at whether the server stops
IDLE_LOOKS = 5  # of these, until the statistics are compared: memory and the cache change without requests
LINGERING_LOOKS = 8  # after a request has come: it is prepared before it waits or runs
MAX_RUNNING = 512  # sequences that an event shows
MAX_WAITING = 100
# Of the statistics, what a page shows while it runs.
SHOWN = (
    *("time", "state", "num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason"),
    *("steps", "failed_steps", "out_of_memory", "prompt_tokens", "generation_tokens"),
    *("requests_finished", "preemptions"),
)
SHOWN_OF_MODEL = ("name", "device", "max_num_seqs", "context_length")
END = b"event: end\ndata: {}\n\n"


@dataclass(slots=True, eq=False)
class Reader:
    viewer: Viewer
    latest: bytes | None = None
    ended: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class StatusBroadcast:
    """Used on the event loop only."""

    def __init__(self, state: AppState) -> None:
        self.state = state
        self.readers: set[Reader] = set()
        self._sampling: asyncio.Task[None] | None = None

    async def events(self, viewer: Viewer) -> AsyncGenerator[bytes, None]:
        yield _event("history", encode_json({"slots": self.state.metrics.history.latest()}))
        reader = Reader(viewer)
        stats, encoded = await asyncio.to_thread(self._sample, {viewer}, self.state.requests.owners())
        yield encoded[viewer]
        self.readers.add(reader)
        if self._sampling is None or self._sampling.done():
            self._sampling = asyncio.create_task(self._run(_signature(stats)))
        try:
            while True:
                await reader.changed.wait()
                reader.changed.clear()
                if reader.latest is not None:
                    content, reader.latest = reader.latest, None
                    yield content
                if reader.ended:
                    yield END
                    return
        finally:
            self.readers.discard(reader)
            if not self.readers and self._sampling is not None:
                self._sampling.cancel()
                self._sampling = None

    async def _run(self, signature: tuple[Any, ...]) -> None:
        try:
            looks = 0  # that are still taken although nothing runs: a request is on its way to the engine
            while not self._stopping():
                if self.state.metrics.activity.is_set():
                    self.state.metrics.activity.clear()
                    looks = LINGERING_LOOKS
                viewers = {reader.viewer for reader in self.readers}
                stats, encoded = await asyncio.to_thread(self._sample, viewers, self.state.requests.owners())
                if (new := _signature(stats)) != signature:
                    signature = new
                    for reader in self.readers:
                        reader.latest = encoded.get(reader.viewer)
                        reader.changed.set()
                if looks or stats.num_requests_running or stats.num_requests_waiting:
                    looks = max(looks - 1, 0)
                    await asyncio.sleep(BUSY_SECONDS)
                else:
                    await self._idle()
        finally:
            # Cancelled because the last reader left: those that have come since have a sampler of their own.
            for reader in self.readers if self._sampling is asyncio.current_task() else ():
                reader.ended = True
                reader.changed.set()

    async def _idle(self) -> None:
        activity = self.state.metrics.activity
        for _ in range(IDLE_LOOKS):
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    await activity.wait()
                return
            except TimeoutError:
                if self._stopping():
                    return

    def _stopping(self) -> bool:
        gate = self.state.gate
        return gate.closed and not gate.inside

    def _sample(
        self, viewers: Collection[Viewer], owners: Mapping[RequestId, str | None]
    ) -> tuple[Stats, dict[Viewer, bytes]]:
        """On a thread of its own."""
        stats = self.state.backend.stats()
        metrics = self.state.metrics
        rest = encode_json(
            {
                **_summary(stats),
                "requests_refused": dict(metrics.refused),
                "draining": self.state.gate.closed,
                "slots": metrics.history.latest(2),
            }
        )
        return stats, {
            viewer: _event("status", f"{rest[:-1]},{_sequences(stats, viewer, owners)}}}") for viewer in viewers
        }


def routes(state: AppState) -> APIRouter:
    router = APIRouter()
    broadcast = StatusBroadcast(state)

    # Not in the schema: what reads all of an answer before it looks at it would wait for ever.
    @router.get("/v1/status/stream", include_in_schema=False)
    async def status_stream(request: Request) -> Response:
        if state.gate.closed:
            raise EngineUnavailable("The server is shutting down.")
        events = broadcast.events(Viewer.of(request))
        return await start_stream(request.receive, events, failed=lambda error: END, keep_alive=state.keep_alive)

    return router


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()


def _signature(stats: Stats) -> tuple[Any, ...]:
    """Differs where an event says something new: not with times."""
    cache = stats.prefix_cache
    running = stats.num_requests_running + stats.num_requests_waiting
    age = stats.time if running else 0.0  # what runs grows older, and its progress is shown
    return (
        age,
        stats.state,
        running,
        stats.steps,
        tuple(stats.requests_finished.values()),
        cache.entries,
        cache.memory_bytes,
        None if cache.disk is None else cache.disk.bytes,
        stats.request_memory.waiting,
    )


def _summary(stats: Stats) -> dict[str, Any]:
    """Everything but the sequences, and what a page does not show while it runs."""
    return {
        **_picked(stats, SHOWN),
        "model": None if stats.model is None else _picked(stats.model, SHOWN_OF_MODEL),
        "throughput": asdict(stats.throughput),
        "memory_budget": None if stats.memory_budget is None else asdict(stats.memory_budget),
        "memory": None if stats.memory is None else asdict(stats.memory),
        "prefix_cache": asdict(stats.prefix_cache),
        "spec_decode": _picked(stats.spec_decode, ("enabled", "num_draft_tokens", "num_accepted_tokens")),
    }


def _picked(stats: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(stats, name) for name in names}


def _sequences(stats: Stats, viewer: Viewer, owners: Mapping[RequestId, str | None]) -> str:
    def shown(sequence: SequenceStats) -> dict[str, Any]:
        fields = _picked(sequence, SequenceStats.__slots__)
        return fields if viewer.sees(sequence.id, owners) else {**fields, "id": None}

    return encode_json(
        {
            "running_sequences": [shown(sequence) for sequence in stats.running_sequences[:MAX_RUNNING]],
            "waiting_sequences": [shown(sequence) for sequence in stats.waiting_sequences[:MAX_WAITING]],
        }
    )[1:-1]
