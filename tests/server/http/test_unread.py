"""Clients that send all of a request before they read: they get the answer that was ready long before."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from paceline.server.http import unread
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import Address, serve, user
from tests.server.http.test_drain import Child
from tests.waiting import WAIT

MB = 1 << 20
LIMIT = 4 * MB  # of the server that all tests share
DEFAULT_LIMIT = 32 * MB


@pytest.fixture(scope="module")
def process() -> Iterator[Address]:
    child = Child(drain_seconds=1)
    try:
        yield child.address
    finally:
        child.process.kill()
        child.process.communicate()


def pieces(size: int) -> Iterator[bytes]:
    whole, rest = divmod(size, 60_000)
    yield from (b" " * 60_000 for _ in range(whole))
    yield b" " * rest


def ask(url: str, data: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url, data=data, headers={"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=WAIT) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("size", [DEFAULT_LIMIT + 1, DEFAULT_LIMIT + MB, 4 * DEFAULT_LIMIT])
@pytest.mark.parametrize("chunked", [False, True])
def test_urllib_reads_the_413_of_a_process(process: Address, size: int, chunked: bool) -> None:
    status, body = ask(f"{process}/v1/chat/completions", pieces(size) if chunked else b" " * size)
    assert (status, body["error"]["code"]) == (413, "request_too_large")


@pytest.mark.parametrize("size", [LIMIT + 1, 2 * LIMIT, 4 * LIMIT])
@pytest.mark.parametrize("chunked", [False, True])
def test_urllib_reads_the_413_and_the_next_request_is_served(address: Address, size: int, chunked: bool) -> None:
    for _ in range(3):
        status, body = ask(f"{address}/v1/chat/completions", pieces(size) if chunked else b" " * size)
        assert (status, body["error"]["code"]) == (413, "request_too_large")
    assert ask(f"{address}/v1/chat/completions", json.dumps({"messages": user("hi")}).encode())[0] == 200


def test_other_answers_that_come_early_are_read_too() -> None:
    settings = Settings.load({"api_key": "sk-one"}, None, {})
    with serve(FakeService(settings), settings) as address:
        assert ask(f"{address}/v1/chat/completions", b" " * LIMIT)[0] == 401
        assert ask(f"{address}/v1/nothing", b" " * LIMIT, authorization="Bearer sk-one")[0] == 404


@pytest.mark.parametrize("size", [LIMIT + 1, 4 * LIMIT])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_connection_that_is_kept_alive_serves_on_after_a_413(address: Address, size: int, chunked: bool) -> None:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=WAIT)
    connection.connect()
    first = connection.sock
    for _ in range(2):
        data = pieces(size) if chunked else b" " * size
        connection.request("POST", "/v1/chat/completions", data, encode_chunked=chunked)
        answer = connection.getresponse()
        assert (answer.status, json.load(answer)["error"]["code"]) == (413, "request_too_large")
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b'{"status":"ok"}'
        assert connection.sock is first
    connection.close()


def test_a_client_that_reads_while_it_sends_has_the_answer_before_it_has_sent_all(address: Address) -> None:
    host, port = urlsplit(address).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=WAIT) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\n\r\n{")
        assert client.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_the_next_request_may_begin_with_the_rest_of_one_that_was_answered_early(address: Address) -> None:
    host, port = urlsplit(address).netloc.split(":")
    asked = b"POST /v1/nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=WAIT) as client:
        client.sendall(asked)
        for _ in range(3):
            heard = b""
            while not heard.endswith(b"}"):  # all of the answer, so that a client may go on
                piece = client.recv(10_000)
                assert piece, "the connection was closed between two requests"
                heard += piece
            assert heard.startswith(b"HTTP/1.1 404 ")
            client.sendall(b"{}" + asked)


def test_a_client_that_asks_before_it_sends_keeps_its_body(address: Address) -> None:
    host, port = urlsplit(address).netloc.split(":")
    head = (
        b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 99999999\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=WAIT) as client:
        client.sendall(head)
        heard = b""
        while piece := client.recv(1000):  # to its end: the server waits for no body, and closes
            heard += piece
        assert heard.startswith(b"HTTP/1.1 413 ")


def test_what_is_dropped_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "LEAST_BYTES", MB)
    monkeypatch.setattr(unread, "TIMES", 2)
    settings = Settings(max_body_mb=1)
    with serve(FakeService(settings), settings) as address:
        host, port = urlsplit(address).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=WAIT) as client:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n")
            with pytest.raises(OSError):
                while True:  # until the server has had enough
                    client.sendall(b" " * MB)
        assert httpx.get(f"{address}/health").status_code == 200


def test_the_time_for_it_is_bounded(monkeypatch: pytest.MonkeyPatch, address: Address) -> None:
    monkeypatch.setattr(unread, "SECONDS", 0.1)
    host, port = urlsplit(address).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=WAIT) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\n\r\n{")
        heard = b""
        while piece := client.recv(1000):  # to its end, though the client sends nothing more
            heard += piece
        assert heard.startswith(b"HTTP/1.1 413 ")
