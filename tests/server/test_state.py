"""Streams that arrive while the model loads."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from paceline.settings import Settings
from tests.server.fake_service import REPLY, FakeService
from tests.server.harness import refused, serve, user
from tests.waiting import WAIT

SIGNS = {
    "/v1/chat/completions": b": keep-alive\n\n",
    "/v1/completions": b": keep-alive\n\n",
    "/v1/responses": b": keep-alive\n\n",
    "/v1/messages": b'event: ping\ndata: {"type":"ping"}\n\n',
    "/api/chat": b'{"model":"fake/model"',
    "/api/generate": b'{"model":"fake/model"',
}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": user("hi")},
    "/v1/completions": {"prompt": "hi", "max_tokens": 100},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": user("hi"), "max_tokens": 100},
    "/api/chat": {"model": "fake/model", "messages": user("hi")},
    "/api/generate": {"model": "fake/model", "prompt": "hi"},
}
PATHS = pytest.mark.parametrize("path", BODIES)


@pytest.fixture
def loading() -> Iterator[tuple[FakeService, httpx.Client]]:
    service = FakeService()
    settings = Settings(stream_keepalive_seconds=0.02)
    with serve(service, settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        service.ready = False
        yield service, http


def signs_then(http: httpx.Client, path: str, then: threading.Event) -> bytes:
    """All of a stream; `then` is set when it has sent its first sign of life."""
    body = {**BODIES[path], "stream": True}
    with http.stream("POST", path, json=body) as response:
        assert response.status_code == 200
        content = b""
        for chunk in response.iter_bytes():
            content += chunk
            if content.startswith(SIGNS[path]):
                then.set()
        return content


@PATHS
def test_a_stream_is_kept_alive_while_the_model_loads(path: str, loading: tuple[FakeService, httpx.Client]) -> None:
    service, http = loading
    waits = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(signs_then, http, path, waits)
        assert waits.wait(WAIT)
        assert not service.requests
        service.ready = True
        content = asked.result(WAIT)
    assert len(service.requests) == 1
    assert b"error" not in content.replace(b'"error":null', b"")
    if path.startswith("/api"):
        assert json.loads(content.splitlines()[-1])["done"] is True
    assert REPLY.split()[-1] in content.decode()


@PATHS
def test_a_model_that_fails_to_load_is_an_error_in_the_apis_own_form(
    path: str, loading: tuple[FakeService, httpx.Client]
) -> None:
    service, http = loading
    waits = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(signs_then, http, path, waits)
        assert waits.wait(WAIT)
        service.failure = "no memory is left"
        content = asked.result(WAIT).decode()
    last = content.removesuffix("data: [DONE]\n\n").rstrip().rpartition("\n")[2].removeprefix("data: ")
    told = json.loads(last)
    if path.startswith("/api"):
        assert told == {"error": "no memory is left"}
    elif path == "/v1/messages":
        error = {"type": "overloaded_error", "message": "no memory is left"}
        assert told["type"] == "error" and told["error"] == error and "event: error\n" in content
    elif path == "/v1/responses":
        assert "event: error\n" in content
        assert (told["type"], told["message"], told["code"]) == ("error", "no memory is left", None)
        assert told["error"]["message"] == "no memory is left"
    else:
        assert told["error"]["message"] == "no memory is left" and content.endswith("data: [DONE]\n\n")


def test_the_openai_client_raises_what_ended_a_response_before_it_was_created(
    loading: tuple[FakeService, httpx.Client],
) -> None:
    service, http = loading
    client = openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="x", max_retries=0)
    stream = client.responses.create(model="fake/model", input="hi", stream=True)  # returns at the first sign of life
    service.failure = "no memory is left"
    with pytest.raises(openai.APIError, match="no memory is left"):
        list(stream)


@PATHS
def test_what_is_not_streamed_does_not_wait(path: str, loading: tuple[FakeService, httpx.Client]) -> None:
    _, http = loading
    response = http.post(path, json={**BODIES[path], "stream": False})
    assert response.status_code == 503 and "loading" in response.text and response.headers["retry-after"]


def test_a_response_in_the_background_does_not_wait(loading: tuple[FakeService, httpx.Client]) -> None:
    _, http = loading
    refused(http.post("/v1/responses", json={"input": "hi", "background": True, "stream": True}), 503, None, "loading")
    refused(http.post("/v1/responses/input_tokens", json={"input": "hi", "stream": True}), 503, None, "loading")


def test_a_wrong_field_is_refused_while_the_model_loads(loading: tuple[FakeService, httpx.Client]) -> None:
    _, http = loading
    asked = {**BODIES["/v1/chat/completions"], "stream": True}
    refused(http.post("/v1/chat/completions", json={**asked, "temperature": "hot"}), 400, "temperature")
    refused(http.post("/v1/chat/completions", json={**asked, "model": "other"}), 404, "model")
