"""An OpenAI-compatible server whose every answer a test scripts."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.waiting import WAIT

TOKENS_PER_WORD = 2
OVERHEAD = 5  # the fake's chat template


class Reply:
    """The server's side of one request."""

    def __init__(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.body = body
        self.writer = writer
        self.started = False
        texts = [body.get("prompt", "")] + [_text(message["content"]) for message in body.get("messages", [])]
        self.words = sum(len(text.split()) for text in texts)
        self.prompt_tokens = TOKENS_PER_WORD * self.words + (OVERHEAD if "messages" in body else 0)

    async def answer(self, status: int, payload: Any) -> None:
        """A whole JSON answer, not a stream."""
        body = json.dumps(payload).encode()
        head = f"HTTP/1.1 {status} Whatever\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.writer.write(head.encode() + body)
        await self.writer.drain()

    async def raw(self, text: str) -> None:
        """Bytes of an event stream as one HTTP chunk."""
        if not self.started:
            self.started = True
            self.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        self.writer.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())
        await self.writer.drain()

    async def event(self, payload: Any) -> None:
        await self.raw(f"data: {json.dumps(payload)}\n\n")

    async def output(self, text: str = "word ", finish_reason: str | None = None) -> None:
        part = {"delta": {"content": text}} if "messages" in self.body else {"text": text}
        await self.event({"choices": [{"index": 0, **part, "finish_reason": finish_reason}]})

    async def end(self, completion_tokens: int, finish_reason: str = "length") -> None:
        """What comes after the last token."""
        await self.output("", finish_reason)
        if self.body.get("stream_options", {}).get("include_usage"):
            usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": completion_tokens}
            await self.event({"choices": [], "usage": usage})
        await self.raw("data: [DONE]\n\n")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def stream(self, gap: float = 0.0) -> None:
        """A well-behaved answer of max_tokens tokens, a chunk each."""
        if "messages" in self.body:
            await self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for index in range(self.body["max_tokens"]):
            await asyncio.sleep(gap if index else 0)
            await self.output()
        await self.end(self.body["max_tokens"])

    def cut(self) -> None:
        self.writer.transport.abort()


Script = Callable[[Reply], Awaitable[None]]


class FakeServer:
    """Runs in a thread of its own; `script` answers generations, the rest is fixed."""

    def __init__(
        self,
        script: Script = Reply.stream,
        *,
        models: list[str] | None = None,
        tokenizes: bool = False,
        listed: int = 200,
    ) -> None:
        self.script = script
        self.models = ["fake"] if models is None else models
        self.tokenizes = tokenizes
        self.listed = listed  # the status of /v1/models
        self.bodies: list[dict[str, Any]] = []  # of generations, as they came
        self.in_flight = 0
        self.most_in_flight = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FakeServer:
        self._thread.start()
        assert self._ready.wait(WAIT)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(WAIT)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        tasks: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.add(task := self._loop.create_task(self._handle(reader, writer)))
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next((int(line[15:]) for line in head.splitlines() if line.startswith("Content-Length:")), 0)
            body = json.loads(await reader.readexactly(length) or b"{}")
            await self._route(head.split()[1], Reply(body, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _route(self, path: str, reply: Reply) -> None:
        if path == "/v1/models":
            await reply.answer(self.listed, {"object": "list", "data": [{"id": name} for name in self.models]})
        elif path == "/tokenize" and self.tokenizes:
            await reply.answer(200, {"count": TOKENS_PER_WORD * len(reply.body["prompt"].split())})
        elif path in ("/v1/chat/completions", "/v1/completions"):
            self.bodies.append(reply.body)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            try:
                await self.script(reply)
            finally:
                self.in_flight -= 1
        else:
            await reply.answer(404, {"error": {"message": "no such path"}})


Serve = Callable[..., FakeServer]


@pytest.fixture
def fake() -> Iterator[Serve]:
    """Starts fake servers; takes what `FakeServer` takes."""
    with ExitStack() as stack:
        yield lambda *given, **named: stack.enter_context(FakeServer(*given, **named))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)
