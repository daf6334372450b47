from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import post_chat, post_completion, refused, serve, user

KEY = "admin-secret"


@pytest.fixture
def served() -> Iterator[tuple[httpx.Client, FakeService]]:
    service = FakeService()
    service.loras = ("sql", "poet")
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        yield http, service


def test_adapters_are_listed_with_the_model_that_they_are_for(served: tuple[httpx.Client, FakeService]) -> None:
    http, _ = served
    cards = http.get("/v1/models").json()["data"]
    assert [(card["id"], card["parent"]) for card in cards] == [
        ("fake/model", None),
        ("sql", "fake/model"),
        ("poet", "fake/model"),
    ]
    assert http.get("/v1/models/poet").json()["parent"] == "fake/model"
    theirs = http.get("/v1/models", headers={"anthropic-version": "2023-06-01"}).json()["data"]
    assert [card["id"] for card in theirs] == ["fake/model", "sql", "poet"]
    assert [card["name"] for card in http.get("/api/tags").json()["models"]] == ["fake/model", "sql", "poet"]


def test_a_requests_model_chooses_the_adapter_in_every_api(served: tuple[httpx.Client, FakeService]) -> None:
    http, service = served
    bodies: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": {"messages": user("hi")},
        "/v1/completions": {"prompt": "hi"},
        "/v1/responses": {"input": "hi"},
        "/v1/messages": {"max_tokens": 9, "messages": user("hi")},
        "/v1/embeddings": {"input": "hi"},
        "/v1/score": {"text_1": "hi", "text_2": "ho"},
        "/api/chat": {"messages": user("hi"), "stream": False},
        "/api/generate": {"prompt": "hi", "stream": False},
        "/api/embed": {"input": "hi"},
    }
    for path, body in bodies.items():
        for name, lora in (("poet", "poet"), ("fake/model", None), ("poet:latest", "poet")):
            response = http.post(path, json={"model": name, **body})
            assert (response.status_code, response.json()["model"]) == (200, lora or "fake/model"), (path, name)
            assert service.requests[-1].lora == lora, (path, name)
    assert post_chat(http).json()["model"] == "fake/model"
    assert service.requests[-1].lora is None


def test_a_stream_names_the_adapter(served: tuple[httpx.Client, FakeService]) -> None:
    http, _ = served
    assert '"model":"sql"' in post_completion(http, model="sql", stream=True).text


def test_an_unknown_name_is_told_which_there_are(served: tuple[httpx.Client, FakeService]) -> None:
    http, _ = served
    refused(post_chat(http, model="novel"), 404, "model", "'novel'", "'fake/model' and 'sql' and 'poet'")


def test_adapters_are_loaded_and_unloaded(served: tuple[httpx.Client, FakeService], tmp_path: Path) -> None:
    http, service = served
    added = {"lora_name": "new", "lora_path": str(tmp_path)}
    answer = http.post("/v1/load_lora_adapter", json=added)
    assert (answer.status_code, answer.text) == (200, "Success: LoRA adapter 'new' added successfully.")
    assert list(service.loras) == ["sql", "poet", "new"]
    refused(http.post("/v1/load_lora_adapter", json=added), 400, "lora_name", "already")
    answer = http.post("/v1/unload_lora_adapter", json={"lora_name": "sql"})
    assert (answer.status_code, answer.text) == (200, "Success: LoRA adapter 'sql' removed successfully.")
    assert list(service.loras) == ["poet", "new"]
    refused(http.post("/v1/unload_lora_adapter", json={"lora_name": "sql"}), 404, "lora_name", "'poet', 'new'")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "lora_name"),
        ({"lora_name": "x"}, "lora_path"),
        ({"lora_name": "", "lora_path": "/x"}, "lora_name"),
        ({"lora_name": "a b", "lora_path": "/x"}, "lora_name"),
        ({"lora_name": "x", "lora_path": "relative"}, "lora_path"),
        ({"lora_name": 3, "lora_path": "/x"}, "lora_name"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    served: tuple[httpx.Client, FakeService], body: dict[str, object], field: str
) -> None:
    refused(served[0].post("/v1/load_lora_adapter", json=body), 400, field)


def test_only_administrators_load_and_unload() -> None:
    settings = Settings.load({"api_key": ["user"], "admin_key": [KEY]}, None, {})
    service = FakeService()
    body = {"lora_name": "new", "lora_path": "/adapters/new"}
    with serve(service, settings) as address, httpx.Client(base_url=address) as http:
        for path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"):
            assert http.post(path, json=body, headers={"Authorization": "Bearer user"}).status_code == 403
            assert http.post(path, json=body).status_code == 401
        assert not service.loras
        headers = {"Authorization": f"Bearer {KEY}"}
        assert http.post("/v1/load_lora_adapter", json=body, headers=headers).status_code == 200
    assert service.loras == ("new",)
