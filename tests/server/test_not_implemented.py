"""What is not served says so; the front page says what is."""

from __future__ import annotations

import httpx
import openai
import pytest

from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import refused, serve


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("POST", "/v1/audio/speech", "Speech"),
        ("POST", "/v1/audio/transcriptions", "transcription"),
        ("POST", "/v1/images/generations", "not generated"),
        ("POST", "/v1/images/edits", "not generated"),
        ("POST", "/v1/moderations", "moderation"),
        ("POST", "/v1/fine_tuning/jobs", "not trained"),
        ("GET", "/v1/fine_tuning/jobs/ftjob-1/events", "not trained"),
        ("GET", "/v1/files", "not stored"),
        ("DELETE", "/v1/files/file-1", "not stored"),
        ("GET", "/v1/batches", "no batch jobs"),
        ("POST", "/v1/batches", "no batch jobs"),
        ("POST", "/v1/assistants", "/v1/responses"),
        ("POST", "/v1/complete", "/v1/messages"),
        ("PUT", "/v1/audio", "Speech"),
        ("POST", "/v1/models/some/name/load", "with more than one MODEL"),
        ("POST", "/v1/models/name/unload", "--models-dir"),
    ],
)
def test_what_is_not_served_is_a_404_that_says_so(http: httpx.Client, method: str, path: str, words: str) -> None:
    error = refused(http.request(method, path), 404, None, words, f"{method} {path}")
    assert error["code"] == "not_found" and error["type"] == "invalid_request_error"


def test_batches_of_messages_are_a_404_as_anthropic_writes_it(http: httpx.Client) -> None:
    for path in ("/v1/messages/batches", "/v1/messages/batches/b-1/results"):
        error = http.get(path).json()["error"]
        assert error["type"] == "not_found_error" and "no batches of messages" in error["message"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/chat/completion", "did you mean /v1/chat/completions?"),
        ("/v1/chat", "did you mean /v1/chat/completions?"),
        ("/tokenise", "did you mean /tokenize?"),
        ("/v1/zzz", "/openapi.json"),
        (f"/{'x' * 9000}", "/openapi.json"),
    ],
)
def test_a_path_that_nobody_has_is_a_404_that_helps(http: httpx.Client, path: str, words: str) -> None:
    error = refused(http.post(path, json={}), 404, None, words)
    assert error["code"] == "not_found" and len(error["message"]) < 300


def test_openais_client_shows_the_words(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no moderation model"):
        client.moderations.create(input="a")
    with pytest.raises(openai.NotFoundError, match="not generated"):
        client.images.generate(prompt="a bird")
    with pytest.raises(openai.NotFoundError, match="not stored"):
        client.files.list()


def test_a_model_is_found_by_its_whole_name_and_no_other_is(client: openai.OpenAI, http: httpx.Client) -> None:
    assert client.models.retrieve("fake/model").id == "fake/model"
    assert http.get("/v1/models/fake/model").json()["id"] == "fake/model"
    assert http.get("/v1/models/fake%2Fmodel").json()["id"] == "fake/model"
    for name in ("gpt-4o", "fake", "fake/model/more", "a/b/c", "%20"):
        error = refused(http.get(f"/v1/models/{name}"), 404, "model", "fake/model")
        assert error["code"] == "model_not_found"


def test_the_front_page_names_the_server_and_the_model(http: httpx.Client) -> None:
    page = http.get("/")
    assert page.status_code == 200
    assert page.json()["server"].startswith("paceline ") and page.json()["model"] == "fake/model"
    assert http.get(page.json()["docs"]).status_code == 200
    head = http.head("/")
    assert (head.status_code, head.content) == (200, b"")


def test_a_key_is_needed_for_these_paths_too() -> None:
    settings = Settings.model_validate({"api_key": "secret"})
    with serve(FakeService(settings), settings) as address, httpx.Client(base_url=address) as http:
        for path in ("/v1/embeddings", "/v1/score", "/v1/audio/speech", "/v1/files"):
            assert http.post(path, json={}).status_code == 401
        answer = http.post("/v1/embeddings", json={"input": "a"}, headers={"Authorization": "Bearer secret"})
        assert answer.status_code == 200
