from __future__ import annotations

import asyncio
import concurrent.futures
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect
from starlette.types import Message

from paceline.errors import InvalidRequest
from paceline.server.http import response as response_module
from paceline.server.http.response import KeepAlive, encode_json, encode_long, start_stream, unless_disconnected
from paceline.settings import Settings
from paceline.types import Delta
from tests.server.fake_service import REPLY, FakeService
from tests.server.harness import Address, open_request, post_chat, serve, user
from tests.server.sdk_types import TypedClient, check
from tests.waiting import WAIT


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("tokens", [0, 3])
@pytest.mark.parametrize("next_request", [b"", b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"])
def test_a_client_that_goes_away_frees_its_row(
    address: Address, service: FakeService, stream: bool, tokens: int, next_request: bytes
) -> None:
    body = {"messages": user(f"!hang {tokens}"), "stream": stream}
    with open_request(address, "/v1/chat/completions", body) as connection:
        assert service.hanging.wait(WAIT)
        connection.sendall(next_request)
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


FIRST_EVENTS: dict[str, tuple[dict[str, Any], str]] = {
    "/v1/chat/completions": ({"messages": user("!hang 0")}, '"delta":{"role":"assistant","content":""}'),
    "/v1/completions": ({"prompt": ["!hang 0"] * 3}, ": accepted\n\n"),
    "/v1/responses": ({"input": "!hang 0"}, "event: response.in_progress"),
    "/v1/messages": ({"messages": user("!hang 0"), "max_tokens": 9}, '"input_tokens":25,'),
}


@pytest.mark.parametrize("path", FIRST_EVENTS)
def test_the_first_event_goes_out_when_a_request_is_accepted(address: Address, service: FakeService, path: str) -> None:
    body, first = FIRST_EVENTS[path]
    with (
        httpx.Client(base_url=address) as http,
        http.stream("POST", path, json={**body, "stream": True}) as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        pieces = response.iter_text()  # kept: httpx closes the response with it
        assert first in next(pieces)
        assert service.hanging.wait(WAIT) and not service.idle.is_set()
    assert service.idle.wait(WAIT)


@pytest.fixture(scope="module")
def lively() -> Iterator[tuple[httpx.Client, FakeService]]:
    """A server whose streams are hardly ever silent."""
    settings = Settings(stream_keepalive_seconds=0.02)
    service = FakeService(settings)
    with serve(service, settings) as address, TypedClient(base_url=address, timeout=WAIT) as http:
        yield http, service


@pytest.mark.parametrize("path", FIRST_EVENTS)
def test_a_stream_that_waits_is_kept_alive_and_then_goes_on(
    lively: tuple[httpx.Client, FakeService], path: str
) -> None:
    http, service = lively
    body, _ = FIRST_EVENTS[path]
    sign = "event: ping\n" if path == "/v1/messages" else ": keep-alive\n\n"
    with http.stream("POST", path, json={**body, "stream": True}) as response:
        text = ""
        for piece in response.iter_text():
            text += piece
            if text.count(sign) == 3:
                service.release()
    assert text[: text.index('"H"')].count(sign) >= 3  # in front of the first token
    check(path, 200, "text/event-stream", text)


def test_the_sdks_skip_the_signs_of_life(lively: tuple[httpx.Client, FakeService]) -> None:
    http, service = lively
    url = str(http.base_url).rstrip("/")

    def release() -> None:
        assert service.hanging.wait(WAIT)
        time.sleep(0.1)
        service.release()

    def kept_waiting(read: Callable[[], str]) -> str:
        service.hanging.clear()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(release)
            return read()

    asked: Any = {"model": "fake/model", "messages": user("!hang 0")}
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        chat = client.chat.completions
        assert (
            kept_waiting(
                lambda: "".join(chunk.choices[0].delta.content or "" for chunk in chat.create(**asked, stream=True))
            )
            == REPLY
        )
        with_prompt: Any = {"model": "fake/model", "prompt": "!hang 0", "max_tokens": 50, "stream": True}
        assert (
            kept_waiting(lambda: "".join(chunk.choices[0].text for chunk in client.completions.create(**with_prompt)))
            == REPLY
        )

        def respond() -> str:
            with client.responses.stream(model="fake/model", input="!hang 0") as stream:
                return stream.get_final_response().output_text

        assert kept_waiting(respond) == REPLY
    with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0) as claude:

        def message() -> str:
            with claude.messages.stream(**asked, max_tokens=50) as stream:
                return stream.get_final_text()

        assert kept_waiting(message) == REPLY


@pytest.mark.parametrize("path", FIRST_EVENTS)
def test_a_client_that_waits_for_an_acceptance_is_not_left_without_a_byte(
    lively: tuple[httpx.Client, FakeService], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is wrong with its request is then an event."""
    http, service = lively
    gates: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def slow(*arguments: Any) -> AsyncIterator[Delta]:
        gates.append((asyncio.get_running_loop(), asyncio.Event()))
        await gates[-1][1].wait()
        raise InvalidRequest("all of it is wrong")
        yield Delta()

    monkeypatch.setattr(service, "_stream", slow)
    with http.stream("POST", path, json={**FIRST_EVENTS[path][0], "stream": True}) as response:
        pieces = response.iter_text()
        text = next(pieces)
        assert response.status_code == 200 and text.startswith((": keep-alive", "event: ping"))
        for loop, gate in gates:
            loop.call_soon_threadsafe(gate.set)
        text += "".join(pieces)
    assert "all of it is wrong" in text


async def test_a_stream_sends_nothing_behind_its_end() -> None:
    async def events() -> AsyncGenerator[bytes, None]:
        yield b"one"
        await asyncio.sleep(0.05)
        yield b"two"

    sent: list[Message] = []

    async def send(message: Message) -> None:
        await asyncio.sleep(0)
        sent.append(message)

    keep_alive = KeepAlive(0.01, b"sign")
    response = await start_stream(never, events(), failed=lambda error: b"failed", end=b"end", keep_alive=keep_alive)
    await response({"type": "http"}, never, send)
    bodies = [message["body"] for message in sent[1:]]
    assert bodies[0] == b"one" and bodies[-3:] == [b"two", b"end", b""]
    assert set(bodies[1:-3]) == {b"sign"}
    await asyncio.sleep(0.03)
    assert len(sent) == len(bodies) + 1


async def test_a_client_that_goes_away_before_the_first_event_ends_the_events() -> None:
    ended = asyncio.Event()

    async def events() -> AsyncGenerator[bytes, None]:
        try:
            await asyncio.Event().wait()
            yield b""
        finally:
            ended.set()

    async def leaves() -> Message:
        await asyncio.sleep(0.03)
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnect):
        await start_stream(leaves, events(), failed=lambda error: b"")
    assert ended.is_set()
    ended.clear()
    response = await start_stream(never, events(), failed=lambda error: b"", keep_alive=KeepAlive(0.01))
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await response({"type": "http"}, leaves, send)
    assert ended.is_set() and sent[1]["body"] == b": keep-alive\n\n"


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
