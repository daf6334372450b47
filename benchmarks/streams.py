"""What streams cost the process that serves them, without a model that computes.

A thread stands in for the engine: in every step it makes a token for each stream, and then, as the engine does, it asks
for the interpreter's lock again and again, to hold it briefly. The server is `paceline serve`'s own, and its clients
are another process.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import socket
import statistics
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from paceline.delta_stream import DeltaDispatcher, DeltaStream
from paceline.preflight import listen
from paceline.requests import ChatRequest, GenerateRequest
from paceline.runtime import Runtime
from paceline.server.app import configured, create_app
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Acceptance, Delta, Prompt, PromptInfo, Usage

HOLDS = 8  # times a step that the lock is asked for
PAUSE = 0.001  # seconds without it, in front of each
WORK = 2000  # turns of an empty loop: about 0.1 ms with it
MESSAGES = [{"role": "user", "content": "Hello!"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "Hello!"},
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 16, "model": "paceline-mini"},
    "/v1/responses": {"input": MESSAGES},
}


@dataclass(slots=True)
class Cost:
    """By turn: microseconds of the event loop's processor time for a token; seconds of a step beside all streams."""

    endpoint: str
    alone: float  # seconds of a step without streams
    microseconds: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    def row(self) -> tuple[str, str, str]:
        slower = statistics.median(self.steps) / self.alone
        return self.endpoint, f"{statistics.median(self.microseconds):.1f}", f"{slower:.3f}"


class Tokens(Service):
    """Streams of so many tokens, whatever is asked."""

    def __init__(self, settings: Settings, tokens: int) -> None:
        super().__init__(settings)
        self.tokens = tokens
        self.times: dict[int, list[float]] = {}  # of steps, by the number of streams
        self._dispatcher = DeltaDispatcher()
        self._sinks: dict[Callable[[Delta], None], int] = {}  # tokens so far
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Tokens:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            began = time.perf_counter()
            for sink, made in self._sinks.copy().items():
                ends = made + 1 == self.tokens
                prompt = PromptInfo((1, 2, 3)) if made == 0 else None
                usage = Usage(3, self.tokens) if ends else None
                sink(Delta(" word", (5,), finish_reason="length" if ends else None, usage=usage, prompt=prompt))
                self._sinks[sink] += 1
                if ends:
                    del self._sinks[sink]
            self._dispatcher.flush()
            for _ in range(HOLDS):
                time.sleep(PAUSE)
                for _ in range(WORK):
                    pass
            self.times.setdefault(len(self._sinks), []).append(time.perf_counter() - began)

    async def _stream(
        self, build: Callable[[Runtime], Prompt], request: ChatRequest | GenerateRequest, field: str, heavy: bool
    ) -> AsyncGenerator[Delta, None]:
        runtime = self._get_runtime()
        await runtime.run_in_executor(runtime.prepare, build, request, None, field, heavy=heavy)
        stream = DeltaStream(self._dispatcher, 1 << 20, lambda: None)
        self._sinks[stream.sink(0)] = 0
        yield Delta(accepted=Acceptance(3, 0))
        finished = False
        while not finished:
            delta = await stream.get()
            finished = delta.finish_reason is not None
            yield delta


async def measure(streams: int, tokens: int, turns: int) -> list[Cost]:
    settings = Settings(port=0, log_level="error")
    listener = listen(settings)
    port = listener.getsockname()[1]
    with Tokens(settings, tokens) as service:
        server = uvicorn.Server(configured(create_app(service, settings), settings))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.1)
        service.times.clear()
        await asyncio.sleep(1.0)
        costs = [Cost(endpoint, statistics.median(service.times[0])) for endpoint in BODIES]
        for _ in range(turns):
            for cost in costs:
                service.times.clear()
                began = time.thread_time()
                await _clients(port, cost.endpoint, streams)
                cost.microseconds.append((time.thread_time() - began) / (streams * tokens) * 1e6)
                cost.steps.append(statistics.median(service.times[max(service.times)]))
        server.should_exit = True
        await serving
    return costs


async def _clients(port: int, endpoint: str, streams: int) -> None:
    command = (sys.executable, "-m", "benchmarks.streams", str(port), endpoint, str(streams))
    process = await asyncio.create_subprocess_exec(*command)
    if await process.wait():
        raise RuntimeError("the clients have failed")


def read_all(port: int, endpoint: str, streams: int) -> None:
    """A client for each stream, in one process."""
    body = json.dumps({**BODIES[endpoint], "stream": True}).encode()
    head = f"POST {endpoint} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    ready = selectors.DefaultSelector()
    for _ in range(streams):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(head.encode() + body)
        ready.register(connection, selectors.EVENT_READ, (connection, bytearray()))
    while ready.get_map():
        for key, _ in ready.select():
            connection, heard = key.data
            piece = connection.recv(1 << 16)
            heard += piece
            if not piece:
                ready.unregister(connection)
                connection.close()
                if not heard.startswith(b"HTTP/1.1 200") or not heard.endswith(b"0\r\n\r\n"):
                    raise SystemExit(heard[:300].decode(errors="replace"))


if __name__ == "__main__":
    read_all(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
