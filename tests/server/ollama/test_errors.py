"""Errors below /api are one text."""

from __future__ import annotations

import httpx

from paceline.errors import InvalidRequest
from paceline.server.http.errors import ModelNotFound
from paceline.server.ollama.errors import failed, ollama_error
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import serve
from tests.server.ollama.harness import post, refused


def test_a_field_is_named_once() -> None:
    assert ollama_error(InvalidRequest.at("format", "is odd.")) == {"error": "format is odd."}
    assert ollama_error(InvalidRequest("It is odd.", field="format")) == {"error": "format: It is odd."}
    assert ollama_error(ModelNotFound("a", "b"))["error"].startswith("model not found: ")
    assert failed(RuntimeError("a secret")) == b'{"error":"The server failed on this request. Its log says why."}\n'


def test_every_kind_of_failure_has_ollamas_form(http: httpx.Client) -> None:
    refused(http.post("/api/chat", content=b"{"), 400, "not valid JSON")
    refused(http.post("/api/chat", content=b"x" * (5 << 20)), 413, "larger")
    refused(http.get("/api/chat"), 405)
    refused(http.get("/api/robots"), 404)
    refused(post(http, "!crash"), 500, "log says why")


def test_a_key_is_asked_for() -> None:
    settings = Settings.model_validate({"api_key": "secret"})
    with serve(FakeService(settings), settings) as address, httpx.Client(base_url=address) as http:
        refused(http.get("/api/tags"), 401, "API key")
        assert http.get("/api/tags", headers={"Authorization": "Bearer secret"}).status_code == 200
