"""The model as Ollama's clients see it, and what cannot be done with it."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from paceline.conversation.parsing.formats import OutputFormat
from tests.server.fake_service import SCHEDULING, FakeService
from tests.server.ollama.harness import lines, refused


@pytest.fixture(autouse=True)
def _described(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "statistics", replace(SCHEDULING))


def test_the_served_model_is_the_one_in_the_lists(http: httpx.Client) -> None:
    (tag,) = http.get("/api/tags").json()["models"]
    assert tag["name"] == tag["model"] == "fake/model" and tag["size"] == 400 and len(tag["digest"]) == 64
    assert tag["details"]["family"] == "fake" and tag["details"]["format"] == "mlx" and tag["modified_at"]
    (running,) = http.get("/api/ps").json()["models"]
    assert running["digest"] == tag["digest"] and running["context_length"] == 4096 and running["size_vram"] == 400
    for path in ("/api/tags", "/api/version"):
        assert http.head(path).status_code == 200


def test_the_version_is_one_that_apps_can_compare(http: httpx.Client) -> None:
    version = http.get("/api/version").json()
    assert [int(part) for part in version["version"].split(".")] >= [0, 6, 4] and version["paceline"]


def test_a_shown_model_says_what_it_can_do(
    http: httpx.Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = http.post("/api/show", json={"model": "fake/model"}).json()
    assert shown["capabilities"] == ["completion", "vision", "embedding"]
    assert shown["model_info"] == {
        "general.architecture": "fake",
        "fake.context_length": 4096,
        "fake.embedding_length": 4,
    }
    monkeypatch.setattr(service, "answer_format", OutputFormat("hermes", "think"))
    monkeypatch.setattr(service.tokenizer, "chat_template", "{{ tools }}")
    monkeypatch.setattr(service, "takes_images", False)
    shown = http.post("/api/show", json={"name": "fake/model:latest"}).json()
    assert shown["capabilities"] == ["completion", "tools", "thinking", "embedding"]
    assert shown["template"] == "{{ tools }}"
    refused(http.post("/api/show", json={"model": "llama3.2"}), 404, "not found")
    refused(http.post("/api/show", json={}), 400, "model")


def test_other_fields_of_ollamas_requests_are_known(http: httpx.Client) -> None:
    for path, fields in (("pull", {"stream": False, "insecure": True}), ("show", {"verbose": True, "options": {}})):
        answer = http.post(f"/api/{path}", json={"model": "fake/model", **fields})
        assert answer.status_code == 200 and "x-paceline-ignored-fields" not in answer.headers


def test_the_served_model_is_pulled_at_once_and_no_other_is(http: httpx.Client) -> None:
    assert lines(http.post("/api/pull", json={"model": "fake/model"})) == [{"status": "success"}]
    assert http.post("/api/pull", json={"name": "fake/model", "stream": False}).json() == {"status": "success"}
    refused(http.post("/api/pull", json={"model": "llama3.2"}), 404, "not found", "fake/model")


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("POST", "/api/push", "not pushed"),
        ("POST", "/api/create", "paceline serve"),
        ("POST", "/api/copy", "--served-model-name"),
        ("DELETE", "/api/delete", "not deleted"),
        ("POST", "/api/blobs/sha256:12", "not stored"),
    ],
)
def test_what_manages_models_says_why_not(http: httpx.Client, method: str, path: str, words: str) -> None:
    refused(http.request(method, path), 404, words, f"{method} {path}")
