from __future__ import annotations

import httpx
import pytest

from paceline.server.app import create_app
from paceline.server.http.auth import is_loopback
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import refused, serve


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
