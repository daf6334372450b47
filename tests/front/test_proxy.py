from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from paceline.settings import Settings
from tests.front.harness import Front, front, table
from tests.server.harness import events, open_request, refused, user
from tests.waiting import until


@pytest.fixture(scope="module")
def served() -> Any:
    with front([table("a", aliases=("gpt",)), table("b")], settings=Settings(max_body_mb=1)) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": user("hi")}),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/responses", {"input": "hi"}),
        ("/v1/messages", {"messages": user("hi"), "max_tokens": 9}),
        ("/v1/embeddings", {"input": "hi"}),
        ("/api/chat", {"messages": user("hi"), "stream": False}),
        ("/api/generate", {"prompt": "hi", "stream": False}),
        ("/chat/completions", {"messages": user("hi")}),
    ],
)
def test_every_api_goes_to_the_model_that_it_names(served: Front, path: str, body: dict[str, Any]) -> None:
    for asked, model in (("a", "a"), ("gpt", "a"), ("b", "b")):
        answer = served.http.post(path, json={**body, "model": asked})
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == model


def test_a_request_without_a_model_goes_to_the_first(served: Front) -> None:
    assert served.chat(None).json()["model"] == "a"


def test_an_unknown_model_is_a_404_that_lists_what_there_is_in_every_dialect(served: Front) -> None:
    refused(served.chat("nope"), 404, "model", "'nope'", "'a', 'b'", "--default-model")
    body = {"model": "nope", "messages": user("hi"), "max_tokens": 1}
    assert "'a', 'b'" in served.http.post("/v1/messages", json=body).json()["error"]["message"]
    assert "'a', 'b'" in served.http.post("/api/chat", json=body).json()["error"]
    answer = served.chat("x" * 100_000)
    assert answer.status_code == 404 and len(answer.text) < 1000


@pytest.mark.slow
def test_a_default_model_answers_for_unknown_names() -> None:
    with front([table("a"), table("b")], settings=Settings(default_model="b")) as served:
        for name in ("nope", None):
            assert served.chat(name).json()["model"] == "b"
        assert served.chat("a").json()["model"] == "a"


def test_a_stream_is_the_same_as_without_a_front(served: Front) -> None:
    found = events(served.chat("b", stream=True, stream_options={"include_usage": True}))
    assert "".join(event["choices"][0]["delta"].get("content") or "" for event in found if event["choices"])
    assert found[-1]["usage"]["completion_tokens"] > 0


def test_ids_of_responses_reach_the_process_that_made_them(served: Front) -> None:
    served.chat("a")
    made = served.http.post("/v1/responses", json={"model": "b", "input": "hi"}).json()
    path = f"/v1/responses/{made['id']}"
    assert served.http.get(path).json()["model"] == "b"
    assert served.http.get(f"{path}/input_items").json()["data"]
    body = {"model": "b", "input": "more", "previous_response_id": made["id"]}
    assert served.http.post("/v1/responses", json=body).status_code == 200
    assert served.http.delete(path).json()["deleted"]
    refused(served.http.get(path), 404, None, "is not stored here")


def test_a_request_id_is_kept_and_cancels_in_the_process(served: Front) -> None:
    body = {"model": "a", "messages": user("!hang 1"), "stream": True}
    headers = {"x-request-id": "mine"}
    url = f"{served.address}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, headers=headers, timeout=120) as stream:
        assert stream.headers["x-request-id"] == "mine"
        assert served.http.delete("/v1/requests/mine").json()["cancelled"]
        assert "cancelled" in "".join(stream.iter_text())
    for unknown in ("mine", "a%20b%0d%0aX:%20y", "%2f%00"):
        assert served.http.delete(f"/v1/requests/{unknown}").status_code == 404


def test_a_client_that_goes_away_ends_the_work_in_the_process(served: Front) -> None:
    connection = open_request(served.address, "/v1/chat/completions", {"model": "a", "messages": user("!hang 1")})
    until(lambda: served.state("a")["status"]["num_requests_running"] == 1)
    connection.close()
    until(lambda: served.state("a")["status"]["num_requests_running"] == 0)
    until(lambda: served.state("a")["requests"] == 0)


def test_a_process_that_dies_in_a_stream_ends_it_with_an_error_in_its_dialect(served: Front) -> None:
    found = served.chat("b", "!die", stream=True)
    *_, last, done = [part for part in found.text.split("\n\n") if part]
    assert "ended before its answer did" in json.loads(last.removeprefix("data: "))["error"]["message"]
    assert done == "data: [DONE]"
    served.until_state("b", "failed")
    body = {"model": "b", "messages": user("!die"), "max_tokens": 9, "stream": True}
    text = served.http.post("/v1/messages", json=body).text
    assert text.rpartition("event: error\n")[2].startswith("data: {")
    text = served.http.post("/v1/responses", json={"model": "a", "input": "!die", "stream": True}).text
    events = [json.loads(part.partition("data: ")[2]) for part in text.split("\n\n") if part]
    assert events[-1]["type"] == "response.failed"
    assert "ended before its answer did" in events[-1]["response"]["error"]["message"]
    assert events[-1]["response"]["id"] == events[0]["response"]["id"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"{", 400, "not valid JSON"),
        (b"[]", 400, "must be a JSON object"),
        (b'{"model": 3}', 400, "must be text"),
        (b'{"model": "a", "messages": ' + b"[" * 100_000, 400, ""),
        (b'{"model": "a", "x": "' + b"x" * (2 << 20) + b'"}', 413, "1 MiB"),
        (b'{"model": "../../etc/passwd"}', 404, "does not exist here"),
    ],
)
def test_hostile_bodies_are_refused_by_the_front(served: Front, content: bytes, status: int, words: str) -> None:
    before = served.state("a")["loads"]
    answer = served.http.post("/v1/chat/completions", content=content)
    assert answer.status_code == status and words in answer.json()["error"]["message"]
    assert served.state("a")["loads"] == before


def test_a_body_without_an_end_is_cut_off_at_the_limit(served: Front) -> None:
    def endless() -> Any:
        for _ in range(64):
            yield b" " * (64 << 10)

    answer = served.http.post("/v1/chat/completions", content=endless())
    assert answer.status_code == 413


def test_clients_cannot_say_who_they_are_in_the_fronts_words() -> None:
    settings = Settings(api_key=("k",), admin_key=("adm",))  # type: ignore[arg-type]
    with front([table("a")], settings=settings) as served:
        forged = {"x-paceline-user": "admin-1", "x-paceline-admin": "1"}
        assert served.http.get("/v1/models", headers=forged).status_code == 401
        key = {"authorization": "Bearer k", **forged}
        assert served.http.post("/v1/models/a/unload", headers=key).status_code == 403
        assert served.chat("a").status_code == 401


@pytest.mark.slow
def test_what_a_process_says_about_itself_keeps_no_model_loaded() -> None:
    with front([table("a"), table("b")]) as served:
        refused(served.http.get("/v1/loads"), 503, None, "No model is loaded")
        served.chat("b")
        assert served.http.get("/v1/loads").status_code == 200
        refused(served.http.get("/v1/loads", params={"model": "a"}), 503, None, "'a' is not loaded")
        refused(served.http.get("/v1/loads", params={"model": "nope"}), 404, "model", "'nope'")
        with served.http.stream("GET", "/v1/status/stream", params={"model": "b"}) as stream:
            assert stream.status_code == 200 and next(stream.iter_lines())
            assert served.http.post("/v1/models/b/unload").status_code == 200
