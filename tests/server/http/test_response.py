from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect
from starlette.types import Message

from paceline.server.http import response as response_module
from paceline.server.http.response import encode_json, encode_long, unless_disconnected
from tests.server.fake_service import FakeService
from tests.server.harness import Address, open_request, post_chat, user
from tests.waiting import WAIT


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("tokens", [0, 3])
def test_a_client_that_goes_away_frees_its_row(
    address: Address, service: FakeService, stream: bool, tokens: int
) -> None:
    with open_request(address, "/v1/chat/completions", {"messages": user(f"!hang {tokens}"), "stream": stream}):
        assert service.hanging.wait(WAIT)
        assert not service.idle.is_set()
    assert service.idle.wait(WAIT)


def test_a_client_that_leaves_a_list_of_prompts_frees_all_of_them(address: Address, service: FakeService) -> None:
    with (
        httpx.Client(base_url=address) as http,
        http.stream("POST", "/v1/completions", json={"prompt": ["!hang 1"] * 3, "stream": True}) as response,
    ):
        chunks = response.iter_bytes()  # kept: httpx closes the response with it
        next(chunks)
        assert service.hanging.wait(WAIT)
    assert service.idle.wait(WAIT)


def test_headers_wait_for_the_first_token_and_then_go_at_once(address: Address, service: FakeService) -> None:
    with (
        httpx.Client(base_url=address) as http,
        http.stream("POST", "/v1/chat/completions", json={"messages": user("!hang 1"), "stream": True}) as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert b'"content":"H"' in next(response.iter_bytes())
    assert service.idle.wait(WAIT)


def test_a_stream_leaves_its_connection_usable(http: httpx.Client) -> None:
    for _ in range(3):
        assert post_chat(http, stream=True).text.endswith("data: [DONE]\n\n")


def test_text_is_not_escaped_to_ascii(http: httpx.Client) -> None:
    assert "🙂" in post_chat(http, stream=True).text


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5) | st.lists(NUMBERS, max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_long_is_written_as_what_is_short(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(response_module, "PART", 3)
        assert encode_long(value) == encode_json(value).encode()


def test_a_number_that_json_does_not_have_is_never_written() -> None:
    for encode in (encode_json, encode_long):
        with pytest.raises(ValueError, match="JSON"):
            encode({"logprob": float("nan")})


def test_text_is_written_as_it_is() -> None:
    assert json.loads(encode_long({"🙂": ["é"]})) == {"🙂": ["é"]}
    assert "🙂" in encode_json(["🙂"])


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def gone() -> Message:
    return {"type": "http.disconnect"}


async def test_work_is_done_while_the_client_stays() -> None:
    assert await unless_disconnected(never, asyncio.sleep(0, "done")) == "done"


async def test_work_that_fails_raises_its_own_error() -> None:
    async def fail() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await unless_disconnected(never, fail())


async def test_work_is_cancelled_and_waited_for_when_the_client_goes() -> None:
    ended = False

    async def work() -> None:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended = True

    with pytest.raises(ClientDisconnect):
        await unless_disconnected(gone, work())
    assert ended


async def test_work_is_cancelled_with_its_caller() -> None:
    ended = asyncio.Event()

    async def stream() -> AsyncIterator[None]:
        try:
            await asyncio.Event().wait()
            yield
        finally:
            ended.set()

    async def work() -> None:
        async for _ in stream():
            pass

    caller = asyncio.create_task(unless_disconnected(never, work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set()
