from __future__ import annotations

import json
import threading
from dataclasses import asdict, replace
from typing import Any

import httpx
import pytest

from paceline.server.app import create_app
from paceline.server.http.auth import OPEN_PATHS, is_loopback
from paceline.server.metrics import REFUSALS
from paceline.settings import Settings
from paceline.stats import SpecDecodeStats, SpecPrefillStats, Stats
from tests.server.fake_service import PREFIX_CACHE, SCHEDULING, SEQUENCE, SPECPREFILL, FakeService
from tests.server.harness import post_chat, refused, serve, user
from tests.waiting import WAIT


def test_a_served_model_is_alive_and_ready(http: httpx.Client) -> None:
    assert http.get("/health").status_code == 200
    assert http.get("/ready").status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ping", "/ready"])
def test_probes_may_ask_with_head_and_without_a_key(http: httpx.Client, path: str) -> None:
    head = http.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert http.get(path).json()["status"] in ("ok", "ready")
    assert path in OPEN_PATHS


def test_a_ping_may_be_a_post(http: httpx.Client) -> None:
    assert http.post("/ping").json() == {"status": "ok"}


def test_an_engine_that_gave_up_is_unhealthy_and_says_why() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        service.failure = "ten steps failed in a row"
        for path in ("/health", "/ping", "/ready"):
            refused(http.get(path), 503, None, "ten steps")
            assert http.head(path).status_code == 503
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


class Locked(FakeService):
    """Its statistics wait, as for the engine's lock, once `asked` may be set."""

    def __init__(self) -> None:
        super().__init__()
        self.locked, self.asked, self.unlocked = False, threading.Event(), threading.Event()

    def stats(self) -> Stats:
        if self.locked:
            self.asked.set()
            assert self.unlocked.wait(WAIT)
        return SCHEDULING


@pytest.mark.parametrize("path", ["/v1/status", "/v1/status/stream", "/v1/loads", "/metrics", "/api/tags", "/api/ps"])
def test_a_look_that_waits_for_the_engine_holds_up_nobody(path: str) -> None:
    service = Locked()
    with serve(service, Settings()) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        service.locked = True

        def look() -> None:
            with http.stream("GET", path) as response:
                lines = response.iter_lines()
                assert any(line == "event: status" for line in lines) if path.endswith("stream") else list(lines)

        looking = threading.Thread(target=look)
        looking.start()
        try:
            assert service.asked.wait(WAIT)
            assert http.get("/health").status_code == 200
            assert looking.is_alive()
        finally:
            service.unlocked.set()
            looking.join(WAIT)


def test_status_has_running_and_waiting_as_integers(http: httpx.Client) -> None:
    status = http.get("/v1/status").json()
    assert type(status["num_requests_running"]) is int and type(status["num_requests_waiting"]) is int


def as_json(stats: Any) -> Any:
    return json.loads(json.dumps(asdict(stats)))


def test_status_shows_how_the_engine_drafts() -> None:
    service = FakeService()
    drafting = SpecDecodeStats(enabled=False, reason="no MTP head", setting="auto", num_steps_per_draft_length=(3, 0))
    service.statistics = Stats(spec_decode=drafting)
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        assert http.get("/v1/status").json()["spec_decode"] == as_json(drafting)


def test_status_shows_what_is_cached() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        status = http.get("/v1/status").json()
        assert (status["state"], status["model"], status["prefix_cache"]["enabled"]) == ("loading", None, False)
        assert status["prefix_cache"]["reason"] == "no model is loaded yet"
        service.statistics = Stats(prefix_cache=PREFIX_CACHE)
        assert http.get("/v1/status").json()["prefix_cache"] == as_json(PREFIX_CACHE)


def test_status_shows_how_prompts_are_read_sparsely() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        for specprefill in (SPECPREFILL, SpecPrefillStats(reason="no draft model is loaded")):
            service.statistics = Stats(specprefill=specprefill)
            assert http.get("/v1/status").json()["specprefill"] == as_json(specprefill)


def test_status_is_the_services_statistics() -> None:
    service = FakeService()
    service.statistics = SCHEDULING
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        status = http.get("/v1/status").json()
    refused = dict.fromkeys(REFUSALS, 0)
    assert status == {**as_json(SCHEDULING), "requests_refused": refused}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_status_shows_ids_to_their_owner_and_to_administrators_only() -> None:
    settings = Settings.load({"api_key": ["sk-one", "sk-two"], "admin_key": "sk-admin"}, None, {})
    service = FakeService(settings)
    body = {"messages": user("!hang 1"), "stream": True}
    with (
        serve(service, settings) as address,
        httpx.Client(base_url=address) as http,
        http.stream("POST", "/v1/chat/completions", json=body, headers=bearer("sk-one")) as response,
    ):
        chunks = response.iter_bytes()  # kept: the connection is closed with it
        assert any(b'"H"' in chunk for chunk in chunks)
        [running] = service.running
        other = replace(SEQUENCE, id="chatcmpl-other", state="waiting", position=1, reason="memory")
        mine = replace(SEQUENCE, id=running)
        service.statistics = replace(SCHEDULING, running_sequences=(mine,), waiting_sequences=(other,))

        def ids(key: str) -> list[str | None]:
            status = http.get("/v1/status", headers=bearer(key)).json()
            assert status["running_sequences"][0] == {**as_json(SEQUENCE), "id": status["running_sequences"][0]["id"]}
            return [sequence["id"] for sequence in (*status["running_sequences"], *status["waiting_sequences"])]

        assert ids("sk-one") == [running, None]
        assert ids("sk-two") == [None, None]
        assert ids("sk-admin") == [running, "chatcmpl-other"]


def test_without_keys_the_servers_own_machine_sees_all_ids() -> None:
    service = FakeService()
    service.statistics = replace(SCHEDULING, running_sequences=(SEQUENCE,))
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        status = http.get("/v1/status").json()
    assert [sequence["id"] for sequence in status["running_sequences"]] == ["chatcmpl-1"]


def test_a_local_client_clears_the_cache_and_reads_what_was_freed(http: httpx.Client, service: FakeService) -> None:
    before = service.clears
    answer = http.post("/v1/cache/clear").json()
    assert answer == {"cleared": {"entries": 2, "bytes": 300, "disk_entries": 1, "disk_bytes": 200}}
    assert service.clears == before + 1
    refused(http.get("/v1/cache/clear"), 405, None)


async def cleared_from(service: FakeService, client: str, origin: str | None = None) -> httpx.Response:
    app = create_app(service, Settings())
    transport = httpx.ASGITransport(app, client=(client, 1234))
    headers = {} if origin is None else {"origin": origin}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http,
    ):
        return await http.post("/v1/cache/clear", headers=headers)


@pytest.mark.thin(2, first=1)
@pytest.mark.parametrize(
    "client", ["192.0.2.7", "10.0.0.1", "2001:db8::1", "::ffff:192.0.2.7", "localhost.evil.example", ""]
)
async def test_a_client_elsewhere_may_not_clear_the_cache(client: str) -> None:
    service = FakeService()
    error = refused(await cleared_from(service, client), 403, None, "own machine", client)
    assert error["code"] == "forbidden"
    assert service.clears == 0


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://evil.example:8000",
        "http://localhost.evil.example",
        "null",
        "",
        "http://[",
        "http://192.0.2.7",
    ],
)
async def test_a_web_page_from_elsewhere_may_not_clear_the_cache_from_a_local_browser(origin: str) -> None:
    service = FakeService()
    refused(await cleared_from(service, "127.0.0.1", origin), 403, None, "web page", repr(origin))
    assert service.clears == 0


@pytest.mark.thin(5)
@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("origin", [None, "http://localhost:3000", "http://127.0.0.1:8000", "http://[::1]:8000"])
async def test_local_clients_and_local_pages_may_clear_the_cache(client: str, origin: str | None) -> None:
    assert (await cleared_from(FakeService(), client, origin)).status_code == 200


def test_a_cache_that_is_not_there_yet_cannot_be_cleared() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        service.ready = False
        refused(http.post("/v1/cache/clear"), 503, None, "loading")
        service.ready, service.failure = True, "ten steps failed in a row"
        refused(http.post("/v1/cache/clear"), 503, None, "ten steps")
    assert service.clears == 0


@pytest.mark.parametrize("host", ["", "host", "0.0.0.0", "127.0.0.1.evil.example", "::", "%", "1" * 500])
def test_what_is_no_loopback_address_is_none(host: str) -> None:
    assert not is_loopback(host)
