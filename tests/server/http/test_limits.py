"""Clients that send badly, on raw sockets against the process's own configuration of uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import selectors
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from paceline.preflight import listen
from paceline.server.app import configured, create_app
from paceline.server.http import limits
from paceline.server.http.drain import DrainGate
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import post_chat, refused
from tests.waiting import WAIT, until

PATIENCE = 0.5  # seconds
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
BODY = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
WHOLE = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY


class Running:
    def __init__(self, server: uvicorn.Server, gate: DrainGate, address: tuple[str, int]) -> None:
        self.server = server
        self.gate = gate
        self.address = address

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=WAIT)

    def comes_to_hold_nothing(self) -> None:
        """Every connection and every request is gone."""
        until(lambda: not (self.connections or self.gate.inside or self.server.server_state.tasks))


@contextlib.contextmanager
def running(**options: Any) -> Iterator[Running]:
    settings = Settings(**{"port": 0, "log_level": "error", **options})
    listener = listen(settings)
    started, gate = threading.Event(), DrainGate()
    app = create_app(FakeService(settings), settings, gate=gate, started=lambda failure: started.set())
    server = uvicorn.Server(configured(app, settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        assert started.wait(WAIT)
        yield Running(server, gate, listener.getsockname())
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as server:
        yield server


class Timeless(selectors.SelectSelector):
    """Does not wait for the next timer: it sets the loop's clock to it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing will ever happen"
            self.now += timeout
        return ready


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = Timeless()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


class Client(asyncio.Transport):
    """A connection without a network: what the client sends, and what it hears."""

    def __init__(self, loop: asyncio.AbstractEventLoop, config: uvicorn.Config, timeout: float) -> None:
        super().__init__()
        self.loop, self.state = loop, ServerState()
        self.answered, self.closed = asyncio.Event(), asyncio.Event()
        self.heard = b""
        kind = limits.protocol_for(Settings(body_timeout_seconds=timeout))
        self.protocol = kind(config=config, server_state=self.state, app_state={}, _loop=loop)
        self.protocol.connection_made(self)

    def send(self, data: bytes) -> None:
        self.protocol.data_received(data)

    def write(self, data: Any) -> None:
        self.heard += bytes(data)
        if self.heard.endswith(b"served"):
            self.answered.set()

    def close(self) -> None:
        if not self.closed.is_set():
            self.closed.set()
            self.protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def in_no_time(script: Callable[[Client], Awaitable[None]], *, reads: bool = True, thinks: float = 0.0) -> None:
    """Run it on a loop whose clock is not the machine's, over an application that answers after a while."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while reads and (await receive()).get("more_body"):
            pass
        await asyncio.sleep(thinks)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
        await send({"type": "http.response.body", "body": b"served"})

    config = uvicorn.Config(application, log_config=None, lifespan="off")
    config.load()

    async def run() -> None:
        client = Client(loop, config, PATIENCE)
        await script(client)
        client.close()
        await asyncio.gather(*client.state.tasks)

    loop = Loop()
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


def read_all(connection: socket.socket) -> bytes:
    """Until the server closes."""
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def error_in(answer: bytes, status: int) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:300]
    assert b"connection: close" in head.lower()
    error: dict[str, Any] = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def test_a_header_of_10_mb_is_refused_while_it_arrives(server: Running) -> None:
    with server.connect() as connection:
        sent = 0
        try:
            connection.sendall(HEAD + b"x-large: ")
            for _ in range(160):
                connection.sendall(b"y" * 65536)
                sent += 65536
        except OSError:
            pass  # the server need not wait for the end of it
        answer = read_all(connection)
    error = error_in(answer, 431)
    assert "32 KiB" in error["message"] and error["code"] == "headers_too_large"
    server.comes_to_hold_nothing()


@pytest.mark.parametrize("head", [b"GET /" + b"a" * 60_000, b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * 9000])
def test_many_headers_and_a_long_address_are_refused(server: Running, head: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(head)
        error_in(read_all(connection), 431)


def test_large_headers_that_come_in_one_piece_are_refused_too(server: Running) -> None:
    host, port = server.address
    with httpx.Client(base_url=f"http://{host}:{port}") as http:
        response = http.get("/health", headers={"x-large": "y" * 40_000})
        assert refused(response, 431, None, "32 KiB")["code"] == "headers_too_large"
        assert http.get("/health", headers={"x-large": "y" * 20_000}).status_code == 200


def test_a_body_of_two_lengths_is_refused_and_closed(server: Running) -> None:
    chunked = b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    with server.connect() as connection:
        connection.sendall(HEAD + b"content-length: 4\r\n" + chunked + WHOLE)
        assert "Content-Length" in error_in(read_all(connection), 400)["message"]


def test_what_is_no_http_is_refused_and_closed(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(b"\x16\x03\x01 this is TLS\r\n\r\n")
        error = error_in(read_all(connection), 400)
        assert error["type"] == "invalid_request_error" and "HTTP/1.1" in error["message"]
    server.comes_to_hold_nothing()


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"content-length: 1000\r\n\r\n" + BODY,
        HEAD + b"content-length: 1000\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\n" + BODY[:5],
        HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\n" + BODY[:5] + b"\r\n",
        HEAD,
        b"P",
    ],
    ids=["length", "nothing", "chunk", "between chunks", "head", "letter"],
)
def test_a_half_sent_request_times_out_and_nothing_is_held(sent: bytes) -> None:
    async def script(client: Client) -> None:
        client.send(sent)
        await asyncio.sleep(PATIENCE - 0.01)
        assert client.heard == b""
        await asyncio.sleep(0.02)
        error = error_in(client.heard, 408)
        assert error["code"] == "request_timeout" and "0.5 seconds" in error["message"]
        await client.closed.wait()
        assert not client.state.connections and not client.state.tasks

    in_no_time(script)


def test_a_second_request_on_the_connection_is_timed_as_well() -> None:
    async def script(client: Client) -> None:
        client.send(WHOLE)
        await client.answered.wait()
        await asyncio.sleep(PATIENCE * 2)  # a connection that is kept alive may rest
        client.send(WHOLE + HEAD)
        await client.closed.wait()
        assert client.heard.count(b"HTTP/1.1 200 ") == 2 and b"HTTP/1.1 408 " in client.heard

    in_no_time(script)


@pytest.mark.parametrize(
    "pieces", [[b"\r\n" + WHOLE], [b"\r\n", WHOLE], [b"\r", b"\n\r\n" + WHOLE[:9], WHOLE[9:]]], ids=len
)
def test_empty_lines_in_front_of_a_request_are_skipped(pieces: list[bytes]) -> None:
    async def script(client: Client) -> None:
        for turn in (1, 2):
            for piece in pieces:
                client.send(piece)
            await client.answered.wait()
            client.answered.clear()
            assert client.heard.count(b"HTTP/1.1 200 ") == turn

    in_no_time(script)


def test_empty_lines_alone_do_not_keep_a_connection() -> None:
    async def script(client: Client) -> None:
        while not client.closed.is_set():
            client.send(b"\r\n")
            await asyncio.sleep(0.05)
            assert client.loop.time() < 2 * PATIENCE
        assert client.heard == b""

    in_no_time(script)


def test_a_connection_that_asks_nothing_is_closed_without_a_word() -> None:
    async def script(client: Client) -> None:
        await client.closed.wait()
        assert client.heard == b"" and not client.state.connections

    in_no_time(script)


def test_a_client_that_drips_is_cut_off_although_it_never_pauses() -> None:
    async def script(client: Client) -> None:
        client.send(HEAD + b"content-length: 100000\r\n\r\n")
        while not client.heard:
            client.send(b" ")
            await asyncio.sleep(0.05)
            assert client.loop.time() < 2 * PATIENCE
        error_in(client.heard, 408)

    in_no_time(script)


def test_a_slow_client_that_keeps_going_is_served() -> None:
    async def script(client: Client) -> None:
        body = BODY + b" " * 100_000
        client.send(HEAD + b"content-length: %d\r\n\r\n" % len(body))
        for start in range(0, len(body), 5000):
            client.send(body[start : start + 5000])
            await asyncio.sleep(0.05)
        assert client.loop.time() > PATIENCE * 2
        await client.answered.wait()
        assert client.heard.startswith(b"HTTP/1.1 200 ")

    in_no_time(script)


def test_an_answer_may_take_longer_than_a_request() -> None:
    async def script(client: Client) -> None:
        client.send(WHOLE)
        await client.answered.wait()
        assert client.loop.time() >= PATIENCE * 10 and client.heard.startswith(b"HTTP/1.1 200 ")

    in_no_time(script, thinks=PATIENCE * 10)


def test_a_body_that_goes_on_after_its_answer_is_not_waited_for() -> None:
    async def script(client: Client) -> None:
        client.send(HEAD + b"content-length: 1000\r\n\r\n{")
        await client.answered.wait()
        await client.closed.wait()
        assert client.heard.count(b"HTTP/1.1") == 1 and not client.state.connections

    in_no_time(script, reads=False)


STREAM = json.dumps({"messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()


def streamed(server: Running, version: bytes) -> tuple[bytes, bytes]:
    """A stream's head and body, as they came."""
    head = HEAD.replace(b"HTTP/1.1", version) + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(STREAM)
    with server.connect() as connection:
        connection.sendall(head + STREAM)
        answered, _, body = read_all(connection).partition(b"\r\n\r\n")
    return answered.lower(), body


def test_an_old_client_gets_a_stream_that_ends_with_its_connection(server: Running) -> None:
    head, body = streamed(server, b"HTTP/1.0")
    assert b"transfer-encoding" not in head
    assert body.startswith(b"data: {") and body.endswith(b"data: [DONE]\n\n")


def test_the_chunks_of_a_stream_are_whole_events(server: Running) -> None:
    head, body = streamed(server, b"HTTP/1.1")
    assert b"transfer-encoding: chunked" in head
    chunks = []
    while body:
        size, _, body = body.partition(b"\r\n")
        chunks.append(body[: int(size, 16)])
        assert body[len(chunks[-1]) :][:2] == b"\r\n"
        body = body[len(chunks[-1]) + 2 :]
    assert chunks.pop() == b"" and len(chunks) > 3
    assert all(chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") for chunk in chunks)


async def test_a_chunk_that_holds_nothing_does_not_end_the_answer() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for content in (b"", b"served"):
            await scope["state"][limits.SEND_CHUNK](content)
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(application, log_config=None, lifespan="off")
    config.load()
    client = Client(asyncio.get_running_loop(), config, WAIT)
    client.send(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await asyncio.gather(*client.state.tasks)
    client.close()
    assert client.heard.partition(b"\r\n\r\n")[2] == b"6\r\nserved\r\n0\r\n\r\n"


def test_more_connections_than_allowed_are_turned_away_and_room_is_made_again() -> None:
    with running(max_connections=5) as server:
        host, port = server.address
        with contextlib.ExitStack() as slow:
            for _ in range(5):
                slow.enter_context(server.connect()).sendall(HEAD)
            until(lambda: server.connections == 5)
            with server.connect() as connection:
                error = error_in(read_all(connection), 503)
                assert "as many connections" in error["message"]
        server.comes_to_hold_nothing()
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=WAIT) as http:
            assert post_chat(http).status_code == 200


def test_far_more_connections_are_not_even_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SPARE_CONNECTIONS", 0)
    with running(max_connections=1) as server, server.connect() as first:
        first.sendall(HEAD)
        until(lambda: server.connections == 1)
        with server.connect() as second, contextlib.suppress(ConnectionResetError):
            assert read_all(second) == b""


def test_the_process_may_open_as_many_files_as_it_has_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 5000))
    monkeypatch.setattr(resource, "setrlimit", lambda which, pair: asked.append(pair))
    for connections in (1000, 100_000, 1):
        limits.allow_files_for(connections)
    assert asked == [(1320, 5000), (5000, 5000), (321, 5000)]


def test_the_access_log_has_no_query_and_no_message(caplog: pytest.LogCaptureFixture) -> None:
    with running(log_level="debug") as server, caplog.at_level("DEBUG"):
        host, port = server.address
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=WAIT) as http:
            post_chat(http, "a private matter")
            http.get("/v1/models?q=private", headers={"x-note": "private"})
            http.post("/v1/chat/completions?text=private", content=b"{private")
            http.get("/health?private")
    lines = [record.getMessage() for record in caplog.records if record.name == "paceline.access"]
    assert len(lines) == 3 and '"GET /v1/models HTTP/1.1" 200' in lines[1]
    assert not [record for record in caplog.records if record.name == "uvicorn.access"]
    ours = [record for record in caplog.records if not record.name.startswith("httpx")]
    assert "private" not in " ".join(record.getMessage() for record in ours)
