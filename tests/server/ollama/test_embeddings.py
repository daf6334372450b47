"""/api/embed and /api/embeddings."""

from __future__ import annotations

import httpx
import pytest

from paceline.server.ollama.embeddings import truncated
from paceline.server.state import AppState
from tests.server.fake_service import BEGIN, FakeService
from tests.server.ollama.harness import refused


def test_each_text_has_a_vector(http: httpx.Client) -> None:
    answer = http.post("/api/embed", json={"model": "fake/model", "input": ["a", "bcd"]}).json()
    assert set(answer) == {"model", "embeddings", "total_duration", "load_duration", "prompt_eval_count"}
    assert [len(vector) for vector in answer["embeddings"]] == [4, 4]
    assert answer["prompt_eval_count"] == 2 + 4
    one = http.post("/api/embed", json={"input": "a"}).json()["embeddings"]
    assert one == answer["embeddings"][:1]
    assert http.post("/api/embeddings", json={"prompt": "a"}).json() == {"embedding": one[0]}


def test_to_nothing_there_is_no_vector(http: httpx.Client) -> None:
    assert http.post("/api/embed", json={"input": ""}).json()["embeddings"] == []
    assert http.post("/api/embeddings", json={"prompt": ""}).json() == {"embedding": []}


def test_dimensions_are_the_first_numbers(http: httpx.Client) -> None:
    (vector,) = http.post("/api/embed", json={"input": "a", "dimensions": 2}).json()["embeddings"]
    assert len(vector) == 2 and sum(number**2 for number in vector) == pytest.approx(1)
    refused(http.post("/api/embed", json={"input": "a", "dimensions": 5}), 400, "dimensions")


def test_a_long_text_is_cut_unless_the_client_says_no(http: httpx.Client) -> None:
    assert http.post("/api/embed", json={"input": "a" * 5000}).json()["prompt_eval_count"] == 4095
    assert len(http.post("/api/embeddings", json={"prompt": "a" * 5000}).json()["embedding"]) == 4
    refused(http.post("/api/embed", json={"input": "a" * 5000, "truncate": False}), 400, "4096")


def test_a_cut_text_keeps_the_tokens_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    service = FakeService()
    service.context_length = 8

    def tokenize(text: str, add_special_tokens: bool = True) -> list[int]:
        return [BEGIN, *text.encode(), 9] if add_special_tokens else list(text.encode())

    monkeypatch.setattr(service, "tokenize", tokenize)
    state: AppState = AppState(service, *[None] * 4)  # type: ignore[arg-type]
    assert truncated(state, ["a", "abcde", "abcdefgh"]) == ["a", "abcde", [BEGIN, *b"abcde", 9]]


def test_inputs_are_checked(http: httpx.Client) -> None:
    refused(http.post("/api/embed", json={}), 400, "input")
    refused(http.post("/api/embed", json={"input": [1]}), 400, "input")
    refused(http.post("/api/embed", json={"input": ["a"] * 3000}), 400, "input", "2048")
    refused(http.post("/api/embed", json={"input": "a", "options": {"num_ctx": 9999}}), 400, "options.num_ctx")
