"""Words for what Ollama's clients ask, and for what they read."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.server.harness import user

LINES = "application/x-ndjson"


def post(http: httpx.Client, text: Any = "hi", **fields: Any) -> httpx.Response:
    return http.post("/api/chat", json={"model": "fake/model", "messages": user(text), **fields})


def whole(http: httpx.Client, text: Any = "hi", **fields: Any) -> dict[str, Any]:
    response = post(http, text, stream=False, **fields)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    """A stream's objects: every line is one."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == LINES
    *found, rest = response.text.split("\n")
    assert rest == ""
    return [json.loads(line) for line in found]


def refused(response: httpx.Response, status: int, *words: str) -> str:
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error"}
    message: str = response.json()["error"]
    for word in words:
        assert word in message
    return message
