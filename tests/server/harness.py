"""A server in a thread, and words for what tests ask it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import uvicorn

from paceline.preflight import listen
from paceline.server.app import configured, create_app
from paceline.server.state import Backend
from paceline.settings import Settings
from tests.waiting import WAIT

Address = str


@contextlib.contextmanager
def serve(backend: Backend, settings: Settings, port: int = 0) -> Iterator[Address]:
    listener = listen(settings.model_copy(update={"port": port}))
    started = threading.Event()
    app = create_app(backend, settings, started=lambda failure: started.set())
    server = uvicorn.Server(configured(app, settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        assert started.wait(WAIT)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def open_request(address: Address, path: str, body: dict[str, Any]) -> socket.socket:
    """A request on a bare socket, which can be closed at any moment."""
    url, content = httpx.URL(address), json.dumps(body).encode()
    connection = socket.create_connection((url.host, url.port or 80), timeout=WAIT)
    connection.sendall(
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
    )
    return connection


def user(text: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def post_chat(http: httpx.Client, text: Any = "hi", **fields: Any) -> httpx.Response:
    return http.post("/v1/chat/completions", json={"messages": user(text), **fields})


def post_completion(http: httpx.Client, prompt: Any = "hi", **fields: Any) -> httpx.Response:
    return http.post("/v1/completions", json={"prompt": prompt, **fields})


def events(response: httpx.Response) -> list[dict[str, Any]]:
    """The JSON events of a stream without its comments, which must end with [DONE]."""
    assert response.headers["content-type"].startswith("text/event-stream")
    parts = [part for part in response.text.split("\n\n") if not part.startswith(":")]
    assert parts[-2:] == ["data: [DONE]", ""]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


def refused(response: httpx.Response, status: int, param: str | None, *words: str) -> dict[str, Any]:
    """The error object of a refusal, which must name the field and say these words."""
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error"}
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param
    for word in words:
        assert word in error["message"]
    return error
