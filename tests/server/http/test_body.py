from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from paceline.host_memory import HostMemory
from paceline.server.http import body as body_module
from paceline.server.http.body import BODY_BYTES, SMALL, BodyLimit, TooManyBodies, keep_body, parse_json
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import Address, post_chat, refused, serve, user
from tests.server.http.test_drain import Child
from tests.waiting import WAIT


def post(http: httpx.Client, content: bytes | Iterator[bytes]) -> httpx.Response:
    return http.post("/v1/chat/completions", content=content, headers={"content-type": "application/json"})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"messages": [}',
        b"\xff\xfe",
        b'{"a": "\xff"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"temperature": NaN}',
        b'{"temperature": Infinity}',
        b'{"temperature": -Infinity}',
        b'{"messages": [{"role": "user", "content": "\\ud83d"}]}',
        b'{"logit_bias": [' + b"9, " * 5 + b"9" * 5000 + b"]}",
    ],
)
def test_what_is_not_json_is_refused(http: httpx.Client, body: bytes) -> None:
    assert refused(post(http, body), 400, None)["code"] == "invalid_json"


@pytest.mark.parametrize("body", [b"[]", b'"text"', b"5", b"null"])
def test_a_body_must_be_an_object(http: httpx.Client, body: bytes) -> None:
    refused(post(http, body), 400, None, "object")


def test_a_number_too_large_for_a_float_is_refused_by_name(http: httpx.Client) -> None:
    body = b'{"messages": [{"role": "user", "content": "hi"}], "temperature": 1e999}'
    refused(post(http, body), 400, "temperature")


def test_a_whole_surrogate_pair_is_an_emoji() -> None:
    assert parse_json(b'{"a": "\\ud83d\\ude42"}') == {"a": "\U0001f642"}


@pytest.mark.slow
def test_a_body_of_100_mb_is_refused_by_its_announced_length(http: httpx.Client) -> None:
    refused(post(http, b" " * 100_000_000), 413, None, "4 MiB")
    assert post_chat(http).status_code == 200


def test_a_body_of_100_mb_is_refused_while_it_grows(http: httpx.Client) -> None:
    refused(post(http, (b" " * 1_000_000 for _ in range(100))), 413, None, "4 MiB")
    assert post_chat(http).status_code == 200


def test_a_body_just_under_the_limit_is_read(http: httpx.Client) -> None:
    response = post_chat(http, "hi", padding="x" * (4 * 2**20 - 1000))
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (b'"stop": 5', "stop"),
        (b'"stop": [5]', "stop[0]"),
        (b'"seed": 18446744073709551616', "seed"),
        (b'"seed": "5"', "seed"),
        (b'"seed": ' + b"9" * 4000, "seed"),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused_by_name(http: httpx.Client, fields: bytes, param: str) -> None:
    body = b'{"messages": [{"role": "user", "content": "hi"}], %s}' % fields
    refused(post(http, body), 400, param, param.partition("[")[0])


def test_a_seed_of_5000_digits_is_refused_in_words_for_clients(http: httpx.Client) -> None:
    body = b'{"messages": [{"role": "user", "content": "hi"}], "seed": %s}' % (b"9" * 5000)
    error = refused(post(http, body), 400, "seed", "seed has more than 4300 digits")
    assert "sys." not in error["message"]


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "br, gzip"])
def test_a_compressed_body_is_refused_in_words(http: httpx.Client, encoding: str) -> None:
    answer = http.post("/v1/chat/completions", content=b"\x1f\x8b", headers={"content-encoding": encoding})
    refused(answer, 400, None, encoding, "uncompressed")


# -- the memory of bodies


class Reading:
    """An app that reads a body to its end, and tells what was held by then."""

    def __init__(self, memory: HostMemory) -> None:
        self.memory = memory
        self.held: list[int] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        self.held.append(self.memory.held)


async def sent(limit: BodyLimit, *chunks: bytes) -> None:
    messages = iter(chunks)

    async def receive() -> Message:
        body = next(messages, None)
        if body is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": body is not chunks[-1]}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
    await limit(scope, receive, send)


async def test_a_body_holds_memory_until_its_request_is_answered() -> None:
    memory = HostMemory(100 * SMALL)
    reading = Reading(memory)
    limit = BodyLimit(reading, 32 << 20, memory)
    await sent(limit, b"x" * 100)
    await sent(limit, b"x" * SMALL, b"y" * SMALL)
    assert reading.held == [0, 2 * SMALL * BODY_BYTES]  # small ones are not counted
    assert memory.held == 0


async def test_a_body_for_which_others_leave_no_memory_is_refused_for_now_and_holds_nothing() -> None:
    memory = HostMemory(6 * SMALL * BODY_BYTES)
    refusals: list[bool] = []
    limit = BodyLimit(Reading(memory), 32 << 20, memory, lambda: refusals.append(True))
    memory.take(3 * SMALL * BODY_BYTES, "another body")
    await sent(limit, b"x" * SMALL, b"y" * SMALL)
    with pytest.raises(TooManyBodies):
        await sent(limit, b"x" * 2 * SMALL, b"y" * 2 * SMALL)
    assert (memory.held, refusals) == (3 * SMALL * BODY_BYTES, [True])


async def test_a_body_that_is_needed_longer_holds_memory_until_it_is_let_go() -> None:
    memory = HostMemory(100 * SMALL)
    kept: list[Callable[[], None]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Reading(memory)(scope, receive, send)
        kept.append(keep_body(Request(scope)))

    await sent(BodyLimit(app, 32 << 20, memory), b"x" * SMALL, b"y" * SMALL)
    for _ in range(2):
        assert memory.held == len(kept) * 2 * SMALL * BODY_BYTES
        for let_go in kept:  # that it is said twice is no harm
            let_go()
        kept.clear()


async def test_a_body_that_was_let_go_is_not_counted_again_when_its_client_leaves() -> None:
    memory = HostMemory(100 * SMALL)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Reading(memory)(scope, receive, send)
        keep_body(Request(scope))()
        assert (await receive())["type"] == "http.disconnect"

    await sent(BodyLimit(app, 32 << 20, memory), b"x" * SMALL, b"y" * SMALL)
    assert memory.held == 0


async def test_no_body_may_be_larger_than_all_bodies_together() -> None:
    memory = HostMemory(30 * SMALL)
    assert BodyLimit(Reading(memory), 32 << 20, memory).max_bytes == 10 * SMALL


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


@pytest.mark.thin(6)
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
    monkeypatch.setattr(body_module, "DROP_BYTES", MB)
    monkeypatch.setattr(body_module, "DROP_TIMES", 2)
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
    monkeypatch.setattr(body_module, "DROP_SECONDS", 0.1)
    host, port = urlsplit(address).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=WAIT) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\n\r\n{")
        heard = b""
        while piece := client.recv(1000):  # to its end, though the client sends nothing more
            heard += piece
        assert heard.startswith(b"HTTP/1.1 413 ")
