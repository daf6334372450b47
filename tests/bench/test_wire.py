from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import h11
import pytest

from paceline.bench.wire import Address, BenchError, Exchange, call, decode, exchange
from tests.waiting import WAIT

if TYPE_CHECKING:
    from tests.bench.conftest import Reply, Serve

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OLD = b"HTTP/1.0 200 OK\r\nContent-type: text/event-stream\r\n\r\n"


def recorded(*pieces: bytes, failure: str | None = None) -> Exchange:
    """An exchange whose pieces arrived at 1, 2, 3, ... seconds."""
    connection = h11.Connection(our_role=h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("Host", "h"), ("Connection", "close")]))
    connection.send(h11.EndOfMessage())
    arrivals = [float(second) for second, _ in enumerate(pieces, 1)]
    return Exchange(connection, 0.0, 0.5, arrivals, list(pieces), len(pieces) + 1.0, failure)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000"),
        ("localhost:9", "http://localhost:9"),
        ("https://example.org/proxy/v1", "https://example.org:443/proxy"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_is_a_base_with_or_without_v1(url: str, expected: str) -> None:
    assert str(Address.parse(url)) == expected


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port", ""])
def test_what_is_no_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(BenchError, match="http://127.0.0.1:8000"):
        Address.parse(url)


def test_a_line_has_the_time_at_which_its_end_arrived() -> None:
    reply = decode(recorded(CHUNKED, b"5\r\ndata:\r\n", b"6\r\n one\n\n\r\n", b"5\r\ntwo\r\n\r\n0\r\n\r\n"))
    assert reply.lines == ((3.0, b"data: one"), (3.0, b""), (4.0, b"two"))
    assert (reply.status, reply.complete) == (200, True)


def test_an_old_answer_without_length_ends_with_its_connection() -> None:
    reply = decode(recorded(OLD + b"data: one\n", b"data: two\n"))
    assert reply.lines == ((1.0, b"data: one"), (2.0, b"data: two"))
    assert reply.complete


def test_a_cut_answer_keeps_what_came_and_is_not_complete() -> None:
    reply = decode(recorded(CHUNKED + b"5\r\none\n\n\r\n", b"9\r\nda"))
    assert reply.lines == ((1.0, b"one"), (1.0, b""), (3.0, b"da"))  # the last one at the end
    assert not reply.complete


def test_what_is_not_http_has_no_status() -> None:
    assert decode(recorded(b"SSH-2.0-OpenSSH\r\n\r\n")).status == 0


async def test_a_port_where_nobody_listens_is_a_failure_to_connect() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", unused.getsockname()[1])
        record = await exchange(address, "GET", "/", timeout=WAIT)
        assert (record.failure, record.connected, record.pieces) == ("connect", None, [])
        with pytest.raises(BenchError, match="Is the server up"):
            await call(address, "GET", "/v1/models", timeout=WAIT)


@pytest.mark.slow
async def test_a_server_that_hangs_is_given_up_after_the_timeout(fake: Serve) -> None:
    async def hang(reply: Reply) -> None:
        await reply.output()
        await asyncio.sleep(60)

    server = fake(hang)
    record = await exchange(
        Address.parse(server.url), "POST", "/v1/completions", b'{"prompt": "", "max_tokens": 1}', timeout=3
    )
    assert record.failure == "timeout"
    assert record.pieces
    assert record.accepted is False


async def test_a_key_is_sent_as_a_bearer_token() -> None:
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/base"
        reply = await call(Address.parse(url, "secret"), "GET", "/v1/models", timeout=WAIT)
    assert reply.json() == {}
    assert heads[0].startswith(b"GET /base/v1/models HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret\r\n" in heads[0]
