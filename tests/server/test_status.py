from __future__ import annotations

import httpx
import openai
import pytest

from paceline.settings import Settings
from tests.server.fake_service import BEGIN, PREFIX_CACHE, ROW, SCHEDULING, SPECPREFILL, FakeService
from tests.server.harness import post_chat, refused, serve, user


def test_a_served_model_is_alive_and_ready(http: httpx.Client) -> None:
    assert http.get("/health").status_code == 200
    assert http.get("/ready").status_code == 200


def test_an_engine_that_gave_up_is_unhealthy_and_says_why() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        service.failure = "ten steps failed in a row"
        for path in ("/health", "/ready"):
            refused(http.get(path), 503, None, "ten steps")
        response = post_chat(http)
        refused(response, 503, None, "ten steps")
        assert response.headers["retry-after"]
        assert http.get("/v1/status").status_code == 200


def test_a_server_answers_while_its_model_loads() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        service.ready = False
        assert http.get("/health").status_code == 200
        refused(http.get("/ready"), 503, None, "loading")
        refused(post_chat(http), 503, None, "loading")


def test_status_has_running_and_waiting_as_integers(http: httpx.Client) -> None:
    status = http.get("/v1/status").json()
    assert type(status["running"]) is int and type(status["waiting"]) is int


def test_status_shows_how_the_engine_drafts() -> None:
    service = FakeService()
    service.speculation = {"enabled": False, "reason": "no MTP head", "setting": "auto", "depths": [3, 0]}
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        assert http.get("/v1/status").json()["speculation"] == service.speculation


def test_status_shows_what_is_cached() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        assert "prefix_cache" not in http.get("/v1/status").json()
        service.prefix_cache = PREFIX_CACHE
        assert http.get("/v1/status").json()["prefix_cache"] == PREFIX_CACHE


def test_status_shows_how_prompts_are_read_sparsely() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        for said in (SPECPREFILL, {"enabled": False, "reason": "no draft model is loaded"}):
            service.specprefill = said
            assert http.get("/v1/status").json()["specprefill"] == said


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_status_shows_rows_and_ids_to_their_owner_and_to_administrators_only() -> None:
    settings = Settings.load({"api_key": ["sk-one", "sk-two"], "admin_key": "sk-admin"}, None, {})
    service = FakeService(settings)
    body = {"messages": user("!hang 1"), "stream": True}
    with (
        serve(service, settings) as address,
        httpx.Client(base_url=address) as http,
        http.stream("POST", "/v1/chat/completions", json=body, headers=bearer("sk-one")) as response,
    ):
        chunks = response.iter_bytes()  # kept: the connection is closed with it
        assert b'"H"' in next(chunks)
        [running] = service.running
        service.scheduling = {
            **SCHEDULING,
            "rows": [{**ROW, "id": running, "state": "decode"}],
            "queue": [{**ROW, "id": "chatcmpl-other", "state": "waiting", "position": 1, "reason": "memory"}],
        }

        def ids(key: str) -> list[str | None]:
            status = http.get("/v1/status", headers=bearer(key)).json()
            assert status["rows"][0] == {**ROW, "id": status["rows"][0]["id"], "state": "decode"}
            return [row["id"] for row in (*status["rows"], *status["queue"])]

        assert ids("sk-one") == [running, None]
        assert ids("sk-two") == [None, None]
        assert ids("sk-admin") == [running, "chatcmpl-other"]


def test_without_keys_the_servers_own_machine_sees_all_ids() -> None:
    service = FakeService()
    service.scheduling = {**SCHEDULING, "rows": [{**ROW, "id": "chatcmpl-1", "state": "decode"}], "queue": []}
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        status = http.get("/v1/status").json()
    assert [row["id"] for row in status["rows"]] == ["chatcmpl-1"]
    assert status["policy"] == SCHEDULING["policy"] and status["budget"] == SCHEDULING["budget"]


def test_the_model_list_validates_as_openais_type(client: openai.OpenAI) -> None:
    [model] = client.models.list().data
    assert (model.id, model.object) == ("fake/model", "model")
    assert client.models.retrieve("fake/model").id == "fake/model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other/model")


def test_a_model_is_known_by_its_served_name_and_its_own() -> None:
    settings = Settings(served_model_name="pretty")
    with serve(FakeService(), settings) as address, httpx.Client(base_url=address) as http:
        assert http.get("/v1/models").json()["data"][0]["id"] == "pretty"
        for name in ("pretty", "fake/model"):
            assert post_chat(http, model=name).json()["model"] == "pretty"
        refused(post_chat(http, model="prett"), 404, "model")


def test_text_is_tokenized_with_and_without_special_tokens(http: httpx.Client) -> None:
    answer = http.post("/tokenize", json={"model": "fake/model", "prompt": "ab"}).json()
    assert answer == {"count": 3, "max_model_len": 4096, "tokens": [BEGIN, 97, 98], "token_strs": None}
    bare = {"prompt": "ab", "add_special_tokens": False, "return_token_strs": True}
    assert http.post("/tokenize", json=bare).json()["token_strs"] == ["a", "b"]


def test_messages_are_tokenized_as_the_template_renders_them(http: httpx.Client) -> None:
    body = {"messages": user("hi"), "add_generation_prompt": False}
    tokens = http.post("/tokenize", json=body).json()["tokens"]
    assert http.post("/detokenize", json={"tokens": tokens}).json() == {"prompt": "<begin>user: hi"}


@pytest.mark.parametrize("body", [{}, {"prompt": "a", "messages": user("a")}])
def test_tokenize_takes_either_a_prompt_or_messages(http: httpx.Client, body: dict[str, object]) -> None:
    refused(http.post("/tokenize", json=body), 400, "prompt")


def test_a_token_that_does_not_exist_cannot_be_detokenized(http: httpx.Client) -> None:
    refused(http.post("/detokenize", json={"tokens": [97, 258]}), 400, "tokens", "258")


def test_an_unknown_path_and_method_have_openais_error_object(http: httpx.Client) -> None:
    refused(http.get("/v1/nothing"), 404, None)
    refused(http.get("/v1/chat/completions"), 405, None)


def test_the_schema_describes_the_bodies(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    schema = paths["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "temperature" in schema["properties"]
