from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from paceline.host_memory import HostMemory
from paceline.server.http.body import BODY_BYTES, SMALL, BodyLimit, TooManyBodies, parse_json
from tests.server.harness import post_chat, refused


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
        body = next(messages)
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


async def test_no_body_may_be_larger_than_all_bodies_together() -> None:
    memory = HostMemory(30 * SMALL)
    assert BodyLimit(Reading(memory), 32 << 20, memory).max_bytes == 10 * SMALL
