"""Clients that send badly, on raw sockets against the process's own configuration of uvicorn."""

from __future__ import annotations

import contextlib
import json
import logging
import resource
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from paceline.preflight import listen
from paceline.server import limits
from paceline.server.app import access_line, configured, create_app
from paceline.server.drain import Gate
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import WAIT, post_chat, refused

PATIENCE = 0.5
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
BODY = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()


class Running:
    def __init__(self, server: uvicorn.Server, gate: Gate, address: tuple[str, int]) -> None:
        self.server = server
        self.gate = gate
        self.address = address

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=WAIT)

    def holds_nothing(self) -> bool:
        """Soon: every connection and every request is gone."""
        deadline = time.monotonic() + WAIT
        while self.connections or self.gate.inside or self.server.server_state.tasks:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True


@contextlib.contextmanager
def running(**options: Any) -> Iterator[Running]:
    settings = Settings(**{"port": 0, "body_timeout_seconds": PATIENCE, "log_level": "error", **options})
    listener = listen(settings)
    started, gate = threading.Event(), Gate()
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
        began = time.monotonic()
        try:
            connection.sendall(HEAD + b"x-large: ")
            for _ in range(160):
                connection.sendall(b"y" * 65536)
                sent += 65536
        except OSError:
            pass  # the server need not wait for the end of it
        answer = read_all(connection)
        assert time.monotonic() - began < WAIT
    error = error_in(answer, 431)
    assert "32 KiB" in error["message"] and error["code"] == "headers_too_large"
    assert server.holds_nothing()


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


def test_what_is_no_http_is_refused_and_closed(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(b"\x16\x03\x01 this is TLS\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 400 ")
    assert server.holds_nothing()


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
def test_a_half_sent_request_times_out_and_nothing_is_held(server: Running, sent: bytes) -> None:
    with server.connect() as connection:
        began = time.monotonic()
        connection.sendall(sent)
        error = error_in(read_all(connection), 408)
        assert PATIENCE * 0.9 < time.monotonic() - began < WAIT / 2
        assert error["code"] == "request_timeout" and "0.5 seconds" in error["message"]
    assert server.holds_nothing()


def test_a_second_request_on_the_connection_is_timed_as_well(server: Running) -> None:
    whole = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
    with server.connect() as connection:
        connection.sendall(whole)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        time.sleep(PATIENCE * 2)  # a connection that is kept alive may rest
        connection.sendall(whole + HEAD)
        assert b"HTTP/1.1 408 " in read_all(connection)
    assert server.holds_nothing()


def test_a_connection_that_asks_nothing_is_closed_without_a_word(server: Running) -> None:
    with server.connect() as connection:
        assert read_all(connection) == b""
    assert server.holds_nothing()


def test_a_client_that_drips_is_cut_off_although_it_never_pauses(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.connect() as connection:
        connection.sendall(HEAD + b"content-length: 100000\r\n\r\n")
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < WAIT:
                connection.sendall(b" ")
                time.sleep(0.05)
        assert time.monotonic() - began < WAIT / 2
    assert server.holds_nothing()


def test_a_slow_client_that_keeps_going_is_served(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    body = BODY + b" " * 100_000
    with server.connect() as connection:
        connection.sendall(HEAD + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body))
        began = time.monotonic()
        for start in range(0, len(body), 5000):
            connection.sendall(body[start : start + 5000])
            time.sleep(0.05)
        assert time.monotonic() - began > PATIENCE * 2
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_an_answer_may_take_longer_than_a_request(server: Running) -> None:
    host, port = server.address
    body = {"messages": [{"role": "user", "content": "!hang 1"}], "stream": True}
    with (
        httpx.Client(base_url=f"http://{host}:{port}", timeout=WAIT) as http,
        http.stream("POST", "/v1/chat/completions", json=body) as response,
    ):
        chunks = response.iter_bytes()
        next(chunks)
        time.sleep(PATIENCE * 3)
        assert server.gate.inside == 1
    assert server.holds_nothing()


def test_a_body_that_goes_on_after_its_refusal_is_not_waited_for() -> None:
    with running(api_key="sk-private") as server, server.connect() as connection:
        connection.sendall(HEAD + b"content-length: 1000\r\n\r\n{")
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 401 ") and answer.count(b"HTTP/1.1") == 1
        assert server.holds_nothing()


def test_more_connections_than_allowed_are_turned_away_and_room_is_made_again() -> None:
    with running(max_connections=5) as server:
        host, port = server.address
        with contextlib.ExitStack() as slow:
            for _ in range(5):
                slow.enter_context(server.connect()).sendall(HEAD)
            while server.connections < 5:
                time.sleep(0.01)
            with server.connect() as connection:
                error = error_in(read_all(connection), 503)
                assert "as many connections" in error["message"]
            assert server.holds_nothing()
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=WAIT) as http:
            assert post_chat(http).status_code == 200


def test_far_more_connections_are_not_even_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SPARE_CONNECTIONS", 0)
    with running(max_connections=1) as server, server.connect() as first:
        first.sendall(HEAD)
        while server.connections < 1:
            time.sleep(0.01)
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
    access = logging.getLogger("uvicorn.access")
    access.addFilter(access_line)
    try:
        with running(log_level="debug") as server, caplog.at_level("DEBUG"):
            host, port = server.address
            with httpx.Client(base_url=f"http://{host}:{port}") as http:
                post_chat(http, "a private matter")
                http.get("/v1/models?q=private", headers={"x-note": "private"})
                http.post("/v1/chat/completions?text=private", content=b"{private")
                http.get("/health?private")
    finally:
        access.removeFilter(access_line)
    lines = [record.getMessage() for record in caplog.records if record.name == "uvicorn.access"]
    assert len(lines) == 3 and '"GET /v1/models HTTP/1.1" 200' in lines[1]
    ours = [record for record in caplog.records if not record.name.startswith("httpx")]
    assert "private" not in " ".join(record.getMessage() for record in ours)
