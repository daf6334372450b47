from __future__ import annotations

import httpx

from paceline.settings import Settings
from tests.server.fake_service import PREFIX_CACHE, ROW, SCHEDULING, SPECPREFILL, FakeService
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
